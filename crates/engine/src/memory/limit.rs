//! How much memory may this process use?
//!
//! The smaller of the machine's memory and the control group's limit: a container that is allowed
//! 2 GB on a machine of 256 GB would be killed if it went by the machine. Both versions of control
//! groups are read; a limit that cannot be read counts as no limit.
//! Not here: what the memory is used for (`coscan-storage`'s `MemoryBudget`).

use std::fs;
use std::path::{Path, PathBuf};

/// The share of the available memory that is used by default. The rest is for what is not counted:
/// the allocator's slack, hash tables between two reservations, code, sockets, other processes.
const DEFAULT_SHARE: f64 = 0.8;

/// Uncounted memory does not shrink with the budget: sixteen TPC-H streams took 200 MB of it in a
/// group of 700 MB. The default budget leaves this much for it, unless that is more than
/// [`DEFAULT_SHARE`] of the available memory.
const UNACCOUNTED_BYTES: u64 = 320 << 20;

/// The available memory if neither the machine nor the control group can be read.
const FALLBACK_BYTES: u64 = 1 << 30;

/// Memory the process may use in all, in bytes: the smaller of the machine's and the control
/// group's limit.
pub(crate) fn available_bytes() -> u64 {
    let machine = machine_bytes(&fs::read_to_string("/proc/meminfo").unwrap_or_default());
    let group = group_bytes(
        Path::new("/sys/fs/cgroup"),
        &fs::read_to_string("/proc/self/cgroup").unwrap_or_default(),
    );
    match (machine, group) {
        (Some(machine), Some(group)) => machine.min(group),
        (Some(bytes), None) | (None, Some(bytes)) => bytes,
        (None, None) => FALLBACK_BYTES,
    }
}

/// The default budget: 80 % of [`available_bytes`], or less if that leaves too little for what is
/// not counted.
pub(crate) fn default_budget_bytes() -> u64 {
    budget_bytes(available_bytes())
}

#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // A positive number below 2^63.
fn budget_bytes(available: u64) -> u64 {
    let share = (available as f64 * DEFAULT_SHARE) as u64;
    share.min(available - share.min(UNACCOUNTED_BYTES))
}

/// How much more than a limit a process may take that only runs queries, its code included, where
/// the limit is lower than the default one, in bytes. Without a bound 24 clients took 228 to 268
/// MiB beside 150; more memory has more of what is not counted.
const BESIDE_BYTES: u64 = 200 << 20;
const BESIDE: u64 = 8;

/// How much more than `limit` a process may take that has `available` bytes in all: all of that
/// under the default limit.
pub(crate) fn beside_bytes(limit: u64, available: u64) -> u64 {
    if limit >= budget_bytes(available) {
        return available.saturating_sub(limit);
    }
    BESIDE_BYTES.max(limit / BESIDE)
}

/// `MemTotal` of `/proc/meminfo`.
fn machine_bytes(meminfo: &str) -> Option<u64> {
    let line = meminfo
        .lines()
        .find_map(|line| line.strip_prefix("MemTotal:"))?;
    line.trim()
        .strip_suffix("kB")?
        .trim()
        .parse::<u64>()
        .ok()?
        .checked_mul(1024)
}

/// The smallest limit on the way from the process's control group up to the root, version 1 or 2.
fn group_bytes(root: &Path, membership: &str) -> Option<u64> {
    let mut smallest: Option<u64> = None;
    for line in membership.lines() {
        let mut fields = line.splitn(3, ':').skip(1);
        let (Some(controllers), Some(path)) = (fields.next(), fields.next()) else {
            continue;
        };
        let (base, file) = if controllers.is_empty() {
            (root.to_path_buf(), "memory.max")
        } else if controllers.split(',').any(|name| name == "memory") {
            (root.join("memory"), "memory.limit_in_bytes")
        } else {
            continue;
        };
        // Inside a container the path is often the host's and does not exist here. The root is
        // then the container's own group.
        let mut folder: PathBuf = base.join(path.trim_start_matches('/'));
        loop {
            let limit = fs::read_to_string(folder.join(file))
                .ok()
                .and_then(|text| text.trim().parse::<u64>().ok());
            if let Some(limit) = limit {
                smallest = Some(smallest.map_or(limit, |s| s.min(limit)));
            }
            if folder == base || !folder.pop() {
                break;
            }
        }
    }
    smallest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn meminfo_is_in_kibibytes() {
        assert_eq!(
            machine_bytes("MemTotal:       16000 kB\nMemFree: 1 kB\n"),
            Some(16_000 * 1024)
        );
        assert_eq!(machine_bytes("nonsense"), None);
    }

    #[test]
    fn a_small_machine_leaves_room_for_uncounted_memory() {
        const MIB: u64 = 1 << 20;
        assert_eq!(budget_bytes(24_000 * MIB), 19_200 * MIB);
        assert_eq!(budget_bytes(700 * MIB), 380 * MIB);
        assert_eq!(budget_bytes(100 * MIB), 20 * MIB);
        assert_eq!(budget_bytes(0), 0);
    }

    #[test]
    fn a_process_takes_little_more_than_a_limit_that_was_set() {
        const MIB: u64 = 1 << 20;
        for limit in [150, 600, 1_500] {
            assert_eq!(beside_bytes(limit * MIB, 24_000 * MIB), 200 * MIB);
        }
        assert_eq!(beside_bytes(8_000 * MIB, 24_000 * MIB), 1_000 * MIB);
        assert_eq!(beside_bytes(19_200 * MIB, 24_000 * MIB), 4_800 * MIB);
        assert_eq!(beside_bytes(380 * MIB, 700 * MIB), 320 * MIB);
    }

    #[test]
    fn the_smallest_limit_of_the_ancestors_counts() {
        let root = tempfile::tempdir().expect("a folder");
        let write = |path: &str, text: &str| {
            let path = root.path().join(path);
            fs::create_dir_all(path.parent().expect("has one")).expect("made");
            fs::write(path, text).expect("written");
        };
        write("a/memory.max", "3000\n");
        write("a/b/memory.max", "max\n");
        assert_eq!(group_bytes(root.path(), "0::/a/b\n"), Some(3000));
        write("memory/x/memory.limit_in_bytes", "2000\n");
        write("memory/memory.limit_in_bytes", "9223372036854771712\n");
        assert_eq!(
            group_bytes(root.path(), "4:cpu:/x\n7:memory:/x\n"),
            Some(2000)
        );
        assert_eq!(
            group_bytes(root.path(), "7:memory:/host/only\n"),
            Some(9_223_372_036_854_771_712)
        );
        assert_eq!(group_bytes(root.path(), ""), None);
    }
}
