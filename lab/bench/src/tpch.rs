//! TPC-H tables as Parquet files, made on this machine and kept.
//!
//! Idea: the generator can start anywhere. So a thread generates, encodes and compresses one part
//! of the table, which becomes one row group; the file is the row groups in order. Nothing is
//! sorted or copied, memory is bounded by a few row groups per thread (T1), and the same arguments
//! give the same rows whatever the number of threads.
//!
//! Layout, with reasons: a row group is a chunk, the unit that Coscan schedules, so its size is an
//! argument. The codec is zstd(1), as most writers of large tables choose: concurrent scans wait
//! for bytes. The page index is written, because smooth scans and the splitting of large row
//! groups need it. No sort order is declared in the footer, although lineitem and orders have one:
//! planners preserve a declared order, and a scan that must keep it cannot take chunks as they
//! come.
//!
//! T1: at most three row groups per thread are in memory: one being made, one waiting, one being
//! written.
//! T2: a file gets its final name only when it is complete; an incomplete file is removed or has
//! another name.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

use arrow::array::RecordBatchReader;
use arrow::datatypes::SchemaRef;
use parquet::arrow::ArrowSchemaConverter;
use parquet::arrow::arrow_writer::{ArrowColumnChunk, ArrowRowGroupWriterFactory, compute_leaves};
use parquet::basic::{Compression, ZstdLevel};
use parquet::errors::ParquetError;
use parquet::file::properties::WriterProperties;
use parquet::file::writer::SerializedFileWriter;
use tpchgen::generators as rows;
use tpchgen_arrow as columns;

use crate::error::{BenchError, Result};

/// A table of TPC-H.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[allow(missing_docs)] // The names are the benchmark's own.
pub enum Table {
    Lineitem,
    Orders,
    Partsupp,
    Part,
    Customer,
    Supplier,
    Nation,
    Region,
}

/// What a file is made from.
#[derive(Clone, Debug)]
pub struct Generate {
    /// TPC-H's scale factor: 1 is about 200 MB of lineitem.
    pub scale: f64,
    /// The target size of a row group on disk.
    pub row_group_bytes: u64,
    /// The number of threads.
    pub threads: usize,
}

/// Called with (rows made, rows altogether) after each row group; may stop the work.
pub type OnRows<'a> = &'a (dyn Fn(u64, u64) -> ControlFlow<()> + Sync);

impl Table {
    /// All tables, the largest first.
    pub const ALL: [Self; 8] = [
        Self::Lineitem,
        Self::Orders,
        Self::Partsupp,
        Self::Part,
        Self::Customer,
        Self::Supplier,
        Self::Nation,
        Self::Region,
    ];

    /// The table's name in SQL.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Lineitem => "lineitem",
            Self::Orders => "orders",
            Self::Partsupp => "partsupp",
            Self::Part => "part",
            Self::Customer => "customer",
            Self::Supplier => "supplier",
            Self::Nation => "nation",
            Self::Region => "region",
        }
    }

    /// Rows at a scale factor. For lineitem an estimate: the number of lines per order is random.
    // Far below 2^63, not negative.
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
    fn rows(self, scale: f64) -> u64 {
        let per_scale = match self {
            Self::Lineitem => 6_000_000.0,
            Self::Orders => 1_500_000.0,
            Self::Partsupp => 800_000.0,
            Self::Part => 200_000.0,
            Self::Customer => 150_000.0,
            Self::Supplier => 10_000.0,
            Self::Nation => return 25,
            Self::Region => return 5,
        };
        (per_scale * scale).max(1.0) as u64
    }

    /// Bytes of a row on disk, measured at scale factor 1 with zstd(1).
    fn row_bytes(self) -> u64 {
        match self {
            Self::Lineitem => 32,
            Self::Orders => 32,
            Self::Partsupp => 43,
            Self::Part => 27,
            Self::Customer => 65,
            Self::Supplier => 62,
            Self::Nation | Self::Region => 100,
        }
    }

    fn reader(self, scale: f64, part: i32, parts: i32) -> Box<dyn RecordBatchReader + Send> {
        match self {
            Self::Lineitem => Box::new(columns::LineItemArrow::new(rows::LineItemGenerator::new(
                scale, part, parts,
            ))),
            Self::Orders => Box::new(columns::OrderArrow::new(rows::OrderGenerator::new(
                scale, part, parts,
            ))),
            Self::Partsupp => Box::new(columns::PartSuppArrow::new(rows::PartSuppGenerator::new(
                scale, part, parts,
            ))),
            Self::Part => Box::new(columns::PartArrow::new(rows::PartGenerator::new(
                scale, part, parts,
            ))),
            Self::Customer => Box::new(columns::CustomerArrow::new(rows::CustomerGenerator::new(
                scale, part, parts,
            ))),
            Self::Supplier => Box::new(columns::SupplierArrow::new(rows::SupplierGenerator::new(
                scale, part, parts,
            ))),
            Self::Nation => Box::new(columns::NationArrow::new(rows::NationGenerator::new(
                scale, part, parts,
            ))),
            Self::Region => Box::new(columns::RegionArrow::new(rows::RegionGenerator::new(
                scale, part, parts,
            ))),
        }
    }
}

impl FromStr for Table {
    type Err = BenchError;

    fn from_str(text: &str) -> Result<Self> {
        Self::ALL
            .into_iter()
            .find(|table| table.name() == text)
            .ok_or_else(|| BenchError::NoTable {
                text: text.to_owned(),
            })
    }
}

/// The folder below `root` for files made with `options`.
#[must_use]
pub fn folder(root: &Path, options: &Generate) -> PathBuf {
    root.join(format!(
        "tpch-sf{}-rowgroup{}k-v{LAYOUT_VERSION}",
        options.scale,
        options.row_group_bytes >> 10
    ))
}

/// The folder for generated tables: `coscan/data` in the user's cache folder.
#[must_use]
pub fn default_root() -> PathBuf {
    dirs::cache_dir()
        .unwrap_or_else(std::env::temp_dir)
        .join("coscan")
        .join("data")
}

/// The table's file below `root`, made if it is missing.
///
/// # Errors
/// The disk refuses, or [`BenchError::Stopped`] if `on_rows` stopped the work; no file is left
/// behind.
pub fn ensure(root: &Path, table: Table, options: &Generate, on_rows: OnRows) -> Result<PathBuf> {
    let folder = folder(root, options);
    let path = folder.join(format!("{}.parquet", table.name()));
    if path.is_file() {
        return Ok(path);
    }
    std::fs::create_dir_all(&folder).map_err(|error| BenchError::io(&folder, error))?;
    generate(&path, table, options, on_rows)?;
    Ok(path)
}

/// Writes the table to `path`, replacing an existing file.
///
/// # Errors
/// As [`ensure`].
pub fn generate(path: &Path, table: Table, options: &Generate, on_rows: OnRows) -> Result<()> {
    // T2. Two processes may make the same file at once: the process's id separates them, and the
    // last to finish wins, with equal bytes.
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let partial = Partial(path.with_file_name(format!(".{name}.{}.partial", std::process::id())));
    write(&partial.0, table, options, on_rows)?;
    std::fs::rename(&partial.0, path).map_err(|error| BenchError::io(path, error))
}

/// Removes an unfinished file. After the rename there is no file of this name, and the error is
/// ignored.
struct Partial(PathBuf);

impl Drop for Partial {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

type RowGroup = Result<Vec<ArrowColumnChunk>, ParquetError>;

fn write(path: &Path, table: Table, options: &Generate, on_rows: OnRows) -> Result<()> {
    let of_file = |error| BenchError::io(path, error);
    let of_parquet = |error| BenchError::parquet(path, error);
    let rows = table.rows(options.scale);
    let parts = parts(table, options);
    let schema = table.reader(options.scale, 1, parts).schema();
    let properties = WriterProperties::builder()
        .set_compression(Compression::ZSTD(
            ZstdLevel::try_new(1).map_err(of_parquet)?,
        ))
        // The code below closes row groups, not a limit of the writer.
        .set_max_row_group_row_count(None)
        .build();
    let descriptor = ArrowSchemaConverter::new()
        .convert(&schema)
        .map_err(of_parquet)?;
    let file = BufWriter::with_capacity(WRITE_BUFFER_BYTES, File::create(path).map_err(of_file)?);
    let mut writer =
        SerializedFileWriter::new(file, descriptor.root_schema_ptr(), Arc::new(properties))
            .map_err(of_parquet)?;
    let factory = ArrowRowGroupWriterFactory::new(&writer, Arc::clone(&schema));
    let threads = options
        .threads
        .clamp(1, THREADS_MAX)
        .min(usize::try_from(parts).unwrap_or(1));
    let stop = AtomicBool::new(false);

    std::thread::scope(|scope| -> Result<()> {
        let mut lanes: Vec<Receiver<RowGroup>> = Vec::with_capacity(threads);
        for thread in 0..threads {
            let (sender, receiver) = sync_channel(1);
            lanes.push(receiver);
            let (factory, schema, stop) = (&factory, &schema, &stop);
            let mine = (1 + thread..=usize::try_from(parts).unwrap_or(1)).step_by(threads);
            scope.spawn(move || {
                encode(
                    table,
                    options.scale,
                    (mine, parts),
                    factory,
                    schema,
                    &sender,
                    stop,
                );
            });
        }
        // Thread p mod threads makes part p, so taking turns gives the row groups in order.
        // Dropping the receivers on return ends the threads at their next send.
        let written = (0..usize::try_from(parts).unwrap_or(0)).try_for_each(|part| {
            let chunks = lanes[part % threads]
                .recv()
                .map_err(|_| BenchError::WorkerLost("the table generator"))?
                .map_err(of_parquet)?;
            let mut group = writer.next_row_group().map_err(of_parquet)?;
            for chunk in chunks {
                chunk.append_to_row_group(&mut group).map_err(of_parquet)?;
            }
            group.close().map_err(of_parquet)?;
            let done = rows * (part as u64 + 1) / u64::from(parts.unsigned_abs());
            match on_rows(done, rows) {
                ControlFlow::Continue(()) => Ok(()),
                ControlFlow::Break(()) => Err(BenchError::Stopped),
            }
        });
        stop.store(true, Ordering::Relaxed);
        drop(lanes);
        written
    })?;
    let mut file = writer.into_inner().map_err(of_parquet)?;
    file.flush().map_err(of_file)?;
    file.get_ref().sync_all().map_err(of_file)
}

/// The number of row groups of a table: at least one, each about as large as requested.
#[allow(clippy::cast_possible_truncation)] // At most PARTS_MAX.
fn parts(table: Table, options: &Generate) -> i32 {
    let group_rows = (options.row_group_bytes / table.row_bytes()).max(1);
    table
        .rows(options.scale)
        .div_ceil(group_rows)
        .clamp(1, PARTS_MAX) as i32
}

/// One thread: makes its parts, one after the other, until all are made, it is stopped, or the
/// receiver is gone.
fn encode(
    table: Table,
    scale: f64,
    (mine, parts): (impl Iterator<Item = usize>, i32),
    factory: &ArrowRowGroupWriterFactory,
    schema: &SchemaRef,
    sender: &SyncSender<RowGroup>,
    stop: &AtomicBool,
) {
    for part in mine {
        let part = i32::try_from(part).unwrap_or(parts);
        let group = row_group(
            table.reader(scale, part, parts),
            part,
            factory,
            schema,
            stop,
        );
        let failed = group.is_err();
        if sender.send(group).is_err() || failed {
            return;
        }
    }
}

fn row_group(
    reader: Box<dyn RecordBatchReader + Send>,
    part: i32,
    factory: &ArrowRowGroupWriterFactory,
    schema: &SchemaRef,
    stop: &AtomicBool,
) -> RowGroup {
    let index = usize::try_from(part - 1).unwrap_or(0);
    let mut writers = factory.create_column_writers(index)?;
    for batch in reader {
        let batch = batch?;
        if stop.load(Ordering::Relaxed) {
            return Err(ParquetError::General("stopped".to_owned()));
        }
        let mut leaves = writers.iter_mut();
        for (field, column) in schema.fields().iter().zip(batch.columns()) {
            for leaf in compute_leaves(field, column)? {
                if let Some(writer) = leaves.next() {
                    writer.write(&leaf)?;
                }
            }
        }
    }
    writers
        .into_iter()
        .map(parquet::arrow::arrow_writer::ArrowColumnWriter::close)
        .collect()
}

/// Part of the folder's name, so that files of another layout are not taken for these.
const LAYOUT_VERSION: u32 = 1;
/// Row groups are written whole; a buffer larger than a few pages would only add copies.
const WRITE_BUFFER_BYTES: usize = 256 << 10;
const THREADS_MAX: usize = 64;
/// The generator counts parts in i32, and a footer with more row groups than this is slow to read.
const PARTS_MAX: u64 = 1 << 20;

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicU64;

    use parquet::file::reader::{FileReader, SerializedFileReader};

    use super::*;

    fn options(threads: usize) -> Generate {
        Generate {
            scale: 0.002,
            row_group_bytes: 60_000,
            threads,
        }
    }

    fn go(_: u64, _: u64) -> ControlFlow<()> {
        ControlFlow::Continue(())
    }

    #[test]
    fn every_table_is_made_once_and_kept() {
        let root = tempfile::tempdir().unwrap();
        for table in Table::ALL {
            let path = ensure(root.path(), table, &options(2), &go).unwrap();
            let file = SerializedFileReader::new(File::open(&path).unwrap()).unwrap();
            let rows = u64::try_from(file.metadata().file_metadata().num_rows()).unwrap();
            let expected = table.rows(0.002);
            assert!(
                rows.abs_diff(expected) <= expected / 20,
                "{table:?}: {rows} of {expected}"
            );
            let untouched: OnRows = &|_, _| panic!("made again");
            assert_eq!(
                ensure(root.path(), table, &options(2), untouched).unwrap(),
                path
            );
        }
    }

    #[test]
    fn threads_change_neither_rows_nor_bytes() {
        let root = tempfile::tempdir().unwrap();
        let bytes = [1, 3].map(|threads| {
            let path = root.path().join(format!("{threads}.parquet"));
            generate(&path, Table::Lineitem, &options(threads), &go).unwrap();
            std::fs::read(path).unwrap()
        });
        assert!(bytes[0] == bytes[1]);
    }

    #[test]
    fn row_groups_are_in_key_order_and_have_a_page_index() {
        let root = tempfile::tempdir().unwrap();
        let path = root.path().join("lineitem.parquet");
        generate(&path, Table::Lineitem, &options(2), &go).unwrap();
        let file = SerializedFileReader::new(File::open(&path).unwrap()).unwrap();
        let groups = file.metadata().row_groups();
        assert_eq!(
            groups.len(),
            usize::try_from(parts(Table::Lineitem, &options(2))).unwrap()
        );
        let mut last = 0;
        for group in groups {
            assert!(group.column(0).offset_index_offset().is_some());
            let statistics = group.column(0).statistics().unwrap();
            let first = statistics
                .min_bytes_opt()
                .map(|b| i64::from_le_bytes(b.try_into().unwrap()));
            assert!(first.unwrap() > last);
            last = statistics
                .max_bytes_opt()
                .map(|b| i64::from_le_bytes(b.try_into().unwrap()))
                .unwrap();
        }
    }

    #[test]
    fn t2_a_stop_leaves_nothing_behind() {
        let root = tempfile::tempdir().unwrap();
        let calls = AtomicU64::new(0);
        let stop: OnRows = &|_, _| {
            calls.fetch_add(1, Ordering::Relaxed);
            ControlFlow::Break(())
        };
        let made = ensure(root.path(), Table::Lineitem, &options(2), stop);
        assert!(matches!(made, Err(BenchError::Stopped)));
        assert_eq!(calls.into_inner(), 1);
        let left = std::fs::read_dir(folder(root.path(), &options(2)))
            .unwrap()
            .count();
        assert_eq!(left, 0);
    }

    #[test]
    fn tables_are_named_as_in_sql() {
        for table in Table::ALL {
            assert_eq!(table.name().parse::<Table>().unwrap(), table);
        }
        assert!("lineitems".parse::<Table>().is_err());
    }
}
