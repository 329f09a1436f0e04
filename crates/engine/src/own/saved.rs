//! What a session had made at some time, to come back to: ROLLBACK.
//!
//! Batches are never changed in place, so a copy of a table is a list of its batches. What all
//! sessions see (files, tables that were published) does not come back.
//! O8: after [`SavedOwn::restore`] a session's names, and the rows of its tables, are those of the
//! time of [`save_own`].

use std::sync::Arc;

use datafusion::error::Result;
use datafusion::prelude::SessionContext;

use super::catalogs::{OwnNames, SavedNames};
use super::table::{Kept, MemoryTable};
use crate::tables::pending::PendingInserts;

/// A session's names and the rows of its tables at some time.
///
/// Their memory stays accounted for until it is dropped or restored.
#[must_use]
pub struct SavedOwn {
    own: Arc<OwnNames>,
    inserts: Arc<PendingInserts>,
    /// How many statements had inserted into tables of files.
    inserted: usize,
    names: SavedNames,
    tables: Vec<Kept>,
}

/// What the session has made now. None if it has nothing of its own, as a session of the user's own
/// process has not: all sessions of its engine see what it makes.
///
/// # Errors
/// `ResourcesExhausted`, if there is no memory for a second copy of the names.
pub async fn save_own(context: &SessionContext) -> Result<Option<SavedOwn>> {
    let (Some(own), Some(inserts)) = (
        extension::<OwnNames>(context),
        extension::<PendingInserts>(context),
    ) else {
        return Ok(None);
    };
    let inserted = inserts.open();
    let names = own.saved()?;
    let mut tables = vec![];
    for table in names.tables() {
        if let Some(table) = table.downcast_ref::<MemoryTable>() {
            tables.push(table.keep().await);
        }
    }
    Ok(Some(SavedOwn {
        own,
        inserts,
        inserted,
        names,
        tables,
    }))
}

/// Makes what the session's transaction inserted into tables of files appear.
///
/// # Errors
/// The store's.
pub async fn commit_own(context: &SessionContext) -> Result<()> {
    match extension::<PendingInserts>(context) {
        Some(inserts) => inserts.publish().await,
        None => Ok(()),
    }
}

/// An extension of the session's configuration, without a copy of its state.
fn extension<T: Send + Sync + 'static>(context: &SessionContext) -> Option<Arc<T>> {
    let state = context.state_ref();
    let state = state.read();
    state.config().get_extension()
}

impl SavedOwn {
    /// Brings all of it back.
    pub async fn restore(self) {
        self.inserts.give_up(self.inserted);
        self.own.restore(self.names);
        for table in self.tables {
            table.restore().await;
        }
    }
}

impl std::fmt::Debug for SavedOwn {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SavedOwn")
            .field("tables", &self.tables.len())
            .finish_non_exhaustive()
    }
}
