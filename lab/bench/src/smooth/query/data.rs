//! The table of the micro-benchmark: ten integer columns, of which the second is indexed.
//!
//! c1 counts the rows in the order of their insertion; c2 to c10 are uniform over 0 to 100,000,
//! drawn from a seed. So every run on every machine has the same rows, and `c2 < x` holds for a
//! known share of them, scattered over all pages. Pages are aligned (`coscan_rewrite`) and not
//! compressed: random integers hardly shrink, and equal bytes per page give the device a known
//! price per page. A table is made once and kept; its folder's name says what it was made from.
//! Source: [SmoothScan18 §7.3].

use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow::array::{ArrayRef, Int32Array, RecordBatch};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use coscan::{Engine, EngineConfig};
use coscan_rewrite::{PageCompression, PageLayout, write_pages};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use parquet::file::reader::{FileReader, SerializedFileReader};

use crate::error::{BenchError, Result};
use crate::random::Random;

/// What a table is made from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Spec {
    /// Rows.
    pub rows: u32,
    /// Rows of a page.
    pub page_rows: usize,
    /// The seed of the values.
    pub seed: u64,
    /// The distribution of the indexed column's values.
    pub keys: Keys,
}

/// The distribution of the indexed column's values over the table.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Keys {
    /// Uniform, everywhere alike.
    #[default]
    Uniform,
    /// 0 in the first hundredth of the rows and in one row of 100,000 after that, uniform over the
    /// other values elsewhere [SmoothScan18 §7.4, Figure 20].
    Skewed,
}

/// A table on disk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Table {
    /// Its file.
    pub path: PathBuf,
    /// Bytes of the file.
    pub bytes: u64,
    /// The number of runs of rows that can be read by themselves.
    pub pages: u64,
    /// Mean bytes on disk of a page over all columns.
    pub page_bytes: u64,
}

/// Columns of the table, all 32-bit integers without NULL: c1, c2 and so on.
pub const COLUMNS: usize = 10;
/// The index of the key column, c2.
pub const KEY: usize = 1;
/// The number of values of c2 to c10, which start at 0.
pub const VALUES: u32 = 100_001;

/// In [`Keys::Skewed`] the first 1/100 of the rows is dense.
const DENSE_ONE_IN: u32 = 100;

/// Part of the folder's name, so that files of another layout are not taken for these.
const LAYOUT_VERSION: u32 = 1;
/// Rows drawn at a time: enough that drawing is nearly all the work.
const BATCH_ROWS: u32 = 64 << 10;

impl Spec {
    /// The folder that keeps the table and its index, below `root`.
    #[must_use]
    pub fn folder(&self, root: &Path) -> PathBuf {
        let Self {
            rows,
            page_rows,
            seed,
            keys,
        } = self;
        let keys = match keys {
            Keys::Uniform => "",
            Keys::Skewed => "-skewed",
        };
        root.join(format!(
            "smooth{keys}-rows{rows}-page{page_rows}-seed{seed}-v{LAYOUT_VERSION}"
        ))
    }

    /// The table below `root`, made if it is missing. `on_rows` is called with the number of rows
    /// made so far.
    ///
    /// Cancel safe: an unfinished file is removed.
    ///
    /// # Errors
    /// The disk refuses.
    pub async fn ensure(&self, root: &Path, on_rows: impl FnMut(u64) + Send) -> Result<Table> {
        let folder = self.folder(root);
        let path = folder.join("t.parquet");
        if !path.is_file() {
            std::fs::create_dir_all(&folder).map_err(|error| BenchError::io(&folder, error))?;
            self.write(&path, on_rows).await?;
        }
        self.table(path)
    }

    async fn write(&self, path: &Path, on_rows: impl FnMut(u64) + Send) -> Result<()> {
        let failed = |error: Box<dyn std::error::Error + Send + Sync>| {
            BenchError::engine("making the table", error)
        };
        let engine = Engine::new(EngineConfig::default()).map_err(|error| failed(error.into()))?;
        let rows = futures::stream::iter(self.batches().map(Ok));
        let rows = Box::pin(RecordBatchStreamAdapter::new(schema(), rows));
        let layout = PageLayout {
            page_rows: self.page_rows,
            compression: PageCompression::None,
            ..PageLayout::default()
        };
        let path = path.to_string_lossy();
        write_pages(&engine, rows, &path, true, layout, on_rows)
            .await
            .map_err(|error| failed(error.into()))?;
        Ok(())
    }

    /// Reads the table's figures from its file.
    fn table(&self, path: PathBuf) -> Result<Table> {
        let of_file = |error| BenchError::io(&path, error);
        let file = File::open(&path).map_err(of_file)?;
        let bytes = file.metadata().map_err(of_file)?.len();
        let reader =
            SerializedFileReader::new(file).map_err(|error| BenchError::parquet(&path, error))?;
        let (mut pages, mut in_pages) = (0, 0);
        for group in reader.metadata().row_groups() {
            pages += group
                .num_rows()
                .unsigned_abs()
                .div_ceil(self.page_rows as u64);
            in_pages += group.compressed_size().unsigned_abs();
        }
        Ok(Table {
            bytes,
            pages,
            page_bytes: in_pages / pages.max(1),
            path,
        })
    }

    /// The table's rows in order, the same in every call.
    pub(crate) fn batches(&self) -> impl Iterator<Item = RecordBatch> + Send + use<> {
        let (rows, keys, schema) = (self.rows, self.keys, schema());
        // Each column has its own random sequence, so its values do not depend on the size of a
        // batch.
        let mut seeds = Random::new(self.seed);
        let mut columns: Vec<Random> = (KEY..COLUMNS)
            .map(|_| Random::new(seeds.next_u64()))
            .collect();
        (0..rows).step_by(BATCH_ROWS as usize).map(move |from| {
            let numbers = from..rows.min(from.saturating_add(BATCH_ROWS));
            let count = numbers.len();
            let first = Int32Array::from_iter_values(numbers.map(u32::cast_signed));
            let dense = match keys {
                Keys::Uniform => 0,
                // Rows of this batch in the first hundredth.
                Keys::Skewed => (rows / DENSE_ONE_IN).saturating_sub(from) as usize,
            };
            let drawn = columns.iter_mut().enumerate().map(|(column, random)| {
                let skewed = keys == Keys::Skewed && column == 0;
                #[allow(clippy::cast_possible_truncation)] // At most 100,000.
                let value = |row| match random.below(VALUES.into()) as i32 {
                    _ if skewed && row < dense => 0,
                    value => value,
                };
                Int32Array::from_iter_values((0..count).map(value))
            });
            let all = std::iter::once(first).chain(drawn);
            let all = all.map(|column| Arc::new(column) as ArrayRef).collect();
            RecordBatch::try_new(Arc::clone(&schema), all).expect("ten columns of one length")
        })
    }
}

/// c1 to c10.
pub(crate) fn schema() -> SchemaRef {
    let field = |number: usize| Field::new(format!("c{number}"), DataType::Int32, false);
    Arc::new(Schema::new(Vec::from_iter((1..=COLUMNS).map(field))))
}

/// The x for which `c2 < x` holds for this percentage of the rows, as nearly as the values allow.
#[must_use]
#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // Clamped.
pub fn bound(percent: f64) -> u32 {
    let values = f64::from(VALUES);
    (percent / 100.0 * values).round().clamp(0.0, values) as u32
}

#[cfg(test)]
mod tests {
    use arrow::array::AsArray;
    use arrow::datatypes::Int32Type;

    use super::*;

    const SPEC: Spec = Spec {
        rows: 150_000,
        page_rows: 2048,
        seed: 3,
        keys: Keys::Uniform,
    };

    #[tokio::test]
    async fn a_table_is_made_once_and_its_pages_are_alike() {
        let root = tempfile::tempdir().unwrap();
        let mut told = 0;
        let table = SPEC.ensure(root.path(), |rows| told = rows).await.unwrap();
        assert_eq!(told, 150_000);
        assert_eq!(table.pages, 74);
        // 2,048 rows of ten integers; the last page is a little short.
        assert!((81_000..83_000).contains(&table.page_bytes), "{table:?}");
        let again = SPEC.ensure(root.path(), |_| panic!("made again")).await;
        assert_eq!(again.unwrap(), table);
        let other = Spec { seed: 4, ..SPEC };
        assert_ne!(other.folder(root.path()), SPEC.folder(root.path()));
    }

    #[test]
    fn rows_count_and_values_are_uniform() {
        let all: Vec<RecordBatch> = SPEC.batches().collect();
        assert_eq!(
            all.iter().map(RecordBatch::num_rows).sum::<usize>(),
            150_000
        );
        let values = |column: usize| {
            let of = move |batch: &RecordBatch| {
                batch
                    .column(column)
                    .as_primitive::<Int32Type>()
                    .values()
                    .to_vec()
            };
            all.iter().flat_map(of)
        };
        assert!(values(0).eq(0..150_000));
        for column in KEY..COLUMNS {
            let (least, most) = (values(column).min().unwrap(), values(column).max().unwrap());
            assert!(least < 20 && (99_980..=100_000).contains(&most));
            let half = values(column).filter(|value| *value < 50_000).count();
            assert!((74_000..76_000).contains(&half), "{half}");
        }
        assert!(
            values(1).zip(values(2)).any(|(a, b)| a != b),
            "columns differ"
        );
    }

    #[test]
    fn skewed_keys_are_dense_at_the_beginning_and_rare_after_it() {
        let spec = Spec {
            rows: 1_000_000,
            keys: Keys::Skewed,
            ..SPEC
        };
        let keys = spec.batches().flat_map(|batch| {
            let keys = batch.column(KEY).as_primitive::<Int32Type>();
            keys.values().to_vec()
        });
        let keys: Vec<i32> = keys.collect();
        assert!(keys[..10_000].iter().all(|key| *key == 0));
        let rare = keys[10_000..].iter().filter(|key| **key == 0).count();
        assert!((2..30).contains(&rare), "{rare}");
    }

    #[test]
    fn a_selectivity_is_a_number_of_values() {
        assert_eq!(bound(0.0), 0);
        assert_eq!(bound(0.001), 1);
        assert_eq!(bound(50.0), 50_001);
        assert_eq!(bound(100.0), VALUES);
    }
}
