//! The comparison on a terminal: one column per policy, one row per figure.
//!
//! Idea: the paper's Table 2, where each value that a factor makes sense for stands beside its
//! factor against `relevance`, so that the reader need not divide. Plain text, to be pasted into
//! logs and mails unchanged.

use std::fmt::Write as _;

use crate::results::{CoopResults, PolicyResults, mean};
use coscan_quantities as quantities;

/// Lays the run out as text, with a line end after the last row.
#[must_use]
pub fn render(results: &CoopResults) -> String {
    let policies = results.policies_in_order();
    let best = results.policies.get(BASELINE);
    let mut rows: Vec<Vec<String>> = Vec::new();
    let mut header = vec![String::new()];
    header.extend(policies.iter().map(|(name, _)| (*name).to_owned()));
    rows.push(header);

    for figure in figures() {
        let mut row = vec![figure.name.to_owned()];
        row.extend(policies.iter().map(|(name, policy)| {
            let value = (figure.value)(policy);
            let text = (figure.show)(value);
            match best.map(figure.value) {
                Some(base) if figure.compare && *name != BASELINE && base > 0.0 => {
                    format!("{text} ({}×)", factor(value / base))
                }
                _ => text,
            }
        }));
        rows.push(row);
    }
    rows.push(Vec::new());
    rows.push(vec!["latency, mean".to_owned()]);
    for class in results.classes() {
        let alone = results.standalone.get(&class).copied().unwrap_or_default();
        let mut row = vec![format!("  {class}  (alone {})", quantities::seconds(alone))];
        row.extend(
            policies
                .iter()
                .map(|(_, policy)| match class_latency(policy, &class) {
                    Some(latency) => quantities::seconds(latency),
                    None => "–".to_owned(),
                }),
        );
        rows.push(row);
    }
    columns(&rows)
}

/// One row of the comparison.
pub(crate) struct Figure {
    pub(crate) name: &'static str,
    pub(crate) value: fn(&PolicyResults) -> f64,
    pub(crate) show: fn(f64) -> String,
    /// Whether the factor against relevance is shown.
    pub(crate) compare: bool,
}

/// The system-wide figures: those of the paper's Table 2 in its order, then figures that the paper
/// does not show.
#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // Counts that were u64 before.
pub(crate) fn figures() -> [Figure; 8] {
    let percent: fn(f64) -> String = |f| format!("{:.1} %", f * 100.0);
    let figure = |name, value, show, compare| Figure {
        name,
        value,
        show,
        compare,
    };
    [
        figure(
            "average stream time",
            |p| p.avg_stream_s,
            quantities::seconds,
            true,
        ),
        figure(
            "average normalized latency",
            |p| p.avg_normalized_latency,
            quantities::significant,
            true,
        ),
        figure("total time", |p| p.total_s, quantities::seconds, true),
        figure(
            "bytes read",
            |p| p.io_bytes as f64,
            |b| quantities::bytes(b as u64),
            true,
        ),
        figure(
            "I/O requests",
            |p| p.io_requests as f64,
            |n| quantities::count(n as u64),
            false,
        ),
        figure(
            "bytes decoded",
            |p| p.decode_bytes as f64,
            |b| quantities::bytes(b as u64),
            false,
        ),
        figure("CPU use", |p| p.cpu_fraction, percent, false),
        figure(
            "scheduler's share of CPU",
            |p| p.sched_cpu_fraction,
            |f| format!("{:.2} %", f * 100.0),
            false,
        ),
    ]
}

/// A factor with a suitable number of digits.
pub(crate) fn factor(factor: f64) -> String {
    if factor < 9.95 {
        format!("{factor:.2}")
    } else {
        format!("{factor:.1}")
    }
}

/// The mean latency of a class; None if no query of it ran.
pub(crate) fn class_latency(policy: &PolicyResults, class: &str) -> Option<f64> {
    let latencies: Vec<f64> = policy
        .queries
        .iter()
        .filter(|q| q.name == class)
        .map(|q| q.latency_s)
        .collect();
    (!latencies.is_empty()).then(|| mean(latencies.into_iter()))
}

/// Lays rows out in columns: the first aligned left, the others right, with two spaces between.
pub(crate) fn columns(rows: &[Vec<String>]) -> String {
    let width = |column: usize| {
        rows.iter()
            .filter_map(|row| row.get(column))
            .map(|cell| cell.chars().count())
            .max()
    };
    let widths: Vec<usize> = (0..).map_while(width).collect();
    let mut text = String::new();
    for row in rows {
        let mut line = String::new();
        for (column, (cell, width)) in row.iter().zip(&widths).enumerate() {
            // Writing to a string cannot fail.
            let _ = if column == 0 {
                write!(line, "{cell:<width$}")
            } else {
                write!(line, "  {cell:>width$}")
            };
        }
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text
}

/// The policy that the others are compared with.
pub(crate) const BASELINE: &str = "relevance";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::results::QueryResults;

    #[test]
    fn columns_line_up_and_factors_are_against_relevance() {
        let mut results = CoopResults::default();
        results.standalone.insert("F-01".to_owned(), 0.1);
        for (name, time) in [("normal", 3.0), ("relevance", 1.0)] {
            let policy = PolicyResults {
                avg_stream_s: time,
                queries: vec![QueryResults {
                    name: "F-01".to_owned(),
                    latency_s: time,
                    ..Default::default()
                }],
                ..Default::default()
            };
            results.policies.insert(name.to_owned(), policy);
        }
        let text = render(&results);
        let lines: Vec<&str> = text.lines().collect();
        assert!(lines[0].ends_with("normal  relevance"), "{text}");
        assert!(lines[1].contains("3.00 s (3.00×)"), "{text}");
        assert!(lines[1].ends_with("1.00 s"), "{text}");
        assert!(text.contains("F-01  (alone 100 ms)"), "{text}");
        assert_eq!(
            columns(&[
                vec!["a".into(), "bb".into()],
                vec!["ccc".into(), "d".into()]
            ]),
            "a    bb\nccc   d\n"
        );
    }
}
