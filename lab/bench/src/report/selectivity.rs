//! How long does a query take by each access path, from no row of the table to all of them?
//! [SmoothScan18 Figure 15]
//!
//! Selectivities are at equal distances, because 0 is one of them; times are logarithmic, because
//! an index scan may take a thousand times as long as the best path. Queries that were given up are
//! not drawn.

use std::fmt::Write as _;

use super::drawing::axis::Scale;
use super::drawing::frame::{Frame, begin};
use crate::smooth::results::SmoothResults;
use coscan_quantities as quantities;

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
    let y = Scale::logarithmic(least, most, (FRAME.bottom, FRAME.top));
    let step = (FRAME.right - FRAME.left) / selectivities.len().max(1) as f64;
    let x = |at: usize| FRAME.left + (at as f64 + 0.5) * step;
    let mut out = begin(
        WIDTH,
        HEIGHT,
        "Time of each access path at each selectivity",
    );
    FRAME.outline(&mut out);
    FRAME.y_grid(&mut out, &y, 40.0);
    FRAME.y_ticks(&mut out, &y, 40.0, quantities::seconds);
    for (at, selectivity) in selectivities.iter().enumerate() {
        FRAME.x_tick(&mut out, x(at), &selectivity.to_string());
    }
    FRAME.x_label(&mut out, "rows of the table in the result (%)");
    for path in results.paths() {
        let mut commands = String::new();
        for (at, time) in times(path) {
            let command = if commands.is_empty() { 'M' } else { 'L' };
            // Writing to a string cannot fail, here and below.
            let _ = write!(commands, "{command}{:.1} {:.1}", x(at), y.at(time));
            let _ = write!(
                out,
                r#"<circle r="4" cx="{:.1}" cy="{:.1}" style="fill:var(--{path})"><title>{path}, {} %: {}</title></circle>"#,
                x(at),
                y.at(time),
                selectivities[at],
                quantities::seconds(time)
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
const FRAME: Frame = Frame {
    left: 66.0,
    right: WIDTH - 10.0,
    top: 10.0,
    bottom: HEIGHT - 48.0,
};
