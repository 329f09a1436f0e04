//! What happens next?
//!
//! Idea: a heap by time; events at the same time are handled in the order in which they were
//! scheduled.
//! E1: time never decreases.

use std::cmp::Ordering;
use std::collections::BinaryHeap;

/// An event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Event {
    /// A query or transaction of the class arrives.
    Arrived(u32),
    /// A message arrives at a node, which has to work for what follows from it.
    Delivered {
        node: u32,
        instructions: u32,
        then: Then,
    },
    /// A processor has finished the work for this step.
    Computed(Then),
    /// The controller has handled the request for the job's page.
    Controlled(u32),
    /// The oldest read of a disk has ended.
    Read(u32),
    /// The job's page is in its node's memory.
    Page(u32),
    /// The meters have to be read.
    Metered,
}

/// The step that follows when a processor has finished its work. Numbers of queries (q) and jobs
/// (j).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Then {
    /// q: it has begun and requests the lock on its relation.
    Begun(u32),
    /// q: the request for the relation's lock leaves its node; is at the authority; is granted.
    Ask(u32),
    Asked(u32),
    Locked(u32),
    /// q: the orders to start subqueries leave the coordinator.
    Split(u32),
    /// j: the order to start it leaves the coordinator.
    Order(u32),
    /// j: it may start.
    Started(u32),
    /// j: the request for a page's lock leaves its node; is at the authority; is granted.
    AskPage(u32),
    AskedPage(u32),
    LockedPage(u32),
    /// j: its page is requested from the controller.
    Issue(u32),
    /// j: its page is requested from the owner; the request has arrived.
    Fetch(u32),
    Fetched(u32),
    /// j: its page was in the buffer and has been processed.
    Looked(u32),
    /// j: it has no page left.
    Finished(u32),
    /// q: a part of the result, or the end of a subquery, is at the coordinator.
    Received(u32),
    /// q: it has ended.
    Ended(u32),
    /// q: its relation's lock, or its pages' locks (j), are released at the authority.
    Release(u32),
    ReleasePage(u32, u32),
    Nothing,
}

#[derive(Debug)]
struct Entry {
    /// Time, then order of scheduling.
    key: (u64, u64),
    event: Event,
}

impl PartialEq for Entry {
    fn eq(&self, other: &Self) -> bool {
        self.key == other.key
    }
}

impl Eq for Entry {}

impl PartialOrd for Entry {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Entry {
    /// The earliest entry compares as the greatest, because the heap returns the greatest.
    fn cmp(&self, other: &Self) -> Ordering {
        other.key.cmp(&self.key)
    }
}

/// Scheduled events.
#[derive(Debug, Default)]
pub(crate) struct Events {
    heap: BinaryHeap<Entry>,
    scheduled: u64,
    now: u64,
}

impl Events {
    pub(crate) fn now(&self) -> u64 {
        self.now
    }

    pub(crate) fn at(&mut self, time: u64, event: Event) {
        assert!(time >= self.now, "E1: {event:?} in the past");
        let key = (time, self.scheduled);
        self.scheduled += 1;
        self.heap.push(Entry { key, event });
    }

    pub(crate) fn after(&mut self, wait: u64, event: Event) {
        self.at(self.now + wait, event);
    }

    pub(crate) fn next(&mut self) -> Option<Event> {
        let entry = self.heap.pop()?;
        self.now = entry.key.0;
        Some(entry.event)
    }
}
