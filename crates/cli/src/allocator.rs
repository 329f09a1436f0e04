//! The allocator, and when it returns free pages to the system.
//!
//! Idea: frames and arrays come and go all the time, so most pages that were returned at once
//! would soon be taken back, each at the price of a page fault. Pages that stay free for a tenth
//! of a second are returned, so that hash tables can use what chunks and arrays held. A background
//! thread of the allocator does this even if no query runs. There are few arenas, because no arena
//! can use another's free pages. Rejected: mimalloc 3. In the soak (24 clients in 1.5 GB) it took
//! 0.8 GB of uncounted memory after twelve seconds, and 1.2 GB when the kernel killed the process;
//! jemalloc takes 0.29 GB at most. Twelve TPC-H clients in memory took 1.3 times the time, 1.2 to
//! 1.4 times the processor time and 0.65 GB more. Its large pages add to that (270 MB uncounted
//! instead of 160, after sixteen streams over lineitem), and save nothing.
//!
//! The only unsafe code of this crate: jemalloc reads its options from a symbol.
#![allow(unsafe_code)]

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
