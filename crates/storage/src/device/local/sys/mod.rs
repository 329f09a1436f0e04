//! The only unsafe code of the device layer: memory that the kernel writes into, and the system
//! calls that make it write.
//!
//! A read that was submitted to the kernel cannot be withdrawn, but a future can be dropped at any
//! time. So the [`Job`] owns the memory, every [`Transfer`] keeps its job alive, and the engine
//! that carries transfers out (`ring.rs`, the thread pool of `positional.rs`) keeps a transfer
//! until the kernel is done with it. The future holds only the receiving end of a channel.
//!
//! U1: from the creation of a transfer until its job is answered, only the kernel accesses the
//! job's buffers.
//! U2: a job's memory is not freed while a transfer of it exists.
//! U3: bytes of a buffer are read only if a transfer that covers them succeeded, or if they were
//! copied from such bytes.

#![expect(
    unsafe_code,
    reason = "direct I/O needs memory that the kernel owns for a while"
)]

mod buffer;
mod ring;
mod transfer;

use std::fs::File;
use std::os::fd::AsRawFd;

pub(in crate::device) use buffer::AlignedBuffer;
pub(in crate::device) use ring::Ring;
pub(in crate::device) use transfer::{Failure, Job, Outcome, Transfer};

/// Tells the kernel that reads of this file are random, so that it reads nothing ahead.
pub(super) fn advise_random(file: &File) {
    // SAFETY: the descriptor is open for as long as `file` is borrowed; no memory is passed. A
    // refusal is harmless: it is advice.
    unsafe { libc::posix_fadvise(file.as_raw_fd(), 0, 0, libc::POSIX_FADV_RANDOM) };
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

/// Tells the kernel that it may drop the cached pages of this part of the file.
pub(super) fn advise_unneeded(file: &impl AsRawFd, offset: u64, len: u64) {
    let (Ok(offset), Ok(len)) = (i64::try_from(offset), i64::try_from(len)) else {
        return;
    };
    // SAFETY: no memory is passed. A refusal is harmless, of a descriptor that is not open too.
    unsafe { libc::posix_fadvise(file.as_raw_fd(), offset, len, libc::POSIX_FADV_DONTNEED) };
}
