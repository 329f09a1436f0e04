//! The run on a terminal: a row for each case of a figure, the variants side by side, and the
//! outcome of the claims.

use super::claims::beside;
use super::results::{Point, QpipeResults};
use super::variant::{APART, ISOLATED, NO_OPERATORS, SCANS_ALONE, SHARED, Variant};
use super::{OPEN, SCANS, THINKING, THROUGHPUT};
use crate::table::{columns, factor};
use coscan_quantities as quantities;

/// A figure's value of a point, and how it is shown.
struct Shown {
    title: &'static str,
    value: fn(&Point) -> f64,
    show: fn(f64) -> String,
}

#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // Counts that were u64 before.
fn shown(figure: &str) -> Shown {
    let shown = |title, value, show| Shown { title, value, show };
    match figure {
        SCANS => shown(
            "bytes read",
            |point| point.io_bytes as f64,
            |bytes| quantities::bytes(bytes as u64),
        ),
        THROUGHPUT => shown(
            "queries an hour",
            |point| point.qph,
            |count| quantities::count(count as u64),
        ),
        THINKING => shown(
            "mean response time",
            |point| point.mean_s,
            quantities::seconds,
        ),
        OPEN => shown("P95", |point| point.p95_s, quantities::seconds),
        _ => shown("total time", |point| point.total_s, quantities::seconds),
    }
}

/// Lays the run out as text, with a line end after the last line.
#[must_use]
pub fn render(results: &QpipeResults) -> String {
    let mut lines = vec![about(results)];
    let mut rows: Vec<Vec<String>> = Vec::new();
    let mut last = None;
    for point in &results.points {
        // A row shows all variants of a case, and is built at the case's isolated point.
        if point.variant != ISOLATED.name {
            continue;
        }
        let shown = shown(&point.figure);
        let title = format!("Figure {}: {}, {}", point.figure, point.what, shown.title);
        if last.as_ref() != Some(&title) {
            if last.is_some() {
                rows.push(Vec::new());
            }
            rows.push(vec![title.clone()]);
            let variants = VARIANTS.iter().filter(|v| has(results, point, **v));
            let mut header = vec![String::new()];
            header.extend(variants.map(|variant| variant.name.to_owned()));
            header.extend(["ratio", "satellites"].map(str::to_owned));
            rows.push(header);
            last = Some(title);
        }
        rows.push(row(results, point, &shown));
    }
    lines.push(columns(&rows));
    lines.extend(results.claims.iter().map(|claim| {
        let holds = claim.verdict();
        let figure = claim.source.as_ref().map_or("", |source| &source.figure);
        format!(
            "{holds}: figure {figure}: {} ({})",
            claim.text, claim.evidence
        )
    }));
    lines.join("\n") + "\n"
}

fn row(results: &QpipeResults, point: &Point, shown: &Shown) -> Vec<String> {
    let mut row = vec![format!("  {}", place(point))];
    let variants = VARIANTS.iter();
    row.extend(variants.filter_map(|variant| {
        let of = beside(&results.points, point, *variant)?;
        Some((shown.show)((shown.value)(of)))
    }));
    if let Some(shared) = beside(&results.points, point, SHARED) {
        let without = beside(&results.points, point, APART).unwrap_or(point);
        let ratio = (shown.value)(shared) / (shown.value)(without).max(f64::MIN_POSITIVE);
        row.push(factor(ratio));
        row.push(quantities::count(shared.satellites));
    }
    row
}

fn has(results: &QpipeResults, point: &Point, variant: Variant) -> bool {
    beside(&results.points, point, variant).is_some()
}

fn place(point: &Point) -> String {
    let clients = format!("{} clients", point.clients);
    match (point.interarrival_s, point.think_s) {
        (Some(gap), _) => format!("{clients}, {} apart", quantities::seconds(gap)),
        (None, Some(think)) => format!("{clients}, thinking {}", quantities::seconds(think)),
        (None, None) => clients,
    }
}

/// The conditions of the run.
fn about(results: &QpipeResults) -> String {
    let device = results.bandwidth.map(quantities::rate);
    format!(
        "TPC-H, scale {}, {}, device {}; {} partitions a query; no state kept; medians of {}\n",
        results.scale,
        results.model,
        device.unwrap_or_else(|| "as it is".to_owned()),
        results.partitions,
        results.repeats,
    )
}

const VARIANTS: [Variant; 5] = [ISOLATED, APART, SCANS_ALONE, NO_OPERATORS, SHARED];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::qpipe::claims::claims;

    #[test]
    fn variants_stand_beside_each_other_and_claims_below() {
        let point = |variant: Variant, p95_s| Point {
            figure: OPEN.to_owned(),
            what: "mix".to_owned(),
            clients: 48,
            interarrival_s: Some(0.5),
            interarrival: Some(1.0),
            variant: variant.name.to_owned(),
            p95_s,
            satellites: 7,
            ..Point::default()
        };
        let points = vec![point(ISOLATED, 8.0), point(SHARED, 2.0)];
        let results = QpipeResults {
            claims: claims(&points),
            points,
            ..QpipeResults::default()
        };
        let text = render(&results);
        let row = text.lines().find(|line| line.contains("48 clients"));
        let cells: Vec<&str> = row.unwrap().split_whitespace().collect();
        assert_eq!(cells[..5], ["48", "clients,", "500", "ms", "apart"]);
        assert_eq!(cells[5..], ["8.00", "s", "2.00", "s", "0.25", "7"]);
        assert!(text.contains("unproven: figure open: arrivals"), "{text}");
    }
}
