//! Page-aligned memory for direct I/O: allocated here, filled by the kernel, read as `Bytes`.
//!
//! Not here: which parts are initialised (`transfer.rs`); U1 to U3 are in `mod.rs`.

use std::alloc::{Layout, alloc, dealloc, handle_alloc_error};
use std::ptr::NonNull;

use super::super::scatter::PAGE;

/// Uninitialised memory of whole pages.
///
/// The memory is not zeroed: the kernel fills it anyway, and clearing 1.2 GB/s costs a tenth of a
/// core.
#[derive(Debug)]
pub(crate) struct AlignedBuffer {
    start: NonNull<u8>,
    layout: Option<Layout>,
}

// SAFETY: the buffer owns its memory, like a `Box<[u8]>`.
unsafe impl Send for AlignedBuffer {}
// SAFETY: through a shared reference its memory can only be read, or handed to the kernel under U1.
unsafe impl Sync for AlignedBuffer {}

impl AlignedBuffer {
    /// Memory of `len` bytes, a multiple of the page size.
    pub(crate) fn new(len: u64) -> Self {
        assert_eq!(len % PAGE, 0, "buffers are whole pages");
        if len == 0 {
            let (start, layout) = (NonNull::dangling(), None);
            return Self { start, layout };
        }
        let bytes = usize::try_from(len).unwrap_or(usize::MAX);
        let align = usize::try_from(PAGE).unwrap_or(usize::MAX);
        let Ok(layout) = Layout::from_size_align(bytes, align) else {
            handle_alloc_error(Layout::new::<u8>());
        };
        // SAFETY: the layout's size is not 0.
        let Some(start) = NonNull::new(unsafe { alloc(layout) }) else {
            handle_alloc_error(layout)
        };
        Self {
            start,
            layout: Some(layout),
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.layout.map_or(0, |layout| layout.size())
    }

    /// The start of the memory, for the kernel.
    pub(super) fn as_ptr(&self) -> *mut u8 {
        self.start.as_ptr()
    }

    /// Turns a part of the buffer into `Bytes` that keep the whole buffer alive.
    ///
    /// # Safety
    /// The part is initialised (U3), and nothing writes to the buffer from now on (U1).
    pub(super) unsafe fn into_bytes(self, from: usize, len: usize) -> bytes::Bytes {
        assert!(from + len <= self.len(), "the part is inside the buffer");
        bytes::Bytes::from_owner(Part {
            buffer: self,
            from,
            len,
        })
    }
}

impl Drop for AlignedBuffer {
    fn drop(&mut self) {
        if let Some(layout) = self.layout {
            // SAFETY: `new` allocated it with this layout; U2 keeps the kernel out.
            unsafe { dealloc(self.start.as_ptr(), layout) };
        }
    }
}

/// An initialised part of a buffer.
struct Part {
    buffer: AlignedBuffer,
    from: usize,
    len: usize,
}

impl AsRef<[u8]> for Part {
    fn as_ref(&self) -> &[u8] {
        // SAFETY: `into_bytes` was promised that the part is initialised and no longer written, and
        // checked its bounds.
        unsafe { std::slice::from_raw_parts(self.buffer.start.as_ptr().add(self.from), self.len) }
    }
}
