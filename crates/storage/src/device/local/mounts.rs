//! Which mount does a path belong to, judged by its name alone?
//!
//! A call into a file system may hang, even one that asks which file system it is. So only the
//! names of paths are compared. Each mount point has its own threads for calls that may hang
//! (`calls.rs`), so a mount that hangs affects no other. A path through a symbolic link into
//! another mount is assigned to the mount that holds the link.
//! Bounds: the kernel's mount table is read at most once per [`FRESH`]; one entry per mount point
//! that a path was looked up on is kept.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::calls::Calls;

/// How old the mount table may be: mounts change rarely, and files are opened by the thousand.
const FRESH: Duration = Duration::from_secs(1);

/// The known mounts, each with the threads for its calls.
#[derive(Debug, Default)]
pub(in crate::device) struct Mounts {
    points: Vec<PathBuf>,
    read_at: Option<Instant>,
    calls: HashMap<PathBuf, Arc<Calls>>,
}

impl Mounts {
    /// The threads that make calls about this path.
    pub(in crate::device) fn calls(&mut self, path: &Path, wait: Duration) -> Arc<Calls> {
        if self.read_at.is_none_or(|at| at.elapsed() > FRESH) {
            let table = std::fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
            self.points = points(&table);
            self.read_at = Some(Instant::now());
        }
        let point = longest_prefix(&self.points, path);
        let calls = self.calls.entry(point.to_owned());
        Arc::clone(calls.or_insert_with(|| Calls::new(wait)))
    }

    /// The mount point of this path, by the mount table of the last [`Mounts::calls`] for it.
    pub(in crate::device) fn point(&self, path: &Path) -> String {
        longest_prefix(&self.points, path).display().to_string()
    }
}

/// The mount points in "36 35 98:0 /root /mount/point options ...", one per line.
fn points(table: &str) -> Vec<PathBuf> {
    let fields = table.lines().filter_map(|line| line.split(' ').nth(4));
    fields
        .map(|point| PathBuf::from(unescaped(point)))
        .collect()
}

fn longest_prefix<'a>(points: &'a [PathBuf], path: &Path) -> &'a Path {
    let around = points.iter().filter(|point| path.starts_with(point));
    let nearest = around.max_by_key(|point| point.components().count());
    nearest.map_or(Path::new("/"), PathBuf::as_path)
}

/// The kernel writes space, tab, line feed and backslash as `\\040`, `\\011`, `\\012`, `\\134`.
fn unescaped(point: &str) -> String {
    let pairs = [
        ("\\040", " "),
        ("\\011", "\t"),
        ("\\012", "\n"),
        ("\\134", "\\"),
    ];
    pairs
        .iter()
        .fold(point.to_owned(), |text, (from, to)| text.replace(from, to))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_mount_above_a_path() {
        let table = "1 0 8:1 / / rw - ext4 /dev/sda rw\n\
             2 1 0:9 / /mnt/a\\040b rw shared:1 - nfs host:/x rw\n\
             3 2 0:7 / /mnt/a\\040b/c rw - fuse d rw";
        let points = points(table);
        let of = |path: &str| longest_prefix(&points, Path::new(path)).to_owned();
        assert_eq!(of("/mnt/a b/x"), Path::new("/mnt/a b"));
        assert_eq!(of("/mnt/a b/c/x"), Path::new("/mnt/a b/c"));
        assert_eq!(of("/mnt/a bc/x"), Path::new("/"));
        assert_eq!(longest_prefix(&[], Path::new("/x")), Path::new("/"));
    }
}
