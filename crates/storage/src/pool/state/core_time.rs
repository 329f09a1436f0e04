//! What time is it for the core, and how much of it has the core taken?

use std::time::Instant;

use coscan_core::Time;

/// The clock that the core is told, with the time and the events that it took.
pub(crate) struct CoreTime {
    /// When the pool was created.
    origin: Instant,
    spent_ns: u64,
    events: u64,
}

impl CoreTime {
    /// A clock that begins now.
    pub(crate) fn begin() -> Self {
        Self {
            origin: Instant::now(),
            spent_ns: 0,
            events: 0,
        }
    }

    /// The core's time at an instant: nanoseconds since the pool's creation.
    pub(crate) fn at(&self, instant: Instant) -> Time {
        let since = instant.saturating_duration_since(self.origin);
        Time(u64::try_from(since.as_nanos()).unwrap_or(u64::MAX))
    }

    /// The core's time.
    pub(crate) fn now(&self) -> Time {
        self.at(Instant::now())
    }

    /// The core has handled an event, which it got at `begun`.
    pub(super) fn handled(&mut self, begun: Instant) {
        self.spent_ns += u64::try_from(begun.elapsed().as_nanos()).unwrap_or(0);
        self.events += 1;
    }

    /// The time that the core has taken. Nanoseconds.
    pub(super) fn spent_ns(&self) -> u64 {
        self.spent_ns
    }

    /// The events that the core has handled.
    pub(super) fn events(&self) -> u64 {
        self.events
    }
}
