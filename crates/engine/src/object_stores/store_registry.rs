//! Which object stores does an engine have?
//!
//! A store is created on first use, and is known to DataFusion and to the devices alike.
//! Not here: how a store is configured (`store_urls.rs`).

use std::fmt;
use std::sync::Arc;

use coscan_storage::device::Devices;
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::object_store::{
    DefaultObjectStoreRegistry, ObjectStoreRegistry, ObjectStoreUrl,
};
use object_store::ObjectStore;
use url::Url;

use super::local_store::LocalStore;
use super::{joint_store, store_urls};
use crate::memory::SpillFolder;

/// DataFusion's registry, with Coscan's local store, and with stores for `s3://` and `http://`
/// that are created on first use.
pub(crate) struct StoreRegistry {
    inner: DefaultObjectStoreRegistry,
    devices: Arc<Devices>,
    /// Lives as long as the runtime that has this registry, and so as long as any query may spill.
    _spill: Option<SpillFolder>,
}

impl StoreRegistry {
    pub(crate) fn new(devices: Arc<Devices>, spill: Option<SpillFolder>) -> Self {
        let inner = DefaultObjectStoreRegistry::new();
        // Registered only with the inner registry, because the disks' devices read local files.
        inner.register_store(
            ObjectStoreUrl::local_filesystem().as_ref(),
            Arc::new(LocalStore::new()),
        );
        Self {
            inner,
            devices,
            _spill: spill,
        }
    }
}

impl ObjectStoreRegistry for StoreRegistry {
    fn register_store(
        &self,
        url: &Url,
        store: Arc<dyn ObjectStore>,
    ) -> Option<Arc<dyn ObjectStore>> {
        // The devices of its stores read the files of a joint store.
        if url.scheme() != joint_store::SCHEME
            && let Ok(url) = store_urls::store_url(url)
            && let Err(error) = self
                .devices
                .register_store(url.as_str(), Arc::clone(&store))
        {
            log::warn!("{url}: no device for this store: {error}");
        }
        self.inner.register_store(url, store)
    }

    fn deregister_store(&self, url: &Url) -> Result<Arc<dyn ObjectStore>> {
        self.inner.deregister_store(url)
    }

    fn get_store(&self, url: &Url) -> Result<Arc<dyn ObjectStore>> {
        let missing = match self.inner.get_store(url) {
            Ok(store) => return Ok(store),
            Err(missing) => missing,
        };
        match store_urls::open(url).map_err(|error| DataFusionError::External(Box::new(error)))? {
            // Two queries at the same time may create two stores; the later one stays, and both
            // work.
            Some(store) => {
                self.register_store(url, Arc::clone(&store));
                Ok(store)
            }
            None => Err(missing),
        }
    }
}

impl fmt::Debug for StoreRegistry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.inner.fmt(f)
    }
}
