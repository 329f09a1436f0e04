//! Which query computed chunks for which other queries? The chunk jobs of a run: over time, and
//! from query to query.
//!
//! Idea: a job belongs to no single query: one query began it and it served others. Over time the
//! marks show when a chunk was worked on and for how many queries. From query to query the dots
//! show how much of a query's work other queries did.
//! Not here: which chunk was read when (`accesses.rs`).

use std::collections::BTreeMap;
use std::fmt::Write as _;

use super::drawing::axis::{Scale, text, tick_label};
use super::drawing::frame::{Frame, begin};
use crate::results::{CoopResults, PolicyResults};
use coscan_quantities as quantities;

/// The thickness of a job's mark, by the largest number of queries served.
const MARKS: [(usize, f64); 4] = [(1, 1.6), (4, 3.2), (16, 5.0), (usize::MAX, 7.0)];

/// Both pictures of one run, side by side.
pub(super) fn figure(results: &CoopResults, policy: &PolicyResults) -> String {
    let mut out = begin(
        WIDTH,
        HEIGHT,
        "Chunk jobs over time, and from query to query",
    );
    over_time(&mut out, results, policy);
    from_query_to_query(&mut out, results, policy);
    out.push_str("</svg>");
    out
}

/// What a mark's thickness means.
pub(super) fn legend() -> String {
    let mut out = String::from("<ul class=\"legend\">");
    let mut from = 1;
    for (to, thick) in MARKS {
        let queries = match to {
            1 => "one query".to_owned(),
            usize::MAX => format!("{from} and more"),
            to => format!("{from} to {to}"),
        };
        // Writing to a string cannot fail, here and below.
        let _ = write!(
            out,
            "<li><i style=\"width:{thick}px;height:{thick}px;background:var(--ink);\
             vertical-align:2px\"></i>{queries}</li>"
        );
        from = to.saturating_add(1);
    }
    out.push_str("</ul>");
    out
}

fn over_time(out: &mut String, results: &CoopResults, policy: &PolicyResults) {
    let x = Scale::linear(policy.total_s * 1.01, (TIME.left, TIME.right));
    let chunks = policy.jobs.iter().map(|job| job.chunk + 1).max();
    let chunks = results.chunks.max(chunks.unwrap_or(1));
    let y = Scale::linear(f64::from(chunks), (TIME.bottom - 3.0, TIME.top + 3.0));
    TIME.x_grid(out, &x, 90.0);
    TIME.outline(out);
    TIME.x_ticks(out, &x, 90.0, tick_label);
    TIME.y_ticks(out, &y, 48.0, tick_label);
    TIME.x_label(out, "time since the first query (s)");
    TIME.y_label(out, 15.0, "chunk");
    let class_of = |query: u32| policy.queries.get(query as usize).map(|query| &query.name);
    for (index, class) in results.classes().iter().enumerate() {
        let mut at_least = 1;
        for (at_most, thick) in MARKS {
            let mut path = String::new();
            for job in &policy.jobs {
                let served = 1 + job.served.len();
                if class_of(job.query) == Some(class) && (at_least..=at_most).contains(&served) {
                    let (begun, ended) = (x.at(job.begun_s), x.at(job.ended_s));
                    let at = y.at(f64::from(job.chunk) + 0.5);
                    let _ = write!(path, "M{begun:.1} {at:.1}H{ended:.1}");
                }
            }
            at_least = at_most.saturating_add(1);
            if !path.is_empty() {
                let _ = write!(
                    out,
                    r#"<path class="job" style="stroke:var(--class-{index});stroke-width:{thick}" d="{path}"/>"#
                );
            }
        }
    }
    let states: usize = policy.jobs.iter().map(|job| 1 + job.served.len()).sum();
    let title = format!(
        "{} jobs for {} chunks of queries",
        quantities::count(policy.jobs.len() as u64),
        quantities::count(states as u64),
    );
    let remembered = match policy.states_remembered {
        0 => String::new(),
        n => format!(", {} more were remembered", quantities::count(n)),
    };
    let title = format!("{title}{remembered}");
    text(out, "aside", "start", TIME.left, TIME.top - 8.0, &title);
}

fn from_query_to_query(out: &mut String, results: &CoopResults, policy: &PolicyResults) {
    // In the order of their starts, so that queries that ran at the same time are near the
    // diagonal.
    let mut order: Vec<usize> = (0..policy.queries.len()).collect();
    order.sort_by(|a, b| {
        policy.queries[*a]
            .start_s
            .total_cmp(&policy.queries[*b].start_s)
    });
    let mut place = vec![0; order.len()];
    for (at, query) in order.iter().enumerate() {
        place[*query] = at;
    }
    let mut chunks: BTreeMap<(usize, usize), u64> = BTreeMap::new();
    for job in &policy.jobs {
        for served in job.served.iter().chain([&job.query]) {
            let ends = (place.get(job.query as usize), place.get(*served as usize));
            if let (Some(by), Some(whom)) = ends {
                *chunks.entry((*by, *whom)).or_default() += 1;
            }
        }
    }
    let last = order.len().max(1) as f64;
    let x = Scale::linear(last, (PAIRS.left, PAIRS.right));
    let y = Scale::linear(last, (PAIRS.bottom, PAIRS.top));
    PAIRS.outline(out);
    PAIRS.x_ticks(out, &x, 60.0, tick_label);
    PAIRS.y_ticks(out, &y, 48.0, tick_label);
    PAIRS.x_label(out, "computed by query");
    PAIRS.y_label(out, PAIRS.left - 42.0, "for query");
    let most = chunks.values().copied().max().unwrap_or(1) as f64;
    let cell = (PAIRS.right - PAIRS.left) / last;
    let classes = results.classes();
    for ((by, whom), count) in chunks {
        let name = &policy.queries[order[by]].name;
        let class = classes.iter().position(|class| class == name);
        let radius = (count as f64 / most).sqrt() * cell.clamp(2.0, 9.0) / 2.0 + 0.6;
        let (at_x, at_y) = (x.at(by as f64 + 0.5), y.at(whom as f64 + 0.5));
        let _ = write!(
            out,
            r#"<circle class="for" cx="{at_x:.1}" cy="{at_y:.1}" r="{radius:.1}" style="fill:var(--class-{})"/>"#,
            class.unwrap_or(0)
        );
    }
    text(
        out,
        "aside",
        "start",
        PAIRS.left,
        PAIRS.top - 8.0,
        "chunks, from query to query",
    );
}

const WIDTH: f64 = 1080.0;
const HEIGHT: f64 = 430.0;
const TIME: Frame = Frame {
    left: 62.0,
    right: 620.0,
    top: 26.0,
    bottom: HEIGHT - 46.0,
};
const PAIRS: Frame = Frame {
    left: 710.0,
    right: WIDTH - 12.0,
    top: 26.0,
    bottom: HEIGHT - 46.0,
};
