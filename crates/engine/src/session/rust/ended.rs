//! What does a session do when a query of a program has ended?
//!
//! It carries out what `set_config()` asked for, and a failure fails the block (TB6); so does a
//! future that is dropped while the query starts. Whoever has the query may drop it, as a cursor.
//! Statements that clones of a session run at once share its board: what one of them has asked for
//! is lost if another one fails, or begins, before its rows are taken.
//! Not here: what a request is (`../settings/board/`).

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use datafusion::error::Result;
use datafusion::prelude::SessionContext;
use futures::FutureExt;
use futures::future::BoxFuture;
use tokio::sync::Mutex;

use crate::running::AtEnd;
use crate::session::Session;
use crate::session::settings::{Board, SessionSettings};

/// The end of a query. It holds no session, which a stream would keep.
pub(super) struct Ended {
    context: SessionContext,
    settings: Arc<Mutex<SessionSettings>>,
    board: Arc<Board>,
    /// The block's, if the query belongs to one.
    has_failed: Option<Arc<AtomicBool>>,
    /// Whether the query is still being started: no caller has it.
    is_pending: AtomicBool,
}

impl Ended {
    pub(super) fn of(session: &Session, has_failed: Option<Arc<AtomicBool>>) -> Self {
        Self {
            context: session.context.clone(),
            settings: Arc::clone(&session.settings),
            board: Arc::clone(&session.board),
            has_failed,
            is_pending: AtomicBool::new(true),
        }
    }

    /// Whether the block has failed, or was rolled back, which undoes what its queries set.
    fn is_undone(&self) -> bool {
        let has_failed = self.has_failed.as_ref();
        has_failed.is_some_and(|has_failed| has_failed.load(Ordering::Acquire))
    }

    fn fail_block(&self) {
        if let Some(has_failed) = &self.has_failed {
            has_failed.store(true, Ordering::Release);
        }
    }
}

impl Drop for Ended {
    fn drop(&mut self) {
        if *self.is_pending.get_mut() {
            self.fail_block();
        }
    }
}

impl AtEnd for Ended {
    fn handed_out(&self) {
        self.is_pending.store(false, Ordering::Release);
    }

    fn failed(&self) {
        self.board.end_turn();
        self.fail_block();
    }

    fn ended(&self) -> Option<BoxFuture<'static, Result<()>>> {
        self.handed_out();
        if !self.board.has_requests() {
            return None;
        }
        if self.is_undone() {
            drop(self.board.take_requests());
            return None;
        }
        let (context, settings) = (self.context.clone(), Arc::clone(&self.settings));
        let granted = async move {
            let mut settings = settings.lock().await;
            let saved = settings.saved(&context);
            let granted = grant(&context, &mut settings).await;
            if granted.is_err() {
                settings.bring_back(&context, saved).await?;
            }
            granted
        };
        Some(granted.boxed())
    }
}

/// Carries out the requests of a query that has run. Outside of a block it was a transaction of its
/// own.
async fn grant(context: &SessionContext, settings: &mut SessionSettings) -> Result<()> {
    let before = settings.modes(context);
    settings.grant(context).await?;
    if settings.is_in_block() {
        return Ok(before.check(&settings.modes(context), true, false)?);
    }
    settings.end_transaction(context).await.map(drop)
}
