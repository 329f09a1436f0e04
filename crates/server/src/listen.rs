//! Which connections get a task, and how do all tasks end?
//!
//! Shutdown has three steps. Draining: the server accepts no new clients, closes idle connections,
//! and lets statements finish. Cancelling, after the grace period: statements are cancelled, and
//! their clients get an error. Aborting, a moment later: all remaining connections are cut off.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use coscan::Confinement;
use coscan::running::{QueryRuntime, StatementThreads};
use pgwire::api::{ConnectionManager, RandomPidSecretKeyGenerator};
use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::{Semaphore, watch};
use tokio::task::{JoinError, JoinSet};
use tokio::time::{sleep, timeout};

use crate::catalog::PgCatalog;
use crate::config::{ServerConfig, SessionFactory};
use crate::error::ServerError;
use crate::net::{
    Phase, Senders, Spare, Tls, Unauthenticated, Verifier, out_of_descriptors, some_are_left,
};
use crate::protocol::{Shared, serve};

/// How often the server looks whether there are descriptors, where there were too few.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// A PostgreSQL server over DataFusion sessions, listening but not yet answering.
pub struct Server {
    listener: TcpListener,
    local_addr: SocketAddr,
    shared: Arc<Shared>,
    phase: watch::Sender<Phase>,
    grace: Duration,
}

impl Server {
    /// Starts to listen. Clients may connect at once; [`Server::run`] answers them.
    ///
    /// # Errors
    /// [`ServerError::Unprotected`] if the address is beyond loopback and there is no password,
    /// [`ServerError::Bind`] if it is taken, the others if certificate or catalog are unusable.
    ///
    /// # Panics
    /// Called outside of a Tokio runtime.
    pub async fn bind(config: ServerConfig, factory: SessionFactory) -> Result<Self, ServerError> {
        let listen = config.listen;
        if !listen.ip().is_loopback() && config.password.is_none() && !config.allow_insecure {
            return Err(ServerError::Unprotected { listen });
        }
        if config.tls_required && config.tls.is_none() {
            return Err(ServerError::TlsWithoutCertificate);
        }
        let tls = config.tls.as_ref().map(Tls::load).transpose()?;
        let user = config.user;
        let verifier = config
            .password
            .map(|password| Arc::new(Verifier::new(user, &password)));
        let catalog = PgCatalog::load().map_err(|source| ServerError::Catalog { source })?;
        let queries = QueryRuntime::new(config.query_runtime)
            .map_err(|source| ServerError::Threads { source })?;
        let threads =
            StatementThreads::new(queries).map_err(|source| ServerError::Threads { source })?;
        let unbound = |source| ServerError::Bind { listen, source };
        let listener = TcpListener::bind(listen).await.map_err(unbound)?;
        let local_addr = listener.local_addr().map_err(unbound)?;
        let (phase, phases) = watch::channel(Phase::Serving);
        let connections_max = config.connections_max.clamp(1, Semaphore::MAX_PERMITS);
        let shared = Arc::new(Shared {
            factory,
            tls,
            verifier,
            catalog,
            cancels: Arc::new(ConnectionManager::new()),
            keys: RandomPidSecretKeyGenerator::default(),
            slots: Arc::new(Semaphore::new(connections_max)),
            unauthenticated: Unauthenticated::default(),
            tls_required: config.tls_required,
            phase: phases,
            known: Arc::default(),
            threads: Arc::new(threads),
            senders: Senders::default(),
            confinement: Confinement::new(config.rights),
        });
        Ok(Self {
            listener,
            local_addr,
            shared,
            phase,
            grace: config.grace,
        })
    }

    /// The address of the listener, with the port that was chosen for port 0.
    #[must_use]
    pub fn local_addr(&self) -> SocketAddr {
        self.local_addr
    }

    /// Serves clients until `stop` resolves, then lets running statements finish for the grace
    /// period, cancels the rest, and returns when every connection is closed.
    ///
    /// Dropping the future cuts all connections off.
    ///
    /// # Errors
    /// None at present: failures of single connections are logged and end only those.
    pub async fn run(self, stop: impl Future<Output = ()>) -> Result<(), ServerError> {
        let Self {
            listener,
            shared,
            phase,
            grace,
            ..
        } = self;
        let mut connections = JoinSet::new();
        let mut spare = Spare::take();
        tokio::pin!(stop);
        // Whether descriptors are short: queries and new clients need some.
        let mut short = false;
        loop {
            short = short && !some_are_left();
            let open = shared.unauthenticated.settle(short);
            tokio::select! {
                () = &mut stop => break,
                Some(ended) = connections.join_next() => log_end(&ended),
                () = shared.unauthenticated.unsettled(short) => {}
                // Queries give descriptors back without a word.
                () = sleep(LOOK_EVERY), if short => {}
                // Bounded by STRANGER-I1 and by the slots of admitted clients; others wait in the
                // backlog.
                accepted = listener.accept(), if open => match accepted {
                    Ok((socket, peer)) => {
                        let place = shared.unauthenticated.enter(peer.ip());
                        connections.spawn(serve(socket, place, Arc::clone(&shared)));
                        // Queries of admitted clients need descriptors too.
                        short = !some_are_left();
                    }
                    Err(error) => {
                        log::warn!("cannot accept a connection: {error}");
                        short = out_of_descriptors(&error);
                        if short && shared.unauthenticated.is_empty() {
                            spare.refuse(&listener).await;
                        }
                        sleep(ACCEPT_PAUSE).await;
                    }
                },
            }
        }
        drop(listener);
        end(connections, &phase, grace).await;
        Ok(())
    }
}

/// Ends all connections; see the file's header.
async fn end(mut connections: JoinSet<()>, phase: &watch::Sender<Phase>, grace: Duration) {
    log::info!("stopping; {} connections", connections.len());
    for (next, patience) in [
        (Phase::Draining, grace),
        (Phase::Cancelling, CANCEL_PATIENCE),
    ] {
        phase.send_replace(next);
        let drained = async {
            while let Some(ended) = connections.join_next().await {
                log_end(&ended);
            }
        };
        if timeout(patience, drained).await.is_ok() {
            break;
        }
    }
    connections.shutdown().await;
}

/// Resolves on SIGTERM or SIGINT; made for [`Server::run`].
pub async fn stop_signal() {
    let (Ok(mut terminate), Ok(mut interrupt)) = (
        signal(SignalKind::terminate()),
        signal(SignalKind::interrupt()),
    ) else {
        log::warn!("cannot listen for signals; the server stops only when killed");
        return std::future::pending().await;
    };
    tokio::select! {
        _ = terminate.recv() => {}
        _ = interrupt.recv() => {}
    }
}

fn log_end(ended: &Result<(), JoinError>) {
    if let Err(error) = ended
        && !error.is_cancelled()
    {
        log::error!("a connection ended badly: {error}");
    }
}

const ACCEPT_PAUSE: Duration = Duration::from_millis(50);
/// How long cancelled statements may take to report their end.
const CANCEL_PATIENCE: Duration = Duration::from_secs(3);
