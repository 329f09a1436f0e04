//! How does an index come into being, or not at all?
//!
//! Its data is written under a name that nothing else has ([`Draft`]); its manifest is put in place, which is the commit (X1). Whatever
//! happens before the commit, the data is removed: by who failed, or by a task when the build is dropped. From the commit on it stays:
//! a put that was given up, or failed on the way back, may have worked. After one that failed the folder is asked whose manifest is there.
//! Not here: what is in the data (`build.rs`).

use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use datafusion::error::{DataFusionError, Result};
use object_store::path::Path;
use object_store::{ObjectStore, ObjectStoreExt, PutMode};
use tokio::runtime::Handle;

use super::catalog::Indexes;
use super::folder::Folder;
use super::manifest::Manifest;
use crate::error::Error;

/// Data that is no index yet. Dropped, it is removed.
pub(super) struct Draft {
    store: Arc<dyn ObjectStore>,
    path: Path,
    keep: bool,
}

impl Draft {
    pub(super) fn new(store: &Arc<dyn ObjectStore>, path: Path) -> Self {
        Self {
            store: Arc::clone(store),
            path,
            keep: false,
        }
    }

    pub(super) async fn remove(mut self) {
        self.keep = true;
        // If it cannot be removed it is litter: no manifest names it.
        let _ = self.store.delete(&self.path).await;
    }
}

impl Drop for Draft {
    fn drop(&mut self) {
        if let (false, Ok(runtime)) = (self.keep, Handle::try_current()) {
            let (store, path) = (Arc::clone(&self.store), self.path.clone());
            runtime.spawn(async move { store.delete(&path).await });
        }
    }
}

/// What became of a commit.
pub(super) enum Committed {
    Done,
    /// Somebody else's index of this name is there.
    Lost,
}

/// Puts the manifest of a draft in place.
///
/// # Errors
/// [`Error::IndexWrite`]; the draft is then removed, unless its manifest may be in place.
pub(super) async fn commit(
    indexes: &Indexes,
    folder: &Folder,
    manifest: &Manifest,
    mut draft: Draft,
    mode: PutMode,
) -> Result<Committed> {
    let (name, store) = (manifest.name.as_str(), Arc::clone(&draft.store));
    let before = match mode {
        PutMode::Create => None,
        _ => match indexes.look_up(folder, name, &store).await {
            Ok(found) => found,
            Err(_) => indexes.at(folder, name).map(|index| index.manifest.clone()),
        },
    };
    let sealed = manifest.clone().seal().map_err(DataFusionError::Internal)?;
    let target = folder.manifest_path(name);
    draft.keep = true;
    let put = store.put_opts(&target, sealed.into(), mode.into()).await;
    if let Err(error) = put {
        let found = indexes.look_up(folder, name, &store).await;
        let exists = matches!(error, object_store::Error::AlreadyExists { .. });
        match found {
            Ok(Some(found)) if found == *manifest => {}
            Ok(Some(_)) if exists => {
                draft.remove().await;
                return Ok(Committed::Lost);
            }
            Ok(_) => {
                draft.remove().await;
                return Err(unwritten(name, folder, error));
            }
            // It may be in place: its data stays.
            Err(_) => return Err(unwritten(name, folder, error)),
        }
    }
    if let Some(before) = before.filter(|before| before.data != manifest.data) {
        // A query that still reads it fails over to scanning.
        let _ = store.delete(&folder.path.clone().join(before.data)).await;
    }
    Ok(Committed::Done)
}

/// An index cannot be written.
pub(super) fn unwritten(
    name: &str,
    folder: &Folder,
    reason: impl Into<Box<dyn std::error::Error + Send + Sync>>,
) -> DataFusionError {
    DataFusionError::External(Box::new(Error::IndexWrite {
        name: name.to_owned(),
        folder: folder.display(),
        reason: reason.into(),
    }))
}

/// A name for an index's data that no other build has, in whatever process.
pub(super) fn data_name(name: &str) -> String {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    let now_ns = since.map_or(0, |since| since.as_nanos());
    let random = RandomState::new().hash_one(now_ns);
    format!("{name}-{now_ns}-{random:016x}.index")
}
