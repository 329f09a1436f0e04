//! The experiments by name.

use crate::error::StudyError;
use crate::report::Report;
use crate::seeds::Seeds;
use crate::shared_disk::{clustered, multi_user, non_clustered, relation, scale, variants};
use crate::{beyond, coop, smooth};

/// An experiment.
#[derive(Clone, Copy, Debug)]
pub struct Experiment {
    /// Its name on the command line.
    pub name: &'static str,
    /// A one-line description.
    pub title: &'static str,
    pub(crate) run: fn(Seeds) -> Report,
}

impl Experiment {
    /// Runs it over this many seeds, at least one.
    #[must_use]
    pub fn run(&self, seeds: u64) -> Report {
        self.run_over(Seeds::first(seeds))
    }

    /// Runs it over this many seeds, at least one, and counts for each claim in how many of `fresh`
    /// further runs it holds, each over `each` seeds that no other run has. They begin at
    /// seed 1,000, far from those with which checks were made.
    #[must_use]
    pub fn run_again(&self, seeds: u64, fresh: u64, each: u64) -> Report {
        let mut report = self.run(seeds);
        let first = seeds.max(FRESH_FROM);
        let set = |n| Seeds::from(first + n * each.max(1), each);
        let runs: Vec<Report> = (0..fresh).map(|n| (self.run)(set(n))).collect();
        report.count_fresh(&runs);
        report
    }

    fn run_over(&self, seeds: Seeds) -> Report {
        let mut report = (self.run)(seeds);
        report.add_mutations();
        report
    }
}

/// The first fresh seed. Bounds, and lengths of runs, were chosen by looking at the first seeds.
const FRESH_FROM: u64 = 1_000;

/// All experiments, in the order of the papers.
#[must_use]
pub fn experiments() -> &'static [Experiment] {
    EXPERIMENTS
}

/// The experiment of this name.
///
/// # Errors
/// [`StudyError::UnknownExperiment`].
pub fn experiment(name: &str) -> Result<Experiment, StudyError> {
    let found = EXPERIMENTS
        .iter()
        .find(|experiment| experiment.name == name);
    found.copied().ok_or_else(|| StudyError::UnknownExperiment {
        name: name.to_owned(),
        known: EXPERIMENTS
            .iter()
            .map(|e| e.name)
            .collect::<Vec<_>>()
            .join(", "),
    })
}

const EXPERIMENTS: &[Experiment] = &[
    Experiment {
        name: coop::intro::NAME,
        title: "[CoopScans07 §1] two queries of 30 and 10 pages",
        run: coop::intro::run,
    },
    Experiment {
        name: coop::fig2::NAME,
        title: "[CoopScans07 §3] chance of finding a useful chunk in a random buffer: equation 1 against the core",
        run: coop::fig2::run,
    },
    Experiment {
        name: coop::table2::NAME,
        title: "[CoopScans07 §5.2] 16 streams of 4 queries, row-wise, four policies",
        run: coop::table2::run,
    },
    Experiment {
        name: coop::fig4::NAME,
        title: "[CoopScans07 §5.2] disk accesses over time",
        run: coop::fig4::run,
    },
    Experiment {
        name: coop::fig5::NAME,
        title: "[CoopScans07 §5.2.1] fifteen mixes of speeds and range sizes",
        run: coop::fig5::run,
    },
    Experiment {
        name: coop::fig6::NAME,
        title: "[CoopScans07 §5.2.2] buffers of 12.5 to 100 % of the table",
        run: coop::fig6::run,
    },
    Experiment {
        name: coop::fig7::NAME,
        title: "[CoopScans07 §5.2.3] 1 to 32 concurrent queries",
        run: coop::fig7::run,
    },
    Experiment {
        name: coop::fig8::NAME,
        title: "[CoopScans07 §5.2.4] what scheduling costs, up to 100,000 chunks (measured on this machine)",
        run: coop::fig8::run,
    },
    Experiment {
        name: coop::table3::NAME,
        title: "[CoopScans07 §6.3] 16 streams of 4 queries, column-wise, four policies",
        run: coop::table3::run,
    },
    Experiment {
        name: coop::table4::NAME,
        title: "[CoopScans07 §6.3.1] queries that share fewer and fewer columns",
        run: coop::table4::run,
    },
    Experiment {
        name: beyond::mixes::NAME,
        title: "turns against the paper's relevance, fifteen mixes on two machines",
        run: beyond::mixes::run,
    },
    Experiment {
        name: beyond::bounds::NAME,
        title: "bytes and time over what no schedule could go below, workloads of Tables 2 and 3",
        run: beyond::bounds::run,
    },
    Experiment {
        name: beyond::fragments::NAME,
        title: "chunks worked on once for a class of queries, or for all: 30 settings of four workloads",
        run: beyond::fragments::run,
    },
    Experiment {
        name: smooth::worst::NAME,
        title: "[SmoothScan18 §6] the distributions that are worst for each policy of smooth scan",
        run: smooth::worst::run,
    },
    Experiment {
        name: smooth::density::NAME,
        title: "smooth scan between index scan and full scan, three policies and one that knows the device",
        run: smooth::density::run,
    },
    Experiment {
        name: smooth::skew::NAME,
        title: "[SmoothScan18 Figure 20] smooth scan after a dense beginning, with regions on their way",
        run: smooth::skew::run,
    },
    Experiment {
        name: relation::NAME_4A,
        title: "[RahmStohr94 §4.2] relation scan alone, 1 to 32 nodes, no prefetching",
        run: relation::run_4a,
    },
    Experiment {
        name: relation::NAME_4B,
        title: "[RahmStohr94 §4.2] relation scan alone, 1 to 32 nodes, prefetching",
        run: relation::run_4b,
    },
    Experiment {
        name: relation::NAME_5,
        title: "[RahmStohr94 §4.2] relation scans at 0.07 QPS per node",
        run: relation::run_5,
    },
    Experiment {
        name: clustered::NAME_6A,
        title: "[RahmStohr94 §4.3] clustered index scan alone",
        run: clustered::run_6a,
    },
    Experiment {
        name: clustered::NAME_6B,
        title: "[RahmStohr94 §4.3] clustered index scans at 0.6 and 2 QPS per node",
        run: clustered::run_6b,
    },
    Experiment {
        name: non_clustered::NAME_7A,
        title: "[RahmStohr94 §4.3] non-clustered index scan alone",
        run: non_clustered::run_7a,
    },
    Experiment {
        name: non_clustered::NAME_7B,
        title: "[RahmStohr94 §4.3] non-clustered index scans at 0.2 to 0.6 QPS per node",
        run: non_clustered::run_7b,
    },
    Experiment {
        name: multi_user::NAME_8,
        title: "[RahmStohr94 §4.4] degree of parallelism against arrival rate, 16 nodes, 64 disks",
        run: multi_user::run_8,
    },
    Experiment {
        name: multi_user::NAME_9,
        title: "[RahmStohr94 §4.4] relation scans beside debit-credit transactions",
        run: multi_user::run_9,
    },
    Experiment {
        name: scale::NAME,
        title: "the controller of parallelism with 1,000 nodes and 4,000 disks",
        run: scale::run,
    },
    Experiment {
        name: variants::NAME,
        title: "what hangs on what [RahmStohr94] does not say",
        run: variants::run,
    },
];
