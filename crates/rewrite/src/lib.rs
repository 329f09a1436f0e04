//! Parquet whose pages begin at the same rows in every column.
//!
//! Most writers end a page at a number of bytes, so the pages of two columns do not align, and
//! reading some rows of all columns means reading other rows too. Here a page is a run of
//! `page_rows` rows, the same run in every column of a row group. Such a run can be read by
//! itself, as page-wise access needs it (docs/design/smooth.md).
//!
//! | file | question |
//! |---|---|
//! | `layout.rs` | how large are pages, row groups, dictionaries? |
//! | `source.rs` | which rows, in which order? |
//! | `sort_memory.rs` | how much memory may a sort take? |
//! | `row_group.rs` | how do the pages of all columns begin at the same rows? |
//! | `writer.rs` | where does a row group end, and how much memory does it take? |
//! | `place.rs` | which file does the target's name denote? |
//! | `target.rs` | when does the file become visible? |
//! | `spread/` | how does a table become files in several folders? |
//!
//! Preserved: the rows and their order, Arrow's types, metadata of columns; the key-value metadata
//! of a single file. Not preserved: bloom filters, declared sort orders (row groups are cut
//! differently), annotations of Parquet without an equivalent in Arrow.
//! Source: [SmoothScan18 §3], whose pages are a row store's.

mod error;
mod layout;
mod place;
mod row_group;
mod sort_memory;
mod source;
mod spread;
mod target;
#[cfg(test)]
mod tests;
mod writer;

use std::time::Duration;

use coscan::Engine;
use datafusion::execution::SendableRecordBatchStream;
use futures::TryStreamExt;
use tokio::time::{MissedTickBehavior, interval};

pub use error::{Result, RewriteError};
pub use layout::{
    PAGE_ROWS_DEFAULT, PAGE_ROWS_MAX, PageCompression, PageLayout, ROW_GROUP_BYTES_DEFAULT,
    ROW_GROUP_ROWS_DEFAULT,
};
use place::Place;
use source::Source;
pub use spread::{Spread, SpreadBy, SpreadOptions, spread};
use target::Target;
use writer::PageWriter;

/// The options of a rewrite.
#[derive(Clone, Debug, Default)]
pub struct RewriteOptions {
    /// The layout of the new file.
    pub layout: PageLayout,
    /// Columns to sort by, ascending, NULL last; the footer then declares that order. Rows that
    /// are equal in these columns come in any order. Empty: the order of the source.
    pub sort_by: Vec<String>,
    /// Whether an existing file at the target may be replaced.
    pub replace: bool,
}

/// The progress of a [`rewrite()`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct RewriteProgress {
    /// Rows read so far. If rows are sorted, all are read before the first is written.
    pub rows_read: u64,
    /// Rows encoded so far, or about to be.
    pub rows_written: u64,
    /// Rows of the source, if its footers contain the number.
    pub rows_total: Option<u64>,
}

/// The size of what was written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Rewritten {
    /// The number of rows.
    pub rows: u64,
    /// The number of row groups.
    pub row_groups: u64,
    /// The number of pages per column: runs of rows that can be read by themselves.
    pub pages: u64,
    /// Bytes of the file.
    pub bytes: u64,
}

/// The longest time between two progress reports while nothing can be written.
const TICK: Duration = Duration::from_millis(100);

/// Writes the rows at `source` (a Parquet file, a folder, a glob or a URL) to the file at `target`
/// (a path or a URL), with pages that begin at the same rows in every column.
///
/// Rows keep their order, with files in the order of their paths, unless `options` ask for a sort.
/// Memory is taken from the engine: a sort spills, and row groups end early when memory is short.
/// The file appears when it is complete; if `target` is the source's only file and may be
/// replaced, it is replaced then.
///
/// Cancel safe: dropping the future removes an incomplete local file.
///
/// # Errors
/// [`RewriteError`]; errors of reading are its variant `Engine`.
pub async fn rewrite(
    engine: &Engine,
    source: &str,
    target: &str,
    options: &RewriteOptions,
    mut on_progress: impl FnMut(RewriteProgress) + Send,
) -> Result<Rewritten> {
    options.layout.check()?;
    let place = Place::parse(target)?;
    let source = Source::open(
        engine,
        source,
        &options.sort_by,
        std::slice::from_ref(&place),
    )
    .await?;
    let name = place.text.clone();
    let target = Target::create(place, engine.runtime(), options.replace).await?;
    let writer = PageWriter::new(
        engine,
        &name,
        &source.schema,
        source.key_values.clone(),
        &options.sort_by,
        options.layout,
        target,
    )?;
    let (rows_total, rows_read) = (source.rows_total(), source.rows_read());
    let rows = source.rows()?;
    write_all(rows, writer, |rows_written| {
        on_progress(RewriteProgress {
            rows_read: rows_read(),
            rows_written,
            rows_total,
        });
    })
    .await
}

/// Writes rows from any stream to a file at `target`, with pages as [`rewrite()`] makes them. An
/// existing file is replaced only if `replace` is true. `on_rows` gets the number of rows written
/// so far.
///
/// Cancel safe, like [`rewrite()`].
///
/// # Errors
/// [`RewriteError`]; errors of the stream are its variant `Engine`.
pub async fn write_pages(
    engine: &Engine,
    rows: SendableRecordBatchStream,
    target: &str,
    replace: bool,
    layout: PageLayout,
    on_rows: impl FnMut(u64) + Send,
) -> Result<Rewritten> {
    layout.check()?;
    let place = Place::parse(target)?;
    let (name, schema) = (place.text.clone(), rows.schema());
    let target = Target::create(place, engine.runtime(), replace).await?;
    let writer = PageWriter::new(engine, &name, &schema, Vec::new(), &[], layout, target)?;
    write_all(rows, writer, on_rows).await
}

/// Writes every row and finishes the file, or abandons it on an error.
async fn write_all(
    rows: SendableRecordBatchStream,
    mut writer: PageWriter,
    on_rows: impl FnMut(u64) + Send,
) -> Result<Rewritten> {
    match copy(rows, &mut writer, on_rows).await {
        Ok(()) => writer.finish().await,
        Err(error) => {
            writer.abandon().await;
            Err(error)
        }
    }
}

async fn copy(
    mut rows: SendableRecordBatchStream,
    writer: &mut PageWriter,
    mut on_rows: impl FnMut(u64) + Send,
) -> Result<()> {
    let mut tick = interval(TICK);
    tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            batch = rows.try_next() => match batch? {
                Some(batch) => writer.write(&batch).await?,
                None => return Ok(()),
            },
            _ = tick.tick() => {}
        }
        on_rows(writer.rows());
    }
}
