//! When was each chunk read, and for which query? The paper's Figure 4: one panel per policy, all
//! on the same axes.
//!
//! Idea: a scan that runs alone draws a slanted line, sixteen scans draw sixteen; the fewer lines
//! a policy needs, the less the device reads.

use std::fmt::Write as _;

use super::drawing::axis::{Scale, line, tick_label};
use super::drawing::frame::{Frame, begin};
use crate::results::{CoopResults, PolicyResults};
use coscan_quantities as quantities;

/// All panels, one below the other, as one picture.
pub(super) fn figure(results: &CoopResults) -> String {
    let policies = results.policies_in_order();
    let classes = results.classes();
    let last = policies
        .iter()
        .map(|(_, policy)| policy.total_s)
        .fold(0.0, f64::max);
    let x = Scale::linear(last * 1.01, (LEFT, WIDTH - RIGHT));
    let frame = |index: usize| {
        let top = TOP + index as f64 * (PANEL + GAP);
        Frame {
            left: LEFT,
            right: WIDTH - RIGHT,
            top,
            bottom: top + PANEL,
        }
    };
    let last = frame(policies.len().saturating_sub(1));
    let mut out = begin(
        WIDTH,
        last.bottom + BOTTOM,
        "Chunks read over time, by policy",
    );
    for (index, (name, policy)) in policies.iter().enumerate() {
        panel(
            &mut out,
            results,
            &classes,
            (name, policy),
            &x,
            frame(index),
        );
    }
    last.x_ticks(&mut out, &x, 90.0, tick_label);
    last.x_label(&mut out, "time since the first query (s)");
    out.push_str("</svg>");
    out
}

fn panel(
    out: &mut String,
    results: &CoopResults,
    classes: &[String],
    (name, policy): (&str, &PolicyResults),
    x: &Scale,
    frame: Frame,
) {
    let (top, bottom) = (frame.top, frame.bottom);
    let y = Scale::linear(f64::from(chunks(results)), (bottom - 3.0, top + 3.0));
    frame.x_grid(out, x, 90.0);
    frame.outline(out);
    frame.y_ticks(out, &y, 48.0, tick_label);
    frame.y_label(out, 15.0, "chunk");

    // One path per class: thousands of dots stay a few kilobytes, and a class can be styled as one.
    for (index, class) in classes.iter().enumerate() {
        let mut path = String::new();
        for &(time, chunk, query) in &policy.trace {
            if policy
                .queries
                .get(query as usize)
                .is_some_and(|query| query.name == *class)
            {
                // Writing to a string cannot fail, here and below.
                let _ = write!(
                    path,
                    "M{:.1} {:.1}h0",
                    x.at(time),
                    y.at(f64::from(chunk) + 0.5)
                );
            }
        }
        if !path.is_empty() {
            let _ = write!(
                out,
                r#"<path class="dots class-{index}" style="stroke:var(--class-{index})" d="{path}"/>"#
            );
        }
    }

    let end = x.at(policy.total_s);
    line(out, "end", (end, top), (end, bottom));
    let style = super::drawing::palette::policy(name);
    let _ = write!(
        out,
        r#"<text class="panel" x="{LEFT}" y="{:.1}"><tspan style="fill:var(--{style})">{}</tspan><tspan class="aside" dx="10">{} loads · {} read · last answer after {} · {:.0} % CPU</tspan></text>"#,
        top - 8.0,
        super::escape(name),
        quantities::count(policy.trace.len() as u64),
        quantities::bytes(policy.io_bytes),
        quantities::seconds(policy.total_s),
        policy.cpu_fraction * 100.0,
    );
}

/// The number of chunks of the table; derived from the traces if the file lacks it.
fn chunks(results: &CoopResults) -> u32 {
    let seen = results
        .policies
        .values()
        .flat_map(|policy| &policy.trace)
        .map(|load| load.1 + 1);
    results.chunks.max(seen.max().unwrap_or(1))
}

pub(super) const WIDTH: f64 = 1080.0;
const LEFT: f64 = 62.0;
const RIGHT: f64 = 12.0;
const TOP: f64 = 26.0;
const PANEL: f64 = 190.0;
const GAP: f64 = 38.0;
const BOTTOM: f64 = 44.0;
