//! A figure as data: panels of series. `plot.rs` draws it.

/// Panels in a grid.
#[derive(Clone, Debug, Default)]
pub(crate) struct Figure {
    pub(crate) title: String,
    /// The number of panels side by side.
    pub(crate) columns: usize,
    pub(crate) panels: Vec<Panel>,
}

/// A coordinate system with its series.
#[derive(Clone, Debug, Default)]
pub(crate) struct Panel {
    pub(crate) title: String,
    pub(crate) x: Axis,
    pub(crate) y: Axis,
    pub(crate) series: Vec<Series>,
}

/// An axis. Its range is that of the points, unless it is given.
#[derive(Clone, Debug, Default)]
pub(crate) struct Axis {
    pub(crate) label: String,
    pub(crate) log: bool,
    pub(crate) range: Option<(f64, f64)>,
    /// Names of the positions 0, 1, 2, ...
    pub(crate) names: Vec<String>,
}

impl Axis {
    pub(crate) fn new(label: &str) -> Self {
        Self {
            label: label.to_owned(),
            ..Self::default()
        }
    }

    pub(crate) fn log(label: &str) -> Self {
        Self {
            log: true,
            ..Self::new(label)
        }
    }

    pub(crate) fn names(names: Vec<String>) -> Self {
        Self {
            names,
            ..Self::default()
        }
    }

    pub(crate) fn within(self, low: f64, high: f64) -> Self {
        Self {
            range: Some((low, high)),
            ..self
        }
    }
}

/// Points of one colour.
#[derive(Clone, Debug)]
pub(crate) struct Series {
    pub(crate) name: String,
    /// The index of the colour.
    pub(crate) color: usize,
    pub(crate) mark: Mark,
}

/// How points are drawn.
#[derive(Clone, Debug)]
pub(crate) enum Mark {
    /// Joined by a line.
    Line(Vec<(f64, f64)>),
    /// Joined by a thin line without marks.
    Curve(Vec<(f64, f64)>),
    /// Small dots.
    Dots(Vec<(f64, f64)>),
    /// Larger points, each with a label.
    Labels(Vec<(f64, f64, String)>),
    /// Crosses.
    Crosses(Vec<(f64, f64)>),
    /// (x, low, middle, high).
    Ranges(Vec<(f64, f64, f64, f64)>),
}

impl Mark {
    /// All points, for the ranges of the axes.
    pub(crate) fn points(&self) -> Vec<(f64, f64)> {
        match self {
            Self::Line(points)
            | Self::Curve(points)
            | Self::Dots(points)
            | Self::Crosses(points) => points.clone(),
            Self::Labels(points) => points.iter().map(|&(x, y, _)| (x, y)).collect(),
            Self::Ranges(ranges) => {
                let ends = |&(x, low, _, high): &(f64, f64, f64, f64)| [(x, low), (x, high)];
                ranges.iter().flat_map(ends).collect()
            }
        }
    }
}
