//! How many files and sockets may the server have open?
//!
//! A shell's soft limit is often 1,024, which 512 clients and their scans use up; the hard limit
//! is what the administrator intends. If the hard limit is low too, the server accepts fewer
//! connections, so that it can open the files of those it serves.

/// Raises the limit as far as possible. Returns the number of connections that it leaves room for,
/// at most `wanted`.
pub(crate) fn connections(wanted: usize) -> usize {
    let limit = match rlimit::increase_nofile_limit(u64::MAX) {
        Ok(limit) => usize::try_from(limit).unwrap_or(usize::MAX),
        Err(error) => {
            eprintln!("coscan: cannot raise the limit on open files: {error}");
            return wanted;
        }
    };
    let most = connections_max(limit);
    if most < wanted {
        eprintln!(
            "coscan: {limit} files may be open at once: serving at most {most} connections instead of {wanted} (ulimit -n)"
        );
    }
    most.min(wanted)
}

/// The descriptors for clients: at least half of all.
fn connections_max(limit: usize) -> usize {
    limit.saturating_sub(FILES_KEPT).max(limit / 2).max(1)
}

/// The descriptors that are not for clients: open files of devices, spill files, unauthenticated
/// clients, and what the process has open anyway.
const FILES_KEPT: usize = 1_024;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_keep_their_share() {
        assert_eq!(connections_max(1 << 20), (1 << 20) - FILES_KEPT);
        assert_eq!(connections_max(1_024), 512);
        assert_eq!(connections_max(256), 128);
        assert_eq!(connections_max(0), 1);
    }
}
