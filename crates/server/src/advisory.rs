//! Advisory locks: which session holds which, who waits for whom, and when do they end?
//!
//! Idea: one table for the server. A wait is a future that tries whenever locks have been released.
//! A statement that is dropped (cancelled, timed out, abandoned by its client) no longer waits, and
//! nothing is granted to it later. Statements get a key in the order in which they came for it. One
//! that would wait for itself through others fails at once (40P01); PostgreSQL looks after a
//! second.
//! Not here: the functions (`catalog/functions/waiting.rs`), and `pg_locks`, which is empty.
//! ROLLBACK TO a savepoint, and a failure after one, keep the locks that were taken since.
//!
//! LOCK-I1: if several sessions hold a key, all of them hold it shared.
//! LOCK-I2: a session that has ended holds no lock and gets none.
//! Bounds: [`KEYS_MAX`] held keys; one wait for each call that runs.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use coscan::Effects;
use coscan_pg::PgError;
use tokio::sync::Notify;

/// The most keys that are held at a time: some megabytes.
const KEYS_MAX: usize = 1 << 14;

/// What is locked: a number of 64 bits, or two of 32. The two kinds share no keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Key {
    One(i64),
    Two(i32, i32),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    Exclusive,
    Shared,
}

impl Mode {
    fn excludes(self, other: Self) -> bool {
        self == Self::Exclusive || other == Self::Exclusive
    }
}

/// When a lock ends, unless it is unlocked before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Until {
    SessionEnds,
    /// Such a lock cannot be unlocked.
    TransactionEnds,
}

/// The locks of all sessions of a server.
#[derive(Debug, Default)]
pub(crate) struct Locks {
    state: Mutex<State>,
    /// Tells those that wait that a lock has ended, or a wait.
    changed: Notify,
}

#[derive(Debug, Default)]
struct State {
    /// The sessions that have not ended.
    sessions: BTreeSet<u64>,
    /// The holders of each key that is held.
    grants: BTreeMap<Key, Vec<Grant>>,
    /// In the order in which they came.
    waits: Vec<Wait>,
    /// The number of the next session or wait.
    next: u64,
}

#[derive(Clone, Copy, Debug)]
struct Grant {
    session: u64,
    mode: Mode,
    until: Until,
    /// How often the session has taken it, and must unlock it.
    times: u64,
}

#[derive(Clone, Copy, Debug)]
struct Wait {
    /// `None` before it has a place among the others.
    place: Option<u64>,
    session: u64,
    key: Key,
    mode: Mode,
}

impl State {
    fn number(&mut self) -> u64 {
        self.next += 1;
        self.next
    }

    /// The sessions for which this wait must wait.
    fn before(&self, wait: &Wait) -> Vec<u64> {
        let grants = self.grants.get(&wait.key).into_iter().flatten();
        let holders = grants.map(|grant| (grant.session, grant.mode));
        // A session that holds the key may take it again, although others wait for its end.
        let is_holder = holders.clone().any(|(session, _)| session == wait.session);
        let earlier = self
            .waits
            .iter()
            .take_while(|other| other.place != wait.place)
            .filter(|other| !is_holder && other.key == wait.key)
            .map(|other| (other.session, other.mode));
        let others = holders
            .chain(earlier)
            .filter(|(session, mode)| *session != wait.session && mode.excludes(wait.mode));
        others.map(|(session, _)| session).collect()
    }

    /// Whether the wait's session waits for itself.
    fn is_deadlock(&self, wait: &Wait) -> bool {
        let mut seen = BTreeSet::new();
        let mut next = self.before(wait);
        while let Some(session) = next.pop() {
            if session == wait.session {
                return true;
            }
            if seen.insert(session) {
                let waits = self.waits.iter().filter(|other| other.session == session);
                next.extend(waits.flat_map(|other| self.before(other)));
            }
        }
        false
    }

    fn grant(&mut self, wait: &Wait, until: Until) -> Result<(), PgError> {
        if self.grants.len() >= KEYS_MAX && !self.grants.contains_key(&wait.key) {
            let message = format!("at most {KEYS_MAX} advisory locks can be held");
            return Err(PgError::new("53200", message));
        }
        let grants = self.grants.entry(wait.key).or_default();
        let own = grants.iter_mut().find(|grant| {
            (grant.session, grant.mode, grant.until) == (wait.session, wait.mode, until)
        });
        match own {
            Some(own) => own.times += 1,
            None => grants.push(Grant {
                session: wait.session,
                mode: wait.mode,
                until,
                times: 1,
            }),
        }
        let is_shared = grants.iter().all(|grant| grant.mode == Mode::Shared);
        let is_own = grants.iter().all(|grant| grant.session == wait.session);
        assert!(is_shared || is_own, "LOCK-I1: a lock is not exclusive");
        Ok(())
    }
}

impl Locks {
    /// A session that may take locks, and notes with its `effects` when it has taken or unlocked
    /// one: a statement that runs again would do that twice.
    pub(crate) fn open(self: &Arc<Self>, effects: &Arc<Effects>) -> Owner {
        let mut state = self.state();
        let session = state.number();
        state.sessions.insert(session);
        drop(state);
        Owner {
            locks: Arc::clone(self),
            session,
            effects: Arc::clone(effects),
            in_transaction: AtomicBool::new(false),
        }
    }

    /// Takes a lock even if a panic has poisoned it: no change can be seen half done.
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A session, as the owner of locks.
#[derive(Debug)]
pub(crate) struct Owner {
    locks: Arc<Locks>,
    session: u64,
    effects: Arc<Effects>,
    /// Whether it may hold locks that end with its transaction.
    in_transaction: AtomicBool,
}

impl Owner {
    /// Takes a lock, if it is free.
    ///
    /// # Errors
    /// 53200 beyond [`KEYS_MAX`]; 57P01 if the session has ended (LOCK-I2).
    pub(crate) fn try_lock(&self, key: Key, mode: Mode, until: Until) -> Result<bool, PgError> {
        self.attempt(&self.wait(key, mode), until)
    }

    /// Waits for a lock, and takes it. Dropping the future ends the wait.
    ///
    /// # Errors
    /// As [`Owner::try_lock`]; 40P01 if the session waits for itself.
    pub(crate) async fn lock(&self, key: Key, mode: Mode, until: Until) -> Result<(), PgError> {
        let mut queued: Option<Queued<'_>> = None;
        loop {
            // Made before the look at the locks, so that no change in between is missed.
            let changed = self.locks.changed.notified();
            let place = queued.as_ref().map(|queued| queued.place);
            let wait = Wait {
                place,
                ..self.wait(key, mode)
            };
            if self.attempt(&wait, until)? {
                return Ok(());
            }
            if queued.is_none() {
                let place = Some(queued.insert(self.queue(wait)).place);
                // Only once: a grant makes no session wait for one for which it did not wait
                // already, and later waits look for themselves. With many that wait, a look for
                // each whenever a lock ends would take most of the server's time.
                if self.locks.state().is_deadlock(&Wait { place, ..wait }) {
                    return Err(PgError::new("40P01", "deadlock detected"));
                }
            }
            changed.await;
        }
    }

    fn wait(&self, key: Key, mode: Mode) -> Wait {
        Wait {
            place: None,
            session: self.session,
            key,
            mode,
        }
    }

    /// Takes the lock, if no other session is before this one.
    fn attempt(&self, wait: &Wait, until: Until) -> Result<bool, PgError> {
        let mut state = self.locks.state();
        if !state.sessions.contains(&self.session) {
            return Err(PgError::new("57P01", "the session has ended"));
        }
        if !state.before(wait).is_empty() {
            return Ok(false);
        }
        state.grant(wait, until)?;
        self.effects.note();
        if until == Until::TransactionEnds {
            self.in_transaction.store(true, Ordering::Release);
        }
        Ok(true)
    }

    fn queue(&self, wait: Wait) -> Queued<'_> {
        let mut state = self.locks.state();
        let place = state.number();
        let queued = Wait {
            place: Some(place),
            ..wait
        };
        state.waits.push(queued);
        let locks = &self.locks;
        Queued { locks, place }
    }

    /// Unlocks once. False if the session does not hold this lock until its end.
    pub(crate) fn unlock(&self, key: Key, mode: Mode) -> bool {
        let mut state = self.locks.state();
        let Some(grants) = state.grants.get_mut(&key) else {
            return false;
        };
        let is_own = |grant: &Grant| {
            let own = (self.session, mode, Until::SessionEnds);
            (grant.session, grant.mode, grant.until) == own
        };
        let Some(at) = grants.iter().position(is_own) else {
            return false;
        };
        self.effects.note();
        grants[at].times -= 1;
        if grants[at].times == 0 {
            grants.remove(at);
            if grants.is_empty() {
                state.grants.remove(&key);
            }
            drop(state);
            self.locks.changed.notify_waiters();
        }
        true
    }

    /// Unlocks all that would end with the session.
    pub(crate) fn unlock_all(&self) {
        self.release(|grant| grant.until == Until::SessionEnds);
    }

    /// Ends the locks of the transaction: committed, rolled back, or failed for good.
    pub(crate) fn end_transaction(&self) {
        if self.in_transaction.swap(false, Ordering::AcqRel) {
            self.release(|grant| grant.until == Until::TransactionEnds);
        }
    }

    /// Ends all locks (LOCK-I2).
    fn end(&self) {
        self.locks.state().sessions.remove(&self.session);
        self.release(|_| true);
    }

    fn release(&self, ends: impl Fn(&Grant) -> bool) {
        let mut state = self.locks.state();
        state.grants.retain(|_, grants| {
            grants.retain(|grant| grant.session != self.session || !ends(grant));
            !grants.is_empty()
        });
        drop(state);
        self.locks.changed.notify_waiters();
    }
}

impl Drop for Owner {
    fn drop(&mut self) {
        self.end();
    }
}

/// A place among those that wait, which ends with the value.
struct Queued<'a> {
    locks: &'a Locks,
    place: u64,
}

impl Drop for Queued<'_> {
    fn drop(&mut self) {
        let mut state = self.locks.state();
        state.waits.retain(|wait| wait.place != Some(self.place));
        drop(state);
        self.locks.changed.notify_waiters();
    }
}

/// The locks of a connection, which end with it, although a query that still runs on another
/// thread may know them.
pub(crate) struct OfConnection(pub(crate) Option<Arc<Owner>>);

impl OfConnection {
    /// See [`Owner::unlock_all`].
    pub(crate) fn unlock_all(&self) {
        if let Some(owner) = &self.0 {
            owner.unlock_all();
        }
    }

    /// See [`Owner::end_transaction`].
    pub(crate) fn end_transaction(&self) {
        if let Some(owner) = &self.0 {
            owner.end_transaction();
        }
    }
}

impl Drop for OfConnection {
    fn drop(&mut self) {
        if let Some(owner) = &self.0 {
            owner.end();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;

    use futures::FutureExt;

    use super::*;

    const KEY: Key = Key::One(1);
    const OTHER: Key = Key::Two(0, 1);
    use Mode::{Exclusive, Shared};
    use Until::{SessionEnds, TransactionEnds};

    fn sessions<const N: usize>() -> [Owner; N] {
        let locks = Arc::new(Locks::default());
        [(); N].map(|()| locks.open(&Arc::default()))
    }

    #[test]
    fn shared_locks_exclude_exclusive_ones() {
        let [a, b] = sessions();
        let locked = |owner: &Owner, mode| owner.try_lock(KEY, mode, SessionEnds).unwrap();
        assert!(locked(&a, Shared) && locked(&b, Shared));
        assert!(!locked(&a, Exclusive));
        assert!(!b.unlock(KEY, Exclusive) && b.unlock(KEY, Shared));
        assert!(locked(&a, Exclusive) && !locked(&b, Shared));
        // Taken twice, in two modes.
        assert!(a.unlock(KEY, Exclusive) && locked(&b, Shared));
        assert!(a.unlock(KEY, Shared) && !a.unlock(KEY, Shared));
        assert!(b.try_lock(OTHER, Exclusive, SessionEnds).unwrap());
    }

    #[test]
    fn transactions_and_sessions_end_locks() {
        let [a, b] = sessions();
        assert!(a.try_lock(KEY, Exclusive, TransactionEnds).unwrap());
        assert!(a.try_lock(OTHER, Exclusive, SessionEnds).unwrap());
        assert!(!a.unlock(KEY, Exclusive));
        a.unlock_all();
        assert!(b.try_lock(OTHER, Shared, SessionEnds).unwrap());
        assert!(!b.try_lock(KEY, Shared, SessionEnds).unwrap());
        a.end_transaction();
        assert!(b.try_lock(KEY, Shared, SessionEnds).unwrap());
        drop(OfConnection(Some(Arc::new(b))));
        assert!(a.try_lock(KEY, Exclusive, SessionEnds).unwrap());
        a.end();
        let refused = a.try_lock(KEY, Shared, SessionEnds).unwrap_err();
        assert_eq!(refused.code(), "57P01");
    }

    #[test]
    fn waits_are_granted_in_order_and_end_with_their_statement() {
        let [a, b, c] = sessions();
        assert!(a.try_lock(KEY, Shared, SessionEnds).unwrap());
        let mut cancelled = Box::pin(b.lock(KEY, Exclusive, SessionEnds));
        assert!(cancelled.as_mut().now_or_never().is_none());
        // Behind the wait for an exclusive lock, except for a holder.
        assert!(!c.try_lock(KEY, Shared, SessionEnds).unwrap());
        assert!(a.try_lock(KEY, Shared, SessionEnds).unwrap());
        let mut last = pin!(c.lock(KEY, Shared, SessionEnds));
        assert!(last.as_mut().now_or_never().is_none());
        drop(cancelled);
        assert!(last.now_or_never().unwrap().is_ok());
        a.unlock_all();
        assert!(!b.try_lock(KEY, Exclusive, SessionEnds).unwrap());
    }

    #[test]
    fn deadlocks_are_refused() {
        let [a, b] = sessions();
        assert!(a.try_lock(KEY, Exclusive, SessionEnds).unwrap());
        assert!(b.try_lock(OTHER, Exclusive, TransactionEnds).unwrap());
        let mut first = pin!(a.lock(OTHER, Exclusive, SessionEnds));
        assert!(first.as_mut().now_or_never().is_none());
        let second = b.lock(KEY, Shared, SessionEnds).now_or_never().unwrap();
        assert_eq!(second.unwrap_err().code(), "40P01");
        b.end_transaction();
        assert!(first.now_or_never().unwrap().is_ok());
    }
}
