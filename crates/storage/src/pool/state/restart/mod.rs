//! What happens if the core, or the code that carries out its actions, panics?
//!
//! The panic may leave the state half changed, so the pool discards it and continues with an empty
//! core and no tables. Scans and page requests of the old core fail with `Panicked`; later events
//! of their owners are not passed to the new core, which does not know them. Queries that begin
//! later register their tables with the new core and run as usual.
//! Rejected: continuing with the state as it is (rows could be lost); letting the panic propagate
//! (every waiter of the pool would hang, and a panic inside a `drop` would abort the process).
//! X1 (`panics.rs`): every waiter is woken, with an error.

mod epoch;

use std::task::Poll;

use coscan_core::{Abm, PageRequestId, TableId};

use super::{Effects, State};
use crate::{Result, StorageError};

pub(crate) use epoch::Epoch;

/// A result that work under the pool's lock returns if it panics.
pub(crate) trait OnPanic {
    fn panicked(error: StorageError) -> Self;
}

impl OnPanic for () {
    fn panicked(_: StorageError) -> Self {}
}

impl OnPanic for bool {
    fn panicked(_: StorageError) -> Self {
        false
    }
}

impl<T> OnPanic for Result<T> {
    fn panicked(error: StorageError) -> Self {
        Err(error)
    }
}

impl<T> OnPanic for Poll<Result<T>> {
    fn panicked(error: StorageError) -> Self {
        Poll::Ready(Err(error))
    }
}

impl State {
    /// Restarts the pool's state with this core.
    pub(crate) fn restart(&mut self, abm: Abm, error: &StorageError, effects: &mut Effects) {
        self.abm = abm;
        self.epoch = Epoch::begin(
            self.scans.next_id(),
            self.ids.next_id(),
            PageRequestId(self.pages.next),
            error.clone(),
        );
        let tables = std::mem::take(&mut self.tables);
        effects.dropped_tables.extend(tables.into_values());
        self.ids.forget_all();
        self.loads.forget_all();
        self.degrees.forget();
        // A log that spans the restart could not be replayed.
        self.recording = None;
        self.scans.fail_all(error, &mut effects.wakers);
        effects.wakers.extend(self.pages.fail_all(error));
    }

    /// The error for an unknown table.
    pub(crate) fn unknown_table(&self, table: TableId) -> StorageError {
        let unknown = || StorageError::Internal(format!("table {} is not registered", table.0));
        self.epoch.error_of(table).cloned().unwrap_or_else(unknown)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests: a failure should panic")]
mod tests {
    use std::sync::Arc;
    use std::time::Duration;

    use coscan_core::Policy;

    use crate::device::{Devices, Fault, Faulty, LocalDevice, LocalOptions, Rule, When};
    use crate::memory::MemoryBudget;
    use crate::pool::small_world::{open, rows, start, write};
    use crate::pool::{BufferPool, FileCache, PoolConfig, PoolShared};

    #[tokio::test]
    async fn a_panic_under_the_lock_answers_every_waiter() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("t.parquet");
        write(&path);
        let local = LocalDevice::open(folder.path(), &LocalOptions::default()).unwrap();
        let device = Arc::new(Faulty::new(Arc::new(local), Vec::new()));
        let devices = Devices::default();
        devices
            .register("file://", Arc::clone(&device) as _)
            .unwrap();
        let files = FileCache::new(Arc::new(devices));
        let shared = PoolShared::new(files, MemoryBudget::new(64 << 20), 1).unwrap();
        let file = open(&shared, &path).await;
        for policy in [Policy::Relevance, Policy::Elevator, Policy::Normal] {
            let config = PoolConfig {
                policy,
                ..PoolConfig::default()
            };
            let pool = BufferPool::new(config, Arc::clone(&shared));
            // One scan holds a chunk, one waits for a load that hangs, one has not begun.
            let holding = start(&pool, &file, vec![0]);
            let lease = holding.next_chunk().await.unwrap().unwrap();
            let job = lease.begin_job(&[]);
            device.add(Rule::new(When::Every(1), Fault::Hang));
            let waiting = tokio::spawn(rows(start(&pool, &file, vec![1, 2])));
            let later = start(&pool, &file, vec![0, 1]);
            let view = pool.table(std::slice::from_ref(&file)).unwrap();
            while pool.snapshot().scans.iter().all(|scan| scan.waiting == 0) {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
            pool.inner.with_state(|_, _| -> () { panic!("I2: a bug") });
            let answer = tokio::time::timeout(Duration::from_secs(20), waiting).await;
            for error in [
                answer.expect("it is answered").unwrap().unwrap_err(),
                rows(later).await.unwrap_err(),
                holding.next_chunk().await.unwrap_err(),
            ] {
                let text = error.to_string();
                assert!(text.contains("a panic: I2: a bug"), "{policy:?}: {text}");
            }
            // Leases of the old scans, and the events that they send, must have no effect.
            holding.withdraw(&[1]);
            drop((job, lease, holding, view));
            device.heal();
            assert_eq!(
                rows(start(&pool, &file, vec![0, 1, 2])).await.unwrap(),
                3000
            );
            let snapshot = pool.snapshot();
            assert_eq!((snapshot.tables, snapshot.scans.len()), (1, 0));
            assert!(snapshot.budget_bytes > 0);
        }
    }
}
