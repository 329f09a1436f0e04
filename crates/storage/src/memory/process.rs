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
//! that only runs queries may also take no more than its limit and the room beside that: a server
//! that was given 256 MiB should not take 700.
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

/// The memory that the kernel counts, and its bounds.
#[derive(Debug, Default)]
pub(super) struct Process {
    /// `None`: no bounds are known, and nothing is measured.
    bounds: OnceLock<Bounds>,
    /// Whether the process only runs queries.
    alone: AtomicBool,
}

#[derive(Clone, Copy, Debug)]
struct Bounds {
    /// The most anonymous memory, whatever the limit.
    available: u64,
    /// The room beside a limit for what is not counted, in bytes.
    beside: fn(u64) -> u64,
}

impl Process {
    /// Bounds the whole process to `bytes`. Only the first call has an effect.
    pub(super) fn bound(&self, bytes: u64, beside: fn(u64) -> u64) {
        let code = (bytes / CODE).min(CODE_BYTES_MAX);
        self.bounds.get_or_init(|| Bounds {
            available: bytes - code - bytes / SURGE,
            beside,
        });
    }

    /// Declares that the process only runs queries.
    pub(super) fn own(&self) {
        self.alone.store(true, Ordering::Relaxed);
    }

    /// The most anonymous memory under this limit.
    fn target(&self, limit: u64) -> Option<u64> {
        let &Bounds { available, beside } = self.bounds.get()?;
        let alone = self.alone.load(Ordering::Relaxed);
        let most = alone.then(|| limit.saturating_add(beside(limit)));
        Some(most.map_or(available, |most| most.min(available)))
    }

    /// What the process takes, less what it may take beside `limit`; `None` if that cannot be
    /// measured.
    pub(super) fn measure(&self, limit: u64) -> Option<u64> {
        let target = self.target(limit)?;
        let text = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
        let anonymous = anonymous_bytes(&text)?;
        Some((anonymous + limit).saturating_sub(target))
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
        let process = Process::default();
        assert_eq!(process.target(256 * MIB), None);
        process.bound(2_000 * MIB, |limit| limit / 2);
        assert_eq!(process.target(256 * MIB), Some((2_000 - 128 - 125) * MIB));
        process.own();
        assert_eq!(process.target(256 * MIB), Some(384 * MIB));
        assert_eq!(process.target(1_500 * MIB), Some((2_000 - 128 - 125) * MIB));
    }
}
