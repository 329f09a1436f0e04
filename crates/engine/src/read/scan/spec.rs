//! What does planning fix about a cooperative scan? Its files, partitions, predicate and delivery.
//!
//! Not here: whether a scan may be cooperative (`plan/swap_scans.rs`), the state of one execution
//! (`execution.rs`).

use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;

use arrow::datatypes::SchemaRef;
use coscan_storage::device::{FileVersion, known_in_full, listed_time};
use coscan_storage::pool::FileKey;
use datafusion::datasource::listing::PartitionedFile;
use datafusion::datasource::physical_plan::{FileGroup, FileScanConfig, ParquetSource};
use datafusion::error::Result;
use datafusion::execution::object_store::ObjectStoreUrl;
use datafusion::execution::runtime_env::RuntimeEnv;
use object_store::ObjectMeta;
use object_store::path::Path;

use crate::object_stores::joint_store::{own_place, own_stores};
use crate::read::{TablePlan, is_part};
use crate::resources::Resources;
use crate::settings::Settings;

/// How chunks reach the partitions of a scan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Delivery {
    /// Every partition takes whichever chunk comes next: no operator above depends on the
    /// partition of a row.
    Shared,
    /// Every partition gets the chunks of its own files, in any order: an operator above depends
    /// on the distribution of files over partitions.
    Partitioned,
    /// Every partition gets the chunks of its own files in the files' order.
    Ordered,
}

/// The plan of a cooperative scan.
#[derive(Clone)]
#[allow(clippy::struct_excessive_bools, reason = "three of them are settings")]
pub(crate) struct ScanPlan {
    pub(crate) resources: Arc<Resources>,
    pub(crate) settings: Settings,
    pub(crate) delivery: Delivery,
    pub(crate) table: TablePlan,
    /// Distinct files, in the order of first appearance. Ranges are dropped.
    pub(crate) files: Arc<[PartitionedFile]>,
    /// Per partition: the parts of `files` that are its own, in order.
    pub(crate) partitions: Vec<Vec<FilePart>>,
    /// Whether `partitions` may leave out chunks of the files, which another node reads.
    pub(crate) is_part: bool,
    /// The schema of the output.
    pub(crate) schema: SchemaRef,
    /// The number of rows that the query needs.
    pub(crate) limit: Option<usize>,
    /// The longest IN list that is used for pruning.
    pub(crate) in_list_max: usize,
    /// Whether row-group statistics may be used at all (`datafusion.execution.parquet.pruning`).
    pub(crate) prunes: bool,
    /// Whether batches may be ruled out by the page index
    /// (`datafusion.execution.parquet.enable_page_index`).
    pub(crate) rules_out_batches: bool,
    /// Whether bloom filters may be read (`datafusion.execution.parquet.bloom_filter_on_read`).
    pub(crate) blooms: bool,
    /// The store that the files are planned on, which may be a joint one; see [`ScanPlan::key`].
    pub(crate) store: ObjectStoreUrl,
}

/// A part of a file: the row groups that begin in a range of bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct FilePart {
    /// Position in [`ScanPlan::files`].
    pub(crate) file: usize,
    /// The bytes in which the row groups begin.
    pub(crate) range: Range<u64>,
}

impl ScanPlan {
    /// The plan of a scan that `plan/swap_scans.rs` accepted. `None` if the scan does not cover
    /// each of its files exactly once; a scan of a part of a table (`parts/`) may leave gaps.
    ///
    /// # Errors
    /// If the projection or an option is invalid.
    pub(crate) fn new(
        resources: Arc<Resources>,
        settings: Settings,
        delivery: Delivery,
        config: &FileScanConfig,
        source: &ParquetSource,
    ) -> Result<Option<Self>> {
        let is_part = is_part(source);
        let Some((files, partitions)) = files_of(config, is_part) else {
            return Ok(None);
        };
        let store = config.object_store_url.clone();
        let files = files.into_iter().map(|part| {
            let mut file = part.clone();
            file.range = None;
            know_in_full(&store, &mut file.object_meta);
            file
        });
        let files = files.collect();
        let options = source.table_parquet_options();
        Ok(Some(Self {
            resources,
            settings,
            delivery,
            table: TablePlan::new(config, options)?,
            files,
            partitions,
            is_part,
            schema: config.projected_schema()?,
            limit: config.limit,
            in_list_max: source.max_in_list_size(),
            prunes: options.global.pruning,
            rules_out_batches: options.global.pruning && options.global.enable_page_index,
            blooms: options.global.pruning && options.global.bloom_filter_on_read,
            store,
        }))
    }

    /// The plan for the wanted files, in as many partitions; `None` if no file is wanted. It has
    /// no limit: the caller that splits the scan applies the limit.
    pub(crate) fn only(&self, wanted: impl Fn(&PartitionedFile) -> bool) -> Option<Self> {
        let kept: Vec<usize> = (0..self.files.len())
            .filter(|file| wanted(&self.files[*file]))
            .collect();
        if kept.is_empty() {
            return None;
        }
        let part = |part: &FilePart| {
            let file = kept.iter().position(|file| *file == part.file)?;
            let range = part.range.clone();
            Some(FilePart { file, range })
        };
        let partitions = self.partitions.iter();
        Some(Self {
            files: kept.iter().map(|file| self.files[*file].clone()).collect(),
            partitions: partitions
                .map(|parts| parts.iter().filter_map(part).collect())
                .collect(),
            limit: None,
            ..self.clone()
        })
    }

    /// The plan of one stream that reads the same columns of the same files, with all rows.
    ///
    /// # Errors
    /// If the projection is invalid.
    pub(crate) fn of_whole_columns(&self) -> Result<Self> {
        let table = self.table.of_whole_columns();
        let schema = table.schema.table_schema();
        Ok(Self {
            schema: Arc::new(table.projection.project_schema(schema)?),
            table,
            partitions: vec![self.partitions.concat()],
            limit: None,
            ..self.clone()
        })
    }

    /// A file of the plan: its own store, and its path and version there, as listed at planning.
    pub(crate) fn key(&self, file: &PartitionedFile) -> FileKey {
        let (store, version) = in_own_store(&self.store, &file.object_meta);
        FileKey::new(store.as_str(), version)
    }

    /// The files' keys, in their order.
    pub(crate) fn keys(&self) -> Vec<FileKey> {
        self.files.iter().map(|file| self.key(file)).collect()
    }

    /// Makes the files readable: stores of a foreign runtime become devices.
    ///
    /// # Errors
    /// If the runtime does not know a store.
    pub(crate) fn ensure_devices(&self, runtime: &RuntimeEnv) -> Result<()> {
        let stores = own_stores(&self.store);
        stores
            .iter()
            .try_for_each(|store| self.resources.ensure_device(store, runtime))
    }
}

/// The file's own store, and its path and version there.
pub(crate) fn in_own_store(
    store: &ObjectStoreUrl,
    file: &ObjectMeta,
) -> (ObjectStoreUrl, FileVersion) {
    let (store, location) = own_place(store, &file.location);
    let listed = FileVersion::from(file);
    (store, FileVersion { location, ..listed })
}

/// The key of a file as it was listed. [`ScanPlan::key`] of a scan planned on that listing returns
/// the same key.
pub(crate) fn key_of_listed(store: &ObjectStoreUrl, file: &ObjectMeta) -> FileKey {
    let mut file = file.clone();
    know_in_full(store, &mut file);
    let (store, version) = in_own_store(store, &file);
    FileKey::new(store.as_str(), version)
}

/// Completes the version of a local file. A session with its own runtime lists local files through
/// a store that knows less of their versions than Coscan's store.
fn know_in_full(store: &ObjectStoreUrl, file: &mut ObjectMeta) {
    let (store, listed) = in_own_store(store, file);
    if store == ObjectStoreUrl::local_filesystem()
        && let Some(version) = known_in_full(&listed)
    {
        file.last_modified = listed_time(&version).into();
        file.e_tag = version.e_tag;
    }
}

/// The distinct files of a scan, in the order of first appearance, and each partition's parts of
/// them; `None` unless the parts cover each file exactly once, or with gaps if they may.
pub(crate) fn files_of(
    config: &FileScanConfig,
    has_gaps: bool,
) -> Option<(Vec<&PartitionedFile>, Vec<Vec<FilePart>>)> {
    let all = config.file_groups.iter().map(FileGroup::len).sum();
    let mut positions: HashMap<&Path, usize> = HashMap::with_capacity(all);
    let mut files: Vec<&PartitionedFile> = Vec::with_capacity(all);
    let mut covered: Vec<(usize, Range<u64>)> = Vec::with_capacity(all);
    let mut partitions = Vec::with_capacity(config.file_groups.len());
    for group in &config.file_groups {
        let mut parts = Vec::with_capacity(group.len());
        for part in group.iter() {
            let position = *positions
                .entry(&part.object_meta.location)
                .or_insert_with(|| {
                    files.push(part);
                    files.len() - 1
                });
            let (start, end) = part.range();
            covered.push((position, start..end));
            parts.push(FilePart {
                file: position,
                range: start..end,
            });
        }
        partitions.push(parts);
    }
    covered.sort_unstable_by_key(|(file, range)| (*file, range.start, range.end));
    let mut covered = covered.into_iter().peekable();
    for (at, file) in files.iter().enumerate() {
        let mut end = 0;
        while let Some((_, range)) = covered.next_if(|(file, _)| *file == at) {
            if range.start < end || range.start > end && !has_gaps {
                return None;
            }
            end = range.end;
        }
        if end < file.object_meta.size && !has_gaps {
            return None;
        }
    }
    Some((files, partitions))
}
