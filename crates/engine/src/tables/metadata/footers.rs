//! Which footers does DataFusion plan with?
//!
//! DataFusion reads footers with parquet's own reader, and a few crafted bytes can make that
//! request more memory than there is: the failed allocation aborts the process. So coscan-storage
//! reads the footers and checks them first. They share a cache with cooperative scans, so each
//! footer is read once.
//! Not here: pages (`cscan/checked_reader.rs`).
//! Bounds: [`AT_ONCE`] footers at a time; `FileCache` bounds the cache.

use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use bytes::Bytes;
use coscan_storage::pool::FileCache;
use coscan_storage::{RangeRead, StorageError, read_footer};
use datafusion::catalog::Session;
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::object_store::ObjectStoreUrl;
use futures::{StreamExt, TryStreamExt};
use object_store::{ObjectMeta, ObjectStore};
use parquet::file::metadata::ParquetMetaData;

use crate::error::external;
use crate::read::scan::key_of_listed;

/// Enough to hide a store's latency, few enough not to overload it.
const AT_ONCE: usize = 32;

/// The footer of a file in the store at `url`. Messages call the file `name`.
///
/// # Errors
/// The store's; `BadFooter`.
pub(crate) async fn footer(
    state: &dyn Session,
    (url, store): (&ObjectStoreUrl, &Arc<dyn ObjectStore>),
    name: &str,
    file: &ObjectMeta,
) -> Result<Arc<ParquetMetaData>> {
    let reader = StoreReader { store, name, file };
    let footer = match state.config().get_extension::<FileCache>() {
        Some(known) => known.footer_by(&key_of_listed(url, file), &reader).await,
        None => read_footer(&reader, name, file.size, u64::MAX).await,
    };
    footer.map_err(external)
}

/// The result of `decode` for the footer of each file, in the order of the files' paths. Empty
/// files are skipped.
///
/// # Errors
/// The first error, in that order.
pub(crate) async fn each<T: Send>(
    state: &dyn Session,
    store: (&ObjectStoreUrl, &Arc<dyn ObjectStore>),
    name: impl Fn(&ObjectMeta) -> String,
    files: &[ObjectMeta],
    decode: impl Fn(&str, &ParquetMetaData) -> Result<T> + Sync,
) -> Result<Vec<(String, T)>> {
    let mut files: Vec<&ObjectMeta> = files.iter().filter(|file| file.size > 0).collect();
    files.sort_unstable_by(|a, b| a.location.cmp(&b.location));
    let decode = &decode;
    let mut reading = Vec::with_capacity(files.len());
    for file in files {
        let name = name(file);
        reading.push(async move {
            let footer = footer(state, store, &name, file).await?;
            let decoded = caught(&name, || decode(&name, &footer))?;
            Ok((name, decoded))
        });
    }
    futures::stream::iter(reading)
        .buffered(AT_ONCE)
        .try_collect()
        .await
}

/// The result of `decode`. A panic in parquet or DataFusion becomes an error of this file.
///
/// # Errors
/// `decode`'s.
pub(crate) fn caught<T>(name: &str, decode: impl FnOnce() -> Result<T>) -> Result<T> {
    catch_unwind(AssertUnwindSafe(decode)).unwrap_or_else(|panic| Err(panicked(name, &*panic)))
}

/// The error for a panic caused by a file.
pub(crate) fn panicked(file: &str, panic: &(dyn std::any::Any + Send)) -> DataFusionError {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    let text = text.or_else(|| panic.downcast_ref::<&str>().copied());
    external(StorageError::BadFooter {
        file: file.to_owned(),
        reason: format!(
            "the Parquet reader panicked: {}",
            text.unwrap_or("no message")
        ),
    })
}

/// A file of an object store.
struct StoreReader<'a> {
    store: &'a Arc<dyn ObjectStore>,
    name: &'a str,
    file: &'a ObjectMeta,
}

impl RangeRead for StoreReader<'_> {
    async fn read(&self, ranges: &[Range<u64>]) -> Result<Vec<Bytes>, StorageError> {
        let answer = self.store.get_ranges(&self.file.location, ranges).await;
        answer.map_err(|error| match error {
            object_store::Error::NotFound { .. } => StorageError::NotFound {
                file: self.name.to_owned(),
            },
            error => StorageError::Read {
                file: self.name.to_owned(),
                range: ranges.first().cloned().unwrap_or_default(),
                source: Arc::new(error),
            },
        })
    }
}
