//! Which batches are retained, and which are dropped first?
//!
//! Batches that only a window needs are dropped first, when a bound is exceeded or memory is
//! short. Kept runs are dropped next, down to `Config::kept_bytes_min`. A batch that a packet
//! still has to take is never dropped; it makes the list full instead.

use super::{Action, Operators, PacketId, RunId, Window};

impl<K: Ord + Clone> Operators<K> {
    /// Memory is short: closes windows, those that retain the most first, then drops kept runs,
    /// those worth least first, until `bytes` bytes are freed or nothing is left to drop. Returns
    /// the bytes that the following actions free, the overhead of kept runs included.
    pub fn shrink(&mut self, bytes: u64) -> u64 {
        let before = self.retained();
        let open = self.runs.iter();
        let open = open.filter(|(_, run)| run.window_open && run.kept.is_none());
        let mut open: Vec<_> = open.map(|(id, run)| (run.memory, *id)).collect();
        open.sort_unstable_by(|a, b| b.cmp(a));
        for (memory, run) in open {
            if memory == 0 || before - self.retained() >= bytes {
                break;
            }
            self.close_window(run);
        }
        let floor = self.config.kept_bytes_min;
        while before - self.retained() < bytes && self.kept.bytes > floor && self.drop_kept() {}
        before - self.retained()
    }

    fn retained(&self) -> u64 {
        self.memory + self.kept.overhead()
    }

    /// Whether a batch of a list may be retained for another packet than the one that polls it.
    /// Once this is false it stays false, so the driver need not measure further batches.
    #[must_use]
    pub fn is_wanted(&self, id: RunId, partition: usize) -> bool {
        let run = self.run(id);
        let open = |packet: &&PacketId| !self.packets[*packet].places[partition].closed;
        run.window_open || run.packets.iter().filter(open).count() > 1
    }

    /// From now on no packet can join the run.
    pub(super) fn close_window(&mut self, id: RunId) {
        let run = self.run_mut(id);
        if !run.window_open {
            return;
        }
        run.window_open = false;
        let (key, partitions) = (run.key.clone(), run.lists.len());
        self.open.remove(&key);
        (0..partitions).for_each(|partition| self.release(id, partition));
    }

    /// Whether a packet at the front of a list has to wait for slower packets. Frees space where
    /// possible.
    pub(super) fn is_full(&mut self, id: RunId, partition: usize) -> bool {
        if self.run(id).memory < self.config.run_bytes_max {
            return false;
        }
        let run = self.run_mut(id);
        if run.window_open {
            if run.kind.window() == Window::Full && run.had_company {
                run.lists[partition].materialised = true;
            } else {
                self.close_window(id);
            }
        }
        let run = self.run(id);
        let list = &run.lists[partition];
        run.memory >= self.config.run_bytes_max && !list.batches.is_empty() && !list.materialised
    }

    /// From now on batches that do not fit go to disk; no packet has to wait at this list.
    pub(super) fn materialise(&mut self, id: RunId, partition: usize) {
        self.run_mut(id).lists[partition].materialised = true;
        self.wake(id, partition);
    }

    /// Drops the batches of a list that no packet needs.
    pub(super) fn release(&mut self, id: RunId, partition: usize) {
        let run = self.run(id);
        if run.window_open {
            return;
        }
        let places = run.packets.iter();
        let places = places.map(|packet| &self.packets[packet].places[partition]);
        let nexts = places.filter(|place| !place.closed).map(|place| place.next);
        let front = run.lists[partition].front();
        let before = nexts.min().unwrap_or(front).min(front);
        self.release_before(id, partition, before);
    }

    pub(super) fn release_before(&mut self, id: RunId, partition: usize, before: u64) {
        let bound = self.config.run_bytes_max;
        let run = self.run_mut(id);
        let list = &mut run.lists[partition];
        if before <= list.first {
            return;
        }
        let was_full = run.memory >= bound;
        let freed = list.drop_before(before);
        run.memory -= freed;
        let partitions = run.lists.len();
        self.memory -= freed;
        self.actions.push_back(Action::Release {
            run: id,
            partition,
            before,
        });
        if was_full && freed > 0 {
            // The lists of a run share its bound.
            (0..partitions).for_each(|partition| self.wake(id, partition));
        }
    }
}
