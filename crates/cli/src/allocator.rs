//! The allocator, configured to keep the pages it has.
//!
//! By default mimalloc gives freed pages back to the system after 10 ms. Frames and arrays come and
//! go all the time, so most pages would be given back only to be taken again, each at the price of
//! a fault: three TPC-H Q6 in a row at SF 10 took 11.2 s instead of 2.8 s without any purging,
//! nearly all of it in the kernel (one run of each, on a busy machine). Pages that stay free for
//! longer are still given back: what chunks and arrays held is wanted by hash tables. No budget
//! counts free pages, so how long they are kept follows from the memory limit: twelve TPC-H clients
//! on two cores free half a gigabyte in a second, and what is kept is to be a hundredth of the
//! limit. With a delay of a second they came within 35 MB of 4 GB, and the kernel ended one of some
//! 20 runs. Large pages make the remaining faults up to 512 times fewer.
//!
//! The only unsafe code of this crate: mimalloc's options are C functions.
#![allow(unsafe_code)]

use std::ffi::c_long;

use mimalloc::MiMalloc;

/// Many threads allocate batches and free batches that other threads made; the system's allocator
/// is slowest at that.
#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

/// How long pages stay free before they are given back to the system, if no limit is known.
const PURGE_DELAY_MS: c_long = 100;
/// And at most.
const PURGE_DELAY_MS_MAX: u64 = 1_000;
/// A limit of so many bytes is worth a millisecond.
const LIMIT_BYTES_PER_MS: u64 = 50_000_000;

/// `mi_option_purge_delay` of mimalloc 2 and 3 (`mimalloc.h`); the binding does not name it.
const PURGE_DELAY: libmimalloc_sys::mi_option_t = 15;

/// `mi_option_allow_large_os_pages` of mimalloc 2 and 3.
const LARGE_PAGES: libmimalloc_sys::mi_option_t = libmimalloc_sys::mi_option_large_os_pages;

/// Sets the options. Call it first.
pub(crate) fn keep_pages() {
    // SAFETY: the functions only store a value for an option that mimalloc 2 and 3 have. They may
    // be called at any time, and the `_default` ones leave a value alone that the environment has
    // set.
    unsafe {
        libmimalloc_sys::mi_option_set_default(PURGE_DELAY, PURGE_DELAY_MS);
        libmimalloc_sys::mi_option_set_enabled_default(LARGE_PAGES, true);
    }
}

/// What queries may take is known: pages stay free for as long as that allows.
pub(crate) fn keep_pages_within(limit_bytes: u64) {
    let delay = (limit_bytes / LIMIT_BYTES_PER_MS).clamp(1, PURGE_DELAY_MS_MAX);
    let delay = c_long::try_from(delay).unwrap_or(PURGE_DELAY_MS);
    // SAFETY: as above.
    unsafe { libmimalloc_sys::mi_option_set_default(PURGE_DELAY, delay) }
}
