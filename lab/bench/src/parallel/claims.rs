//! Does the run show what it should?
//!
//! Each claim is decided by points of this run. A claim without points is left out.

use coscan_study::Claim;

use super::experiments::{CHOSEN, IDLE, LAST_SLOW, WITHOUT};
use super::results::{MIX, ParallelResults, SCAN, SLOW};
use crate::table::factor;

pub(crate) fn claims(results: &ParallelResults) -> Vec<Claim> {
    [
        one_scan(results),
        bandwidth(results),
        beside_idle(results),
        beside_fixed(results),
        avoided(results),
        same_rows(results),
    ]
    .into_iter()
    .flatten()
    .collect()
}

fn one_scan(results: &ParallelResults) -> Option<Claim> {
    let one = results.point(SCAN, "one device")?;
    let all = results.point(SCAN, "all devices")?;
    let aim = results.devices as f64 * EFFICIENCY;
    let text = format!(
        "one scan of {} devices: at least {} times the bandwidth of one",
        results.devices,
        factor(aim)
    );
    let ratio = all.bytes_per_second / one.bytes_per_second;
    Some(Claim::new(text, ratio >= aim, factor(ratio)))
}

fn bandwidth(results: &ParallelResults) -> Option<Claim> {
    let chosen = results.point(MIX, CHOSEN)?;
    let text = format!(
        "{} clients that scan and {} point queries a second: within 5 % of all that the devices \
         give",
        results.clients, results.points_per_second
    );
    let evidence = format!("{:.1} %", 100.0 * chosen.of_limit);
    Some(Claim::new(text, chosen.of_limit >= EFFICIENCY, evidence))
}

fn beside_idle(results: &ParallelResults) -> Option<Claim> {
    let ratio = results.point(MIX, CHOSEN)?.point_p95_s / results.point(MIX, IDLE)?.point_p95_s;
    let text = "their P95 is at most twice that on an idle system";
    Some(Claim::new(text, ratio <= 2.0, factor(ratio)))
}

/// Compares parallelism chosen at run time, which includes the reserve for pages, with fixed
/// parallelism without the reserve.
fn beside_fixed(results: &ParallelResults) -> Option<Claim> {
    let chosen = results.point(MIX, CHOSEN)?.point_p95_s;
    let best = results.best_fixed(false)?;
    let ratio = chosen / best.point_p95_s;
    let text = "their P95 is at most half of that under the best fixed parallelism";
    let reserved = results.best_fixed(true).map(|point| {
        let ratio = factor(chosen / point.point_p95_s);
        format!("; with the reserve for pages {ratio} ({})", point.setting)
    });
    let evidence = format!(
        "{} ({}){}",
        factor(ratio),
        best.setting,
        reserved.unwrap_or_default()
    );
    Some(Claim::new(text, ratio <= 0.5, evidence))
}

fn avoided(results: &ParallelResults) -> Option<Claim> {
    let without = results.point(SLOW, WITHOUT)?.avoiding_mean_s?;
    let slow = results.point(SLOW, LAST_SLOW)?.avoiding_mean_s?;
    let ratio = slow / without;
    let text = "scans that avoid a device that is a tenth as fast take no longer beside a query that \
                needs it";
    Some(Claim::new(text, ratio <= UNAFFECTED, factor(ratio)))
}

fn same_rows(results: &ParallelResults) -> Option<Claim> {
    // A difference makes the run fail, so every finished run proves the claim.
    let text = "every query answers what plain DataFusion answers";
    let evidence = format!("{} queries", results.queries);
    results.verified.then(|| Claim::new(text, true, evidence))
}

/// The least efficiency: of several devices over one, and of the bandwidth over the devices'
/// limits.
const EFFICIENCY: f64 = 0.95;
/// The factor by which two equal runs may differ.
const UNAFFECTED: f64 = 1.1;

#[cfg(test)]
mod tests {
    use super::super::results::Point;
    use super::*;

    #[test]
    fn what_was_measured_decides() {
        let point = |experiment: &str, setting: &str, megabytes: f64| Point {
            experiment: experiment.to_owned(),
            setting: setting.to_owned(),
            bytes_per_second: megabytes * 1e6,
            ..Point::default()
        };
        let results = ParallelResults {
            devices: 4,
            points: vec![
                point(SCAN, "one device", 50.0),
                point(SCAN, "all devices", 187.0),
                Point {
                    avoiding_mean_s: Some(2.0),
                    ..point(SLOW, WITHOUT, 150.0)
                },
                Point {
                    avoiding_mean_s: Some(2.1),
                    ..point(SLOW, LAST_SLOW, 150.0)
                },
            ],
            ..ParallelResults::default()
        };
        let claims = claims(&results);
        let decided: Vec<_> = claims.iter().map(|c| (c.holds, &*c.evidence)).collect();
        assert_eq!(decided, [(false, "3.74"), (true, "1.05")]);
        assert!(super::claims(&ParallelResults::default()).is_empty());
    }
}
