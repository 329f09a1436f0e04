//! Which page was read when? [SmoothScan18 Figure 14]: a row of panels per query, a panel per
//! access path.
//!
//! Idea: all panels of a query have the same axes, so that a slow path is wide and a path that
//! jumps is scattered. Colours show how much was read at once, which a smooth scan changes while
//! it runs.
//! Bounds: at most one mark per half pixel, however many reads there are.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use super::drawing::axis::{Scale, line, tick_label};
use super::drawing::frame::{Frame, begin};
use crate::smooth::picture::{PATIENCE, Picture, PicturedPath, PicturedQuery};
use coscan_quantities as quantities;

/// A section per query.
pub(super) fn sections(page: &mut String, picture: &Picture) {
    let device = picture.bandwidth.map_or_else(
        || "the machine’s own device".to_owned(),
        |rate| {
            format!(
                "a device held to {}, {} for each request",
                quantities::rate(rate),
                quantities::seconds(picture.latency_s)
            )
        },
    );
    // Writing to a string cannot fail, here and below.
    let _ = write!(
        page,
        "<p class=\"lead\">A query that an index serves can be answered in several ways, and which is best depends on how many rows \
         it wants, which nobody knows before. A smooth scan need not know: it begins with what the index names, and reads more at \
         once where that pays, up to a full scan.</p>\n\
         <p class=\"facts\">{} pages of {} rows, {} each · {device} · rows lie at random · empty buffer</p>\n",
        quantities::count(picture.pages),
        quantities::count(picture.page_rows),
        quantities::bytes(picture.page_bytes),
    );
    for (number, query) in picture.queries.iter().enumerate() {
        let rows = quantities::count(query.rows);
        let percent = quantities::significant(query.selectivity);
        let title =
            format!("Which page was read when: {rows} rows wanted, {percent} % of the table");
        let caption = if number == 0 {
            format!(
                "Each mark is one read: of pages, at the time at which they were there, or of a chunk, at the time at which its load \
                 was begun. What statistics rule out is not read. Panels of a query have the same axes; index and sort scan are given \
                 up after {PATIENCE} times what the slower of full and smooth scan takes. The dotted line is the last row."
            )
        } else {
            "The same table and the same device; only the query’s range is wider.".to_owned()
        };
        let content = format!("{LEGEND}{}", figure(picture, query));
        super::section(page, &title, &caption, "wide", &content);
    }
}

/// The panels of a query, side by side.
fn figure(picture: &Picture, query: &PicturedQuery) -> String {
    let longest = query.paths.iter().filter_map(end).fold(0.0, f64::max);
    let panel = (ALL.right - ALL.left + GAP) / query.paths.len().max(1) as f64 - GAP;
    let y = Scale::linear(picture.pages as f64, (ALL.bottom - 3.0, ALL.top + 3.0));
    let mut out = begin(WIDTH, HEIGHT, "Pages read over time, by access path");
    ALL.y_ticks(&mut out, &y, 48.0, tick_label);
    ALL.y_label(&mut out, 13.0, "page");
    for (index, path) in query.paths.iter().enumerate() {
        let left = ALL.left + index as f64 * (panel + GAP);
        let right = left + panel;
        let x = Scale::linear(longest * 1.02, (left, right));
        let frame = Frame { left, right, ..ALL };
        frame.x_grid(&mut out, &x, 64.0);
        frame.outline(&mut out);
        frame.x_ticks(&mut out, &x, 64.0, tick_label);
        marks(&mut out, path, &x, &y);
        if let Some(time) = path.time_s {
            let at = x.at(time);
            line(&mut out, "end", (at, ALL.top), (at, ALL.bottom));
        }
        heading(&mut out, path, left);
    }
    ALL.x_label(&mut out, "time since the query was planned (s)");
    out.push_str("</svg>");
    out
}

/// Marks of what was read; the largest reads are drawn first, so that no page hides behind a chunk.
fn marks(out: &mut String, path: &PicturedPath, x: &Scale, y: &Scale) {
    for style in [READ_CHUNK, READ_PAGES, READ_PAGE] {
        let mut marks: BTreeSet<(i64, i64, i64)> = BTreeSet::new();
        for &(time, first, pages, chunk) in &path.reads {
            let its_style = match pages {
                _ if chunk => READ_CHUNK,
                0 | 1 => READ_PAGE,
                _ => READ_PAGES,
            };
            if its_style == style {
                let middle = |page: u32| half_pixels(y.at(f64::from(page) + 0.5));
                let last = first + pages.saturating_sub(1);
                marks.insert((half_pixels(x.at(time)), middle(first), middle(last)));
            }
        }
        let mut commands = String::new();
        for (at, from, to) in marks {
            let pixels = |half: i64| half as f64 / 2.0;
            // A line of no length is a dot.
            let _ = write!(commands, "M{} {}V{}", pixels(at), pixels(from), pixels(to));
        }
        if !commands.is_empty() {
            let _ = write!(
                out,
                r#"<path class="dots" style="stroke:var(--{style})" d="{commands}"/>"#
            );
        }
    }
}

/// The path's name, its time and its number of reads.
fn heading(out: &mut String, path: &PicturedPath, left: f64) {
    let took = match (path.time_s, &path.error) {
        (Some(time), _) => quantities::seconds(time),
        (None, None) => "given up".to_owned(),
        (None, Some(_)) => "failed".to_owned(),
    };
    let name = super::escape(&path.path);
    let _ = write!(
        out,
        r#"<text class="panel" x="{left:.1}" y="{:.1}"><tspan style="fill:var(--{name})">{name}</tspan><tspan class="aside" dx="9">{took} · {} reads</tspan></text>"#,
        ALL.top - 9.0,
        quantities::count(path.reads.len() as u64),
    );
}

/// When a path's panel ends.
fn end(path: &PicturedPath) -> Option<f64> {
    path.time_s.or_else(|| path.reads.last().map(|read| read.0))
}

#[expect(clippy::cast_possible_truncation)] // Within the picture.
fn half_pixels(pixels: f64) -> i64 {
    (pixels * 2.0).round() as i64
}

/// The names of the read styles in the palette.
const READ_CHUNK: &str = "read-chunk";
const READ_PAGES: &str = "read-pages";
const READ_PAGE: &str = "read-page";

const LEGEND: &str = "<ul class=\"legend\"><li><i style=\"background:var(--read-page)\"></i>one page by itself</li>\
                      <li><i style=\"background:var(--read-pages)\"></i>pages side by side, together</li>\
                      <li><i style=\"background:var(--read-chunk)\"></i>a chunk, by a cooperative scan</li></ul>";

const WIDTH: f64 = 1080.0;
const HEIGHT: f64 = 330.0;
/// The frame around all panels.
const ALL: Frame = Frame {
    left: 62.0,
    right: WIDTH - 12.0,
    top: 30.0,
    bottom: HEIGHT - 48.0,
};
const GAP: f64 = 22.0;

#[cfg(test)]
mod tests {
    use super::*;

    fn picture() -> Picture {
        let path = |path: &str, time_s, reads: &[(f64, u32, u32, bool)]| PicturedPath {
            path: path.to_owned(),
            time_s,
            error: None,
            reads: reads.to_vec(),
        };
        Picture {
            pages: 100,
            queries: vec![PicturedQuery {
                rows: 7,
                paths: vec![
                    path(
                        "full",
                        Some(1.0),
                        &[(0.0, 0, 50, true), (0.5, 50, 50, true)],
                    ),
                    path("index", None, &[(0.1, 99, 1, false), (4.0, 98, 1, false)]),
                    path(
                        "smooth",
                        Some(1.2),
                        &[(0.1, 3, 1, false), (0.2, 8, 2, false)],
                    ),
                ],
                ..PicturedQuery::default()
            }],
            ..Picture::default()
        }
    }

    #[test]
    fn reads_are_drawn_by_how_much_they_bring() {
        let picture = picture();
        let drawn = figure(&picture, &picture.queries[0]);
        let of = |style: &str| drawn.matches(&format!("var(--read-{style})")).count();
        assert_eq!((of("chunk"), of("pages"), of("page")), (1, 1, 2), "{drawn}");
        assert!(drawn.contains("given up · 2 reads") && drawn.contains("1.20 s · 2 reads"));
    }

    #[test]
    fn reads_at_one_place_are_one_mark() {
        let mut picture = picture();
        let index = &mut picture.queries[0].paths[1];
        index.reads = vec![(2.0, 5, 1, false); 100_000];
        let drawn = figure(&picture, &picture.queries[0]);
        assert!(
            drawn.len() < 20_000 && drawn.contains("100\u{202f}000 reads"),
            "{}",
            drawn.len()
        );
    }
}
