//! Draws a figure as SVG.
//!
//! The legend is between the title and the panels, once for all panels, so that it covers no
//! points.
//! Not here: the content (`figure.rs` and the experiments). Fonts of the text are the reader's.

use plotters::coord::Shift;
use plotters::coord::ranged1d::{AsRangedCoord, Ranged, ValueFormatter};
use plotters::prelude::*;

use super::figure::{Axis, Figure, Mark, Panel};
use super::number::number;
use crate::error::StudyError;

/// The policies' colours, distinguishable without colour vision [Okabe, Ito 2008]; black for the
/// paper.
const COLORS: [RGBColor; 7] = [
    RGBColor(213, 94, 0),
    RGBColor(230, 159, 0),
    RGBColor(0, 114, 178),
    RGBColor(0, 158, 115),
    RGBColor(204, 121, 167),
    RGBColor(86, 180, 233),
    RGBColor(0, 0, 0),
];
/// The colour of the paper's figures.
pub(crate) const PAPER: usize = 6;
const PANEL: (u32, u32) = (460, 320);
/// The size of a single panel.
const LARGE: (u32, u32) = (760, 480);
const TITLE_HEIGHT: u32 = 36;
/// Pixels of the legend: the height of a row, the largest width of a letter, and the width of a
/// name's colour with the space around it.
const LEGEND_ROW: u32 = 18;
const LEGEND_LETTER: u32 = 6;
const LEGEND_SPACE: u32 = 36;
const FONT: &str = "sans-serif";

type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;

/// The figure as the text of an SVG file.
///
/// # Errors
/// [`StudyError::Draw`].
pub(crate) fn svg(figure: &Figure) -> Result<String, StudyError> {
    let mut text = String::new();
    let columns = figure.columns.max(1);
    let rows = figure.panels.len().div_ceil(columns).max(1);
    let (wide, high) = (u32::try_from(columns), u32::try_from(rows));
    let panel = if figure.panels.len() == 1 {
        LARGE
    } else {
        PANEL
    };
    let width = panel.0 * wide.unwrap_or(1);
    let legend = legend(figure, width);
    let legend_height = LEGEND_ROW * u32::try_from(legend.len()).unwrap_or(0);
    let height = TITLE_HEIGHT + legend_height + panel.1 * high.unwrap_or(1);
    {
        let area = SVGBackend::with_string(&mut text, (width, height)).into_drawing_area();
        let draw = || -> Result<(), Box<dyn std::error::Error>> {
            area.fill(&WHITE)?;
            let area = area.titled(&figure.title, (FONT, 20))?;
            let (above, area) = area.split_vertically(legend_height);
            draw_legend(&legend, &above)?;
            for (panel, area) in figure.panels.iter().zip(area.split_evenly((rows, columns))) {
                draw_panel(panel, &area)?;
            }
            area.present()?;
            Ok(())
        };
        draw().map_err(|error| StudyError::Draw {
            reason: error.to_string(),
        })?;
    }
    // Attributes with default values make up half of a figure with thousands of dots.
    Ok(text
        .replace(" opacity=\"1\"", "")
        .replace(" stroke=\"none\" stroke-width=\"1\"", ""))
}

/// The names of all series with their colours, each once, in rows of this width.
fn legend(figure: &Figure, width: u32) -> Vec<Vec<(&str, usize)>> {
    let mut rows: Vec<Vec<(&str, usize)>> = Vec::new();
    let series = figure.panels.iter().flat_map(|panel| &panel.series);
    for series in series.filter(|series| !series.name.is_empty()) {
        let entry = (series.name.as_str(), series.color);
        if rows.iter().flatten().any(|known| *known == entry) {
            continue;
        }
        match rows.last_mut() {
            Some(row) if row_width(row) + entry_width(entry.0) <= width => row.push(entry),
            _ => rows.push(vec![entry]),
        }
    }
    rows
}

fn entry_width(name: &str) -> u32 {
    LEGEND_SPACE + LEGEND_LETTER * u32::try_from(name.chars().count()).unwrap_or(0)
}

fn row_width(row: &[(&str, usize)]) -> u32 {
    row.iter().map(|(name, _)| entry_width(name)).sum()
}

fn draw_legend(
    legend: &[Vec<(&str, usize)>],
    area: &Area<'_>,
) -> Result<(), Box<dyn std::error::Error>> {
    let (width, _) = area.dim_in_pixel();
    let mut y = 4;
    for row in legend {
        let mut x = i32::try_from(width.saturating_sub(row_width(row)) / 2)?;
        for (name, color) in row {
            let color = COLORS[color % COLORS.len()];
            area.draw(&Rectangle::new([(x, y), (x + 10, y + 8)], color.filled()))?;
            area.draw(&Text::new(*name, (x + 16, y - 1), (FONT, 12)))?;
            x += i32::try_from(entry_width(name))?;
        }
        y += i32::try_from(LEGEND_ROW)?;
    }
    Ok(())
}

fn draw_panel(panel: &Panel, area: &Area<'_>) -> Result<(), Box<dyn std::error::Error>> {
    let points = panel.series.iter().flat_map(|series| series.mark.points());
    let (xs, ys): (Vec<f64>, Vec<f64>) = points.unzip();
    let (x, y) = (range(&panel.x, &xs), range(&panel.y, &ys));
    // The four combinations of linear and logarithmic axes have four types.
    match (panel.x.log, panel.y.log) {
        (false, false) => draw_in(panel, area, x.0..x.1, y.0..y.1),
        (true, false) => draw_in(panel, area, (x.0..x.1).log_scale(), y.0..y.1),
        (false, true) => draw_in(panel, area, x.0..x.1, (y.0..y.1).log_scale()),
        (true, true) => draw_in(panel, area, (x.0..x.1).log_scale(), (y.0..y.1).log_scale()),
    }
}

/// From 0, or from the smallest value on a logarithmic axis, with a margin.
fn range(axis: &Axis, values: &[f64]) -> (f64, f64) {
    if let Some(range) = axis.range {
        return range;
    }
    if !axis.names.is_empty() {
        return (-0.5, axis.names.len() as f64 - 0.5);
    }
    let high = values.iter().copied().fold(f64::MIN_POSITIVE, f64::max);
    let low = values.iter().copied().fold(high, f64::min);
    if axis.log {
        (low / 1.15, high * 1.15)
    } else {
        (low.min(0.0), high * 1.08)
    }
}

fn draw_in<X, Y>(
    panel: &Panel,
    area: &Area<'_>,
    x: X,
    y: Y,
) -> Result<(), Box<dyn std::error::Error>>
where
    X: AsRangedCoord<Value = f64>,
    Y: AsRangedCoord<Value = f64>,
    X::CoordDescType: Ranged<ValueType = f64> + ValueFormatter<f64>,
    Y::CoordDescType: Ranged<ValueType = f64> + ValueFormatter<f64>,
{
    let mut chart = ChartBuilder::on(area)
        .caption(&panel.title, (FONT, 15))
        .margin(10)
        .x_label_area_size(38)
        .y_label_area_size(52)
        .build_cartesian_2d(x, y)?;
    let names = &panel.x.names;
    let label = |value: &f64| tick(names, *value);
    let plain = |value: &f64| tick(&[], *value);
    let mut mesh = chart.configure_mesh();
    mesh.light_line_style(WHITE)
        .bold_line_style(RGBColor(225, 225, 225))
        .label_style((FONT, 12))
        .axis_desc_style((FONT, 13))
        .x_desc(&panel.x.label)
        .y_desc(&panel.y.label)
        .x_label_formatter(&label)
        .y_label_formatter(&plain);
    if names.is_empty() {
        mesh.x_labels(7);
    } else {
        mesh.x_labels(names.len() * 2 + 1).disable_x_mesh();
    }
    mesh.y_labels(6).draw()?;
    for series in &panel.series {
        let color = COLORS[series.color % COLORS.len()];
        match &series.mark {
            Mark::Line(points) => {
                let line = points.iter().copied();
                chart.draw_series(line.map(|at| Circle::new(at, 2, color.filled())))?;
                let line = points.iter().copied();
                chart.draw_series(LineSeries::new(line, color.stroke_width(2)))?;
            }
            Mark::Curve(points) => {
                chart.draw_series(LineSeries::new(points.iter().copied(), color))?;
            }
            Mark::Dots(points) => {
                let dots = points.iter().copied();
                chart.draw_series(dots.map(|at| Circle::new(at, 1, color.filled())))?;
            }
            Mark::Crosses(points) => {
                let crosses = points.iter().copied();
                chart.draw_series(crosses.map(|at| Cross::new(at, 5, color.stroke_width(2))))?;
            }
            Mark::Labels(points) => {
                chart.draw_series(points.iter().map(|(x, y, name)| {
                    let text =
                        Text::new(name.clone(), (5, -6), (FONT, 10).into_font().color(&color));
                    EmptyElement::at((*x, *y)) + Circle::new((0, 0), 4, color.filled()) + text
                }))?;
            }
            Mark::Ranges(ranges) => {
                let bars = ranges.iter();
                chart.draw_series(bars.map(|&(x, low, _, high)| {
                    PathElement::new([(x, low), (x, high)], color.stroke_width(2))
                }))?;
                let means = ranges.iter();
                chart.draw_series(
                    means.map(|&(x, _, mean, _)| Circle::new((x, mean), 4, color.filled())),
                )?;
            }
        }
    }
    Ok(())
}

/// The name of a position, or its number.
fn tick(names: &[String], value: f64) -> String {
    if names.is_empty() {
        let text = number(value);
        let (mantissa, exponent) = text.split_at(text.find('e').unwrap_or(text.len()));
        let short = if mantissa.contains('.') {
            mantissa.trim_end_matches('0').trim_end_matches('.')
        } else {
            mantissa
        };
        return format!("{short}{exponent}");
    }
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "small, and not below 0"
    )]
    let place = value.max(0.0).round() as usize;
    let exact = (value - place as f64).abs() < 1e-6;
    let name = names.get(place).filter(|_| exact);
    name.cloned().unwrap_or_default()
}
