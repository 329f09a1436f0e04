//! Parses SQL and plans large statements without delaying other connections.
//!
//! A long text takes seconds to parse, and a large statement seconds to plan. Neither yields, so
//! both run on threads of their own. While short queries run, the host's scheduler gives these
//! threads less time than those of connections and of running queries.
//!
//! Bounds: one text or statement per two cores is processed at a time, the others wait. A
//! statement whose caller gives up keeps its permit until its current step is done. The memory of
//! statements is charged to the connection's ledger.

use std::io;
use std::num::NonZero;
use std::pin::pin;
use std::sync::Arc;
use std::thread::available_parallelism;

use coscan::StatementSize;
use coscan::running::ended;
use coscan::tasks::{QueryTasks, TaskQueue};
use coscan::threads::{Slice, give_way, set_slice};
use futures::future::{Either, select};
use tokio::runtime::{Builder, Handle, Runtime};
use tokio::sync::{Semaphore, oneshot};

use super::statement::{Action, parse};
use crate::failure::{Failure, stopping};
use crate::net::{Held, Ledger};
use coscan_pg::dialect::{Written, written_parameters};

/// A parsed statement.
pub(crate) struct Parsed {
    pub(crate) action: Action,
    pub(crate) cost: Arc<Cost>,
    /// The parameters in its text.
    pub(crate) written: Written,
}

/// The memory of a statement, charged while it exists.
pub(crate) struct Cost {
    size: StatementSize,
    /// Frees the memory when dropped.
    _held: Held,
}

impl Cost {
    /// Reserves memory for a statement that is about to be parsed.
    pub(super) fn charged(ledger: &Ledger, size: StatementSize) -> Result<Self, Failure> {
        let held = ledger.hold("a statement", size.memory_bytes())?;
        Ok(Self { size, _held: held })
    }

    pub(crate) fn size(&self) -> StatementSize {
        self.size
    }

    /// Whether planning the statement takes so long that it must not delay others.
    pub(crate) fn is_large(&self) -> bool {
        self.size.plans_long()
    }

    /// Reserves memory for a copy of the plan, with this many bytes of parameters.
    pub(crate) fn copy(&self, ledger: &Ledger, parameters: usize) -> Result<Held, Failure> {
        ledger.hold("a portal", self.size.memory_bytes() + 2 * parameters)
    }
}

/// Parses all statements of a text. Empty for a text of spaces and comments.
pub(crate) fn parse_all(ledger: &Ledger, sql: &str) -> Result<Vec<Parsed>, Failure> {
    let mut all = Vec::new();
    for statement in coscan::statement_texts(sql) {
        let statement = statement?;
        if all.len() == STATEMENTS_MAX {
            let text = format!("a text has at most {STATEMENTS_MAX} statements");
            return Err(Failure::new("54000", text));
        }
        let cost = Cost::charged(ledger, statement.size)?;
        let sql = statement.text;
        let written = written_parameters(sql);
        if let Some(mut action) = parse(statement)? {
            if let Action::Prepare {
                written: in_statement,
                text,
                ..
            } = &mut action
            {
                in_statement.clone_from(&written);
                sql.clone_into(text);
            }
            all.push(Parsed {
                action,
                cost: cost.into(),
                written,
            });
        }
    }
    Ok(all)
}

/// Threads for parsing and planning that take long.
pub(crate) struct Aside {
    /// The runtime that drives timers and I/O of the work while it waits.
    queries: Handle,
    /// Knows whether short queries are running.
    tasks: Arc<TaskQueue>,
    /// Its blocking threads do the work while no short query runs; `None` only while this is
    /// dropped.
    fair: Option<Runtime>,
    /// Its blocking threads do the work while short queries run; `None` only while this is
    /// dropped.
    giving_way: Option<Runtime>,
    places: Arc<Semaphore>,
}

impl Aside {
    /// Starts the threads. Work that waits does so in `queries`, the runtime of queries, whose
    /// tasks are `tasks`.
    pub(crate) fn new(queries: Handle, tasks: Arc<TaskQueue>) -> io::Result<Self> {
        let cores = available_parallelism().map_or(1, NonZero::get);
        // The other half of the cores stays free for short statements.
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

    /// Runs work that never waits. If the future is dropped, the result is discarded.
    pub(crate) async fn run<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> Result<T, Failure> + Send + 'static,
    ) -> Result<T, Failure> {
        self.wait(None, async move { work() }).await
    }

    /// Runs work, of this query if it is one's, that may wait. If the future is dropped, the work
    /// stops at its next wait.
    pub(crate) async fn wait<T: Send + 'static>(
        &self,
        query: Option<&QueryTasks>,
        work: impl Future<Output = Result<T, Failure>> + Send + 'static,
    ) -> Result<T, Failure> {
        let Ok(place) = Arc::clone(&self.places).acquire_owned().await else {
            return Err(stopping());
        };
        let (_alive, gone) = oneshot::channel::<()>();
        let threads = if self.tasks.gives_way(query) {
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
                    // The caller has gone: this value is never received.
                    Either::Right(_) => Err(stopping()),
                }
            })
        });
        done.await.map_err(ended)?
    }
}

impl Drop for Aside {
    fn drop(&mut self) {
        // Does not wait for the threads to end, as for the threads of queries.
        let threads = [self.fair.take(), self.giving_way.take()];
        for threads in threads.into_iter().flatten() {
            threads.shutdown_background();
        }
    }
}

/// A thread at this niceness gets a sixth of a processor beside a busy thread of connections or
/// short queries, and three quarters beside a thread of long queries, so that large statements do
/// not wait minutes for each other.
const NICENESS: i32 = 7;
/// The most statements in one text. Clients send scripts statement by statement.
const STATEMENTS_MAX: usize = 20_000;
/// A text up to this size parses too fast to delay others.
pub(crate) const SHORT_BYTES: usize = 1 << 10;
