//! Shared by the buffer pool's tests: a file, a pool over devices that can fail, consumers that
//! count and sum.
#![allow(dead_code)] // Each test binary uses only a part.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use arrow::array::{ArrayRef, AsArray, Int64Array, RecordBatch, StringArray};
use arrow::datatypes::{DataType, Field, FieldRef, Int64Type, Schema};
use coscan_core::memory::{OperatorId, WHOLE};
use coscan_core::{Policy, StorageModel};
use coscan_storage::StorageError;
use coscan_storage::device::{
    Device, DeviceOptions, Devices, Faulty, FileVersion, LocalDevice, LocalOptions, Rule,
};
use coscan_storage::pool::{
    Admitted, BufferPool, ColumnRequest, FileCache, FileKey, MemoryBudget, PoolConfig, PoolShared,
    Scan, ScanPart, ScanRequest, TableFile, TableView,
};
use object_store::path::Path;
use parquet::arrow::ArrowWriter;
use parquet::file::properties::WriterProperties;
use tempfile::TempDir;

pub(crate) const ROWS: i64 = 60_000;
pub(crate) const ROW_GROUP: usize = 5_000;

pub(crate) struct Setup {
    pub(crate) folder: TempDir,
    pub(crate) shared: Arc<PoolShared>,
    pub(crate) files: Vec<Arc<TableFile>>,
    pub(crate) bytes: u64,
}

/// How a file is divided into chunks.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Layout {
    /// 12 row groups, one chunk each.
    RowGroups,
    /// One row group, split between pages: chunks share pages and dictionaries.
    Pages,
}

/// A file of 12 row groups or one: k = 0.., v = 3 k, s = a string of k % 100.
pub(crate) fn write(folder: &TempDir, name: &str, layout: Layout) -> std::path::PathBuf {
    let path = folder.path().join(name);
    let schema = Arc::new(Schema::new(vec![
        Field::new("k", DataType::Int64, false),
        Field::new("v", DataType::Int64, false),
        Field::new("s", DataType::Utf8, true),
    ]));
    let properties = match layout {
        Layout::RowGroups => {
            WriterProperties::builder().set_max_row_group_row_count(Some(ROW_GROUP))
        }
        Layout::Pages => WriterProperties::builder()
            .set_data_page_row_count_limit(700)
            .set_write_batch_size(100)
            .set_dictionary_enabled(false)
            .set_column_dictionary_enabled("s".into(), true),
    };
    let properties = properties.build();
    let file = std::fs::File::create(&path).unwrap();
    let mut writer = ArrowWriter::try_new(file, Arc::clone(&schema), Some(properties)).unwrap();
    let k: Vec<i64> = (0..ROWS).collect();
    let columns: Vec<ArrayRef> = vec![
        Arc::new(Int64Array::from(k.clone())),
        Arc::new(Int64Array::from_iter_values(k.iter().map(|k| 3 * k))),
        Arc::new(StringArray::from_iter_values(
            k.iter().map(|k| format!("row {}", k % 100)),
        )),
    ];
    writer
        .write(&RecordBatch::try_new(schema, columns).unwrap())
        .unwrap();
    writer.close().unwrap();
    path
}

pub(crate) async fn setup(memory: u64, rules: Vec<Rule>) -> (Setup, Arc<Faulty>) {
    setup_as(memory, rules, Layout::RowGroups).await
}

pub(crate) async fn setup_as(
    memory: u64,
    rules: Vec<Rule>,
    layout: Layout,
) -> (Setup, Arc<Faulty>) {
    let folder = TempDir::new().unwrap();
    let path = write(&folder, "t.parquet", layout);
    let devices = Arc::new(Devices::new(DeviceOptions::default()));
    let local: Arc<dyn Device> =
        Arc::new(LocalDevice::open(folder.path(), &LocalOptions::default()).unwrap());
    let faulty = Arc::new(Faulty::new(local, Vec::new()));
    devices
        .register("file://", Arc::clone(&faulty) as Arc<dyn Device>)
        .unwrap();
    let cache = FileCache::new(devices);
    let shared = PoolShared::new(cache, MemoryBudget::new(memory), 2).unwrap();
    let location = Path::from_absolute_path(&path).unwrap();
    let version: FileVersion = faulty.stat(&location).await.unwrap();
    // One row group per chunk, or one row group in about 15 chunks.
    let chunk_bytes = if layout == Layout::RowGroups {
        1
    } else {
        64 << 10
    };
    let files = shared
        .files()
        .open(&[FileKey::new("file://", version)], chunk_bytes)
        .await
        .unwrap();
    for rule in rules {
        faulty.add(rule);
    }
    let bytes = std::fs::metadata(&path).unwrap().len();
    (
        Setup {
            folder,
            shared,
            files,
            bytes,
        },
        faulty,
    )
}

pub(crate) fn pool(
    setup: &Setup,
    policy: Policy,
    model: StorageModel,
    buffer: Option<u64>,
) -> BufferPool {
    let config = PoolConfig {
        policy,
        model,
        buffer_bytes_max: buffer,
        ..PoolConfig::default()
    };
    BufferPool::new(config, Arc::clone(&setup.shared))
}

pub(crate) fn column(name: &str) -> ColumnRequest {
    let data_type = if name == "s" {
        DataType::Utf8
    } else {
        DataType::Int64
    };
    let field: FieldRef = Arc::new(Field::new(name, data_type, name == "s"));
    ColumnRequest::exact(field)
}

pub(crate) fn start(
    pool: &BufferPool,
    view: &TableView,
    chunks: Vec<usize>,
    columns: &[&str],
    consumers: usize,
) -> Arc<Scan> {
    let columns = columns.iter().map(|&c| c.to_owned()).collect();
    let parts = vec![ScanPart { chunks, columns }];
    let request = ScanRequest {
        table: view.clone(),
        parts,
        consumers,
        ordered: false,
        devices_max: None,
        label: "test".into(),
    };
    Arc::new(pool.scan(request).unwrap())
}

/// Sums v over all rows that the scan delivers, and counts them.
pub(crate) async fn consume(scan: Arc<Scan>, pause: Duration) -> Result<(i64, u64), StorageError> {
    let (mut sum, mut rows) = (0, 0);
    let columns = [column("v")];
    while let Some(lease) = scan.next_chunk().await? {
        let mut at = 0;
        while let Some(arrays) = lease.batch(&columns, at).await? {
            let values = arrays[0].as_primitive::<Int64Type>();
            sum += values.values().iter().sum::<i64>();
            rows += values.len() as u64;
            at += 1;
        }
        tokio::time::sleep(pause).await;
    }
    Ok((sum, rows))
}

pub(crate) const SUM: i64 = 3 * ROWS * (ROWS - 1) / 2;
pub(crate) const POLICIES: [Policy; 4] = [
    Policy::Normal,
    Policy::Attach,
    Policy::Elevator,
    Policy::Relevance,
];

/// The operator of a query that has only this operator.
pub(crate) struct Operator {
    memory: Arc<MemoryBudget>,
    query: Admitted,
}

const OPERATOR: OperatorId = OperatorId(1);

impl Operator {
    pub(crate) fn new(memory: &Arc<MemoryBudget>) -> Self {
        Self::begin(memory, false)
    }

    /// An operator that can spill all but a byte.
    pub(crate) fn spilling(memory: &Arc<MemoryBudget>) -> Self {
        let operator = Self::begin(memory, true);
        operator.takes(1);
        operator
    }

    fn begin(memory: &Arc<MemoryBudget>, spills: bool) -> Self {
        let query = memory.begin_query();
        memory.begin_operator(OPERATOR, query.query(), spills);
        Self {
            memory: Arc::clone(memory),
            query,
        }
    }

    #[must_use]
    pub(crate) fn asks(&self, bytes: u64) -> bool {
        self.memory.ask(OPERATOR, bytes, WHOLE).is_ok()
    }

    pub(crate) fn takes(&self, bytes: u64) {
        self.memory.took(OPERATOR, bytes);
    }

    /// The returned closure says whether the query was told to end since this call.
    pub(crate) fn ended(&self) -> impl Fn() -> bool + use<> {
        let ended = Arc::new(AtomicBool::new(false));
        let told = Arc::clone(&ended);
        let on_end = move || told.store(true, Ordering::Relaxed);
        self.memory.on_end(self.query.query(), Arc::new(on_end));
        move || ended.load(Ordering::Relaxed)
    }

    pub(crate) fn gives(&self, bytes: u64) {
        self.memory.gave(OPERATOR, bytes, WHOLE);
    }
}

impl Drop for Operator {
    fn drop(&mut self) {
        self.memory.end_operator(OPERATOR);
    }
}
