//! Which tables do all sessions see, and with which columns?
//!
//! A table of a path has the columns that it would have if it were registered now. Each use of its
//! name compares the file or folder with its earlier stamp; if that has changed and the columns
//! differ, the table is replaced. Changes that the stamp cannot show (files in folders below,
//! files in object stores, files overwritten in place) are found by the scan: it fails and marks
//! the table (`tables/parquet_format.rs`), and the next use replaces it. A table whose files cannot
//! be read keeps its name: every statement that names it gets the error, and other tables work.
//! Each use tries to open it, so a table whose files are repaired needs no restart.
//! Not here: why a table cannot be opened (`tables/registration.rs`), names of a session's own
//! (`session_names/`).
//! Bounds: one attempt per statement that names the table.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use datafusion::catalog::{SchemaProvider, TableProvider};
use datafusion::common::exec_err;
use datafusion::error::{DataFusionError, Result};
use parking_lot::Mutex;

use crate::index::find_indexes;
use crate::session::engine::WeakEngine;
use crate::tables::{Stamp, is_outdated, registration};

/// The schema of shared tables.
pub(crate) struct SharedTables {
    tables: Mutex<BTreeMap<String, Shared>>,
    engine: WeakEngine,
}

#[derive(Clone)]
enum Shared {
    Opened {
        table: Arc<dyn TableProvider>,
        /// `None` for a table that was not registered by a path.
        place: Option<Arc<Place>>,
    },
    /// The path of a table that could not be opened.
    Unopened(String),
}

/// The path of a table's files, with its stamp when the columns were read.
#[derive(Debug)]
pub(crate) struct Place {
    path: String,
    stamp: Stamp,
}

impl Place {
    pub(crate) fn new(path: &str) -> Self {
        Self {
            path: path.to_owned(),
            stamp: Stamp::of(path),
        }
    }
}

impl SharedTables {
    pub(crate) fn new(engine: WeakEngine) -> Self {
        Self {
            tables: Mutex::default(),
            engine,
        }
    }

    /// Keeps the name of a table that could not be opened.
    pub(crate) fn keep_unopened(&self, name: &str, path: &str) {
        let unopened = Shared::Unopened(path.to_owned());
        self.tables.lock().insert(name.to_owned(), unopened);
    }

    /// Adds or replaces a table of the files at a place whose stamp was taken before they were
    /// read.
    pub(crate) fn put(&self, name: &str, table: Arc<dyn TableProvider>, place: Place) {
        let place = Some(Arc::new(place));
        let opened = Shared::Opened { table, place };
        self.tables.lock().insert(name.to_owned(), opened);
    }

    /// Replaces the table of a place; false if another session has replaced or dropped it.
    fn exchange(&self, name: &str, place: &Arc<Place>, new: Shared) -> bool {
        let mut tables = self.tables.lock();
        match tables.get_mut(name) {
            Some(shared) => match shared {
                Shared::Opened {
                    place: Some(at), ..
                } if Arc::ptr_eq(at, place) => {
                    *shared = new;
                    true
                }
                _ => false,
            },
            None => false,
        }
    }

    /// The table with the current columns of its files; the known table if they cannot be read,
    /// because its scan names the file that cannot.
    async fn reopened(
        &self,
        name: &str,
        known: Arc<dyn TableProvider>,
        place: &Arc<Place>,
    ) -> Arc<dyn TableProvider> {
        let Some(engine) = self.engine.upgrade() else {
            return known;
        };
        let state = engine.session().context().state();
        let now = Place::new(&place.path);
        let Ok(read) = registration::table_at(&state, &place.path).await else {
            return known;
        };
        let stays = read.schema() == known.schema() && !is_outdated(known.as_ref());
        let table = if stays { known } else { read };
        let opened = Shared::Opened {
            table: Arc::clone(&table),
            place: Some(Arc::new(now)),
        };
        if self.exchange(name, place, opened) && !stays {
            find_indexes(engine.resources().indexes(), &state, &table).await;
        }
        table
    }
}

#[async_trait]
impl SchemaProvider for SharedTables {
    fn table_names(&self) -> Vec<String> {
        let tables = self.tables.lock();
        let opened = tables
            .iter()
            .filter(|(_, shared)| matches!(shared, Shared::Opened { .. }));
        opened.map(|(name, _)| name.clone()).collect()
    }

    async fn table(&self, name: &str) -> Result<Option<Arc<dyn TableProvider>>> {
        let shared = self.tables.lock().get(name).cloned();
        let path = match shared {
            None => return Ok(None),
            Some(Shared::Opened { table, place: None }) => return Ok(Some(table)),
            Some(Shared::Opened {
                table,
                place: Some(place),
            }) => {
                if !is_outdated(table.as_ref()) && !place.stamp.has_changed(&place.path) {
                    return Ok(Some(table));
                }
                return Ok(Some(Box::pin(self.reopened(name, table, &place)).await));
            }
            Some(Shared::Unopened(path)) => path,
        };
        let Some(engine) = self.engine.upgrade() else {
            return Ok(None);
        };
        let opened = Box::pin(async move { engine.session().register(name, &path).await });
        let opened = opened.await;
        opened.map_err(|error| DataFusionError::External(Box::new(error)))?;
        match self.tables.lock().get(name) {
            Some(Shared::Opened { table, .. }) => Ok(Some(Arc::clone(table))),
            _ => Ok(None),
        }
    }

    fn register_table(
        &self,
        name: String,
        table: Arc<dyn TableProvider>,
    ) -> Result<Option<Arc<dyn TableProvider>>> {
        let mut tables = self.tables.lock();
        if let Some(Shared::Opened { .. }) = tables.get(&name) {
            return exec_err!("The table {name} already exists");
        }
        tables.insert(name, Shared::Opened { table, place: None });
        Ok(None)
    }

    fn deregister_table(&self, name: &str) -> Result<Option<Arc<dyn TableProvider>>> {
        Ok(match self.tables.lock().remove(name) {
            Some(Shared::Opened { table, .. }) => Some(table),
            _ => None,
        })
    }

    fn table_exist(&self, name: &str) -> bool {
        self.tables.lock().contains_key(name)
    }
}

impl fmt::Debug for SharedTables {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SharedTables")
            .field("tables", &self.table_names())
            .finish_non_exhaustive()
    }
}
