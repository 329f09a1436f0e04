//! The file form of a workload: `coscan bench workload` writes it and `lab/arena/peers.py` runs
//! it. `lab/arena/README.md` describes it.

use serde::{Deserialize, Serialize};

use super::{KEY, Query, Workload};

/// The name of the format in a workload file.
pub const FORMAT: &str = "coscan-workload";
/// The version of the format.
pub const VERSION: u32 = 1;

/// A workload of the papers' queries.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct WorkloadFile {
    /// Always [`FORMAT`].
    pub format: String,
    /// Always [`VERSION`].
    pub version: u32,
    /// SPEED-SIZE.
    pub mix: String,
    /// The seed that it was drawn from.
    pub seed: u64,
    /// Seconds between two streams' starts.
    pub delay_s: f64,
    /// The name under which the statements expect the table.
    pub table: String,
    /// The clustering key.
    pub key: String,
    /// Its smallest value.
    pub key_min: i64,
    /// Its largest value.
    pub key_max: i64,
    /// Extra sums in SLOW.
    pub slow_terms: u32,
    /// Whether no two queries have a date in common.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub distinct: bool,
    /// The streams.
    pub streams: Vec<StreamFile>,
}

/// One stream of a [`WorkloadFile`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct StreamFile {
    /// Seconds after the first stream's start.
    pub start_s: f64,
    /// Its queries, in order.
    pub queries: Vec<QueryFile>,
}

/// One query of a [`StreamFile`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct QueryFile {
    /// Its class.
    pub name: String,
    /// How much of the table it reads.
    pub percent: u8,
    /// How much of the table lies before its range, in percent.
    pub from_percent: f64,
    /// The first key it reads.
    pub key_low: i64,
    /// The last key it reads.
    pub key_high: i64,
    /// The statement.
    pub sql: String,
}

impl Workload {
    /// The workload as a file, so that every engine runs the same queries.
    #[must_use]
    pub fn dump(&self) -> WorkloadFile {
        let spec = &self.spec;
        let (first, last) = (*spec.keys.start(), *spec.keys.end());
        let span = (i128::from(last) - i128::from(first) + 1) as f64;
        let delay_s = spec.delay.as_secs_f64();
        let query = |query: &Query| QueryFile {
            name: query.class.to_string(),
            percent: query.class.percent,
            from_percent: rounded(
                100.0 * (i128::from(*query.keys.start()) - i128::from(first)) as f64 / span,
                4,
            ),
            key_low: *query.keys.start(),
            key_high: *query.keys.end(),
            sql: query.sql.clone(),
        };
        WorkloadFile {
            format: FORMAT.to_owned(),
            version: VERSION,
            mix: spec.mix.to_string(),
            seed: spec.seed,
            delay_s,
            table: spec.table.clone(),
            key: KEY.to_owned(),
            key_min: first,
            key_max: last,
            slow_terms: spec.slow_arithmetic,
            distinct: spec.distinct,
            streams: self
                .streams
                .iter()
                .enumerate()
                .map(|(stream, queries)| StreamFile {
                    start_s: rounded(stream as f64 * delay_s, 6),
                    queries: queries.iter().map(query).collect(),
                })
                .collect(),
        }
    }
}

/// `value` rounded to this many decimals.
fn rounded(value: f64, decimals: usize) -> f64 {
    format!("{value:.decimals$}").parse().unwrap_or(value)
}
