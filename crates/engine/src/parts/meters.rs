//! How busy is this node?
//!
//! What a coordinator needs to know before it sends parts: the tasks that run or wait, how much of
//! its time the busiest device had a request, and how much memory the next operator would find.
//! Bytes that chunks, decoded columns and kept results hold are free for operators; what others are
//! promised is not, nor what operators never get, such as the least that the buffer keeps.
//! Not here: what a coordinator makes of it (`coscan_core::parallelism::nodes`).
//! Bounds: a report reads each device's meter and counters; utilisation is that of [`WINDOW`] at
//! least.

use std::sync::Arc;
use std::time::Duration;

use coscan_core::parallelism::nodes::NodeReport;
use coscan_storage::device::MeterSnapshot;
use parking_lot::Mutex;

use crate::session::Engine;
use crate::tasks::TaskQueue;

/// In a shorter time a device that is read from chunk by chunk looks idle or full by chance.
const WINDOW: Duration = Duration::from_millis(200);

/// The meters of a node.
pub struct NodeMeters {
    engine: Engine,
    /// Those of the parts that the node runs.
    tasks: Arc<TaskQueue>,
    devices: Mutex<Reading>,
}

/// The last reading of the devices' meters.
#[derive(Default)]
struct Reading {
    /// By the devices' ids, which are their places.
    meters: Vec<MeterSnapshot>,
    /// Utilisation of the busiest one, since the reading before. Thousandths.
    busiest_permille: u32,
}

impl NodeMeters {
    /// The meters of an engine whose parts of queries are these tasks.
    #[must_use]
    pub fn new(engine: &Engine, tasks: &Arc<TaskQueue>) -> Self {
        Self {
            engine: engine.clone(),
            tasks: Arc::clone(tasks),
            devices: Mutex::default(),
        }
    }

    /// How busy the node is now.
    #[must_use]
    pub fn report(&self) -> NodeReport {
        NodeReport {
            tasks: self.tasks.ready(),
            processors: self.tasks.cores(),
            device_permille: self.busiest_permille(),
            free_permille: self.engine.memory().free_permille(),
        }
    }

    fn busiest_permille(&self) -> u32 {
        let devices = self.engine.devices().snapshots();
        let now: Vec<MeterSnapshot> = devices.iter().map(|device| device.meter).collect();
        self.devices.lock().read(now)
    }
}

impl Reading {
    /// The utilisation of the busiest device after these readings, in thousandths.
    fn read(&mut self, now: Vec<MeterSnapshot>) -> u32 {
        let window = now.first().zip(self.meters.first());
        let window = window.map(|(now, then)| now.elapsed.saturating_sub(then.elapsed));
        if window.is_none_or(|window| window >= WINDOW) {
            let pairs = now.iter().zip(&self.meters);
            let used = pairs.map(|(now, then)| now.utilisation_since(then));
            self.busiest_permille = thousandths(used.fold(0.0, f64::max));
            self.meters = now;
        }
        self.busiest_permille
    }
}

fn thousandths(share: f64) -> u32 {
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
    let thousandths = (share * 1000.0).round() as u32; // A float cast saturates.
    thousandths
}

#[cfg(test)]
mod tests {
    use coscan_storage::device::Meter;
    use datafusion::execution::memory_pool::MemoryConsumer;

    use super::*;
    use crate::EngineConfig;

    fn meter(busy_ms: u64, elapsed_ms: u64) -> MeterSnapshot {
        MeterSnapshot {
            busy: Duration::from_millis(busy_ms),
            elapsed: Duration::from_millis(elapsed_ms),
            ..Meter::new(Duration::ZERO, 1e9).snapshot()
        }
    }

    #[test]
    fn the_busiest_device_counts_since_the_last_reading() {
        let mut reading = Reading::default();
        assert_eq!(reading.read(vec![]), 0, "no device");
        assert_eq!(reading.read(vec![meter(900, 1_000)]), 0, "none before");
        let next = vec![meter(1_000, 1_400), meter(5, 10)];
        assert_eq!(reading.read(next), 250);
        let soon = vec![meter(1_100, 1_500), meter(5, 110)];
        assert_eq!(reading.read(soon), 250, "too soon");
        let both = vec![meter(1_000, 2_400), meter(505, 1_010)];
        assert_eq!(reading.read(both), 500);
    }

    #[test]
    fn what_operators_hold_is_not_free() {
        let config = EngineConfig {
            memory_bytes: Some(64 << 20),
            ..EngineConfig::default()
        };
        let engine = Engine::new(config).unwrap();
        let meters = NodeMeters::new(&engine, &TaskQueue::new(3, 6, None));
        let idle = meters.report();
        assert_eq!((idle.tasks, idle.processors), (0, 3));
        assert!(idle.free_permille > 900, "{idle:?}");
        let join = MemoryConsumer::new("join").register(&engine.runtime().memory_pool);
        join.try_grow(32 << 20).unwrap();
        let busy = meters.report();
        assert!((300..=500).contains(&busy.free_permille), "{busy:?}");
        while join.try_grow(64 << 10).is_ok() {}
        let full = meters.report();
        assert!(full.free_permille < 50, "it gets no part: {full:?}");
    }
}
