//! The unsafe code of reads: memory that the kernel writes into, and the system calls that make it
//! write.
//!
//! A read that was submitted to the kernel cannot be withdrawn, but a future can be dropped at any
//! time. So the [`Job`] owns the memory, every [`Transfer`] keeps its job alive, and the engine
//! that carries transfers out (`ring.rs`, the thread pool of `positional.rs`) keeps a transfer
//! until the kernel is done with it. The future holds only the receiving end of a channel.
//!
//! Not here: reads that the kernel answers from its memory (`../cached.rs`).
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

/// Tells the kernel that it may drop the cached pages of this part of the file.
pub(super) fn advise_unneeded(file: &impl AsRawFd, offset: u64, len: u64) {
    let (Ok(offset), Ok(len)) = (i64::try_from(offset), i64::try_from(len)) else {
        return;
    };
    // SAFETY: no memory is passed. A refusal is harmless, of a descriptor that is not open too.
    unsafe { libc::posix_fadvise(file.as_raw_fd(), offset, len, libc::POSIX_FADV_DONTNEED) };
}
