//! Parquet files at one version: where they are, what their footers say, how they fall into chunks.
//!
//! Footers are kept in memory that the budget counts. When they take too much, footers that nobody
//! uses are dropped, least recently used first. Sessions with different chunk sizes share the
//! footer and have a chunk map each.
//! Bounds: footers are read `FOOTERS_AT_ONCE` at a time; beyond `MemoryBudget::metadata_bytes_max`
//! and `CACHED_FILES` only files in use are kept, and only one version of each.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::ops::Range;
use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use coscan_core::DeviceId;
use futures::future::BoxFuture;
use futures::{FutureExt, StreamExt, TryStreamExt};
use parking_lot::Mutex;
use parquet::file::metadata::{ColumnChunkMetaData, ParquetMetaData};

use super::charge::{Charge, bytes_of_file, bytes_of_map};
use crate::device::{Device, Devices, FileVersion};
use crate::memory::MemoryBudget;
use crate::{FileChunks, RangeRead, Result, StorageError, read_footer};

/// Enough to hide a store's latency, few enough not to flood the store.
const FOOTERS_AT_ONCE: usize = 32;
/// The bound on cached files without a budget, and on what the budget does not count, such as keys.
const CACHED_FILES: usize = 16_384;

/// A Parquet file at one version, with its parsed footer and its chunk map.
#[derive(Debug)]
pub struct TableFile {
    key: Arc<FileKey>,
    device_id: DeviceId,
    device: Arc<dyn Device>,
    metadata: Arc<ParquetMetaData>,
    chunk_bytes: u64,
    chunks: FileChunks,
    name: String,
    /// Its root columns with their Parquet types; shared by files of one schema.
    described: Arc<BTreeSet<String>>,
    /// Its root columns by name.
    by_name: Vec<usize>,
    /// What the footer and its page indexes take; shared by all chunk maps of one file version.
    footer: Arc<Charge>,
    /// What it takes besides, most of it for its chunk map.
    own: Charge,
}

/// A file of a store at one version.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct FileKey {
    store: String,
    version: FileVersion,
}

impl FileKey {
    /// The file of the store at this URL. A slash at its end makes no difference.
    #[must_use]
    pub fn new(store: &str, version: FileVersion) -> Self {
        let store = store.trim_end_matches('/').to_owned();
        Self { store, version }
    }

    /// The URL of its store, without a slash at the end.
    #[must_use]
    pub fn store(&self) -> &str {
        &self.store
    }

    /// Path and version.
    #[must_use]
    pub fn version(&self) -> &FileVersion {
        &self.version
    }

    /// What messages call it: the path of a local file, or its URL.
    fn name(&self) -> String {
        let Self { store, version } = self;
        match store.as_str() {
            "file:" | "file://" => format!("/{}", version.location),
            _ => format!("{store}/{}", version.location),
        }
    }
}

impl TableFile {
    /// The URL of its store: `file://`, `s3://bucket`.
    #[must_use]
    pub fn store(&self) -> &str {
        &self.key.store
    }

    /// Path and version.
    #[must_use]
    pub fn version(&self) -> &FileVersion {
        &self.key.version
    }

    /// The bytes of what is known of it: footer, page indexes, chunk map.
    pub(crate) fn bytes_known(&self) -> u64 {
        self.footer.bytes() + self.own.bytes()
    }

    /// Store, path and version.
    #[must_use]
    pub fn key(&self) -> &Arc<FileKey> {
        &self.key
    }

    /// Its root columns with their Parquet types.
    pub(crate) fn described(&self) -> &Arc<BTreeSet<String>> {
        &self.described
    }

    /// The footer, with page indexes if the file has them.
    #[must_use]
    pub fn metadata(&self) -> &Arc<ParquetMetaData> {
        &self.metadata
    }

    /// Its chunks.
    #[must_use]
    pub fn chunks(&self) -> &FileChunks {
        &self.chunks
    }

    /// The target chunk size that [`TableFile::chunks`] was made with.
    #[must_use]
    pub fn chunk_bytes(&self) -> u64 {
        self.chunk_bytes
    }

    /// The device it is read from.
    #[must_use]
    pub fn device(&self) -> &Arc<dyn Device> {
        &self.device
    }

    /// The device's id.
    #[must_use]
    pub fn device_id(&self) -> DeviceId {
        self.device_id
    }

    /// What messages call it.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Reads ranges of its data.
    ///
    /// # Errors
    /// The device's. An error about bytes also names their row group and column.
    pub(crate) async fn read(&self, ranges: &[Range<u64>]) -> Result<Vec<Bytes>> {
        let answer = self.device.read(self.version(), ranges).await;
        answer.map_err(|error| self.placed(ranges, error))
    }

    /// Adds to an error about bytes the row group and column that they belong to. Errors about the
    /// file as a whole stay as they are.
    fn placed(&self, wanted: &[Range<u64>], error: StorageError) -> StorageError {
        let (StorageError::Read { range, .. }
        | StorageError::ShortRead { range, .. }
        | StorageError::TimedOut { range, .. }) = &error
        else {
            return error;
        };
        // The range in the error may be wider than the range asked for (whole device pages) and so
        // may begin in another column.
        let range = range.clone();
        let error = match self.device.label() {
            Some(device) => StorageError::OnDevice {
                device: device.to_owned(),
                reason: Box::new(error),
            },
            None => error,
        };
        let meets = |asked: &&Range<u64>| asked.start < range.end && range.start < asked.end;
        let first = wanted.iter().find(meets).or(wanted.first());
        match first.and_then(|range| self.place_of(range.start)) {
            Some((row_group, column)) => StorageError::Unread {
                row_group,
                column,
                reason: Box::new(error),
            },
            None => error,
        }
    }

    /// The row group and the root column that a byte belongs to.
    fn place_of(&self, byte: u64) -> Option<(usize, String)> {
        let holds = |column: &&ColumnChunkMetaData| {
            let (start, length) = column.byte_range();
            byte.checked_sub(start).is_some_and(|at| at < length)
        };
        let mut groups = self.metadata.row_groups().iter().enumerate();
        groups.find_map(|(row_group, group)| {
            let leaf = group.columns().iter().find(holds)?;
            let root = leaf.column_path().parts().first()?;
            Some((row_group, root.clone()))
        })
    }

    /// The position of a root column in the file's schema.
    #[must_use]
    pub fn column(&self, name: &str) -> Option<usize> {
        self.roots(name).first().copied()
    }

    /// The positions of all root columns of this name; a sound file has at most one.
    pub(crate) fn roots(&self, name: &str) -> &[usize] {
        let schema = self.metadata.file_metadata().schema_descr().root_schema();
        let name_of = |root: &usize| schema.get_fields()[*root].name();
        let from = self.by_name.partition_point(|root| name_of(root) < name);
        let rest = &self.by_name[from..];
        &rest[..rest.partition_point(|root| name_of(root) == name)]
    }

    /// The names of the root columns.
    pub fn column_names(&self) -> impl Iterator<Item = &str> {
        let schema = self.metadata.file_metadata().schema_descr().root_schema();
        schema.get_fields().iter().map(|field| field.name())
    }
}

impl TableFile {
    fn new(
        key: FileKey,
        (device_id, device): (DeviceId, Arc<dyn Device>),
        (metadata, footer): (Arc<ParquetMetaData>, Arc<Charge>),
        (chunks, own): (FileChunks, Charge),
        chunk_bytes: u64,
        name: String,
    ) -> Self {
        let schema = metadata.file_metadata().schema_descr().root_schema();
        let fields = schema.get_fields();
        let described = fields.iter().map(|field| format!("{field:?}")).collect();
        let mut by_name: Vec<usize> = (0..fields.len()).collect();
        by_name.sort_by_key(|&root| fields[root].name());
        Self {
            key: Arc::new(key),
            device_id,
            device,
            chunk_bytes,
            chunks,
            name,
            described: Arc::new(described),
            by_name,
            metadata,
            footer,
            own,
        }
    }
}

/// A file with one of its chunk maps.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Key {
    file: FileKey,
    chunk_bytes: u64,
}

/// The files that are kept.
#[derive(Debug, Default)]
struct Known {
    /// Each file with the time of its last use.
    files: BTreeMap<Arc<Key>, (Arc<TableFile>, u64)>,
    by_use: BTreeMap<u64, Arc<Key>>,
    uses: u64,
}

impl Known {
    fn find(&mut self, key: &Key) -> Option<Arc<TableFile>> {
        let (key, _) = self.files.get_key_value(key)?;
        let key = Arc::clone(key);
        let (file, used) = self.files.get_mut(&key)?;
        self.by_use.remove(used);
        self.uses += 1;
        *used = self.uses;
        self.by_use.insert(self.uses, key);
        Some(Arc::clone(file))
    }

    fn keep(&mut self, key: Key, file: Arc<TableFile>) {
        self.forget(&key);
        let key = Arc::new(key);
        self.uses += 1;
        self.by_use.insert(self.uses, Arc::clone(&key));
        self.files.insert(key, (file, self.uses));
    }

    fn forget(&mut self, key: &Key) -> Option<Arc<TableFile>> {
        let (file, used) = self.files.remove(key)?;
        self.by_use.remove(&used);
        Some(file)
    }

    /// The same file under any chunk size: its footer is known.
    fn footer_of(&self, file: &FileKey) -> Option<&Arc<TableFile>> {
        let first = Key {
            file: file.clone(),
            chunk_bytes: 0,
        };
        let (key, (known, _)) = self.files.range(first..).next()?;
        (key.file == *file).then_some(known)
    }

    /// Forgets files that nobody uses, least recently used first, while the files take too much.
    fn drop_idle(&mut self, mut bytes: u64) {
        let idle = |key: &Arc<Key>| {
            let known = self.files.get(key);
            known.is_some_and(|(file, _)| Arc::strong_count(file) == 1)
        };
        let idle: Vec<Arc<Key>> = self
            .by_use
            .values()
            .filter(|key| idle(key))
            .cloned()
            .collect();
        for key in idle {
            if bytes == 0 && self.files.len() <= CACHED_FILES {
                return;
            }
            if let Some(file) = self.forget(&key) {
                bytes = bytes.saturating_sub(file.bytes_known());
            }
        }
    }
}

/// Files that have been opened. One per process.
#[derive(Debug)]
pub struct FileCache {
    devices: Arc<Devices>,
    known: Mutex<Known>,
    /// The budget that counts what is known of files.
    memory: OnceLock<Arc<MemoryBudget>>,
    /// The descriptions of the schemas of files that are in use.
    schemas: Mutex<HashSet<Arc<BTreeSet<String>>>>,
}

impl FileCache {
    /// An empty cache over these devices.
    #[must_use]
    pub fn new(devices: Arc<Devices>) -> Arc<Self> {
        Arc::new(Self {
            devices,
            known: Mutex::default(),
            memory: OnceLock::new(),
            schemas: Mutex::default(),
        })
    }

    /// The devices files are read from.
    #[must_use]
    pub fn devices(&self) -> &Arc<Devices> {
        &self.devices
    }

    /// Opens files: reads the footers that are not known, several at once. The answer is in the
    /// order asked for.
    ///
    /// # Errors
    /// The first file that cannot be read or is not Parquet.
    pub async fn open(&self, files: &[FileKey], chunk_bytes: u64) -> Result<Vec<Arc<TableFile>>> {
        // Boxed one by one: with a closure over borrowed keys the future is not `Send` for callers
        // that need it to be.
        let mut opening: Vec<BoxFuture<'_, Result<Arc<TableFile>>>> = Vec::new();
        for file in files {
            opening.push(self.open_one(file, chunk_bytes).boxed());
        }
        let opened = futures::stream::iter(opening).buffered(FOOTERS_AT_ONCE);
        let opened = opened.try_collect().await;
        self.trim();
        opened
    }

    /// The footer of a file, if it is known.
    #[must_use]
    pub fn footer(&self, file: &FileKey) -> Option<Arc<ParquetMetaData>> {
        let known = self.known.lock();
        known.footer_of(file).map(|file| Arc::clone(&file.metadata))
    }

    /// From this call on the budget counts what is known of files. One budget per cache: the first
    /// one stays.
    pub(crate) fn count_in(&self, memory: &Arc<MemoryBudget>) {
        self.memory.get_or_init(|| Arc::clone(memory));
    }

    /// Drops what is known of files and tables that nobody uses, as far as it exceeds its bound.
    fn trim(&self) {
        let excess = || {
            self.memory
                .get()
                .map_or(0, |memory| memory.metadata_excess())
        };
        let drop_idle = |bytes| self.known.lock().drop_idle(bytes);
        if excess() == 0 && self.known.lock().files.len() <= CACHED_FILES {
            return;
        }
        drop_idle(excess());
        if let Some(memory) = self.memory.get() {
            if excess() > 0 {
                memory.drop_idle_tables();
                drop_idle(excess());
            }
            memory.tell();
        }
    }

    async fn open_one(&self, file: &FileKey, chunk_bytes: u64) -> Result<Arc<TableFile>> {
        let key = Key {
            file: file.clone(),
            chunk_bytes,
        };
        if let Some(file) = self.known.lock().find(&key) {
            return Ok(file);
        }
        let FileKey { store, version } = file;
        let (device_id, device) = self.devices.device_for(store, &version.location).await?;
        let name = file.name();
        let reader = Reader {
            device: &*device,
            version,
        };
        let footer = self.known.lock().footer_of(&key.file).cloned();
        let (metadata, footer) = match footer {
            Some(known) => (Arc::clone(&known.metadata), Arc::clone(&known.footer)),
            None => {
                let metadata = read_footer(&reader, &name, version.size).await?;
                let bytes = metadata.memory_size() as u64;
                let footer = Charge::new(self.memory.get(), bytes);
                (metadata, Arc::new(footer))
            }
        };
        let chunks = FileChunks::new(&metadata, chunk_bytes);
        let columns = metadata.file_metadata().schema_descr().root_schema();
        let own = bytes_of_file(&name, columns.get_fields().len());
        let own = Charge::new(self.memory.get(), own + bytes_of_map(&chunks));
        let file = TableFile::new(
            key.file.clone(),
            (device_id, device),
            (metadata, footer),
            (chunks, own),
            chunk_bytes,
            name,
        );
        let file = Arc::new(self.interned(file));
        let mut known = self.known.lock();
        forget_other_versions(&mut known, &key.file);
        known.keep(key, Arc::clone(&file));
        Ok(file)
    }
}

impl FileCache {
    /// Lets files of one schema share its description.
    fn interned(&self, mut file: TableFile) -> TableFile {
        let mut schemas = self.schemas.lock();
        if let Some(known) = schemas.get(&file.described) {
            file.described = Arc::clone(known);
        } else {
            // Few folders have many schemas; descriptions that no file uses are dropped here.
            schemas.retain(|known| Arc::strong_count(known) > 1);
            schemas.insert(Arc::clone(&file.described));
        }
        file
    }
}

/// Forgets all other versions of a file. Queries that still read another version hold that version
/// themselves, for as long as the device serves it.
fn forget_other_versions(known: &mut Known, file: &FileKey) {
    let first = Key {
        file: FileKey {
            store: file.store.clone(),
            version: FileVersion {
                location: file.version.location.clone(),
                size: 0,
                modified_ns: i128::MIN,
                e_tag: None,
            },
        },
        chunk_bytes: 0,
    };
    let from = known.files.range(first..).map(|(key, _)| key);
    let here = |key: &&Arc<Key>| {
        key.file.store == file.store && key.file.version.location == file.version.location
    };
    let others = from.take_while(here).filter(|key| key.file != *file);
    let others: Vec<Arc<Key>> = others.cloned().collect();
    for other in others {
        known.forget(&other);
    }
}

struct Reader<'a> {
    device: &'a dyn Device,
    version: &'a FileVersion,
}

impl RangeRead for Reader<'_> {
    async fn read(&self, ranges: &[Range<u64>]) -> Result<Vec<Bytes>, StorageError> {
        self.device.read(self.version, ranges).await
    }
}

#[cfg(test)]
impl TableFile {
    /// Some of its chunks share these bytes of a column.
    pub(super) fn share(
        &mut self,
        column: usize,
        chunks: std::ops::RangeInclusive<usize>,
        bytes: Range<u64>,
    ) {
        self.chunks.shared.push(crate::SharedPages {
            column,
            first: *chunks.start(),
            last: *chunks.end(),
            ranges: vec![bytes],
        });
    }

    /// A file of so many columns and chunks: its metadata and chunk map exist, its bytes do not.
    #[allow(clippy::unwrap_used, reason = "tests: a failure should panic")]
    pub(super) fn imagined(columns: u64, chunks: u64) -> Arc<Self> {
        use parquet::file::metadata::FileMetaData;
        use parquet::schema::parser::parse_message_type;
        use parquet::schema::types::SchemaDescriptor;

        use crate::device::{ObjectDevice, ObjectOptions};
        use crate::{FileChunk, Piece};

        let fields: Vec<String> = (0..columns)
            .map(|n| format!("required int64 c{n};"))
            .collect();
        let schema = parse_message_type(&format!("message m {{ {} }}", fields.concat())).unwrap();
        let schema = SchemaDescriptor::new(Arc::new(schema));
        let metadata = FileMetaData::new(1, 0, None, None, Arc::new(schema), None);
        let chunk = |n: u64| {
            let first = n * columns;
            let range = |column: u64| (first + column) * 8192..(first + column + 1) * 8192;
            FileChunk {
                pieces: vec![Piece {
                    row_group: usize::try_from(n).unwrap(),
                    rows: 0..10,
                }],
                rows: 10,
                columns: (0..columns).map(|column| vec![range(column)]).collect(),
            }
        };
        let store = Arc::new(object_store::memory::InMemory::new());
        let device = ObjectDevice::new("memory://", store, ObjectOptions::default());
        let version = FileVersion {
            location: "imagined".into(),
            size: chunks * columns * 8192,
            modified_ns: 0,
            e_tag: None,
        };
        Arc::new(Self::new(
            FileKey::new("memory://", version),
            (DeviceId(0), Arc::new(device)),
            (
                Arc::new(ParquetMetaData::new(metadata, Vec::new())),
                Arc::new(Charge::new(None, 0)),
            ),
            (
                FileChunks {
                    chunks: (0..chunks).map(chunk).collect(),
                    shared: Vec::new(),
                },
                Charge::new(None, 0),
            ),
            1,
            "imagined".to_owned(),
        ))
    }
}
