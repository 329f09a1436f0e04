//! Of which pieces is a table, and how is a scan cut to some of them?
//!
//! A piece is what begins at one place of a file: a chunk, or all chunks of a row group that is
//! divided into several. Every node finds the same pieces, because they depend on the file and on
//! `coscan.chunk_bytes` alone. A scan of some pieces is DataFusion's scan of ranges of the files,
//! with a mark that allows gaps.
//! What DataFusion's codec loses of a scan travels beside it ([`Marks`]).

use std::sync::Arc;

use coscan_core::placement::{Piece, key};
use coscan_storage::pool::TableFile;
use datafusion::common::internal_err;
use datafusion::datasource::listing::PartitionedFile;
use datafusion::datasource::physical_plan::{
    FileGroup, FileScanConfig, FileScanConfigBuilder, FileSource, ParquetSource,
};
use datafusion::datasource::source::DataSourceExec;
use datafusion::error::Result;
use datafusion::physical_plan::ExecutionPlan;
use serde::{Deserialize, Serialize};

use crate::error::external;
use crate::plan::{MARK, needed_bytes};
use crate::read::scan::{begin, files_of, key_of_listed};
use crate::read::{PART, parquet_scan};
use crate::session::Engine;
use crate::settings::Settings;

/// A scan of Parquet files in a plan.
pub struct Scan<'a> {
    config: &'a FileScanConfig,
    source: &'a ParquetSource,
}

/// A piece of a scan: the part of a file that begins in a range of bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScanPiece {
    /// The position of the file among the scan's distinct files.
    file: usize,
    start: i64,
    end: i64,
    /// What a placement needs to know.
    pub placed: Piece,
}

/// What a scan's codec loses and the scan needs.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Marks {
    /// How the scan is marked.
    marks: Vec<(String, Option<String>)>,
    /// Per file of the scan, group by group: its `e_tag` and its version in an object store.
    versions: Vec<(Option<String>, Option<String>)>,
}

impl<'a> Scan<'a> {
    /// The node's scan; `None` if it is not a scan of Parquet files.
    #[must_use]
    pub fn of(node: &'a Arc<dyn ExecutionPlan>) -> Option<Self> {
        let (config, source) = parquet_scan(node)?;
        Some(Self { config, source })
    }

    /// About how many bytes the columns take that the scan needs.
    #[must_use]
    pub fn needed_bytes(&self) -> u64 {
        needed_bytes(self.config, self.source)
    }

    /// The URL of the store that the files are in.
    #[must_use]
    pub fn store(&self) -> &str {
        self.config.object_store_url.as_str()
    }

    /// The pieces of the whole scan, before anything is pruned. Reads the footers that the engine
    /// does not have yet.
    ///
    /// # Errors
    /// If a file cannot be read, or was changed after planning.
    pub async fn pieces(&self, engine: &Engine, settings: &Settings) -> Result<Vec<ScanPiece>> {
        let store = &self.config.object_store_url;
        let Some((files, _)) = files_of(self.config, true) else {
            return internal_err!("a scan reads a part of a file twice");
        };
        let resources = engine.resources();
        resources.ensure_device(store, engine.runtime())?;
        let metas = files.iter().map(|file| &file.object_meta);
        let keys: Vec<_> = metas
            .clone()
            .map(|meta| key_of_listed(store, meta))
            .collect();
        let opened = resources.files().open(&keys, settings.chunk_bytes).await;
        let opened = opened.map_err(external)?;
        let mut pieces: Vec<ScanPiece> = vec![];
        for (at, (file, meta)) in opened.iter().zip(metas).enumerate() {
            for (start, end, bytes) in ranges(file, meta.size) {
                let name = format!("{store}{}@{start}", meta.location);
                let key = key(name.as_bytes());
                pieces.push(ScanPiece {
                    file: at,
                    start: i64::try_from(start).unwrap_or(i64::MAX),
                    end: i64::try_from(end).unwrap_or(i64::MAX),
                    placed: Piece { key, bytes },
                });
            }
        }
        Ok(pieces)
    }

    /// The same scan of these pieces only, in as many partitions.
    #[must_use]
    pub fn cut(&self, pieces: &[&ScanPiece]) -> Arc<dyn ExecutionPlan> {
        let files = files_of(self.config, true).map(|(files, _)| files);
        let files = files.unwrap_or_default();
        let partitions = self.config.file_groups.len().max(1);
        let mut groups: Vec<Vec<PartitionedFile>> = vec![vec![]; partitions];
        for (at, piece) in pieces.iter().enumerate() {
            let mut file = files[piece.file].clone();
            file.statistics = None;
            // Neighbours go to the same partition, as in a scan of whole files.
            let group = at * partitions / pieces.len();
            groups[group].push(file.with_range(piece.start, piece.end));
        }
        let mut marks = self.marks();
        marks.push((PART.to_owned(), None));
        let groups = groups.into_iter().map(FileGroup::new).collect();
        marked(self.config, self.source, groups, &marks)
    }

    /// What the codec loses.
    #[must_use]
    pub fn lost(&self) -> Marks {
        let files = self.config.file_groups.iter().flat_map(FileGroup::iter);
        let versions = files.map(|file| {
            let meta = &file.object_meta;
            (meta.e_tag.clone(), meta.version.clone())
        });
        Marks {
            marks: self.marks(),
            versions: versions.collect(),
        }
    }

    /// The scan with what the codec has lost.
    #[must_use]
    pub fn restored(&self, lost: &Marks) -> Arc<dyn ExecutionPlan> {
        let mut versions = lost.versions.iter();
        let groups = self.config.file_groups.iter().map(|group| {
            let files = group.iter().map(|file| {
                let mut file = file.clone();
                if let Some((e_tag, version)) = versions.next() {
                    file.object_meta.e_tag.clone_from(e_tag);
                    file.object_meta.version.clone_from(version);
                }
                file
            });
            FileGroup::new(files.collect())
        });
        let groups = groups.collect();
        marked(self.config, self.source, groups, &lost.marks)
    }

    fn marks(&self) -> Vec<(String, Option<String>)> {
        let options = &self.source.table_parquet_options().key_value_metadata;
        let marks = [MARK, PART].into_iter();
        let marks = marks.filter_map(|mark| Some((mark.to_owned(), options.get(mark)?.clone())));
        marks.collect()
    }
}

/// The pieces of a file of `size` bytes: where each begins and ends, and its bytes. The first one
/// begins at the file's beginning.
fn ranges(file: &TableFile, size: u64) -> Vec<(u64, u64, u64)> {
    let mut ranges: Vec<(u64, u64, u64)> = vec![];
    for chunk in &file.chunks().chunks {
        let own = chunk.columns.iter().flatten();
        let bytes: u64 = own.map(|own| own.end - own.start).sum();
        let start = if ranges.is_empty() {
            0
        } else {
            begin(file, chunk)
        };
        match ranges.last_mut() {
            // A chunk of the same row group; or, where row groups are in another order than their
            // bytes, of an earlier range. The ranges divide the file whatever the order, so the
            // chunk is in one of them.
            Some((begin, _, all)) if start <= *begin => *all += bytes,
            last => {
                if let Some((_, end, _)) = last {
                    *end = start;
                }
                ranges.push((start, size, bytes));
            }
        }
    }
    ranges
}

/// The scan of these files with these marks.
fn marked(
    config: &FileScanConfig,
    source: &ParquetSource,
    groups: Vec<FileGroup>,
    marks: &[(String, Option<String>)],
) -> Arc<dyn ExecutionPlan> {
    let mut options = source.table_parquet_options().clone();
    options.key_value_metadata.extend(marks.iter().cloned());
    let source: Arc<dyn FileSource> = Arc::new(source.clone().with_table_parquet_options(options));
    let config = FileScanConfigBuilder::from(config.clone())
        .with_file_groups(groups)
        .with_source(source)
        .build();
    DataSourceExec::from_data_source(config)
}
