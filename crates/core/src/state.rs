//! What the buffer manager knows: tables, scans, and which bytes are in memory or being loaded.
//!
//! Idea: rules (`policy/`) read the state and choose, the manager (`abm/`) changes it. So a policy
//! can change nothing, and neither needs the other's files. Available chunks are counted as they
//! come and go, so that finding out whether a scan is starved is cheap.
//! Not here: waiting consumers, turns, jobs, page requests and actions (`abm/`).
//! Source of starvation: [CoopScans07 Figure 3, queryStarved]; we differ: outstanding loads count
//! as available.

use std::collections::{BTreeMap, BTreeSet};

use indexmap::IndexMap;
use rustc_hash::FxBuildHasher;
use smallvec::SmallVec;

use crate::bits::Bits;
use crate::table::Table;
use crate::table::scan::Scan;
use crate::{ChunkId, ColumnSet, DeviceId, ScanId, StorageModel, TableId, Time};

/// Tables and scans, and which segments are held and loaded.
#[derive(Debug)]
pub(crate) struct State {
    pub(crate) model: StorageModel,
    /// The most outstanding loads per device.
    pub(crate) loads_max: usize,
    /// See `AbmConfig::wait_unit_ns`.
    pub(crate) wait_unit_ns: u64,
    pub(crate) now: Time,
    /// The sequence number: ascends with every event that is ordered by time.
    seq: u64,
    pub(crate) budget: u64,
    /// ABM-I3: bytes resident or loading.
    pub(crate) used: u64,
    pub(crate) tables: BTreeMap<TableId, Table>,
    /// Ascending by id, because ids ascend as scans register. A load looks up every scan that wants
    /// it, so a lookup has to be cheap.
    pub(crate) scans: IndexMap<ScanId, Scan, FxBuildHasher>,
    /// The starved scans: loads are chosen for these.
    pub(crate) hungry: BTreeSet<ScanId>,
    /// Outstanding loads of each device.
    pub(crate) outstanding: BTreeMap<DeviceId, usize>,
    pub(crate) devices: BTreeSet<DeviceId>,
}

/// A load that a policy chose.
#[derive(Debug)]
pub(crate) struct LoadChoice {
    pub(crate) table: TableId,
    pub(crate) chunk: ChunkId,
    pub(crate) columns: ColumnSet,
    pub(crate) scan: ScanId,
}

impl State {
    pub(crate) fn new(
        model: StorageModel,
        budget: u64,
        loads_max: usize,
        wait_unit_ns: u64,
    ) -> Self {
        Self {
            model,
            loads_max,
            wait_unit_ns,
            now: Time(0),
            seq: 0,
            budget,
            used: 0,
            tables: BTreeMap::new(),
            scans: IndexMap::default(),
            hungry: BTreeSet::new(),
            outstanding: BTreeMap::new(),
            devices: BTreeSet::new(),
        }
    }

    pub(crate) fn next_seq(&mut self) -> u64 {
        self.seq += 1;
        self.seq
    }

    /// The sequence number that was given out last.
    pub(crate) fn peek_seq(&self) -> u64 {
        self.seq
    }

    pub(crate) fn table(&self, id: TableId) -> &Table {
        self.tables
            .get(&id)
            .expect("scans and loads name registered tables")
    }

    pub(crate) fn table_mut(&mut self, id: TableId) -> &mut Table {
        self.tables
            .get_mut(&id)
            .expect("scans and loads name registered tables")
    }

    pub(crate) fn scan(&self, id: ScanId) -> &Scan {
        self.scans.get(&id).expect("slots name registered scans")
    }

    pub(crate) fn scan_mut(&mut self, id: ScanId) -> &mut Scan {
        self.scans
            .get_mut(&id)
            .expect("slots name registered scans")
    }

    /// Whether another load may start on the device.
    pub(crate) fn device_free(&self, device: DeviceId) -> bool {
        self.outstanding.get(&device).copied().unwrap_or(0) < self.loads_max
    }

    /// The places of a table's devices on which another load may start, the device with the fewest
    /// outstanding loads first: an idle device gets a load before a busy one gets its next.
    pub(crate) fn free_places(&self, table: &Table) -> SmallVec<[(usize, usize); 4]> {
        let loads = |device: &DeviceId| self.outstanding.get(device).copied().unwrap_or(0);
        let devices = table.devices.iter().enumerate();
        let places = devices.map(|(place, device)| (loads(device), place));
        let mut free: SmallVec<_> = places
            .filter(|&(loads, _)| loads < self.loads_max)
            .collect();
        free.sort_unstable();
        free
    }

    /// Bytes that a load brings.
    pub(crate) fn load_bytes(&self, id: TableId, chunk: ChunkId, columns: &ColumnSet) -> u64 {
        let table = self.table(id);
        let own: u64 = columns.iter().map(|c| table.own_bytes(chunk, c)).sum();
        let shared = table.absent_extents(chunk, columns);
        own + shared
            .into_iter()
            .map(|e| table.extent_bytes(e))
            .sum::<u64>()
    }

    pub(crate) fn set_stalled(&mut self, id: ScanId, on: bool) {
        let scan = self.scan_mut(id);
        scan.stalled = on;
        let (table, slots) = (scan.table, scan.slots());
        self.table_mut(table).set_stalled(&slots, on);
        self.refresh(id);
    }

    /// The number of chunks that the scan needs and that are coming: resident or loading.
    pub(crate) fn coming(&self, scan: &Scan) -> usize {
        let table = self.table(scan.table);
        let parts = scan.parts.iter();
        parts.map(|part| table.slot(part.slot).coming.total()).sum()
    }

    /// The number of these on the device in this place.
    fn coming_from(&self, scan: &Scan, place: usize) -> usize {
        let table = self.table(scan.table);
        let parts = scan.parts.iter();
        parts
            .map(|part| table.slot(part.slot).coming.at(place))
            .sum()
    }

    /// Whether the scan needs chunks of the device in this place that are not coming.
    pub(crate) fn misses_of(&self, scan: &Scan, place: usize) -> bool {
        let table = self.table(scan.table);
        let mut slots = scan.parts.iter().map(|part| table.slot(part.slot));
        slots.any(|slot| slot.needed.at(place) > slot.coming.at(place))
    }

    /// starved(q, d), where d is the device in this place. A sequential scan takes the next chunk
    /// of its order, whatever its device.
    pub(crate) fn starved_of(&self, scan: &Scan, place: usize) -> bool {
        if scan.sequential {
            return self.is_short(scan, scan.lookahead);
        }
        !scan.stalled
            && (!self.is_limited(scan) || self.read_from(scan).any(|read| read == place))
            && scan.in_hands() + self.coming_from(scan, place) < scan.lookahead
    }

    /// Whether the table has more devices than the scan may read from at a time.
    fn is_limited(&self, scan: &Scan) -> bool {
        let devices = self.table(scan.table).devices.len();
        scan.devices_max
            .is_some_and(|max| (max as usize) < devices && devices > 1)
    }

    /// The places of the devices that loads are chosen from for the scan: devices of which it
    /// misses chunks, at most as many as it may read from at a time. The first device is number
    /// `scan id mod devices`, so that scans begin with different devices.
    fn read_from<'a>(&'a self, scan: &'a Scan) -> impl Iterator<Item = usize> + 'a {
        let devices = self.table(scan.table).devices.len();
        let first = usize::try_from(scan.id.0 % devices.max(1) as u64).unwrap_or(0);
        let places = (first..devices).chain(0..first);
        let missed = places.filter(|&place| self.misses_of(scan, place));
        let most = scan
            .devices_max
            .map_or(usize::MAX, |max| max.max(1) as usize);
        missed.take(most)
    }

    /// Whether fewer than `enough` chunks are available of some device of which the scan misses
    /// chunks; if it misses none, whether fewer than `enough` are available in all.
    pub(crate) fn is_short(&self, scan: &Scan, enough: usize) -> bool {
        if scan.stalled {
            return false;
        }
        let devices = self.table(scan.table).devices.len();
        if scan.sequential || devices <= 1 {
            return self.available(scan) < enough;
        }
        let mut missed = self.read_from(scan).peekable();
        if missed.peek().is_none() {
            return self.available(scan) < enough;
        }
        let in_hands = scan.in_hands();
        missed.any(|place| in_hands + self.coming_from(scan, place) < enough)
    }

    /// available(q), counted for a sequential scan up to one more than its look-ahead.
    pub(crate) fn available(&self, scan: &Scan) -> usize {
        if !scan.sequential {
            return scan.in_hands() + self.coming(scan);
        }
        let table = self.table(scan.table);
        let prefix = table
            .order(scan)
            .take(scan.lookahead + 1)
            .take_while(|&chunk| {
                let part = table.part_of(scan, chunk);
                part.is_some_and(|p| scan.parts[p].columns.is_subset(&table.group(chunk).coming))
            });
        scan.in_hands() + prefix.count()
    }

    /// Recomputes whether a scan is starved or almost starved.
    pub(crate) fn refresh(&mut self, id: ScanId) {
        let scan = self.scan(id);
        let starved = self.is_short(scan, scan.lookahead);
        let almost = self.is_short(scan, scan.lookahead + 1);
        let devices = self.table(scan.table).devices.len();
        let several = 0..if devices > 1 { devices } else { 0 };
        let starved_of: Bits = several
            .filter(|&place| self.starved_of(scan, place))
            .collect();
        // Chunks come and go far more often than starvation changes.
        if (starved, almost) == (scan.starved, scan.almost) && starved_of == scan.starved_of {
            return;
        }
        let scan = self.scans.get_mut(&id).expect("the scan is registered");
        (scan.starved, scan.almost) = (starved, almost);
        scan.starved_of = starved_of;
        if starved {
            self.hungry.insert(id);
        } else {
            self.hungry.remove(&id);
        }
        let table = self.tables.get_mut(&scan.table);
        let table = table.expect("scans name registered tables");
        for part in &scan.parts {
            table.starved.set(part.slot, starved);
            table.almost.set(part.slot, almost);
            table.set_starved_of(part.slot, &scan.starved_of);
        }
    }

    /// Changes a chunk's resident or loading columns, and updates what is coming for the interested
    /// scans.
    pub(crate) fn change_coming(
        &mut self,
        id: TableId,
        chunk: ChunkId,
        change: impl FnOnce(&mut Table),
    ) {
        let table = self.table_mut(id);
        let before = table.group(chunk).coming.clone();
        change(table);
        if table.group(chunk).coming != before {
            for scan in table.recount_coming(chunk, &before) {
                self.refresh(scan);
            }
        }
    }
}
