//! Which pages are in memory, decoded, for rows that are fetched one by one?
//!
//! Idea: the index often names several rows of a page, shortly after each other. The first of them
//! has the page read and decoded whole; the others take their rows from it, while it is on its way
//! and for as long as it is kept. The streams of an execution share the pages. A page is decoded
//! as part of its read, so pages that were asked for at once are decoded at once.
//! Not here: which rows are next and how many are asked for ahead (`coscan_core::smooth`), which
//! pages are kept (its `RecentPages`), picking and evaluating rows (`decoded_page.rs`).
//! Bounds: the kept pages take at most `coscan.index_cache`, from the budget: where it refuses,
//! pages are dropped, or not kept. The jobs bound the pages on their way (`read_ahead.rs`). If no
//! job asks for a page for `lapse_after` (an idle cursor), all kept pages are dropped.
//! KEPT-I1: a page that is kept or on its way is not read.
//! KEPT-I2: the reservation has the bytes of the kept pages.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use coscan_core::smooth::RecentPages;
use coscan_storage::pool::Lapses;
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::memory_pool::MemoryReservation;
use datafusion::physical_plan::metrics::Count;
use futures::future::{BoxFuture, Shared, WeakShared, ready};
use futures::{FutureExt, TryFutureExt};
use parking_lot::Mutex;

/// A page that was read; `None` if statistics ruled it out.
type Read<P> = Result<Option<Arc<P>>, Arc<DataFusionError>>;
type Coming<P> = BoxFuture<'static, Read<P>>;

/// The decoded pages of one execution.
pub(crate) struct KeptPages<P> {
    state: Mutex<State<P>>,
    bytes_max: u64,
    lapse_after: Duration,
    /// Pages that were asked for while they were kept or on their way.
    found: Count,
}

struct State<P> {
    kept: RecentPages<Arc<P>>,
    /// Reads on their way, as long as a job waits for them.
    coming: BTreeMap<u32, WeakShared<Coming<P>>>,
    memory: MemoryReservation,
    used: Instant,
}

impl<P: Send + Sync + 'static> KeptPages<P> {
    /// No pages. At most `bytes_max` bytes are kept, taken from `memory`.
    pub(crate) fn new(
        bytes_max: u64,
        memory: MemoryReservation,
        lapse_after: Duration,
        found: Count,
    ) -> Arc<Self> {
        Arc::new(Self {
            state: Mutex::new(State {
                kept: RecentPages::new(bytes_max),
                coming: BTreeMap::new(),
                memory,
                used: Instant::now(),
            }),
            bytes_max,
            lapse_after,
            found,
        })
    }

    /// The page of this number. `read` reads and decodes it, and tells its bytes, if it is neither
    /// kept nor on its way. Cancel safe: the read goes on while another caller waits for it.
    pub(crate) fn page(
        self: &Arc<Self>,
        number: u32,
        read: impl FnOnce() -> BoxFuture<'static, Result<Option<(P, u64)>>>,
    ) -> BoxFuture<'static, Result<Option<Arc<P>>>> {
        let mut state = self.state.lock();
        state.used = Instant::now();
        if let Some(page) = state.kept.find(number) {
            self.found.add(1);
            return ready(Ok(Some(Arc::clone(page)))).boxed();
        }
        let coming = state.coming.get(&number).and_then(WeakShared::upgrade);
        let coming = if let Some(coming) = coming {
            self.found.add(1);
            coming
        } else {
            let coming = self.coming(number, read());
            let weak = coming.downgrade();
            state.coming.extend(weak.map(|weak| (number, weak)));
            coming
        };
        coming.map_err(DataFusionError::Shared).boxed()
    }

    fn coming(
        self: &Arc<Self>,
        number: u32,
        read: BoxFuture<'static, Result<Option<(P, u64)>>>,
    ) -> Shared<Coming<P>> {
        let pages = Arc::clone(self);
        let coming: Coming<P> = Box::pin(async move {
            let Some((page, bytes)) = read.await.map_err(Arc::new)? else {
                return Ok(None);
            };
            let page = Arc::new(page);
            pages.keep(number, bytes, &page);
            Ok::<_, Arc<DataFusionError>>(Some(page))
        });
        coming.shared()
    }

    /// Keeps a page if there is memory for it. Otherwise it stays on its way until the last job
    /// that waits for it has its rows.
    fn keep(&self, number: u32, bytes: u64, page: &Arc<P>) {
        if bytes > self.bytes_max {
            return;
        }
        let mut state = self.state.lock();
        let state = &mut *state;
        let freed = state.kept.make_room(bytes);
        state.memory.shrink(narrow(freed));
        while state.memory.try_grow(narrow(bytes)).is_err() {
            let Some(freed) = state.kept.drop_oldest() else {
                return;
            };
            state.memory.shrink(narrow(freed));
        }
        if state.kept.keep(number, bytes, Arc::clone(page)) {
            state.coming.remove(&number);
        } else {
            state.memory.shrink(narrow(bytes));
        }
    }
}

impl<P: Send + Sync> Lapses for KeptPages<P> {
    fn lapse_if_silent(&self, now: Instant, wanted_after: Option<Duration>) {
        let patience = wanted_after.map_or(self.lapse_after, |wanted| wanted.min(self.lapse_after));
        let Some(mut state) = self.state.try_lock() else {
            return; // A stream is using the pages.
        };
        if now.saturating_duration_since(state.used) < patience {
            return;
        }
        while let Some(freed) = state.kept.drop_oldest() {
            state.memory.shrink(narrow(freed));
        }
    }
}

fn narrow(bytes: u64) -> usize {
    usize::try_from(bytes).unwrap_or(usize::MAX)
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests: a failure should panic")]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use datafusion::execution::memory_pool::{GreedyMemoryPool, MemoryConsumer, MemoryPool};
    use futures::future::{join, pending};

    use super::*;

    const LAPSE_AFTER: Duration = Duration::from_secs(1);

    /// Pages of 100 bytes, whose contents are their numbers; and how many were read.
    struct World {
        pages: Arc<KeptPages<u32>>,
        pool: Arc<dyn MemoryPool>,
        read: Arc<AtomicUsize>,
    }

    impl World {
        fn new(bytes_max: u64, pool_bytes: usize) -> Self {
            let pool: Arc<dyn MemoryPool> = Arc::new(GreedyMemoryPool::new(pool_bytes));
            let memory = MemoryConsumer::new("pages").register(&pool);
            Self {
                pages: KeptPages::new(bytes_max, memory, LAPSE_AFTER, Count::new()),
                pool,
                read: Arc::default(),
            }
        }

        fn fetch(&self, number: u32) -> BoxFuture<'static, Result<Option<Arc<u32>>>> {
            let read = Arc::clone(&self.read);
            self.pages.page(number, move || {
                Box::pin(async move {
                    read.fetch_add(1, Ordering::Relaxed);
                    tokio::task::yield_now().await;
                    Ok(Some((number, 100)))
                })
            })
        }

        async fn fetch_all(&self, numbers: &[u32]) {
            for number in numbers {
                assert_eq!(self.fetch(*number).await.unwrap().as_deref(), Some(number));
            }
        }

        fn read(&self) -> usize {
            self.read.load(Ordering::Relaxed)
        }
    }

    #[tokio::test]
    async fn a_page_is_read_once_while_it_is_kept() {
        let world = World::new(250, 1_000);
        world.fetch_all(&[7, 7, 8, 7, 8]).await;
        assert_eq!((world.read(), world.pages.found.value()), (2, 3));
        assert_eq!(world.pool.reserved(), 200);
        // Two pages fit: the least recently used one, 7, makes room.
        world.fetch_all(&[9, 8]).await;
        assert_eq!((world.read(), world.pool.reserved()), (3, 200));
        world.fetch_all(&[7]).await;
        assert_eq!(world.read(), 4);
        drop(world.pages);
        assert_eq!(world.pool.reserved(), 0);
    }

    #[tokio::test]
    async fn a_page_on_its_way_is_read_once_even_if_it_is_too_large_to_keep() {
        for bytes_max in [0, 250] {
            let world = World::new(bytes_max, 1_000);
            let (one, other) = join(world.fetch(1), world.fetch(1)).await;
            assert_eq!(
                (one.unwrap(), other.unwrap()),
                (Some(Arc::new(1)), Some(Arc::new(1)))
            );
            assert_eq!(world.read(), 1, "{bytes_max}");
            world.fetch_all(&[1]).await;
            let kept = bytes_max > 0;
            assert_eq!(world.read(), if kept { 1 } else { 2 }, "{bytes_max}");
        }
    }

    #[tokio::test]
    async fn without_memory_pages_are_dropped_or_not_kept() {
        let world = World::new(1_000, 150);
        world.fetch_all(&[1, 2, 2, 1]).await;
        assert_eq!((world.read(), world.pool.reserved()), (3, 100));
        let other = MemoryConsumer::new("an operator").register(&world.pool);
        other.try_grow(50).unwrap();
        world.fetch_all(&[3]).await;
        assert_eq!(world.pool.reserved(), 150);
        let nothing = World::new(1_000, 50);
        nothing.fetch_all(&[1, 1]).await;
        assert_eq!((nothing.read(), nothing.pool.reserved()), (2, 0));
    }

    #[tokio::test]
    async fn a_read_that_was_dropped_or_failed_begins_again() {
        let world = World::new(1_000, 1_000);
        drop(world.pages.page(1, || Box::pin(pending())));
        world.fetch_all(&[1]).await;
        let fails = || DataFusionError::Execution("no such page".to_owned());
        let failed = world.pages.page(2, || Box::pin(ready(Err(fails()))));
        assert!(
            failed
                .await
                .unwrap_err()
                .to_string()
                .contains("no such page")
        );
        let pruned = world.pages.page(3, || Box::pin(ready(Ok(None))));
        assert_eq!(pruned.await.unwrap(), None);
        world.fetch_all(&[2, 3]).await;
        assert_eq!(world.read(), 3);
    }

    #[tokio::test]
    async fn unused_pages_lapse() {
        let world = World::new(1_000, 1_000);
        world.fetch_all(&[1, 2]).await;
        let begun = Instant::now();
        world.pages.lapse_if_silent(begun, None);
        assert_eq!(world.pool.reserved(), 200);
        world.pages.lapse_if_silent(begun + LAPSE_AFTER, None);
        assert_eq!(world.pool.reserved(), 0);
        world.fetch_all(&[1]).await;
        assert_eq!(world.read(), 3);
    }
}
