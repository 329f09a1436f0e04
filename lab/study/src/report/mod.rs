//! The result of an experiment: figures beside the paper's, and claims with their evidence.

pub(crate) mod claim;
pub(crate) mod figure;
mod mutations;
pub(crate) mod number;
pub(crate) mod plot;
pub(crate) mod statistics;

use std::fmt::Write as _;

use serde::Serialize;

use self::claim::{Claim, Fresh, Mutation};
use self::figure::Figure;
use self::number::number;
use self::statistics::Spread;
use crate::error::StudyError;
use crate::seeds::Seeds;

/// The result of an experiment, as `--json` writes it.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// The name of the experiment.
    pub experiment: String,
    /// The number of seeds.
    pub seeds: u64,
    /// The figures.
    pub rows: Vec<Row>,
    /// The claims.
    pub claims: Vec<Claim>,
    /// The figure that `--plot` draws.
    #[serde(skip)]
    pub(crate) figure: Option<Figure>,
}

/// A figure.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Row {
    /// Its description, with its unit.
    pub label: String,
    /// The paper's figure, if the paper gives one.
    pub paper: Option<f64>,
    /// The measured mean over the seeds.
    pub ours: f64,
    /// The 5th percentile over the seeds.
    pub p05: f64,
    /// The 95th percentile over the seeds.
    pub p95: f64,
}

impl Report {
    pub(crate) fn new(experiment: &str, seeds: Seeds) -> Self {
        Self {
            experiment: experiment.to_owned(),
            seeds: seeds.count(),
            rows: Vec::new(),
            claims: Vec::new(),
            figure: None,
        }
    }

    pub(crate) fn row(&mut self, label: impl Into<String>, paper: Option<f64>, ours: Spread) {
        self.rows.push(Row {
            label: label.into(),
            paper,
            ours: ours.mean,
            p05: ours.p05,
            p95: ours.p95,
        });
    }

    pub(crate) fn claim(
        &mut self,
        text: impl Into<String>,
        holds: bool,
        evidence: impl Into<String>,
    ) {
        self.claims.push(Claim::new(text, holds, evidence));
    }

    /// A claim about a figure: the paper's number or word beside the measured one.
    pub(crate) fn figure_claim(
        &mut self,
        figure: &str,
        text: &str,
        paper: &str,
        ours: impl Into<String>,
        holds: bool,
    ) {
        let claim = Claim::of_figure(figure, text, paper, ours, holds);
        self.claims.push(claim);
    }

    /// Adds to each claim the change with which it was seen to fail.
    pub(crate) fn add_mutations(&mut self) {
        for claim in &mut self.claims {
            claim.mutation = mutations::of(&self.experiment, &claim.text);
        }
    }

    /// Counts for each claim the runs in which it holds, and keeps what the others say.
    pub(crate) fn count_fresh(&mut self, runs: &[Self]) {
        for claim in &mut self.claims {
            let same = runs.iter().map(|run| {
                let mut claims = run.claims.iter();
                claims.find(|other| other.text == claim.text)
            });
            let fell_short = same.filter(|other| !other.is_some_and(|other| other.holds));
            let evidence = fell_short.map(|other| {
                other.map_or_else(
                    || "no such claim".to_owned(),
                    |other| other.evidence.clone(),
                )
            });
            claim.fell_short = evidence.collect();
            claim.fresh = Some(Fresh {
                held: (runs.len() - claim.fell_short.len()) as u64,
                of: runs.len() as u64,
                seeds: runs.first().map_or(1, |run| run.seeds),
            });
        }
    }

    /// The claims that do not hold.
    pub fn failed(&self) -> impl Iterator<Item = &Claim> {
        self.claims
            .iter()
            .filter(|claim| !claim.holds || claim.falls_short())
    }

    /// The figure of the report as the text of an SVG file.
    ///
    /// # Errors
    /// [`StudyError::NoPlot`] if the report has no figure, [`StudyError::Draw`].
    pub fn svg(&self) -> Result<String, StudyError> {
        let figure = self.figure.as_ref().ok_or_else(|| StudyError::NoPlot {
            name: self.experiment.clone(),
        })?;
        plot::svg(figure)
    }

    /// The report as a table for people.
    #[must_use]
    pub fn text(&self) -> String {
        let mut text = String::new();
        let width = self.rows.iter().map(|row| row.label.chars().count()).max();
        let width = width.unwrap_or(0).max(6);
        if !self.rows.is_empty() {
            let head = ["paper", "ours", "p05", "p95"];
            let _ = write!(text, "{:width$}", "");
            for name in head {
                let _ = write!(text, " {name:>11}");
            }
            text.push('\n');
        }
        for row in &self.rows {
            let _ = write!(text, "{:width$}", row.label);
            let _ = write!(text, " {:>11}", row.paper.map_or_else(String::new, number));
            for value in [row.ours, row.p05, row.p95] {
                let _ = write!(text, " {:>11}", number(value));
            }
            text.push('\n');
        }
        if !self.claims.is_empty() {
            text.push('\n');
        }
        for claim in &self.claims {
            let (mark, evidence) = (claim.verdict(), &claim.evidence);
            let _ = writeln!(text, "{mark:8}  {}\n          {evidence}", claim.text);
            if let Some(Mutation { changed, seen }) = &claim.mutation {
                let _ = writeln!(text, "          fails with {changed}: {seen}");
            }
            match claim.fresh {
                Some(Fresh { held, of, seeds: 1 }) => {
                    let _ = writeln!(text, "          in {held} of {of} fresh seeds");
                }
                Some(Fresh { held, of, seeds }) => {
                    let _ = writeln!(
                        text,
                        "          in {held} of {of} fresh sets of {seeds} seeds"
                    );
                }
                None => {}
            }
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report() -> Report {
        let mut report = Report::new("coop-none", Seeds::first(2));
        report.row("requests", Some(4186.0), Spread::of([4000.0, 4100.0]));
        report.claim("it holds", true, "as seen");
        report.claims[0].mutation = Some(Mutation {
            changed: "x.rs: 2 for 1".to_owned(),
            seen: "as seen then".to_owned(),
        });
        report.claim("it does not", false, "as seen");
        report.claim("not checked", true, "as seen");
        report
    }

    #[test]
    fn json_has_the_shape_that_was_promised() {
        let expected = serde_json::json!({
            "experiment": "coop-none",
            "seeds": 2,
            "rows": [{"label": "requests", "paper": 4186.0, "ours": 4050.0, "p05": 4000.0, "p95": 4100.0}],
            "claims": [
                {"text": "it holds", "holds": true, "evidence": "as seen",
                 "mutation": {"changed": "x.rs: 2 for 1", "seen": "as seen then"}},
                {"text": "it does not", "holds": false, "evidence": "as seen"},
                {"text": "not checked", "holds": true, "evidence": "as seen"},
            ],
        });
        assert_eq!(serde_json::to_value(report()).unwrap(), expected);
    }

    #[test]
    fn the_table_names_what_fails_and_what_is_unproven() {
        let text = report().text();
        assert!(text.contains("requests        4186        4050"), "{text}");
        assert!(text.contains("FAILS     it does not"), "{text}");
        assert!(text.contains("unproven  not checked"), "{text}");
        assert!(
            text.contains("fails with x.rs: 2 for 1: as seen then"),
            "{text}"
        );
        assert_eq!(report().failed().count(), 1);
        let mut rarely = report();
        rarely.claims[0].fresh = Some(Fresh {
            held: 1,
            of: 10,
            seeds: 1,
        });
        assert_eq!(rarely.failed().count(), 2);
    }

    #[test]
    fn fresh_seeds_are_counted_claim_by_claim() {
        let mut all = report();
        let mut other = report();
        other.claims[1].holds = true;
        other.claims.pop();
        all.count_fresh(&[report(), other]);
        let held = all.claims.iter().map(|claim| claim.fresh);
        let fresh = |held| {
            Some(Fresh {
                held,
                of: 2,
                seeds: 2,
            })
        };
        assert!(held.eq([fresh(2), fresh(1), fresh(1)]));
        let short = all.claims.iter().map(|claim| claim.fell_short.len());
        assert!(short.eq([0, 1, 1]));
        assert_eq!(all.claims[2].fell_short, ["no such claim"]);
    }
}
