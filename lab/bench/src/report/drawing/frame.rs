//! The parts of every picture: the plot's edges, grids, ticks and labels.
//!
//! Not here: where values lie and which get a tick (`axis.rs`).

use std::fmt::Write as _;

use super::axis::{Scale, line, text};

/// The edges of a plot, in pixels.
#[derive(Clone, Copy, Debug)]
pub(in crate::report) struct Frame {
    pub(in crate::report) left: f64,
    pub(in crate::report) right: f64,
    pub(in crate::report) top: f64,
    pub(in crate::report) bottom: f64,
}

/// The beginning of a picture; `about` describes it in words.
pub(in crate::report) fn begin(width: f64, height: f64, about: &str) -> String {
    format!(r#"<svg viewBox="0 0 {width} {height}" role="img" aria-label="{about}">"#)
}

impl Frame {
    /// The plot's outline.
    pub(in crate::report) fn outline(&self, out: &mut String) {
        // Writing to a string cannot fail, here and below.
        let _ = write!(
            out,
            r#"<rect class="plot" x="{:.1}" y="{:.1}" width="{:.1}" height="{:.1}"/>"#,
            self.left,
            self.top,
            self.right - self.left,
            self.bottom - self.top
        );
    }

    /// Vertical grid lines at ticks about `spacing` pixels apart.
    pub(in crate::report) fn x_grid(&self, out: &mut String, x: &Scale, spacing: f64) {
        for tick in x.ticks(spacing) {
            let at = x.at(tick);
            line(out, "grid", (at, self.top), (at, self.bottom));
        }
    }

    /// Horizontal grid lines at ticks about `spacing` pixels apart.
    pub(in crate::report) fn y_grid(&self, out: &mut String, y: &Scale, spacing: f64) {
        for tick in y.ticks(spacing) {
            let at = y.at(tick);
            line(out, "grid", (self.left, at), (self.right, at));
        }
    }

    /// The ticks' values below the plot.
    pub(in crate::report) fn x_ticks(
        &self,
        out: &mut String,
        x: &Scale,
        spacing: f64,
        show: fn(f64) -> String,
    ) {
        for tick in x.ticks(spacing) {
            self.x_tick(out, x.at(tick), &show(tick));
        }
    }

    /// One tick's value below the plot.
    pub(in crate::report) fn x_tick(&self, out: &mut String, at: f64, label: &str) {
        text(out, "tick", "middle", at, self.bottom + 17.0, label);
    }

    /// The ticks' values left of the plot.
    pub(in crate::report) fn y_ticks(
        &self,
        out: &mut String,
        y: &Scale,
        spacing: f64,
        show: fn(f64) -> String,
    ) {
        for tick in y.ticks(spacing) {
            let (x, y) = (self.left - 7.0, y.at(tick) + 4.0);
            text(out, "tick", "end", x, y, &show(tick));
        }
    }

    /// The label of the horizontal axis.
    pub(in crate::report) fn x_label(&self, out: &mut String, label: &str) {
        let middle = f64::midpoint(self.left, self.right);
        text(out, "label", "middle", middle, self.bottom + 39.0, label);
    }

    /// The label of the vertical axis, at `x`.
    pub(in crate::report) fn y_label(&self, out: &mut String, x: f64, label: &str) {
        let middle = f64::midpoint(self.top, self.bottom);
        let _ = write!(
            out,
            r#"<text class="label" text-anchor="middle" transform="translate({x} {middle}) rotate(-90)">{label}</text>"#
        );
    }
}
