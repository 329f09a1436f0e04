//! Which runs are kept after their last packet has left, and which kept run is dropped first?
//!
//! Idea: a run that has produced all its output and retains it can stay joinable after its last
//! packet. Its output is small, its key names the versions of the files that it read, and a
//! dashboard that refreshes sends the same query again. So the run is kept without its plan, and a
//! later packet reads the retained output. The victim among kept runs is chosen by
//! Greedy-Dual-Size: the run that costs least to repeat per byte that it takes and that no query
//! has asked for lately. A run is worth `age + cost / bytes`, where `age` is the worth of the run
//! that was dropped last, so a run that no query asks for is eventually dropped, whatever its
//! cost.
//! Bounds: the number of kept runs (`Config`); their bytes, at most `Request::keep_bytes_max` of
//! the request that made the run in question. Each run counts `Request::overhead_bytes` in
//! addition to its batches.
//! Source: [QPipe05 §2.3], query caching and plan recycling; [CaoIrani97 §4] for the choice of
//! victims.

use std::collections::BTreeSet;

use super::list::{List, Producer};
use super::{Action, Operators, RunId};

/// The worth is the cost of repeating a run per byte that it takes, as a fixed-point number with
/// this many bits after the point.
const FRACTION_BITS: u32 = 20;

/// The worth of a kept run, in scanned bytes per retained byte; comparable between kept runs.
pub(super) type Worth = u128;

/// The kept runs, in the order in which they are dropped.
#[derive(Clone, Debug, Default)]
pub(super) struct KeptRuns {
    by_worth: BTreeSet<(Worth, RunId)>,
    /// The worth of the run that was dropped last.
    age: Worth,
    /// Bytes that the kept runs take, overhead included.
    pub(super) bytes: u64,
    /// Bytes of the batches of the kept runs.
    pub(super) memory: u64,
}

impl KeptRuns {
    pub(super) fn len(&self) -> usize {
        self.by_worth.len()
    }

    /// Bytes that the kept runs take in addition to their batches.
    pub(super) fn overhead(&self) -> u64 {
        self.bytes - self.memory
    }

    pub(super) fn contains(&self, worth: Worth, run: RunId) -> bool {
        self.by_worth.contains(&(worth, run))
    }
}

impl<K: Ord + Clone> Operators<K> {
    /// The last packet of a run has left: keeps the run or stops it.
    pub(super) fn keep_or_stop(&mut self, id: RunId) {
        let run = self.run(id);
        let bytes = run.memory + run.overhead_bytes;
        let whole = |list: &List| {
            list.producer == Producer::Ended && list.batches.iter().all(|batch| !batch.on_disk)
        };
        let fits = bytes <= run.keep_bytes_max && self.config.kept_max > 0;
        let keeps = run.window_open && fits && run.lists.iter().all(whole);
        if !keeps {
            return self.stop(id);
        }
        let (max, memory) = (run.keep_bytes_max, run.memory);
        let worth =
            self.kept.age + ((u128::from(run.cost_bytes) << FRACTION_BITS) / u128::from(bytes));
        while self.kept.bytes + bytes > max || self.kept.len() >= self.config.kept_max {
            self.drop_kept();
        }
        self.run_mut(id).kept = Some(worth);
        self.kept.by_worth.insert((worth, id));
        self.kept.bytes += bytes;
        self.kept.memory += memory;
        self.actions.push_back(Action::Keep { run: id });
    }

    /// A packet joins a kept run, which then no longer counts as kept.
    pub(super) fn take_up(&mut self, id: RunId) {
        let run = self.run_mut(id);
        let Some(worth) = run.kept.take() else { return };
        let (memory, overhead) = (run.memory, run.overhead_bytes);
        self.kept.by_worth.remove(&(worth, id));
        self.kept.bytes -= memory + overhead;
        self.kept.memory -= memory;
    }

    /// Drops the kept run that is worth least. `false` if no run is kept.
    pub(super) fn drop_kept(&mut self) -> bool {
        let Some((worth, id)) = self.kept.by_worth.first().copied() else {
            return false;
        };
        self.kept.age = worth;
        self.take_up(id);
        self.stop(id);
        true
    }
}
