//! Calls that the kernel answers from its memory or refuses.
//!
//! `openat2` with `RESOLVE_CACHED` follows a path only through names that are in memory, `statx`
//! with `AT_STATX_DONT_SYNC` asks no server, and `preadv2` with `RWF_NOWAIT` reads only what is in
//! the page cache. A kernel or a sandbox that lacks one of them refuses it, and `None` is the
//! answer to every refusal: the caller then makes the usual call where it may wait.
//! Not here: which other calls wait for nothing (`from_memory.rs`); reads that wait (`sys`).

#![expect(unsafe_code, reason = "system calls that no safe library has")]

use std::ffi::CString;
use std::fs::File;
use std::ops::Range;
use std::os::fd::{AsRawFd, FromRawFd, RawFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use bytes::Bytes;

/// Opens a file, if all names on the way to it are in memory.
pub(in crate::device) fn open_cached(path: &Path, flags: libc::c_int) -> Option<File> {
    let path = CString::new(path.as_os_str().as_bytes()).ok()?;
    // SAFETY: all zeroes is a valid `open_how`.
    let mut how: libc::open_how = unsafe { std::mem::zeroed() };
    how.flags = u64::try_from(flags | libc::O_CLOEXEC).ok()?;
    how.resolve = libc::RESOLVE_CACHED;
    // SAFETY: the path ends with a zero, `how` has the size that is passed, and both live until the
    // call has returned.
    let opened = unsafe {
        libc::syscall(
            libc::SYS_openat2,
            libc::AT_FDCWD,
            path.as_ptr(),
            &raw const how,
            size_of::<libc::open_how>(),
        )
    };
    let descriptor = RawFd::try_from(opened).ok().filter(|&found| found >= 0)?;
    // SAFETY: the kernel has just opened this descriptor, and nothing else owns it.
    Some(unsafe { File::from_raw_fd(descriptor) })
}

/// Opens a file for reads, like [`open_cached`]; if `direct`, for reads that bypass the page cache.
pub(in crate::device) fn open_for_reads(path: &Path, direct: bool) -> Option<File> {
    let flags = if direct { libc::O_DIRECT } else { 0 };
    // Another program may hold a lease on the file. The call would wait for that program.
    let file = open_cached(path, libc::O_RDONLY | libc::O_NONBLOCK | flags)?;
    // Reads wait: `io_uring` of older kernels would refuse those that the page cache does not
    // answer.
    // SAFETY: no memory is passed; the descriptor is open for as long as `file` exists.
    let changed = unsafe { libc::fcntl(file.as_raw_fd(), libc::F_SETFL, flags) };
    (changed == 0).then_some(file)
}

/// The number of the file's device, which no server is asked for.
pub(in crate::device) fn number_cached(file: &File) -> Option<u64> {
    let flags = libc::AT_EMPTY_PATH | libc::AT_STATX_DONT_SYNC;
    // SAFETY: all zeroes is a valid `statx`, and the kernel fills it; the descriptor is open for as
    // long as `file` is borrowed, and the path is empty and ends with a zero.
    let (failed, found) = unsafe {
        let mut found: libc::statx = std::mem::zeroed();
        let failed = libc::statx(file.as_raw_fd(), c"".as_ptr(), flags, 0, &raw mut found);
        (failed, found)
    };
    (failed == 0).then(|| libc::makedev(found.stx_dev_major, found.stx_dev_minor))
}

/// The bytes of this range, if the page cache holds all of them.
pub(in crate::device) fn read_cached(file: &File, range: &Range<u64>) -> Option<Bytes> {
    let len = usize::try_from(range.end.checked_sub(range.start)?).ok()?;
    let mut bytes = vec![0_u8; len];
    let mut filled = 0;
    while filled < len {
        let rest = &mut bytes[filled..];
        let to = libc::iovec {
            iov_base: rest.as_mut_ptr().cast(),
            iov_len: rest.len(),
        };
        let offset = libc::off_t::try_from(range.start + filled as u64).ok()?;
        let flags = libc::RWF_NOWAIT;
        // SAFETY: the kernel writes into `rest` alone, and only until the call has returned; the
        // descriptor is open for as long as `file` is borrowed.
        let read = unsafe { libc::preadv2(file.as_raw_fd(), &raw const to, 1, offset, flags) };
        match usize::try_from(read) {
            Ok(0) | Err(_) => return None,
            Ok(read) => filled += read,
        }
    }
    Some(bytes.into())
}

/// Whether the file is on a file system of this machine, where the kernel answers calls about open
/// files from memory. Overlays do not count: any file system may be below one.
pub(super) fn is_local(file: &File) -> bool {
    // SAFETY: all zeroes is a valid `statfs`, and the kernel fills it; the descriptor is open for
    // as long as `file` is borrowed.
    let (failed, found) = unsafe {
        let mut found: libc::statfs = std::mem::zeroed();
        (libc::fstatfs(file.as_raw_fd(), &raw mut found), found)
    };
    failed == 0 && LOCAL.contains(&found.f_type)
}

/// The `f_type` of ext2 to ext4, XFS, btrfs, F2FS, ZFS, bcachefs, tmpfs, ramfs.
const LOCAL: [libc::__fsword_t; 8] = [
    0xef53,
    0x5846_5342,
    0x9123_683e,
    0xf2f5_2010,
    0x2fc1_2fc1,
    0xca45_1a4e,
    0x0102_1994,
    0x8584_58f6,
];
