//! The allocator, configured to keep the pages it has for a moment.
//!
//! By default mimalloc gives freed pages back to the system after 10 ms. Frames and arrays come and
//! go all the time, so most pages would be given back only to be taken again, each at the price of
//! a fault: three TPC-H Q6 in a row at SF 10 took 11.2 s instead of 2.8 s without any purging,
//! nearly all of it in the kernel (one run of each, on a busy machine). Pages that stay free for a
//! tenth of a second are still given back: what chunks and arrays held is wanted by hash tables.
//! After a second, twelve TPC-H clients came within 35 MB of 4 GB and the kernel ended one of some
//! 20 runs; so they take up to 0.4 GB less, and as long.
//! Refused: large pages (`mi_option_allow_large_os_pages`). After sixteen streams over lineitem the
//! process took 270 MB beyond what is accounted with them and 160 without, for the same time and
//! processor time, there and for twelve TPC-H clients.
//!
//! The only unsafe code of this crate: mimalloc's options are C functions.
#![allow(unsafe_code)]

use mimalloc::MiMalloc;

/// Many threads allocate batches and free batches that other threads made; the system's allocator
/// is slowest at that.
#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

/// How long pages stay free before they are given back to the system.
const PURGE_DELAY_MS: std::ffi::c_long = 100;

/// `mi_option_purge_delay` of mimalloc 2 and 3 (`mimalloc.h`); the binding does not name it.
const PURGE_DELAY: libmimalloc_sys::mi_option_t = 15;

/// Sets the option. Call it first.
pub(crate) fn keep_pages() {
    // SAFETY: the function only stores a value for an option that mimalloc 2 and 3 have. It may be
    // called at any time, and leaves a value alone that the environment has set.
    unsafe {
        libmimalloc_sys::mi_option_set_default(PURGE_DELAY, PURGE_DELAY_MS);
    }
}
