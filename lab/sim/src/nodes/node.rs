//! A node: its processors, its buffer, and what it says of itself.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use coscan_core::parallelism::nodes::NodeReport;

use super::ClusterModel;

/// In a shorter time the use of a device says nothing. As in the engine.
const WINDOW_NS: u64 = 200_000_000;

/// A part's work on a piece; on none, what the part costs before.
#[derive(Clone, Copy, Debug)]
pub(super) struct Job {
    pub(super) part: usize,
    pub(super) piece: Option<usize>,
    pub(super) takes_ns: u64,
}

/// See the file's header.
#[derive(Debug)]
pub(super) struct Node {
    processors: usize,
    idle: usize,
    /// Jobs that wait for a processor.
    waiting: VecDeque<Job>,
    /// The parts that have not ended, in the order of arrival.
    pub(super) parts: Vec<usize>,
    buffer_pieces: usize,
    /// The pieces in memory, with the time of their last use.
    held: BTreeMap<usize, u64>,
    /// By piece, how many jobs want it.
    pinned: BTreeMap<usize, usize>,
    reading: BTreeSet<usize>,
    /// How long it has read so far, and since when it has without a break.
    read_ns: u64,
    reading_since: Option<u64>,
    /// When the use of the device was last looked at, how long the node had read then, and what the
    /// use was. Thousandths.
    looked: (u64, u64, u32),
}

impl Node {
    pub(super) fn new(model: &ClusterModel) -> Self {
        Self {
            processors: model.processors,
            idle: model.processors,
            waiting: VecDeque::new(),
            parts: vec![],
            buffer_pieces: model.buffer_pieces,
            held: BTreeMap::new(),
            pinned: BTreeMap::new(),
            reading: BTreeSet::new(),
            read_ns: 0,
            reading_since: None,
            looked: (0, 0, 0),
        }
    }

    /// Takes a job. Returns it if a processor begins it.
    pub(super) fn submit(&mut self, job: Job) -> Option<Job> {
        if self.idle == 0 {
            self.waiting.push_back(job);
            return None;
        }
        self.idle -= 1;
        Some(job)
    }

    /// A processor has done a job. Returns the one that it begins.
    pub(super) fn done(&mut self, job: Job) -> Option<Job> {
        if let Some(piece) = job.piece
            && let Some(jobs) = self.pinned.get_mut(&piece)
        {
            *jobs -= 1;
            if *jobs == 0 {
                self.pinned.remove(&piece);
            }
        }
        let next = self.waiting.pop_front();
        if next.is_none() {
            self.idle += 1;
        }
        next
    }

    pub(super) fn holds(&self, piece: usize) -> bool {
        self.held.contains_key(&piece)
    }

    pub(super) fn reads(&self, piece: usize) -> bool {
        self.reading.contains(&piece)
    }

    /// How many of these pieces are being read.
    pub(super) fn reads_among(&self, pieces: &BTreeSet<usize>) -> usize {
        self.reading.intersection(pieces).count()
    }

    /// A job wants a piece that is in memory.
    pub(super) fn pin(&mut self, piece: usize, now: u64) {
        self.held.insert(piece, now);
        *self.pinned.entry(piece).or_default() += 1;
    }

    /// Makes room for a piece and begins to read it; false if all pieces in memory are wanted.
    pub(super) fn begin_read(&mut self, piece: usize, now: u64) -> bool {
        if self.held.len() + self.reading.len() >= self.buffer_pieces {
            let idle = self.held.iter();
            let idle = idle.filter(|(piece, _)| !self.pinned.contains_key(*piece));
            let oldest = idle.min_by_key(|(piece, used)| (**used, **piece));
            let Some((&oldest, _)) = oldest else {
                return false;
            };
            self.held.remove(&oldest);
        }
        self.reading.insert(piece);
        self.reading_since.get_or_insert(now);
        true
    }

    /// A piece that was read has arrived.
    pub(super) fn arrived(&mut self, piece: usize, now: u64) {
        self.reading.remove(&piece);
        self.held.insert(piece, now);
        if self.reading.is_empty() {
            let since = self.reading_since.take();
            self.read_ns += now - since.unwrap_or(now);
        }
    }

    /// What it says of itself.
    pub(super) fn report(&mut self, now: u64) -> NodeReport {
        let (looked, had_read_ns, _) = self.looked;
        if now - looked >= WINDOW_NS {
            let read_ns = self.read_ns + self.reading_since.map_or(0, |since| now - since);
            let permille = (read_ns - had_read_ns) * 1_000 / (now - looked);
            let permille = u32::try_from(permille).unwrap_or(u32::MAX);
            self.looked = (now, read_ns, permille);
        }
        let tasks = self.processors - self.idle + self.waiting.len();
        NodeReport {
            tasks: u32::try_from(tasks).unwrap_or(u32::MAX),
            processors: u32::try_from(self.processors).unwrap_or(u32::MAX),
            device_permille: self.looked.2,
            free_permille: 1_000,
        }
    }

    pub(super) fn check(&self) {
        let pieces = self.held.len() + self.reading.len();
        assert!(pieces <= self.buffer_pieces, "NODES-I2");
        let wanted = self.pinned.keys().all(|piece| self.holds(*piece));
        assert!(wanted, "NODES-I3");
        let both = self.reading.iter().any(|piece| self.holds(*piece));
        assert!(!both, "NODES-I1");
        assert!(
            self.waiting.is_empty() || self.idle == 0,
            "no processor is idle while a job waits"
        );
    }
}
