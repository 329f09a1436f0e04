//! Which indexes does the engine know?
//!
//! An index belongs to files, not to a table's name: any scan of a file that the index covers, at
//! the covered version, may use it.
//! Not here: where and when indexes are looked for (`folder.rs`, `index/discovery.rs`),
//! building (`index/build.rs`), which index a query uses (`probe/plan.rs`).
//! C1: the manifest on disk is authoritative; an index that was found broken stays listed with the
//! reason, and is not used until REFRESH repairs it.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use arrow::datatypes::DataType;
use datafusion::error::{DataFusionError, Result};
use futures::TryStreamExt;
use object_store::path::Path;
use object_store::{ObjectStore, ObjectStoreExt};
use parking_lot::Mutex;

use super::folder::{Folder, MANIFEST_SUFFIX, NamedFolder};
use super::litter;
use super::manifest::{Manifest, is_ordered_alike};
use super::progress::{IndexBuild, Progress};
use crate::error::innermost;

/// An index.
#[derive(Debug)]
pub(crate) struct Index {
    pub(crate) folder: Folder,
    pub(crate) manifest: Manifest,
    /// Why the index cannot be used; `None` if it can.
    broken: Mutex<Option<String>>,
    /// Whether the checksum of its footer and page indexes was verified.
    pub(crate) verified: AtomicBool,
    /// The type of its keys according to the data file, once that was opened.
    pub(crate) key: OnceLock<DataType>,
}

impl Index {
    pub(crate) fn new(folder: Folder, manifest: Manifest) -> Arc<Self> {
        Arc::new(Self {
            folder,
            manifest,
            broken: Mutex::default(),
            verified: AtomicBool::new(false),
            key: OnceLock::new(),
        })
    }

    /// The path of its data file.
    pub(crate) fn data_path(&self) -> Path {
        self.folder.path.clone().join(self.manifest.data.as_str())
    }

    /// The index's name in messages.
    pub(crate) fn display(&self) -> String {
        format!(
            "index {} ({}/{})",
            self.manifest.name,
            self.folder.display(),
            self.manifest.data
        )
    }

    /// Whether its keys have the order of values of this type, and compare with them. True if that
    /// is unknown, because an old manifest does not say it and the data was not opened yet.
    pub(crate) fn has_keys_of(&self, column: &DataType) -> bool {
        match self.key.get() {
            Some(written) => is_ordered_alike(written, column),
            None => self.manifest.has_keys_of(column),
        }
    }

    /// Marks the index as broken. Only the first reason is logged.
    pub(crate) fn set_broken(&self, reason: &str) {
        let mut broken = self.broken.lock();
        if broken.is_none() {
            let name = &self.manifest.name;
            log::warn!(
                "{}: {reason}; queries scan instead. REFRESH INDEX {name} repairs it",
                self.display()
            );
            *broken = Some(reason.to_owned());
        }
    }

    /// Why the index cannot be used; `None` if it can.
    pub(crate) fn broken(&self) -> Option<String> {
        self.broken.lock().clone()
    }

    pub(crate) fn is_verified(&self) -> bool {
        self.verified.load(Ordering::Relaxed)
    }
}

/// The indexes that an engine knows.
#[derive(Debug, Default)]
pub(crate) struct Indexes {
    known: Mutex<BTreeMap<(Folder, String), Arc<Index>>>,
    building: Mutex<BTreeMap<(Folder, String), Arc<Progress>>>,
}

impl Indexes {
    /// All indexes, by folder and name.
    pub(crate) fn all(&self) -> Vec<Arc<Index>> {
        self.known.lock().values().cloned().collect()
    }

    /// The index of this name, if there is one; if there are several, the one in the session's
    /// index folder.
    ///
    /// # Errors
    /// `Plan` if there are several and none of them is in that folder.
    pub(crate) fn named(
        &self,
        name: &str,
        folder: Option<&NamedFolder>,
    ) -> Result<Option<Arc<Index>>> {
        if let Some(index) = folder.and_then(|named| self.at(&named.folder, name)) {
            return Ok(Some(index));
        }
        let found: Vec<Arc<Index>> = self
            .all()
            .into_iter()
            .filter(|index| index.manifest.name == name)
            .collect();
        match found.as_slice() {
            [] => Ok(None),
            [index] => Ok(Some(Arc::clone(index))),
            [a, b, ..] => Err(DataFusionError::Plan(format!(
                "there are several indexes {name}: in {} and in {}",
                a.folder.display(),
                b.folder.display()
            ))),
        }
    }

    pub(crate) fn at(&self, folder: &Folder, name: &str) -> Option<Arc<Index>> {
        self.known
            .lock()
            .get(&(folder.clone(), name.to_owned()))
            .cloned()
    }

    pub(crate) fn insert(&self, index: &Arc<Index>) {
        let key = (index.folder.clone(), index.manifest.name.clone());
        self.known.lock().insert(key, Arc::clone(index));
    }

    pub(crate) fn remove(&self, index: &Index) {
        let key = (index.folder.clone(), index.manifest.name.clone());
        self.known.lock().remove(&key);
    }

    /// Adds the indexes whose manifests are in a folder, and removes drafts that killed processes
    /// left there. A manifest that cannot be read is skipped and logged.
    pub(crate) async fn discover(&self, folder: &Folder, store: &Arc<dyn ObjectStore>) {
        litter::sweep(folder);
        let listed: Vec<_> = match store.list(Some(&folder.path)).try_collect::<Vec<_>>().await {
            Ok(listed) => listed,
            Err(error) => {
                log::debug!("{}: indexes cannot be listed: {error}", folder.display());
                return;
            }
        };
        for file in listed {
            let name = file.location.filename().unwrap_or_default();
            if !name.ends_with(MANIFEST_SUFFIX) {
                continue;
            }
            match read(store, &file.location).await {
                Ok(Some(manifest)) => self.learn(folder, manifest),
                // The index was dropped in the meantime.
                Ok(None) => {}
                Err(reason) => log::warn!("{}/{name}: {reason}", folder.display()),
            }
        }
    }

    /// The current manifest of this name in a folder, whichever process put it there. Its index is
    /// known from then on.
    ///
    /// # Errors
    /// Why the file cannot be read, or is not a manifest.
    pub(crate) async fn look_up(
        &self,
        folder: &Folder,
        name: &str,
        store: &Arc<dyn ObjectStore>,
    ) -> Result<Option<Manifest>, String> {
        let found = read(store, &folder.manifest_path(name)).await?;
        if let Some(manifest) = &found {
            self.learn(folder, manifest.clone());
        }
        Ok(found)
    }

    /// Adds an index. If it is known with the same manifest, it stays as it is, broken or not.
    fn learn(&self, folder: &Folder, manifest: Manifest) {
        let current = self.at(folder, &manifest.name);
        if current.is_none_or(|index| index.manifest != manifest) {
            self.insert(&Index::new(folder.clone(), manifest));
        }
    }

    /// The indexes that are being built.
    pub(crate) fn builds(&self) -> Vec<IndexBuild> {
        let building = self.building.lock();
        let builds = building.iter();
        builds
            .map(|((_, name), progress)| progress.of(name))
            .collect()
    }

    /// Takes the right to build an index. Dropping the [`Building`] gives it back.
    ///
    /// # Errors
    /// `Plan` if another build in this process has it.
    pub(crate) fn begin_building(
        self: &Arc<Self>,
        folder: &Folder,
        name: &str,
    ) -> Result<Building> {
        let key = (folder.clone(), name.to_owned());
        let progress = Arc::default();
        match self.building.lock().entry(key.clone()) {
            Entry::Vacant(free) => free.insert(Arc::clone(&progress)),
            Entry::Occupied(_) => {
                return Err(DataFusionError::Plan(format!(
                    "index {name} is being built already"
                )));
            }
        };
        Ok(Building {
            indexes: Arc::clone(self),
            key,
            progress,
        })
    }
}

/// The right to build an index.
pub(crate) struct Building {
    indexes: Arc<Indexes>,
    key: (Folder, String),
    pub(crate) progress: Arc<Progress>,
}

impl Drop for Building {
    fn drop(&mut self) {
        self.indexes.building.lock().remove(&self.key);
    }
}

/// The largest manifest that is read. An index of twenty billion rows has one of half this size.
const MANIFEST_BYTES_MAX: u64 = 128 << 20;

/// The manifest at a path; `None` if there is no file.
async fn read(store: &Arc<dyn ObjectStore>, path: &Path) -> Result<Option<Manifest>, String> {
    let bytes = match store.get(path).await {
        Ok(answer) if answer.meta.size > MANIFEST_BYTES_MAX => {
            let size = answer.meta.size;
            return Err(format!(
                "a manifest of {size} bytes; more than {MANIFEST_BYTES_MAX} are not read"
            ));
        }
        Ok(answer) => answer.bytes().await,
        Err(object_store::Error::NotFound { .. }) => return Ok(None),
        Err(error) => Err(error),
    };
    Manifest::open(&bytes.map_err(|error| innermost(&error).to_string())?).map(Some)
}
