//! Does DataFusion's Parquet reader read the planned version of a file, and can its pages be
//! decoded?
//!
//! DataFusion opens a file by its path, whatever file is there at that moment. Here a registered
//! device reads instead, and checks the version itself. DataFusion still reads files on a plain
//! local disk, through the page cache; after every read this reader checks the file: if the file
//! still is the planned version, so are the bytes that were read. coscan-storage reads, checks and
//! caches the footers, and discards statistics that cannot be trusted. Pages are checked before
//! they are passed on, because a crafted page can make Parquet's reader request more memory than
//! there is.
//! C1: every range that is passed on belongs to the planned version, and its pages can be decoded
//! in the available memory.

use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;
use coscan_storage::device::Device;
use coscan_storage::pool::{FileKey, TableFile};
use coscan_storage::{StorageError, check_pages, has_uncounted, without_uncounted};
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

use crate::read::scan::in_own_store;
use crate::resources::Resources;
use crate::settings::Settings;

/// Creates readers that check what they read.
pub(super) struct CheckedReaders {
    inner: Arc<dyn ParquetFileReaderFactory>,
    resources: Arc<Resources>,
    settings: Settings,
    store: ObjectStoreUrl,
}

struct CheckedReader {
    inner: Box<dyn AsyncFileReader + Send>,
    /// The file, in its own store.
    file: FileKey,
    resources: Arc<Resources>,
    settings: Settings,
    /// The registered device, which reads and checks the version itself.
    registered: Option<Arc<dyn Device>>,
    /// Without a registered device: the device that checks the file. It is unknown at first,
    /// because finding it may ask the file's mount, which may take arbitrarily long.
    local: Option<Arc<dyn Device>>,
    /// The file, once its footer was read.
    open: Option<Arc<TableFile>>,
}

impl CheckedReaders {
    pub(super) fn new(
        inner: Arc<dyn ParquetFileReaderFactory>,
        resources: Arc<Resources>,
        settings: Settings,
        store: ObjectStoreUrl,
    ) -> Self {
        Self {
            inner,
            resources,
            settings,
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
        let (store, version) = in_own_store(&self.store, &file.object_meta);
        let devices = self.resources.devices();
        let registered = devices.registered_for(store.as_str(), &version.location);
        let inner = self
            .inner
            .create_reader(partition, file, metadata_size_hint, metrics)?;
        Ok(Box::new(CheckedReader {
            inner,
            file: FileKey::new(store.as_str(), version),
            resources: Arc::clone(&self.resources),
            settings: self.settings.clone(),
            registered,
            local: None,
            open: None,
        }))
    }
}

impl CheckedReader {
    /// The file, with its footer.
    async fn open(&mut self) -> Result<Arc<TableFile>> {
        if let Some(file) = &self.open {
            return Ok(Arc::clone(file));
        }
        let pool = self.resources.pool(&self.settings);
        let (files, key) = (pool.shared().files(), std::slice::from_ref(&self.file));
        let opened = files.open(key, self.settings.chunk_bytes).await;
        let opened = opened.map_err(external)?.pop();
        let missing = || StorageError::Internal("a file was not opened".to_owned());
        let file = opened.ok_or_else(|| external(missing()))?;
        self.open = Some(Arc::clone(&file));
        Ok(file)
    }

    async fn read(&mut self, ranges: Vec<Range<u64>>) -> Result<Vec<Bytes>> {
        let answers = self.read_unchecked(ranges.clone()).await?;
        let file = self.open().await?;
        let rules = self.resources.memory().page_rules();
        check_pages(file.name(), file.metadata(), &ranges, &answers, rules).map_err(external)?;
        Ok(answers)
    }

    async fn read_unchecked(&mut self, ranges: Vec<Range<u64>>) -> Result<Vec<Bytes>> {
        let Some(device) = &self.registered else {
            let answer = self.inner.get_byte_ranges(ranges).await;
            self.verify().await?;
            return answer;
        };
        if ranges.is_sorted_by(|a, b| a.end <= b.start) {
            let answer = device.read(self.file.version(), &ranges).await;
            return answer.map_err(external);
        }
        let mut answers = Vec::with_capacity(ranges.len());
        for range in ranges {
            let answer = device.read(self.file.version(), &[range]).await;
            answers.extend(answer.map_err(external)?);
        }
        Ok(answers)
    }

    async fn verify(&mut self) -> Result<()> {
        let location = &self.file.version().location;
        let device = match &self.local {
            Some(device) => Arc::clone(device),
            None => {
                let devices = self.resources.devices();
                let version = self.file.version();
                let found = devices.device_of(self.file.store(), version).await;
                let device = found.map_err(external)?.1;
                self.local = Some(Arc::clone(&device));
                device
            }
        };
        let now = device.stat(location).await.map_err(external)?;
        if self.file.version().is_still(&now) {
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
        _: Option<&'a ArrowReaderOptions>,
    ) -> BoxFuture<'a, Result<Arc<ParquetMetaData>>> {
        async move {
            let metadata = Arc::clone(self.open().await?.metadata());
            if has_uncounted(&metadata) {
                // DataFusion takes a missing null count for zero.
                return Ok(Arc::new(without_uncounted(Arc::unwrap_or_clone(metadata))));
            }
            Ok(metadata)
        }
        .boxed()
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
