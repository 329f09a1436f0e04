//! Do other programs compute beside this one?
//!
//! Idea: a thread that gives way does not learn to whom. But while it waits for a processor, all
//! of them are busy. If this process has used little of them meanwhile, other programs had the
//! rest: then giving way leaves the processors to those, and not to short queries.
//!
//! Not here: what follows from it (`mod.rs`).
//! Bounds: a thread looks once in [`WINDOW`], in some 10 µs.

use std::cell::Cell;
use std::time::{Duration, Instant};

use coscan_storage::threads::{process_time, ready_time};

/// A thread judges by what happened during this time.
const WINDOW: Duration = Duration::from_millis(20);
/// Other programs compute if this process uses less than this part of the processors, in
/// hundredths, while a thread of it waits for one. The programs of its own clients leave it more.
const OWN_PART: u32 = 60;

thread_local! {
    static BEFORE: Cell<Option<Sample>> = const { Cell::new(None) };
}

#[derive(Clone, Copy, Debug)]
struct Sample {
    at: Instant,
    /// How long the thread has waited for a processor.
    waited: Duration,
    /// The processor time of the whole process.
    used: Duration,
}

/// Whether other programs had the processors that the calling thread, which gives way, wanted
/// lately. `cores`: how many processors there are.
pub(super) fn others_compute(cores: u32) -> bool {
    let now = Instant::now();
    let before = BEFORE.get();
    if before.is_some_and(|before| now - before.at < WINDOW) {
        return false;
    }
    let sample = ready_time().map(|waited| Sample {
        at: now,
        waited,
        used: process_time(),
    });
    BEFORE.set(sample);
    let both = before.zip(sample);
    both.is_some_and(|(before, now)| judge(before, now, cores))
}

fn judge(before: Sample, now: Sample, cores: u32) -> bool {
    let window = now.at - before.at;
    let waited = now.waited.saturating_sub(before.waited);
    let used = now.used.saturating_sub(before.used);
    waited >= window / 2 && used < window * cores / 100 * OWN_PART
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn others_compute_if_a_thread_waits_and_the_process_does_not_run() {
        let before = Sample {
            at: Instant::now(),
            waited: Duration::from_secs(5),
            used: Duration::from_secs(60),
        };
        let after = |waited: u64, used: u64| Sample {
            at: before.at + Duration::from_millis(100),
            waited: before.waited + Duration::from_millis(waited),
            used: before.used + Duration::from_millis(used),
        };
        for (waited, used, cores, expected) in [
            (94, 106, 2, true),
            (94, 180, 2, false),
            (94, 180, 4, true),
            (10, 20, 2, false),
            (0, 0, 2, false),
        ] {
            let found = judge(before, after(waited, used), cores);
            assert_eq!(found, expected, "{waited} and {used} ms, {cores} cores");
        }
    }

    #[test]
    fn a_thread_that_waits_for_nothing_finds_nobody() {
        assert!(!others_compute(2), "nothing is known yet");
        std::thread::sleep(2 * WINDOW);
        assert!(!others_compute(2));
    }
}
