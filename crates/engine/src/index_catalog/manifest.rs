//! What does a manifest record about an index, and how is damage noticed?
//!
//! An index is two files in one folder: `NAME.index.json`, the manifest, and the Parquet file that
//! it names. The data are written first, under a unique name. Putting the manifest in place is the
//! commit: a reader sees the old index or the new one, and a crash leaves the old one. The
//! manifest has the CRC-32 of each leaf, of the data's footer and page indexes, and of itself:
//! otherwise a flipped bit in an index would silently lose rows.
//! Not here: where the folder is (`folder.rs`).

use std::sync::Arc;

use arrow::datatypes::DataType;
use coscan_storage::device::{FileVersion, lasting_tag};
use coscan_storage::pool::{FileKey, TableFile};
use object_store::path::Path;
use serde::{Deserialize, Serialize};

use super::folder::Folder;

/// The columns of an index file.
pub(crate) const KEY: &str = "key";
/// See [`KEY`].
pub(crate) const POSITION: &str = "position";

/// Types of text, which all have the same order.
const TEXTS: [DataType; 3] = [DataType::Utf8, DataType::LargeUtf8, DataType::Utf8View];

pub(crate) fn is_text(data_type: &DataType) -> bool {
    TEXTS.contains(data_type)
}

/// Types that Parquet stores as whole numbers.
pub(crate) fn is_whole_number(data_type: &DataType) -> bool {
    data_type.is_integer()
        || matches!(
            data_type,
            DataType::Date32 | DataType::Time32(_) | DataType::Time64(_) | DataType::Timestamp(..)
        )
}

/// Whether keys of one type have the order of the other type, and compare with its values.
pub(crate) fn is_ordered_alike(written: &DataType, key: &DataType) -> bool {
    written == key || (is_text(written) && is_text(key))
}

/// The only format so far.
const FORMAT: u32 = 1;

/// Everything known of an index without opening its data.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Manifest {
    format: u32,
    /// The index's name.
    pub(crate) name: String,
    /// The table's name when the index was built; only shown to users.
    pub(crate) table: String,
    /// The indexed column.
    pub(crate) column: String,
    /// The type of the keys, as Arrow displays it. `None` in manifests of old versions; then the
    /// data file tells the type when it is opened.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    key: Option<String>,
    /// The files that it covers, in the order of their rows' positions.
    pub(crate) files: Vec<CoveredFile>,
    /// The number of entries: rows whose key is not NULL.
    pub(crate) entries: u64,
    /// The data file's name within the folder.
    pub(crate) data: String,
    /// The data file's size in bytes.
    pub(crate) bytes: u64,
    /// Where the last leaf ends; the page index and the footer follow.
    pub(crate) leaves_end: u64,
    /// The CRC-32 of the bytes after the last leaf.
    pub(crate) tail_crc32: u32,
    /// The CRC-32 of each leaf, in order.
    pub(crate) leaves_crc32: Vec<u32>,
}

/// A file of the table, at the version that was indexed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct CoveredFile {
    /// The URL of its store.
    pub(crate) store: String,
    location: String,
    size: u64,
    modified_ns: i64,
    e_tag: Option<String>,
    /// Its number of rows.
    pub(crate) rows: u64,
}

/// A manifest in the form that is on disk.
#[derive(Serialize, Deserialize)]
struct Sealed {
    manifest: Manifest,
    /// CRC-32 of the manifest as compact JSON.
    crc32: u32,
}

impl Manifest {
    /// The manifest of an index whose data are not written yet.
    pub(crate) fn new(
        name: &str,
        table: &str,
        (column, key): (&str, &DataType),
        files: Vec<CoveredFile>,
    ) -> Self {
        Self {
            format: FORMAT,
            name: name.to_owned(),
            table: table.to_owned(),
            column: column.to_owned(),
            key: Some(key.to_string()),
            files,
            entries: 0,
            data: String::new(),
            bytes: 0,
            leaves_end: 0,
            tail_crc32: 0,
            leaves_crc32: Vec::new(),
        }
    }

    /// Whether the keys have the order of values of this type, and compare with them; true if the
    /// manifest does not say. A table may be declared with other types than its files have, and
    /// another session's table of the same files may have the types of the index.
    pub(crate) fn has_keys_of(&self, column: &DataType) -> bool {
        let is = |written: &String, data_type: &DataType| *written == data_type.to_string();
        self.key.as_ref().is_none_or(|written| {
            is(written, column) || (is_text(column) && TEXTS.iter().any(|text| is(written, text)))
        })
    }

    /// The position of the first row of a file at this version; `None` if the file is not covered.
    pub(crate) fn first_row(&self, key: &FileKey) -> Option<u64> {
        let mut position = 0;
        for file in &self.files {
            if file.is(key) {
                return Some(position);
            }
            position += file.rows;
        }
        None
    }

    /// Whether the index covers the file at this version.
    pub(crate) fn covers(&self, key: &FileKey) -> bool {
        self.first_row(key).is_some()
    }

    /// Whether the index covers a file that is, or was, in this folder.
    pub(crate) fn covers_some_in(&self, folder: &Folder) -> bool {
        let store = trimmed(folder.store.as_str());
        self.files.iter().any(|file| {
            let location = Path::parse(&file.location);
            file.store == store && location.is_ok_and(|file| file.prefix_matches(&folder.path))
        })
    }

    /// The position of the first row of each of these files, all of which are covered.
    pub(crate) fn first_rows(&self, files: &[Arc<TableFile>]) -> Arc<[u64]> {
        let first_row = |file: &Arc<TableFile>| self.first_row(file.key());
        // A file that is not covered would be a mistake of the caller, and gets 0: its rows are
        // never requested by position.
        files
            .iter()
            .map(|file| first_row(file).unwrap_or(0))
            .collect()
    }

    /// The manifest as bytes for writing.
    pub(crate) fn seal(self) -> Result<Vec<u8>, String> {
        let crc32 = self.crc32()?;
        let sealed = Sealed {
            manifest: self,
            crc32,
        };
        serde_json::to_vec_pretty(&sealed).map_err(|error| error.to_string())
    }

    /// Reads a manifest from bytes.
    ///
    /// # Errors
    /// Why the bytes are not a manifest, or not the one that was written.
    pub(crate) fn open(bytes: &[u8]) -> Result<Self, String> {
        let sealed: Sealed = serde_json::from_slice(bytes)
            .map_err(|error| format!("not the manifest of an index: {error}"))?;
        if sealed.manifest.format != FORMAT {
            let format = sealed.manifest.format;
            return Err(format!(
                "an index of format {format}, of which this version knows nothing"
            ));
        }
        if sealed.manifest.crc32()? != sealed.crc32 {
            return Err("the manifest is damaged: its checksum does not match".to_owned());
        }
        if !sealed.manifest.is_consistent() {
            return Err("the manifest contradicts itself".to_owned());
        }
        Ok(sealed.manifest)
    }

    /// Whether the numbers of rows can be added up, the index has no more entries than its files
    /// have rows, and the leaves end within the data.
    fn is_consistent(&self) -> bool {
        let mut rows = self.files.iter().map(|file| file.rows);
        let rows = rows.try_fold(0, u64::checked_add);
        rows.is_some_and(|rows| i64::try_from(rows).is_ok() && self.entries <= rows)
            && self.leaves_end <= self.bytes
    }

    fn crc32(&self) -> Result<u32, String> {
        let compact = serde_json::to_vec(self).map_err(|error| error.to_string())?;
        Ok(crc32fast::hash(&compact))
    }
}

impl CoveredFile {
    pub(crate) fn new(store: &str, version: &FileVersion, rows: u64) -> Self {
        Self {
            store: trimmed(store).to_owned(),
            location: version.location.to_string(),
            size: version.size,
            modified_ns: saturating(version.modified_ns),
            e_tag: lasting(version),
            rows,
        }
    }

    fn is(&self, key: &FileKey) -> bool {
        let version = key.version();
        self.size == version.size
            && self.location == version.location.as_ref()
            && self.modified_ns == saturating(version.modified_ns)
            && self.e_tag == lasting(version)
            && self.store == key.store()
    }
}

/// The part of the tag that stays the same while the file does.
fn lasting(version: &FileVersion) -> Option<String> {
    let tag = version.e_tag.as_deref();
    tag.map(|tag| lasting_tag(tag).to_owned())
}

/// Nanoseconds as 64 bits: all times after the year 2262 become equal.
fn saturating(nanoseconds: i128) -> i64 {
    i64::try_from(nanoseconds).unwrap_or(i64::MAX)
}

fn trimmed(store: &str) -> &str {
    store.trim_end_matches('/')
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests: a failure should panic")]
mod tests {
    use arrow::datatypes::TimeUnit;

    use super::*;

    fn version(size: u64) -> FileVersion {
        FileVersion {
            location: Path::from("data/a.parquet"),
            size,
            modified_ns: 17,
            e_tag: Some("x".to_owned()),
        }
    }

    fn manifest() -> Manifest {
        let files = vec![
            CoveredFile::new("file:///", &version(1), 10),
            CoveredFile::new("file:///", &version(2), 5),
        ];
        Manifest {
            leaves_crc32: vec![1, 2, 3],
            ..Manifest::new("i", "t", ("c", &DataType::Int64), files)
        }
    }

    #[test]
    fn a_manifest_comes_back_as_it_was() {
        let sealed = manifest().seal().unwrap();
        assert_eq!(Manifest::open(&sealed).unwrap(), manifest());
    }

    #[test]
    fn the_type_of_the_keys_is_known() {
        let instant = DataType::Timestamp(TimeUnit::Nanosecond, Some("+01:00".into()));
        for (keys, like, unlike) in [
            (DataType::Int64, DataType::Int64, DataType::Int32),
            (DataType::Utf8, DataType::Utf8View, DataType::Int64),
            (
                DataType::Decimal128(12, 2),
                DataType::Decimal128(12, 2),
                DataType::Decimal128(12, 3),
            ),
            (
                instant.clone(),
                instant,
                DataType::Timestamp(TimeUnit::Nanosecond, None),
            ),
        ] {
            let sealed = Manifest::new("i", "t", ("c", &keys), Vec::new()).seal();
            let manifest = Manifest::open(&sealed.unwrap()).unwrap();
            assert!(manifest.has_keys_of(&like), "{keys} {like}");
            assert!(!manifest.has_keys_of(&unlike), "{keys} {unlike}");
        }
    }

    #[test]
    fn a_manifest_that_does_not_say_the_type_is_read() {
        let older = Manifest {
            key: None,
            ..manifest()
        };
        let sealed = older.clone().seal().unwrap();
        assert!(!String::from_utf8_lossy(&sealed).contains("\"key\""));
        let opened = Manifest::open(&sealed).unwrap();
        assert_eq!(opened, older);
        assert!(opened.has_keys_of(&DataType::Int32) && opened.has_keys_of(&DataType::Utf8));
    }

    #[test]
    fn a_changed_manifest_is_refused() {
        let sealed = String::from_utf8(manifest().seal().unwrap()).unwrap();
        let changed = sealed.replace("\"rows\": 10", "\"rows\": 11");
        assert_ne!(sealed, changed);
        let refused = Manifest::open(changed.as_bytes()).unwrap_err();
        assert!(refused.contains("checksum"), "{refused}");
        assert!(Manifest::open(&sealed.as_bytes()[..40]).is_err());
    }

    #[test]
    fn a_manifest_that_contradicts_itself_is_refused() {
        let file = |rows| CoveredFile::new("file:///", &version(1), rows);
        for (rows, entries, leaves_end) in [
            (vec![u64::MAX, 1], 0, 0),
            (vec![1 << 63], 0, 0),
            (vec![10], 11, 0),
            (vec![10], 10, 1),
        ] {
            let crafted = Manifest {
                files: rows.into_iter().map(file).collect(),
                entries,
                leaves_end,
                ..manifest()
            };
            let refused = Manifest::open(&crafted.seal().unwrap()).unwrap_err();
            assert!(refused.contains("contradicts"), "{refused}");
        }
    }

    #[test]
    fn the_folder_of_its_files_is_known() {
        let folder = |store: &str, path: &str| Folder {
            store: datafusion::execution::object_store::ObjectStoreUrl::parse(store).unwrap(),
            path: Path::from(path),
        };
        assert!(manifest().covers_some_in(&folder("file:///", "data")));
        assert!(manifest().covers_some_in(&folder("file:///", "")));
        assert!(!manifest().covers_some_in(&folder("file:///", "dat")));
        assert!(!manifest().covers_some_in(&folder("s3://b", "data")));
    }

    #[test]
    fn a_file_is_covered_at_its_version_only() {
        let manifest = manifest();
        let first_row = |store, size| manifest.first_row(&FileKey::new(store, version(size)));
        assert_eq!(first_row("file://", 2), Some(10));
        assert_eq!(first_row("file:///", 3), None);
        assert_eq!(first_row("s3://b", 2), None);
    }
}
