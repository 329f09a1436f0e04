//! How long does a query take by each access path, from no row of the table to all of them? [SmoothScan18 Figure 15]
//!
//! Selectivities stand at equal distances, for 0 is one of them; times are logarithmic, for an index scan may take a thousand times as
//! long as the best path. What was given up is not drawn.

use std::fmt::Write as _;

use super::axis::{Scale, line, text};
use crate::smooth::results::SmoothResults;
use crate::units;

/// A line per path.
pub(super) fn figure(results: &SmoothResults, order_by: bool) -> String {
    let selectivities = results.selectivities(order_by);
    let times = |path: &str| -> Vec<(usize, f64)> {
        let all = selectivities.iter().enumerate();
        all.filter_map(|(at, s)| Some((at, results.point(order_by, *s, path)?.time_s?)))
            .collect()
    };
    let all: Vec<f64> = results
        .paths()
        .into_iter()
        .flat_map(|path| times(path).into_iter().map(|(_, time)| time))
        .collect();
    let least = all.iter().copied().fold(f64::INFINITY, f64::min);
    let most = all.iter().copied().fold(0.0, f64::max);
    let y = Scale::logarithmic(least, most, (HEIGHT - BOTTOM, TOP));
    let step = (WIDTH - RIGHT - LEFT) / selectivities.len().max(1) as f64;
    let x = |at: usize| LEFT + (at as f64 + 0.5) * step;
    let mut out = String::new();
    // Writing to a string cannot fail.
    let _ = write!(
        out,
        r#"<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="Time of each access path at each selectivity"><rect class="plot" x="{LEFT}" y="{TOP}" width="{}" height="{}"/>"#,
        WIDTH - RIGHT - LEFT,
        HEIGHT - BOTTOM - TOP
    );
    for tick in y.ticks(40.0) {
        let at = y.at(tick);
        line(&mut out, "grid", (LEFT, at), (WIDTH - RIGHT, at));
        text(
            &mut out,
            "tick",
            "end",
            LEFT - 7.0,
            at + 4.0,
            &units::seconds(tick),
        );
    }
    for (at, selectivity) in selectivities.iter().enumerate() {
        let label = format!("{selectivity}");
        text(
            &mut out,
            "tick",
            "middle",
            x(at),
            HEIGHT - BOTTOM + 17.0,
            &label,
        );
    }
    let middle = f64::midpoint(LEFT, WIDTH - RIGHT);
    text(
        &mut out,
        "label",
        "middle",
        middle,
        HEIGHT - 8.0,
        "rows of the table in the result (%)",
    );
    for path in results.paths() {
        let mut commands = String::new();
        for (at, time) in times(path) {
            let command = if commands.is_empty() { 'M' } else { 'L' };
            let _ = write!(commands, "{command}{:.1} {:.1}", x(at), y.at(time));
            let _ = write!(
                out,
                r#"<circle r="4" cx="{:.1}" cy="{:.1}" style="fill:var(--{path})"><title>{path}, {} %: {}</title></circle>"#,
                x(at),
                y.at(time),
                selectivities[at],
                units::seconds(time)
            );
        }
        let _ = write!(
            out,
            r#"<path style="fill:none;stroke-width:2;stroke:var(--{path})" d="{commands}"/>"#
        );
    }
    out.push_str("</svg>");
    out
}

const WIDTH: f64 = 520.0;
const HEIGHT: f64 = 340.0;
const LEFT: f64 = 66.0;
const RIGHT: f64 = 10.0;
const TOP: f64 = 10.0;
const BOTTOM: f64 = 48.0;
