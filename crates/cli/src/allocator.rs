//! The allocator, and when it returns free pages to the system.
//!
//! Idea: frames and arrays come and go all the time, so most pages that were returned at once
//! would soon be taken back, each at the price of a page fault. Pages that stay free for a tenth
//! of a second are returned, so that hash tables can use what chunks and arrays held. A background
//! thread of the allocator does this even if no query runs. There are few arenas, because no arena
//! can use another's free pages. Under a limit below [`LITTLE_BYTES`] pages are returned
//! sooner: 24 clients in 150 MiB have 20 MB less of them, and 0.89 of the answers in 40 s;
//! returned at once they save no more, and leave 0.74 of the answers (one run each). Rejected:
//! mimalloc 3. In the soak (24 clients in 1.5 GB) it took 0.8 GB of uncounted memory after
//! twelve seconds, and 1.2 GB when the kernel killed the process; jemalloc takes 0.29 GB at
//! most. Twelve TPC-H clients in memory took 1.3 times the time, 1.2 to 1.4 times the processor
//! time and 0.65 GB more. Its large pages add to that (270 MB uncounted instead of 160, after
//! sixteen streams over lineitem), and save nothing.
//!
//! The only unsafe code of this crate: jemalloc reads its options from a symbol, and is told others
//! by pointers.
#![allow(unsafe_code)]

use std::ffi::{CStr, CString};
use std::mem::size_of;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicBool, Ordering};

use tikv_jemallocator::Jemalloc;

/// Replaces the system's allocator for C code (zstd) too.
#[global_allocator]
static ALLOCATOR: Jemalloc = Jemalloc;

/// jemalloc's options, with a terminating zero; the environment's `MALLOC_CONF` overrides them.
/// The symbol's name depends on whether jemalloc is built with a prefix (macOS) or without.
// SAFETY: jemalloc declares `const char *malloc_conf`; the first word of a slice is such a
// pointer.
#[cfg_attr(not(target_vendor = "apple"), unsafe(export_name = "malloc_conf"))]
#[cfg_attr(target_vendor = "apple", unsafe(export_name = "_rjem_malloc_conf"))]
pub(crate) static OPTIONS: &[u8] =
    b"narenas_ratio:2,dirty_decay_ms:100,muzzy_decay_ms:0,background_thread:true\0";

/// The limit below which free pages are returned sooner, in bytes.
const LITTLE_BYTES: u64 = 512 << 20;
/// How long pages stay free then, and in more memory, as [`OPTIONS`] have it, in milliseconds.
const DECAY_LITTLE_MS: isize = 10;
const DECAY_MS: isize = 100;

/// Takes note of the limit of the memory. Where it is never a small one, nothing is changed, so
/// that `MALLOC_CONF` holds.
pub(crate) fn limited_to(bytes: u64) {
    static IS_LITTLE: AtomicBool = AtomicBool::new(false);
    let is_little = bytes < LITTLE_BYTES;
    if IS_LITTLE.swap(is_little, Ordering::Relaxed) == is_little {
        return;
    }
    let wanted = if is_little { DECAY_LITTLE_MS } else { DECAY_MS };
    // Arenas to come, and those that are in use; the others refuse it.
    set(c"arenas.dirty_decay_ms", wanted);
    for arena in 0..arenas() {
        if let Ok(name) = CString::new(format!("arena.{arena}.dirty_decay_ms")) {
            set(&name, wanted);
        }
    }
}

/// Returns all free pages to the system now.
pub(crate) fn purge() {
    for arena in 0..arenas() {
        if let Ok(name) = CString::new(format!("arena.{arena}.purge")) {
            // SAFETY: the name ends with a zero, and nothing is read or written.
            unsafe {
                tikv_jemalloc_sys::mallctl(name.as_ptr(), null_mut(), null_mut(), null_mut(), 0);
            }
        }
    }
}

/// The number of arenas; 0 if the allocator does not say.
fn arenas() -> u32 {
    let (mut number, mut length) = (0_u32, size_of::<u32>());
    // SAFETY: the name ends with a zero, and both pointers are valid for the value's type, an
    // unsigned.
    let failed = unsafe {
        tikv_jemalloc_sys::mallctl(
            c"arenas.narenas".as_ptr(),
            (&raw mut number).cast(),
            &raw mut length,
            null_mut(),
            0,
        )
    };
    if failed == 0 { number } else { 0 }
}

/// Sets an option that is a `ssize_t`.
fn set(name: &CStr, mut value: isize) -> bool {
    // SAFETY: the name ends with a zero, and the pointer is valid for the value's type.
    let failed = unsafe {
        tikv_jemalloc_sys::mallctl(
            name.as_ptr(),
            null_mut(),
            null_mut(),
            (&raw mut value).cast(),
            size_of::<isize>(),
        )
    };
    failed == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_allocator_knows_the_options() {
        assert!(arenas() > 0);
        assert!(set(c"arenas.dirty_decay_ms", DECAY_MS));
        assert!(set(c"arena.0.dirty_decay_ms", DECAY_MS));
        assert!(!set(c"arena.0.no_such_option", DECAY_MS));
    }
}
