//! Faults of the outside: scans and tables arrive, leave and change.
//!
//! Idea: at every arrival each kind of fault may happen once.
//! Not here: faults of loads and consumers (`driver.rs`).

use coscan_core::{
    ChunkId, ChunkLayout, ChunkSet, ColumnId, DeviceId, Event, PageRequestId, Part, ScanId,
    ScanSpec, SharedExtent, TableId, TableLayout,
};

use super::driver::{Consumer, Driver, Due};
use super::memory::{Mask, set};
use super::options::{between, chance, pick};

impl Driver<'_> {
    /// Tables, the first budget, the first arrival.
    pub(super) fn begin(&mut self) {
        for _ in 0..self.options.tables {
            self.register_table();
        }
        let bytes = self.all_bytes() / 100 * self.options.budget_percent;
        self.tell(&Event::BudgetChanged { bytes }, None);
        self.put(0, Due::Arrival);
    }

    /// Bytes of all tables.
    fn all_bytes(&self) -> u64 {
        let tables = self.books.memory.tables.values();
        let bytes = tables.flat_map(|table| {
            let own = table.layout.chunks.iter().flat_map(|chunk| &chunk.bytes);
            own.copied()
                .chain(table.layout.shared.iter().map(|e| e.bytes))
        });
        bytes.sum()
    }

    pub(super) fn arrival(&mut self) {
        let faults = self.options.faults;
        if self.books.scans.len() < self.options.scans_max {
            let whole = chance(&mut self.random, 300);
            let most = if whole {
                u32::MAX
            } else {
                self.options.chunks_max / 2 + 1
            };
            self.register_scan(None, most, self.options.consumers_max);
        }
        if self.fault(faults.scan_cancelled)
            && let Some(scan) = self.any_scan()
        {
            self.counts.cancels += 1;
            self.end(scan);
        }
        if self.fault(faults.chunks_withdrawn) {
            self.withdraw_chunks();
        }
        if self.fault(faults.budget_changed) {
            self.counts.budgets += 1;
            let percent = pick(&mut self.random, &[0, 3, 10, 30, 60, 150]);
            let bytes = self.all_bytes() / 100 * percent + self.random.below(64);
            self.tell(&Event::BudgetChanged { bytes }, None);
        }
        if self.fault(faults.table_changed) {
            self.change_table();
        }
        if self.fault(faults.page_requested) {
            self.request_page();
        }
        let wait = self.random.below(self.options.arrive_ns + 1);
        self.put(wait, Due::Arrival);
    }

    fn any_scan(&mut self) -> Option<ScanId> {
        let scans: Vec<ScanId> = self.books.scans.keys().copied().collect();
        self.one_of(&scans)
    }

    fn any_table(&mut self) -> Option<TableId> {
        let tables: Vec<TableId> = self.books.memory.tables.keys().copied().collect();
        self.one_of(&tables)
    }

    fn withdraw_chunks(&mut self) {
        let Some(scan) = self.any_scan() else { return };
        let table = self.books.scans[&scan].table;
        let chunks = self.some_chunks(table, self.options.chunks_max / 3 + 1);
        self.counts.withdrawals += 1;
        self.tell(&Event::ChunksWithdrawn { scan, chunks }, None);
    }

    /// Appends chunks to a table, or registers a new version of it; drops unused tables.
    fn change_table(&mut self) {
        self.counts.versions += 1;
        if chance(&mut self.random, 500)
            && let Some(table) = self.any_table()
        {
            let layout = &self.books.memory.table(table).layout;
            let (columns, first) = (layout.columns, self.books.memory.table(table).len());
            let count = pick(&mut self.random, &[0, 1, 3]);
            let TableLayout { chunks, shared, .. } = self.draw_layout(columns, first, count);
            self.tell(
                &Event::ChunksAppended {
                    table,
                    chunks,
                    shared,
                },
                None,
            );
        } else if self.books.memory.tables.len() < TABLES_MAX {
            self.register_table();
        }
        self.drop_unused();
    }

    /// Drops all unused tables except the newest.
    fn drop_unused(&mut self) {
        let tables: Vec<TableId> = self.books.memory.tables.keys().copied().collect();
        for &table in tables.iter().rev().skip(1) {
            if self.books.is_unused(table) {
                self.counts.tables_dropped += 1;
                self.tell(&Event::TableDropped { table }, None);
            }
        }
    }

    fn register_table(&mut self) {
        let table = TableId(self.tables_registered);
        self.tables_registered += 1;
        let most = u64::from(self.options.columns_max);
        let columns = between(&mut self.random, most.div_ceil(2), most);
        let columns = u16::try_from(columns).unwrap_or(1);
        let most = u64::from(self.options.chunks_max);
        let count = if chance(&mut self.random, 30) {
            0
        } else {
            between(&mut self.random, most.div_ceil(4), most)
        };
        let count = u32::try_from(count).unwrap_or(1);
        let layout = self.draw_layout(columns, 0, count);
        self.tell(&Event::TableRegistered { table, layout }, None);
    }

    fn draw_layout(&mut self, columns: u16, first: u32, count: u32) -> TableLayout {
        let random = &mut self.random;
        let devices = u64::from(self.options.devices);
        let even = self.options.even_sizes;
        let mut bytes = || match random.below(8) {
            _ if even => 64,
            0 => 0,
            1 | 2 => 1 + random.below(3),
            _ => 1 + random.below(100),
        };
        let chunks: Vec<Box<[u64]>> = (0..count)
            .map(|_| (0..columns).map(|_| bytes()).collect())
            .collect();
        let chunks = chunks.into_iter().map(|bytes| ChunkLayout {
            device: DeviceId(u16::try_from(random.below(devices)).unwrap_or(0)),
            bytes,
        });
        let chunks = chunks.collect();
        let extents = (count * self.options.shared_percent).div_ceil(100);
        let shared = (0..if count == 0 { 0 } else { extents }).map(|_| {
            let at = self.random.below(count.into());
            let more = self.random.below(4);
            let chunk = |at: u64| {
                let at = u32::try_from(at).unwrap_or(0).min(count - 1);
                ChunkId(first + at)
            };
            SharedExtent {
                column: ColumnId(u16::try_from(self.random.below(columns.into())).unwrap_or(0)),
                first: chunk(at),
                last: chunk(at + more),
                bytes: self.random.below(40),
            }
        });
        TableLayout {
            columns,
            chunks,
            shared: shared.collect(),
        }
    }

    /// A run of at most `most` chunks of a table.
    fn some_chunks(&mut self, table: TableId, most: u32) -> ChunkSet {
        let count = self.books.memory.table(table).len();
        if count == 0 {
            return ChunkSet::new();
        }
        let length = between(&mut self.random, 1, most.min(count).into());
        let start = self.random.below(u64::from(count) - length + 1);
        let [start, end] = [start, start + length].map(|at| u32::try_from(at).unwrap_or(0));
        ChunkSet::from_range(start..end)
    }

    fn some_columns(&mut self, table: TableId) -> Mask {
        let all = self.books.memory.table(table).all();
        let drawn = u16::try_from(self.random.below(1 << 16)).unwrap_or(0) & all;
        if drawn == 0 { 1 } else { drawn }
    }

    /// Registers a scan of up to `most` chunks in each of its parts, and up to `consumers_max`
    /// consumers.
    pub(super) fn register_scan(
        &mut self,
        table: Option<TableId>,
        most: u32,
        consumers_max: u32,
    ) -> Option<ScanId> {
        let table = table.or_else(|| self.any_table())?;
        let mut free = ChunkSet::from_range(0..self.books.memory.table(table).len());
        let mut parts: Vec<Part> = Vec::new();
        for _ in 0..pick(&mut self.random, &[1, 1, 1, 2, 4]) {
            let chunks = free.intersection(&self.some_chunks(table, most));
            chunks.runs().for_each(|run| free.remove_range(run));
            let columns = set(self.some_columns(table));
            if !chunks.is_empty() {
                parts.push(Part { chunks, columns });
            }
        }
        let scan = ScanId(self.scans_registered);
        self.scans_registered += 1;
        let consumers = between(&mut self.random, 1, consumers_max.into());
        let consumers = u32::try_from(consumers).unwrap_or(1);
        let ordered = self.random.below(100) < self.options.ordered_percent;
        let away = vec![Consumer::Away; consumers as usize];
        self.consumers.insert(scan, away);
        let spec = ScanSpec {
            table,
            parts,
            consumers,
            ordered,
            devices_max: None,
        };
        self.counts.scans += 1;
        self.tell(&Event::ScanRegistered { scan, spec }, None);
        for consumer in 0..consumers as usize {
            let wait = self.think_time();
            self.put(wait, Due::Ask(scan, consumer));
        }
        Some(scan)
    }

    fn request_page(&mut self) {
        let Some(table) = self.any_table() else {
            return;
        };
        let count = self.books.memory.table(table).len();
        if count == 0 || self.pages_open() >= PAGES_MAX {
            return;
        }
        self.counts.pages += 1;
        let chunk = ChunkId(u32::try_from(self.random.below(count.into())).unwrap_or(0));
        let columns = set(self.some_columns(table));
        let request = PageRequestId(self.pages_requested);
        self.pages_requested += 1;
        self.tell(
            &Event::PageRequested {
                request,
                table,
                chunk,
                columns,
            },
            None,
        );
        // The driver reads the page by itself, after a delay.
        let wait = self.random.below(self.options.load_ns * 4);
        self.put(wait, Due::PageRead(request));
    }
}

/// More tables would only make runs longer.
const TABLES_MAX: usize = 4;
const PAGES_MAX: usize = 12;
