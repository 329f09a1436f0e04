//! The memory that an external sort has given back and may have again.
//!
//! A sort of DataFusion's is two consumers: the sort proper, which can spill, and its merge, which
//! cannot. Before it spills, and at its end, a sort merges what it holds: batch after batch the
//! sort gives memory back, and its merge takes as much, or less. If that memory were free for
//! others in between, the merge would be refused, and the query would fail because it sorts. So the
//! memory stays the sort's own, as its *credit*; it is not released to the budget. When the merge
//! gives memory back, as much credit goes, too. A pair is known by how it registers: the merge
//! directly after its sort, on the same thread. Whether a merge merges what its sort holds, or runs
//! that were spilled, shows when it begins.
//! Not here: what sorts get beyond their credit (`memory/pool.rs`).

use std::collections::HashMap;
use std::thread::{self, ThreadId};

use datafusion::execution::memory_pool::MemoryConsumer;
use parking_lot::Mutex;

/// How DataFusion names its external sorts.
const SORT: &str = "ExternalSorter[";
/// How DataFusion names the merges of its external sorts.
pub(crate) const MERGE: &str = "ExternalSorterMerge";

/// All external sorts of a memory pool.
#[derive(Debug, Default)]
pub(crate) struct SortCredits(Mutex<Sorts>);

#[derive(Debug, Default)]
struct Sorts {
    /// All sorts, by the consumer that can spill.
    sorts: HashMap<usize, Sort>,
    /// The sort to which each merge belongs.
    of_merge: HashMap<usize, usize>,
    /// Sorts whose merge has not registered yet.
    alone: Vec<(ThreadId, usize)>,
    credit: usize,
}

#[derive(Debug, Default)]
struct Sort {
    /// How many of its two consumers are registered.
    consumers: u32,
    /// Its credit, in bytes.
    credit: usize,
    /// Bytes that its consumers hold; credit is not among them.
    held: usize,
    /// The bytes of `held` that its merge holds.
    merged: usize,
    /// Whether there was something to merge in memory when its merge began.
    in_memory: bool,
}

/// What a sort has, in bytes, and how many sorts there are.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Share {
    /// What its consumers hold, plus its credit.
    pub(crate) bytes: usize,
    /// The part of it that the sort proper holds, which a spill would free.
    pub(crate) spillable: usize,
    pub(crate) sorts: usize,
    /// Whether its merge merges what the sort holds, not spilled runs.
    pub(crate) in_memory: bool,
}

impl Sorts {
    /// The sort to which a consumer belongs.
    fn number(&self, consumer: &MemoryConsumer) -> Option<usize> {
        if is_sort(consumer) {
            self.sorts
                .contains_key(&consumer.id())
                .then(|| consumer.id())
        } else if is_merge(consumer) {
            self.of_merge.get(&consumer.id()).copied()
        } else {
            None
        }
    }

    fn sort(&mut self, consumer: &MemoryConsumer) -> Option<&mut Sort> {
        let number = self.number(consumer)?;
        self.sorts.get_mut(&number)
    }
}

impl SortCredits {
    pub(crate) fn register(&self, consumer: &MemoryConsumer) {
        let here = thread::current().id();
        if is_sort(consumer) {
            let mut sorts = self.0.lock();
            let sort = Sort {
                consumers: 1,
                ..Sort::default()
            };
            sorts.sorts.insert(consumer.id(), sort);
            // A sort that never came to its merge is dropped from the list.
            sorts.alone.retain(|(thread, _)| *thread != here);
            sorts.alone.push((here, consumer.id()));
        } else if is_merge(consumer) {
            let mut sorts = self.0.lock();
            let Some(at) = sorts.alone.iter().position(|(thread, _)| *thread == here) else {
                return;
            };
            let (_, number) = sorts.alone.swap_remove(at);
            if let Some(sort) = sorts.sorts.get_mut(&number) {
                sort.consumers += 1;
                sorts.of_merge.insert(consumer.id(), number);
            }
        }
    }

    /// Forgets a consumer; returns the bytes of credit that become free.
    pub(crate) fn unregister(&self, consumer: &MemoryConsumer) -> usize {
        if !concerns(consumer) {
            return 0;
        }
        let mut sorts = self.0.lock();
        let Some(number) = sorts.number(consumer) else {
            return 0;
        };
        sorts.of_merge.remove(&consumer.id());
        sorts.alone.retain(|(_, alone)| *alone != consumer.id());
        let Some(sort) = sorts.sorts.get_mut(&number) else {
            return 0;
        };
        sort.consumers -= 1;
        if sort.consumers > 0 {
            return 0;
        }
        let credit = sort.credit;
        sorts.credit -= credit;
        sorts.sorts.remove(&number);
        credit
    }

    /// What the sort of this consumer has; `None` if the consumer belongs to no sort.
    pub(crate) fn share(&self, consumer: &MemoryConsumer) -> Option<Share> {
        if !concerns(consumer) {
            return None;
        }
        let mut sorts = self.0.lock();
        let count = sorts.sorts.len();
        let sort = sorts.sort(consumer)?;
        Some(Share {
            bytes: sort.held + sort.credit,
            spillable: sort.held - sort.merged,
            sorts: count,
            in_memory: sort.in_memory,
        })
    }

    /// The consumer grows; returns how many of the bytes come from its sort's credit.
    pub(crate) fn grow(&self, consumer: &MemoryConsumer, bytes: usize) -> usize {
        if !concerns(consumer) {
            return 0;
        }
        let mut sorts = self.0.lock();
        let Some(sort) = sorts.sort(consumer) else {
            return 0;
        };
        if is_merge(consumer) {
            if sort.merged == 0 {
                sort.in_memory = sort.held + sort.credit > 0;
            }
            sort.merged += bytes;
        }
        let of_credit = bytes.min(sort.credit);
        sort.credit -= of_credit;
        sort.held += bytes;
        sorts.credit -= of_credit;
        of_credit
    }

    /// Undoes [`Self::grow`]: the consumer was refused.
    pub(crate) fn refused(&self, consumer: &MemoryConsumer, bytes: usize, of_credit: usize) {
        if !concerns(consumer) {
            return;
        }
        let mut sorts = self.0.lock();
        if let Some(sort) = sorts.sort(consumer) {
            sort.held -= bytes;
            if is_merge(consumer) {
                sort.merged -= bytes;
            }
            sort.credit += of_credit;
            sorts.credit += of_credit;
        }
    }

    /// The consumer gives memory back; returns how many bytes become free.
    pub(crate) fn shrink(&self, consumer: &MemoryConsumer, bytes: usize) -> usize {
        if !concerns(consumer) {
            return bytes;
        }
        let mut sorts = self.0.lock();
        let Some(sort) = sorts.sort(consumer) else {
            return bytes;
        };
        sort.held -= bytes;
        if is_sort(consumer) {
            sort.credit += bytes;
            sorts.credit += bytes;
            return 0;
        }
        sort.merged -= bytes;
        let of_credit = bytes.min(sort.credit);
        sort.credit -= of_credit;
        sorts.credit -= of_credit;
        bytes + of_credit
    }

    /// The credit of all sorts, in bytes.
    pub(crate) fn bytes(&self) -> usize {
        self.0.lock().credit
    }
}

/// Whether a consumer can belong to a sort; most cannot, and need no lock.
fn concerns(consumer: &MemoryConsumer) -> bool {
    is_sort(consumer) || is_merge(consumer)
}

fn is_sort(consumer: &MemoryConsumer) -> bool {
    consumer.can_spill() && consumer.name().starts_with(SORT)
}

fn is_merge(consumer: &MemoryConsumer) -> bool {
    !consumer.can_spill() && consumer.name().starts_with(MERGE)
}
