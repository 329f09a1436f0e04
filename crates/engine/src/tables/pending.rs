//! Which files did a session's open transaction write?
//!
//! An INSERT into a table of files writes files under other names
//! (`object_stores/staged_store.rs`). Outside of a transaction they get their names when the
//! statement ends. In a transaction, COMMIT gives them their names, in the order of the
//! statements, and ROLLBACK removes them. Until then no listing shows them, so the session's own
//! statements must not read the table (`session_names/statements/check.rs` calls
//! [`PendingInserts::check`]).
//! Not here: when a transaction begins and ends (`session_names/saved.rs`).
//! Bounds: [`INSERTS_MAX`] statements, because each file is kept open and locked.
//! PI1: each INSERT appears as a whole. If COMMIT fails between two, the earlier one has appeared.

use std::sync::Arc;

use coscan_pg::PgError;
use datafusion::catalog::TableProvider;
use datafusion::error::Result;
use datafusion::execution::object_store::ObjectStoreUrl;
use object_store::path::Path;
use parking_lot::Mutex;

use super::partitioned::files_of;
use crate::object_stores::staged_store::StagedStore;

/// The most statements in a transaction that insert into tables of files.
const INSERTS_MAX: usize = 500;

/// The files of one session's transaction. Clones share them.
#[derive(Clone, Debug, Default)]
pub(crate) struct PendingInserts {
    inner: Arc<Mutex<Pending>>,
}

#[derive(Debug, Default)]
struct Pending {
    /// Whether a transaction is open.
    open: bool,
    inserts: Vec<Insert>,
}

/// The files that one statement wrote.
#[derive(Debug)]
pub(super) struct Insert {
    pub(super) store: ObjectStoreUrl,
    /// The table's folder.
    pub(super) prefix: Path,
    pub(super) files: Arc<StagedStore>,
}

impl PendingInserts {
    /// Starts to keep the files of statements. Returns the number of statements so far.
    pub(crate) fn open(&self) -> usize {
        let mut inner = self.inner.lock();
        inner.open = true;
        inner.inserts.len()
    }

    /// Removes the files of all but the first `kept` statements, and closes the transaction; the
    /// caller may open it again.
    pub(crate) fn give_up(&self, kept: usize) {
        let mut inner = self.inner.lock();
        inner.open = false;
        inner.inserts.truncate(kept);
    }

    /// Closes the transaction and publishes all its files.
    ///
    /// # Errors
    /// The store's.
    pub(crate) async fn publish(&self) -> Result<()> {
        let inserts = {
            let mut inner = self.inner.lock();
            inner.open = false;
            std::mem::take(&mut inner.inserts)
        };
        for insert in inserts {
            insert.files.publish().await?;
        }
        Ok(())
    }

    /// Keeps the files of a statement; outside of a transaction, publishes them.
    ///
    /// # Errors
    /// The store's; 54000 if the transaction has inserted too often.
    pub(super) async fn add(&self, insert: Insert) -> Result<()> {
        let at_once = {
            let mut inner = self.inner.lock();
            if !inner.open {
                Some(insert)
            } else if inner.inserts.len() < INSERTS_MAX {
                inner.inserts.push(insert);
                None
            } else {
                let told = format!(
                    "a transaction may have {INSERTS_MAX} INSERTs into tables of files at most: \
                     insert more rows with each"
                );
                return Err(PgError::new("54000", told).into());
            }
        };
        match at_once {
            Some(insert) => Ok(insert.files.publish().await?),
            None => Ok(()),
        }
    }

    /// Refuses to read a table that has pending files.
    ///
    /// # Errors
    /// 0A000.
    pub(crate) fn check(&self, table: &dyn TableProvider, name: &str) -> Result<()> {
        let inner = self.inner.lock();
        if inner.inserts.is_empty() {
            return Ok(());
        }
        let places = files_of(table).map_or(&[][..], |files| files.table_paths());
        let is_pending = places.iter().any(|place| {
            let same = |insert: &Insert| {
                insert.store == place.object_store() && insert.prefix == *place.prefix()
            };
            inner.inserts.iter().any(same)
        });
        if is_pending {
            let told = format!(
                "cannot read \"{name}\": rows that this transaction inserted into its files are \
                 seen after COMMIT"
            );
            return Err(PgError::new("0A000", told).into());
        }
        Ok(())
    }
}
