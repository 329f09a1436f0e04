//! One chunk, worked on once for everybody who wants it.
//!
//! A job belongs to no query: it is a task of its own, which ends when the chunk is done or when
//! nobody waits for it any more. It holds the lease of the member that was handed the chunk, and
//! that of nobody else: for the other members the buffer manager has withdrawn the chunk.
//! Cancel safety: however the task ends, by a panic or with its runtime, members whose states were
//! not delivered get their chunk back (`member.rs`) and work on it alone.
//! Bounds: one batch of each column, and the program's groups.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;

use arrow::array::ArrayRef;
use async_trait::async_trait;
use coscan_storage::pool::{ChunkLease, ColumnRequest};
use datafusion::error::Result;

use super::board::{Avoid, Board};
use super::member::{Delivered, Member, Order, TableKey};
use super::program::{BatchColumns, Program, Stop};
use super::work::Work;
use crate::error::external;

/// A chunk and those who wait for what is in it.
pub(crate) struct Job {
    pub(crate) board: Arc<Board>,
    pub(crate) table: TableKey,
    pub(crate) lease: ChunkLease,
    /// Who was handed the chunk.
    pub(crate) host: Arc<Member>,
    pub(crate) orders: Vec<Order>,
}

impl Job {
    /// Works on the chunk and delivers what it leaves.
    pub(crate) async fn run(self) {
        let begun = Instant::now();
        self.board.totals.jobs.fetch_add(1, Ordering::Relaxed);
        let works: Vec<Arc<Work>> = self.orders.iter().map(|o| Arc::clone(&o.work)).collect();
        match self.work(&works).await {
            Ok(Some(mut program)) => match program.states(&works) {
                Ok(states) => {
                    let took = begun.elapsed() / u32::try_from(works.len()).unwrap_or(u32::MAX);
                    let sharing = program.sharing();
                    for (order, states) in self.orders.into_iter().zip(states) {
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
                        order.deliver(states, how);
                    }
                }
                Err(stop) => self.stop(&stop),
            },
            Ok(None) => {}
            Err(stop) => self.stop(&stop),
        }
    }

    /// `None` if nobody waits any more.
    async fn work(&self, works: &[Arc<Work>]) -> Result<Option<Program>, Stop> {
        let program = Program::new(works)?;
        let missing = || datafusion::common::internal_datafusion_err!("a work without a key");
        let mut program = program.ok_or_else(missing)?;
        for (batch, rows) in self.lease.batches().iter().enumerate() {
            if !self.orders.iter().any(Order::is_awaited) {
                return Ok(None);
            }
            let source = LeaseBatch {
                lease: &self.lease,
                batch,
            };
            program.batch(&source, rows).await?;
            tokio::task::consume_budget().await;
        }
        Ok(Some(program))
    }

    /// The members get their chunks back; those whom sharing does not serve go on alone.
    fn stop(self, stop: &Stop) {
        match stop {
            Stop::Failed(error) => {
                log::debug!("a chunk job failed, its members go on alone: {error}");
                self.orders.iter().for_each(|order| order.member.leave());
            }
            Stop::StatesTooLarge(class) => {
                self.board.avoid(self.table, class.clone(), Avoid::States);
                let of_class = self.orders.iter().filter(|o| o.work.class == *class);
                of_class.for_each(|order| order.member.leave());
            }
            Stop::TooManySets(class) => {
                self.board.avoid(self.table, class.clone(), Avoid::Sets);
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
