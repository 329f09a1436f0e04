//! The state that the driver of the parallelism controller keeps.
//!
//! Not here: events to the controller, and how its orders are carried out (`steps/chosen.rs`).

use std::collections::BTreeMap;
use std::ops::Range;

use coscan_core::ScanId;
use coscan_core::parallelism::Parallelism;

/// The controller and its driver's state.
#[derive(Debug)]
pub(super) struct Chosen {
    pub(super) parallelism: Parallelism,
    /// The query of each scan that the controller knows.
    pub(super) queries: BTreeMap<ScanId, u32>,
    pub(super) next: u64,
    /// The work of the arms and processors at the last reading of the meters.
    pub(super) arms: Vec<u64>,
    pub(super) processors: u64,
    /// Whether transactions arrived since the last reading.
    pub(super) page_requests: bool,
    /// Set if the controller finds the room for prefetches itself.
    pub(super) waste: Option<Waste>,
}

/// Whether prefetches push each other out of the cache. The driver does not know the size of the
/// cache, so it infers this from arms that read more pages than are requested.
#[derive(Debug, Default)]
pub(super) struct Waste {
    /// The totals at the last reading.
    asked_total: u64,
    read_total: u64,
    /// Sums over recent readings, in which older readings weigh less.
    asked: u64,
    read: u64,
    readings: u32,
    seen: bool,
    /// Readings until a group of devices may become wider.
    hold: u32,
}

impl Waste {
    /// Takes the totals of a reading of the meters, and returns the least utilisation to report for
    /// a device, in thousandths. `low` is a utilisation at which nothing changes.
    pub(super) fn read(&mut self, asked: u64, read: u64, low: u32) -> impl Fn(u32) -> u32 + use<> {
        let new = asked - std::mem::replace(&mut self.asked_total, asked);
        self.asked = self.asked * 3 / 4 + new;
        let new = read - std::mem::replace(&mut self.read_total, read);
        self.read = self.read * 3 / 4 + new;
        self.readings = self.readings.wrapping_add(1);
        let group = self.readings % GROUPS;
        let wasted = self.read * 100 > self.asked * WASTED_PERCENT;
        self.seen |= wasted;
        self.hold = if wasted || self.hold == 0 {
            HOLD_READINGS
        } else {
            self.hold - 1
        };
        let (of_group, of_others) = match (self.seen, wasted, self.hold) {
            (false, ..) => (0, 0),
            (true, true, _) => (1_000, low),
            (true, false, 0) => (0, low),
            (true, false, _) => (low, low),
        };
        move |device| {
            if device % GROUPS == group {
                of_group
            } else {
                of_others
            }
        }
    }
}

/// More pages read than this, in percent of the requested pages, count as waste. A prefetch is
/// read before its pages are requested, so a little more than 100 % is usual.
const WASTED_PERCENT: u64 = 110;
/// One group of devices at a time becomes narrower or wider: all together would go from too many
/// prefetches to too few.
const GROUPS: u32 = 8;
/// Five seconds of readings, about as long as a scan takes.
const HOLD_READINGS: u32 = 20;

/// A scan's part of this state.
#[derive(Debug)]
pub(super) struct Pieces {
    pub(super) scan: ScanId,
    /// The pages left on each disk.
    pub(super) left: BTreeMap<u16, Piece>,
}

/// The pages of a disk that a scan has not taken.
#[derive(Debug)]
pub(super) struct Piece {
    now: Range<u32>,
    /// The pages before the place where the scan began.
    then: Range<u32>,
}

impl Piece {
    /// All of these pages, beginning with `begin`.
    pub(super) fn new(pages: &Range<u32>, begin: u32) -> Self {
        Self {
            now: begin..pages.end,
            then: pages.start..begin,
        }
    }

    /// The next pages, at most this many. The pages are neighbours.
    pub(super) fn take(&mut self, most: u32) -> Range<u32> {
        if self.now.is_empty() {
            self.now = std::mem::take(&mut self.then);
        }
        let end = self.now.end.min(self.now.start + most);
        let taken = self.now.start..end;
        self.now.start = end;
        taken
    }

    pub(super) fn is_empty(&self) -> bool {
        self.now.is_empty() && self.then.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_piece_that_begins_anywhere_is_taken_once() {
        for begin in [10, 13, 19] {
            let mut piece = Piece::new(&(10..20), begin);
            let mut taken = Vec::new();
            while !piece.is_empty() {
                taken.extend(piece.take(4));
            }
            assert_eq!(taken[0], begin);
            taken.sort_unstable();
            assert!(taken.into_iter().eq(10..20), "W1");
        }
    }
}
