//! Verdicts that several experiments share: is the paper's figure within the measured range, and do
//! the policies rank as in the paper?

use super::machine::POLICIES;
use super::measure::{Figures, Runs};
use crate::report::Report;
use crate::report::figure::{Axis, Figure, Mark, Panel, Series};
use crate::report::number::number;
use crate::report::statistics::Spread;

/// The policies' names in the order of the paper's tables.
pub(crate) const NAMES: [&str; 4] = ["normal", "attach", "elevator", "relevance"];
pub(crate) const NORMAL: usize = 0;
pub(crate) const ATTACH: usize = 1;
pub(crate) const ELEVATOR: usize = 2;
pub(crate) const RELEVANCE: usize = 3;

/// By how much the range over the arrangements is widened before the paper's figure, from a single
/// arrangement, has to lie in it.
const WIDENED: f64 = 0.15;

/// A figure that the paper's tables give for every policy.
pub(crate) struct SystemFigure {
    pub(crate) label: &'static str,
    pub(crate) of: fn(&Figures) -> f64,
    pub(crate) paper: [f64; 4],
}

/// Rows, a panel and claims for the system-wide figures of a table: each of the paper's figures is
/// within the measured range, and the policies rank alike.
pub(crate) fn system_figures(
    report: &mut Report,
    runs: &Runs,
    title: &str,
    figures: &[SystemFigure],
) {
    let spreads = |figure: &SystemFigure| -> Vec<Spread> {
        let policies = 0..POLICIES.len();
        policies.map(|at| runs.spread(at, figure.of)).collect()
    };
    let mut panels = Vec::new();
    for figure in figures {
        let spreads = spreads(figure);
        for ((name, &spread), paper) in NAMES.iter().zip(&spreads).zip(figure.paper) {
            report.row(format!("{name}: {}", figure.label), Some(paper), spread);
        }
        panels.push(panel(figure, &spreads));
    }
    for figure in figures {
        let spreads = spreads(figure);
        for ((name, &spread), paper) in NAMES.iter().zip(&spreads).zip(figure.paper) {
            let text = format!(
                "{name}: the paper's {} ({}) lies within ours, widened by 15 %",
                figure.label,
                number(paper)
            );
            let range = format!(
                "5 % to 95 %: {} to {}",
                number(spread.p05),
                number(spread.p95)
            );
            report.claim(text, spread.admits(paper, WIDENED), range);
        }
        let ours: Vec<f64> = spreads.iter().map(|spread| spread.mean).collect();
        let (paper_rank, our_rank) = (ranking(&figure.paper), ranking(&ours));
        let text = format!(
            "{}: the policies rank as in the paper, {paper_rank}",
            figure.label
        );
        report.claim(text, paper_rank == our_rank, listed(&ours));
    }
    report.figure = Some(Figure {
        title: title.to_owned(),
        columns: 2,
        panels,
    });
}

fn panel(figure: &SystemFigure, spreads: &[Spread]) -> Panel {
    let places = || (0..POLICIES.len()).map(|place| place as f64);
    let ours = places()
        .zip(spreads)
        .map(|(x, s)| (x, s.p05, s.mean, s.p95));
    let high = spreads.iter().map(|spread| spread.p95).fold(0.0, f64::max);
    let high = figure.paper.iter().copied().fold(high, f64::max);
    Panel {
        title: figure.label.to_owned(),
        x: Axis::names(NAMES.map(str::to_owned).to_vec()),
        y: Axis::new("").within(0.0, high * 1.25),
        series: vec![
            Series {
                name: "ours: mean, 5 % to 95 %".to_owned(),
                color: RELEVANCE,
                mark: Mark::Ranges(ours.collect()),
            },
            Series {
                name: "paper".to_owned(),
                color: crate::report::plot::PAPER,
                mark: Mark::Crosses(places().zip(figure.paper).collect()),
            },
        ],
    }
}

/// The policies from the smallest to the largest figure.
fn ranking(figures: &[f64]) -> String {
    let mut order: Vec<usize> = (0..figures.len()).collect();
    order.sort_by(|&a, &b| figures[a].total_cmp(&figures[b]));
    let names: Vec<&str> = order.into_iter().map(|at| NAMES[at]).collect();
    names.join(" < ")
}

/// The figures of all policies in one line.
pub(crate) fn listed(figures: &[f64]) -> String {
    let each = NAMES.iter().zip(figures);
    let each: Vec<String> = each
        .map(|(name, &value)| format!("{name} {}", number(value)))
        .collect();
    each.join(", ")
}
