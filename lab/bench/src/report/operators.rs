//! Which queries shared operators? The runs of operators whose output more than one query took.
//!
//! Idea: each query has a line, from its start to its last row. Where it takes the output of an
//! operator that another query runs or ran, a stroke in the operator's colour connects it with
//! that query's line. A second picture shows, from query to query, how many outputs each took.
//! Not here: chunk jobs (`jobs.rs`).

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use super::drawing::axis::{Scale, line, text, tick_label};
use super::drawing::frame::{Frame, begin};
use super::escape;
use crate::dashboard::Dashboard;
use coscan_quantities as quantities;

/// Both pictures, side by side.
pub(super) fn figure(dashboard: &Dashboard) -> String {
    let height = TOP + ROW * dashboard.queries.len().max(4) as f64 + BELOW;
    let time = Frame {
        left: 76.0,
        right: 640.0,
        top: TOP,
        bottom: height - BELOW,
    };
    let pairs = Frame {
        left: 730.0,
        right: WIDTH - 12.0,
        ..time
    };
    let about = "Queries over time, and whose operators gave them their rows";
    let mut out = begin(WIDTH, height, about);
    let places = places(dashboard);
    over_time(&mut out, dashboard, &places, time);
    from_query_to_query(&mut out, dashboard, &places, pairs);
    out.push_str("</svg>");
    out
}

/// What the colours mean: the kinds of operators that were shared, and how many times another
/// query took their output.
pub(super) fn legend(dashboard: &Dashboard) -> String {
    let mut taken: BTreeMap<&str, usize> = BTreeMap::new();
    for run in &dashboard.runs {
        *taken.entry(&run.kind).or_default() += run.takers.len();
    }
    let mut out = String::from("<ul class=\"legend\">");
    for (at, kind) in kinds(dashboard).into_iter().enumerate() {
        // Writing to a string cannot fail, here and below.
        let _ = write!(
            out,
            "<li><i style=\"background:var(--{})\"></i>{} <span>({})</span></li>",
            colour(at),
            escape(kind),
            quantities::count(taken[kind] as u64),
        );
    }
    out.push_str("</ul>");
    out
}

fn over_time(out: &mut String, dashboard: &Dashboard, places: &[usize], frame: Frame) {
    let x = Scale::linear(dashboard.total_s * 1.01, (frame.left, frame.right));
    frame.x_grid(out, &x, 90.0);
    frame.outline(out);
    frame.x_ticks(out, &x, 90.0, tick_label);
    frame.x_label(out, "time since the first viewer came (s)");
    for (query, place) in dashboard.queries.iter().zip(places) {
        let at = row(*place);
        let name = format!("{} · {}", query.viewer + 1, query.name);
        text(
            out,
            "lane",
            "end",
            frame.left - 7.0,
            at + 4.0,
            &escape(&name),
        );
        let ends = (query.start_s, query.start_s + query.latency_s);
        line(out, "grid", (frame.left, at), (frame.right, at));
        let _ = write!(
            out,
            r#"<path class="job" style="stroke:var(--muted);stroke-width:4" d="M{:.1} {at:.1}H{:.1}"/>"#,
            x.at(ends.0),
            x.at(ends.1)
        );
    }
    let kinds = kinds(dashboard);
    for run in &dashboard.runs {
        let kind = kinds.iter().position(|kind| *kind == run.kind);
        let colour = colour(kind.unwrap_or(0));
        for &(taker, came_s) in &run.takers {
            let ends = (places.get(run.query), places.get(taker));
            let (Some(from), Some(to)) = ends else {
                continue;
            };
            let (from, to, at) = (row(*from), row(*to), x.at(came_s));
            let _ = write!(
                out,
                r#"<path class="job" style="stroke:var(--{colour});stroke-width:1.6" d="M{at:.1} {from:.1}V{to:.1}"/><circle cx="{at:.1}" cy="{to:.1}" r="4" style="fill:var(--{colour})"/>"#
            );
        }
    }
    let taken: usize = dashboard.runs.iter().map(|run| run.takers.len()).sum();
    let title = format!(
        "{} runs of operators gave their rows to {} more queries",
        quantities::count(dashboard.runs.len() as u64),
        quantities::count(taken as u64),
    );
    text(out, "aside", "start", frame.left, frame.top - 8.0, &title);
}

fn from_query_to_query(out: &mut String, dashboard: &Dashboard, places: &[usize], frame: Frame) {
    let queries = dashboard.queries.len().max(1) as f64;
    let x = Scale::linear(queries, (frame.left, frame.right));
    frame.outline(out);
    frame.x_ticks(out, &x, 60.0, tick_label);
    frame.x_label(out, "run for query");
    frame.y_label(out, frame.left - 30.0, "taken by query");
    let kinds = kinds(dashboard);
    let mut taken: BTreeMap<(usize, usize), BTreeMap<usize, usize>> = BTreeMap::new();
    for run in &dashboard.runs {
        let kind = kinds.iter().position(|kind| *kind == run.kind);
        for (taker, _) in &run.takers {
            if let (Some(by), Some(whom)) = (places.get(run.query), places.get(*taker)) {
                let of = taken.entry((*by, *whom)).or_default();
                *of.entry(kind.unwrap_or(0)).or_default() += 1;
            }
        }
    }
    for query in 0..dashboard.queries.len() {
        let at = row(query);
        line(out, "grid", (frame.left, at), (frame.right, at));
    }
    for ((by, whom), of_kinds) in taken {
        // Larger dots first, so that all are visible.
        let mut shown: Vec<(usize, usize)> = of_kinds.into_iter().collect();
        shown.sort_by_key(|&(_, count)| std::cmp::Reverse(count));
        let all = shown.len() as f64;
        for (place, (kind, count)) in (0..).zip(shown) {
            let beside = (f64::from(place) - (all - 1.0) / 2.0) * 6.0;
            let radius = 2.2 + (count as f64).sqrt().min(3.0);
            let _ = write!(
                out,
                r#"<circle class="for" cx="{:.1}" cy="{:.1}" r="{radius:.1}" style="fill:var(--{})"/>"#,
                x.at(by as f64 + 0.5) + beside,
                row(whom),
                colour(kind)
            );
        }
    }
    let title = "operators, from query to query";
    text(out, "aside", "start", frame.left, frame.top - 8.0, title);
}

/// The row of each query, in the order in which the queries were sent.
fn places(dashboard: &Dashboard) -> Vec<usize> {
    let mut order: Vec<usize> = (0..dashboard.queries.len()).collect();
    let start = |query: &usize| dashboard.queries[*query].start_s;
    order.sort_by(|a, b| start(a).total_cmp(&start(b)));
    let mut places = vec![0; order.len()];
    for (at, query) in order.into_iter().enumerate() {
        places[query] = at;
    }
    places
}

/// The middle of a row.
fn row(place: usize) -> f64 {
    TOP + ROW * (place as f64 + 0.5)
}

/// The kinds of operators that were shared.
fn kinds(dashboard: &Dashboard) -> Vec<&str> {
    let kinds: BTreeSet<&str> = dashboard.runs.iter().map(|run| &*run.kind).collect();
    kinds.into_iter().collect()
}

/// The custom property of a kind's colour.
fn colour(kind: usize) -> &'static str {
    ["relevance", "pbm", "elevator", "index", "attach", "other"][kind.min(5)]
}

const WIDTH: f64 = 1080.0;
const TOP: f64 = 26.0;
const ROW: f64 = 18.0;
const BELOW: f64 = 46.0;
