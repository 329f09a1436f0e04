//! Does a policy buy throughput with latency? One point per policy; the lower left is better.

use std::fmt::Write as _;

use super::drawing::axis::{Scale, text, tick_label};
use super::drawing::frame::{Frame, begin};
use crate::results::CoopResults;
use coscan_quantities as quantities;

/// Average stream time against average normalized latency; both axes begin at 0.
pub(super) fn figure(results: &CoopResults) -> String {
    let policies = results.policies_in_order();
    let max = |value: fn(&crate::results::PolicyResults) -> f64| {
        policies
            .iter()
            .map(|(_, policy)| value(policy))
            .fold(0.0, f64::max)
            * 1.18
    };
    let x = Scale::linear(max(|p| p.avg_normalized_latency), (FRAME.left, FRAME.right));
    let y = Scale::linear(max(|p| p.avg_stream_s), (FRAME.bottom, FRAME.top));
    let mut out = begin(
        WIDTH,
        HEIGHT,
        "Average stream time and average normalized latency of each policy",
    );
    FRAME.outline(&mut out);
    FRAME.x_grid(&mut out, &x, 64.0);
    FRAME.x_ticks(&mut out, &x, 64.0, tick_label);
    FRAME.y_grid(&mut out, &y, 48.0);
    FRAME.y_ticks(&mut out, &y, 48.0, tick_label);
    FRAME.x_label(&mut out, "latency: average over queries, × the time alone");
    FRAME.y_label(&mut out, 14.0, "throughput: average stream time (s)");
    let (hint_x, hint_y) = (FRAME.left + 10.0, FRAME.bottom - 10.0);
    text(
        &mut out,
        "hint",
        "start",
        hint_x,
        hint_y,
        "↙ better on both",
    );
    let points: Vec<(f64, f64)> = policies
        .iter()
        .map(|(_, p)| (x.at(p.avg_normalized_latency), y.at(p.avg_stream_s)))
        .collect();
    for (index, (name, policy)) in policies.iter().enumerate() {
        let (at_x, at_y) = points[index];
        let style = super::drawing::palette::policy(name);
        // Writing to a string cannot fail, here and below.
        let _ = write!(
            out,
            r#"<circle r="7" cx="{at_x:.1}" cy="{at_y:.1}" style="fill:var(--{style})"><title>{}: {} per stream, {} × alone</title></circle>"#,
            super::escape(name),
            quantities::seconds(policy.avg_stream_s),
            quantities::significant(policy.avg_normalized_latency)
        );
        let (anchor, dx, dy) = label_place(&points, index);
        let _ = write!(
            out,
            r#"<text class="point" text-anchor="{anchor}" x="{:.1}" y="{:.1}" style="fill:var(--{style})">{}</text>"#,
            at_x + dx,
            at_y + dy,
            super::escape(name)
        );
    }
    out.push_str("</svg>");
    out
}

/// Where a point's label goes: the first place of right, above, below, left that is not near
/// another point's label or dot.
fn label_place(points: &[(f64, f64)], index: usize) -> (&'static str, f64, f64) {
    let (x, y) = points[index];
    let near = |dx: f64, dy: f64| {
        points.iter().enumerate().any(|(other, point)| {
            // A label is about 70 × 16; it must keep clear of other dots, and of labels right of
            // them.
            other != index && (point.0 - (x + dx)).abs() < 76.0 && (point.1 - (y + dy)).abs() < 15.0
        })
    };
    // Of points in one place the later one has its label below.
    let again = points[..index]
        .iter()
        .any(|point| (point.0 - x).abs() < 76.0 && (point.1 - y).abs() < 15.0);
    let room = x + 90.0 < FRAME.right;
    if room && !near(45.0, 0.0) {
        ("start", 12.0, 4.5)
    } else if !again && !near(0.0, -20.0) {
        ("middle", 0.0, -14.0)
    } else if !near(0.0, 20.0) {
        ("middle", 0.0, 23.0)
    } else {
        ("end", -12.0, 4.5)
    }
}

const WIDTH: f64 = 520.0;
const HEIGHT: f64 = 360.0;
const FRAME: Frame = Frame {
    left: 56.0,
    right: WIDTH - 10.0,
    top: 10.0,
    bottom: HEIGHT - 48.0,
};
