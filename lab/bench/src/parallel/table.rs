//! The run on a terminal: a table for each experiment, a row for each setting, and the outcome of
//! the claims.

use coscan_quantities as quantities;

use super::results::{CHANGING, MIX, ParallelResults, Point, SCAN, SLOW};
use crate::table::columns;

/// A column: its title, and what it shows of a point.
type Column = (&'static str, fn(&Point) -> String);

/// Lays the run out as text, with a line end after the last line.
#[must_use]
pub fn render(results: &ParallelResults) -> String {
    let mut lines = vec![about(results)];
    let mut rows: Vec<Vec<String>> = Vec::new();
    for (experiment, title, shown) in experiments(results) {
        if !rows.is_empty() {
            rows.push(Vec::new());
        }
        rows.push(vec![title]);
        let titles = shown.iter().map(|(title, _)| (*title).to_owned());
        rows.push(std::iter::once(String::new()).chain(titles).collect());
        rows.extend(results.of(experiment).map(|point| {
            let name = format!("  {}", point.setting);
            let cells = shown.iter().map(|(_, show)| show(point));
            std::iter::once(name).chain(cells).collect()
        }));
    }
    lines.push(columns(&rows));
    lines.extend(
        results
            .claims
            .iter()
            .map(|claim| format!("{}: {} ({})", claim.verdict(), claim.text, claim.evidence)),
    );
    lines.join("\n") + "\n"
}

fn experiments(results: &ParallelResults) -> [(&'static str, String, Vec<Column>); 4] {
    let mix = format!(
        "{} clients that scan, {} point queries a second",
        results.clients, results.points_per_second
    );
    let queries: [Column; 2] = [
        ("scans", |point| quantities::count(point.scans as u64)),
        ("mean", |point| seconds(point.scans, point.scan_mean_s)),
    ];
    let points: [Column; 3] = [
        ("points", |point| quantities::count(point.points as u64)),
        ("P50", |point| seconds(point.points, point.point_p50_s)),
        ("P95", |point| seconds(point.points, point.point_p95_s)),
    ];
    let avoiding: [Column; 2] = [
        ("avoiding it, wide", |point| {
            let mean = point.avoiding_wide_s;
            mean.map_or_else(dash, quantities::seconds)
        }),
        ("narrow", |point| {
            let mean = point.avoiding_narrow_s;
            mean.map_or_else(dash, quantities::seconds)
        }),
    ];
    let devices: [Column; 4] = [
        ("read", |point| quantities::bytes(point.read_bytes)),
        ("a second", |point| rate(point.bytes_per_second)),
        ("of all", |point| percent(point.of_limit)),
        ("CPU", |point| percent(point.cpu_fraction)),
    ];
    let time: [Column; 1] = [("time", |point| quantities::seconds(point.time_s))];
    let phases: [Column; 2] = [
        ("many", |point| {
            point.many_s.map_or_else(dash, quantities::seconds)
        }),
        ("one", |point| {
            point.one_s.map_or_else(dash, quantities::seconds)
        }),
    ];
    let turns = format!(
        "The same scans of {} clients and of one in turn, {} point queries a second",
        results.clients, results.points_per_second
    );
    [
        (
            SCAN,
            "One scan".to_owned(),
            [&time[..], &devices[..]].concat(),
        ),
        (MIX, mix, [&devices[..], &queries[..], &points[..]].concat()),
        (
            CHANGING,
            turns,
            [
                &time[..],
                &phases[..],
                &devices[..],
                &queries[..],
                &points[..],
            ]
            .concat(),
        ),
        (
            SLOW,
            "Scans that avoid the last device, beside one that needs it".to_owned(),
            [&devices[..], &queries[..], &avoiding[..]].concat(),
        ),
    ]
}

/// What the run was measured on.
fn about(results: &ParallelResults) -> String {
    format!(
        "TPC-H lineitem, scale {}, {}, {} of {} in memory; {} devices at {}; {} partitions a \
         query; no state kept\n",
        results.scale,
        results.model,
        quantities::bytes(results.buffer_bytes),
        quantities::bytes(results.table_bytes),
        results.devices,
        quantities::rate(results.bandwidth),
        results.partitions,
    )
}

fn seconds(of: usize, seconds: f64) -> String {
    if of == 0 {
        return dash();
    }
    quantities::seconds(seconds)
}

fn percent(part: f64) -> String {
    format!("{:.1} %", 100.0 * part)
}

#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // Far below 2^64.
fn rate(bytes_per_second: f64) -> String {
    quantities::rate(bytes_per_second as u64)
}

fn dash() -> String {
    "–".to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_stand_below_each_other() {
        let point = |setting: &str, points| Point {
            experiment: MIX.to_owned(),
            setting: setting.to_owned(),
            of_limit: 0.987,
            bytes_per_second: 197.4e6,
            points,
            point_p95_s: 0.02,
            ..Point::default()
        };
        let results = ParallelResults {
            clients: 8,
            points_per_second: 20.0,
            points: vec![point("idle", 200), point("chosen", 0)],
            ..ParallelResults::default()
        };
        let text = render(&results);
        assert!(text.contains("8 clients that scan, 20 point"), "{text}");
        let row = |name: &str| {
            let line = text
                .lines()
                .find(|line| line.trim_start().starts_with(name));
            line.unwrap().trim_end().to_owned()
        };
        assert!(row("idle").contains("98.7 %") && row("idle").ends_with("20.0 ms"));
        assert!(row("chosen").ends_with("–"), "{text}");
    }
}
