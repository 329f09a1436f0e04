//! Which points are measured?
//!
//! `scan`: one scan, with all files on one device and with each folder on a device of its own.
//! `mix`: point queries on an idle system, then beside scans, with the degree of parallelism
//! chosen at run time and with fixed degrees. The fixed degrees run with the reserve for pages and
//! without it; the latter is the paper's fixed degree, where nothing is decided while scans run.
//! `changing`: the same scans, of many clients and of one in turn, with the reserve in every
//! setting. A low degree leaves devices idle where there is one client, a high one asks for more
//! than devices and buffer have where there are many.
//! `slow`: scans that avoid the last device, by themselves and beside one client whose scans need
//! it, with that device as fast as the others and a tenth as fast. Where it is as fast, that
//! client shares their reads from beginning to end. Every setting has the same list of scans: in a
//! fixed time a setting would have more of the short scans than another, and a mean over unlike
//! scans.

use std::time::Duration;

use coscan_study::percentile;

use super::ground::{Disks, Ground, Setting};
use super::load::{Changing, Lists, Load, Outcome, Usage};
use super::results::{CHANGING, MIX, Point, SCAN, SLOW};
use crate::error::Result;
use crate::results::mean;

pub(crate) const IDLE: &str = "idle";
pub(crate) const CHOSEN: &str = "chosen";
pub(crate) const ALIKE: &str = "alike";
pub(crate) const WITHOUT: &str = "without the one that needs it";
pub(crate) const LAST_SLOW: &str = "the last a tenth as fast";

/// The points of the wanted experiments, in the order of the file's header.
pub(crate) async fn run(ground: &mut Ground<'_>) -> Result<Vec<Point>> {
    let (options, mut points) = (ground.options, Vec::new());
    if options.wants(SCAN) {
        points.extend(scan(ground).await?);
    }
    if options.wants(MIX) {
        points.extend(mix(ground).await?);
    }
    if options.wants(CHANGING) {
        points.extend(changing(ground).await?);
    }
    if options.wants(SLOW) {
        points.extend(slow(ground).await?);
    }
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
    let degrees = options.fixed.iter();
    let fixed = degrees.flat_map(|&degree| [true, false].map(|reserve| fixed(degree, reserve)));
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

/// A fixed degree of parallelism.
fn fixed(degree: u32, reserve: bool) -> Setting {
    Setting {
        name: if reserve {
            format!("fixed {degree}")
        } else {
            format!("fixed {degree}, no reserve")
        },
        disks: Disks::Each,
        parallelism: Some(degree),
        reserve,
    }
}

/// As in `mix`, settings take turns, and all rounds of a setting make one point.
async fn changing(ground: &mut Ground<'_>) -> Result<Vec<Point>> {
    let options = ground.options;
    let queries = ground.queries();
    assert!(
        queries.clients.iter().all(|c| c.len() >= 4 * PHASE_SCANS),
        "each of the four phases has scans of its own"
    );
    // No scan is in two phases.
    let scans = |client: &Vec<usize>, phase: usize| {
        let scans = client.iter().skip(phase * PHASE_SCANS).take(PHASE_SCANS);
        scans.copied().collect::<Vec<usize>>()
    };
    let phase = |clients: usize, phase: usize| {
        let clients = queries.clients.iter().take(clients);
        clients.map(|client| scans(client, phase)).collect()
    };
    let many = options.clients;
    let load = Changing {
        phases: vec![phase(many, 0), phase(1, 1), phase(many, 2), phase(1, 3)],
        points: queries.points.clone(),
        seed: 0,
    };
    // What a point says of its load.
    let clients = Load {
        clients: queries.clients.clone(),
        ..Load::default()
    };
    let chosen = Setting::new(CHOSEN, Disks::Each);
    let fixed = options.fixed.iter().map(|&degree| fixed(degree, true));
    let settings: Vec<Setting> = std::iter::once(chosen).chain(fixed).collect();
    let repeats = options.repeats.max(1);
    ground.begin(CHANGING, repeats * settings.len());
    let mut outcomes: Vec<Option<(Outcome, [f64; 2])>> = vec![None; settings.len()];
    for round in 0..repeats {
        let load = Changing {
            seed: options.seed + round as u64,
            ..load.clone()
        };
        for (setting, all) in settings.iter().zip(&mut outcomes) {
            let (outcome, seconds) = ground.bear_changes(setting, &load).await?;
            ground.advance();
            // Phases of many clients and of one take turns.
            let of = |first: usize| seconds.iter().skip(first).step_by(2).sum::<f64>();
            let [many, one] = [of(0), of(1)];
            match all {
                Some((all, [all_many, all_one])) => {
                    all.add(outcome);
                    *all_many += many;
                    *all_one += one;
                }
                None => *all = Some((outcome, [many, one])),
            }
        }
    }
    let points = settings.iter().zip(outcomes);
    let points = points.filter_map(|(setting, outcome)| {
        let (outcome, [many, one]) = outcome?;
        Some(Point {
            many_s: Some(many),
            one_s: Some(one),
            ..loaded_point(CHANGING, setting, &clients, outcome)
        })
    });
    Ok(points.collect())
}

/// The scans of a client in one phase of a load that changes; with four phases, all eight of a
/// client.
const PHASE_SCANS: usize = 2;

/// How often each scan that avoids the slow device runs. The first fills an empty buffer.
pub(crate) const AVOIDING_SCANS: usize = 3;

async fn slow(ground: &mut Ground<'_>) -> Result<Vec<Point>> {
    let queries = ground.queries();
    let ([wide, narrow], needing) = (queries.avoiding, queries.needing);
    let without = Lists {
        once: vec![vec![wide; AVOIDING_SCANS], vec![narrow; AVOIDING_SCANS]],
        beside: Vec::new(),
    };
    let with = Lists {
        beside: vec![vec![needing]],
        ..without.clone()
    };
    let settings = [
        (WITHOUT, Disks::Each, without),
        (ALIKE, Disks::Each, with.clone()),
        (LAST_SLOW, Disks::LastSlow, with),
    ];
    ground.begin(SLOW, settings.len());
    let mut points = Vec::new();
    for (name, disks, lists) in settings {
        let setting = Setting::new(name, disks);
        let outcome = ground.bear_lists(&setting, &lists).await?;
        ground.advance();
        // What a point says of its load.
        let clients = Load {
            clients: [lists.once, lists.beside].concat(),
            ..Load::default()
        };
        points.push(Point {
            avoiding_wide_s: list_mean_s(&outcome, wide),
            avoiding_narrow_s: list_mean_s(&outcome, narrow),
            ..loaded_point(SLOW, &setting, &clients, outcome)
        });
    }
    Ok(points)
}

/// The mean seconds of a scan of the lists; None if the list was given up.
fn list_mean_s(outcome: &Outcome, query: usize) -> Option<f64> {
    let of = outcome.scans.iter().filter(|(of, _)| *of == query);
    let of: Vec<f64> = of.map(|(_, seconds)| *seconds).collect();
    (of.len() == AVOIDING_SCANS).then(|| mean(of.into_iter()))
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
    let cores = crate::running::cpu::cores() as f64;
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
