//! What do the server's connections do, and what do they wait for?
//!
//! Each connection has a place of its own. It writes there when a message with a statement comes,
//! and when the client may send the next one. Whoever reads `pg_stat_activity` finds the waits
//! where they happen: at the socket (`net/client_wait.rs`), and in the engine
//! (`coscan::OpenQueries`).
//! Not here: the memory of queries (`coscan.queries`); the rows for those who may see little
//! (`rows.rs`).
//! Bounds: at most [`TEXT_BYTES_MAX`] bytes of a statement's text are kept.

use std::fmt;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

use coscan::session_settings::Board;
use coscan::{BlockStatus, OpenQueries, SessionOwner};
use coscan_pg::Moments;
use datafusion::prelude::SessionContext;

use super::grid::Cell;
use crate::net::ClientWait;
use crate::origins::Origins;

/// PostgreSQL's default of `track_activity_query_size`, less the byte at the end.
const TEXT_BYTES_MAX: usize = 1023;

/// The admitted connections of a server, in the order in which they came.
#[derive(Default)]
pub(crate) struct Backends(Mutex<Vec<Arc<Backend>>>);

/// What others learn of a connection.
pub(crate) struct Backend {
    pub(super) pid: i32,
    pub(super) user: String,
    pub(super) database: String,
    peer: SocketAddr,
    /// In microseconds since 1970.
    begun_us: i64,
    board: Arc<Board>,
    origins: Arc<Origins>,
    moments: Moments,
    client: Arc<ClientWait>,
    /// `None` if its queries are not an engine's.
    queries: Option<Arc<OpenQueries>>,
    doing: Mutex<Doing>,
}

/// What a connection does.
struct Doing {
    /// `None` while a statement runs.
    idle: Option<BlockStatus>,
    /// In microseconds since 1970.
    since_us: i64,
    /// The beginning of the last statement's text.
    text: String,
}

/// A connection's place among the others, until this is dropped.
pub(crate) struct Listed {
    all: Arc<Backends>,
    own: Arc<Backend>,
}

impl Backends {
    /// Lists a connection.
    pub(crate) fn enter(self: &Arc<Self>, backend: Backend) -> Listed {
        let own = Arc::new(backend);
        locked(&self.0).push(Arc::clone(&own));
        let all = Arc::clone(self);
        Listed { all, own }
    }

    pub(super) fn all(&self) -> Vec<Arc<Backend>> {
        locked(&self.0).clone()
    }
}

impl fmt::Debug for Backends {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Backends").finish_non_exhaustive()
    }
}

impl Backend {
    /// A connection of `user` to whose client `client` leads, with its session.
    pub(crate) fn new(
        pid: i32,
        user: &str,
        (peer, client): (SocketAddr, Arc<ClientWait>),
        session: &SessionContext,
        moments: Moments,
    ) -> Self {
        let state = session.state_ref();
        let state = state.read();
        let config = state.config();
        let queries = config.get_extension::<OpenQueries>();
        if let Some(queries) = &queries {
            let user = user.to_owned();
            queries.belong_to(SessionOwner { pid, user });
        }
        let begun_us = now_us();
        let doing = Doing {
            idle: Some(BlockStatus::Idle),
            since_us: begun_us,
            text: String::new(),
        };
        Self {
            pid,
            user: user.to_owned(),
            database: config.options().catalog.default_catalog.clone(),
            peer,
            begun_us,
            board: config.get_extension().unwrap_or_default(),
            origins: config.get_extension().unwrap_or_default(),
            moments,
            client,
            queries,
            doing: Mutex::new(doing),
        }
    }

    pub(super) fn application_name(&self) -> Option<String> {
        self.board.value("application_name")
    }

    /// The cells of columns that only its own user sees.
    pub(super) fn private(&self) -> Vec<(&'static str, Cell)> {
        let (idle, since_us, text) = {
            let doing = locked(&self.doing);
            (doing.idle, doing.since_us, doing.text.clone())
        };
        let (kind, event) = self.wait().unzip();
        vec![
            ("client_addr", self.peer.ip().to_string().into()),
            ("client_port", i32::from(self.peer.port()).into()),
            ("backend_start", time(Some(self.begun_us))),
            ("xact_start", time(self.moments.transaction())),
            ("query_start", time(Some(self.moments.last_statement_us()))),
            ("state_change", time(Some(since_us))),
            ("wait_event_type", kind.map_or(Cell::Null, Cell::from)),
            ("wait_event", event.map_or(Cell::Null, Cell::from)),
            ("state", state(idle).into()),
            ("query", text.into()),
            ("backend_type", "client backend".into()),
        ]
    }

    /// The type and the name of what the connection waits for.
    fn wait(&self) -> Option<(&'static str, &'static str)> {
        if let Some(event) = self.client.event() {
            return Some(("Client", event));
        }
        let wait = self.queries.as_ref()?.wait()?;
        Some(("Extension", wait.event()))
    }
}

impl Listed {
    /// A statement with this text begins.
    pub(crate) fn begins(&self, text: &str) {
        self.own.runs().keep(text);
    }

    /// The prepared statement of this name begins; the unnamed one is the last that was parsed.
    pub(crate) fn begins_prepared(&self, name: &str) {
        let mut doing = self.own.runs();
        self.own.origins.read(name, |text| doing.keep(text));
    }

    /// The statement that was begun last goes on.
    pub(crate) fn goes_on(&self) {
        drop(self.own.runs());
    }

    /// The client may begin the next statement.
    pub(crate) fn idles(&self, status: BlockStatus) {
        let mut doing = locked(&self.own.doing);
        (doing.idle, doing.since_us) = (Some(status), now_us());
    }
}

impl Drop for Listed {
    fn drop(&mut self) {
        locked(&self.all.0).retain(|other| !Arc::ptr_eq(other, &self.own));
    }
}

impl Backend {
    /// A statement runs from now on.
    fn runs(&self) -> MutexGuard<'_, Doing> {
        let mut doing = locked(&self.doing);
        (doing.idle, doing.since_us) = (None, self.moments.last_statement_us());
        doing
    }
}

impl Doing {
    fn keep(&mut self, text: &str) {
        let mut end = text.len().min(TEXT_BYTES_MAX);
        while !text.is_char_boundary(end) {
            end -= 1;
        }
        self.text.clear();
        self.text.push_str(&text[..end]);
    }
}

fn state(idle: Option<BlockStatus>) -> &'static str {
    match idle {
        None => "active",
        Some(BlockStatus::Idle) => "idle",
        Some(BlockStatus::Open) => "idle in transaction",
        Some(BlockStatus::Failed) => "idle in transaction (aborted)",
    }
}

/// A time in microseconds since 1970; 0 is none.
fn time(us: Option<i64>) -> Cell {
    us.filter(|us| *us != 0).map_or(Cell::Null, Cell::Time)
}

fn now_us() -> i64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    let us = now.map_or(0, |now| now.as_micros());
    i64::try_from(us).unwrap_or(i64::MAX)
}

/// Takes a lock even if a panic has poisoned it: no panic leaves the values incomplete.
fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
