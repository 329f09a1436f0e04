//! Which tests have servers at the same time? Any, or only one that is alone because it measures
//! time or the memory of the process: others would be a part of the measurement.
//!
//! A test is known by its runtime, so all its servers run in one. A test waits here only while it
//! has no server, for tests that have one and wait for nobody. A test that waits to be alone lets
//! those with a server finish, and no others begin. Waiting blocks the thread: a test that waits
//! has no task yet that would have to run meanwhile.
//! Bounds: a test fails if it waits for [`STUCK`] and no other test gives up its place.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::runtime::{Handle, Id};

/// Far longer than any test takes.
const STUCK: Duration = Duration::from_secs(600);

#[derive(Debug)]
struct Tests {
    /// The test of each server that runs. The server of a test that was alone may outlast
    /// [`Tests::alone`].
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

/// Waits until this is free. The returned flag is false if that took too long.
fn wait(
    mut tests: MutexGuard<'static, Tests>,
    is_taken: impl Fn(&Tests) -> bool,
) -> (MutexGuard<'static, Tests>, bool) {
    while is_taken(&tests) {
        let waited = CHANGED.wait_timeout(tests, STUCK);
        let (now, timeout) = waited.unwrap_or_else(PoisonError::into_inner);
        tests = now;
        if timeout.timed_out() {
            let free = !is_taken(&tests);
            return (tests, free);
        }
    }
    (tests, true)
}

/// Part of a server while it runs.
pub(super) struct Beside(Id);

impl Beside {
    /// Waits until the calling test may have a server.
    pub(super) fn others() -> Self {
        let own = Handle::current().id();
        let (mut tests, free) = wait(lock(), |tests| {
            let goes_on = tests.alone == Some(own) || tests.beside.contains(&own);
            !goes_on && (tests.alone.is_some() || tests.wait_to_be_alone > 0)
        });
        assert!(free, "{own:?} waited for {STUCK:?} beside {tests:?}");
        tests.beside.push(own);
        Self(own)
    }
}

impl Drop for Beside {
    fn drop(&mut self) {
        let mut tests = lock();
        let at = tests.beside.iter().position(|test| *test == self.0);
        tests.beside.swap_remove(at.unwrap());
        CHANGED.notify_all();
    }
}

/// As long as it exists, no server of another test runs in this process.
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
    let (mut tests, free) = wait(tests, |tests| {
        tests.alone.is_some() || !tests.beside.is_empty()
    });
    tests.wait_to_be_alone -= 1;
    // If this test fails here, others need not wait for it.
    CHANGED.notify_all();
    assert!(free, "{own:?} waited for {STUCK:?} to be alone: {tests:?}");
    tests.alone = Some(own);
    Alone(())
}

impl Drop for Alone {
    fn drop(&mut self) {
        lock().alone = None;
        CHANGED.notify_all();
    }
}
