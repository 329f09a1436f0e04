//! The allocator, told to keep what it has.
//!
//! By default mimalloc gives freed pages back to the system after 10 ms. Frames and arrays come and go all the time, so most pages
//! were given back only to be taken again, each at the price of a fault: three TPC-H Q6 in a row at SF 10 took 11.2 s instead of
//! 2.8 s without any purging, nearly all of it in the kernel (one run of each, on a busy machine). Pages that stay free for a second are still given back: memory is shared with other programs.
//!
//! The only unsafe code of this crate: mimalloc's options are C functions.
#![allow(unsafe_code)]

use mimalloc::MiMalloc;

/// Many threads allocate and free batches that others made, which is what the system's allocator is slowest at.
#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

/// How long pages stay free before they are given back.
const PURGE_DELAY_MS: std::ffi::c_long = 1000;

/// `mi_option_purge_delay` of mimalloc 2 (`mimalloc.h`); the binding does not name it.
const PURGE_DELAY: libmimalloc_sys::mi_option_t = 15;

/// Sets the options. Call it first.
pub(crate) fn keep_pages() {
    // SAFETY: the function only stores a number for an option that mimalloc 2 has; it may be called at any time, and
    // `mi_option_set_default` leaves a value alone that the environment set.
    unsafe { libmimalloc_sys::mi_option_set_default(PURGE_DELAY, PURGE_DELAY_MS) };
}
