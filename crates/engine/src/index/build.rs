//! How is an index built?
//!
//! A cooperative scan reads the indexed column and shares its reads with the other running scans.
//! Each row's position is added (`entries.rs`). DataFusion's external sort sorts the entries
//! within the memory budget. They are merged with those of an old index (`merge.rs`) and written
//! (`draft.rs`). The file is then read back once, for the checksums of the manifest, and the
//! manifest is put in place (`commit.rs`). If the build is dropped, nothing changes.
//! Not here: when an index is built (`functions.rs`).
//! Bounds: memory as for the sort, and one row group of entries in the writer.

use std::sync::Arc;

use arrow::compute::SortOptions;
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use coscan_pg::PgError;
use coscan_storage::device::FileVersion;
use datafusion::catalog::TableProvider;
use datafusion::common::TableReference;
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::{SendableRecordBatchStream, SessionState};
use datafusion::physical_expr::expressions::col;
use datafusion::physical_expr::{LexOrdering, PhysicalSortExpr};
use datafusion::physical_plan::metrics::ExecutionPlanMetricsSet;
use datafusion::physical_plan::sorts::sort::SortExec;
use datafusion::physical_plan::sorts::sort_preserving_merge::SortPreservingMergeExec;
use datafusion::physical_plan::union::UnionExec;
use datafusion::physical_plan::{ExecutionPlan, execute_stream};
use futures::TryStreamExt;
use object_store::path::Path;
use object_store::{ObjectStore, ObjectStoreExt, PutMode};

use super::commit::{Committed, commit, data_name, unwritten};
use super::discovery::named_folder;
use super::draft::Draft;
use super::entries::entries;
use super::leaves::{leaves, leaves_end, open, tail_crc32};
use super::merge::{KeptEntries, can_keep};
use crate::commit_point::Run;
use crate::error::external;
use crate::index_catalog::{
    Claim, CoveredFile, Folder, Index, Indexes, KEY, Manifest, POSITION, Progress, is_text,
    is_whole_number,
};
use crate::notices::{Notice, Notices};
use crate::read::parquet_scan;
use crate::read::scan::{Delivery, Execution, Running, ScanPlan};
use crate::resources::Resources;
use crate::settings::Settings;
use crate::tables::partitioned::files_of;

/// Leaves read at once for their checksums.
const VERIFIED_AT_ONCE: usize = 64;

/// The parameters of a build.
pub(super) struct Order<'a> {
    pub(super) resources: &'a Arc<Resources>,
    pub(super) state: &'a SessionState,
    pub(super) name: &'a str,
    pub(super) table: &'a str,
    pub(super) column: &'a str,
    /// The index that the new one replaces.
    pub(super) old: Option<&'a Arc<Index>>,
    /// If no index is replaced: whether an existing index of this name is no error.
    pub(super) if_not_exists: bool,
}

/// The folder and the store of a build, and its counts.
struct Place<'a> {
    folder: &'a Folder,
    store: &'a Arc<dyn ObjectStore>,
    progress: &'a Arc<Progress>,
}

impl Order<'_> {
    /// Builds the index; `None` if one of this name exists and that is no error.
    ///
    /// # Errors
    /// 42P01 and 42703 for a table and a column that do not exist; `Plan` for a table that is not
    /// one of Parquet files, a column without an order, and an index that exists or is being built;
    /// errors of reading and sorting; errors of writing, which name the index and the folder.
    pub(super) async fn build(&self) -> Result<Option<Arc<Index>>> {
        let table = self.table().await?;
        let scan = self.scan(&table).await?;
        let key = scan.schema.field(0).data_type();
        if !has_order(key) {
            return Err(DataFusionError::Plan(format!(
                "column {} is of type {key}, which cannot be indexed: integers, dates, times, timestamps, decimals and strings can",
                self.column,
            )));
        }
        let folder = self.folder(&table).await?;
        let indexes = self.resources.indexes();
        let building = indexes.begin_building(&folder, self.name)?;
        let store = self.state.runtime_env().object_store(&folder.store)?;
        if self.old.is_none() {
            // Another process may have created one in the meantime.
            let found = indexes.look_up(&folder, self.name, &store).await;
            if found
                .map_err(|reason| self.in_the_way(&folder, &reason))?
                .is_some()
            {
                return self.exists();
            }
        }
        let place = Place {
            folder: &folder,
            store: &store,
            progress: &building.progress,
        };
        let old = self.old.filter(|old| can_keep(old, &scan));
        let kept =
            old.map(|old| KeptEntries::new(old, self.resources.pool(&scan.settings), &store));
        let (manifest, draft) = match self.data(&scan, kept.as_ref(), &place).await {
            Err(_) if kept.as_ref().is_some_and(KeptEntries::failed) => {
                self.data(&scan, None, &place).await?
            }
            data => data?,
        };
        let mode = match self.old {
            Some(_) => PutMode::Overwrite,
            None => PutMode::Create,
        };
        Run::of(self.state.config()).reach()?;
        match commit(indexes, folder, manifest, draft, mode).await? {
            Committed::Lost => self.exists(),
            Committed::Done(index) => Ok(Some(index)),
        }
    }

    /// Writes the data of the index as a draft. Returns the draft and the manifest that will name
    /// it.
    async fn data(
        &self,
        scan: &ScanPlan,
        kept: Option<&KeptEntries>,
        place: &Place<'_>,
    ) -> Result<(Manifest, Draft)> {
        let (mut manifest, entries) = self.entries(scan, kept, place.progress).await?;
        manifest.data = data_name(self.name);
        let path = place.folder.path.clone().join(manifest.data.as_str());
        let wrong = |error| unwritten(self.name, place.folder, error);
        let claim = Claim::new(place.folder, &manifest.data);
        let draft = Draft::begin(place.store, &path, &entries.schema(), claim).map_err(wrong)?;
        let draft = self.fill(draft, entries, &mut manifest, place).await?;
        match self.seal(&mut manifest, &path, place).await {
            Ok(()) => Ok((manifest, draft)),
            Err(error) => {
                draft.remove().await;
                Err(wrong(error))
            }
        }
    }

    /// Writes the entries and counts them.
    async fn fill(
        &self,
        mut draft: Draft,
        mut entries: SendableRecordBatchStream,
        manifest: &mut Manifest,
        place: &Place<'_>,
    ) -> Result<Draft> {
        let wrong = |error| unwritten(self.name, place.folder, error);
        loop {
            match entries.try_next().await {
                Ok(Some(batch)) => {
                    let rows = batch.num_rows();
                    draft = draft.write(batch).await.map_err(wrong)?;
                    manifest.entries += rows as u64;
                    place.progress.add_written(rows);
                }
                Ok(None) => return draft.close().await.map_err(wrong),
                Err(error) => {
                    draft.remove().await;
                    return Err(error);
                }
            }
        }
    }

    /// All entries in order: the kept ones, merged with those of the other files; and a manifest
    /// that names the files.
    async fn entries(
        &self,
        scan: &ScanPlan,
        kept: Option<&KeptEntries>,
        progress: &Arc<Progress>,
    ) -> Result<(Manifest, SendableRecordBatchStream)> {
        let key = scan.schema.field(0).data_type().clone();
        let column = (self.column, &key);
        let schema: SchemaRef = Arc::new(Schema::new(vec![
            Field::new(KEY, key.clone(), false),
            Field::new(POSITION, DataType::UInt64, false),
        ]));
        let ordering = ordering(&schema)?;
        let (mut files, scan) = match kept {
            Some(kept) => (kept.index.manifest.files.clone(), kept.others(scan)),
            None => (Vec::new(), Some(scan.clone())),
        };
        let kept_entries = kept.map_or(0, |kept| kept.index.manifest.entries);
        let mut sorted: Vec<Arc<dyn ExecutionPlan>> = Vec::new();
        if let Some(kept) = kept {
            sorted.push(kept.plan(&schema)?);
        }
        let Some(scan) = scan else {
            progress.begin(0, kept_entries);
            let manifest = Manifest::new(self.name, self.table, column, files);
            return Ok((manifest, self.merged(sorted, ordering)?));
        };
        let execution = Execution::new(Arc::new(scan), ExecutionPlanMetricsSet::new());
        let execution = Arc::new(execution);
        let running = execution.running().await?;
        let new = covered(&running);
        progress.begin(new.iter().map(|file| file.rows).sum(), kept_entries);
        files.extend(new);
        let manifest = Manifest::new(self.name, self.table, column, files);
        let entries = entries(&execution, &running, &manifest, schema, progress)?;
        let sort = SortExec::new(ordering.clone(), entries).with_preserve_partitioning(true);
        sorted.push(Arc::new(sort));
        Ok((manifest, self.merged(sorted, ordering)?))
    }

    fn merged(
        &self,
        sorted: Vec<Arc<dyn ExecutionPlan>>,
        ordering: LexOrdering,
    ) -> Result<SendableRecordBatchStream> {
        let merge = SortPreservingMergeExec::new(ordering, UnionExec::try_new(sorted)?);
        execute_stream(Arc::new(merge), self.state.task_ctx())
    }

    /// The answer if an index of this name exists.
    fn exists(&self) -> Result<Option<Arc<Index>>> {
        if self.if_not_exists {
            let found = || Notice::relation_exists(self.name);
            Notices::say(self.state.config(), found);
            return Ok(None);
        }
        let text = format!("index {} already exists", self.name);
        Err(DataFusionError::Plan(text))
    }

    /// The error if there is a manifest of this name that cannot be used.
    fn in_the_way(&self, folder: &Folder, reason: &str) -> DataFusionError {
        let reason = format!(
            "{}: {reason}",
            folder
                .manifest_path(self.name)
                .filename()
                .unwrap_or_default()
        );
        unwritten(self.name, folder, reason)
    }

    /// Reads the data back and records their sizes and checksums in the manifest.
    async fn seal(&self, manifest: &mut Manifest, path: &Path, place: &Place<'_>) -> Result<()> {
        let pool = self.resources.pool(&self.settings());
        let version = FileVersion::from(&place.store.head(path).await?);
        manifest.bytes = version.size;
        let file = open(&pool, place.folder.store.as_str(), &version).await?;
        manifest.leaves_end = leaves_end(&file);
        manifest.tail_crc32 = tail_crc32(&file, manifest.leaves_end).await?;
        let leaves = leaves(&file);
        for leaves in leaves.chunks(VERIFIED_AT_ONCE) {
            let pieces = leaves.iter().flat_map(|leaf| leaf.pieces.clone()).collect();
            let read = pool.read_apart(&file, pieces, &[KEY, POSITION]).await;
            let read = read.map_err(external)?;
            manifest
                .leaves_crc32
                .extend((0..leaves.len()).map(|leaf| read.checksum(leaf)));
        }
        Ok(())
    }

    /// The table of the index. Views are refused, because the names of their columns need not be
    /// those in the files.
    async fn table(&self) -> Result<Arc<dyn TableProvider>> {
        let reference = TableReference::parse_str(self.table);
        let name = reference.table().to_owned();
        let table = self.state.schema_for_ref(reference)?.table(&name).await?;
        let Some(table) = table else {
            let text = format!("there is no table {}", self.table);
            return Err(PgError::new("42P01", text).into());
        };
        if files_of(table.as_ref()).is_some() {
            Ok(table)
        } else {
            Err(self.nothing_to_index())
        }
    }

    fn nothing_to_index(&self) -> DataFusionError {
        DataFusionError::Plan(format!(
            "{} is no table of Parquet files, so there is nothing to index",
            self.table
        ))
    }

    /// The folder of the index: that of the old index, the one that the session sets, or the one
    /// beside the table.
    async fn folder(&self, table: &Arc<dyn TableProvider>) -> Result<Folder> {
        let files = files_of(table.as_ref());
        let files = files.ok_or_else(|| self.nothing_to_index())?;
        let files = Folder::of_table(files, self.state.runtime_env()).await?;
        match self.old {
            Some(old) if old.manifest.covers_some_in(&files) => Ok(old.folder.clone()),
            Some(old) => Err(DataFusionError::Plan(format!(
                "index {} covers no file in {}, where table {} is: it was made on another table of that name",
                old.manifest.name,
                files.display(),
                self.table
            ))),
            None => match named_folder(self.state) {
                Some(named) => Ok(named.folder),
                None => Ok(files.beside()),
            },
        }
    }

    /// The session's settings.
    fn settings(&self) -> Settings {
        let extensions = &self.state.config().options().extensions;
        let settings = extensions.get::<Settings>().cloned();
        settings.unwrap_or_else(|| self.resources.settings())
    }

    /// The scan of the column, not yet started.
    async fn scan(&self, table: &Arc<dyn TableProvider>) -> Result<ScanPlan> {
        let settings = self.settings();
        let column = table.schema().index_of(self.column).map_err(|_| {
            let told = format!("table {} has no column {}", self.table, self.column);
            DataFusionError::from(PgError::new("42703", told))
        })?;
        // DataFusion's own scan, which no rule has replaced.
        let plan = table
            .scan(self.state, Some(&vec![column]), &[], None)
            .await?;
        let mut scans = Vec::new();
        plan.apply(|node| {
            if let Some((scan, source)) = parquet_scan(node) {
                scans.push(ScanPlan::new(
                    Arc::clone(self.resources),
                    settings.clone(),
                    Delivery::Shared,
                    scan,
                    source,
                )?);
            }
            Ok(TreeNodeRecursion::Continue)
        })?;
        match (scans.pop().flatten(), scans.is_empty()) {
            (Some(scan), true) => Ok(scan),
            _ => Err(self.nothing_to_index()),
        }
    }
}

/// Whether all values of a type are ordered, and Parquet keeps bounds of them.
fn has_order(data_type: &DataType) -> bool {
    let is_decimal = matches!(
        data_type,
        DataType::Decimal32(..) | DataType::Decimal64(..) | DataType::Decimal128(..)
    );
    is_decimal || is_whole_number(data_type) || is_text(data_type)
}

/// The files of a table, in the order of the scan's chunks.
fn covered(running: &Running) -> Vec<CoveredFile> {
    running
        .files
        .iter()
        .map(|file| {
            let groups = file.metadata().row_groups().iter();
            let rows = groups.map(|group| group.num_rows().unsigned_abs()).sum();
            CoveredFile::new(file.store(), file.version(), rows)
        })
        .collect()
}

/// The order of entries: by key, then by position.
fn ordering(schema: &SchemaRef) -> Result<LexOrdering> {
    let ascending = SortOptions {
        descending: false,
        nulls_first: false,
    };
    let by = |name| Ok::<_, DataFusionError>(PhysicalSortExpr::new(col(name, schema)?, ascending));
    LexOrdering::new([by(KEY)?, by(POSITION)?])
        .ok_or_else(|| DataFusionError::Internal("an ordering of nothing".to_owned()))
}

impl Indexes {
    /// Removes an index, first its manifest: without it there is no index.
    ///
    /// # Errors
    /// Errors of the store.
    pub(super) async fn drop_index(
        &self,
        store: &Arc<dyn ObjectStore>,
        index: &Index,
    ) -> Result<()> {
        let manifest = index.folder.manifest_path(&index.manifest.name);
        match store.delete(&manifest).await {
            Ok(()) | Err(object_store::Error::NotFound { .. }) => {}
            Err(error) => return Err(error.into()),
        }
        self.remove(index);
        // Without a manifest no query reads the data. If they cannot be removed, they cost only
        // space.
        let _ = store.delete(&index.data_path()).await;
        Ok(())
    }
}
