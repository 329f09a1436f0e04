//! Parquet files at one version: where they are, what their footers say, how they fall into chunks.
//!
//! Bounds: footers are read `FOOTERS_AT_ONCE` at a time; the cache keeps at most `CACHED_FILES` files, oldest out first, and one
//! version of each.

use std::collections::{BTreeMap, BTreeSet, HashSet, VecDeque};
use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;
use coscan_core::DeviceId;
use futures::future::BoxFuture;
use futures::{FutureExt, StreamExt, TryStreamExt};
use parking_lot::Mutex;
use parquet::file::metadata::{ColumnChunkMetaData, ParquetMetaData};

use crate::device::{Device, Devices, FileVersion};
use crate::{FileChunks, RangeRead, Result, StorageError, read_footer};

/// Enough to hide a store's latency, few enough not to flood it.
const FOOTERS_AT_ONCE: usize = 32;
/// Footers of some ten kilobytes each: a bound on what idle tables cost.
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
}

/// A file at one version.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct FileKey {
    /// The URL of its store, without a slash at the end.
    pub(crate) store: String,
    pub(crate) version: FileVersion,
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

    pub(crate) fn key(&self) -> &Arc<FileKey> {
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
    /// The device's; what did not come is named by row group and column too.
    pub(crate) async fn read(&self, ranges: &[Range<u64>]) -> Result<Vec<Bytes>> {
        let answer = self.device.read(self.version(), ranges).await;
        answer.map_err(|error| self.placed(ranges, error))
    }

    /// Adds to an error about bytes what they were to be. Errors about the file as a whole stay as they are.
    fn placed(&self, wanted: &[Range<u64>], error: StorageError) -> StorageError {
        let (StorageError::Read { range, .. }
        | StorageError::ShortRead { range, .. }
        | StorageError::TimedOut { range, .. }) = &error
        else {
            return error;
        };
        // A device may speak of the pages around, which begin in another column.
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
        metadata: Arc<ParquetMetaData>,
        chunks: FileChunks,
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
        }
    }
}

type Key = (String, FileVersion, u64);

/// The files by key, and the keys in the order they came.
type Known = (BTreeMap<Key, Arc<TableFile>>, VecDeque<Key>);

/// Files that have been opened. One per process.
#[derive(Debug)]
pub struct FileCache {
    devices: Arc<Devices>,
    known: Mutex<Known>,
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
            schemas: Mutex::default(),
        })
    }

    /// The devices files are read from.
    #[must_use]
    pub fn devices(&self) -> &Arc<Devices> {
        &self.devices
    }

    /// Opens files of one store: reads the footers that are not known, several at once. The answer is in the order asked for.
    ///
    /// # Errors
    /// The first file that cannot be read or is not Parquet.
    pub async fn open(
        &self,
        store: &str,
        versions: &[FileVersion],
        chunk_bytes: u64,
    ) -> Result<Vec<Arc<TableFile>>> {
        // Boxed one by one: with a closure over borrowed versions the future is not `Send` for callers that need it to be.
        let mut opening: Vec<BoxFuture<'_, Result<Arc<TableFile>>>> = Vec::new();
        for version in versions {
            opening.push(self.open_one(store, version, chunk_bytes).boxed());
        }
        futures::stream::iter(opening)
            .buffered(FOOTERS_AT_ONCE)
            .try_collect()
            .await
    }

    async fn open_one(
        &self,
        store: &str,
        version: &FileVersion,
        chunk_bytes: u64,
    ) -> Result<Arc<TableFile>> {
        let store = store.trim_end_matches('/');
        let key = (store.to_owned(), version.clone(), chunk_bytes);
        if let Some(file) = self.known.lock().0.get(&key) {
            return Ok(Arc::clone(file));
        }
        let (device_id, device) = self.devices.device_for(store, &version.location).await?;
        let name = if store == "file:" || store == "file://" {
            format!("/{}", version.location)
        } else {
            format!("{store}/{}", version.location)
        };
        let reader = Reader {
            device: &*device,
            version,
        };
        let metadata = read_footer(&reader, &name, version.size).await?;
        let chunks = FileChunks::new(&metadata, chunk_bytes);
        let file = TableFile::new(
            FileKey {
                store: store.to_owned(),
                version: version.clone(),
            },
            (device_id, device),
            metadata,
            chunks,
            chunk_bytes,
            name,
        );
        let file = Arc::new(self.interned(file));
        let mut known = self.known.lock();
        forget_other_versions(&mut known, store, version);
        if known.0.insert(key.clone(), Arc::clone(&file)).is_none() {
            known.1.push_back(key);
        }
        if known.1.len() > CACHED_FILES
            && let Some(oldest) = known.1.pop_front()
        {
            known.0.remove(&oldest);
        }
        Ok(file)
    }
}

impl FileCache {
    /// Files of one schema share its description.
    fn interned(&self, mut file: TableFile) -> TableFile {
        let mut schemas = self.schemas.lock();
        if let Some(known) = schemas.get(&file.described) {
            file.described = Arc::clone(known);
        } else {
            // Few folders have as many schemas; of those that are gone nothing stays.
            schemas.retain(|known| Arc::strong_count(known) > 1);
            schemas.insert(Arc::clone(&file.described));
        }
        file
    }
}

/// Queries that still read another version hold it themselves, as long as the device gives it to them.
fn forget_other_versions(known: &mut Known, store: &str, version: &FileVersion) {
    let first = FileVersion {
        location: version.location.clone(),
        size: 0,
        modified_ns: i128::MIN,
        e_tag: None,
    };
    let (files, order) = known;
    let others: Vec<Key> = files
        .range((store.to_owned(), first, 0)..)
        .map(|(key, _)| key)
        .take_while(|key| key.0 == store && key.1.location == version.location)
        .filter(|key| key.1 != *version)
        .cloned()
        .collect();
    for other in others {
        files.remove(&other);
        order.retain(|key| *key != other);
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

    /// A file of so many columns and chunks that only its maps exist of.
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
        let store = "memory://".to_owned();
        Arc::new(Self::new(
            FileKey { store, version },
            (DeviceId(0), Arc::new(device)),
            Arc::new(ParquetMetaData::new(metadata, Vec::new())),
            FileChunks {
                chunks: (0..chunks).map(chunk).collect(),
                shared: Vec::new(),
            },
            1,
            "imagined".to_owned(),
        ))
    }
}
