//! A scan: registered with the core when it begins, and ended when it is dropped.
//!
//! Idea: the consumers of a scan share it in an `Arc`, so dropping the last of them (a cancel, a
//! LIMIT, an error) ends the scan at once, and the core stops loading for it.
//! Not here: how its consumers get chunks (`hand_out.rs`), which chunks and bytes it needs
//! (`spec.rs`).

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use coscan_core::{ChunkId, ChunkSet, DeviceId, Event, ScanId, ScanSpec};

use super::spec::{ScanPart, ScanRequest, Spec};
use crate::Result;
use crate::pool::state::ScanState;
use crate::pool::{BufferPool, Inner, ScanMetrics, TableView};

/// A running scan. Its consumers share it in an `Arc`; dropping the last reference ends it at
/// once.
pub struct Scan {
    inner: Arc<Inner>,
    id: ScanId,
    table: TableView,
    /// For each chunk: its position in the table, and its part of the request.
    positions: BTreeMap<ChunkId, (usize, usize)>,
    /// The columns wanted, by part.
    columns: Vec<Vec<String>>,
}

impl BufferPool {
    /// Registers a scan with the core.
    ///
    /// # Errors
    /// `ChunkTooLarge` if a chunk can never fit into memory; `Internal` for parts that overlap or
    /// name chunks that the table lacks.
    pub fn scan(&self, request: ScanRequest) -> Result<Scan> {
        let ScanRequest {
            table,
            parts,
            consumers,
            ordered,
            devices_max,
            label,
        } = request;
        let max = self.inner.config.buffer_bytes_max.unwrap_or(u64::MAX);
        let budget = self.inner.shared.memory().limit().min(max);
        let Spec {
            parts: specs,
            positions,
            without_bytes,
            chunks_wanted,
            largest,
        } = Spec::new(&table, &parts, budget)?;
        let mut state = ScanState::new(label, largest);
        state.without_bytes = without_bytes;
        state.metrics.chunks_wanted = chunks_wanted;
        let devices = if ordered || devices_max.is_some() {
            Vec::new()
        } else {
            devices_of(&table, &parts)
        };
        let scan = self.inner.with_state(|pool, effects| {
            if !pool.tables.contains_key(&table.table) {
                return Err(pool.unknown_table(table.table));
            }
            let id = pool.scans.next_id();
            let devices_max = devices_max.or_else(|| pool.degrees.register(id, &devices));
            let consumers = u32::try_from(consumers.max(1)).unwrap_or(u32::MAX);
            let spec = ScanSpec {
                table: table.table,
                parts: specs,
                consumers,
                ordered,
                devices_max,
            };
            // The scan must be known here before the core acts for it.
            pool.scans.insert(id, state);
            let registered = pool.handle(Event::ScanRegistered { scan: id, spec }, effects);
            if let Err(error) = registered {
                pool.scans.remove(id);
                pool.degree_ends(id, effects);
                return Err(error);
            }
            pool.scans.registered(id);
            Ok(id)
        })?;
        Ok(Scan {
            inner: Arc::clone(&self.inner),
            id: scan,
            table,
            positions,
            columns: parts.into_iter().map(|part| part.columns).collect(),
        })
    }
}

impl Scan {
    /// A scan of the remaining batches of a lapsed chunk of this scan, with `more` columns, for
    /// the same consumer, which came back too late `tries` times in a row.
    ///
    /// # Errors
    /// Like [`BufferPool::scan`].
    pub(crate) fn again(
        &self,
        chunk: ChunkId,
        more: &BTreeSet<String>,
        tries: u32,
    ) -> Result<Arc<Self>> {
        let pool = BufferPool {
            inner: Arc::clone(&self.inner),
        };
        let label = self.with_scan(|state| Arc::clone(&state.label));
        let part = ScanPart {
            chunks: vec![self.position(chunk)],
            columns: self.columns_of(chunk).iter().chain(more).cloned().collect(),
        };
        let scan = pool.scan(ScanRequest {
            table: self.table.clone(),
            parts: vec![part],
            consumers: 1,
            ordered: false,
            devices_max: None,
            label: label.unwrap_or_default(),
        })?;
        scan.with_scan(|state| state.again = Some((self.id, tries)));
        Ok(Arc::new(scan))
    }

    /// Tells the core that the scan does not need these chunks. Chunks that are handed out already
    /// are not affected.
    pub fn withdraw(&self, positions: &[usize]) {
        let chunks: ChunkSet = positions
            .iter()
            .filter_map(|&at| self.table.chunks.get(at))
            .map(|c| c.chunk)
            .collect();
        self.inner
            .with_state(|pool, effects| pool.withdraw(self.id, chunks, effects));
    }

    /// The view of the table that the scan's chunks come from.
    #[must_use]
    pub fn table(&self) -> &TableView {
        &self.table
    }

    /// The scan's counters.
    #[must_use]
    pub fn metrics(&self) -> ScanMetrics {
        self.with_scan(|state| state.metrics).unwrap_or_default()
    }

    /// The chunk's position in the table.
    pub(crate) fn position(&self, chunk: ChunkId) -> usize {
        self.positions.get(&chunk).map_or(0, |&(at, _)| at)
    }

    /// The columns wanted of a chunk.
    pub(crate) fn columns_of(&self, chunk: ChunkId) -> &[String] {
        let part = self.positions.get(&chunk).map(|&(_, part)| part);
        part.and_then(|part| self.columns.get(part))
            .map_or(&[], Vec::as_slice)
    }

    pub(crate) fn inner(&self) -> &Arc<Inner> {
        &self.inner
    }

    /// The scan's id in its pool.
    #[must_use]
    pub fn id(&self) -> ScanId {
        self.id
    }

    /// Ends the scan. A consumer that still holds one of its chunks may continue to work on it;
    /// the core then does not know.
    pub(crate) fn end(&self) {
        self.inner.with_state(|pool, effects| {
            let Some(gone) = pool.scans.remove(self.id) else {
                return;
            };
            if let ScanState {
                metrics: more,
                again: Some((whole, _)),
                ..
            } = gone
                && let Some(whole) = pool.scans.get_mut(whole)
            {
                let metrics = &mut whole.metrics;
                metrics.loads += more.loads;
                metrics.load_bytes += more.load_bytes;
                metrics.decode_shared += more.decode_shared;
                metrics.decode_begun += more.decode_begun;
                metrics.chunks_lapsed += more.chunks_lapsed;
                metrics.rows_picked += more.rows_picked;
            }
            Inner::log(pool.handle(Event::ScanEnded { scan: self.id }, effects));
        });
    }

    pub(crate) fn with_scan<T>(&self, work: impl FnOnce(&mut ScanState) -> T) -> Option<T> {
        self.inner.state.lock().scans.get_mut(self.id).map(work)
    }
}

impl Drop for Scan {
    fn drop(&mut self) {
        self.end();
    }
}

impl std::fmt::Debug for Scan {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Scan")
            .field("id", &self.id)
            .finish_non_exhaustive()
    }
}

/// The devices of a scan's chunks, ascending.
fn devices_of(table: &TableView, parts: &[ScanPart]) -> Vec<DeviceId> {
    let chunks = parts.iter().flat_map(|part| &part.chunks);
    let files = chunks.filter_map(|&at| table.chunks.get(at));
    let devices: BTreeSet<DeviceId> = files.map(|info| info.file.device_id()).collect();
    devices.into_iter().collect()
}
