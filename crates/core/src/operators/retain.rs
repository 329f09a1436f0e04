//! What is retained, and what goes first?
//!
//! Batches that only a window wants go before anything else: beyond the bounds, and when memory is
//! short; after them what is kept of runs that nobody reads, but for a little. What a packet still
//! has to take never goes; it makes the list full instead.

use super::{Action, Operators, PacketId, RunId, Window};

impl<K: Ord + Clone> Operators<K> {
    /// Memory is short: windows close until so many bytes are free or none is left, those with the
    /// most to give first, then kept runs go, those worth least first. Says how many bytes are
    /// freed by the actions that follow.
    pub fn shrink(&mut self, bytes: u64) -> u64 {
        let before = self.memory;
        let open = self.runs.iter();
        let open = open.filter(|(_, run)| run.window_open && run.kept.is_none());
        let mut open: Vec<_> = open.map(|(id, run)| (run.memory, *id)).collect();
        open.sort_unstable_by(|a, b| b.cmp(a));
        for (memory, run) in open {
            if memory == 0 || before - self.memory >= bytes {
                break;
            }
            self.close_window(run);
        }
        let floor = self.config.kept_bytes_min;
        while before - self.memory < bytes && self.kept.bytes > floor && self.drop_kept() {}
        before - self.memory
    }

    /// Whether a batch of a list may be kept for anybody but the packet that polls it. Once it may
    /// not, no later one is, so that the driver need not weigh it.
    #[must_use]
    pub fn is_wanted(&self, id: RunId, partition: usize) -> bool {
        let run = self.run(id);
        let open = |packet: &&PacketId| !self.packets[*packet].places[partition].closed;
        run.window_open || run.packets.iter().filter(open).count() > 1
    }

    /// Nobody can join the run from now on.
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

    /// Whether a packet at the front of a list has to wait for slower ones. Makes room where it
    /// can.
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

    /// What does not fit goes to disk from now on; nobody is held at this list.
    pub(super) fn materialise(&mut self, id: RunId, partition: usize) {
        self.run_mut(id).lists[partition].materialised = true;
        self.wake(id, partition);
    }

    /// Drops what nobody needs of a list.
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
            // Lists of one run share its bound.
            (0..partitions).for_each(|partition| self.wake(id, partition));
        }
    }
}
