//! How does ROLLBACK restore what a session had?
//!
//! Batches are never changed in place, so a copy of a table is a list of its batches. Names and
//! rows that all sessions see (files, published tables) are not restored.
//! O8: after [`SavedOwn::restore`] a session has the names, and its tables have the rows, that
//! they had at [`save_own`].

use std::sync::Arc;

use datafusion::error::Result;
use datafusion::prelude::SessionContext;
use futures::future::join_all;

use super::catalogs::{OwnNames, SavedNames};
use super::table::{Kept, MemoryTable};
use crate::tables::pending::PendingInserts;

/// A session's names and the rows of its tables at some time.
///
/// Their memory stays accounted for until they are dropped or restored.
#[must_use]
pub(crate) struct SavedOwn {
    own: Arc<OwnNames>,
    inserts: Arc<PendingInserts>,
    /// The number of statements that had inserted into tables of files.
    inserted: usize,
    /// `None` once they are restored.
    names: Option<SavedNames>,
    tables: Vec<Kept>,
}

/// Saves the session's own names and rows. `None` for an unrestricted session, which has none of
/// its own.
///
/// # Errors
/// `ResourcesExhausted`, if there is no memory for a second copy of the names.
pub(crate) async fn save_own(context: &SessionContext) -> Result<Option<SavedOwn>> {
    let (Some(own), Some(inserts)) = (
        extension::<OwnNames>(context),
        extension::<PendingInserts>(context),
    ) else {
        return Ok(None);
    };
    let names = own.saved()?;
    let mut tables = vec![];
    for table in names.tables() {
        if let Some(table) = table.downcast_ref::<MemoryTable>() {
            tables.push(table.keep().await);
        }
    }
    // Last: where nothing could be saved, no transaction has begun, and an INSERT publishes its
    // files.
    let inserted = inserts.open();
    Ok(Some(SavedOwn {
        own,
        inserts,
        inserted,
        names: Some(names),
        tables,
    }))
}

/// Publishes the rows that the session's transaction inserted into tables of files.
///
/// # Errors
/// The store's.
pub(crate) async fn commit_own(context: &SessionContext) -> Result<()> {
    match extension::<PendingInserts>(context) {
        Some(inserts) => inserts.publish().await,
        None => Ok(()),
    }
}

/// An extension of the session's configuration, got without a copy of the session's state.
fn extension<T: Send + Sync + 'static>(context: &SessionContext) -> Option<Arc<T>> {
    let state = context.state_ref();
    let state = state.read();
    state.config().get_extension()
}

impl SavedOwn {
    /// Restores the saved names and rows. All tables are asked for at once, so statements that
    /// begin later find them restored, or wait until they are. If the future is dropped, the next
    /// call does what it has left.
    pub(crate) async fn restore(&mut self) {
        self.inserts.give_up(self.inserted);
        if let Some(names) = self.names.take() {
            self.own.restore(names);
        }
        let tables: Vec<_> = self.tables.iter_mut().map(Kept::restore).collect();
        join_all(tables).await;
        self.tables.clear();
    }
}
