//! What do the core's decisions cost? The only file that reads a clock of the host.
//!
//! Idea: it measures the CPU time of this thread, not wall-clock time: on a busy machine a decision
//! during which the thread was preempted would otherwise count a thousand times. Reading the clock
//! is a system call; the result of an empty measurement is subtracted.

use std::time::Duration;

use coscan_sim::Watch;

/// Adds up the CPU time of the core.
#[derive(Debug)]
pub(crate) struct Stopwatch {
    begun: Duration,
    total: Duration,
    events: u32,
    /// The result of an empty measurement.
    empty: Duration,
}

impl Stopwatch {
    pub(crate) fn new() -> Self {
        let mut watch = Self {
            begun: Duration::ZERO,
            total: Duration::ZERO,
            events: 0,
            empty: Duration::ZERO,
        };
        for _ in 0..CALIBRATIONS {
            watch.deciding();
            watch.decided();
        }
        let empty = watch.total / CALIBRATIONS;
        Self {
            total: Duration::ZERO,
            events: 0,
            empty,
            ..watch
        }
    }

    pub(crate) fn total(&self) -> Duration {
        self.total.saturating_sub(self.empty * self.events)
    }
}

impl Watch for Stopwatch {
    fn deciding(&mut self) {
        self.begun = thread_cpu_time();
    }

    fn decided(&mut self) {
        self.total += thread_cpu_time().saturating_sub(self.begun);
        self.events += 1;
    }
}

const CALIBRATIONS: u32 = 10_000;

/// CPU time of this thread so far.
#[expect(unsafe_code, reason = "std has no clock of a thread's CPU time")]
fn thread_cpu_time() -> Duration {
    let mut now = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: `now` is a valid place for a timespec, and the call writes nothing else.
    let failed = unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &raw mut now) };
    assert_eq!(failed, 0, "every kernel since 2.6.12 has this clock");
    let seconds = u64::try_from(now.tv_sec).unwrap_or(0);
    Duration::from_secs(seconds) + Duration::from_nanos(u64::try_from(now.tv_nsec).unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_counts_and_sleep_does_not() {
        let mut watch = Stopwatch::new();
        watch.deciding();
        std::thread::sleep(Duration::from_millis(30));
        watch.decided();
        assert!(watch.total() < Duration::from_millis(10), "{watch:?}");
        watch.deciding();
        let begun = thread_cpu_time();
        while thread_cpu_time().saturating_sub(begun) < Duration::from_millis(30) {}
        watch.decided();
        assert!(watch.total() >= Duration::from_millis(30), "{watch:?}");
    }
}
