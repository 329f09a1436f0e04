//! Does the run show what it should?
//!
//! Each claim is decided by points of this run. A claim without points is left out.

use std::collections::BTreeSet;

use coscan_study::Claim;

use super::experiments::{CHOSEN, IDLE, LAST_SLOW, WITHOUT};
use super::results::{CHANGING, MIX, ParallelResults, Point, SCAN, SLOW};
use crate::table::factor;

pub(crate) fn claims(results: &ParallelResults) -> Vec<Claim> {
    [
        one_scan(results),
        bandwidth(results),
        beside_idle(results),
        beside_fixed(results),
        reserve(results),
        whole_run(results),
        every_fixed_loses(results),
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

/// Both have the reserve for pages: what is compared is the degree of parallelism alone. Fails with
/// *ground.rs: the chosen degree has no reserve for pages*.
fn beside_fixed(results: &ParallelResults) -> Option<Claim> {
    let chosen = results.point(MIX, CHOSEN)?.point_p95_s;
    let best = results.best_fixed(true)?;
    let ratio = chosen / best.point_p95_s;
    let text = format!(
        "their P95 is at most {UNAFFECTED} times that under the best fixed parallelism, with the \
         reserve for pages in both"
    );
    let evidence = format!("{} ({})", factor(ratio), best.setting);
    Some(Claim::new(text, ratio <= UNAFFECTED, evidence))
}

/// Only the reserve differs. Every degree counts: one that was measured only with the reserve, or
/// only without, makes the claim fail. Fails with *ground.rs: every setting has the reserve for
/// pages*.
fn reserve(results: &ParallelResults) -> Option<Claim> {
    let degrees = results.of(MIX).filter_map(|point| point.parallelism);
    let degrees: BTreeSet<u32> = degrees.collect();
    let p95 = |degree: u32, reserve: bool| {
        let mut of = results.of(MIX);
        let of = of.find(|point| point.parallelism == Some(degree) && point.reserve == reserve);
        of.map(|point| point.point_p95_s)
    };
    let ratios = degrees
        .iter()
        .filter_map(|&degree| Some(p95(degree, true)? / p95(degree, false)?));
    let ratios: Vec<f64> = ratios.collect();
    let most = ratios.iter().copied().reduce(f64::max)?;
    let text = "the reserve for pages: their P95 is at most half of that without it, under every \
                fixed parallelism";
    let evidence = format!(
        "{} at {} of {} degrees",
        factor(most),
        ratios.len(),
        degrees.len()
    );
    let holds = ratios.len() == degrees.len() && most <= 0.5;
    Some(Claim::new(text, holds, evidence))
}

/// The best fixed degree is known only after the run. Fails with *degree.rs: a scan reads from one
/// device*.
fn whole_run(results: &ParallelResults) -> Option<Claim> {
    let chosen = results.point(CHANGING, CHOSEN)?;
    let fixed = || fixed_under_changes(results);
    let best = fixed().min_by(|a, b| a.time_s.total_cmp(&b.time_s))?;
    let worst = fixed().map(|point| point.time_s).reduce(f64::max)?;
    let time = chosen.time_s / best.time_s;
    let wait = chosen.point_p95_s / best.point_p95_s;
    let text = format!(
        "many clients and one in turn: the same scans take at most {UNAFFECTED} times as long as \
         under the fixed parallelism that is best over the whole run, and so do point queries (P95)"
    );
    let evidence = format!(
        "{} and {} ({}); {} of the worst",
        factor(time),
        factor(wait),
        best.setting,
        factor(chosen.time_s / worst)
    );
    let holds = time <= UNAFFECTED && wait <= UNAFFECTED;
    Some(Claim::new(text, holds, evidence))
}

/// Whether the load is one that a fixed degree cannot serve. Does not hold on the engine, where a
/// degree of four loses nowhere.
fn every_fixed_loses(results: &ParallelResults) -> Option<Claim> {
    let phases: [fn(&Point) -> Option<f64>; 2] = [|point| point.many_s, |point| point.one_s];
    let fixed: Vec<&Point> = fixed_under_changes(results).collect();
    let mut lost = vec![0.0_f64; fixed.len()];
    for phase in phases {
        let best = results.of(CHANGING).filter_map(phase).reduce(f64::min)?;
        for (point, lost) in fixed.iter().zip(&mut lost) {
            *lost = lost.max(phase(point)? / best);
        }
    }
    let least = lost.iter().copied().reduce(f64::min)?;
    let each = fixed.iter().zip(&lost);
    let each = each.map(|(point, lost)| format!("{} {}", point.setting, factor(*lost)));
    let text = format!(
        "many clients and one in turn: each fixed parallelism takes over {UNAFFECTED} times as long \
         as the best setting, in the phases of many clients or in those of one"
    );
    let evidence = each.collect::<Vec<_>>().join(", ");
    Some(Claim::new(text, least > UNAFFECTED, evidence))
}

fn fixed_under_changes(results: &ParallelResults) -> impl Iterator<Item = &Point> {
    let of = results.of(CHANGING);
    of.filter(|point| point.parallelism.is_some())
}

/// Each of the two scans is compared with itself, over as many runs in both settings. One that did
/// not end in time has no mean, which makes the claim fail: that slow a scan must not pass for a
/// fast one. Fails with *ground.rs: the scans that avoid the slow device need it*.
fn avoided(results: &ParallelResults) -> Option<Claim> {
    let without = results.point(SLOW, WITHOUT)?;
    let slow = results.point(SLOW, LAST_SLOW)?;
    let ratio = |mean_s: fn(&Point) -> Option<f64>| Some(mean_s(slow)? / mean_s(without)?);
    let wide = ratio(|point| point.avoiding_wide_s);
    let narrow = ratio(|point| point.avoiding_narrow_s);
    let text = "scans that avoid a device that is a tenth as fast take no longer beside a query that \
                needs it";
    let unaffected = |ratio: Option<f64>| ratio.is_some_and(|ratio| ratio <= UNAFFECTED);
    let shown = |ratio: Option<f64>| ratio.map_or_else(|| "did not end".to_owned(), factor);
    let evidence = format!("wide {}, narrow {}", shown(wide), shown(narrow));
    let holds = unaffected(wide) && unaffected(narrow);
    Some(Claim::new(text, holds, evidence))
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
                    avoiding_wide_s: Some(2.0),
                    avoiding_narrow_s: Some(1.0),
                    ..point(SLOW, WITHOUT, 150.0)
                },
                Point {
                    avoiding_wide_s: Some(2.1),
                    avoiding_narrow_s: Some(0.5),
                    ..point(SLOW, LAST_SLOW, 150.0)
                },
            ],
            ..ParallelResults::default()
        };
        let claims = claims(&results);
        let decided: Vec<_> = claims.iter().map(|c| (c.holds, &*c.evidence)).collect();
        let slow = (true, "wide 1.05, narrow 0.50");
        assert_eq!(decided, [(false, "3.74"), slow]);
        assert!(super::claims(&ParallelResults::default()).is_empty());
    }

    #[test]
    fn each_scan_beside_a_slow_device_is_compared_with_itself() {
        let point = |setting: &str, [wide, narrow]: [Option<f64>; 2]| Point {
            experiment: SLOW.to_owned(),
            setting: setting.to_owned(),
            avoiding_wide_s: wide,
            avoiding_narrow_s: narrow,
            ..Point::default()
        };
        let seen = |slow| {
            let without = point(WITHOUT, [Some(4.0), Some(2.0)]);
            let results = ParallelResults {
                points: vec![without, point(LAST_SLOW, slow)],
                ..ParallelResults::default()
            };
            let seen = &claims(&results)[0];
            (seen.holds, seen.evidence.clone())
        };
        // A scan that takes a tenth of its time does not outweigh one that takes twice as long.
        let one_is_slow = seen([Some(8.0), Some(0.2)]);
        assert_eq!(one_is_slow, (false, "wide 2.00, narrow 0.10".to_owned()));
        let none_ended = seen([None, None]);
        let words = "wide did not end, narrow did not end";
        assert_eq!(none_ended, (false, words.to_owned()));
    }

    #[test]
    fn a_chosen_degree_is_compared_over_the_whole_run() {
        let point = |setting: &str, parallelism, many: f64, one: f64| Point {
            experiment: CHANGING.to_owned(),
            setting: setting.to_owned(),
            parallelism,
            reserve: true,
            time_s: many + one,
            many_s: Some(many),
            one_s: Some(one),
            point_p95_s: 0.02,
            ..Point::default()
        };
        let results = |chosen: [f64; 2]| ParallelResults {
            points: vec![
                point(CHOSEN, None, chosen[0], chosen[1]),
                point("fixed 1", Some(1), 10.0, 40.0),
                point("fixed 4", Some(4), 14.0, 10.0),
            ],
            ..ParallelResults::default()
        };
        let seen = claims(&results([11.0, 11.0]));
        let decided: Vec<_> = seen.iter().map(|c| (c.holds, &*c.evidence)).collect();
        assert_eq!(
            decided,
            [
                (true, "0.92 and 1.00 (fixed 4); 0.44 of the worst"),
                (true, "fixed 1 4.00, fixed 4 1.40")
            ]
        );
        let one_device = claims(&results([10.0, 40.0]));
        assert!(!one_device[0].holds);
    }

    #[test]
    fn a_degree_is_compared_with_the_reserve_and_the_reserve_at_each_degree() {
        let point = |setting: &str, parallelism, reserve, p95| Point {
            experiment: MIX.to_owned(),
            setting: setting.to_owned(),
            parallelism,
            reserve,
            point_p95_s: p95,
            bytes_per_second: 200e6,
            ..Point::default()
        };
        let mut results = ParallelResults {
            points: vec![
                point(CHOSEN, None, true, 0.025),
                point("fixed 4", Some(4), true, 0.02),
                point("fixed 4, no reserve", Some(4), false, 0.1),
            ],
            ..ParallelResults::default()
        };
        let seen = claims(&results);
        let decided: Vec<_> = seen[1..].iter().map(|c| (c.holds, &*c.evidence)).collect();
        let halved = (true, "0.20 at 1 of 1 degrees");
        assert_eq!(decided, [(false, "1.25 (fixed 4)"), halved]);
        let without_a_pair = point("fixed 8", Some(8), true, 0.03);
        results.points.push(without_a_pair);
        let seen = &claims(&results)[2];
        let decided = (seen.holds, &*seen.evidence);
        assert_eq!(decided, (false, "0.20 at 1 of 2 degrees"));
    }
}
