//! How many allocations does a piece of work make?
//!
//! Idea: the test's allocator is the system's, and counts. It counts by thread, for the harness has
//! threads of its own.
//! Not here: how many bytes are allocated, or held.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

thread_local! {
    /// Made by this thread, those that grew included. It neither allocates nor is dropped, so the
    /// allocator may ask for it at any time.
    static MADE: Cell<u64> = const { Cell::new(0) };
}

/// What the work gives, and the allocations that it made in this thread.
pub(crate) fn counted<T>(work: impl FnOnce() -> T) -> (T, u64) {
    let before = MADE.get();
    let result = work();
    (result, MADE.get() - before)
}

struct Counting;

#[global_allocator]
static ALLOCATOR: Counting = Counting;

// SAFETY: the system's allocator does all the work, and is asked for what we are asked for.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        MADE.set(MADE.get() + 1);
        // SAFETY: as the caller promises.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        MADE.set(MADE.get() + 1);
        // SAFETY: as the caller promises.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        MADE.set(MADE.get() + 1);
        // SAFETY: as the caller promises.
        unsafe { System.realloc(pointer, layout, size) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: as the caller promises.
        unsafe { System.dealloc(pointer, layout) }
    }
}
