//! Shared by the pool's unit tests: a small file and scans of it.
#![allow(clippy::unwrap_used, reason = "tests: a failure should panic")]

use std::fs::File;
use std::path::Path;
use std::sync::Arc;

use arrow::array::{ArrayRef, Int64Array, RecordBatch};
use parquet::arrow::ArrowWriter;
use parquet::file::properties::WriterProperties;

use super::{BufferPool, FileKey, PoolShared, Scan, ScanPart, ScanRequest, TableFile};
use crate::Result;

/// A file of columns k and v, with three row groups of 1000 rows.
pub(super) fn write(path: &Path) {
    write_in_groups(path, 1000);
}

/// A file of columns k and v, with three row groups of this many rows: 0, 1, 2, ...
pub(super) fn write_in_groups(path: &Path, rows: usize) {
    let values = 0..i64::try_from(3 * rows).unwrap();
    let column = || Arc::new(Int64Array::from_iter_values(values.clone())) as ArrayRef;
    let batch = RecordBatch::try_from_iter([("k", column()), ("v", column())]).unwrap();
    let properties = WriterProperties::builder().set_max_row_group_row_count(Some(rows));
    let file = File::create(path).unwrap();
    let mut writer = ArrowWriter::try_new(file, batch.schema(), Some(properties.build())).unwrap();
    writer.write(&batch).unwrap();
    writer.close().unwrap();
}

pub(super) async fn open(shared: &PoolShared, path: &Path) -> Arc<TableFile> {
    let location = object_store::path::Path::from_absolute_path(path).unwrap();
    let devices = shared.files().devices();
    let (_, device) = devices.device_for("file://", &location).await.unwrap();
    let version = device.stat(&location).await.unwrap();
    let key = FileKey::new("file://", version);
    let files = shared.files().open(&[key], 1).await;
    files.unwrap().remove(0)
}

/// A scan of column v of some chunks of a file.
pub(super) fn start(pool: &BufferPool, file: &Arc<TableFile>, chunks: Vec<usize>) -> Arc<Scan> {
    let request = ScanRequest {
        table: pool.table(std::slice::from_ref(file)).unwrap(),
        parts: vec![ScanPart {
            chunks,
            columns: vec!["v".to_owned()],
        }],
        consumers: 1,
        ordered: false,
        devices_max: None,
        label: "test".into(),
    };
    Arc::new(pool.scan(request).unwrap())
}

pub(super) async fn rows(scan: Arc<Scan>) -> Result<u64> {
    let mut rows = 0;
    while let Some(lease) = scan.next_chunk().await? {
        rows += lease.info().rows();
    }
    Ok(rows)
}
