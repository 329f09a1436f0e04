//! Which rows does a scan of Parquet files return?
//!
//! The rows of certain versions of certain files that satisfy a predicate, projected and split over
//! partitions in a certain way. How the rows are found does not matter, except for the order that
//! an index gives.
//! I9: a scan with a foreign adapter between its files and its table has no key.

use std::fmt::Write as _;

use coscan_storage::device::FileVersion;
use datafusion::datasource::listing::PartitionedFile;
use datafusion::datasource::physical_plan::{FileScanConfig, FileSource, ParquetSource};
use datafusion::datasource::source::DataSourceExec;

use crate::cscan::CScanSource;
use crate::fragment::{Elsewhere, KeyWriter};
use crate::operators::KeptFunctions;
use crate::plan::swap_scans::needed_bytes;

/// The key of a scan.
pub(super) struct ScanKey {
    pub(super) text: String,
    /// Those that `text` names.
    pub(super) functions: KeptFunctions,
    /// What the scan gets from other nodes of its plan.
    pub(super) from_elsewhere: Vec<Elsewhere>,
}

/// About how many bytes a scan reads, and its key if it has one; `None` if it is no scan of Parquet
/// files.
pub(super) fn scan(node: &DataSourceExec) -> Option<(u64, Option<ScanKey>)> {
    if let Some(ours) = ours(node) {
        let (config, source) = ours.parquet()?;
        let text = key(config, source, &ours.order_of_rows());
        return Some((needed_bytes(config, source), text));
    }
    let (config, source) = node.downcast_to_file_source::<ParquetSource>()?;
    Some((needed_bytes(config, source), None))
}

/// About how many bytes a scan reads, as [`scan`] has it; 0 if it is no scan of Parquet files.
pub(super) fn scan_bytes(node: &DataSourceExec) -> u64 {
    let parquet = match ours(node) {
        Some(ours) => ours.parquet(),
        None => node.downcast_to_file_source::<ParquetSource>(),
    };
    parquet.map_or(0, |(config, source)| needed_bytes(config, source))
}

fn ours(node: &DataSourceExec) -> Option<&CScanSource> {
    node.data_source().as_ref().downcast_ref::<CScanSource>()
}

fn key(config: &FileScanConfig, source: &ParquetSource, order: &str) -> Option<ScanKey> {
    if config.expr_adapter_factory.is_some() {
        return None;
    }
    let schema = source.table_schema().table_schema();
    let mut writer = KeyWriter::of_scan();
    writer.word("scan");
    writer.word(config.object_store_url.as_str());
    writer.word(order);
    writer.word(&format!(
        "{:?} {} {:?} {:?}",
        config.limit, config.preserve_order, config.batch_size, config.output_partitioning
    ));
    writer.word(&format!("{schema:?}"));
    writer.word(&format!("{:?}", config.output_ordering));
    writer.word(&format!("{:?}", source.table_parquet_options().global));
    match source.projection() {
        Some(projection) => {
            for column in projection.iter() {
                writer.word(&column.alias);
                writer.expr(&column.expr, schema)?;
            }
        }
        None => writer.word("all"),
    }
    match source.filter() {
        Some(filter) => writer.expr(&filter, schema)?,
        None => writer.word("no filter"),
    }
    // Expressions are written, and their length is bounded, ahead of the files, which may be many.
    let mut text = String::new();
    for group in &config.file_groups {
        text.clear();
        for part in group.iter() {
            file(part, &mut text)?;
        }
        writer.word(&text);
    }
    let (text, functions, from_elsewhere) = writer.into_parts();
    Some(ScanKey {
        text,
        functions,
        from_elsewhere,
    })
}

/// A part of a version of a file, and the values that its path gives to its rows.
fn file(part: &PartitionedFile, text: &mut String) -> Option<()> {
    let version = FileVersion::from(&part.object_meta);
    let range = part.range.as_ref().map(|range| (range.start, range.end));
    let e_tag = &version.e_tag;
    let _infallible = write!(
        text,
        "{:?} {} {} {e_tag:?} {range:?} {:?};",
        version.location.as_ref(),
        version.size,
        version.modified_ns,
        part.arrow_schema,
    );
    for value in &part.partition_values {
        if value.data_type().is_nested() {
            return None;
        }
        let _infallible = write!(text, "{:?} {value:?};", value.data_type());
    }
    Some(())
}
