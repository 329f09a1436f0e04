//! How much memory does the process really take?
//!
//! Idea: not everything is counted: pages that the allocator keeps, hash tables between two
//! reservations, buffers of connections. The limit of what is counted leaves room for that, by
//! experience. Where experience is wrong the kernel ends the process (a control group), or takes
//! its code from memory until nothing goes on. So the anonymous memory of the process is measured,
//! and while it is more than it may be, a growing part of the limit counts as taken
//! (`budget.rs`): frames and arrays make way, and operators spill.
//! A process may take what the machine or its control group has, less room for code. One that
//! exists for queries alone may also take no more than its limit and what its limit leaves room for
//! beside it: whoever gives a server 256 MiB does not want it to take 700.
//! Not here: what the machine and the control group have, and the room beside a limit (the engine).
//! Bounds: one small file is read every [`EVERY`]; at most half of the limit counts as taken.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;

/// Between two measurements; pools ask every 250 ms. Freed pages go back to the system after
/// 100 ms, so that much more frequent ones would see the same.
const EVERY: Duration = Duration::from_millis(200);

/// The process's code, and what the kernel holds for it, need room beside anonymous memory: a part
/// of the whole as a divisor, and the most bytes. The program has 200 MB, of which
/// we guess that queries touch half.
const CODE: u64 = 8;
const CODE_BYTES_MAX: u64 = 128 << 20;

/// What the process may take between two measurements, as a divisor of the whole: hash tables that
/// double, decoders of several chunks. Without this room twelve TPC-H clients in 4 GB came within
/// 50 MB of the whole in one of ten runs.
const SURGE: u64 = 16;

/// How fast the part that counts as taken follows the excess, and leaves it: divisors. Slowly, for
/// freed memory is seen late.
const RISE: u64 = 4;
const FALL: u64 = 8;

/// The part of the limit that counts as taken because the process takes too much.
#[derive(Debug, Default)]
pub(super) struct Excess {
    /// `None`: nothing is known, and nothing is measured.
    bounds: OnceLock<Bounds>,
    /// Whether the process exists for queries alone.
    alone: AtomicBool,
    bytes: AtomicU64,
    measured: Mutex<Option<Instant>>,
}

#[derive(Clone, Copy, Debug)]
struct Bounds {
    /// What anonymous memory may be, whatever the limit.
    available: u64,
    /// The room beside a limit for what is not counted, in bytes.
    beside: fn(u64) -> u64,
}

impl Excess {
    /// The process may take `bytes` in all. The first call counts.
    pub(super) fn bound(&self, bytes: u64, beside: fn(u64) -> u64) {
        let code = (bytes / CODE).min(CODE_BYTES_MAX);
        self.bounds.get_or_init(|| Bounds {
            available: bytes - code - bytes / SURGE,
            beside,
        });
    }

    /// The process exists for queries alone.
    pub(super) fn own(&self) {
        self.alone.store(true, Ordering::Relaxed);
    }

    /// What anonymous memory may be under this limit.
    fn target(&self, limit: u64) -> Option<u64> {
        let &Bounds { available, beside } = self.bounds.get()?;
        let alone = self.alone.load(Ordering::Relaxed);
        let most = alone.then(|| limit.saturating_add(beside(limit)));
        Some(most.map_or(available, |most| most.min(available)))
    }

    pub(super) fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    /// Measures, if that was not done lately. `limit` is that of what is counted.
    pub(super) fn measure(&self, limit: u64) {
        let Some(target) = self.target(limit) else {
            return;
        };
        let mut measured = self.measured.lock();
        if measured.is_some_and(|at| at.elapsed() < EVERY) {
            return;
        }
        *measured = Some(Instant::now());
        let text = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
        if let Some(anonymous) = anonymous_bytes(&text) {
            let next = next(self.bytes(), anonymous, target, limit / 2);
            self.bytes.store(next, Ordering::Relaxed);
        }
    }
}

/// What counts as taken after a measurement.
fn next(before: u64, anonymous: u64, target: u64, most: u64) -> u64 {
    match anonymous.checked_sub(target) {
        Some(excess) => (before + excess / RISE).min(most),
        None => before.saturating_sub((target - anonymous) / FALL),
    }
}

/// `RssAnon` of `/proc/self/status`.
fn anonymous_bytes(status: &str) -> Option<u64> {
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("RssAnon:"))?;
    let kibibytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    kibibytes.checked_mul(1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn anonymous_memory_is_in_kibibytes() {
        let status = "Name:\tx\nRssAnon:\t    1234 kB\nRssFile:\t 5 kB\n";
        assert_eq!(anonymous_bytes(status), Some(1234 << 10));
        assert_eq!(anonymous_bytes("nonsense"), None);
    }

    #[test]
    fn a_process_may_take_what_there_is_and_a_server_little_more_than_its_limit() {
        const MIB: u64 = 1 << 20;
        let excess = Excess::default();
        assert_eq!(excess.target(256 * MIB), None);
        excess.bound(2_000 * MIB, |limit| limit / 2);
        assert_eq!(excess.target(256 * MIB), Some((2_000 - 128 - 125) * MIB));
        excess.own();
        assert_eq!(excess.target(256 * MIB), Some(384 * MIB));
        assert_eq!(excess.target(1_500 * MIB), Some((2_000 - 128 - 125) * MIB));
    }

    /// A process that takes 300 beyond what is counted, where 200 is room for that.
    #[test]
    fn what_counts_as_taken_settles_where_the_process_fits() {
        let (limit, target) = (1000, 1200);
        let mut taken = 0;
        for _ in 0..100 {
            let anonymous = limit - taken + 300;
            taken = next(taken, anonymous, target, limit / 2);
        }
        assert!((95..=103).contains(&taken), "{taken}");
        for _ in 0..100 {
            taken = next(taken, 400, target, limit / 2);
        }
        assert_eq!(taken, 0, "it takes little, and everything may be counted");
        assert_eq!(next(490, 9000, target, 500), 500);
    }
}
