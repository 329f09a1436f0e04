//! Which files have the same columns?
//!
//! A folder has thousands of files and few schemas. Files whose footers have the same columns and
//! the same key-value metadata share one [`FileSchema`], and values that depend only on these are
//! computed once for all such files: here the names, in the engine the plan of a scan.
//! Not here: what two files of one table must have in common (`../state/core_table.rs`).
//! Bounds: adding a schema drops the schemas that no file uses.

use std::collections::{BTreeSet, HashMap};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

use parking_lot::Mutex;
use parquet::file::metadata::{KeyValue, ParquetMetaData};
use parquet::schema::types::TypePtr;

/// The columns of a set of files, and their writers' key-value metadata.
#[derive(Debug)]
pub struct FileSchema {
    root: TypePtr,
    notes: Option<Vec<KeyValue>>,
    /// The root columns with their Parquet types.
    described: Arc<BTreeSet<String>>,
    /// The positions of the root columns, by name.
    by_name: Vec<usize>,
}

impl FileSchema {
    fn new(metadata: &ParquetMetaData) -> Self {
        let file = metadata.file_metadata();
        let root = file.schema_descr().root_schema_ptr();
        let fields = root.get_fields();
        let described = fields.iter().map(|field| format!("{field:?}")).collect();
        let mut by_name: Vec<usize> = (0..fields.len()).collect();
        by_name.sort_by_key(|&root| fields[root].name());
        Self {
            described: Arc::new(described),
            by_name,
            notes: file.key_value_metadata().cloned(),
            root,
        }
    }

    fn is_of(&self, metadata: &ParquetMetaData) -> bool {
        let file = metadata.file_metadata();
        self.notes.as_ref() == file.key_value_metadata()
            && *self.root == *file.schema_descr().root_schema()
    }

    pub(crate) fn described(&self) -> &Arc<BTreeSet<String>> {
        &self.described
    }

    /// The names of the root columns.
    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        self.root.get_fields().iter().map(|field| field.name())
    }

    /// The positions of all root columns of this name; a sound file has at most one.
    pub(crate) fn roots(&self, name: &str) -> &[usize] {
        let fields = self.root.get_fields();
        let name_of = |root: &usize| fields[*root].name();
        let from = self.by_name.partition_point(|root| name_of(root) < name);
        let rest = &self.by_name[from..];
        &rest[..rest.partition_point(|root| name_of(root) == name)]
    }
}

/// The schemas of the files in use.
#[derive(Debug, Default)]
pub(in crate::pool) struct FileSchemas {
    /// By a hash of the columns' names.
    known: Mutex<HashMap<u64, Vec<Arc<FileSchema>>>>,
}

impl FileSchemas {
    /// The schema of a file with this footer.
    pub(in crate::pool) fn of(&self, metadata: &ParquetMetaData) -> Arc<FileSchema> {
        let mut hasher = DefaultHasher::new();
        let fields = metadata.file_metadata().schema_descr().root_schema();
        for field in fields.get_fields() {
            field.name().hash(&mut hasher);
        }
        let mut known = self.known.lock();
        let alike = known.entry(hasher.finish()).or_default();
        if let Some(known) = alike.iter().find(|known| known.is_of(metadata)) {
            return Arc::clone(known);
        }
        let new = Arc::new(FileSchema::new(metadata));
        alike.push(Arc::clone(&new));
        known.retain(|_, alike| {
            alike.retain(|known| Arc::strong_count(known) > 1);
            !alike.is_empty()
        });
        new
    }
}
