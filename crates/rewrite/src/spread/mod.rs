//! How does one table become files in several folders, one on each disk?
//!
//! Rows are read once, in the source's order or sorted by a column, and each row goes to one of
//! the files. Either runs of rows go to the files in turn, so that every disk has an equal part of
//! any range; or, sorted, each file gets one range of the column's values, so that statistics show
//! which disks a predicate needs. All files are written as drafts and synced before the first one
//! appears; then a journal is written, the drafts are renamed, and the journal is removed. So the
//! next spread to these folders finishes a killed spread that has a journal, and removes the files
//! of one that has none.
//! Not here: pages (`../row_group.rs`), drafts (`../target.rs`).
//! Bounds: one row group per folder in memory, or less when memory is short.
//! S1: the source is only read.
//! S2: each row is in one file.
//! S3: while a journal exists, all files exist, under their own names or under those of their
//! drafts.

mod journal;
mod route;

use std::path::{Path, PathBuf};

use coscan::Engine;
use datafusion::execution::SendableRecordBatchStream;
use futures::TryStreamExt;

use crate::error::{Result, RewriteError};
use crate::layout::PageLayout;
use crate::place::{Place, write_error};
use crate::source::Source;
use crate::target::{Sealed, Target};
use crate::writer::PageWriter;
use crate::{RewriteProgress, Rewritten};
use journal::Journal;
use route::Route;

/// How rows are distributed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum SpreadBy {
    /// Runs of rows in turn.
    #[default]
    RoundRobin,
    /// Each folder gets a range of this column's values, about as many rows in each.
    Range(String),
}

/// The options of a spread.
#[derive(Clone, Debug, Default)]
pub struct SpreadOptions {
    /// How rows are distributed.
    pub by: SpreadBy,
    /// The layout of the files.
    pub layout: PageLayout,
}

/// The result of a spread.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Spread {
    /// Each file, with its size. For files of an interrupted spread only the bytes are known.
    pub files: Vec<(PathBuf, Rewritten)>,
    /// Whether the files are those of an earlier, interrupted spread that this call finished.
    pub finished: bool,
}

/// Spreads the rows at `source` (a Parquet file, a folder, a glob or a URL) over these folders,
/// one file in each.
///
/// First finishes or removes what an interrupted spread to these folders left. If that gives
/// exactly the files of this call, nothing else is done.
///
/// Cancel safe: until all files are complete, dropping the future removes them.
///
/// # Errors
/// [`RewriteError`]; `NoFolder`, `FolderTwice`, `Exists`, `Unfinished`, `Uncounted`.
pub async fn spread(
    engine: &Engine,
    source: &str,
    folders: &[PathBuf],
    options: &SpreadOptions,
    mut on_progress: impl FnMut(RewriteProgress) + Send,
) -> Result<Spread> {
    let folders = real(folders)?;
    let stem = stem(source);
    let name = |number: usize| format!("{stem}-{}.parquet", number + 1);
    let files = folders.iter().enumerate();
    let files: Vec<PathBuf> = files.map(|(at, folder)| folder.join(name(at))).collect();
    let finished = journal::finish_interrupted(&folders)?;
    if !finished.is_empty() && files.iter().all(|file| finished.contains(file)) {
        return Ok(finished_earlier(files));
    }
    let names = files.iter().map(|file| file.display().to_string());
    let places = names.map(|name| Place::parse(&name));
    let places = places.collect::<Result<Vec<Place>>>()?;
    let SpreadOptions { by, layout } = options;
    layout.check()?;
    let sort_by: Vec<String> = match by {
        SpreadBy::RoundRobin => Vec::new(),
        SpreadBy::Range(column) => vec![column.clone()],
    };
    let rows = Source::open(engine, source, &sort_by, &places).await?;
    let (rows_total, rows_read) = (rows.rows_total(), rows.rows_read());
    let route = match (by, rows_total) {
        (SpreadBy::RoundRobin, total) => Route::round_robin(folders.len(), layout.page_rows, total),
        (SpreadBy::Range(_), Some(total)) => Route::ranges(folders.len(), total),
        (SpreadBy::Range(_), None) => {
            return Err(RewriteError::Uncounted {
                path: source.to_owned(),
            });
        }
    };
    let mut writers = Vec::with_capacity(places.len());
    for place in places {
        let (name, runtime) = (place.text.clone(), engine.runtime());
        let (schema, key_values) = (&rows.schema, rows.key_values.clone());
        let target = Target::create(place, runtime, false).await?;
        let writer = PageWriter::new(engine, &name, schema, key_values, &sort_by, *layout, target);
        writers.push(writer?);
    }
    let on_written = move |rows_written| {
        on_progress(RewriteProgress {
            rows_read: rows_read(),
            rows_written,
            rows_total,
        });
    };
    distribute(rows.rows()?, route, &mut writers, on_written).await?;
    let (spread, drafts) = seal(writers, files).await?;
    let journal = Journal::write(&folders[0], &stem, drafts)?;
    journal.publish()?;
    Ok(spread)
}

/// The files of an interrupted spread that is finished now.
fn finished_earlier(files: Vec<PathBuf>) -> Spread {
    let files = files.into_iter().map(|file| {
        let bytes = std::fs::metadata(&file).map_or(0, |file| file.len());
        let written = Rewritten {
            bytes,
            ..Rewritten::default()
        };
        (file, written)
    });
    Spread {
        files: files.collect(),
        finished: true,
    }
}

/// Writes each row into the file of its route. `on_written` gets the number of rows so far.
async fn distribute(
    mut rows: SendableRecordBatchStream,
    mut route: Route,
    writers: &mut [PageWriter],
    mut on_written: impl FnMut(u64) + Send,
) -> Result<()> {
    while let Some(batch) = rows.try_next().await? {
        let mut from = 0;
        while from < batch.num_rows() {
            let (file, rows) = route.next(batch.num_rows() - from);
            writers[file].write(&batch.slice(from, rows)).await?;
            from += rows;
        }
        on_written(writers.iter().map(PageWriter::rows).sum());
    }
    Ok(())
}

/// Completes the drafts of these files.
async fn seal(writers: Vec<PageWriter>, files: Vec<PathBuf>) -> Result<(Spread, Vec<Sealed>)> {
    let mut drafts = Vec::with_capacity(writers.len());
    let mut spread = Spread::default();
    for (writer, file) in writers.into_iter().zip(files) {
        let (written, draft) = writer.seal().await?;
        spread.files.push((file, written));
        drafts.push(draft);
    }
    Ok((spread, drafts))
}

/// The folders with their links resolved, each once.
fn real(folders: &[PathBuf]) -> Result<Vec<PathBuf>> {
    let mut known: Vec<PathBuf> = Vec::with_capacity(folders.len());
    for folder in folders {
        let path = folder.display().to_string();
        let real = std::fs::canonicalize(folder).map_err(|error| write_error(&path, error))?;
        if !real.is_dir() {
            return Err(RewriteError::NoFolder { path });
        }
        if known.contains(&real) {
            return Err(RewriteError::FolderTwice { path });
        }
        known.push(real);
    }
    if known.is_empty() {
        return Err(RewriteError::NoFolder {
            path: "nothing".to_owned(),
        });
    }
    Ok(known)
}

/// The name of a source: the last part of its path that is not a pattern, without an extension.
fn stem(source: &str) -> String {
    let parts = source.trim_end_matches('/').rsplit('/');
    let mut plain = parts.filter(|part| !part.is_empty() && !part.contains(['*', '?', '[']));
    let part = plain.next().unwrap_or("table");
    let stem = Path::new(part).file_stem();
    let stem = stem.map_or_else(
        || part.to_owned(),
        |stem| stem.to_string_lossy().into_owned(),
    );
    // Tables ignore files whose names begin with these characters.
    let stem = stem.trim_start_matches(['.', '_']);
    if stem.is_empty() { "table" } else { stem }.to_owned()
}

#[cfg(test)]
mod tests;
