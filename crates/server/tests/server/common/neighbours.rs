//! Which tests have servers at the same time? Any, or only one that is alone because it measures
//! time or the memory of the process: others would be a part of the measurement.
//!
//! A test is known by its runtime. A test waits here only while it has no server, for tests that
//! have one and wait for nobody. A test that waits to be alone lets those with a server finish, and
//! no others begin.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use tokio::runtime::{Handle, Id};

struct Tests {
    /// The tests that are not alone, once for each of their servers.
    beside: Vec<Id>,
    alone: Option<Id>,
    wait_to_be_alone: usize,
}

static TESTS: Mutex<Tests> = Mutex::new(Tests {
    beside: Vec::new(),
    alone: None,
    wait_to_be_alone: 0,
});

static CHANGED: Condvar = Condvar::new();

fn lock() -> MutexGuard<'static, Tests> {
    TESTS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Part of a server; none if its test is alone.
pub(super) struct Beside(Option<Id>);

impl Beside {
    /// Waits until the calling test may have a server.
    pub(super) fn others() -> Self {
        let own = Handle::current().id();
        let tests = CHANGED.wait_while(lock(), |tests| {
            let goes_on = tests.alone == Some(own) || tests.beside.contains(&own);
            !goes_on && (tests.alone.is_some() || tests.wait_to_be_alone > 0)
        });
        let mut tests = tests.unwrap_or_else(PoisonError::into_inner);
        if tests.alone == Some(own) {
            return Self(None);
        }
        tests.beside.push(own);
        Self(Some(own))
    }
}

impl Drop for Beside {
    fn drop(&mut self) {
        let Some(own) = self.0 else { return };
        let mut tests = lock();
        let at = tests.beside.iter().position(|test| *test == own);
        tests.beside.swap_remove(at.unwrap());
        CHANGED.notify_all();
    }
}

/// As long as it exists, no other test of this process has a server.
#[must_use]
pub(crate) struct Alone(());

/// Waits until no other test has a server. Comes before the calling test's first server, and after
/// any other lock.
pub(crate) fn alone() -> Alone {
    let own = Handle::current().id();
    let mut tests = lock();
    assert!(
        tests.alone != Some(own) && !tests.beside.contains(&own),
        "the test would wait for itself"
    );
    tests.wait_to_be_alone += 1;
    let tests = CHANGED.wait_while(tests, |tests| {
        tests.alone.is_some() || !tests.beside.is_empty()
    });
    let mut tests = tests.unwrap_or_else(PoisonError::into_inner);
    tests.wait_to_be_alone -= 1;
    tests.alone = Some(own);
    Alone(())
}

impl Drop for Alone {
    fn drop(&mut self) {
        lock().alone = None;
        CHANGED.notify_all();
    }
}
