//! The tables that all sessions see, and those that could not be opened.
//!
//! A table whose files cannot be read is an error of that table: its name is there, every statement
//! that names it gets the error, and other tables work. Each use tries to open it, so that a table
//! whose files are repaired needs no restart.
//! Not here: why a table cannot be opened (`registration.rs`), what a session makes for itself
//! (`own/`).
//! Bounds: one attempt per statement that names the table.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use datafusion::catalog::{MemorySchemaProvider, SchemaProvider, TableProvider};
use datafusion::error::{DataFusionError, Result};
use parking_lot::Mutex;

use crate::session::WeakEngine;

/// The schema of shared tables.
pub(crate) struct SharedTables {
    opened: MemorySchemaProvider,
    /// The paths of tables that could not be opened, by name.
    unopened: Mutex<BTreeMap<String, String>>,
    engine: WeakEngine,
}

impl SharedTables {
    pub(crate) fn new(engine: WeakEngine) -> Self {
        Self {
            opened: MemorySchemaProvider::new(),
            unopened: Mutex::default(),
            engine,
        }
    }

    /// Keeps the name of a table that could not be opened.
    pub(crate) fn keep_unopened(&self, name: &str, path: &str) {
        let mut unopened = self.unopened.lock();
        unopened.insert(name.to_owned(), path.to_owned());
    }
}

#[async_trait]
impl SchemaProvider for SharedTables {
    fn table_names(&self) -> Vec<String> {
        self.opened.table_names()
    }

    async fn table(&self, name: &str) -> Result<Option<Arc<dyn TableProvider>>> {
        if let Some(table) = self.opened.table(name).await? {
            return Ok(Some(table));
        }
        let path = self.unopened.lock().get(name).cloned();
        let (Some(path), Some(engine)) = (path, self.engine.upgrade()) else {
            return Ok(None);
        };
        let opened = Box::pin(async move { engine.session().register(name, &path).await });
        let opened = opened.await;
        opened.map_err(|error| DataFusionError::External(Box::new(error)))?;
        self.opened.table(name).await
    }

    fn register_table(
        &self,
        name: String,
        table: Arc<dyn TableProvider>,
    ) -> Result<Option<Arc<dyn TableProvider>>> {
        self.unopened.lock().remove(&name);
        self.opened.register_table(name, table)
    }

    fn deregister_table(&self, name: &str) -> Result<Option<Arc<dyn TableProvider>>> {
        self.unopened.lock().remove(name);
        self.opened.deregister_table(name)
    }

    fn table_exist(&self, name: &str) -> bool {
        self.opened.table_exist(name) || self.unopened.lock().contains_key(name)
    }
}

impl fmt::Debug for SharedTables {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SharedTables")
            .field("opened", &self.opened)
            .finish_non_exhaustive()
    }
}
