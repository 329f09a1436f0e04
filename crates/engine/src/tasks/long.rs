//! On which threads do long queries run?
//!
//! The host's scheduler gives each thread its fair share: beside another busy thread, half a core.
//! A short query then takes twice as long as it would alone, however early it is woken. So long
//! queries have their own threads, which give way to the threads of short queries. But the host
//! cannot tell a short query from any other program, and a thread that gives way loses to every
//! other program, too. So there are two sets of threads: one gives way and is used while there are
//! short queries, the other does not. A thread that has given way cannot raise its priority again
//! without a privilege, so the tasks change threads instead.
//!
//! Not here: which queries are long (the core); whether there are short ones (`mod.rs`); how a
//! task changes threads (`scheduled.rs`).

use std::cell::Cell;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io;

use coscan_storage::threads::{Slice, give_way, set_slice};
use tokio::runtime::{Builder, Handle, Id, Runtime};

/// Beside a busy thread of usual niceness, such a thread gets a sixteenth of a core.
const NICENESS: i32 = 12;

thread_local! {
    static THIS_THREAD: Cell<Option<(Share, Id)>> = const { Cell::new(None) };
}

/// A thread's share of a core that other threads want as well.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Share {
    /// An equal share.
    Fair,
    /// A small share: other threads go first.
    Little,
}

/// The share of the calling thread, if it is one of [`LongThreads`].
pub(super) fn share_of_this_thread() -> Option<Share> {
    THIS_THREAD.get().map(|(share, _)| share)
}

/// Identifies a set of threads between which a task may move.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Threads(u64);

impl Threads {
    /// The set that the calling thread belongs to; `None` outside of any Tokio runtime.
    pub(crate) fn current() -> Option<Self> {
        let beside = THIS_THREAD.get().map(|(_, beside)| beside);
        let id = beside.or_else(|| Some(Handle::try_current().ok()?.id()))?;
        let mut hasher = DefaultHasher::new();
        id.hash(&mut hasher);
        Some(Self(hasher.finish()))
    }
}

/// The threads on which long queries continue. Dropping this does not wait for them to end.
#[derive(Debug)]
pub struct LongThreads {
    /// `None` only while this is dropped, like the other.
    fair: Option<Runtime>,
    little: Option<Runtime>,
}

/// The runtimes that run the tasks of long queries.
#[derive(Clone, Debug)]
pub(super) struct LongHandles {
    fair: Handle,
    little: Handle,
}

impl LongThreads {
    /// Starts this many threads of either share, for the queries that begin in `beside`.
    ///
    /// # Errors
    /// The host cannot start threads.
    pub fn new(threads: usize, beside: &Handle) -> io::Result<Self> {
        Ok(Self {
            fair: Some(start(threads, Share::Fair, beside.id())?),
            little: Some(start(threads, Share::Little, beside.id())?),
        })
    }

    /// # Panics
    /// If this is being dropped.
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
        // An operator may compute for long before it notices the shutdown, and a server may be
        // dropped where waiting for threads is not allowed.
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
    async fn threads_for_long_queries_belong_to_the_runtime_they_serve() {
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
