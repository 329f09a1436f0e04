//! Threads for long queries.
//!
//! Beside threads that always have something to do, the host's scheduler gives a thread its fair
//! share, half a core beside one. A short query then takes twice as long as it would alone, however
//! early it is woken. So long queries have threads of their own, which give way to those of short
//! ones. But the host cannot tell a short query from any other program, and to those a thread that
//! gives way loses as well. So there are two sets of threads: those that give way, for as long as
//! there are short queries, and those that do not. A thread that gave way cannot come back from
//! that without a right; therefore the tasks change threads.
//!
//! Not here: what a long query is (the core); whether there are short ones (`mod.rs`); how a task
//! changes threads (`scheduled.rs`).

use std::cell::Cell;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io;

use coscan_storage::threads::{Slice, give_way, set_slice};
use tokio::runtime::{Builder, Handle, Id, Runtime};

/// Beside a busy thread of the usual niceness, a sixteenth of a processor.
const NICENESS: i32 = 12;

thread_local! {
    static THIS_THREAD: Cell<Option<(Share, Id)>> = const { Cell::new(None) };
}

/// What a thread gets of a processor that other threads want as well.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Share {
    /// As much as they get.
    Fair,
    /// Little: they go first.
    Little,
}

/// The share of the calling thread, if it is one of [`LongThreads`].
pub(super) fn share_of_this_thread() -> Option<Share> {
    THIS_THREAD.get().map(|(share, _)| share)
}

/// Names the threads among which a task may move.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Threads(u64);

impl Threads {
    /// Those to which the calling thread belongs; `None` outside of any runtime of Tokio.
    pub(crate) fn current() -> Option<Self> {
        let beside = THIS_THREAD.get().map(|(_, beside)| beside);
        let id = beside.or_else(|| Some(Handle::try_current().ok()?.id()))?;
        let mut hasher = DefaultHasher::new();
        id.hash(&mut hasher);
        Some(Self(hasher.finish()))
    }
}

/// Threads on which long queries go on. Dropping this waits for nobody.
#[derive(Debug)]
pub struct LongThreads {
    /// Taken by drop only, as the other.
    fair: Option<Runtime>,
    little: Option<Runtime>,
}

/// Where tasks of long queries are spawned.
#[derive(Clone, Debug)]
pub(super) struct LongHandles {
    fair: Handle,
    little: Handle,
}

impl LongThreads {
    /// Starts so many threads of either share, for the queries that begin in `beside`.
    ///
    /// # Errors
    /// The host starts none.
    pub fn new(threads: usize, beside: &Handle) -> io::Result<Self> {
        Ok(Self {
            fair: Some(start(threads, Share::Fair, beside.id())?),
            little: Some(start(threads, Share::Little, beside.id())?),
        })
    }

    /// # Panics
    /// This is being dropped.
    pub(super) fn handles(&self) -> LongHandles {
        let handle = |of: &Option<Runtime>| {
            let runtime = of.as_ref().expect("taken by drop only");
            runtime.handle().clone()
        };
        LongHandles {
            fair: handle(&self.fair),
            little: handle(&self.little),
        }
    }
}

impl LongHandles {
    pub(super) fn of(&self, share: Share) -> &Handle {
        match share {
            Share::Fair => &self.fair,
            Share::Little => &self.little,
        }
    }
}

fn start(threads: usize, share: Share, beside: Id) -> io::Result<Runtime> {
    Builder::new_multi_thread()
        .worker_threads(threads)
        .enable_all()
        .thread_name("coscan-long")
        .on_thread_start(move || {
            match share {
                Share::Fair => set_slice(Slice::Long),
                Share::Little => give_way(NICENESS),
            }
            THIS_THREAD.set(Some((share, beside)));
        })
        .build()
}

impl Drop for LongThreads {
    fn drop(&mut self) {
        // An operator may compute for long before it notices, and waiting for threads is not
        // allowed where a server is dropped.
        for runtime in [self.fair.take(), self.little.take()].into_iter().flatten() {
            runtime.shutdown_background();
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests: a failure should panic")]
mod tests {
    use super::*;

    #[tokio::test]
    async fn threads_for_long_queries_count_as_those_beside_which_they_are() {
        let long = LongThreads::new(1, &Handle::current()).unwrap();
        let here = Threads::current();
        assert!(here.is_some());
        for share in [Share::Fair, Share::Little] {
            let there = long.handles().of(share).clone();
            let there = there.spawn(async { (share_of_this_thread(), Threads::current()) });
            assert_eq!(there.await.unwrap(), (Some(share), here));
        }
    }
}
