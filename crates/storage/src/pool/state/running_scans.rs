//! Which scans run, and what do their consumers get?
//!
//! SCANS-I1: `largest_load_bytes` is the most that a scan among these needs for a load.
//! Not here: how a scan begins and how its consumers ask (`../scans`), which chunk comes next
//! (coscan-core).

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::task::Waker;
use std::time::{Duration, Instant};

use coscan_core::{Abm, ChunkId, LoadOrigin, ScanId, TableId};

use crate::StorageError;
use crate::pool::limits::DOUBLINGS_MAX;

/// The answer to a consumer that asked for a chunk.
#[derive(Clone, Debug)]
pub(crate) enum Answer {
    Chunk(Handed),
    Exhausted,
}

/// A chunk that a consumer may take.
#[derive(Clone, Debug)]
pub(crate) struct Handed {
    pub(crate) chunk: ChunkId,
    pub(crate) origin: LoadOrigin,
    /// False for a chunk without bytes: the core does not know of it.
    pub(crate) known: bool,
    /// Whether the chunk stayed untaken for so long that its memory was taken back.
    pub(crate) lapsed: bool,
    pub(crate) since: Instant,
}

impl Handed {
    pub(crate) fn new(chunk: ChunkId, origin: LoadOrigin, known: bool) -> Self {
        Self {
            chunk,
            origin,
            known,
            lapsed: false,
            since: Instant::now(),
        }
    }
}

/// One running scan.
#[derive(Default)]
pub(crate) struct ScanState {
    pub(crate) label: Arc<str>,
    pub(crate) answers: VecDeque<Answer>,
    /// Chunks of which the scan needs no bytes; the pool hands them out without the core.
    pub(crate) without_bytes: VecDeque<ChunkId>,
    /// Consumers that wait in `next_chunk`.
    pub(crate) claims: usize,
    pub(crate) wakers: Vec<Waker>,
    pub(crate) failure: Option<StorageError>,
    /// The scan's largest chunk; `None` if no chunk has bytes.
    largest: Option<LargestLoad>,
    pub(crate) metrics: ScanMetrics,
    /// For a scan of the rest of a lapsed chunk: the scan that the chunk came from, and how often
    /// in a row the consumer came back too late.
    pub(crate) again: Option<(ScanId, u32)>,
}

impl ScanState {
    pub(crate) fn new(label: Arc<str>, largest: Option<LargestLoad>) -> Self {
        Self {
            label,
            largest,
            ..Self::default()
        }
    }
}

/// The chunk of which a scan needs the most bytes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LargestLoad {
    pub(crate) bytes: u64,
    pub(crate) table: TableId,
    pub(crate) chunk: ChunkId,
}

/// Counters of a scan.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ScanMetrics {
    /// Chunks that the scan requested.
    pub chunks_wanted: u64,
    /// Chunks that the scan withdrew before they were handed out.
    pub chunks_withdrawn: u64,
    /// Chunks that other scans' jobs worked on for this scan.
    pub chunks_joined: u64,
    /// Chunks handed out that were in memory when the scan began.
    pub chunks_from_buffer: u64,
    /// Chunks handed out that were loaded for this scan.
    pub chunks_loaded_for_me: u64,
    /// Chunks handed out that were loaded for other scans while this scan ran.
    pub chunks_loaded_for_others: u64,
    /// Chunks handed out of which the scan needed no bytes.
    pub chunks_without_bytes: u64,
    /// Loads chosen for this scan.
    pub loads: u64,
    /// Bytes of those loads.
    pub load_bytes: u64,
    /// Chunks whose memory was taken back because the consumer was silent for long.
    pub chunks_lapsed: u64,
    /// Segments whose decode this scan shared with another scan or found finished.
    pub decode_shared: u64,
    /// Segments whose decode this scan began.
    pub decode_begun: u64,
    /// Rows that were picked from columns for this scan, because no other scan needed the columns.
    pub rows_picked: u64,
    /// Time that consumers waited for a chunk, summed over consumers. Nanoseconds.
    pub waited_ns: u64,
}

/// The scans that run.
#[derive(Default)]
pub(crate) struct Scans {
    by_id: BTreeMap<ScanId, ScanState>,
    next: u64,
    /// Chunks that the core delivered to scans that then failed before a consumer took them. They
    /// go back to the core with the next event.
    untaken: Vec<(ScanId, ChunkId)>,
    largest_load_bytes: u64,
}

impl Scans {
    /// The id of the next scan.
    pub(crate) fn next_id(&self) -> ScanId {
        ScanId(self.next)
    }

    /// Adds a scan of which the core is about to learn.
    pub(crate) fn insert(&mut self, id: ScanId, scan: ScanState) {
        self.by_id.insert(id, scan);
        self.find_largest();
    }

    /// The core knows the scan: no other one gets its id.
    pub(crate) fn registered(&mut self, id: ScanId) {
        self.next = id.0 + 1;
    }

    pub(crate) fn remove(&mut self, id: ScanId) -> Option<ScanState> {
        let gone = self.by_id.remove(&id);
        self.find_largest();
        gone
    }

    pub(crate) fn get(&self, id: ScanId) -> Option<&ScanState> {
        self.by_id.get(&id)
    }

    pub(crate) fn get_mut(&mut self, id: ScanId) -> Option<&mut ScanState> {
        self.by_id.get_mut(&id)
    }

    pub(crate) fn contains(&self, id: ScanId) -> bool {
        self.by_id.contains_key(&id)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.by_id.is_empty()
    }

    /// The bytes of the largest load that a scan needs.
    pub(crate) fn largest_load_bytes(&self) -> u64 {
        self.largest_load_bytes
    }

    /// SCANS-I1
    fn find_largest(&mut self) {
        let largest = self.by_id.values().filter_map(|scan| scan.largest);
        self.largest_load_bytes = largest.map(|largest| largest.bytes).max().unwrap_or(0);
    }

    /// The scans that need a load of more than `bytes`, and have not failed.
    pub(crate) fn that_need_more(&self, bytes: u64) -> Vec<(ScanId, LargestLoad)> {
        let running = self.by_id.iter().filter(|(_, scan)| scan.failure.is_none());
        running
            .filter_map(|(id, scan)| Some((*id, scan.largest?)))
            .filter(|(_, largest)| largest.bytes > bytes)
            .collect()
    }

    /// The scan needs no load any more. False if there is no such scan.
    pub(crate) fn needs_no_load(&mut self, id: ScanId) -> bool {
        let Some(scan) = self.by_id.get_mut(&id) else {
            return false;
        };
        scan.largest = None;
        self.find_largest();
        true
    }

    /// Fails a scan. Adds the wakers of its consumers to `wakers`.
    pub(super) fn fail(&mut self, id: ScanId, error: StorageError, wakers: &mut Vec<Waker>) {
        let Some(scan) = self.by_id.get_mut(&id) else {
            return;
        };
        scan.failure = Some(error);
        wakers.append(&mut scan.wakers);
        for answer in scan.answers.drain(..) {
            if let Answer::Chunk(handed) = answer {
                self.untaken.push((id, handed.chunk));
            }
        }
    }

    /// The core that knew the scans is gone: fails all that have not failed. Adds the wakers of
    /// their consumers to `wakers`.
    pub(super) fn fail_all(&mut self, error: &StorageError, wakers: &mut Vec<Waker>) {
        self.untaken.clear();
        for scan in self.by_id.values_mut() {
            scan.failure.get_or_insert_with(|| error.clone());
            scan.largest = None;
            wakers.append(&mut scan.wakers);
        }
        self.find_largest();
    }

    /// The next chunk that a failed scan has for the core.
    pub(super) fn next_untaken(&mut self) -> Option<(ScanId, ChunkId)> {
        self.untaken.pop()
    }

    /// Marks chunks as lapsed that were delivered and that no consumer has taken for `after`.
    /// Returns those that the core knows of.
    pub(super) fn lapse_untaken(&mut self, after: Duration) -> Vec<(ScanId, ChunkId)> {
        let mut lapsed = Vec::new();
        for (&id, scan) in &mut self.by_id {
            let tries = scan.again.map_or(0, |(_, tries)| tries);
            let patience = after * (1 << tries.min(DOUBLINGS_MAX));
            for answer in &mut scan.answers {
                if let Answer::Chunk(handed) = answer
                    && !handed.lapsed
                    && handed.since.elapsed() >= patience
                {
                    handed.lapsed = true;
                    lapsed.extend(handed.known.then_some((id, handed.chunk)));
                }
            }
        }
        lapsed
    }
}

/// The bytes of frames that only stalled scans need, at the last count.
pub(crate) struct Stalled {
    bytes: u64,
    counted_at: Instant,
}

/// How old a count may be. Counting visits every frame that may be evicted, and a scan stalls only
/// after several hundred milliseconds.
const STALLED_RECOUNTED: Duration = Duration::from_millis(50);

impl Stalled {
    /// No scan runs yet.
    pub(crate) fn none() -> Self {
        Self {
            bytes: 0,
            counted_at: Instant::now(),
        }
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    pub(crate) fn count(&mut self, abm: &Abm) {
        self.bytes = abm.stalled_bytes();
        self.counted_at = Instant::now();
    }

    /// Counts if the last count is old.
    pub(crate) fn recount(&mut self, abm: &Abm) {
        if self.counted_at.elapsed() > STALLED_RECOUNTED {
            self.count(abm);
        }
    }
}
