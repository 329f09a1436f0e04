//! A driver of the core that keeps the contract while faults happen.
//!
//! Idea: an agenda of virtual time. The core's requests are put on it (loads that complete in
//! parts or late, consumers that work and come back), its next entry is sent to the core as an
//! event, and after every event the books and `check()` verify the state.
//! Not here: faults of the outside (`faults.rs`), the phase without faults (`liveness.rs`).
//! Bounds: one agenda entry per consumer, load part and page.
//! D1: only possible events are sent; a refusal is a bug here.

use std::collections::BTreeMap;

use coscan_core::{Abm, Action, ChunkId, ColumnId, Event, PageRequestId, ScanId, TableId, Time};

use super::books::{Books, PageState};
use super::options::{Options, between, chance, index};
use super::trace::Trace;
use super::{Counts, Report};
use crate::random::Random;

/// An entry of the agenda.
#[derive(Clone, Debug)]
pub(super) enum Due {
    /// A scan arrives, and faults of the outside happen.
    Arrival,
    /// A short scan of the liveness phase arrives.
    Churn,
    /// A consumer requests a chunk.
    Ask(ScanId, usize),
    /// A consumer that still waits gives up.
    GiveUp(ScanId, usize),
    /// A consumer makes progress on a chunk.
    Progress(ScanId, ChunkId),
    /// The driver takes back the memory of a chunk whose consumer fell silent.
    Lapse(ScanId, ChunkId),
    /// A consumer is done with a chunk.
    Done(ScanId, usize, ChunkId),
    /// Other scans join a job on a chunk that this scan holds.
    BeginJob(ScanId, ChunkId),
    /// The job ends or fails.
    EndJob(ScanId, ChunkId),
    /// The scan that leads the job is cancelled.
    StopHost(ScanId, ChunkId),
    /// A scan that failed or is exhausted is ended.
    End(ScanId),
    /// Columns of a load complete, or fail.
    Part {
        load: u64,
        columns: Vec<ColumnId>,
        fails: bool,
    },
    /// The driver has read a page by itself.
    PageRead(PageRequestId),
    /// A served page is not used from now on.
    PageFreed(PageRequestId),
}

/// One consumer of a scan.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Consumer {
    /// It will request a chunk: an `Ask` is on the agenda, or it is frozen.
    Away,
    /// It waits for a chunk.
    Asking,
    /// It works on a chunk, and requests the next when it is done.
    Working,
    /// It learned that no chunk is left.
    Finished,
}

/// The phase of the run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Phase {
    Safety,
    /// No faults, but short scans keep arriving.
    Liveness,
    /// No arrivals.
    Quiet,
}

/// The driver and its world.
pub(super) struct Driver<'a> {
    pub(super) options: &'a Options,
    pub(super) trace: &'a mut Trace,
    pub(super) abm: Abm,
    pub(super) books: Books,
    pub(super) random: Random,
    pub(super) now: u64,
    pub(super) phase: Phase,
    pub(super) agenda: BTreeMap<(u64, u64), Due>,
    agenda_seq: u64,
    pub(super) consumers: BTreeMap<ScanId, Vec<Consumer>>,
    /// The next steps of consumers that fell silent.
    pub(super) frozen: Vec<Due>,
    /// Scans that arrived in the liveness phase.
    pub(super) churning: Vec<ScanId>,
    pub(super) tables_registered: u32,
    pub(super) scans_registered: u64,
    pub(super) pages_requested: u64,
    last_tick: u64,
    pub(super) counts: Counts,
}

impl<'a> Driver<'a> {
    pub(super) fn new(options: &'a Options, trace: &'a mut Trace) -> Self {
        let config = options.abm();
        trace.config(&config);
        #[cfg_attr(
            not(feature = "canary"),
            expect(unused_mut, reason = "planted in tests only")
        )]
        let mut abm = Abm::new(config);
        #[cfg(feature = "canary")]
        if options.plant_canary {
            abm.plant_canary();
        }
        Self {
            options,
            trace,
            abm,
            books: Books::default(),
            random: Random::new(options.seed),
            now: 0,
            phase: Phase::Safety,
            agenda: BTreeMap::new(),
            agenda_seq: 0,
            consumers: BTreeMap::new(),
            frozen: Vec::new(),
            churning: Vec::new(),
            tables_registered: 0,
            scans_registered: 0,
            pages_requested: 0,
            last_tick: 0,
            counts: Counts::default(),
        }
    }

    pub(super) fn report(self) -> Report {
        Report {
            hash: self.trace.hash(),
            events: self.trace.events,
            actions: self.trace.actions,
            bound_used_permille: 0,
            counts: self.counts,
        }
    }

    pub(super) fn put(&mut self, wait: u64, due: Due) {
        self.agenda_seq += 1;
        self.agenda
            .insert((self.now.saturating_add(wait), self.agenda_seq), due);
    }

    /// Carries out the next agenda entry, if it is due by `until`.
    pub(super) fn step(&mut self, until: u64) -> bool {
        let next = self.agenda.first_key_value().map(|(&(at, _), _)| at);
        let deadline = self.abm.next_deadline();
        let tick = deadline.map(|due| {
            due.0
                .max(self.last_tick + self.options.tick_ns)
                .max(self.now)
        });
        let (at, is_tick) = match (next, tick) {
            (Some(at), Some(tick)) if tick < at => (tick, true),
            (Some(at), _) => (at, false),
            (None, Some(tick)) => (tick, true),
            (None, None) => return false,
        };
        if at > until {
            return false;
        }
        self.now = at;
        if is_tick {
            self.last_tick = at;
            self.tell(&Event::TimePassed, None);
        } else if let Some((_, due)) = self.agenda.pop_first() {
            self.happen(due);
        }
        true
    }

    fn happen(&mut self, due: Due) {
        match due {
            Due::Arrival => self.arrival(),
            Due::Churn => self.churn(),
            Due::Ask(scan, at) => self.ask(scan, at),
            Due::GiveUp(scan, at) => {
                if self.consumer(scan, at) == Some(Consumer::Asking) {
                    self.counts.requests_withdrawn += 1;
                    self.set_consumer(scan, at, Consumer::Away);
                    self.tell(&Event::RequestWithdrawn { scan }, None);
                    let wait = self.think_time();
                    self.put(wait, Due::Ask(scan, at));
                }
            }
            Due::Progress(scan, chunk) => {
                let books = self.books.scans.get(&scan);
                if books.is_some_and(|books| books.held.contains(&chunk)) {
                    self.tell(&Event::ChunkProgressed { scan, chunk }, None);
                }
            }
            Due::Lapse(scan, chunk) => {
                let books = self.books.scans.get(&scan);
                if books.is_some_and(|books| books.held.contains(&chunk)) {
                    self.counts.lapses += 1;
                    let led = self.books.jobs.contains_key(&(scan, chunk));
                    self.counts.jobs_lapsed += u64::from(led);
                    self.tell(&Event::ChunkLapsed { scan, chunk }, None);
                }
            }
            Due::Done(scan, at, chunk) => self.done(scan, at, chunk),
            Due::BeginJob(scan, chunk) => self.begin_job(scan, chunk),
            Due::EndJob(scan, chunk) => self.end_job(scan, chunk),
            Due::StopHost(scan, chunk) => self.stop_host(scan, chunk),
            Due::End(scan) => {
                if self.books.scans.contains_key(&scan) {
                    self.end(scan);
                }
            }
            Due::Part {
                load,
                columns,
                fails,
            } => self.part(load, &columns, fails),
            Due::PageRead(request) => {
                // The driver may have read the page before it learned that a load brings it.
                if self.books.pages.contains_key(&request) {
                    self.tell(&Event::PageCompleted { request }, None);
                }
            }
            Due::PageFreed(request) => self.tell(&Event::PageReleased { request }, None),
        }
    }

    pub(super) fn consumer(&self, scan: ScanId, at: usize) -> Option<Consumer> {
        self.consumers.get(&scan).map(|all| all[at])
    }

    pub(super) fn set_consumer(&mut self, scan: ScanId, at: usize, to: Consumer) {
        if let Some(all) = self.consumers.get_mut(&scan) {
            all[at] = to;
        }
    }

    fn ask(&mut self, scan: ScanId, at: usize) {
        if self.consumer(scan, at) != Some(Consumer::Away) || self.books.scans[&scan].failed {
            return;
        }
        self.set_consumer(scan, at, Consumer::Asking);
        self.tell(&Event::ChunkRequested { scan }, None);
        let gives_up = self.fault(self.options.faults.request_withdrawn);
        if gives_up && self.consumer(scan, at) == Some(Consumer::Asking) {
            let wait = self.random.below(self.options.load_ns * 2);
            self.put(wait, Due::GiveUp(scan, at));
        }
    }

    fn done(&mut self, scan: ScanId, at: usize, chunk: ChunkId) {
        let Some(books) = self.books.scans.get(&scan) else {
            return;
        };
        debug_assert!(
            books.held.contains(&chunk) || books.has_lapsed(chunk),
            "D1: it works on a chunk that it holds"
        );
        self.tell(&Event::ChunkReleased { scan, chunk }, None);
        if self.consumer(scan, at) == Some(Consumer::Working) {
            self.set_consumer(scan, at, Consumer::Away);
            self.goes_on(scan, at);
        }
        self.end_if_finished(scan);
    }

    /// A consumer that is away requests a chunk soon, or falls silent.
    pub(super) fn goes_on(&mut self, scan: ScanId, at: usize) {
        if self.fault(self.options.faults.consumer_stalls) {
            self.silence(Due::Ask(scan, at));
        } else {
            let wait = self.think_time();
            self.put(wait, Due::Ask(scan, at));
        }
    }

    /// The consumer's next step happens late, or never.
    fn silence(&mut self, due: Due) {
        self.counts.stalls += 1;
        if chance(&mut self.random, 300) {
            self.frozen.push(due);
        } else {
            let most = self.options.stall_after_ns * 3 + self.options.load_ns;
            let wait = self.random.below(most);
            self.put(wait, due);
        }
    }

    fn part(&mut self, load: u64, columns: &[ColumnId], fails: bool) {
        let Some(entry) = self.books.load(load) else {
            return;
        };
        let (table, chunk) = entry.place;
        // Columns that failed meanwhile with a shared extent do not arrive.
        let columns: Vec<ColumnId> = columns
            .iter()
            .copied()
            .filter(|column| entry.columns.contains(column))
            .collect();
        if columns.is_empty() {
            return;
        }
        let event = if fails {
            self.counts.load_failures += 1;
            Event::LoadFailed {
                table,
                chunk,
                columns,
            }
        } else {
            Event::LoadCompleted {
                table,
                chunk,
                columns,
            }
        };
        self.tell(&event, Some(load));
        // A failed extent also fails every column that waits for it, of other chunks too.
        while let Some((load, columns)) = self.books.memory.orphans() {
            let (table, chunk) = self.books.memory.loads[&load].place;
            let event = Event::LoadFailed {
                table,
                chunk,
                columns,
            };
            self.tell(&event, Some(load));
        }
    }

    fn end_if_finished(&mut self, scan: ScanId) {
        let finished = self.consumers.get(&scan).is_some_and(|all| {
            let mut all = all.iter();
            all.all(|consumer| *consumer == Consumer::Finished)
        });
        let books = &self.books.scans;
        if finished && books[&scan].held.is_empty() && books[&scan].lapsed == 0 {
            self.put(0, Due::End(scan));
        }
    }

    pub(super) fn end(&mut self, scan: ScanId) {
        self.consumers.remove(&scan);
        self.counts.scans_ended += 1;
        self.tell(&Event::ScanEnded { scan }, None);
        if let Some(at) = self.churning.iter().position(|churning| *churning == scan) {
            self.churning.swap_remove(at);
            let wait = 1 + self.random.below(self.options.load_ns / 4 + 1);
            self.put(wait, Due::Churn);
        }
    }

    pub(super) fn think_time(&mut self) -> u64 {
        between(&mut self.random, 1, self.options.work_ns / 10 + 1)
    }

    pub(super) fn work_time(&mut self) -> u64 {
        between(
            &mut self.random,
            self.options.work_ns / 2,
            self.options.work_ns,
        )
    }

    /// Whether a fault with this rate happens now.
    pub(super) fn fault(&mut self, of_1000: u64) -> bool {
        self.phase == Phase::Safety && of_1000 > 0 && chance(&mut self.random, of_1000)
    }

    /// Sends an event to the core and carries out its actions. `load` is the load that completed
    /// or failed, if the event is about one.
    pub(super) fn tell(&mut self, event: &Event, load: Option<u64>) {
        let now = Time(self.now);
        self.trace.event(now, event);
        if let Event::ChunksAppended {
            table,
            chunks,
            shared,
        } = event
        {
            self.append(*table, chunks, shared);
        }
        self.books.enter(event, load);
        let outcome = self.abm.handle(now, event.clone());
        assert!(outcome.is_ok(), "D1: {event:?} is refused: {outcome:?}");
        while let Some(action) = self.abm.poll_action() {
            self.trace.action(&action);
            let load = self.books.carry_out(&action);
            self.react(&action, load);
        }
        let served = self.options.turns.is_none();
        self.books.check_after(event, self.options.policy, served);
        assert_eq!(
            self.abm.used_bytes(),
            self.books.memory.used,
            "ABM-I3: bytes are accounted for"
        );
        self.abm.check();
    }

    fn react(&mut self, action: &Action, load: Option<u64>) {
        match action {
            Action::Load { columns, .. } => self.begin_load(load.unwrap_or(0), columns),
            Action::Deliver { scan, chunk, .. } => self.begin_work(*scan, *chunk),
            Action::Exhausted { scan } => {
                if let Some(at) = self.first_asking(*scan) {
                    self.set_consumer(*scan, at, Consumer::Finished);
                }
                self.end_if_finished(*scan);
            }
            Action::Fail { scan, .. } => {
                self.counts.scans_failed += 1;
                // `Fail` answers every waiting consumer.
                while let Some(at) = self.first_asking(*scan) {
                    self.set_consumer(*scan, at, Consumer::Finished);
                }
                let wait = self.think_time();
                self.put(wait, Due::End(*scan));
            }
            Action::ServePage { request } => {
                self.counts.pages_served += 1;
                let wait = self.work_time();
                self.put(wait, Due::PageFreed(*request));
            }
            Action::Evict { .. } | Action::EvictExtent { .. } => self.counts.evictions += 1,
            _ => {}
        }
    }

    fn first_asking(&self, scan: ScanId) -> Option<usize> {
        let consumers = self.consumers.get(&scan)?;
        consumers.iter().position(|c| *c == Consumer::Asking)
    }

    fn begin_work(&mut self, scan: ScanId, chunk: ChunkId) {
        self.counts.deliveries += 1;
        let Some(at) = self.first_asking(scan) else {
            return;
        };
        let done = Due::Done(scan, at, chunk);
        if self.fault(self.options.faults.consumer_stalls) {
            self.set_consumer(scan, at, Consumer::Working);
            if self.fault(self.options.faults.chunk_lapses) {
                let wait = self.random.below(self.options.stall_after_ns * 2);
                self.put(wait, Due::Lapse(scan, chunk));
            }
            self.silence(done);
            self.may_begin_job(scan, chunk, 0);
            return;
        }
        let wait = self.work_time();
        self.put(wait, done);
        self.may_begin_job(scan, chunk, wait);
        if self.options.turns.is_some() && chance(&mut self.random, 500) {
            self.put(wait / 2, Due::Progress(scan, chunk));
        }
        if self.fault(self.options.faults.consumer_hoards) {
            self.counts.hoards += 1;
            self.set_consumer(scan, at, Consumer::Away);
            let wait = self.think_time();
            self.put(wait, Due::Ask(scan, at));
        } else {
            self.set_consumer(scan, at, Consumer::Working);
        }
    }

    /// Puts the completion of a load's columns on the agenda.
    fn begin_load(&mut self, load: u64, columns: &[ColumnId]) {
        self.counts.loads += 1;
        let mut left = columns.to_vec();
        let parts = if self.fault(self.options.faults.load_comes_in_parts) {
            self.random.shuffle(&mut left);
            left.len()
        } else {
            1
        };
        let late = self.fault(self.options.faults.load_is_late);
        let most = self.options.load_ns * if late { 20 } else { 1 };
        for _ in 0..parts {
            let columns = left.split_off(left.len().saturating_sub(columns.len() / parts));
            let fails = self.fault(self.options.faults.load_fails);
            let wait = between(&mut self.random, most / 4, most);
            self.put(
                wait,
                Due::Part {
                    load,
                    columns,
                    fails,
                },
            );
        }
    }

    fn append(
        &mut self,
        table: TableId,
        chunks: &[coscan_core::ChunkLayout],
        shared: &[coscan_core::SharedExtent],
    ) {
        if let Some(entry) = self.books.memory.tables.get_mut(&table) {
            entry.append(coscan_core::TableLayout {
                columns: 0,
                chunks: chunks.to_vec(),
                shared: shared.to_vec(),
            });
        }
    }

    /// The number of page requests that are open and not served.
    pub(super) fn pages_open(&self) -> usize {
        let open = self.books.pages.values();
        open.filter(|page| page.state != PageState::Served).count()
    }

    /// One of the items, drawn at random.
    pub(super) fn one_of<T: Copy>(&mut self, from: &[T]) -> Option<T> {
        (!from.is_empty()).then(|| from[index(&mut self.random, from.len())])
    }
}
