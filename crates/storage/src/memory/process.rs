//! How much memory does the process really take?
//!
//! Idea: not everything is counted: pages that the allocator keeps, hash tables between two
//! reservations, buffers of connections. A limit leaves room for that, by experience. Where the
//! room is too small, the kernel kills the process (in a control group), or evicts its code from
//! memory until nothing moves. So the anonymous memory of the process is measured, and what
//! exceeds the room counts as taken (`coscan_core::memory`): frames and arrays are evicted, and
//! operators spill.
//!
//! A process may take what the machine or its control group has, less room for code. A process
//! that only runs queries may also take no more than its limit and the room beside that, its code
//! included: a server that was given 256 MiB should not take 700.
//! Not here: what the machine and the control group have, and the room beside a limit (the
//! engine).
//! Bounds: each measurement reads one small file.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

/// Room beside anonymous memory for the process's code and what the kernel holds for it: a part of
/// the whole (a divisor), and the most bytes. The program has 200 MB, of which queries touch an
/// estimated half.
const CODE: u64 = 8;
const CODE_BYTES_MAX: u64 = 128 << 20;

/// How much the process may grow between two measurements, as a divisor of the whole: hash tables
/// that double, decoders of several chunks. Without this room twelve TPC-H clients in 4 GB came
/// within 50 MB of the whole in one of ten runs.
const SURGE: u64 = 16;
/// The least such room of a process that only runs queries: in 150 MiB beside 24 clients its memory
/// rose and fell by 30 MB within a second.
const SURGE_BYTES_MIN: u64 = 32 << 20;
/// A process is near its bound if its anonymous memory may grow by so little: by somewhat more than
/// it rises in a second.
const NEAR_BYTES: u64 = 40 << 20;

/// The memory that the kernel counts, and its bounds.
#[derive(Debug, Default)]
pub(super) struct Process {
    /// `None`: no bounds are known, and nothing is measured.
    bounds: OnceLock<Bounds>,
    /// Whether the process only runs queries.
    alone: AtomicBool,
    /// Whether it was near its bound, or beyond it, at the last measurement.
    near: AtomicBool,
}

/// How much more than a limit a process may take, in bytes: of the limit, and of what there is.
pub(super) type Beside = fn(limit: u64, all: u64) -> u64;

#[derive(Clone, Copy, Debug)]
struct Bounds {
    /// What there is.
    all: u64,
    /// The most anonymous memory, whatever the limit.
    available: u64,
    /// How much more than a limit the process may take, in bytes.
    beside: Beside,
}

impl Process {
    /// Bounds the whole process to `bytes`. Only the first call has an effect.
    pub(super) fn bound(&self, bytes: u64, beside: Beside) {
        let code = (bytes / CODE).min(CODE_BYTES_MAX);
        self.bounds.get_or_init(|| Bounds {
            all: bytes,
            available: bytes - code - bytes / SURGE,
            beside,
        });
    }

    /// Declares that the process only runs queries.
    pub(super) fn own(&self) {
        self.alone.store(true, Ordering::Relaxed);
    }

    /// The most anonymous memory under this limit, of a process that has this much of code in
    /// memory.
    fn target(&self, limit: u64, code: u64) -> Option<u64> {
        let bounds = self.bounds.get()?;
        if !self.alone.load(Ordering::Relaxed) {
            return Some(bounds.available);
        }
        let most = limit.saturating_add((bounds.beside)(limit, bounds.all));
        let surge = (limit / SURGE).max(SURGE_BYTES_MIN);
        Some(most.saturating_sub(code + surge).min(bounds.available))
    }

    /// Whether the process was near its bound, or beyond it, at the last measurement.
    pub(super) fn is_near(&self) -> bool {
        self.near.load(Ordering::Relaxed)
    }

    /// What the process takes, less what it may take beside `limit`; `None` if that cannot be
    /// measured.
    pub(super) fn measure(&self, limit: u64) -> Option<u64> {
        let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
        let [anonymous, code] = ["RssAnon:", "RssFile:"].map(|name| bytes_of(&status, name));
        let (anonymous, target) = (anonymous?, self.target(limit, code?)?);
        self.near
            .store(anonymous + NEAR_BYTES > target, Ordering::Relaxed);
        Some((anonymous + limit).saturating_sub(target))
    }
}

/// A field of `/proc/self/status` that is in kibibytes.
fn bytes_of(status: &str, name: &str) -> Option<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix(name))?;
    let kibibytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    kibibytes.checked_mul(1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_of_the_status_are_in_kibibytes() {
        let status = "Name:\tx\nRssAnon:\t    1234 kB\nRssFile:\t 5 kB\n";
        assert_eq!(bytes_of(status, "RssAnon:"), Some(1234 << 10));
        assert_eq!(bytes_of(status, "RssFile:"), Some(5 << 10));
        assert_eq!(bytes_of("nonsense", "RssAnon:"), None);
    }

    #[test]
    fn a_process_may_take_what_there_is_and_a_server_little_more_than_its_limit() {
        const MIB: u64 = 1 << 20;
        let process = Process::default();
        assert_eq!(process.target(256 * MIB, 0), None);
        process.bound(2_000 * MIB, |limit, all| {
            assert_eq!(all, 2_000 * MIB);
            limit / 2
        });
        let available = (2_000 - 128 - 125) * MIB;
        assert_eq!(process.target(256 * MIB, 90 * MIB), Some(available));
        process.own();
        let target = |limit, code| process.target(limit * MIB, code * MIB);
        assert_eq!(target(256, 90), Some((384 - 90 - 32) * MIB));
        assert_eq!(target(1_024, 90), Some((1_536 - 90 - 64) * MIB));
        assert_eq!(target(1_500, 90), Some(available));
        assert_eq!(target(64, 200), Some(0), "more code than room");
    }
}
