//! How long did queries of each class wait, and how evenly?
//!
//! Idea: every query is a dot, the mean is a bar, and the time alone is a line, so that spread and
//! outliers are visible. The axis is logarithmic, because the classes span three orders of
//! magnitude.

use std::fmt::Write as _;

use super::accesses::WIDTH;
use super::drawing::axis::{Scale, line, text, tick_label};
use super::drawing::frame::{Frame, begin};
use crate::results::{CoopResults, PolicyResults};
use crate::table::class_latency;
use coscan_quantities as quantities;

/// One band per class, one lane per policy.
pub(super) fn figure(results: &CoopResults) -> String {
    let policies = results.policies_in_order();
    let classes = results.classes();
    let latencies = || {
        policies
            .iter()
            .flat_map(|(_, policy)| policy.queries.iter().map(|query| query.latency_s))
            .chain(results.standalone.values().copied())
            .filter(|latency| *latency > 0.0)
    };
    let (min, max) = (
        latencies().fold(f64::MAX, f64::min),
        latencies().fold(0.0, f64::max),
    );
    let x = Scale::logarithmic(min, max, (LEFT, WIDTH - RIGHT));
    let band = policies.len() as f64 * LANE + PADDING;
    let bottom = TOP + classes.len() as f64 * band;
    let frame = Frame {
        left: LEFT,
        right: WIDTH - RIGHT,
        top: TOP,
        bottom,
    };
    let mut out = begin(
        WIDTH,
        bottom + BOTTOM,
        "Latency of every query, by class and policy",
    );
    frame.outline(&mut out);
    frame.x_grid(&mut out, &x, 70.0);
    frame.x_ticks(&mut out, &x, 70.0, tick_label);
    frame.x_label(&mut out, "latency (s), logarithmic");

    for (index, class) in classes.iter().enumerate() {
        let top = TOP + index as f64 * band;
        if index > 0 {
            line(&mut out, "rule", (0.0, top), (WIDTH - RIGHT, top));
        }
        let alone = results.standalone.get(class).copied().unwrap_or_default();
        let centre = top + band / 2.0;
        // Writing to a string cannot fail, here and below.
        let _ = write!(
            out,
            r#"<text class="class" x="2" y="{:.1}" style="fill:var(--class-{index})">{}</text>"#,
            centre - 2.0,
            super::escape(class)
        );
        text(
            &mut out,
            "hint",
            "start",
            2.0,
            centre + 14.0,
            &format!("alone {}", quantities::seconds(alone)),
        );
        line(
            &mut out,
            "bound",
            (x.at(alone), top + 3.0),
            (x.at(alone), top + band - 3.0),
        );
        for (lane, (name, policy)) in policies.iter().enumerate() {
            let y = top + PADDING / 2.0 + (lane as f64 + 0.5) * LANE;
            lane_of(&mut out, class, name, policy, &x, y);
        }
    }
    out.push_str("</svg>");
    out
}

/// One policy's queries of one class: dots, and a bar at their mean.
fn lane_of(out: &mut String, class: &str, name: &str, policy: &PolicyResults, x: &Scale, y: f64) {
    let style = super::drawing::palette::policy(name);
    text(out, "lane", "end", LEFT - 7.0, y + 3.5, name);
    for query in policy.queries.iter().filter(|query| query.name == class) {
        let _ = write!(
            out,
            r#"<circle class="query" r="3" cx="{:.1}" cy="{y:.1}" style="fill:var(--{style})"><title>{} in stream {}, {}: {} ({} × alone)</title></circle>"#,
            x.at(query.latency_s),
            super::escape(class),
            query.stream,
            super::escape(name),
            quantities::seconds(query.latency_s),
            quantities::significant(query.normalized)
        );
    }
    if let Some(mean) = class_latency(policy, class) {
        let at = x.at(mean);
        let _ = write!(
            out,
            r#"<rect class="mean" x="{:.1}" y="{:.1}" width="3" height="{}" style="fill:var(--{style})"><title>{} {}: mean {}</title></rect>"#,
            at - 1.5,
            y - LANE / 2.0 + 0.5,
            LANE - 1.0,
            super::escape(class),
            super::escape(name),
            quantities::seconds(mean)
        );
    }
}

const LEFT: f64 = 150.0;
const RIGHT: f64 = 12.0;
const TOP: f64 = 4.0;
const BOTTOM: f64 = 46.0;
const LANE: f64 = 14.0;
const PADDING: f64 = 12.0;
