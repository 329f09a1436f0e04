//! The results of an experiment: figures, and claims with their evidence.
//!
//! Idea: the JSON file is the interface, as in [`crate::results`]. A figure's name ends in its
//! unit: `_s` seconds, `_bytes`, `_ratio`; without one it is a count.

use std::collections::BTreeMap;

use coscan_study::Claim;
use serde::{Deserialize, Serialize};

use super::results::Machine;
use crate::smooth::query::measure::Median;
use crate::table::{columns, factor};
use coscan_quantities as quantities;

/// The result of an experiment.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Figures {
    /// Its name.
    pub experiment: String,
    /// What the experiment was run on, in words: table, device, memory, repeats.
    pub about: String,
    /// The names of the figures, in the order in which they are shown.
    pub columns: Vec<String>,
    /// What was measured.
    pub points: Vec<Figure>,
    /// The claims that the experiment must show.
    pub claims: Vec<Claim>,
    /// The machine.
    pub machine: Machine,
}

/// One case.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Figure {
    /// The case's label.
    pub label: String,
    /// The case's figures by name; a figure that could not be measured is missing.
    pub figures: BTreeMap<String, f64>,
    /// Why the case failed, if it did; a query that was given up has neither time nor error.
    pub error: Option<String>,
}

impl Figures {
    pub(crate) fn new(experiment: &str, about: String, columns: &[&str]) -> Self {
        Self {
            experiment: experiment.to_owned(),
            about,
            columns: columns.iter().map(|name| (*name).to_owned()).collect(),
            machine: Machine::here(),
            ..Self::default()
        }
    }

    /// Adds a claim that a ratio is at most `most`. A claim whose ratio could not be measured does
    /// not hold.
    pub(crate) fn at_most(&mut self, text: impl Into<String>, ratio: Option<f64>, most: f64) {
        let evidence = ratio.map_or_else(|| "not measured".to_owned(), factor);
        let holds = ratio.is_some_and(|ratio| ratio <= most);
        self.claims.push(Claim::new(text, holds, evidence));
    }

    /// Adds a claim that a ratio is at least `least`, likewise.
    pub(crate) fn at_least(&mut self, text: impl Into<String>, ratio: Option<f64>, least: f64) {
        let evidence = ratio.map_or_else(|| "not measured".to_owned(), factor);
        let holds = ratio.is_some_and(|ratio| ratio >= least);
        self.claims.push(Claim::new(text, holds, evidence));
    }

    /// A figure of a case.
    #[must_use]
    pub fn figure(&self, label: &str, name: &str) -> Option<f64> {
        let point = self.points.iter().find(|point| point.label == label)?;
        point.figures.get(name).copied()
    }

    /// A figure of one case over the same figure of another.
    pub(crate) fn ratio(&self, label: &str, over: &str, name: &str) -> Option<f64> {
        Some(self.figure(label, name)? / self.figure(over, name)?)
    }

    /// Lays the run out as text, with a line end after the last line.
    #[must_use]
    pub fn render(&self) -> String {
        let mut rows = vec![vec![self.experiment.clone()]];
        rows[0].extend(self.columns.iter().map(|name| name.replace('_', " ")));
        for point in &self.points {
            let mut row = vec![point.label.clone()];
            row.extend(
                self.columns
                    .iter()
                    .map(|name| match point.figures.get(name) {
                        Some(value) => show(name, *value),
                        None if point.error.is_some() => "failed".to_owned(),
                        None => "–".to_owned(),
                    }),
            );
            rows.push(row);
        }
        let mut lines = vec![self.about.clone(), columns(&rows)];
        lines.extend(
            self.claims
                .iter()
                .map(|claim| format!("{}: {} ({})", claim.verdict(), claim.text, claim.evidence)),
        );
        lines.join("\n") + "\n"
    }
}

impl Figure {
    /// A case's time, its spread, and what it read.
    pub(crate) fn measured(label: impl Into<String>, median: &Median) -> Self {
        let mut figure = Self {
            label: label.into(),
            error: median.of.error.clone(),
            ..Self::default()
        };
        if let (Some(time), Some(max)) = (median.seconds(), median.max) {
            figure.set("time_s", time);
            figure.set("max_s", max.as_secs_f64());
        }
        figure.set("requests", median.of.requests as f64);
        figure.set("read_bytes", median.of.bytes as f64);
        figure
    }

    pub(crate) fn set(&mut self, name: &str, value: f64) {
        self.figures.insert(name.to_owned(), value);
    }
}

fn show(name: &str, value: f64) -> String {
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // Counts and bytes.
    let whole = value.round() as u64;
    match name.rsplit('_').next() {
        Some("s") => quantities::seconds(value),
        Some("bytes") => quantities::bytes(whole),
        Some("ratio") => factor(value),
        _ => quantities::count(whole),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_shown_in_their_units_and_claims_with_their_evidence() {
        let mut figures = Figures::new(
            "skew",
            "on a table".to_owned(),
            &["time_s", "pages", "pages_ratio"],
        );
        for (label, time, pages) in [("sort", 0.5, 300.0), ("smooth", 1.5, 330.0)] {
            let mut figure = Figure {
                label: label.to_owned(),
                ..Figure::default()
            };
            figure.set("time_s", time);
            figure.set("pages", pages);
            figures.points.push(figure);
        }
        let ratio = figures.ratio("smooth", "sort", "pages");
        figures.at_most("reads at most 1.2 times the pages", ratio, 1.2);
        figures.at_least(
            "is no faster",
            figures.ratio("smooth", "sort", "time_s"),
            4.0,
        );
        figures.at_most("never", figures.ratio("smooth", "full", "time_s"), 1.0);
        let text = figures.render();
        for words in [
            "500 ms",
            "330",
            "–",
            "unproven: reads at most 1.2 times the pages (1.10)",
            "FAILS: is no faster (3.00)",
            "FAILS: never (not measured)",
        ] {
            assert!(text.contains(words), "{words}: {text}");
        }
        let json = serde_json::to_string(&figures).unwrap();
        assert_eq!(serde_json::from_str::<Figures>(&json).unwrap(), figures);
    }
}
