//! How is an index committed, completely or not at all?
//!
//! The data exist as a draft; putting the manifest in place is the commit (X1). Once the put has
//! begun, it runs to its end, even if the caller is dropped. From then on the data stay unless it
//! is certain that no manifest names them: a put that returns an error may have worked, so after
//! an error the build reads which manifest is in the folder. The old data are removed only after
//! the new manifest is durable (`object_stores/local_store/disk.rs`).
//! Not here: how the data are written, and removed if there is no commit (`draft.rs`).

use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{SystemTime, UNIX_EPOCH};

use datafusion::error::{DataFusionError, Result};
use object_store::{ObjectStoreExt, PutMode, PutPayload};

use super::draft::{Draft, carried_through};
use crate::error::Error;
use crate::index_catalog::{Folder, Index, Indexes, Manifest};

/// The outcome of a commit.
pub(super) enum Committed {
    /// The index is in place, and known.
    Done(Arc<Index>),
    /// Another build's index of this name is in place.
    Lost,
}

/// Puts the manifest of a draft in place. If the future is dropped, either the put has not begun,
/// or it continues in its own task.
///
/// # Errors
/// [`Error::IndexWrite`]; the draft is then removed, unless its manifest may be in place.
pub(super) async fn commit(
    indexes: &Arc<Indexes>,
    folder: Folder,
    manifest: Manifest,
    draft: Draft,
    mode: PutMode,
) -> Result<Committed> {
    let name = manifest.name.as_str();
    let before = match mode {
        PutMode::Create => None,
        _ => match indexes.look_up(&folder, name, draft.store()).await {
            Ok(found) => found,
            Err(_) => indexes
                .at(&folder, name)
                .map(|index| index.manifest.clone()),
        },
    };
    let indexes = Arc::clone(indexes);
    let put = async move { put(&indexes, folder, manifest, draft, mode, before).await };
    carried_through(put).await
}

async fn put(
    indexes: &Indexes,
    folder: Folder,
    manifest: Manifest,
    mut draft: Draft,
    mode: PutMode,
    before: Option<Manifest>,
) -> Result<Committed> {
    let (name, store) = (manifest.name.as_str(), Arc::clone(draft.store()));
    let sealed = manifest.clone().seal().map_err(DataFusionError::Internal)?;
    let target = folder.manifest_path(name);
    draft.keep();
    let sealed = PutPayload::from(sealed);
    let put = store.put_opts(&target, sealed.clone(), mode.into()).await;
    if let Err(error) = put {
        let found = indexes.look_up(&folder, name, &store).await;
        let exists = matches!(error, object_store::Error::AlreadyExists { .. });
        match found {
            Ok(Some(found)) if found == manifest => {
                // The manifest is in place, but perhaps not durable: until that is certain, the
                // data of the old index stay, too.
                let again = store.put_opts(&target, sealed, PutMode::Overwrite.into());
                if again.await.is_err() {
                    return Err(unwritten(name, &folder, error));
                }
            }
            Ok(Some(_)) if exists => {
                draft.remove().await;
                return Ok(Committed::Lost);
            }
            Ok(_) => {
                draft.remove().await;
                return Err(unwritten(name, &folder, error));
            }
            // The manifest may be in place, so its data stay.
            Err(_) => return Err(unwritten(name, &folder, error)),
        }
    }
    if let Some(before) = before.filter(|before| before.data != manifest.data) {
        // A query that still reads the old data falls back to a scan.
        let _ = store.delete(&folder.path.clone().join(before.data)).await;
    }
    let index = Index::new(folder, manifest);
    index.verified.store(true, Ordering::Relaxed);
    indexes.insert(&index);
    Ok(Committed::Done(index))
}

/// The error of an index that cannot be written.
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

/// A name for the data of an index that no other build uses, in any process.
pub(super) fn data_name(name: &str) -> String {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    let now_ns = since.map_or(0, |since| since.as_nanos());
    let random = RandomState::new().hash_one(now_ns);
    format!("{name}-{now_ns}-{random:016x}.index")
}
