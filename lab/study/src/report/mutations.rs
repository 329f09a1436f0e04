//! With which change of the code was a claim seen to fail?
//!
//! Idea: `mutations/changes.toml` lists changes of the core, the simulator and the experiments.
//! `docs/tools/mutate.py` makes them one by one in a copy of the tree, runs the experiments there,
//! and records in `mutations/seen.json` which claims failed and what they said.
//! Not here: whether a claim without a record counts (`claim.rs`).

use std::collections::BTreeMap;
use std::sync::LazyLock;

use serde::Deserialize;

use super::claim::Mutation;

/// A claim that failed with a change.
#[derive(Debug, Deserialize)]
struct Record {
    claim: String,
    #[serde(flatten)]
    mutation: Mutation,
}

/// The records of each experiment.
static SEEN: LazyLock<BTreeMap<String, Vec<Record>>> = LazyLock::new(|| {
    let text = include_str!("../../mutations/seen.json");
    serde_json::from_str(text).expect("docs/tools/mutate.py writes the file")
});

/// The change with which this claim of an experiment failed, if one is recorded.
pub(crate) fn of(experiment: &str, claim: &str) -> Option<Mutation> {
    let records = SEEN.get(experiment)?;
    let record = records.iter().find(|record| record.claim == claim)?;
    Some(record.mutation.clone())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_belongs_to_its_experiment() {
        let (experiment, records) = SEEN.first_key_value().expect("changes were made");
        let record = &records[0];
        assert_eq!(
            of(experiment, &record.claim).as_ref(),
            Some(&record.mutation)
        );
        assert_eq!(of("no-experiment", &record.claim), None);
        assert_eq!(of(experiment, "no claim"), None);
    }
}
