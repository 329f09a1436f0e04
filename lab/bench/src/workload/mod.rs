//! Which queries does each stream run, over which part of the table?
//!
//! The papers' workload: streams that each run a few queries one after the other, started some
//! seconds apart "to better simulate queries entering an already-working system". A query is FAST
//! (TPC-H Q6) or SLOW (TPC-H Q1 with extra arithmetic), over a contiguous part of the table of a
//! given size at a random place.
//!
//! Idea: a workload is a pure function of its specification and seed. Other engines can run the
//! same queries as Coscan: `coscan bench workload` writes the workload to a file, and `lab/arena`
//! runs it.
//!
//! | file | question |
//! |---|---|
//! | `constants.rs`, `date.rs` | which constants do the queries have? |
//! | `file.rs` | what is the file form of a workload? |
//! | `whole.rs` | which whole TPC-H queries do dashboards and reports run? |
//!
//! Not here: running it (`coop.rs`), which also delays the streams' starts.
//! W1: a range holds its percentage of the key space (rounded down, at least one key) and lies
//! inside it.
//! W2: the first k streams do not depend on how many follow.
//! W3: all sums except SLOW's extra ones are of decimals, hence exact. The last digits of sums of
//! floats depend on the order of the rows, and a comparison of results must allow for it. The text
//! means the same in the dialects of `DuckDB`, `DataFusion` and `PostgreSQL`.
//! Source: [CoopScans07 §5.1, §5.2.1]; we differ: TPC-H's substitution parameters are drawn for
//! each query, so that no engine gains from repeating a query.

mod constants;
mod date;
mod file;
mod whole;

use std::fmt::{self, Write as _};
use std::ops::RangeInclusive;
use std::str::FromStr;
use std::time::Duration;

use constants::{Constants, Fast};
use date::Date;
pub use file::{FORMAT, QueryFile, StreamFile, VERSION, WorkloadFile};
pub(crate) use whole::{TABLES, q4, q6};
pub use whole::{WholeFile, WholeSpec};

use crate::error::{BenchError, Result};
use crate::random::Random;

/// How much work a query does for each row.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Speed {
    /// TPC-H Q6: a filter and one sum. The device limits it.
    Fast,
    /// TPC-H Q1 with extra arithmetic: the CPU limits it.
    Slow,
}

/// A query's speed and the size of its range: `F-10` is FAST over 10 % of the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Class {
    /// How much work for each row.
    pub speed: Speed,
    /// How much of the table, in percent: 1 to 100.
    pub percent: u8,
}

impl fmt::Display for Class {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let letter = match self.speed {
            Speed::Fast => 'F',
            Speed::Slow => 'S',
        };
        write!(f, "{letter}-{:02}", self.percent)
    }
}

/// A SPEED-SIZE mix as in the paper's Figure 5.
///
/// SPEED is a string of `F` and `S`; a query's speed is one of its letters, each equally likely,
/// so `FFS` has twice as many FAST queries as SLOW. SIZE is `S` (1, 2, 5, 10, 20 %), `M` (1, 2,
/// 10, 50, 100 %), `L` (10, 30, 50, 100 %), `T` (1, 10, 50, 100 %: the mix of the paper's Table
/// 2), or a list of percentages.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mix {
    speeds: Vec<Speed>,
    percents: Vec<u8>,
    text: String,
}

impl Mix {
    /// `FS-T`, the mix of the paper's Table 2.
    #[must_use]
    pub fn table_2() -> Self {
        let speeds = vec![Speed::Fast, Speed::Slow];
        Self {
            speeds,
            percents: TABLE_2_PERCENTS.to_vec(),
            text: "FS-T".to_owned(),
        }
    }

    /// Every class that this mix can draw, FAST first, small ranges first.
    #[must_use]
    pub fn classes(&self) -> Vec<Class> {
        let mut classes: Vec<Class> = self
            .speeds
            .iter()
            .flat_map(|&speed| {
                self.percents
                    .iter()
                    .map(move |&percent| Class { speed, percent })
            })
            .collect();
        classes.sort_unstable();
        classes.dedup();
        classes
    }
}

impl fmt::Display for Mix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl FromStr for Mix {
    type Err = BenchError;

    fn from_str(text: &str) -> Result<Self> {
        let wrong = |reason: String| BenchError::Mix {
            text: text.to_owned(),
            reason,
        };
        let upper = text.trim().to_ascii_uppercase();
        let (speed, size) = upper
            .split_once('-')
            .ok_or_else(|| wrong("there is no `-` in it".to_owned()))?;
        let speeds = speed
            .chars()
            .map(|letter| match letter {
                'F' => Ok(Speed::Fast),
                'S' => Ok(Speed::Slow),
                other => Err(wrong(format!("`{other}` is not a speed (F or S)"))),
            })
            .collect::<Result<Vec<_>>>()?;
        if speeds.is_empty() || speeds.len() > SPEED_LETTERS_MAX {
            return Err(wrong(format!(
                "it needs 1 to {SPEED_LETTERS_MAX} letters of speed"
            )));
        }
        let percents = match size {
            "S" => vec![1, 2, 5, 10, 20],
            "M" => vec![1, 2, 10, 50, 100],
            "L" => vec![10, 30, 50, 100],
            "T" => TABLE_2_PERCENTS.to_vec(),
            list => list
                .split(',')
                .map(
                    |percent| match percent.trim().trim_end_matches('%').parse() {
                        Ok(percent @ 1..=100) => Ok(percent),
                        _ => Err(wrong(format!(
                            "`{percent}` is neither S, M, L, T nor 1 to 100 %"
                        ))),
                    },
                )
                .collect::<Result<Vec<u8>>>()?,
        };
        Ok(Self {
            speeds,
            percents,
            text: upper,
        })
    }
}

/// Everything that determines a workload.
#[derive(Clone, Debug)]
pub struct WorkloadSpec {
    /// Which queries are drawn.
    pub mix: Mix,
    /// How many streams run at once.
    pub streams: usize,
    /// How many queries each stream runs, one after the other.
    pub queries: usize,
    /// How long after its predecessor each stream starts.
    pub delay: Duration,
    /// The seed of all random choices.
    pub seed: u64,
    /// The clustering key's smallest and largest value.
    pub keys: RangeInclusive<i64>,
    /// How many terms of extra arithmetic SLOW computes for each row.
    pub slow_arithmetic: u32,
    /// The name under which the table is registered.
    pub table: String,
    /// Whether no two queries have a date in common, so that no query computes any part of
    /// another's result.
    pub distinct: bool,
}

/// One query of a stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Query {
    /// Its speed and size.
    pub class: Class,
    /// The clustering keys that it reads. The statement has no condition on them if they are the
    /// whole table's.
    pub keys: RangeInclusive<i64>,
    /// The statement.
    pub sql: String,
}

/// The queries of all streams.
#[derive(Clone, Debug)]
pub struct Workload {
    /// `streams[s][q]`: the q-th query of stream s.
    pub streams: Vec<Vec<Query>>,
    /// The specification that it was drawn from.
    pub spec: WorkloadSpec,
}

impl Workload {
    /// Draws the workload that `spec` describes.
    ///
    /// # Errors
    /// [`BenchError::Dates`] if there are not as many dates as distinct queries need.
    pub fn draw(spec: WorkloadSpec) -> Result<Self> {
        let mut random = Random::new(spec.seed);
        let mut constants = Constants::new(spec.distinct);
        let mut stream = || {
            let queries = (0..spec.queries).map(|_| spec.query(&mut random, &mut constants));
            queries.collect::<Result<Vec<Query>>>()
        };
        let streams = (0..spec.streams).map(|_| stream());
        let streams = streams.collect::<Result<_>>()?;
        Ok(Self { streams, spec })
    }

    /// Every query with its stream, streams first.
    pub fn queries(&self) -> impl Iterator<Item = (usize, &Query)> {
        self.streams
            .iter()
            .enumerate()
            .flat_map(|(s, queries)| queries.iter().map(move |q| (s, q)))
    }

    /// The classes that were drawn, FAST first, small ranges first.
    #[must_use]
    pub fn classes(&self) -> Vec<Class> {
        let mut classes: Vec<Class> = self.queries().map(|(_, query)| query.class).collect();
        classes.sort_unstable();
        classes.dedup();
        classes
    }

    /// The first query of each class, which represents the class in the measurement alone.
    #[must_use]
    pub fn representatives(&self) -> Vec<&Query> {
        let first = |class| {
            self.queries()
                .map(|(_, query)| query)
                .find(|q| q.class == class)
        };
        self.classes().into_iter().filter_map(first).collect()
    }
}

impl WorkloadSpec {
    /// Draws one query: speed, percentage, place, then the query's own parameters, in this order.
    fn query(&self, random: &mut Random, constants: &mut Constants) -> Result<Query> {
        let speed = random
            .pick(&self.mix.speeds)
            .copied()
            .unwrap_or(Speed::Fast);
        let percent = random.pick(&self.mix.percents).copied().unwrap_or(100);
        let keys = self.range(percent, random);
        let condition = if percent == 100 {
            String::new()
        } else {
            format!(" and {KEY} between {} and {}", keys.start(), keys.end())
        };
        let sql = match speed {
            Speed::Fast => fast(&constants.fast(random)?, &self.table, &condition, ""),
            Speed::Slow => slow(
                constants.slow(random)?,
                &self.table,
                &condition,
                self.slow_arithmetic,
            ),
        };
        Ok(Query {
            class: Class { speed, percent },
            keys,
            sql,
        })
    }

    /// Draws a range (W1). The arithmetic is in 128 bits, because keys may span all of i64.
    #[allow(clippy::cast_possible_truncation)] // The result lies inside `keys`.
    fn range(&self, percent: u8, random: &mut Random) -> RangeInclusive<i64> {
        let (first, last) = (i128::from(*self.keys.start()), i128::from(*self.keys.end()));
        let span = (last - first + 1).max(1);
        let width = (span * i128::from(percent) / 100).max(1);
        let places = u64::try_from(span - width + 1).unwrap_or(u64::MAX);
        let start = first + i128::from(random.below(places));
        start as i64..=(start + width - 1) as i64
    }
}

/// TPC-H Q6; `line` precedes each condition.
fn fast(constants: &Fast, table: &str, condition: &str, line: &str) -> String {
    let Fast {
        first,
        end,
        discounts: (low, high),
        quantity,
    } = constants;
    let (low, high) = (
        decimal(&format!("0.{low:02}")),
        decimal(&format!("0.{high:02}")),
    );
    let quantity = decimal(&quantity.to_string());
    format!(
        "select sum(l_extendedprice * l_discount) as revenue from {table}{line} \
         where l_shipdate >= date '{first}' and l_shipdate < date '{end}'{line} \
         and l_discount between {low} and {high}{line} \
         and l_quantity < {quantity}{condition}"
    )
}

/// A decimal literal that no engine takes for a float: `DataFusion` reads a bare `0.05` as one,
/// and would cast the column row by row.
fn decimal(text: &str) -> String {
    format!("cast('{text}' as decimal(15,2))")
}

/// TPC-H Q1 and `terms` sums of square roots.
///
/// No optimizer can avoid the roots: each has its own argument, and a square root has no cheaper
/// form.
fn slow(last: Date, table: &str, condition: &str, terms: u32) -> String {
    let mut extra = String::new();
    for term in 1..=terms.min(ARITHMETIC_TERMS_MAX) {
        // Writing to a string cannot fail.
        let _ = write!(
            extra,
            ", sum(sqrt(cast(l_extendedprice as double precision) \
             * (1 + cast(l_tax as double precision)) + {term})) as extra_{term}"
        );
    }
    format!(
        "select l_returnflag, l_linestatus, sum(l_quantity) as sum_qty, \
         sum(l_extendedprice) as sum_base_price, \
         sum(l_extendedprice * (1 - l_discount)) as sum_disc_price, \
         sum(l_extendedprice * (1 - l_discount) * (1 + l_tax)) as sum_charge, \
         avg(l_quantity) as avg_qty, avg(l_extendedprice) as avg_price, \
         avg(l_discount) as avg_disc{extra}, count(*) as count_order from {table} \
         where l_shipdate <= date '{last}'{condition} \
         group by l_returnflag, l_linestatus order by l_returnflag, l_linestatus"
    )
}

/// TPC-H lineitem is written in the order of this column.
pub const KEY: &str = "l_orderkey";
/// Terms beyond this number are not written: planning them would cost more than computing them.
pub const ARITHMETIC_TERMS_MAX: u32 = 1024;
const TABLE_2_PERCENTS: [u8; 4] = [1, 10, 50, 100];
const SPEED_LETTERS_MAX: usize = 16;

#[cfg(test)]
mod tests {
    use super::*;

    fn spec(mix: &str, seed: u64) -> WorkloadSpec {
        WorkloadSpec {
            mix: mix.parse().unwrap(),
            streams: 16,
            queries: 4,
            delay: Duration::from_secs(3),
            seed,
            keys: 1..=6_000_000,
            slow_arithmetic: 3,
            table: "lineitem".to_owned(),
            distinct: false,
        }
    }

    fn draw(spec: WorkloadSpec) -> Workload {
        Workload::draw(spec).unwrap()
    }

    #[test]
    fn mixes_of_figure_5_and_table_2() {
        let mix: Mix = "ffs-m".parse().unwrap();
        assert_eq!(mix.to_string(), "FFS-M");
        assert_eq!("FS-T".parse::<Mix>().unwrap(), Mix::table_2());
        assert_eq!(mix.speeds, [Speed::Fast, Speed::Fast, Speed::Slow]);
        assert_eq!(mix.percents, [1, 2, 10, 50, 100]);
        let names: Vec<String> = "FS-T"
            .parse::<Mix>()
            .unwrap()
            .classes()
            .iter()
            .map(Class::to_string)
            .collect();
        assert_eq!(
            names,
            [
                "F-01", "F-10", "F-50", "F-100", "S-01", "S-10", "S-50", "S-100"
            ]
        );
        assert_eq!(
            "F-1,10,50,100".parse::<Mix>().unwrap().percents,
            [1, 10, 50, 100]
        );
        for wrong in ["", "F", "-M", "FX-M", "F-0", "F-101", "F-Q", "F-1,,2"] {
            assert!(wrong.parse::<Mix>().is_err(), "{wrong}");
        }
    }

    /// Published results name seeds: changing what a seed draws makes them incomparable.
    #[test]
    fn draws_what_was_drawn_for_published_results() {
        let plain = WorkloadSpec {
            streams: 5,
            delay: Duration::from_millis(440),
            slow_arithmetic: 2,
            ..spec("FFS-M", 7)
        };
        let distinct = WorkloadSpec {
            streams: 3,
            queries: 2,
            delay: Duration::from_millis(440),
            keys: 1..=3_000_000,
            slow_arithmetic: 1,
            distinct: true,
            ..spec("FFS-M", 3)
        };
        for (spec, expected) in [
            (plain, include_str!("../../testdata/workload-seed-7.json")),
            (
                distinct,
                include_str!("../../testdata/workload-distinct-seed-3.json"),
            ),
        ] {
            let expected: serde_json::Value = serde_json::from_str(expected).unwrap();
            assert_eq!(serde_json::to_value(draw(spec).dump()).unwrap(), expected);
        }
        let of_the_arena = draw(WorkloadSpec {
            keys: 1..=240_000_000,
            ..spec("FS-T", 1)
        });
        let first = &of_the_arena.streams[0];
        let names: Vec<String> = first.iter().map(|query| query.class.to_string()).collect();
        assert_eq!(names, ["S-50", "F-100", "F-50", "S-100"]);
        assert_eq!(first[0].keys, 116_520_332..=236_520_331);
    }

    #[test]
    fn distinct_queries_have_no_date_in_common() {
        let distinct = |streams| WorkloadSpec {
            streams,
            distinct: true,
            ..spec("FS-T", 1)
        };
        let workload = draw(distinct(64));
        let mut seen = std::collections::BTreeSet::new();
        for (_, query) in workload.queries() {
            let dates = query.sql.split('\'').filter(|word| word.starts_with("19"));
            for date in dates {
                assert!(seen.insert(date.to_owned()), "{date}");
            }
        }
        assert!(seen.len() > 256);
        let too_many = Workload::draw(WorkloadSpec {
            queries: 1,
            ..WorkloadSpec {
                mix: "S-S".parse().unwrap(),
                ..distinct(1001)
            }
        });
        assert!(matches!(too_many, Err(BenchError::Dates { taken: 1000 })));
    }

    /// W3.
    #[test]
    fn no_decimal_is_bare() {
        let workload = draw(WorkloadSpec {
            streams: 64,
            ..spec("FS-T", 1)
        });
        for (_, query) in workload.queries() {
            let outside_of_quotes = query.sql.split('\'').step_by(2);
            for text in outside_of_quotes {
                assert!(!text.contains("0."), "{text}");
            }
        }
    }

    #[test]
    fn w2_fewer_streams_are_a_prefix_and_another_seed_is_another_workload() {
        let few = draw(WorkloadSpec {
            streams: 3,
            ..spec("FS-M", 1)
        })
        .streams;
        let many = draw(spec("FS-M", 1)).streams;
        assert_eq!(few, many[..3]);
        assert_ne!(many, draw(spec("FS-M", 2)).streams);
    }

    #[test]
    fn letters_are_weights() {
        let workload = draw(WorkloadSpec {
            streams: 600,
            ..spec("FFS-M", 5)
        });
        let fast = workload
            .queries()
            .filter(|(_, q)| q.class.speed == Speed::Fast)
            .count();
        assert!(
            (1500..1700).contains(&fast),
            "{fast} of 2400 are FAST, two thirds expected"
        );
    }

    #[test]
    fn w1_ranges_have_their_size_and_stay_inside() {
        let mut random = Random::new(3);
        let spec = spec("FS-S", 1);
        for _ in 0..1000 {
            let keys = spec.range(10, &mut random);
            assert_eq!(keys.end() - keys.start() + 1, 600_000);
            assert!(*keys.start() >= 1 && *keys.end() <= 6_000_000, "{keys:?}");
        }
        let tiny = WorkloadSpec {
            keys: 5..=5,
            ..spec.clone()
        };
        assert_eq!(tiny.range(1, &mut random), 5..=5);
        let huge = WorkloadSpec {
            keys: i64::MIN..=i64::MAX,
            ..spec
        };
        assert_eq!(huge.range(100, &mut random), i64::MIN..=i64::MAX);
    }

    #[test]
    fn a_full_scan_has_no_condition_on_the_key() {
        let workload = draw(WorkloadSpec {
            streams: 50,
            ..spec("FS-T", 1)
        });
        for (_, query) in workload.queries() {
            assert_eq!(
                query.sql.contains(KEY),
                query.class.percent < 100,
                "{}",
                query.sql
            );
        }
    }

    #[test]
    fn each_class_has_one_representative() {
        let workload = draw(spec("FS-T", 1));
        let classes: Vec<Class> = workload.representatives().iter().map(|q| q.class).collect();
        assert_eq!(classes, workload.classes());
    }
}
