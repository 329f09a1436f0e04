//! One chunk, processed once for all members of a class that want it.
//!
//! A job belongs to no query: it is a separate task, which ends when the chunk is done or no
//! member waits for it. It holds only the lease of the host, the member to which the chunk was
//! handed. The buffer manager knows the other members' scans (`ChunkJob`): while the job runs, it
//! hands the chunk to none of them, and it counts the chunk as consumed for those that the job
//! served. A member whose query is over leaves the job at the next batch, and so does the host.
//! Cancel safety: however the task ends, even by a panic or with its runtime, members whose states
//! were not delivered get their chunk back (`member.rs`) and work on it alone.
//! Bounds: one batch of each column, and the program's groups.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use arrow::array::{ArrayRef, RecordBatch};
use async_trait::async_trait;
use coscan_core::ScanId;
use coscan_storage::pool::{ChunkJob, ChunkLease, ColumnRequest};
use datafusion::error::Result;

use super::board::{Avoid, Board};
use super::evaluation::{BatchColumns, Program, Sharing, Stop, Work};
use super::member::{Delivered, Member, Order, TableKey};
use crate::error::external;
use crate::read::prune::WantedBatches;

/// A chunk and the members that wait for its states.
pub(crate) struct Job {
    board: Arc<Board>,
    table: TableKey,
    /// The member to which the chunk was handed.
    host: Arc<Member>,
    /// The host's order comes first. `None`: it was delivered, or the member's query is over.
    orders: Vec<Option<Order>>,
    // `orders`, `shared` and `lease` are declared in the order in which they must be dropped: a
    // member to which a returned chunk is handed must find it unclaimed.
    shared: ChunkJob,
    lease: ChunkLease,
}

impl Job {
    /// A job on the leased chunk for the members that joined (`Board::gather`), the host first.
    pub(crate) fn begin(
        board: Arc<Board>,
        table: TableKey,
        lease: ChunkLease,
        host: Arc<Member>,
        mut orders: Vec<Order>,
    ) -> Self {
        let others: Vec<ScanId> = orders.iter().skip(1).map(|order| order.scan).collect();
        let shared = lease.begin_job(&others);
        for order in &mut orders {
            order.handed_out_again = shared.gives_back_to(order.scan);
        }
        Self {
            board,
            table,
            host,
            orders: orders.into_iter().map(Some).collect(),
            shared,
            lease,
        }
    }

    /// Processes the chunk and delivers its states.
    pub(crate) async fn run(mut self) {
        let begun = Instant::now();
        self.board.totals.jobs.fetch_add(1, Ordering::Relaxed);
        let orders = self.orders.iter().flatten();
        let works: Vec<Arc<Work>> = orders.map(|order| Arc::clone(&order.work)).collect();
        let states = match self.work(&works).await {
            Ok(None) => return,
            Ok(Some(mut program)) => {
                let states = program.states(&works);
                states.map(|states| (states, program.sharing()))
            }
            Err(stop) => Err(stop),
        };
        match states {
            Ok((states, sharing)) => self.deliver(states, sharing, begun.elapsed()),
            Err(stop) => self.stop(&stop),
        }
    }

    fn deliver(&mut self, states: Vec<RecordBatch>, sharing: Sharing, took: Duration) {
        let took = took / u32::try_from(states.len()).unwrap_or(u32::MAX);
        for (order, states) in self.orders.iter_mut().zip(states) {
            let Some(order) = order.take() else { continue };
            let bytes = order.member.cache_bytes;
            if bytes > 0 {
                let (info, key) = (self.lease.info(), &order.work.key);
                self.board.cache.insert(info, key, &states, took, bytes);
            }
            let how = if Arc::ptr_eq(&order.member, &self.host) {
                Delivered::ByOwnJob(sharing)
            } else {
                Delivered::ByAnothersJob(sharing)
            };
            let scan = order.scan;
            order.deliver(states, how);
            // Only after the delivery: a chunk that is given back although its states were
            // delivered is not processed twice, because it is claimed.
            self.shared.serve(scan);
        }
    }

    /// The program after all batches; `None` if no member waits for it any more.
    async fn work(&mut self, works: &[Arc<Work>]) -> Result<Option<Program>, Stop> {
        let program = Program::new(works)?;
        let missing = || datafusion::common::internal_datafusion_err!("a work without a key");
        let mut program = program.ok_or_else(missing)?;
        let wanted = self.wanted_batches();
        if let Some(batches) = wanted.some() {
            self.lease.want_only(batches);
        }
        let mut batch = wanted.first();
        while batch < self.lease.batches().len() {
            if !self.is_awaited() {
                return Ok(None);
            }
            let source = LeaseBatch {
                lease: &self.lease,
                batch,
            };
            let rows = self.lease.batches().rows_of(batch);
            program.batch(&source, rows).await?;
            tokio::task::consume_budget().await;
            batch = wanted.after(batch);
        }
        Ok(Some(program))
    }

    /// The batches in which a member may find a row.
    fn wanted_batches(&self) -> WantedBatches {
        let batches = self.lease.batches();
        let orders = self.orders.iter().flatten();
        let wanted = orders.map(|order| order.wanted_batches(batches));
        let all = || WantedBatches::all(batches.len());
        wanted.reduce(WantedBatches::and).unwrap_or_else(all)
    }

    /// Drops the orders of members whose queries are over. False if no order is left.
    fn is_awaited(&mut self) -> bool {
        for (at, order) in self.orders.iter_mut().enumerate() {
            let over = order.take_if(|order| !order.is_awaited());
            if over.is_some() && at == 0 {
                self.lease.end_scan();
            }
        }
        self.orders.iter().any(Option::is_some)
    }

    /// Records why the job stopped. The members get their chunk back when the orders are dropped.
    fn stop(&mut self, stop: &Stop) {
        match stop {
            Stop::Failed(error) => {
                log::debug!("a chunk job failed, its members continue alone: {error}");
            }
            Stop::StatesTooLarge(class) => {
                self.board.avoid(self.table, class.clone(), Avoid::States);
            }
            Stop::TooManySets(class) => {
                self.board.avoid(self.table, class.clone(), Avoid::Sets);
                let orders = self.orders.iter_mut().flatten();
                orders.for_each(|order| order.goes_on_sharing = true);
            }
        }
    }
}

struct LeaseBatch<'a> {
    lease: &'a ChunkLease,
    batch: usize,
}

#[async_trait]
impl BatchColumns for LeaseBatch<'_> {
    async fn fetch(&self, columns: &[ColumnRequest]) -> Result<Vec<ArrayRef>> {
        let arrays = self.lease.batch(columns, self.batch).await;
        Ok(arrays.map_err(external)?.unwrap_or_default())
    }
}
