//! Parquet files at one version: where are they, what do their footers say, how are they divided
//! into chunks?
//!
//! Planning and scans share cached footers, which the budget counts, and queries that want a footer
//! at the same time share one read of it. When footers take too much memory, unused ones are
//! dropped, least recently used first. Sessions with different chunk sizes share a footer and have
//! a chunk map each.
//! Bounds: footers are read `FOOTERS_AT_ONCE` at a time; beyond `MemoryBudget::metadata_bytes_max`
//! and `CACHED_FILES` only files in use stay cached, and only one version of each. A query
//! waits at most [`TURN_MAX`] for another that reads the same footer.

use std::collections::{BTreeSet, HashMap};
use std::ops::Range;
use std::sync::{Arc, OnceLock, Weak};
use std::time::Duration;

use bytes::Bytes;
use coscan_core::DeviceId;
use futures::future::BoxFuture;
use futures::{FutureExt, StreamExt, TryStreamExt};
use object_store::path::Path;
use parking_lot::Mutex;
use parquet::file::metadata::{ColumnChunkMetaData, ParquetMetaData};
use tokio::time::timeout;

use super::charge::{Charge, bytes_of_file, bytes_of_map};
use super::file_schema::{FileSchema, FileSchemas};
use crate::device::{Device, Devices, FileVersion};
use crate::memory::MemoryBudget;
use crate::{FileChunks, RangeRead, Result, StorageError, read_footer};

/// Enough to hide a store's latency, few enough not to flood the store.
const FOOTERS_AT_ONCE: usize = 32;
/// The most cached files: without a budget, and for what the budget does not count, such as keys.
const CACHED_FILES: usize = 16_384;
/// The cache is trimmed only after this many footers were read, because finding unused footers
/// visits every cached one.
const READ_BEFORE_TRIM: usize = 256;
/// How long a query waits while another query reads the same footer. That query may no longer be
/// polled, or its device may hang.
const TURN_MAX: Duration = Duration::from_secs(1);

/// A Parquet file at one version, with its parsed footer and its chunk map.
#[derive(Debug)]
pub struct TableFile {
    key: Arc<FileKey>,
    device_id: DeviceId,
    device: Arc<dyn Device>,
    /// Shared by all chunk maps of one file version.
    footer: Arc<Footer>,
    chunk_bytes: u64,
    chunks: FileChunks,
    name: String,
    schema: Arc<FileSchema>,
    /// The bytes of the file without its footer, mostly its chunk map.
    own: Charge,
}

/// The footer of a file version, with its page indexes.
#[derive(Debug)]
struct Footer {
    metadata: Arc<ParquetMetaData>,
    charge: Charge,
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

    /// How messages name the file: the path of a local file, or the URL.
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

    /// The bytes of the file's metadata in memory: footer, page indexes, chunk map.
    pub(crate) fn bytes_known(&self) -> u64 {
        self.footer.charge.bytes() + self.own.bytes()
    }

    /// Store, path and version.
    #[must_use]
    pub fn key(&self) -> &Arc<FileKey> {
        &self.key
    }

    /// The file's columns; files of one schema share them.
    #[must_use]
    pub fn schema(&self) -> &Arc<FileSchema> {
        &self.schema
    }

    /// The root columns with their Parquet types.
    pub(crate) fn described(&self) -> &Arc<BTreeSet<String>> {
        self.schema.described()
    }

    /// The footer, with page indexes if the file has them.
    #[must_use]
    pub fn metadata(&self) -> &Arc<ParquetMetaData> {
        &self.footer.metadata
    }

    /// The file's chunks.
    #[must_use]
    pub fn chunks(&self) -> &FileChunks {
        &self.chunks
    }

    /// The target chunk size of [`TableFile::chunks`].
    #[must_use]
    pub fn chunk_bytes(&self) -> u64 {
        self.chunk_bytes
    }

    /// The device that the file is read from.
    #[must_use]
    pub fn device(&self) -> &Arc<dyn Device> {
        &self.device
    }

    /// The device's id.
    #[must_use]
    pub fn device_id(&self) -> DeviceId {
        self.device_id
    }

    /// How messages name the file.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Reads byte ranges of the file.
    ///
    /// # Errors
    /// The device's errors. An error about bytes also names their row group and column.
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
        // The range in the error may be wider than the requested range (whole device pages), so it
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
        let mut groups = self.metadata().row_groups().iter().enumerate();
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
        self.schema.roots(name)
    }

    /// The names of the root columns.
    pub fn column_names(&self) -> impl Iterator<Item = &str> {
        self.schema.names()
    }
}

/// The cached files: one version of each path.
#[derive(Debug, Default)]
struct Known {
    /// By store and path.
    stores: HashMap<String, HashMap<Path, Entry>>,
    uses: u64,
    /// How many footers were cached since the cache was last trimmed.
    kept: usize,
}

/// A cached file version.
#[derive(Debug)]
struct Entry {
    version: FileVersion,
    footer: Arc<Footer>,
    /// The file, once per chunk size that it was opened with.
    opened: Vec<Arc<TableFile>>,
    /// The time of its last use.
    used: u64,
}

impl Known {
    /// The entry of this version of a file; marks it as used.
    fn entry(&mut self, file: &FileKey) -> Option<&mut Entry> {
        let FileKey { store, version } = file;
        let entry = self.stores.get_mut(store)?.get_mut(&version.location)?;
        if entry.version != *version {
            return None;
        }
        self.uses += 1;
        entry.used = self.uses;
        Some(entry)
    }

    fn find(&mut self, file: &FileKey, chunk_bytes: u64) -> Option<Arc<TableFile>> {
        let opened = &self.entry(file)?.opened;
        let found = opened.iter().find(|file| file.chunk_bytes == chunk_bytes);
        found.cloned()
    }

    fn footer(&mut self, file: &FileKey) -> Option<Arc<Footer>> {
        self.entry(file).map(|entry| Arc::clone(&entry.footer))
    }

    /// Caches a footer and drops that of any other version of the file. Queries that still read
    /// another version own that version, and read it for as long as the device serves it. If this
    /// version's footer is cached already, returns the cached one.
    fn keep_footer(&mut self, file: &FileKey, footer: Footer) -> Arc<Footer> {
        if let Some(known) = self.footer(file) {
            return known;
        }
        let FileKey { store, version } = file;
        self.uses += 1;
        self.kept += 1;
        let footer = Arc::new(footer);
        let entry = Entry {
            version: version.clone(),
            footer: Arc::clone(&footer),
            opened: Vec::new(),
            used: self.uses,
        };
        let files = self.stores.entry(store.clone()).or_default();
        files.insert(version.location.clone(), entry);
        footer
    }

    /// Caches an opened file, unless its footer was dropped or replaced meanwhile.
    fn keep(&mut self, file: &Arc<TableFile>) {
        if let Some(entry) = self.entry(&file.key) {
            let others = |known: &Arc<TableFile>| known.chunk_bytes != file.chunk_bytes;
            entry.opened.retain(others);
            entry.opened.push(Arc::clone(file));
        }
    }

    fn entries(&self) -> impl Iterator<Item = &Entry> {
        self.stores.values().flat_map(HashMap::values)
    }

    /// How many files are cached; a file counts once per chunk size that it is open with.
    fn count(&self) -> usize {
        let counts = self.entries().map(|entry| entry.opened.len().max(1));
        counts.sum()
    }

    /// Drops unused files, least recently used first, until `bytes` bytes are freed and at most
    /// `CACHED_FILES` are left.
    fn drop_idle(&mut self, mut bytes: u64) {
        self.kept = 0;
        let mut count = self.count();
        let mut by_use: Vec<(u64, FileKey)> = Vec::with_capacity(count);
        for (store, files) in &self.stores {
            by_use.extend(files.values().map(|entry| {
                let key = FileKey::new(store, entry.version.clone());
                (entry.used, key)
            }));
        }
        by_use.sort_unstable_by_key(|(used, _)| *used);
        for (_, FileKey { store, version }) in by_use {
            if bytes == 0 && count <= CACHED_FILES {
                return;
            }
            let Some(files) = self.stores.get_mut(&store) else {
                continue;
            };
            let Some(entry) = files.get_mut(&version.location) else {
                continue;
            };
            let before = entry.opened.len().max(1);
            entry.opened.retain(|file| {
                let in_use = Arc::strong_count(file) > 1;
                if !in_use {
                    bytes = bytes.saturating_sub(file.own.bytes());
                }
                in_use
            });
            let mut after = entry.opened.len().max(1);
            if entry.opened.is_empty() && Arc::strong_count(&entry.footer) == 1 {
                bytes = bytes.saturating_sub(entry.footer.charge.bytes());
                files.remove(&version.location);
                after = 0;
            }
            count -= before - after;
        }
    }
}

/// The cache of opened files. One per process.
#[derive(Debug)]
pub struct FileCache {
    devices: Arc<Devices>,
    known: Mutex<Known>,
    /// Locked while a footer is read. Its other readers wait, and find it cached.
    reading: Mutex<HashMap<FileKey, Weak<futures::lock::Mutex<()>>>>,
    /// The budget that counts the cached metadata.
    memory: OnceLock<Arc<MemoryBudget>>,
    schemas: FileSchemas,
}

impl FileCache {
    /// An empty cache over these devices.
    #[must_use]
    pub fn new(devices: Arc<Devices>) -> Arc<Self> {
        Arc::new(Self {
            devices,
            known: Mutex::default(),
            reading: Mutex::default(),
            memory: OnceLock::new(),
            schemas: FileSchemas::default(),
        })
    }

    /// The devices that files are read from.
    #[must_use]
    pub fn devices(&self) -> &Arc<Devices> {
        &self.devices
    }

    /// Opens files: reads the footers that are not cached, several at once. The result has the
    /// order of `files`.
    ///
    /// # Errors
    /// The first file that cannot be read or is not Parquet.
    pub async fn open(&self, files: &[FileKey], chunk_bytes: u64) -> Result<Vec<Arc<TableFile>>> {
        // Boxed one by one: with a closure over borrowed keys the future would not be `Send` where
        // callers need it to be.
        let mut opening: Vec<BoxFuture<'_, Result<Arc<TableFile>>>> = Vec::new();
        for file in files {
            opening.push(self.open_one(file, chunk_bytes).boxed());
        }
        let opened = futures::stream::iter(opening).buffered(FOOTERS_AT_ONCE);
        let opened = opened.try_collect().await;
        self.trim();
        opened
    }

    /// The footer of a file, if it is cached.
    #[must_use]
    pub fn footer(&self, file: &FileKey) -> Option<Arc<ParquetMetaData>> {
        let known = self.known.lock().footer(file);
        known.map(|footer| Arc::clone(&footer.metadata))
    }

    /// The footer of a file; `reader` reads it if it is not cached. Planners list files in stores
    /// that are not devices yet.
    ///
    /// # Errors
    /// As [`read_footer`].
    pub async fn footer_by<R: RangeRead + ?Sized>(
        &self,
        file: &FileKey,
        reader: &R,
    ) -> Result<Arc<ParquetMetaData>> {
        let footer = self.read_by(file, &file.name(), reader).await?;
        let kept = self.known.lock().kept;
        if kept >= READ_BEFORE_TRIM {
            self.trim();
        }
        Ok(Arc::clone(&footer.metadata))
    }

    /// From this call on the budget counts the cached metadata. A cache has one budget: the first
    /// one given to it.
    pub(crate) fn count_in(&self, memory: &Arc<MemoryBudget>) {
        self.memory.get_or_init(|| Arc::clone(memory));
    }

    /// Drops metadata of unused files and tables, as far as it exceeds its bound.
    fn trim(&self) {
        let excess = || {
            self.memory
                .get()
                .map_or(0, |memory| memory.metadata_excess())
        };
        let drop_idle = |bytes| self.known.lock().drop_idle(bytes);
        {
            let mut known = self.known.lock();
            if excess() == 0 && known.count() <= CACHED_FILES {
                known.kept = 0;
                return;
            }
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
        if let Some(file) = self.known.lock().find(file, chunk_bytes) {
            return Ok(file);
        }
        let FileKey { store, version } = file;
        let (device_id, device) = self.devices.device_of(store, version).await?;
        let name = file.name();
        let reader = Reader {
            device: &*device,
            version,
        };
        let footer = self.read_by(file, &name, &reader).await?;
        let chunks = FileChunks::new(&footer.metadata, chunk_bytes);
        let columns = footer.metadata.file_metadata().schema_descr().root_schema();
        let own = bytes_of_file(&name, columns.get_fields().len());
        let own = Charge::new(self.memory.get(), own + bytes_of_map(&chunks));
        let opened = Arc::new(TableFile {
            key: Arc::new(file.clone()),
            device_id,
            device,
            schema: self.schemas.of(&footer.metadata),
            footer,
            chunk_bytes,
            chunks,
            name,
            own,
        });
        self.known.lock().keep(&opened);
        Ok(opened)
    }

    /// The footer, from the cache or from the reader.
    async fn read_by<R: RangeRead + ?Sized>(
        &self,
        file: &FileKey,
        name: &str,
        reader: &R,
    ) -> Result<Arc<Footer>> {
        let known = || self.known.lock().footer(file);
        if let Some(known) = known() {
            return Ok(known);
        }
        let reading = self.reading(file);
        let _turn = timeout(TURN_MAX, reading.lock()).await.ok();
        if let Some(known) = known() {
            return Ok(known);
        }
        let memory = self.memory.get();
        let memory_max = memory.map_or(u64::MAX, |memory| memory.limit());
        let metadata = read_footer(reader, name, file.version.size, memory_max).await?;
        let charge = Charge::new(self.memory.get(), metadata.memory_size() as u64);
        let footer = Footer { metadata, charge };
        Ok(self.known.lock().keep_footer(file, footer))
    }

    /// The turn of those who want this footer now.
    fn reading(&self, file: &FileKey) -> Arc<futures::lock::Mutex<()>> {
        let mut reading = self.reading.lock();
        if let Some(turn) = reading.get(file).and_then(Weak::upgrade) {
            return turn;
        }
        reading.retain(|_, turn| turn.strong_count() > 0);
        let turn = Arc::default();
        reading.insert(file.clone(), Arc::downgrade(&turn));
        turn
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
    /// Adds bytes of a column that some of the file's chunks share.
    pub(in crate::pool) fn share(
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

    /// A file of this many columns and chunks: its metadata and chunk map exist, its bytes do not.
    #[allow(clippy::unwrap_used, reason = "tests: a failure should panic")]
    pub(in crate::pool) fn imagined(columns: u64, chunks: u64) -> Arc<Self> {
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
        let metadata = Arc::new(ParquetMetaData::new(metadata, Vec::new()));
        Arc::new(Self {
            key: Arc::new(FileKey::new("memory://", version)),
            device_id: DeviceId(0),
            device: Arc::new(device),
            schema: FileSchemas::default().of(&metadata),
            footer: Arc::new(Footer {
                metadata,
                charge: Charge::new(None, 0),
            }),
            chunk_bytes: 1,
            chunks: FileChunks {
                chunks: (0..chunks).map(chunk).collect(),
                shared: Vec::new(),
            },
            name: "imagined".to_owned(),
            own: Charge::new(None, 0),
        })
    }
}
