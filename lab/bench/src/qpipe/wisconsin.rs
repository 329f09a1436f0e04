//! What is in the Wisconsin benchmark's tables?
//!
//! Rows of thirteen integers and three texts of 52 characters. unique1 is a permutation of the row
//! numbers, drawn from a seed; unique2 counts the rows; the other columns follow from these two.
//! There are two large tables and a small one with a tenth of their rows. A table is made once and
//! kept; its folder's name says what it was made from.
//! Source: [QPipe05 §5], after `DeWitt`'s benchmark; we differ: at scale factor 1 the large tables
//! have a quarter of the paper's rows, as TPC-H's tables have, and `SplitMix64` draws the
//! permutation.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow::array::{ArrayRef, Int32Array, RecordBatch, StringArray};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use coscan::{Engine, EngineConfig};
use coscan_rewrite::{PageLayout, write_pages};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;

use crate::error::{BenchError, Result};
use crate::random::Random;

/// A table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Table {
    /// Its name in SQL.
    pub name: &'static str,
    /// The number of rows.
    pub rows: u32,
    /// The seed of its permutation.
    seed: u64,
}

/// A value that follows from (unique1, unique2).
type Of<T> = fn(i32, i32) -> T;

/// The integers of a row, by name.
const INTEGERS: [(&str, Of<i32>); 13] = [
    ("unique1", |one, _| one),
    ("unique2", |_, two| two),
    ("two", |one, _| one % 2),
    ("four", |one, _| one % 4),
    ("ten", |one, _| one % 10),
    ("twenty", |one, _| one % 20),
    ("onepercent", |one, _| one % 100),
    ("tenpercent", |one, _| one % 10),
    ("twentypercent", |one, _| one % 5),
    ("fiftypercent", |one, _| one % 2),
    ("unique3", |one, _| one),
    ("evenonepercent", |one, _| one % 100 * 2),
    ("oddonepercent", |one, _| one % 100 * 2 + 1),
];
/// The texts of a row, with what their first characters follow from.
const TEXTS: [(&str, Of<String>); 3] = [
    ("stringu1", |one, _| letters(one)),
    ("stringu2", |_, two| letters(two)),
    ("string4", |_, two| {
        ["AAAA", "HHHH", "OOOO", "VVVV"][two.unsigned_abs() as usize % 4].to_owned()
    }),
];
const TEXT_BYTES: usize = 52;

/// Two joins of three tables. Both sort and merge the large tables in the same way, and select
/// different rows of the small one. The second join is by another column, so the first join's
/// output is sorted once more.
pub(crate) const QUERIES: [&str; 2] = [
    "select s.ten, count(*) as n, sum(j.b) as b, min(j.t) as t from \
     (select big1.unique1 as a, big2.unique2 as b, big1.stringu1 as t from big1 join big2 \
     on big1.unique1 = big2.unique1 where big1.twenty < 10 and big2.four < 3) j \
     join small s on j.b = s.unique1 where s.onepercent < 50 group by s.ten order by s.ten",
    "select s.ten, count(*) as n, sum(j.b) as b, min(j.t) as t from \
     (select big1.unique1 as a, big2.unique2 as b, big1.stringu1 as t from big1 join big2 \
     on big1.unique1 = big2.unique1 where big1.twenty < 10 and big2.four < 3) j \
     join small s on j.b = s.unique1 where s.onepercent >= 30 group by s.ten order by s.ten",
];

const ROWS_PER_SCALE: f64 = 2e6;
const LAYOUT_VERSION: u32 = 1;
const BATCH_ROWS: usize = 8 << 10;
/// Roughly as many chunks as TPC-H's large tables have.
const CHUNKS: usize = 256;

/// Rows of the large tables at a scale factor.
#[must_use]
#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // Clamped.
pub fn rows(scale: f64) -> u32 {
    (ROWS_PER_SCALE * scale).clamp(1000.0, f64::from(i32::MAX)) as u32
}

/// The tables at a scale factor. Each has a seed of its own; those of seed 1 are 1, 2 and 3.
#[must_use]
pub fn tables(scale: f64, seed: u64) -> [Table; 3] {
    let last = seed.wrapping_mul(3);
    let table = |name, rows, before: u64| Table {
        name,
        rows,
        seed: last.wrapping_sub(before),
    };
    [
        table("big1", rows(scale), 2),
        table("big2", rows(scale), 1),
        table("small", rows(scale) / 10, 0),
    ]
}

impl Table {
    /// The table's file below `root`, made if it is missing. `on_rows` is called with the number
    /// of rows made so far.
    ///
    /// Cancel safe: an unfinished file is removed.
    ///
    /// # Errors
    /// The disk refuses.
    pub async fn ensure(&self, root: &Path, on_rows: impl FnMut(u64) + Send) -> Result<PathBuf> {
        let Self { name, rows, seed } = self;
        let folder = root.join(format!("wisconsin-rows{rows}-seed{seed}-v{LAYOUT_VERSION}"));
        let path = folder.join(format!("{name}.parquet"));
        if path.is_file() {
            return Ok(path);
        }
        std::fs::create_dir_all(&folder).map_err(|error| BenchError::io(&folder, error))?;
        let failed = |error: Box<dyn std::error::Error + Send + Sync>| {
            BenchError::engine(format!("making {name}"), error)
        };
        let engine = Engine::new(EngineConfig::default()).map_err(|error| failed(error.into()))?;
        let batches = futures::stream::iter(self.batches().map(Ok));
        let batches = Box::pin(RecordBatchStreamAdapter::new(schema(), batches));
        let layout = PageLayout {
            row_group_rows: (*rows as usize / CHUNKS).max(1024),
            ..PageLayout::default()
        };
        let to = path.to_string_lossy();
        write_pages(&engine, batches, &to, true, layout, on_rows)
            .await
            .map_err(|error| failed(error.into()))?;
        Ok(path)
    }

    /// The table's rows, the same in every call.
    fn batches(&self) -> impl Iterator<Item = RecordBatch> + Send + use<> {
        let schema = schema();
        let unique1 = self.permutation();
        let starts = (0..unique1.len()).step_by(BATCH_ROWS);
        starts.map(move |start| {
            let end = unique1.len().min(start + BATCH_ROWS);
            let rows = || {
                let numbers = (start..end).map(|row| i32::try_from(row).unwrap_or(i32::MAX));
                unique1[start..end].iter().copied().zip(numbers)
            };
            let integers = INTEGERS.iter().map(|(_, of)| {
                let values = rows().map(|(one, two)| of(one, two));
                Arc::new(Int32Array::from_iter_values(values)) as ArrayRef
            });
            let texts = TEXTS.iter().map(|(_, of)| {
                let values = rows().map(|(one, two)| format!("{:x<TEXT_BYTES$}", of(one, two)));
                Arc::new(StringArray::from_iter_values(values)) as ArrayRef
            });
            let columns = integers.chain(texts).collect();
            RecordBatch::try_new(Arc::clone(&schema), columns).expect("columns of one length")
        })
    }

    /// The numbers from 0 to `rows`, shuffled.
    fn permutation(&self) -> Vec<i32> {
        let mut random = Random::new(self.seed);
        let mut all: Vec<i32> = (0..self.rows.cast_signed()).collect();
        for at in (1..all.len()).rev() {
            let other = usize::try_from(random.below(at as u64 + 1)).unwrap_or(at);
            all.swap(at, other);
        }
        all
    }
}

fn schema() -> SchemaRef {
    let integers = INTEGERS.iter().map(|(name, _)| (*name, DataType::Int32));
    let texts = TEXTS.iter().map(|(name, _)| (*name, DataType::Utf8));
    let fields = integers.chain(texts);
    let fields = fields.map(|(name, kind)| Field::new(name, kind, false));
    Arc::new(Schema::new(fields.collect::<Vec<Field>>()))
}

/// Seven letters that count in base 26; the last letter changes fastest.
fn letters(number: i32) -> String {
    let mut rest = number.unsigned_abs();
    let mut letters = ['A'; 7];
    for letter in letters.iter_mut().rev() {
        *letter = char::from(b'A' + u8::try_from(rest % 26).unwrap_or(0));
        rest /= 26;
    }
    letters.iter().collect()
}

#[cfg(test)]
mod tests {
    use arrow::array::AsArray;
    use arrow::datatypes::Int32Type;

    use super::*;

    #[tokio::test]
    async fn a_table_is_made_once_and_kept() {
        let root = tempfile::tempdir().unwrap();
        let [_, _, small] = tables(0.01, 1);
        let mut told = 0;
        let path = small.ensure(root.path(), |rows| told = rows).await.unwrap();
        assert_eq!((told, small.rows), (2_000, 2_000));
        let again = small.ensure(root.path(), |_| panic!("made again")).await;
        assert_eq!(again.unwrap(), path);
    }

    #[test]
    fn unique_columns_are_permutations_and_the_others_follow_from_them() {
        let [big1, big2, small] = tables(0.01, 1);
        assert_eq!([big1, big2, small].map(|table| table.seed), [1, 2, 3]);
        let all = |table: &Table, column: usize| -> Vec<i32> {
            let of = |batch: RecordBatch| {
                let values = batch.column(column).as_primitive::<Int32Type>();
                values.values().to_vec()
            };
            table.batches().flat_map(of).collect()
        };
        let mut unique1 = all(&big1, 0);
        assert_ne!(unique1, all(&big2, 0));
        assert_ne!(unique1, all(&tables(0.01, 2)[0], 0));
        assert!(
            all(&big1, 6)
                .iter()
                .zip(&unique1)
                .all(|(p, u)| *p == u % 100)
        );
        unique1.sort_unstable();
        assert!(unique1.iter().copied().eq(0..20_000));
        assert!(all(&big1, 1).into_iter().eq(0..20_000));
        let batch = big1.batches().next().unwrap();
        let text = batch.column(14).as_string::<i32>().value(27);
        assert_eq!((text.len(), &text[..9]), (52, "AAAAABBxx"));
    }
}
