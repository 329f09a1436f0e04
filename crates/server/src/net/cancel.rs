//! What can end a statement before its last row? A cancel request, its timeout, the server's
//! shutdown.
//!
//! A statement runs beside its [`Interrupt`]: the first to finish wins, and the other is dropped.
//! Dropping a query drops its stream (S3). A statement whose changes are appearing is waited for
//! (`CommitPoint`), so that a client that is told "canceled" may do its work again.

use std::sync::Arc;
use std::time::Duration;

use coscan::CommitPoint;
use futures::channel::oneshot;
use pgwire::api::ConnectionHandle;
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until};

use crate::failure::{Failure, stopping};

/// How far the shutdown has come. Only moves forward.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Phase {
    /// Connections are accepted and statements run.
    Serving,
    /// Running statements may finish; idle connections close.
    Draining,
    /// The grace period is over: running statements are cancelled.
    Cancelling,
}

/// The events that may end one statement early.
pub(crate) struct Interrupt {
    cancelled: Option<oneshot::Receiver<()>>,
    deadline: Option<Instant>,
    /// Up to when the statement can be given up.
    pub(crate) commit_point: Arc<CommitPoint>,
    phase: watch::Receiver<Phase>,
}

impl Interrupt {
    /// The interrupt of a statement that starts now. Cancel requests that came earlier have no
    /// effect.
    pub(crate) async fn start(
        handle: &ConnectionHandle,
        timeout: Option<Duration>,
        phase: watch::Receiver<Phase>,
    ) -> Self {
        Self {
            cancelled: Some(handle.start_query().await),
            deadline: timeout.map(|timeout| Instant::now() + timeout),
            commit_point: Arc::default(),
            phase,
        }
    }

    /// Resolves when the statement must end. Cancel safe.
    pub(crate) async fn fired(&mut self) -> Failure {
        let Self {
            cancelled,
            deadline,
            phase,
            ..
        } = self;
        tokio::select! {
            () = requested(cancelled) => {
                Failure::new("57014", "canceling statement due to user request")
            }
            () = passed(*deadline) => {
                Failure::new("57014", "canceling statement due to statement timeout")
            }
            () = reached(phase, Phase::Cancelling) => stopping(),
        }
    }
}

/// Resolves once the shutdown has reached `wanted`. Cancel safe.
pub(crate) async fn reached(phase: &mut watch::Receiver<Phase>, wanted: Phase) {
    if phase.wait_for(|phase| *phase >= wanted).await.is_err() {
        // The server was dropped without a shutdown; its tasks are about to be aborted.
        std::future::pending::<()>().await;
    }
}

async fn requested(cancelled: &mut Option<oneshot::Receiver<()>>) {
    if let Some(receiver) = cancelled {
        let result = receiver.await;
        *cancelled = None;
        if result.is_ok() {
            return;
        }
    }
    std::future::pending::<()>().await;
}

/// Resolves at the deadline, if there is one. Cancel safe.
pub(crate) async fn passed(deadline: Option<Instant>) {
    match deadline {
        Some(deadline) => sleep_until(deadline).await,
        None => std::future::pending::<()>().await,
    }
}

/// How long the server waits for a client to read its last message.
pub(crate) const GOODBYE_TIMEOUT: Duration = Duration::from_secs(2);
