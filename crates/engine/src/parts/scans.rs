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
use crate::read::scan::{Delivery, ScanPlan, begin, files_of, key_of_listed, wanted_chunks};
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
    /// About how many bytes of it the scan needs: of the columns that it reads, and of the chunks
    /// that may have a row of the result, as statistics say.
    pub needed_bytes: u64,
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
        let wanted = self.wanted(engine, settings, &opened)?;
        let mut pieces: Vec<ScanPiece> = vec![];
        for (at, (file, meta)) in opened.iter().zip(metas).enumerate() {
            for range in ranges(file, meta.size, wanted.as_ref().map(|wanted| &*wanted[at])) {
                let name = format!("{store}{}@{}", meta.location, range.start);
                let key = key(name.as_bytes());
                pieces.push(ScanPiece {
                    file: at,
                    start: i64::try_from(range.start).unwrap_or(i64::MAX),
                    end: i64::try_from(range.end).unwrap_or(i64::MAX),
                    placed: Piece {
                        key,
                        bytes: range.bytes,
                    },
                    needed_bytes: range.wanted_bytes,
                });
            }
        }
        // So far they are bytes of all columns.
        let all: u64 = pieces.iter().map(|piece| piece.placed.bytes).sum();
        let needed = u128::from(needed_bytes(self.config, self.source));
        for piece in &mut pieces {
            let share = u128::from(piece.needed_bytes) * needed / u128::from(all.max(1));
            piece.needed_bytes = u64::try_from(share).unwrap_or(u64::MAX);
        }
        Ok(pieces)
    }

    /// Per file, whether statistics leave its chunks for the scan; `None` if that is unknown.
    fn wanted(
        &self,
        engine: &Engine,
        settings: &Settings,
        files: &[Arc<TableFile>],
    ) -> Result<Option<Vec<Vec<bool>>>> {
        let (resources, settings) = (Arc::clone(engine.resources()), settings.clone());
        let (config, source) = (self.config, self.source);
        let plan = ScanPlan::new(resources, settings, Delivery::Shared, config, source)?;
        plan.map(|plan| wanted_chunks(&plan, files)).transpose()
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

/// The part of a file that is one piece.
struct PieceRange {
    start: u64,
    end: u64,
    /// Of all columns.
    bytes: u64,
    /// Those of chunks that the scan wants.
    wanted_bytes: u64,
}

/// The pieces of a file of `size` bytes. The first one begins at the file's beginning. `wanted`:
/// which of its chunks the scan wants, if that is known.
fn ranges(file: &TableFile, size: u64, wanted: Option<&[bool]>) -> Vec<PieceRange> {
    let mut ranges: Vec<PieceRange> = vec![];
    for (at, chunk) in file.chunks().chunks.iter().enumerate() {
        let own = chunk.columns.iter().flatten();
        let bytes: u64 = own.map(|own| own.end - own.start).sum();
        let is_wanted = wanted.is_none_or(|wanted| wanted[at]);
        let wanted_bytes = if is_wanted { bytes } else { 0 };
        let start = if ranges.is_empty() {
            0
        } else {
            begin(file, chunk)
        };
        match ranges.last_mut() {
            // A chunk of the same row group; or, where row groups are in another order than their
            // bytes, of an earlier range. The ranges divide the file whatever the order, so the
            // chunk is in one of them.
            Some(last) if start <= last.start => {
                last.bytes += bytes;
                last.wanted_bytes += wanted_bytes;
            }
            last => {
                if let Some(last) = last {
                    last.end = start;
                }
                ranges.push(PieceRange {
                    start,
                    end: size,
                    bytes,
                    wanted_bytes,
                });
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
