//! How many allocations does a piece of work make?
//!
//! Idea: the test's allocator is the system's with a counter per thread, because the harness has
//! threads of its own.
//! Not here: how many bytes are allocated, or held.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

thread_local! {
    /// Allocations of this thread, growing included. The cell neither allocates nor is dropped, so
    /// the allocator may use it at any time.
    static MADE: Cell<u64> = const { Cell::new(0) };
}

/// The result of the work, and the number of allocations that it made in this thread.
pub(crate) fn counted<T>(work: impl FnOnce() -> T) -> (T, u64) {
    let before = MADE.get();
    let result = work();
    (result, MADE.get() - before)
}

struct Counting;

#[global_allocator]
static ALLOCATOR: Counting = Counting;

// SAFETY: the system's allocator does all the work, with the arguments of the call.
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
