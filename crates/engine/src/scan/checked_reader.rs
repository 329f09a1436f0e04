//! Is what DataFusion's Parquet reader gets still of the file that was planned on?
//!
//! DataFusion reads a file by its path, whatever is there by now. Here a registered device reads instead, which checks the version itself;
//! a plain local disk is read by DataFusion, through the page cache, and the file looked at after every read: if it still is the
//! planned version, so are the bytes.
//! Not here: footers. One of another version than planned makes the reads after it fail, or a scan that needs none counts its rows.
//! C1: every range of data that is handed on is of the planned version.

use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;
use coscan_storage::StorageError;
use coscan_storage::device::{Device, FileVersion};
use datafusion::datasource::listing::PartitionedFile;
use datafusion::datasource::physical_plan::ParquetFileReaderFactory;
use datafusion::execution::object_store::ObjectStoreUrl;
use datafusion::physical_plan::metrics::ExecutionPlanMetricsSet;
use futures::FutureExt;
use futures::future::BoxFuture;
use parquet::arrow::arrow_reader::ArrowReaderOptions;
use parquet::arrow::async_reader::AsyncFileReader;
use parquet::errors::{ParquetError, Result};
use parquet::file::metadata::ParquetMetaData;

use crate::engine::Engine;

/// Makes readers that check.
pub(super) struct CheckedReaders {
    inner: Arc<dyn ParquetFileReaderFactory>,
    engine: Engine,
    store: ObjectStoreUrl,
}

struct CheckedReader {
    inner: Box<dyn AsyncFileReader + Send>,
    file: FileVersion,
    engine: Engine,
    store: ObjectStoreUrl,
    /// A registered device reads, and checks, itself.
    registered: Option<Arc<dyn Device>>,
    /// Who is asked about the file otherwise, once known: to find out is to ask the file's mount, which may take for ever.
    local: Option<Arc<dyn Device>>,
}

impl CheckedReaders {
    pub(super) fn new(
        inner: Arc<dyn ParquetFileReaderFactory>,
        engine: Engine,
        store: ObjectStoreUrl,
    ) -> Self {
        Self {
            inner,
            engine,
            store,
        }
    }
}

impl ParquetFileReaderFactory for CheckedReaders {
    fn create_reader(
        &self,
        partition: usize,
        file: PartitionedFile,
        metadata_size_hint: Option<usize>,
        metrics: &ExecutionPlanMetricsSet,
    ) -> datafusion::error::Result<Box<dyn AsyncFileReader + Send>> {
        let version = FileVersion::from(&file.object_meta);
        let devices = self.engine.devices();
        let registered = devices.registered_for(self.store.as_str(), &version.location);
        let inner = self
            .inner
            .create_reader(partition, file, metadata_size_hint, metrics)?;
        Ok(Box::new(CheckedReader {
            inner,
            file: version,
            engine: self.engine.clone(),
            store: self.store.clone(),
            registered,
            local: None,
        }))
    }
}

impl CheckedReader {
    async fn read(&mut self, ranges: Vec<Range<u64>>) -> Result<Vec<Bytes>> {
        let Some(device) = &self.registered else {
            let answer = self.inner.get_byte_ranges(ranges).await;
            self.verify().await?;
            return answer;
        };
        if ranges.is_sorted_by(|a, b| a.end <= b.start) {
            let answer = device.read(&self.file, &ranges).await;
            return answer.map_err(external);
        }
        let mut answers = Vec::with_capacity(ranges.len());
        for range in ranges {
            let answer = device.read(&self.file, &[range]).await;
            answers.extend(answer.map_err(external)?);
        }
        Ok(answers)
    }

    async fn verify(&mut self) -> Result<()> {
        let location = &self.file.location;
        let device = match &self.local {
            Some(device) => Arc::clone(device),
            None => {
                let devices = self.engine.devices();
                let found = devices.device_for(self.store.as_str(), location).await;
                let device = found.map_err(external)?.1;
                self.local = Some(Arc::clone(&device));
                device
            }
        };
        let now = device.stat(location).await.map_err(external)?;
        if self.file.is_still(&now) {
            return Ok(());
        }
        Err(external(StorageError::Replaced {
            file: format!("/{location}"),
        }))
    }
}

impl AsyncFileReader for CheckedReader {
    fn get_bytes(&mut self, range: Range<u64>) -> BoxFuture<'_, Result<Bytes>> {
        async move {
            let mut answers = self.read(vec![range]).await?;
            Ok(answers.pop().unwrap_or_default())
        }
        .boxed()
    }

    fn get_byte_ranges(&mut self, ranges: Vec<Range<u64>>) -> BoxFuture<'_, Result<Vec<Bytes>>> {
        self.read(ranges).boxed()
    }

    fn get_metadata<'a>(
        &'a mut self,
        options: Option<&'a ArrowReaderOptions>,
    ) -> BoxFuture<'a, Result<Arc<ParquetMetaData>>> {
        self.inner.get_metadata(options)
    }
}

fn external(error: StorageError) -> ParquetError {
    ParquetError::External(Box::new(error))
}

impl fmt::Debug for CheckedReaders {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CheckedReaders")
            .field("inner", &self.inner)
            .finish_non_exhaustive()
    }
}
