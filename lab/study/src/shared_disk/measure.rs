//! One point of a figure: a setting, measured over seeds.

use coscan_sim::shared_disk::{
    Access, Arrivals, Class, Degree, Extent, Machine, Outcome, Relation, Room, Scan, System, Work,
};

use crate::report::Report;
use crate::report::number::number;
use crate::report::statistics::{Spread, mean};
use crate::seeds::Seeds;

/// All parameters of a run except its seed.
#[derive(Clone, Debug)]
pub(crate) struct Setting {
    pub(crate) machine: Machine,
    pub(crate) relation: Relation,
    pub(crate) classes: Vec<Class>,
    pub(crate) extent: Extent,
}

/// With more queries than this in the system, the load counts as not sustained.
///
/// Loads that the paper sustains leave a few tens of queries at most.
const POPULATION_MAX: usize = 150;

impl Setting {
    /// One kind of query, on this many nodes and disks.
    pub(crate) fn new(nodes: u32, disks: u32, scan: Scan, arrivals: Arrivals) -> Self {
        let measured = match arrivals {
            Arrivals::OneByOne => 20,
            _ => 40,
        };
        Self {
            machine: Machine::figure3(nodes, disks),
            relation: Relation::figure3(disks),
            classes: vec![Class {
                work: Work::Scan(scan),
                arrivals,
                nodes: 0..nodes,
            }],
            extent: Extent {
                warm_up: measured / 3,
                measured,
                population_max: POPULATION_MAX,
            },
        }
    }

    /// Single-user mode, in which all relation scans are alike.
    pub(crate) fn alone(nodes: u32, disks: u32, scan: Scan) -> Self {
        let mut setting = Self::new(nodes, disks, scan, Arrivals::OneByOne);
        if scan.access == Access::Relation {
            setting.extent.warm_up = 1;
            setting.extent.measured = 1;
        }
        setting
    }

    /// With a disk cache that holds the whole relation.
    pub(crate) fn cached(mut self) -> Self {
        self.machine.cache_pages = 2 * self.relation.pages();
        self
    }

    pub(crate) fn run(&self, seeds: Seeds) -> Measured {
        Measured {
            outcomes: seeds.iter().map(|seed| self.system(seed).run()).collect(),
        }
    }

    /// Runs for this many simulated seconds from the first arrival, however many queries
    /// accumulate.
    pub(crate) fn run_for(mut self, seconds: u64, seeds: Seeds) -> Measured {
        self.extent = Extent {
            warm_up: 0,
            measured: u32::MAX,
            population_max: usize::MAX,
        };
        let run = |seed| {
            let mut system = self.system(seed);
            let mut steps = 0_u32;
            while system.step() {
                steps += 1;
                let look = steps.is_multiple_of(1_000);
                if look && system.outcome().measured_ns >= seconds * 1_000_000_000 {
                    break;
                }
            }
            system.outcome()
        };
        Measured {
            outcomes: seeds.iter().map(run).collect(),
        }
    }

    fn system(&self, seed: u64) -> System {
        let classes = self.classes.clone();
        System::new(self.machine, self.relation, classes, self.extent, seed + 1)
    }

    /// The scans of the first class.
    pub(crate) fn scan_mut(&mut self) -> Option<&mut Scan> {
        match &mut self.classes.first_mut()?.work {
            Work::Scan(scan) => Some(scan),
            Work::Transaction(_) => None,
        }
    }

    /// With the degree chosen while the scans run: at most this many subqueries, and this knowledge
    /// of the disk cache.
    pub(crate) fn chosen(mut self, most: u32, room: Room) -> Self {
        if let Some(scan) = self.scan_mut() {
            scan.degree = Degree::Chosen { most, room };
        }
        self
    }
}

/// A scan of the whole relation or by an index, in this many subqueries.
pub(crate) fn scan(access: Access, prefetch: bool, degree: u32) -> Scan {
    Scan::figure3(access, prefetch, Degree::Fixed(degree))
}

/// The results of a setting, by seed.
#[derive(Clone, Debug)]
pub(crate) struct Measured {
    pub(crate) outcomes: Vec<Outcome>,
}

impl Measured {
    pub(crate) fn spread(&self, of: impl Fn(&Outcome) -> f64) -> Spread {
        Spread::of(self.outcomes.iter().map(of))
    }

    /// Mean response time of class 0, seconds.
    pub(crate) fn response(&self) -> f64 {
        mean(
            self.outcomes
                .iter()
                .map(|outcome| outcome.classes[0].mean_s()),
        )
    }

    pub(crate) fn responses(&self) -> Spread {
        self.spread(|outcome| outcome.classes[0].mean_s())
    }

    /// Whether every seed sustained the load.
    pub(crate) fn sustained(&self) -> bool {
        self.outcomes.iter().all(|outcome| outcome.sustained)
    }

    pub(crate) fn disk_utilisation(&self) -> f64 {
        mean(self.outcomes.iter().map(|outcome| outcome.disk_utilisation))
    }

    pub(crate) fn processor_utilisation(&self) -> f64 {
        mean(
            self.outcomes
                .iter()
                .map(|outcome| outcome.processor_utilisation),
        )
    }
}

/// Claims that the chosen degrees respond within a tenth of the best fixed degree that is
/// sustained.
pub(crate) fn claim_as_good(
    report: &mut Report,
    figure: &str,
    claim: &str,
    fixed: &[Measured],
    ours: &Measured,
) {
    let best = least(fixed);
    let ratio = ours.response() / best;
    report.figure_claim(
        figure,
        claim,
        "(ours)",
        format!(
            "{} s, {} times the best",
            number(ours.response()),
            number(ratio)
        ),
        ours.sustained() && best.is_finite() && ratio <= 1.1,
    );
}

/// Claims that a controller that finds the room in the cache is within a fifth of one that is told.
pub(crate) fn claim_found(
    report: &mut Report,
    (figure, name): (&str, &str),
    found: &Measured,
    told: &Measured,
) {
    let ratio = found.response() / told.response();
    report.figure_claim(
        figure,
        &format!("{name}: the controller that finds the room is within 20 % of one that is told"),
        "(ours)",
        format!(
            "{} s against {} s, {} times",
            number(found.response()),
            number(told.response()),
            number(ratio)
        ),
        found.sustained() && told.sustained() && ratio <= 1.2,
    );
}

/// The smallest response time of those that are sustained; infinite if none is.
pub(crate) fn least(points: &[Measured]) -> f64 {
    let sustained = points.iter().filter(|point| point.sustained());
    sustained
        .map(Measured::response)
        .fold(f64::INFINITY, f64::min)
}
