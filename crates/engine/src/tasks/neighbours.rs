//! Do other programs compute beside this one?
//!
//! Idea: a thread that gives way does not learn to whom. But while it waits for a processor, all
//! of them are usually busy. What this process does not use of them then, other programs have. If
//! that is much more than short queries use, giving way serves those programs, and not short
//! queries.
//!
//! Not here: what follows from it (`mod.rs`).
//! Bounds: a thread looks once in [`WINDOW`]. Where the kernel protects the process as a whole
//! (control groups with shares, automatic groups), other programs count although niceness does not
//! concern them; the time without a processor under a quota counts as other programs'.

use std::cell::Cell;
use std::time::{Duration, Instant};

use coscan_storage::threads::{process_time, ready_time};

/// A thread judges by what happened during this time: a control group's usual period.
const WINDOW: Duration = Duration::from_millis(100);
/// Other programs compute if this process uses less than this part of the processors, in
/// hundredths, while a thread of it waits for one.
const OWN_PART: u32 = 60;
/// The processor time of other programs as a multiple of that of short queries. Below that they
/// may be the clients of the short queries.
const TIMES_SHORT: u32 = 4;

thread_local! {
    /// When this thread looked, and what it saw.
    static BEFORE: Cell<Option<(Instant, Option<Counts>)>> = const { Cell::new(None) };
}

/// Since the process or the thread began.
#[derive(Clone, Copy, Debug)]
struct Counts {
    /// How long the thread has waited for a processor.
    waited: Duration,
    /// The processor time of the whole process.
    used: Duration,
    /// The processor time of its short queries.
    short: Duration,
}

/// Whether other programs had the processors that the calling thread, which gives way, wanted
/// lately. `cores`: how many processors there are; `short`: the processor time of all short
/// queries.
pub(super) fn others_compute(cores: u32, short: Duration) -> bool {
    let before = BEFORE.get();
    if before.is_some_and(|(at, _)| at.elapsed() < WINDOW) {
        return false;
    }
    let counts = ready_time().map(|waited| Counts {
        waited,
        used: process_time(),
        short,
    });
    let now = Instant::now();
    BEFORE.set(Some((now, counts)));
    let (Some((at, Some(before))), Some(counts)) = (before, counts) else {
        return false;
    };
    judge(before, counts, now - at, cores)
}

fn judge(before: Counts, now: Counts, window: Duration, cores: u32) -> bool {
    let since = |of: fn(&Counts) -> Duration| of(&now).saturating_sub(of(&before));
    let (waited, used) = (since(|counts| counts.waited), since(|counts| counts.used));
    let all = window * cores;
    let others = all.saturating_sub(used);
    waited >= window / 2
        && used < all / 100 * OWN_PART
        && others > since(|counts| counts.short) * TIMES_SHORT
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn others_compute_if_a_thread_waits_and_neither_the_process_nor_short_queries_run() {
        let ms = Duration::from_millis;
        let before = Counts {
            waited: ms(5_000),
            used: ms(60_000),
            short: ms(700),
        };
        for (waited, used, short, cores, expected) in [
            (94, 6, 0, 2, true),
            (94, 106, 10, 2, true),
            (94, 106, 40, 2, false),
            (94, 180, 0, 2, false),
            (94, 180, 20, 4, true),
            (10, 20, 0, 2, false),
            (0, 0, 0, 2, false),
        ] {
            let after = Counts {
                waited: before.waited + ms(waited),
                used: before.used + ms(used),
                short: before.short + ms(short),
            };
            let found = judge(before, after, ms(100), cores);
            assert_eq!(
                found, expected,
                "{waited}, {used} and {short} ms, {cores} cores"
            );
        }
    }

    #[test]
    fn one_look_says_nothing() {
        BEFORE.set(None);
        assert!(!others_compute(2, Duration::ZERO));
        assert!(BEFORE.get().is_some(), "it has looked");
        assert!(!others_compute(2, Duration::ZERO), "not once more at once");
    }
}
