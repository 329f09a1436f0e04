//! In which form is a segment in memory: as pages, or as arrays?
//!
//! Idea: pages and arrays of a column hold the same values, so when memory is short, only one of
//! them stays. As far as arrays may take memory from frames (`../limits/balance.rs`), a segment
//! that was decoded whole *settles*: its arrays replace its frame. The core counts their bytes,
//! and evicts and pins them like a frame, so later readers of the chunk do not decode it. An
//! evicted segment is loaded as pages.
//! Not here: reading pages of a segment that is in memory as arrays (`../scans/lease.rs`,
//! `../tables/page_read.rs`).
//! Bounds: [`TEXTS_PER_PAGES`], [`SEGMENT_PART`].
//! F1: settling changes no batch: the arrays are those that the frame was decoded to.
//! Source: none of the papers; [CoopScans07 §6.2] keeps columns of chunks in one form.

use coscan_core::{ChunkId, Event, TableId};

use crate::memory::MemoryBudget;
use crate::pool::Inner;
use crate::pool::state::{DecodedKey, Effects, State};

/// Strings without a dictionary that take more than this many times the bytes of their pages do
/// not settle: they take much memory for the little time that they save. TPC-H's `o_comment` saves
/// 2 nanoseconds of decode per byte that it takes beyond its pages, numbers and references save 4
/// to 300.
const TEXTS_PER_PAGES: u64 = 3;

/// A segment that takes more than this part of the memory limit, as a divisor, does not settle:
/// the chunks that a query holds at once must fit, however few frames the operators leave.
const SEGMENT_PART: u64 = 64;

impl State {
    /// Settles the segments of a chunk that can settle.
    pub(crate) fn settle_arrays(
        &mut self,
        table: TableId,
        chunk: ChunkId,
        memory: &MemoryBudget,
        effects: &mut Effects,
    ) {
        if !memory.prefers_arrays() {
            return;
        }
        let decoded = self.tables.get(&table).map(|table| &table.decoded);
        let list = decoded.and_then(|decoded| decoded.get(&chunk));
        let keys: Vec<DecodedKey> = list
            .into_iter()
            .flatten()
            .map(|(key, _)| key.clone())
            .collect();
        for key in keys {
            self.settle(table, &key, memory, effects);
        }
    }

    /// Settles a segment if it is decoded whole and its frame is in memory; returns the freed
    /// bytes of the frame.
    pub(crate) fn settle(
        &mut self,
        id: TableId,
        key: &DecodedKey,
        memory: &MemoryBudget,
        effects: &mut Effects,
    ) -> Option<u64> {
        let table = self.tables.get_mut(&id)?;
        let chunk = key.0;
        // The arrays of one column cannot replace a frame of all columns.
        let apart = table.core.columns.are_apart();
        let column = table.core.column(&key.1.name).filter(|_| apart)?;
        let frame = table.frames.get(&(chunk, column))?;
        let pages: u64 = frame.iter().map(|(range, _)| range.end - range.start).sum();
        let list = table.decoded.get(&chunk)?;
        let (_, segment) = list.iter().find(|(known, _)| known == key)?;
        let mut most = memory.limit() / SEGMENT_PART;
        if segment.is_text() {
            most = most.min(pages * TEXTS_PER_PAGES);
        }
        let bytes = segment.settle(most)?;
        table.frames.remove(&(chunk, column));
        table.as_arrays.insert((chunk, column));
        let resized = Event::SegmentResized {
            table: id,
            chunk,
            column,
            bytes,
        };
        Inner::log(self.handle(resized, effects));
        Some(pages)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests: a failure should panic")]
mod tests {
    use std::mem::ManuallyDrop;
    use std::sync::Arc;

    use arrow::array::{Array, ArrayRef, AsArray};
    use arrow::compute::cast;
    use arrow::datatypes::{DataType, Field, Int64Type};
    use coscan_core::memory::{OperatorId, WHOLE};

    use crate::device::{Devices, LocalDevice, LocalOptions};
    use crate::memory::MemoryBudget;
    use crate::pool::small_world::{open, start, write};
    use crate::pool::state::Effects;
    use crate::pool::{
        BufferPool, ColumnRequest, FileCache, PageRequest, PoolConfig, PoolShared, Scan, TableFile,
    };

    /// A memory limit, of which operators hold so much that arrays stay only in place of frames.
    const LIMIT: u64 = 4 << 20;
    const OPERATORS: u64 = 3 << 20;
    const OPERATOR: OperatorId = OperatorId(1);

    struct World {
        _folder: tempfile::TempDir,
        shared: Arc<PoolShared>,
        pool: BufferPool,
        file: Arc<TableFile>,
    }

    impl World {
        async fn new() -> Self {
            let folder = tempfile::tempdir().unwrap();
            let path = folder.path().join("t.parquet");
            write(&path);
            let device = LocalDevice::open(folder.path(), &LocalOptions::default()).unwrap();
            let devices = Devices::default();
            devices.register("file://", Arc::new(device)).unwrap();
            let files = FileCache::new(Arc::new(devices));
            let memory = MemoryBudget::new(LIMIT);
            // The query lasts as long as the process.
            let query = ManuallyDrop::new(memory.begin_query());
            memory.begin_operator(OPERATOR, query.query(), false);
            memory.took(OPERATOR, OPERATORS);
            let shared = PoolShared::new(files, memory, 1).unwrap();
            let file = open(&shared, &path).await;
            let pool = BufferPool::new(PoolConfig::default(), Arc::clone(&shared));
            Self {
                _folder: folder,
                shared,
                pool,
                file,
            }
        }

        /// Scans twice, because arrays stay from the second scan on.
        async fn read_twice(&self, column: &ColumnRequest) {
            for _ in 0..2 {
                assert_eq!(values(self.scan(), column, 300).await, expected());
            }
        }

        fn scan(&self) -> Arc<Scan> {
            start(&self.pool, &self.file, vec![0, 1, 2])
        }

        /// The bytes read and the bytes decoded, in total.
        fn work(&self) -> (u64, u64) {
            let devices = self.shared.files().devices().snapshots();
            let read = devices.iter().map(|device| device.meter.bytes).sum();
            (read, self.shared.decoded_bytes_total())
        }

        /// The number of segments in memory as frames, and as arrays.
        fn forms(&self) -> (usize, usize) {
            let state = self.pool.inner.state.lock();
            let tables = state.tables.values();
            let forms = tables.map(|table| (table.frames.len(), table.as_arrays.len()));
            forms.fold((0, 0), |all, one| (all.0 + one.0, all.1 + one.1))
        }

        fn view(&self) -> crate::pool::TableView {
            self.pool.table(std::slice::from_ref(&self.file)).unwrap()
        }
    }

    fn v() -> ColumnRequest {
        ColumnRequest::exact(Arc::new(Field::new("v", DataType::Int64, true)))
    }

    /// The same values in other arrays.
    fn narrow_v() -> ColumnRequest {
        ColumnRequest {
            narrow: true,
            ..v()
        }
    }

    /// All values that the scan gives, ascending.
    async fn values(scan: Arc<Scan>, column: &ColumnRequest, batch_rows: usize) -> Vec<i64> {
        let mut values = Vec::new();
        while let Some(mut lease) = scan.next_chunk().await.unwrap() {
            lease.set_batch_rows(batch_rows);
            for at in 0..lease.batches().len() {
                let arrays = lease.batch(std::slice::from_ref(column), at).await;
                values.extend(numbers(&arrays.unwrap().unwrap()[0]));
            }
        }
        values.sort_unstable();
        values
    }

    fn numbers(array: &ArrayRef) -> Vec<i64> {
        let wide = cast(array, &DataType::Int64).unwrap();
        wide.as_primitive::<Int64Type>().values().to_vec()
    }

    fn expected() -> Vec<i64> {
        (0..3000).collect()
    }

    #[tokio::test]
    async fn a_wholly_decoded_segment_is_neither_read_nor_decoded_again() {
        let world = World::new().await;
        let column = v();
        world.read_twice(&column).await;
        assert_eq!(world.forms(), (0, 3));
        let (memory, used) = (world.shared.memory(), world.pool.snapshot().used_bytes);
        assert_eq!((memory.decoded_bytes(), memory.frame_bytes()), (0, used));
        assert!((3000 * 8..4000 * 8).contains(&used), "{used}");
        let before = world.work();
        assert_eq!(values(world.scan(), &column, 300).await, expected());
        assert_eq!(world.work(), before);
        // A limit that leaves no memory evicts arrays like frames, and later requests read the
        // segments.
        memory.set_limit(0);
        assert_eq!(world.forms(), (0, 0));
        assert_eq!((memory.decoded_bytes(), memory.frame_bytes()), (0, 0));
        memory.set_limit(LIMIT);
        assert_eq!(values(world.scan(), &column, 300).await, expected());
        assert!(world.work().0 > before.0);
    }

    /// The prices of all idle arrays, ascending.
    fn prices(world: &World) -> Vec<u64> {
        let state = world.pool.inner.state.lock();
        let tables = state.tables.values();
        let segments = tables.flat_map(|table| table.decoded.values().flatten());
        let idle = segments.filter_map(|(_, segment)| segment.idle());
        let mut prices: Vec<u64> = idle.map(|idle| idle.price).collect();
        prices.sort_unstable();
        prices
    }

    fn drop_some(world: &World) {
        let memory = world.shared.memory();
        let mut effects = Effects::default();
        let mut state = world.pool.inner.state.lock();
        state.drop_idle_arrays(1, memory, &mut effects);
    }

    #[tokio::test]
    async fn the_idle_arrays_that_cost_least_per_byte_are_dropped_first() {
        let world = World::new().await;
        let memory = world.shared.memory();
        memory.gave(OPERATOR, OPERATORS, WHOLE);
        memory.set_arrays_part(0);
        world.read_twice(&v()).await;
        let before = prices(&world);
        assert!(before.len() == 3 && before[0] > 0, "{before:?}");
        drop_some(&world);
        assert_eq!(prices(&world), before[1..]);
        assert_eq!(memory.add_idle(0), before[0]);
        assert_eq!(world.forms(), (3, 0));
    }

    /// They settle although they are few enough to stay beside their frames.
    #[tokio::test]
    async fn idle_victims_settle_while_processors_are_scarce() {
        let world = World::new().await;
        world.shared.memory().gave(OPERATOR, OPERATORS, WHOLE);
        world.read_twice(&v()).await;
        assert_eq!(world.forms(), (3, 0));
        drop_some(&world);
        assert_eq!((world.forms(), prices(&world).len()), ((2, 1), 2));
    }

    #[tokio::test]
    async fn frames_stay_while_devices_are_scarce() {
        let world = World::new().await;
        world.shared.memory().set_arrays_part(0);
        world.read_twice(&v()).await;
        assert_eq!(world.forms(), (3, 0));
    }

    /// For consumers that want other batches, another type, picked rows or pages.
    #[tokio::test]
    async fn other_forms_are_available_while_only_arrays_are_in_memory() {
        let world = World::new().await;
        let column = v();
        world.read_twice(&column).await;
        assert_eq!(world.forms(), (0, 3));
        assert_eq!(values(world.scan(), &column, 128).await, expected());
        assert_eq!(values(world.scan(), &narrow_v(), 300).await, expected());
        assert_eq!(world.forms(), (0, 3));

        let scan = world.scan();
        let lease = scan.next_chunk().await.unwrap().unwrap();
        let other = [narrow_v()];
        assert!(!lease.make_sure_of(&other));
        assert!(
            lease
                .pick(&other, std::slice::from_ref(&(3..5)))
                .await
                .unwrap()
                .is_none()
        );
        drop((lease, scan));

        let view = world.view();
        let chunk = &world.file.chunks().chunks[1];
        let request = PageRequest {
            chunk: 1,
            pieces: chunk.pieces.clone(),
            columns: vec!["v".to_owned()],
        };
        let pages = world.pool.read_pages(&view, &request).await.unwrap();
        assert!(!pages.from_buffer());
        let arrays = pages.decode(0, &[column], None).await.unwrap();
        assert_eq!(numbers(&arrays[0]), (1000..2000).collect::<Vec<i64>>());
        drop(pages);
        assert_eq!(world.shared.memory().page_bytes(), 0);
    }

    /// A scan that holds a chunk keeps its arrays, whatever other scans settle or evict.
    #[tokio::test]
    async fn arrays_in_use_are_not_evicted() {
        let world = World::new().await;
        let column = v();
        world.read_twice(&column).await;
        let scan = world.scan();
        let lease = scan.next_chunk().await.unwrap().unwrap();
        world.shared.memory().set_limit(1);
        assert_eq!(world.forms(), (0, 1));
        let first = lease.batch(&[column], 0).await.unwrap().unwrap();
        assert_eq!(first[0].len(), 1000);
        drop((lease, scan));
    }
}
