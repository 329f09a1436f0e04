//! What is each micro-engine running, and what has it done?

use std::collections::BTreeMap;

use super::{OperatorKind, Operators};

/// The current state of one micro-engine, and its counters.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MicroEngine {
    /// Runs that have a packet.
    pub runs: u64,
    /// Runs that are kept without a packet.
    pub kept: u64,
    /// Packets that are not hosts.
    pub satellites: u64,
    /// Packets that wait in at least one of their lists.
    pub waiting: u64,
    /// Runs that can be joined.
    pub windows_open: u64,
    /// Bytes that runs retain in memory.
    pub retained_bytes: u64,
    /// Bytes that runs take in addition to their batches.
    pub overhead_bytes: u64,
    /// Counters since the engine started.
    pub done: Done,
}

/// Counters of a micro-engine.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Done {
    /// Packets that became hosts.
    pub hosted: u64,
    /// Packets that became satellites.
    pub joined: u64,
    /// Packets that joined a kept run.
    pub late: u64,
    /// Batches taken by another packet than the one that produced them.
    pub batches_shared: u64,
    /// Batches that went to disk.
    pub batches_to_disk: u64,
    /// Satellites that were detached and ran their own plan.
    pub reruns: u64,
    /// Deadlocks that were resolved.
    pub deadlocks: u64,
    /// Runs that failed.
    pub failed: u64,
}

impl<K: Ord + Clone> Operators<K> {
    /// Every micro-engine.
    #[must_use]
    pub fn micro_engines(&self) -> BTreeMap<OperatorKind, MicroEngine> {
        let engine = |kind: OperatorKind| {
            let done = self.done.get(&kind).copied().unwrap_or_default();
            let engine = MicroEngine {
                done,
                ..MicroEngine::default()
            };
            (kind, engine)
        };
        let mut engines: BTreeMap<_, _> = OperatorKind::ALL.into_iter().map(engine).collect();
        for run in self.runs.values() {
            let engine = engines.entry(run.kind).or_default();
            let kept = run.kept.is_some();
            engine.runs += u64::from(!kept);
            engine.kept += u64::from(kept);
            engine.windows_open += u64::from(run.window_open);
            engine.retained_bytes += run.memory;
            engine.overhead_bytes += run.overhead_bytes;
            for packet in run.packets.iter().filter_map(|id| self.packets.get(id)) {
                engine.satellites += u64::from(!packet.host);
                let waits = packet.places.iter().any(|place| place.wait.is_some());
                engine.waiting += u64::from(waits);
            }
        }
        engines
    }

    pub(super) fn done(&mut self, kind: OperatorKind) -> &mut Done {
        self.done.entry(kind).or_default()
    }
}
