//! Where are indexes kept?
//!
//! In the folder `_coscan` beside a table's files, or in the folder of `coscan.index_folder`, for
//! tables whose folder is read-only.
//! Not here: when indexes are looked for (`index/discovery.rs`).

use std::sync::Arc;

use datafusion::datasource::listing::{ListingTable, ListingTableUrl};
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::object_store::ObjectStoreUrl;
use datafusion::execution::runtime_env::RuntimeEnv;
use object_store::ObjectStoreExt;
use object_store::path::Path;
use tokio::sync::OnceCell;
use url::Url;

use crate::object_stores::joint_store::{own_place, written};
use crate::object_stores::local_store::make_folder;

/// The end of a manifest's name.
pub(crate) const MANIFEST_SUFFIX: &str = ".index.json";

/// The folder beside a table's files.
const FOLDER: &str = "_coscan";

/// A folder of a store.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Folder {
    /// The store's URL.
    pub(crate) store: ObjectStoreUrl,
    pub(crate) path: Path,
}

impl Folder {
    /// The folder of a table's files; if the table has several paths, that of the first one.
    ///
    /// # Errors
    /// If the table's store is not known.
    pub(crate) async fn of_table(table: &ListingTable, runtime: &RuntimeEnv) -> Result<Self> {
        let Some(url) = table.table_paths().first() else {
            return Err(DataFusionError::Plan(
                "a table without any files has no folder".to_owned(),
            ));
        };
        let (store, mut path) = own_place(&url.object_store(), url.prefix());
        // A path without a slash at its end may be a file or a folder.
        if !url.is_collection() && runtime.object_store(&store)?.head(&path).await.is_ok() {
            let mut parts: Vec<_> = path.parts().collect();
            parts.pop();
            path = parts.into_iter().collect();
        }
        Ok(Self { store, path })
    }

    /// The default folder for indexes of files in this folder.
    pub(crate) fn beside(&self) -> Self {
        Self {
            store: self.store.clone(),
            path: self.path.clone().join(FOLDER),
        }
    }

    pub(crate) fn manifest_path(&self, name: &str) -> Path {
        self.path.clone().join(format!("{name}{MANIFEST_SUFFIX}"))
    }

    /// The folder as users write it.
    pub(crate) fn display(&self) -> String {
        written(&self.store, &self.path)
    }
}

/// The folder of `coscan.index_folder`. Clones share their state.
#[derive(Clone, Debug)]
pub(crate) struct NamedFolder {
    /// The name as it was given.
    pub(crate) name: String,
    pub(crate) folder: Folder,
    /// Set once the folder's indexes are known.
    pub(crate) looked_through: Arc<OnceCell<()>>,
}

impl NamedFolder {
    /// The folder that a path or URL names. A missing local folder is created.
    ///
    /// # Errors
    /// If the folder cannot be created, or the name cannot be that of a folder.
    pub(crate) fn new(name: &str) -> Result<Self> {
        let wrong = |reason: &dyn std::fmt::Display| {
            DataFusionError::Configuration(format!("coscan.index_folder: {name}: {reason}"))
        };
        let folder = if name.contains("://") {
            let url = Url::parse(name).map_err(|error| wrong(&error))?;
            let url = ListingTableUrl::try_new(url, None).map_err(|error| wrong(&error))?;
            Folder {
                store: url.object_store(),
                path: url.prefix().clone(),
            }
        } else {
            make_folder(name.as_ref()).map_err(|error| wrong(&error))?;
            Folder {
                store: ObjectStoreUrl::local_filesystem(),
                path: Path::from_filesystem_path(name).map_err(|error| wrong(&error))?,
            }
        };
        Ok(Self {
            name: name.to_owned(),
            folder,
            looked_through: Arc::default(),
        })
    }
}
