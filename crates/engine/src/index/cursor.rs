//! Which rows does an index find for a predicate?
//!
//! The predicate is over the key. DataFusion's pruning over the page index excludes the leaves
//! that cannot hold a matching key. For a range, the remaining leaves are adjacent. The cursor
//! prefetches them, twice as many with every step, so that a point query reads one leaf and a long
//! range is read at the device's speed. Each leaf's checksum is compared with the manifest's
//! before its entries are used. Entries come in the order of (key, position), or in reverse order,
//! for which leaves are read from the last to the first.
//! Not here: how the rows are read (`probe/`).
//! Bounds: at most [`AHEAD_MAX`] leaves in a read, two reads at once.

use std::cmp::Ordering;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};

use arrow::array::make_comparator;
use arrow::array::{Array, ArrayRef, AsArray, RecordBatch, UInt64Array};
use arrow::compute::{SortOptions, filter, prep_null_mask_filter, take};
use arrow::datatypes::{DataType, Field, FieldRef, Schema, SchemaRef, UInt64Type};
use coscan_core::smooth::sampled_leaves;
use coscan_storage::FileChunk;
use coscan_storage::device::FileVersion;
use coscan_storage::pool::{BufferPool, ColumnRequest, TableFile};
use datafusion::common::cast::as_boolean_array;
use datafusion::common::runtime::SpawnedTask;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::error::{DataFusionError, Result};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::Column;
use futures::future::try_join_all;
use object_store::{ObjectStore, ObjectStoreExt};
use parquet::arrow::arrow_reader::statistics::StatisticsConverter;
use parquet::arrow::parquet_to_arrow_schema;

use super::key_list::{SHORT_LIST_MAX, long_lists, may_hold};
use super::leaves::{leaves, open, tail_crc32};
use crate::error::external;
use crate::index_catalog::{Index, KEY, POSITION, is_ordered_alike};
use crate::read::prune::may_match;

/// The most leaves in one read: 32 of 4096 entries are about half a megabyte.
const AHEAD_MAX: usize = 32;

/// The order of the entries in an index.
pub(crate) const ASCENDING: SortOptions = SortOptions {
    descending: false,
    nulls_first: false,
};

/// Keys and positions of rows, in the order of the cursor.
#[derive(Clone, Debug)]
pub(crate) struct Entries {
    pub(crate) keys: ArrayRef,
    pub(crate) positions: UInt64Array,
}

impl Entries {
    fn reversed(&self) -> Result<Self> {
        let backwards = UInt64Array::from_iter_values((0..self.keys.len() as u64).rev());
        let positions = self.positions.values().iter().rev().copied();
        Ok(Self {
            keys: take(&self.keys, &backwards, None)?,
            positions: positions.collect::<Vec<u64>>().into(),
        })
    }
}

/// Reads the entries that match a predicate.
pub(crate) struct Cursor {
    reader: Arc<LeafReader>,
    /// The leaves that may match, in the order of the cursor.
    wanted: Vec<usize>,
    /// How many of these leaves were requested.
    asked: usize,
    step: usize,
    /// The leaves that are being read.
    coming: Option<SpawnedTask<Result<Vec<Entries>>>>,
    here: std::vec::IntoIter<Entries>,
    /// A sample, and how many leaves had been requested when it was taken.
    sampled: Option<(usize, Sample)>,
}

/// The matching entries of some leaves.
pub(crate) struct Sample {
    entries: Vec<Entries>,
    /// The number of unread leaves for each leaf of the sample.
    pub(crate) scale: f64,
    /// The time it took to read them.
    pub(crate) took: Duration,
}

impl Sample {
    /// The positions of the matching rows.
    pub(crate) fn positions(&self) -> impl Iterator<Item = u64> + '_ {
        let entries = self.entries.iter();
        entries.flat_map(|entries| entries.positions.values().iter().copied())
    }
}

struct LeafReader {
    index: Arc<Index>,
    pool: BufferPool,
    file: Arc<TableFile>,
    /// The leaves, each in one piece.
    leaves: Vec<FileChunk>,
    /// The predicate, over the index's columns.
    predicate: Arc<dyn PhysicalExpr>,
    schema: SchemaRef,
    key: FieldRef,
    order: SortOptions,
}

impl Cursor {
    /// Opens an index for a predicate over the indexed column alone, whose type in the table is
    /// `key`. The entries will come in this order. No leaf is read yet.
    ///
    /// # Errors
    /// If the index cannot be read, or is damaged; the caller then scans instead. Also if its keys
    /// have another type, which [`Index::has_keys_of`] knows from then on.
    pub(crate) async fn open(
        index: &Arc<Index>,
        pool: &BufferPool,
        store: &Arc<dyn ObjectStore>,
        predicate: &Arc<dyn PhysicalExpr>,
        key: &DataType,
        order: SortOptions,
    ) -> Result<Self> {
        let (file, leaves) = data_of(index, pool, store).await?;
        let written = written_key(&file)?;
        let written = index.key.get_or_init(|| written);
        if !is_ordered_alike(written, key) {
            return Err(DataFusionError::Execution(format!(
                "its keys are of type {written}, the column is of type {key}"
            )));
        }
        let key: FieldRef = Arc::new(Field::new(KEY, key.clone(), false));
        let schema = Arc::new(Schema::new(vec![Arc::clone(&key)]));
        let predicate = over_key(predicate)?;
        let all: Vec<usize> = (0..leaves.len()).collect();
        let may = may_match(
            file.metadata(),
            &leaves,
            &predicate,
            &schema,
            SHORT_LIST_MAX,
            &all,
        );
        let reader = LeafReader {
            index: Arc::clone(index),
            pool: pool.clone(),
            file,
            leaves,
            predicate,
            schema,
            key,
            order,
        };
        let mut wanted: Vec<usize> = all.into_iter().filter(|leaf| may[*leaf]).collect();
        for keys in long_lists(&reader.predicate) {
            if let Some((smallest, largest)) = reader.bounds() {
                let may = may_hold(&keys, &smallest, &largest);
                wanted.retain(|leaf| may[*leaf]);
            }
        }
        if order.descending {
            wanted.reverse();
        }
        Ok(Self {
            reader: Arc::new(reader),
            wanted,
            asked: 0,
            step: 1,
            coming: None,
            here: Vec::new().into_iter(),
            sampled: None,
        })
    }

    /// Begins to read before the first entries are wanted.
    pub(crate) fn begin(&mut self) {
        if self.asked == 0 {
            self.ask();
        }
    }

    /// The index that the cursor reads.
    pub(crate) fn index(&self) -> &Index {
        &self.reader.index
    }

    /// The next entries, at least one; `None` at the end. Cancel safe.
    ///
    /// # Errors
    /// If a leaf cannot be read, or is damaged.
    pub(crate) async fn next(&mut self) -> Result<Option<Entries>> {
        self.begin();
        loop {
            for entries in self.here.by_ref() {
                if !entries.positions.is_empty() {
                    return Ok(Some(entries));
                }
            }
            let Some(coming) = &mut self.coming else {
                return Ok(None);
            };
            let read = coming.await;
            self.coming = None;
            let read = read.map_err(|error| {
                DataFusionError::Execution(format!("reading an index failed: {error}"))
            })?;
            self.here = read?.into_iter();
            self.ask();
        }
    }

    /// The first keys of some of the leaves that may match, from the page index. They may be
    /// truncated, and so lie before the leaves' own first keys, but they are in order. `None` if
    /// the page index lacks one of them.
    pub(crate) fn first_keys(&self, of: &[usize]) -> Option<ArrayRef> {
        let (smallest, largest) = self.reader.bounds()?;
        let order = self.reader.order;
        let firsts = if order.descending { largest } else { smallest };
        let leaves = of.iter().map(|at| self.wanted[*at] as u64);
        let keys = take(&firsts, &UInt64Array::from_iter_values(leaves), None).ok()?;
        let compare = make_comparator(&keys, &keys, order).ok()?;
        let sorted = (1..keys.len()).all(|at| compare(at - 1, at) != Ordering::Greater);
        (keys.null_count() == 0 && sorted).then_some(keys)
    }

    /// Takes the sample of [`Cursor::sample`] before it is needed.
    ///
    /// # Errors
    /// As [`Cursor::next`].
    pub(crate) async fn sample_ahead(&mut self, leaves: usize) -> Result<()> {
        let sample = self.sample(leaves).await?;
        self.sampled = sample.map(|sample| (self.asked, sample));
        Ok(())
    }

    /// Reads some of the unread leaves, evenly spread; `None` if hardly more leaves than that are
    /// left.
    ///
    /// # Errors
    /// As [`Cursor::next`].
    pub(crate) async fn sample(&mut self, leaves: usize) -> Result<Option<Sample>> {
        if let Some((asked, sample)) = self.sampled.take()
            && asked == self.asked
        {
            return Ok(Some(sample));
        }
        let left = &self.wanted[self.asked..];
        let Some(sampled) = sampled_leaves(left.len(), leaves) else {
            return Ok(None);
        };
        let some: Vec<usize> = sampled.map(|at| left[at]).collect();
        let begun = Instant::now();
        Ok(Some(Sample {
            entries: self.reader.read(&some).await?,
            scale: left.len() as f64 / some.len() as f64,
            took: begun.elapsed(),
        }))
    }

    /// The approximate number of entries in the leaves that may match.
    pub(crate) fn entries_at_most(&self) -> u64 {
        let all = self.reader.leaves.len().max(1) as u64;
        let each = self.reader.index.manifest.entries.div_ceil(all);
        each * self.wanted.len() as u64
    }

    /// The number of leaves that may match.
    pub(crate) fn leaves(&self) -> usize {
        self.wanted.len()
    }

    fn ask(&mut self) {
        let end = (self.asked + self.step).min(self.wanted.len());
        if self.asked == end {
            return;
        }
        let leaves = self.wanted[self.asked..end].to_vec();
        self.asked = end;
        self.step = (self.step * 2).min(AHEAD_MAX);
        let reader = Arc::clone(&self.reader);
        self.coming = Some(SpawnedTask::spawn(
            async move { reader.read(&leaves).await },
        ));
    }
}

impl LeafReader {
    /// The smallest and the largest key of each leaf, from the page index. They may be truncated,
    /// and so be smaller and larger than the leaf's own keys. `None` if the page index lacks one
    /// of them.
    fn bounds(&self) -> Option<(ArrayRef, ArrayRef)> {
        let metadata = self.file.metadata();
        let parquet = metadata.file_metadata().schema_descr();
        let converter = StatisticsConverter::try_new(KEY, &self.schema, parquet).ok()?;
        let groups: Vec<usize> = (0..metadata.num_row_groups()).collect();
        let (columns, offsets) = (metadata.column_index()?, metadata.offset_index()?);
        let smallest = converter.data_page_mins(columns, offsets, &groups).ok()?;
        let largest = converter.data_page_maxes(columns, offsets, &groups).ok()?;
        let all = self.leaves.len();
        (smallest.len() == all && largest.len() == all).then_some((smallest, largest))
    }

    async fn read(&self, leaves: &[usize]) -> Result<Vec<Entries>> {
        let pieces = leaves
            .iter()
            .flat_map(|leaf| self.leaves[*leaf].pieces.clone());
        let pieces = pieces.collect();
        let read = self
            .pool
            .read_apart(&self.file, pieces, &[KEY, POSITION])
            .await;
        let read = read.map_err(external)?;
        let columns = [
            ColumnRequest {
                name: KEY.to_owned(),
                ..ColumnRequest::exact(Arc::clone(&self.key))
            },
            ColumnRequest::exact(Arc::new(Field::new(POSITION, DataType::UInt64, false))),
        ];
        for (at, leaf) in leaves.iter().enumerate() {
            if read.checksum(at) != self.index.manifest.leaves_crc32[*leaf] {
                return Err(damaged(&format!(
                    "the checksum of leaf {leaf} does not match"
                )));
            }
        }
        // All leaves are decoded at once: decoding has its own threads, and one after the other,
        // each leaf would wait for its turn on them.
        let decoding = (0..leaves.len()).map(|at| read.decode(at, &columns, None));
        let decoded = try_join_all(decoding).await.map_err(external)?;
        let matching = decoded.iter().map(|arrays| {
            let matching = self.matching(arrays)?;
            if self.order.descending {
                matching.reversed()
            } else {
                Ok(matching)
            }
        });
        matching.collect()
    }

    fn matching(&self, arrays: &[ArrayRef]) -> Result<Entries> {
        let keys = Arc::clone(&arrays[0]);
        let batch = RecordBatch::try_new(Arc::clone(&self.schema), vec![Arc::clone(&keys)])?;
        let matches = self.predicate.evaluate(&batch)?.into_array(keys.len())?;
        let matches = as_boolean_array(&matches)?;
        let matches = match matches.null_count() {
            0 => matches.clone(),
            _ => prep_null_mask_filter(matches),
        };
        if matches.true_count() == keys.len() {
            let positions = arrays[1].as_primitive::<UInt64Type>().clone();
            return Ok(Entries { keys, positions });
        }
        Ok(Entries {
            keys: filter(&keys, &matches)?,
            positions: filter(&arrays[1], &matches)?
                .as_primitive::<UInt64Type>()
                .clone(),
        })
    }
}

/// The type of an index's keys.
fn written_key(file: &TableFile) -> Result<DataType> {
    let metadata = file.metadata().file_metadata();
    let written = metadata.key_value_metadata();
    let schema = parquet_to_arrow_schema(metadata.schema_descr(), written)?;
    Ok(schema.field_with_name(KEY)?.data_type().clone())
}

/// The predicate, with its one column replaced by the key of the index.
fn over_key(predicate: &Arc<dyn PhysicalExpr>) -> Result<Arc<dyn PhysicalExpr>> {
    let rewritten = Arc::clone(predicate).transform(|node| {
        Ok(match node.downcast_ref::<Column>() {
            Some(_) => Transformed::yes(Arc::new(Column::new(KEY, 0)) as Arc<dyn PhysicalExpr>),
            None => Transformed::no(node),
        })
    })?;
    Ok(rewritten.data)
}

/// The file of an index, whose footer is as it was written, and its leaves.
async fn data_of(
    index: &Index,
    pool: &BufferPool,
    store: &Arc<dyn ObjectStore>,
) -> Result<(Arc<TableFile>, Vec<FileChunk>)> {
    let version = FileVersion::from(&store.head(&index.data_path()).await?);
    let manifest = &index.manifest;
    if version.size != manifest.bytes {
        return Err(damaged(&format!(
            "it has {} bytes instead of {}",
            version.size, manifest.bytes
        )));
    }
    let file = open(pool, index.folder.store.as_str(), &version).await?;
    if !index.is_verified() {
        if tail_crc32(&file, manifest.leaves_end).await? != manifest.tail_crc32 {
            return Err(damaged("the checksum of its footer does not match"));
        }
        index.verified.store(true, Relaxed);
    }
    let leaves = leaves(&file);
    if leaves.len() != manifest.leaves_crc32.len() {
        return Err(damaged("it has another number of leaves"));
    }
    Ok((file, leaves))
}

fn damaged(what: &str) -> DataFusionError {
    DataFusionError::Execution(format!("the index is damaged: {what}"))
}
