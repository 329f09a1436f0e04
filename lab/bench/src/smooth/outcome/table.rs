//! The run on a terminal: a row per selectivity, a column per access path, and the outcome of the
//! promises.

use std::fmt::Write as _;

use super::results::{Point, SmoothResults};
use super::verdict::verdicts;
use crate::smooth::query::paths::{INDEX, INDEX_PLAIN};
use crate::table::{columns, factor};
use coscan_quantities as quantities;

/// Lays the run out as text, with a line end after the last line.
#[must_use]
pub fn render(results: &SmoothResults) -> String {
    let mut text = device(results);
    for order_by in [false, true] {
        let selectivities = results.selectivities(order_by);
        if selectivities.is_empty() {
            continue;
        }
        let paths = results.paths();
        let title = if order_by { "ORDER BY c2" } else { "any order" };
        let mut header = vec![title.to_owned()];
        header.extend(paths.iter().map(|path| (*path).to_owned()));
        header.push("smooth / best".to_owned());
        let rivals = [INDEX_PLAIN, INDEX].iter().all(|path| paths.contains(path));
        header.extend(rivals.then(|| format!("{INDEX_PLAIN} / {INDEX}")));
        let mut rows = vec![header];
        for selectivity in selectivities {
            let mut row = vec![format!("{selectivity} %")];
            row.extend(paths.iter().map(|path| {
                let point = results.point(order_by, selectivity, path);
                point.map_or_else(nothing, |point| time(point, results.limit_s))
            }));
            row.push(ratio(results, order_by, selectivity).unwrap_or_else(nothing));
            let weakness = || weakness(results, order_by, selectivity).unwrap_or_else(nothing);
            row.extend(rivals.then(weakness));
            rows.push(row);
        }
        text.push('\n');
        text.push_str(&columns(&rows));
    }
    for (number, verdict) in verdicts(results).iter().enumerate() {
        // Writing to a string cannot fail.
        let _ = writeln!(text, "{}{verdict}", if number == 0 { "\n" } else { "" });
    }
    text
}

/// The conditions of the run.
pub(crate) fn device(results: &SmoothResults) -> String {
    let held = match results.bandwidth {
        Some(bandwidth) => format!(
            ": {}, {} per request",
            quantities::rate(bandwidth),
            quantities::seconds(results.latency_s)
        ),
        None => String::new(),
    };
    format!(
        "{} rows in {} pages of {}, {}; device {}{held}; {} of memory\n",
        quantities::count(results.rows),
        quantities::count(results.pages),
        quantities::bytes(results.page_bytes),
        quantities::bytes(results.table_bytes),
        results.device,
        quantities::bytes(results.memory_bytes)
    )
}

pub(crate) fn time(point: &Point, limit_s: f64) -> String {
    match point.time_s {
        Some(time) => quantities::seconds(time),
        None if point.limit => format!("> {}", quantities::seconds(limit_s)),
        None => "failed".to_owned(),
    }
}

/// The smooth scan's time over the best path's, itself included.
pub(crate) fn ratio(results: &SmoothResults, order_by: bool, selectivity: f64) -> Option<String> {
    let (_, best) = results.best(order_by, selectivity)?;
    let smooth = results.point(order_by, selectivity, "smooth")?.time_s?;
    Some(factor(smooth / best))
}

/// The plain index scan's time over the other's: what a gain over the plain one owes to its
/// weakness.
fn weakness(results: &SmoothResults, order_by: bool, selectivity: f64) -> Option<String> {
    let time = |path| results.point(order_by, selectivity, path)?.time_s;
    Some(factor(time(INDEX_PLAIN)? / time(INDEX)?))
}

fn nothing() -> String {
    "–".to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_per_selectivity_and_a_column_per_path() {
        let point = |selectivity, path: &str, time_s: Option<f64>| Point {
            selectivity,
            path: path.to_owned(),
            time_s,
            limit: time_s.is_none(),
            ..Point::default()
        };
        let results = SmoothResults {
            rows: 1000,
            limit_s: 120.0,
            device: "plain".to_owned(),
            points: vec![
                point(0.01, "full", Some(4.0)),
                point(0.01, "smooth", Some(0.5)),
                point(100.0, "full", Some(4.0)),
                point(100.0, "index", None),
                Point {
                    error: Some("memory".to_owned()),
                    limit: false,
                    ..point(0.01, "index", None)
                },
                point(100.0, "smooth", Some(4.2)),
            ],
            ..SmoothResults::default()
        };
        let text = render(&results);
        let lines: Vec<&str> = text.lines().collect();
        assert!(
            lines[2].starts_with("any order") && lines[2].ends_with("smooth / best"),
            "{text}"
        );
        assert!(
            lines[3].starts_with("0.01 %")
                && lines[3].contains("failed")
                && lines[3].ends_with("1.00"),
            "{text}"
        );
        assert!(
            lines[4].contains("> 2 min 0 s") && lines[4].ends_with("1.05"),
            "{text}"
        );
        assert!(
            text.contains("unproven: smooth is within 1.1 times the full scan"),
            "{text}"
        );
        assert!(!text.contains("ORDER BY"), "{text}");
        assert!(!text.contains("index-plain"), "{text}");
    }

    #[test]
    fn both_index_scans_are_compared_where_both_ran() {
        let point = |selectivity, path: &str, time_s| Point {
            selectivity,
            path: path.to_owned(),
            time_s,
            limit: time_s.is_none(),
            ..Point::default()
        };
        let results = SmoothResults {
            points: vec![
                point(0.1, "index-plain", Some(9.0)),
                point(0.1, "index", Some(3.0)),
                point(1.0, "index-plain", None),
                point(1.0, "index", Some(5.0)),
            ],
            ..SmoothResults::default()
        };
        let text = render(&results);
        let lines: Vec<&str> = text.lines().collect();
        assert!(lines[2].ends_with("index-plain / index"), "{text}");
        assert!(
            lines[3].ends_with("3.00") && lines[4].ends_with("–"),
            "{text}"
        );
    }
}
