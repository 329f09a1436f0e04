//! The allocator, and when it gives free pages back to the system.
//!
//! Idea: frames and arrays come and go all the time, so most pages that were given back at once
//! would only be taken again, each at the price of a fault. Pages that stay free for a tenth of a
//! second go: what chunks and arrays held is wanted by hash tables. A thread of the allocator's
//! own sees to it, also where no query runs. Few arenas, for what one has free no other can use.
//! Refused: mimalloc 3. In the soak (24 clients in 1.5 GB) it took 0.8 GB beyond what is accounted
//! after twelve seconds and 1.2 GB when the kernel ended the process; with jemalloc it is 0.29 GB
//! at most. Twelve TPC-H clients in memory took 1.3 times the time, 1.2 to 1.4 times the processor
//! time and 0.65 GB more. Its large pages add to that (270 MB beyond, instead of 160, after sixteen
//! streams over lineitem), and save nothing.
//!
//! The only unsafe code of this crate: jemalloc reads its options from a symbol.
#![allow(unsafe_code)]

use tikv_jemallocator::Jemalloc;

/// Takes the place of the system's allocator for C code (zstd), too.
#[global_allocator]
static ALLOCATOR: Jemalloc = Jemalloc;

/// jemalloc's options, ended by a zero; the environment's `MALLOC_CONF` comes after them. The name
/// is that of a build without prefix, and the other one of a build with it (macOS).
// SAFETY: jemalloc declares `const char *malloc_conf`; the first word of a slice is such a pointer.
#[cfg_attr(not(target_vendor = "apple"), unsafe(export_name = "malloc_conf"))]
#[cfg_attr(target_vendor = "apple", unsafe(export_name = "_rjem_malloc_conf"))]
pub(crate) static OPTIONS: &[u8] =
    b"narenas_ratio:2,dirty_decay_ms:100,muzzy_decay_ms:0,background_thread:true\0";
