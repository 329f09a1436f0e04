//! Figure 2: how likely is it that a randomly filled buffer holds a chunk that a query can use?
//!
//! Equation (1) compared with the core itself: a scan of random chunks fills the buffer, then a
//! query over a range requests its first chunk, and either gets one at once or does not.

use coscan_core::{
    Abm, Action, ChunkId, ChunkLayout, ChunkSet, ColumnId, ColumnSet, DeviceId, Event, Part,
    Policy, ScanId, ScanSpec, StorageModel, TableId, TableLayout, Time,
};
use coscan_sim::Random;

use crate::coop::machine::scheduler;
use crate::report::Report;
use crate::report::figure::{Axis, Figure, Mark, Panel, Series};
use crate::report::statistics::Spread;
use crate::seeds::Seeds;

pub(crate) const NAME: &str = "coop-fig2";

const TABLE: TableId = TableId(0);
/// Chunks of the table, so that a chunk is one percent.
const CHUNKS: u32 = 100;
/// Buffers, percent of the table.
const BUFFERS: [u32; 5] = [1, 5, 10, 20, 50];
/// Ranges, percent of the table.
const RANGES: [u32; 8] = [1, 2, 5, 10, 20, 40, 60, 100];
/// Draws per point and seed.
const DRAWS: u64 = 500;

/// Equation (1).
fn equation(buffer: u32, range: u32) -> f64 {
    let none: f64 = (0..buffer)
        .map(|i| f64::from(CHUNKS.saturating_sub(range + i)) / f64::from(CHUNKS - i))
        .product();
    1.0 - none
}

/// Whether a query over `range` chunks gets one of `buffer` random resident chunks at once.
fn found(buffer: u32, range: u32, random: &mut Random) -> bool {
    let mut core = Core::new(buffer);
    let mut all: Vec<u32> = (0..CHUNKS).collect();
    random.shuffle(&mut all);
    let kept = all[..buffer as usize].iter().map(|&chunk| ChunkId(chunk));
    core.scan(ScanId(0), kept.collect());
    while core.tell(Event::ChunkRequested { scan: ScanId(0) }) != Answer::Exhausted {}
    core.tell(Event::ScanEnded { scan: ScanId(0) });
    let start = u32::try_from(random.below(u64::from(CHUNKS - range) + 1)).unwrap_or(0);
    core.scan(ScanId(1), ChunkSet::from_range(start..start + range));
    core.loads = false;
    core.tell(Event::ChunkRequested { scan: ScanId(1) }) == Answer::Chunk
}

/// The answer to a request.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Answer {
    Nothing,
    Chunk,
    Exhausted,
}

/// A core whose loads complete at once while `loads` is true, and never otherwise.
struct Core {
    abm: Abm,
    loads: bool,
}

impl Core {
    fn new(buffer: u32) -> Self {
        let mut config = scheduler(Policy::Relevance2007, StorageModel::Nsm, u64::from(buffer));
        config.loads_max = 1;
        let chunk = ChunkLayout {
            device: DeviceId(0),
            bytes: vec![1].into(),
        };
        let mut core = Self {
            abm: Abm::new(config),
            loads: true,
        };
        let layout = TableLayout {
            columns: 1,
            chunks: vec![chunk; CHUNKS as usize],
            shared: Vec::new(),
        };
        core.tell(Event::TableRegistered {
            table: TABLE,
            layout,
        });
        core
    }

    fn scan(&mut self, scan: ScanId, chunks: ChunkSet) {
        let part = Part {
            chunks,
            columns: ColumnSet::all(1),
        };
        let spec = ScanSpec {
            table: TABLE,
            parts: vec![part],
            consumers: 1,
            ordered: false,
            devices_max: None,
        };
        // The chunks that the second scan misses must not be loaded before its request, because
        // they would replace resident chunks.
        self.loads = scan == ScanId(0);
        self.tell(Event::ScanRegistered { scan, spec });
    }

    /// Sends an event; every delivered chunk is released at once.
    fn tell(&mut self, event: Event) -> Answer {
        let mut answer = Answer::Nothing;
        let mut events = vec![event];
        while let Some(event) = events.pop() {
            self.abm.handle(Time(0), event).expect("a valid event");
            while let Some(action) = self.abm.poll_action() {
                match action {
                    Action::Load { chunk, .. } if self.loads => events.push(Event::LoadCompleted {
                        table: TABLE,
                        chunk,
                        columns: vec![ColumnId(0)],
                    }),
                    Action::Deliver { scan, chunk, .. } => {
                        answer = Answer::Chunk;
                        events.push(Event::ChunkReleased { scan, chunk });
                    }
                    Action::Exhausted { .. } => answer = Answer::Exhausted,
                    _ => {}
                }
            }
        }
        answer
    }
}

pub(crate) fn run(seeds: Seeds) -> Report {
    let mut report = Report::new(NAME, seeds);
    let mut series = Vec::new();
    let mut worst: (f64, String) = (0.0, String::new());
    for (color, buffer) in BUFFERS.into_iter().enumerate() {
        let mut points = Vec::new();
        for range in RANGES {
            let of_seed = |seed: u64| {
                let mut random = Random::new(seed ^ u64::from(buffer * 1_000 + range) << 32);
                let hits = (0..DRAWS).filter(|_| found(buffer, range, &mut random));
                hits.count() as f64 / DRAWS as f64
            };
            let ours = Spread::of(seeds.iter().map(of_seed));
            let expected = equation(buffer, range);
            let label = format!("buffer {buffer} %, range {range} %: probability");
            let error = (ours.mean - expected).abs();
            if error >= worst.0 {
                worst = (error, label.clone());
            }
            report.row(label, Some(expected), ours);
            points.push((f64::from(range), ours.mean));
        }
        let ranges = (1..=CHUNKS).map(|range| (f64::from(range), equation(buffer, range)));
        series.push(Series {
            name: format!("buffer {buffer} %"),
            color,
            mark: Mark::Curve(ranges.collect()),
        });
        series.push(Series {
            name: String::new(),
            color,
            mark: Mark::Crosses(points),
        });
    }
    report.claim(
        "equation (1) and the core agree within 2 % everywhere",
        worst.0 < 0.02,
        format!("largest difference {:.4}, {}", worst.0, worst.1),
    );
    report.claim(
        "over 50 % for a 10 % scan with a buffer pool holding 10 % of the relation",
        equation(10, 10) > 0.5,
        format!("equation (1): {:.3}", equation(10, 10)),
    );
    report.figure = Some(Figure {
        title: "Figure 2: probability of finding a useful chunk".to_owned(),
        columns: 1,
        panels: vec![Panel {
            title: "equation 1 (lines) and the core (crosses)".to_owned(),
            x: Axis::new("range scanned, % of the table").within(0.0, 100.0),
            y: Axis::new("probability").within(0.0, 1.05),
            series,
        }],
    });
    report
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_equation_in_cases_that_are_plain() {
        assert!((equation(10, 1) - 0.1).abs() < 1e-9);
        assert!((equation(1, 40) - 0.4).abs() < 1e-9);
        assert!((equation(50, 60) - 1.0).abs() < 1e-9);
    }

    #[test]
    fn the_core_finds_what_is_there_and_nothing_else() {
        let mut random = Random::new(1);
        // The buffered and the wanted chunks together are more than the table, so they overlap.
        assert!((0..20).all(|_| found(50, 60, &mut random)));
        let hits = (0..2_000).filter(|_| found(10, 10, &mut random)).count();
        // 0.67; four standard deviations are 0.042.
        assert!((1_256..1_424).contains(&hits), "{hits}");
    }
}
