//! Does a sentence about a run hold, and could its check have failed?
//!
//! Idea: a claim carries the change of the code that makes its check fail, which was run once, and
//! what the check said then. A claim that holds without such a mutation is *unproven*: its check
//! may hold whatever the code does. A claim that does not hold needs none. One that holds with the
//! seeds that it was made with, and not with fresh ones, does not hold.
//! Not here: which claims there are (the experiments), the changes and what was seen
//! (`mutations.rs`), mutants of the core (its own tests).

use serde::{Deserialize, Serialize};

/// A sentence that holds or does not.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Claim {
    /// The sentence.
    pub text: String,
    /// Whether it holds.
    pub holds: bool,
    /// The figures that decide it.
    pub evidence: String,
    /// The paper's figure, for claims that compare one figure with another.
    #[serde(flatten)]
    pub source: Option<Source>,
    /// The change of the code that makes it fail.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mutation: Option<Mutation>,
    /// How often it holds with seeds that it was not made with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fresh: Option<Fresh>,
    /// Its evidence in those in which it does not hold.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub fell_short: Vec<String>,
}

/// The place of a claim in the paper, and the paper's statement.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Source {
    /// The number of the paper's figure, such as `4a`.
    pub figure: String,
    /// The paper's number or word.
    pub paper: String,
    /// The measured number or word.
    pub ours: String,
}

/// A change of the code with which the claim was seen to fail.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Mutation {
    /// The file, and what stood there instead.
    pub changed: String,
    /// The evidence of the claim under this change.
    pub seen: String,
}

/// Runs with seeds that no other run has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Fresh {
    /// How many of them the claim held in.
    pub held: u64,
    /// How many there were.
    pub of: u64,
    /// The number of seeds of each.
    #[serde(default = "one", skip_serializing_if = "is_one")]
    pub seeds: u64,
}

fn one() -> u64 {
    1
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde calls it")]
fn is_one(seeds: &u64) -> bool {
    *seeds == 1
}

impl Claim {
    /// A claim without a mutation.
    #[must_use]
    pub fn new(text: impl Into<String>, holds: bool, evidence: impl Into<String>) -> Self {
        Self {
            text: text.into(),
            holds,
            evidence: evidence.into(),
            ..Self::default()
        }
    }

    /// A claim about a figure of a paper: the paper's number or word beside the measured one.
    #[must_use]
    pub fn of_figure(
        figure: &str,
        text: impl Into<String>,
        paper: &str,
        ours: impl Into<String>,
        holds: bool,
    ) -> Self {
        let ours = ours.into();
        Self {
            source: Some(Source {
                figure: figure.to_owned(),
                paper: paper.to_owned(),
                ours: ours.clone(),
            }),
            ..Self::new(text, holds, ours)
        }
    }

    /// Whether it holds in fewer than nine of ten fresh seeds, if it was tried with so many.
    #[must_use]
    pub fn falls_short(&self) -> bool {
        let short = |fresh: &Fresh| fresh.of >= 10 && 10 * fresh.held < 9 * fresh.of;
        self.fresh.as_ref().is_some_and(short)
    }

    /// `holds`, `FAILS`, or `unproven` for a claim that holds and was never seen to fail.
    #[must_use]
    pub fn verdict(&self) -> &'static str {
        match (self.holds && !self.falls_short(), &self.mutation) {
            (false, _) => "FAILS",
            (true, None) => "unproven",
            (true, Some(_)) => "holds",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_claim_never_seen_to_fail_is_unproven() {
        let mut claim = Claim::new("it holds", true, "as seen");
        assert_eq!(claim.verdict(), "unproven");
        claim.mutation = Some(Mutation {
            changed: "x.rs: 2 for 1".to_owned(),
            seen: "2".to_owned(),
        });
        assert_eq!(claim.verdict(), "holds");
        for (held, of, verdict) in [(8, 10, "FAILS"), (18, 20, "holds"), (0, 9, "holds")] {
            let seeds = 1;
            claim.fresh = Some(Fresh { held, of, seeds });
            assert_eq!(claim.verdict(), verdict, "{held} of {of}");
        }
        claim.fresh = None;
        claim.holds = false;
        assert_eq!(claim.verdict(), "FAILS");
    }
}
