//! Which queries does a session have open, and what do they wait for?
//!
//! A query is open from its start until its streams are dropped. Each session counts its own, so
//! that queries of different sessions meet at no lock; the engine knows the sessions.
//! Not here: bytes and waits (`memory/record.rs`), the table that shows them
//! (`catalog/system_tables.rs`).
//! Bounds: sessions that have ended are forgotten when the next one begins.

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock, Weak};
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use crate::memory::{Look, Record, Wait};

/// The sessions of an engine.
#[derive(Default)]
pub(crate) struct Sessions(Mutex<Vec<Weak<OpenQueries>>>);

impl Sessions {
    /// The queries of a new session.
    pub(crate) fn begin(&self) -> Arc<OpenQueries> {
        let own = Arc::<OpenQueries>::default();
        let mut all = self.0.lock();
        all.retain(|session| session.strong_count() > 0);
        all.push(Arc::downgrade(&own));
        own
    }

    /// All open queries, ordered by session.
    pub(crate) fn queries(&self) -> Vec<QueryRow> {
        let sessions: Vec<_> = self.0.lock().iter().filter_map(Weak::upgrade).collect();
        sessions.iter().flat_map(|session| session.rows()).collect()
    }
}

/// Whose session it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SessionOwner {
    /// The number by which the owner knows the session.
    pub pid: i32,
    /// The user's name.
    pub user: String,
}

/// The open queries of a session: an extension of its configuration.
#[derive(Default)]
pub struct OpenQueries {
    owner: OnceLock<SessionOwner>,
    open: Mutex<Open>,
}

#[derive(Default)]
struct Open {
    /// The number of the next query.
    next: u64,
    queries: BTreeMap<u64, Known>,
}

/// What is known of an open query.
struct Known {
    begun: Instant,
    /// `None` until it has memory.
    record: Option<Arc<Record>>,
}

/// An open query, for `coscan.queries`.
pub(crate) struct QueryRow {
    /// `None` for a session that belongs to no connection.
    pub(crate) owner: Option<SessionOwner>,
    /// Since it began.
    pub(crate) runs: Duration,
    pub(crate) look: Look,
}

/// An open query of a session. Dropping it closes it.
pub(crate) struct OpenQuery {
    session: Arc<OpenQueries>,
    number: u64,
}

impl OpenQueries {
    /// Says whose session it is. Only the first call has an effect.
    pub fn belong_to(&self, owner: SessionOwner) {
        let _ = self.owner.set(owner);
    }

    /// What a query of the session waits for.
    #[must_use]
    pub fn wait(&self) -> Option<Wait> {
        self.looks().into_iter().find_map(|(_, look)| look.wait)
    }

    /// The user whose session it is, if somebody has said so.
    pub(crate) fn user(&self) -> Option<&str> {
        self.owner.get().map(|owner| owner.user.as_str())
    }

    /// Opens a query, and returns whether it is the only one of its session.
    pub(crate) fn open(self: &Arc<Self>) -> (OpenQuery, bool) {
        let mut open = self.open.lock();
        let number = open.next;
        open.next += 1;
        let is_only = open.queries.is_empty();
        let known = Known {
            begun: Instant::now(),
            record: None,
        };
        open.queries.insert(number, known);
        let session = Arc::clone(self);
        (OpenQuery { session, number }, is_only)
    }

    fn rows(&self) -> Vec<QueryRow> {
        let row = |(begun, look): (Instant, Look)| QueryRow {
            owner: self.owner.get().cloned(),
            runs: begun.elapsed(),
            look,
        };
        self.looks().into_iter().map(row).collect()
    }

    /// When each query began, and its memory. The core is asked without the lock.
    fn looks(&self) -> Vec<(Instant, Look)> {
        let open: Vec<_> = {
            let open = self.open.lock();
            let known = open.queries.values();
            known.map(|one| (one.begun, one.record.clone())).collect()
        };
        let look = |record: Option<Arc<Record>>| record.map_or_else(Look::default, |it| it.look());
        let looks = open.into_iter();
        looks.map(|(begun, record)| (begun, look(record))).collect()
    }
}

impl OpenQuery {
    /// From now on the query's memory is seen.
    pub(crate) fn has(&self, record: &Arc<Record>) {
        if let Some(known) = self.session.open.lock().queries.get_mut(&self.number) {
            known.record = Some(Arc::clone(record));
        }
    }
}

impl Drop for OpenQuery {
    fn drop(&mut self) {
        self.session.open.lock().queries.remove(&self.number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_session_counts_its_open_queries() {
        let all = Arc::<OpenQueries>::default();
        let (first, is_only) = all.open();
        assert!(is_only);
        let (second, is_only) = all.open();
        assert!(!is_only);
        drop((first, second));
        assert!(all.open().1);
    }

    #[test]
    fn an_engine_knows_the_open_queries_of_its_sessions() {
        let sessions = Sessions::default();
        let (first, second) = (sessions.begin(), sessions.begin());
        let owner = SessionOwner {
            pid: 7,
            user: "ada".to_owned(),
        };
        first.belong_to(owner.clone());
        let (one, _) = first.open();
        let (two, _) = second.open();
        let owners = || {
            let rows = sessions.queries().into_iter();
            rows.map(|row| row.owner).collect::<Vec<_>>()
        };
        assert_eq!(owners(), [Some(owner), None]);
        drop((one, first));
        assert_eq!(owners(), [None]);
        drop((two, second));
        assert!(owners().is_empty());
        let _third = sessions.begin();
        assert_eq!(sessions.0.lock().len(), 1, "those that ended are forgotten");
    }
}
