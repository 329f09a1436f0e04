//! Parses SQL and plans large statements without delaying other connections.
//!
//! A long text takes seconds to read, and a long statement seconds to plan. Neither yields, so both
//! run on threads of their own. While there are short queries the host's scheduler gives these
//! threads less than those of connections and of running queries.
//!
//! Bounds: a text or statement for two cores is worked on there at a time, the others wait; a
//! statement that is given up meanwhile keeps its place until its step is done. The memory of
//! statements is entered in the connection's ledger.

use std::io;
use std::num::NonZero;
use std::pin::pin;
use std::sync::Arc;
use std::thread::available_parallelism;

use coscan::StatementSize;
use coscan::running::ended;
use coscan::tasks::TaskQueue;
use coscan::threads::{Slice, give_way, set_slice};
use futures::future::{Either, select};
use tokio::runtime::{Builder, Handle, Runtime};
use tokio::sync::{Semaphore, oneshot};

use crate::failure::{Failure, stopping};
use crate::ledger::{Held, Ledger};
use crate::statement::{Action, parse};
use coscan_pg::dialect::{Written, written_parameters};

/// A statement that was parsed.
pub(crate) struct Parsed {
    pub(crate) action: Action,
    pub(crate) cost: Arc<Cost>,
    /// The parameters in its text.
    pub(crate) written: Written,
}

/// What a statement costs while it exists.
pub(crate) struct Cost {
    size: StatementSize,
    /// Gives the memory back when it is dropped.
    _held: Held,
}

impl Cost {
    pub(crate) fn size(&self) -> StatementSize {
        self.size
    }

    /// Whether the statement takes long to plan, so that planning it must not delay others.
    pub(crate) fn is_large(&self) -> bool {
        self.size.plans_long()
    }

    /// Holds the memory for a copy of its plan, with so many bytes of parameters.
    pub(crate) fn copy(&self, ledger: &Ledger, parameters: usize) -> Result<Held, Failure> {
        ledger.hold("a portal", self.size.memory_bytes() + 2 * parameters)
    }
}

/// Reads all statements of a text. Empty for nothing but spaces and comments.
pub(crate) fn parse_all(ledger: &Ledger, sql: &str) -> Result<Vec<Parsed>, Failure> {
    let mut all = Vec::new();
    for statement in coscan::statement_texts(sql) {
        let statement = statement?;
        if all.len() == STATEMENTS_MAX {
            let text = format!("a text has at most {STATEMENTS_MAX} statements");
            return Err(Failure::new("54000", text));
        }
        let size = statement.size;
        let held = ledger.hold("a statement", size.memory_bytes())?;
        let sql = statement.text;
        let written = written_parameters(sql);
        if let Some(mut action) = parse(statement)? {
            if let Action::Prepare {
                written: said,
                text,
                ..
            } = &mut action
            {
                said.clone_from(&written);
                sql.clone_into(text);
            }
            let cost = Cost { size, _held: held };
            all.push(Parsed {
                action,
                cost: cost.into(),
                written,
            });
        }
    }
    Ok(all)
}

/// Threads for work that takes long.
pub(crate) struct Aside {
    /// Where the work is polled when it waits.
    queries: Handle,
    /// Knows whether there are short queries.
    tasks: Arc<TaskQueue>,
    /// Its blocking threads do the work; `None` only while this is dropped.
    fair: Option<Runtime>,
    /// Its blocking threads do the work while there are short queries. The same.
    giving_way: Option<Runtime>,
    places: Arc<Semaphore>,
}

impl Aside {
    /// Starts the threads. Where the work waits, it does so in `queries`, the runtime of queries,
    /// whose tasks are `tasks`.
    pub(crate) fn new(queries: Handle, tasks: Arc<TaskQueue>) -> io::Result<Self> {
        let cores = available_parallelism().map_or(1, NonZero::get);
        // As many again are left for those who have short statements.
        let large_max = (cores / 2).max(1);
        let threads = |begin: fn()| {
            Builder::new_multi_thread()
                .worker_threads(1)
                .max_blocking_threads(large_max)
                .thread_name("coscan-aside")
                .on_thread_start(begin)
                .build()
        };
        Ok(Self {
            queries,
            tasks,
            fair: Some(threads(|| set_slice(Slice::Long))?),
            giving_way: Some(threads(|| give_way(NICENESS))?),
            places: Arc::new(Semaphore::new(large_max)),
        })
    }

    /// Runs work that waits for nothing. If the future is dropped, so is the work's outcome.
    pub(crate) async fn run<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> Result<T, Failure> + Send + 'static,
    ) -> Result<T, Failure> {
        self.wait(async move { work() }).await
    }

    /// Runs work that waits now and then. If the future is dropped, the work stops where it waits
    /// next.
    pub(crate) async fn wait<T: Send + 'static>(
        &self,
        work: impl Future<Output = Result<T, Failure>> + Send + 'static,
    ) -> Result<T, Failure> {
        let Ok(place) = Arc::clone(&self.places).acquire_owned().await else {
            return Err(stopping());
        };
        let (_alive, gone) = oneshot::channel::<()>();
        let threads = if self.tasks.protects_short() {
            &self.giving_way
        } else {
            &self.fair
        };
        let Some(threads) = threads else {
            return Err(stopping());
        };
        let queries = self.queries.clone();
        let done = threads.spawn_blocking(move || {
            let _place = place;
            queries.block_on(async {
                match select(pin!(work), gone).await {
                    Either::Left((outcome, _)) => outcome,
                    // The caller has gone and does not receive this.
                    Either::Right(_) => Err(stopping()),
                }
            })
        });
        done.await.map_err(ended)?
    }
}

impl Drop for Aside {
    fn drop(&mut self) {
        // Nobody waits for these threads to end, as for the threads of queries.
        let threads = [self.fair.take(), self.giving_way.take()];
        for threads in threads.into_iter().flatten() {
            threads.shutdown_background();
        }
    }
}

/// Beside a busy thread of connections or of short queries, a sixth of a processor; beside one for
/// long queries three quarters, so that large statements do not wait for minutes for each other.
const NICENESS: i32 = 7;
/// Statements in one text. Clients send scripts statement by statement.
const STATEMENTS_MAX: usize = 20_000;
/// Texts of up to this size are read too fast for anybody to notice.
pub(crate) const SHORT_BYTES: usize = 1 << 10;
