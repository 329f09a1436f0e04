//! How much did each policy read, between the least possible and what is read without sharing?

use std::fmt::Write as _;

use super::drawing::axis::{Scale, line, text, tick_label};
use super::drawing::frame::{Frame, begin};
use crate::results::CoopResults;
use coscan_quantities as quantities;

/// One bar per policy, a line at the lower bound, an outlined bar for no sharing at all.
pub(super) fn figure(results: &CoopResults) -> String {
    let policies = results.policies_in_order();
    let mut bars: Vec<(&str, u64, bool)> = policies
        .iter()
        .map(|(name, policy)| (*name, policy.io_bytes, false))
        .collect();
    if results.demand_bytes > 0 {
        bars.insert(0, ("each for itself", results.demand_bytes, true));
    }
    let max = bars
        .iter()
        .map(|bar| bar.1)
        .max()
        .unwrap_or(1)
        .max(results.union_bytes) as f64;
    let (unit, divisor) = if max >= 2e9 { ("GB", 1e9) } else { ("MB", 1e6) };
    let x = Scale::linear(max / divisor * 1.42, (LEFT, WIDTH - RIGHT));
    let step = ((HEIGHT - BOTTOM - TOP) / bars.len().max(1) as f64).min(64.0);
    let bottom = TOP + step * bars.len() as f64;
    let frame = Frame {
        left: LEFT,
        right: WIDTH - RIGHT,
        top: TOP,
        bottom,
    };
    let mut out = begin(WIDTH, bottom + BOTTOM, "Bytes read by each policy");
    frame.x_grid(&mut out, &x, 76.0);
    frame.x_ticks(&mut out, &x, 76.0, tick_label);
    frame.x_label(&mut out, &format!("bytes read from the device ({unit})"));
    for (index, (name, bytes, outlined)) in bars.iter().enumerate() {
        let top = TOP + step * index as f64 + step * 0.2;
        let style = super::drawing::palette::policy(name);
        let fill = if *outlined {
            "fill:none;stroke:var(--muted);stroke-dasharray:4 3".to_owned()
        } else {
            format!("fill:var(--{style})")
        };
        let end = x.at(*bytes as f64 / divisor);
        // Writing to a string cannot fail, here and below.
        let _ = write!(
            out,
            r#"<rect rx="2" x="{LEFT}" y="{top:.1}" width="{:.1}" height="{:.1}" style="{fill}"/>"#,
            (end - LEFT).max(1.0),
            step * 0.6
        );
        let baseline = top + step * 0.3 + 4.5;
        text(&mut out, "name", "end", LEFT - 8.0, baseline, name);
        let mut label = quantities::bytes(*bytes);
        if results.union_bytes > 0 {
            let factor = *bytes as f64 / results.union_bytes as f64;
            let _ = write!(label, "  ({} ×)", crate::table::factor(factor));
        }
        text(&mut out, "value", "start", end + 6.0, baseline, &label);
    }
    if results.union_bytes > 0 {
        let at = x.at(results.union_bytes as f64 / divisor);
        line(&mut out, "bound", (at, TOP - 6.0), (at, bottom));
        let label = format!(
            "1 × = {}: all that is needed, read once",
            quantities::bytes(results.union_bytes)
        );
        text(&mut out, "hint", "start", at + 5.0, TOP - 1.0, &label);
    }
    out.push_str("</svg>");
    out
}

const WIDTH: f64 = 520.0;
const HEIGHT: f64 = 360.0;
const LEFT: f64 = 148.0;
const RIGHT: f64 = 10.0;
const TOP: f64 = 22.0;
const BOTTOM: f64 = 48.0;
