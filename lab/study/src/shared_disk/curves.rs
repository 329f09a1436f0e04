//! Response times over the number of nodes, one curve per declustering: the form of Figures 4 to 7.

use super::measure::{Measured, Setting};
use crate::report::Report;
use crate::report::figure::{Axis, Figure, Mark, Panel, Series};
use crate::report::number::number;
use crate::seeds::Seeds;

/// The numbers of nodes.
pub(crate) const NODES: [u32; 6] = [1, 2, 4, 8, 16, 32];

/// A curve: its name, and its setting for a number of nodes.
pub(crate) struct Curve<'a> {
    pub(crate) name: String,
    pub(crate) setting: Box<dyn Fn(u32) -> Setting + 'a>,
}

impl<'a> Curve<'a> {
    pub(crate) fn new(name: impl Into<String>, setting: impl Fn(u32) -> Setting + 'a) -> Self {
        Self {
            name: name.into(),
            setting: Box::new(setting),
        }
    }
}

/// A measured curve: a point for each of [`NODES`], until the load is not sustained.
pub(crate) struct Ran {
    pub(crate) name: String,
    pub(crate) points: Vec<Measured>,
}

impl Ran {
    /// The response time with this many nodes, if the load is sustained there.
    pub(crate) fn response(&self, nodes: u32) -> Option<f64> {
        let at = NODES.iter().position(|&n| n == nodes)?;
        let point = self.points.get(at)?;
        point.sustained().then(|| point.response())
    }

    /// The most nodes for which this load and all smaller ones are sustained; 0 if none.
    pub(crate) fn sustained_to(&self) -> u32 {
        let good = self.points.iter().take_while(|point| point.sustained());
        NODES[..good.count()].last().copied().unwrap_or(0)
    }

    /// Whether the load is sustained on some nodes, and not on 16 or 32.
    pub(crate) fn sustained_for_few(&self) -> bool {
        let many = [16, 32].map(|nodes| self.response(nodes));
        (2..=8).contains(&self.sustained_to()) && many == [None; 2]
    }

    /// How many times faster than one node.
    pub(crate) fn speed_up(&self, nodes: u32) -> f64 {
        match (self.response(1), self.response(nodes)) {
            (Some(one), Some(many)) => one / many,
            _ => 0.0,
        }
    }

    /// All its response times in one line.
    pub(crate) fn listed(&self) -> String {
        let each = NODES.iter().map(|&n| match self.response(n) {
            Some(seconds) => format!("{n}: {}", number(seconds)),
            None => format!("{n}: not sustained"),
        });
        each.collect::<Vec<_>>().join(", ")
    }
}

/// Measures the curves, with a row for each point.
pub(crate) fn run(report: &mut Report, curves: &[Curve<'_>], seeds: Seeds) -> Vec<Ran> {
    let mut all = Vec::new();
    for curve in curves {
        let mut points = Vec::new();
        for nodes in NODES {
            let measured = (curve.setting)(nodes).run(seeds);
            let name = format!("{}, n = {nodes}", curve.name);
            if measured.sustained() {
                report.row(format!("{name}: response (s)"), None, measured.responses());
            }
            let disk = measured.spread(|outcome| outcome.disk_utilisation * 100.0);
            report.row(format!("{name}: disk utilisation (%)"), None, disk);
            points.push(measured);
        }
        all.push(Ran {
            name: curve.name.clone(),
            points,
        });
    }
    all
}

/// The curves as the paper draws them.
pub(crate) fn figure(title: &str, ran: &[Ran]) -> Figure {
    let series = ran.iter().enumerate().map(|(color, curve)| {
        let points = NODES.iter().filter_map(|&nodes| {
            let response = curve.response(nodes)?;
            Some((f64::from(nodes), response))
        });
        Series {
            name: curve.name.clone(),
            color,
            mark: Mark::Line(points.collect()),
        }
    });
    Figure {
        title: title.to_owned(),
        columns: 1,
        panels: vec![Panel {
            title: "where a curve ends the load is not sustained".to_owned(),
            x: Axis::log("nodes = subqueries"),
            y: Axis::log("response time (s)"),
            series: series.collect(),
        }],
    }
}

/// How many times longer the first takes with this many nodes; 0 if one of the two is not
/// sustained.
pub(crate) fn ratio(first: &Ran, second: &Ran, nodes: u32) -> f64 {
    match (first.response(nodes), second.response(nodes)) {
        (Some(first), Some(second)) => first / second,
        _ => 0.0,
    }
}

/// The values in one line.
pub(crate) fn list(values: &[f64]) -> String {
    let each = values.iter().map(|&value| number(value));
    each.collect::<Vec<_>>().join(", ")
}
