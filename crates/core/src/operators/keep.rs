//! What stays of a run when nobody reads it any more, and what of that goes first?
//!
//! Idea: the window of an operator that has given all it has, and retains it, need not close with
//! its last packet. Its output is small, its key says which versions of which files it read, and a
//! dashboard that refreshes asks the same. So the run is kept, without its plan, and a packet that
//! arrives later takes what is there. What goes first is what costs least to do anew for the bytes
//! it takes, and has not been asked for lately (Greedy-Dual-Size): a run is worth
//! `age + cost / bytes`, where `age` is the worth of the run that went last. So what nobody asks
//! for goes in the end, however dear it was.
//! Bounds: kept runs (`Config`); bytes that they take, each [`KEPT_OVERHEAD`] more than its batches
//! (as the request allows that made the run).
//! Source: [QPipe05 §2.3], query caching and plan recycling; [CaoIrani97 §4] for what goes first.

use std::collections::BTreeSet;

use super::list::{List, Producer};
use super::{Action, Operators, RunId};

/// Bytes that a kept run takes besides its batches: its key, the schema, the lists.
pub const KEPT_OVERHEAD: u64 = 16 << 10;

/// What a run costs to do anew for each byte it takes, with so many bits after the point.
const FRACTION_BITS: u32 = 20;

/// What a kept run is worth, in scan bytes a byte; comparable between kept runs.
pub(super) type Worth = u128;

/// The runs that are kept, those that go first in front.
#[derive(Clone, Debug, Default)]
pub(super) struct KeptRuns {
    by_worth: BTreeSet<(Worth, RunId)>,
    /// What the run was worth that went last.
    age: Worth,
    /// Bytes that they take, overhead included.
    pub(super) bytes: u64,
    /// Bytes of their batches.
    pub(super) memory: u64,
}

impl KeptRuns {
    pub(super) fn len(&self) -> usize {
        self.by_worth.len()
    }

    pub(super) fn contains(&self, worth: Worth, run: RunId) -> bool {
        self.by_worth.contains(&(worth, run))
    }
}

impl<K: Ord + Clone> Operators<K> {
    /// Its last packet has left: the run is kept or stops.
    pub(super) fn keep_or_stop(&mut self, id: RunId) {
        let run = self.run(id);
        let bytes = run.memory + KEPT_OVERHEAD;
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

    /// A packet reads the run again.
    pub(super) fn take_up(&mut self, id: RunId) {
        let run = self.run_mut(id);
        let Some(worth) = run.kept.take() else { return };
        let memory = run.memory;
        self.kept.by_worth.remove(&(worth, id));
        self.kept.bytes -= memory + KEPT_OVERHEAD;
        self.kept.memory -= memory;
    }

    /// The kept run that is worth least goes. `false`: none is kept.
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
