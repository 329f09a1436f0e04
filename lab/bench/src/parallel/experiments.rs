//! Which points are measured?
//!
//! `scan`: one scan, with all files on one device and with each folder on a device of its own.
//! `mix`: point queries on an idle system, then beside scans, with the degree of parallelism
//! chosen at run time and with fixed degrees. The fixed degrees run with the reserve for pages and
//! without it; the latter is the paper's fixed degree, where nothing is decided while scans run.
//! `slow`: scans that avoid the last device, by themselves and beside one client whose scans need
//! it, with that device as fast as the others and a tenth as fast. Where it is as fast, that
//! client shares their reads from beginning to end.

use std::time::Duration;

use coscan_study::percentile;

use super::ground::{Disks, Ground, Setting};
use super::load::{Load, Outcome, Usage};
use super::results::{MIX, Point, SCAN, SLOW};
use crate::error::Result;
use crate::results::mean;

pub(crate) const IDLE: &str = "idle";
pub(crate) const CHOSEN: &str = "chosen";
pub(crate) const ALIKE: &str = "alike";
pub(crate) const WITHOUT: &str = "without the one that needs it";
pub(crate) const LAST_SLOW: &str = "the last a tenth as fast";

/// All points, in the order of the file's header.
pub(crate) async fn run(ground: &mut Ground<'_>) -> Result<Vec<Point>> {
    let mut points = scan(ground).await?;
    points.extend(mix(ground).await?);
    points.extend(slow(ground).await?);
    Ok(points)
}

/// Settings take turns, so that a slow minute of the machine hits both; the median counts.
async fn scan(ground: &mut Ground<'_>) -> Result<Vec<Point>> {
    let settings = [("one device", Disks::One), ("all devices", Disks::Each)]
        .map(|(name, disks)| Setting::new(name, disks));
    let repeats = ground.options.repeats.max(1);
    let whole = ground.queries().whole;
    ground.begin(SCAN, 1 + repeats * settings.len());
    // A process's first query also pays for loading code and filling the allocator.
    ground
        .alone(&Setting::new("warm-up", Disks::Unlimited), whole)
        .await?;
    ground.advance();
    let mut runs: Vec<Vec<Usage>> = settings.iter().map(|_| Vec::new()).collect();
    for _ in 0..repeats {
        for (setting, runs) in settings.iter().zip(&mut runs) {
            runs.push(ground.alone(setting, whole).await?);
            ground.advance();
        }
    }
    let median = |(setting, mut runs): (&Setting, Vec<Usage>)| {
        runs.sort_by_key(|run| run.time);
        let of = runs.swap_remove((runs.len() - 1) / 2);
        Point {
            scan_clients: 1,
            scans: 1,
            scan_mean_s: of.time.as_secs_f64(),
            ..point(SCAN, setting, &of)
        }
    };
    Ok(settings.iter().zip(runs).map(median).collect())
}

/// Settings take turns here too: the first to run takes memory from the system that later runs
/// find available, and its queries wait for that. All rounds of a setting make one point.
async fn mix(ground: &mut Ground<'_>) -> Result<Vec<Point>> {
    let options = ground.options;
    let chosen = Setting::new(CHOSEN, Disks::Each);
    let fixed = options.fixed.iter().flat_map(|&degree| {
        [true, false].map(|reserve| Setting {
            name: if reserve {
                format!("fixed {degree}")
            } else {
                format!("fixed {degree}, no reserve")
            },
            disks: Disks::Each,
            parallelism: Some(degree),
            reserve,
        })
    });
    let loaded: Vec<Setting> = std::iter::once(chosen).chain(fixed).collect();
    let alone = Load {
        points: ground.queries().points.clone(),
        time: options.time,
        ..Load::default()
    };
    let together = Load {
        clients: ground.queries().clients.clone(),
        ..alone.clone()
    };
    let idle = (Setting::new(IDLE, Disks::Each), alone);
    let loaded = loaded
        .into_iter()
        .map(|setting| (setting, together.clone()));
    let settings: Vec<(Setting, Load)> = std::iter::once(idle).chain(loaded).collect();
    let repeats = options.repeats.max(1);
    ground.begin(MIX, repeats * settings.len());
    let mut outcomes: Vec<Option<Outcome>> = vec![None; settings.len()];
    for round in 0..repeats {
        for ((setting, load), all) in settings.iter().zip(&mut outcomes) {
            let load = Load {
                seed: options.seed + round as u64,
                ..load.clone()
            };
            let outcome = ground.bear(setting, &load).await?;
            ground.advance();
            match all {
                Some(all) => all.add(outcome),
                None => *all = Some(outcome),
            }
        }
    }
    let points = settings.iter().zip(outcomes);
    let points = points
        .filter_map(|((setting, load), outcome)| Some(loaded_point(MIX, setting, load, outcome?)));
    Ok(points.collect())
}

async fn slow(ground: &mut Ground<'_>) -> Result<Vec<Point>> {
    let queries = ground.queries();
    let (avoiding, needing) = (queries.avoiding.clone(), queries.needing);
    let without = Load {
        clients: avoiding.iter().map(|&query| vec![query]).collect(),
        time: ground.options.time,
        seed: ground.options.seed,
        ..Load::default()
    };
    let mut with = without.clone();
    with.clients.push(vec![needing]);
    let settings = [
        (WITHOUT, Disks::Each, without),
        (ALIKE, Disks::Each, with.clone()),
        (LAST_SLOW, Disks::LastSlow, with),
    ];
    ground.begin(SLOW, settings.len());
    let mut points = Vec::new();
    for (name, disks, load) in settings {
        let setting = Setting::new(name, disks);
        let outcome = ground.bear(&setting, &load).await?;
        ground.advance();
        let avoided = outcome
            .scans
            .iter()
            .filter(|(query, _)| avoiding.contains(query));
        let avoiding_s = mean(avoided.map(|(_, seconds)| *seconds));
        points.push(Point {
            avoiding_mean_s: Some(avoiding_s),
            ..loaded_point(SLOW, &setting, &load, outcome)
        });
    }
    Ok(points)
}

fn loaded_point(experiment: &str, setting: &Setting, load: &Load, outcome: Outcome) -> Point {
    let mut latencies = outcome.points;
    latencies.sort_by(f64::total_cmp);
    Point {
        scan_clients: load.clients.len(),
        scans: outcome.scans.len(),
        scan_mean_s: mean(outcome.scans.iter().map(|(_, seconds)| *seconds)),
        points: latencies.len(),
        point_p50_s: percentile(&latencies, 50),
        point_p95_s: percentile(&latencies, 95),
        ..point(experiment, setting, &outcome.usage)
    }
}

fn point(experiment: &str, setting: &Setting, usage: &Usage) -> Point {
    let read_bytes: u64 = usage.devices.iter().map(|device| device.bytes).sum();
    let limit: u64 = usage.devices.iter().map(|device| device.limit).sum();
    let bytes_per_second = read_bytes as f64 / seconds(usage.time);
    let cores = crate::cpu::cores() as f64;
    Point {
        experiment: experiment.to_owned(),
        setting: setting.name.clone(),
        parallelism: setting.parallelism,
        reserve: setting.reserve,
        time_s: usage.time.as_secs_f64(),
        read_bytes,
        bytes_per_second,
        of_limit: bytes_per_second / limit.max(1) as f64,
        cpu_fraction: usage.cpu.as_secs_f64() / cores / seconds(usage.time),
        devices: usage.devices.clone(),
        ..Point::default()
    }
}

fn seconds(time: Duration) -> f64 {
    time.as_secs_f64().max(f64::MIN_POSITIVE)
}
