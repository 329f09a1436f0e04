//! Threads for long queries.
//!
//! Beside threads that always have something to do, the host's scheduler gives a thread its fair
//! share, half a core beside one. A short query then takes twice as long as it would alone, however
//! early it is woken. So long queries have threads of their own, which give way to those of short
//! ones. A thread cannot come back from that without a right; therefore a task changes threads when
//! its query becomes a long one, once.
//!
//! Not here: what a long query is (the core); which of their tasks run (`mod.rs`).

use std::cell::Cell;
use std::io;

use coscan_storage::threads::give_way;
use tokio::runtime::{Builder, Handle, Runtime};

/// Beside a busy thread of the usual niceness, a sixteenth of a processor.
const NICENESS: i32 = 12;

thread_local! {
    static IS_FOR_LONG_QUERIES: Cell<bool> = const { Cell::new(false) };
}

/// Whether the calling thread is one of a [`LongRuntime`].
pub(super) fn is_for_long_queries() -> bool {
    IS_FOR_LONG_QUERIES.get()
}

/// Threads on which long queries go on. Dropping this waits for nobody.
#[derive(Debug)]
pub struct LongRuntime(Option<Runtime>);

impl LongRuntime {
    /// Starts so many threads.
    ///
    /// # Errors
    /// The host starts none.
    pub fn new(threads: usize) -> io::Result<Self> {
        let runtime = Builder::new_multi_thread()
            .worker_threads(threads)
            .enable_all()
            .thread_name("coscan-long")
            .on_thread_start(|| {
                give_way(NICENESS);
                IS_FOR_LONG_QUERIES.set(true);
            })
            .build()?;
        Ok(Self(Some(runtime)))
    }

    /// # Panics
    /// This is being dropped.
    pub(super) fn handle(&self) -> Handle {
        let runtime = self.0.as_ref().expect("taken by drop only");
        runtime.handle().clone()
    }
}

impl Drop for LongRuntime {
    fn drop(&mut self) {
        // An operator may compute for long before it notices, and waiting for threads is not
        // allowed where a server is dropped.
        if let Some(runtime) = self.0.take() {
            runtime.shutdown_background();
        }
    }
}
