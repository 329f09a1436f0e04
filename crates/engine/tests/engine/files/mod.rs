//! Promised: files are read as they are, whichever program wrote them, and so are Coscan's own.
//!
//! | file | question |
//! |---|---|
//! | `inserts.rs` | is a table readable after an INSERT and a restart, and whole after a failed one? |
//! | `partitions.rs` | which values do partition columns have? |
//! | `types.rs` | how is a folder read whose files store a column differently? |
//! | `matrix.rs` | are rows the same whichever program writes and reads them? |
//! | `unopened.rs` | what happens to a table that cannot be opened? |
//! | `claims.rs` | which statistics are trusted? |

mod claims;
mod inserts;
mod matrix;
mod partitions;
mod types;
mod unopened;

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch};
use coscan::Session;
use parquet::arrow::parquet_to_arrow_schema;
use parquet::file::reader::FileReader;
use parquet::file::serialized_reader::SerializedFileReader;

use crate::common::{self, collect};

/// A batch of these columns, all of which may be NULL.
fn batch(columns: Vec<(&str, ArrayRef)>) -> RecordBatch {
    let columns = columns
        .into_iter()
        .map(|(name, column)| (name, column, true));
    RecordBatch::try_from_iter_with_nullable(columns).unwrap()
}

fn write(path: &Path, batch: &RecordBatch) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    common::write(path, batch.schema(), std::slice::from_ref(batch), 1000);
}

/// A session after a restart: on a new engine.
async fn open(folder: &Path) -> Session {
    common::session(common::config(), &[("t", folder)]).await
}

/// A session after a restart, with small tables, which DataFusion's reader reads.
async fn open_small(folder: &Path) -> Session {
    let mut config = common::config();
    config.small_table_bytes = 1 << 30;
    common::session(config, &[("t", folder)]).await
}

/// The one row of a query, from both readers.
async fn one(folder: &Path, sql: &str) -> String {
    let cooperative = common::rows(&open(folder).await, sql).await;
    let plain = common::rows(&open_small(folder).await, sql).await;
    assert_eq!(cooperative, plain, "{sql}: the readers differ");
    let [row] = cooperative.as_slice() else {
        panic!("{sql}: {cooperative:?}")
    };
    row.clone()
}

async fn run(session: &Session, sql: &str) -> datafusion::error::Result<Vec<String>> {
    match session.sql(sql).await {
        Ok(rows) => collect(rows).await,
        Err(error) => Err(datafusion::error::DataFusionError::External(Box::new(
            error,
        ))),
    }
}

/// All files in a folder and those below it, by name.
fn files(folder: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            files.extend(self::files(&path));
        } else {
            files.push(path);
        }
    }
    files.sort();
    files
}

/// The types of a file's columns, as its writer recorded them.
fn types(path: &Path) -> Vec<String> {
    let reader = SerializedFileReader::new(fs::File::open(path).unwrap()).unwrap();
    let file = Arc::new(reader.metadata().file_metadata().clone());
    let schema = parquet_to_arrow_schema(file.schema_descr(), file.key_value_metadata()).unwrap();
    schema
        .fields()
        .iter()
        .map(|field| field.data_type().to_string())
        .collect()
}
