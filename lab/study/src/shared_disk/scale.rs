//! 1,000 nodes and 4,000 disks: is the controller's choice as good there as any fixed degree?
//!
//! Idea: ten times the paper's relation, and a cache that grows with the disks. The rates are near
//! zero, a quarter and two thirds of the capacity of the arms.
//! Not here: events per second, which depend on the machine; the report has the number of events.

use coscan_sim::shared_disk::{Access, Arrivals, Relation, Room};

use super::measure::{Setting, claim_as_good, scan};
use crate::report::Report;
use crate::seeds::Seeds;

pub(crate) const NAME: &str = "rahm-scale";

const NODES: u32 = 1_000;
const DISKS: u32 = 4_000;
const DEGREES: [u32; 3] = [250, 500, 1_000];
/// Queries per second, in thousandths.
const RATES: [u64; 3] = [500, 4_000, 9_000];

fn scans(rate: u64, degree: u32) -> Setting {
    let arrivals = Arrivals::per_kilosecond(rate);
    let mut setting = Setting::new(NODES, DISKS, scan(Access::Relation, true, degree), arrivals);
    setting.relation = Relation {
        tuples: 1_250_000,
        ..setting.relation
    };
    setting.machine.cache_pages = 62_500;
    setting.extent.warm_up = 3;
    setting.extent.measured = 8;
    setting
}

/// Runs the experiment.
pub(crate) fn run(seeds: Seeds) -> Report {
    let mut report = Report::new(NAME, seeds);
    let mut events = 0;
    for rate in RATES {
        let name = format!("{} QPS", rate as f64 / 1e3);
        let mut one = |what: String, setting: Setting| {
            let measured = setting.run(seeds);
            let label = format!("{name}, {what}: response (s)");
            report.row(label, None, measured.responses());
            let disk = measured.spread(|outcome| outcome.disk_utilisation * 100.0);
            report.row(format!("{name}, {what}: disk utilisation (%)"), None, disk);
            let each = measured.outcomes.iter();
            events += each.map(|outcome| outcome.events).sum::<u64>();
            measured
        };
        let fixed = DEGREES.map(|degree| one(format!("P = {degree}"), scans(rate, degree)));
        let ours = one(
            "chosen".to_owned(),
            scans(rate, 1).chosen(NODES, Room::Found),
        );
        let claim = format!("{name}: the controller is within 10 % of the best fixed P");
        claim_as_good(&mut report, "scale", &claim, &fixed, &ours);
    }
    report.row(
        "events, millions",
        None,
        crate::report::statistics::Spread::of([events as f64 / 1e6]),
    );
    report
}
