//! Lower bounds for a workload: which bytes and which time can no schedule improve on?
//!
//! Idea: every segment that a query wants is read at least once (the *union*). For the order in
//! which a run handed chunks to scans, a buffer of the same size misses least if it evicts the
//! segment whose next use is furthest in the future [Belady66]. Segments are evicted byte by byte:
//! all pages of a segment are used together, so evicting a part of a segment is never worse, and
//! the bound is exact for pages of any size. Another order of hand-outs can need fewer bytes: the
//! union bounds all orders, Belady only the evictions of one.
//! Bounds: O(uses · log segments).

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use coscan_core::{ChunkId, ColumnId};

use crate::fragments::ClassWork;
use crate::scenario::{Outcome, Query, Scenario};

/// Lower bounds on bytes and time for all schedules of a workload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    /// Bytes that some query wants.
    pub union_bytes: u64,
    /// Bytes that the run had to read at least, given its order of hand-outs. At least
    /// `union_bytes`.
    pub belady_bytes: u64,
    /// Time that the devices need for the union, if they share it evenly from the first start on
    /// and never position the arm. Nanoseconds.
    pub device_ns: u64,
    /// Time that the network needs for the union, with one message per segment. 0 without a
    /// network. Nanoseconds.
    pub network_ns: u64,
    /// Time that the cores need for all work of the queries, with each chunk decoded once, and for
    /// reading the union. Nanoseconds.
    pub cpu_ns: u64,
}

impl Bounds {
    /// The time before which no schedule can end. Nanoseconds.
    #[must_use]
    pub fn time_ns(&self) -> u64 {
        self.device_ns.max(self.network_ns).max(self.cpu_ns)
    }
}

type Segment = (ChunkId, ColumnId);

impl Scenario {
    /// The bounds of this workload and of one run of it.
    ///
    /// # Panics
    /// `outcome` belongs to another scenario.
    #[must_use]
    pub fn bounds(&self, outcome: &Outcome) -> Bounds {
        let union = self.union();
        let union_bytes = union.iter().map(|&segment| self.bytes(segment)).sum();
        let mut device_bytes = vec![0_u64; self.devices.len()];
        for &(chunk, column) in &union {
            let device = self.layout.chunks[chunk.0 as usize].device;
            device_bytes[usize::from(device.0)] += self.bytes((chunk, column));
        }
        let transfer = |(bytes, device): (&u64, &crate::DeviceModel)| {
            nanoseconds(*bytes, device.bytes_per_second)
        };
        let device_ns = device_bytes.iter().zip(&self.devices).map(transfer).max();
        Bounds {
            union_bytes,
            belady_bytes: self.belady(outcome),
            device_ns: device_ns.unwrap_or(0),
            network_ns: self.network_ns(&union),
            cpu_ns: (self.work_ns() + self.reading_ns(&device_bytes)) / self.cores.max(1),
        }
    }

    fn network_ns(&self, union: &BTreeSet<Segment>) -> u64 {
        let Some(network) = self.network else {
            return 0;
        };
        let messages = union.iter();
        messages.map(|&s| network.takes_ns(self.bytes(s))).sum()
    }

    fn queries(&self) -> impl Iterator<Item = &Query> {
        self.streams.iter().flat_map(|stream| &stream.queries)
    }

    fn bytes(&self, (chunk, column): Segment) -> u64 {
        self.layout.chunks[chunk.0 as usize].bytes[usize::from(column.0)]
    }

    /// The segments that some query wants.
    fn union(&self) -> BTreeSet<Segment> {
        let parts = self.queries().flat_map(|query| &query.parts);
        parts
            .flat_map(|part| part.chunks.iter().map(move |chunk| (chunk, part)))
            .flat_map(|(chunk, part)| part.columns.iter().map(move |column| (chunk, column)))
            .collect()
    }

    /// CPU time of all queries, with each chunk decoded once at the highest decode price of its
    /// queries. With fragments, all members of a class want a chunk at the same moment.
    fn work_ns(&self) -> u64 {
        let mut decode: BTreeMap<ChunkId, u64> = BTreeMap::new();
        let mut classes: BTreeMap<(ChunkId, u16), ClassWork> = BTreeMap::new();
        let mut own = 0;
        for query in self.queries() {
            let class = query.class.filter(|_| self.fragments.is_some());
            for chunk in query.parts.iter().flat_map(|part| part.chunks.iter()) {
                match class {
                    Some(class) => classes.entry((chunk, class)).or_default().add(query),
                    None => own += query.cpu_ns_per_chunk,
                }
                let known = decode.entry(chunk).or_default();
                *known = (*known).max(query.decode_ns_per_chunk);
            }
        }
        if let Some(fragments) = self.fragments {
            own += classes.values().map(|c| c.ns(fragments)).sum::<u64>();
        }
        own + decode.values().sum::<u64>()
    }

    /// CPU time that reading these bytes takes.
    fn reading_ns(&self, device_bytes: &[u64]) -> u64 {
        let of =
            |(bytes, device): (&u64, &crate::DeviceModel)| (bytes >> 20) * device.cpu_ns_per_mib;
        device_bytes.iter().zip(&self.devices).map(of).sum()
    }

    /// The fewest bytes to read if chunks are used in the order of the run.
    fn belady(&self, outcome: &Outcome) -> u64 {
        // The uses of each segment, as positions in the order of hand-outs.
        let mut uses: BTreeMap<Segment, VecDeque<usize>> = BTreeMap::new();
        let wanted_at = |n: usize| {
            let handed = &outcome.handed[n];
            let query = &self.streams[handed.stream].queries[handed.at];
            let parts = query
                .parts
                .iter()
                .filter(|part| part.chunks.contains(handed.chunk));
            let columns = parts.flat_map(|part| part.columns.iter());
            columns
                .map(|column| (handed.chunk, column))
                .collect::<BTreeSet<_>>()
        };
        for n in 0..outcome.handed.len() {
            for segment in wanted_at(n) {
                uses.entry(segment).or_default().push_back(n);
            }
        }
        let mut memory = Memory::new(self.abm.budget_bytes);
        let mut read = 0;
        for n in 0..outcome.handed.len() {
            let segments = wanted_at(n);
            for &segment in &segments {
                let next = uses.get_mut(&segment).and_then(|uses| {
                    uses.pop_front();
                    uses.front().copied()
                });
                let bytes = self.bytes(segment);
                read += bytes - memory.take(segment);
                memory.put(segment, bytes, next.unwrap_or(usize::MAX));
            }
            memory.shrink(&segments);
        }
        read
    }
}

/// A buffer that knows the next use of every segment.
struct Memory {
    budget: u64,
    used: u64,
    /// The next use of each resident segment, and its resident bytes.
    resident: BTreeMap<Segment, (usize, u64)>,
    order: BTreeSet<(usize, Segment)>,
}

impl Memory {
    fn new(budget: u64) -> Self {
        Self {
            budget,
            used: 0,
            resident: BTreeMap::new(),
            order: BTreeSet::new(),
        }
    }

    /// Removes a segment; returns how many bytes of it were resident.
    fn take(&mut self, segment: Segment) -> u64 {
        let Some((next, bytes)) = self.resident.remove(&segment) else {
            return 0;
        };
        self.order.remove(&(next, segment));
        self.used -= bytes;
        bytes
    }

    /// Inserts a segment whose next use is at `next`.
    fn put(&mut self, segment: Segment, bytes: u64, next: usize) {
        self.resident.insert(segment, (next, bytes));
        self.order.insert((next, segment));
        self.used += bytes;
    }

    /// Evicts what is used last, except segments in use now, until the budget holds.
    fn shrink(&mut self, in_use: &BTreeSet<Segment>) {
        while self.used > self.budget {
            let mut others = self.order.iter().rev();
            let Some(&(next, last)) = others.find(|(_, segment)| !in_use.contains(segment)) else {
                return;
            };
            let gone = self.take(last);
            let over = (self.used + gone).saturating_sub(self.budget);
            if gone > over {
                self.put(last, gone - over, next);
            }
        }
    }
}

fn nanoseconds(bytes: u64, bytes_per_second: u64) -> u64 {
    let ns = u128::from(bytes) * 1_000_000_000 / u128::from(bytes_per_second.max(1));
    u64::try_from(ns).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: Segment = (ChunkId(0), ColumnId(0));
    const B: Segment = (ChunkId(1), ColumnId(0));
    const C: Segment = (ChunkId(2), ColumnId(0));

    /// Bytes read for uses of segments of 10 bytes.
    fn read(budget: u64, uses: &[Segment]) -> u64 {
        let mut memory = Memory::new(budget);
        let mut read = 0;
        for (n, &segment) in uses.iter().enumerate() {
            let later = uses[n + 1..].iter().position(|&use_| use_ == segment);
            read += 10 - memory.take(segment);
            memory.put(segment, 10, later.map_or(usize::MAX, |m| n + 1 + m));
            memory.shrink(&[segment].into());
            assert!(memory.used <= budget);
        }
        read
    }

    #[test]
    fn what_is_used_furthest_in_the_future_goes() {
        let uses = [A, B, C, A, B, C, A, B, C];
        assert_eq!(read(30, &uses), 30);
        // By hand: A, B and C miss, and later B, A and C miss a second time.
        assert_eq!(read(20, &uses), 60);
        assert_eq!(read(10, &uses), 90);
        // Half of a segment may stay.
        assert_eq!(read(25, &uses), 45);
    }
}
