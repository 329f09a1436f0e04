//! What every connection needs of the server.
//!
//! Not here: the listener, which makes this and accepts clients (`../listen.rs`).

use std::sync::Arc;

use coscan::Confinement;
use coscan::running::StatementThreads;
use pgwire::api::{ConnectionManager, RandomPidSecretKeyGenerator};
use tokio::sync::{Semaphore, watch};

use crate::catalog::PgCatalog;
use crate::config::SessionFactory;
use crate::net::{Phase, Senders, Tls, Unauthenticated, Verifier};
use crate::statements::KnownTexts;

/// See the file's header.
pub(crate) struct Shared {
    pub(crate) factory: SessionFactory,
    pub(crate) tls: Option<Tls>,
    pub(crate) tls_required: bool,
    pub(crate) verifier: Option<Arc<Verifier>>,
    pub(crate) catalog: PgCatalog,
    pub(crate) cancels: Arc<ConnectionManager>,
    pub(crate) keys: RandomPidSecretKeyGenerator,
    pub(crate) slots: Arc<Semaphore>,
    pub(crate) unauthenticated: Unauthenticated,
    pub(crate) phase: watch::Receiver<Phase>,
    pub(crate) known: Arc<KnownTexts>,
    pub(crate) threads: Arc<StatementThreads>,
    pub(crate) senders: Senders,
    pub(crate) confinement: Confinement,
}
