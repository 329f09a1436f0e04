//! Do the counts equal the committed ones? Counts, not times, so the load of the machine cannot
//! make this gate fail.
//!
//! Idea: a test runs small experiments in which everything is fixed, records counts (events,
//! decisions, loads, requests, bytes), and compares them with a file beside the test. An intended
//! change is committed together with the file, which `COSCAN_WRITE_COUNTS=1` rewrites, so the diff
//! of the file shows what the change costs or saves.
//! COUNTS-1: a count is equal to its committed one, unless the test names a tolerance for it with a
//! reason. A missing count and a new count differ too.
//! Not here: the papers' figures (`tests/as_committed.rs`), times (`docs/results`).

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::path::Path;

use crate::error::StudyError;

/// Rewrites the committed file instead of comparing with it.
const WRITE: &str = "COSCAN_WRITE_COUNTS";

/// The counts, by experiment and name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counts(BTreeMap<String, BTreeMap<String, u64>>);

/// A count that may differ from the committed one.
#[derive(Clone, Copy, Debug)]
pub struct Tolerance {
    /// Its name.
    pub count: &'static str,
    /// The allowed difference, in percent of the committed count.
    pub percent: u64,
    /// The reason why it cannot be exact.
    pub why: &'static str,
}

impl Counts {
    /// Records a count of an experiment.
    pub fn note(&mut self, experiment: &str, count: &str, value: u64) {
        let counts = self.0.entry(experiment.to_owned()).or_default();
        counts.insert(count.to_owned(), value);
    }

    /// Compares with the committed counts in `file`, or rewrites the file if the environment
    /// variable is set.
    ///
    /// # Errors
    /// [`StudyError::Counts`] with a table of the differences; [`StudyError::Write`].
    pub fn hold_to(&self, file: &Path, tolerances: &[Tolerance]) -> Result<(), StudyError> {
        if std::env::var_os(WRITE).is_some_and(|write| write != "0" && !write.is_empty()) {
            return std::fs::write(file, self.json()).map_err(|source| StudyError::Write {
                path: file.to_owned(),
                source,
            });
        }
        self.compare(file, tolerances)
    }

    fn compare(&self, file: &Path, tolerances: &[Tolerance]) -> Result<(), StudyError> {
        let text = std::fs::read_to_string(file).unwrap_or_default();
        let committed = serde_json::from_str(&text).map_or_else(|_| Self::default(), Self);
        let differing = self.differences(&committed, tolerances);
        if differing.is_empty() {
            return Ok(());
        }
        Err(StudyError::Counts {
            path: file.to_owned(),
            table: table(&differing),
        })
    }

    fn json(&self) -> String {
        // Maps of text and numbers can always be serialised.
        let mut text = serde_json::to_string_pretty(&self.0).unwrap_or_default();
        text.push('\n');
        text
    }

    fn names(&self) -> impl Iterator<Item = (&str, &str)> {
        let experiments = self.0.iter();
        experiments.flat_map(|(experiment, counts)| {
            let counts = counts.keys();
            counts.map(move |count| (experiment.as_str(), count.as_str()))
        })
    }

    fn get(&self, experiment: &str, count: &str) -> Option<u64> {
        self.0.get(experiment)?.get(count).copied()
    }

    fn differences(&self, committed: &Self, tolerances: &[Tolerance]) -> Vec<Difference> {
        let names: BTreeSet<(&str, &str)> = self.names().chain(committed.names()).collect();
        let compared = names.into_iter().map(|(experiment, count)| Difference {
            experiment: experiment.to_owned(),
            count: count.to_owned(),
            was: committed.get(experiment, count),
            is: self.get(experiment, count),
            tolerance: tolerances.iter().find(|t| t.count == count).copied(),
        });
        compared.filter(Difference::is_one).collect()
    }
}

/// A count that differs from the committed one.
struct Difference {
    experiment: String,
    count: String,
    was: Option<u64>,
    is: Option<u64>,
    tolerance: Option<Tolerance>,
}

impl Difference {
    fn is_one(&self) -> bool {
        match (self.was, self.is) {
            (Some(was), Some(is)) => {
                let percent = self.tolerance.map_or(0, |tolerance| tolerance.percent);
                u128::from(was.abs_diff(is)) * 100 > u128::from(was) * u128::from(percent)
            }
            _ => true,
        }
    }
}

fn table(differing: &[Difference]) -> String {
    let width = |text: fn(&Difference) -> &str| {
        let lengths = differing.iter().map(|one| text(one).chars().count());
        lengths.max().unwrap_or(0)
    };
    let (experiments, counts) = (width(|one| &one.experiment), width(|one| &one.count));
    let number = |value: Option<u64>| value.map_or_else(|| "-".to_owned(), |n| n.to_string());
    let mut text = format!(
        "{:experiments$}  {:counts$} {:>14} {:>14}",
        "experiment", "count", "committed", "now"
    );
    for one in differing {
        let change = match (one.was, one.is) {
            (Some(was @ 1..), Some(is)) => {
                format!(" {:+.1} %", 100.0 * (is as f64 / was as f64 - 1.0))
            }
            _ => String::new(),
        };
        let allowed = one.tolerance.map_or_else(String::new, |tolerance| {
            format!(", {} % are allowed: {}", tolerance.percent, tolerance.why)
        });
        let (was, is) = (number(one.was), number(one.is));
        let (experiment, count) = (&one.experiment, &one.count);
        // Writing to a string cannot fail.
        let _ = write!(
            text,
            "\n{experiment:experiments$}  {count:counts$} {was:>14} {is:>14}{change}{allowed}"
        );
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    const ROUGHLY: [Tolerance; 1] = [Tolerance {
        count: "events",
        percent: 10,
        why: "a test",
    }];

    fn counts(list: &[(&str, &str, u64)]) -> Counts {
        let mut counts = Counts::default();
        for &(experiment, count, value) in list {
            counts.note(experiment, count, value);
        }
        counts
    }

    #[test]
    fn differences_are_listed_in_a_table() {
        let committed = counts(&[
            ("a", "bytes", 100),
            ("a", "events", 100),
            ("b", "events", 100),
            ("gone", "bytes", 1),
        ]);
        let now = counts(&[
            ("a", "bytes", 101),
            ("a", "events", 110),
            ("b", "events", 89),
            ("new", "bytes", 1),
        ]);
        let table = table(&now.differences(&committed, &ROUGHLY));
        let lines: Vec<Vec<&str>> = table
            .lines()
            .map(|line| line.split_whitespace().collect())
            .collect();
        assert_eq!(lines[1], ["a", "bytes", "100", "101", "+1.0", "%"]);
        assert_eq!(lines[2][..4], ["b", "events", "100", "89"]);
        assert!(table.contains("10 % are allowed: a test"), "{table}");
        assert_eq!(lines[3], ["gone", "bytes", "1", "-"]);
        assert_eq!(lines[4], ["new", "bytes", "-", "1"]);
        assert_eq!(lines.len(), 5);
    }

    #[test]
    fn a_file_is_read_as_it_is_written() {
        let all = counts(&[("a", "bytes", u64::MAX), ("b c", "d", 0)]);
        let read = Counts(serde_json::from_str(&all.json()).unwrap());
        assert!(all.differences(&read, &[]).is_empty());
        let differs = all.compare(Path::new("/no/such/file"), &[]);
        assert!(matches!(differs, Err(StudyError::Counts { .. })));
    }
}
