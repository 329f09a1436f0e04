//! What is a read to the kernel? A job that owns the memory, and the job's transfers.
//!
//! Idea: a [`Job`] holds the buffers of all its ranges. It is divided into transfers, each a
//! vectored read of adjacent pages. The last transfer to end gets the job, copies the shares of
//! pages that two ranges touch, and answers the caller.
//! Not here: the division (`scatter.rs`), who runs the transfers (`ring.rs`, `positional.rs`).
//! T1: a transfer has read less than it needs until it ends. U1 to U3: `mod.rs`.

use std::io;
use std::ops::Range;
use std::os::fd::AsRawFd;
use std::sync::Arc;

use bytes::Bytes;
use parking_lot::Mutex;
use tokio::sync::{OwnedSemaphorePermit, oneshot};

use super::super::open_file::OpenFile;
use super::super::scatter::{PAGE, Piece, Scatter};
use super::AlignedBuffer;
use crate::device::meter::InFlight;

/// Why a transfer failed.
#[derive(Debug)]
pub(crate) enum Failure {
    /// The kernel returned an error.
    Io {
        range: Range<u64>,
        source: io::Error,
    },
    /// The file ended at this position.
    EndOfFile { at: u64 },
    /// The caller was dropped before the transfer began.
    Unwanted,
    /// The ring gave up; the state of the transfer is unknown.
    Abandoned,
}

/// The result of a job: the bytes of each wanted range, or the first failure.
pub(crate) type Outcome = Result<Vec<Bytes>, Failure>;

/// A read of several ranges of one file. It is answered when its last transfer has ended.
#[derive(Debug)]
pub(crate) struct Job {
    file: Arc<OpenFile>,
    wanted: Vec<Range<u64>>,
    scatter: Scatter,
    buffers: Vec<AlignedBuffer>,
    sink: Arc<AlignedBuffer>,
    failure: Mutex<Option<Failure>>,
    /// Taken when the job is answered.
    caller: Mutex<Option<Caller>>,
}

/// The caller of a job, and the resources held for it.
#[derive(Debug)]
struct Caller {
    answer: oneshot::Sender<Outcome>,
    in_flight: InFlight,
    /// Held until the kernel is done, even if the caller is gone: it bounds memory.
    permit: OwnedSemaphorePermit,
}

impl Caller {
    fn answer(self, outcome: Outcome) {
        match outcome {
            Ok(_) => self.in_flight.complete(),
            Err(_) => drop(self.in_flight),
        }
        drop(self.permit);
        // If the caller is gone, the bytes are dropped.
        let _unheard = self.answer.send(outcome);
    }
}

impl Job {
    /// Allocates the memory and makes the transfers. Gaps are read into `sink`.
    pub(crate) fn start(
        file: Arc<OpenFile>,
        wanted: &[Range<u64>],
        scatter: Scatter,
        sink: Arc<AlignedBuffer>,
        in_flight: InFlight,
        permit: OwnedSemaphorePermit,
    ) -> (Vec<Transfer>, oneshot::Receiver<Outcome>) {
        let (answer, receiver) = oneshot::channel();
        let buffers = scatter
            .buffers
            .iter()
            .map(|pages| AlignedBuffer::new(pages.end - pages.start))
            .collect();
        let job = Arc::new(Self {
            file,
            wanted: wanted.to_vec(),
            scatter,
            buffers,
            sink,
            failure: Mutex::new(None),
            caller: Mutex::new(Some(Caller {
                answer,
                in_flight,
                permit,
            })),
        });
        let pieces = job.scatter.pieces.iter();
        let transfers = pieces.map(|piece| Transfer::new(&job, piece)).collect();
        (transfers, receiver)
    }

    fn answer(self) {
        let outcome = match self.failure.into_inner() {
            Some(failure) => Err(failure),
            None => Ok(fill(&self.wanted, &self.scatter, self.buffers)),
        };
        if let Some(caller) = self.caller.into_inner() {
            caller.answer(outcome);
        }
    }
}

/// Carries out the copies and turns the buffers into bytes. All transfers have succeeded.
fn fill(wanted: &[Range<u64>], scatter: &Scatter, buffers: Vec<AlignedBuffer>) -> Vec<Bytes> {
    let at = |offset: u64| usize::try_from(offset).unwrap_or(usize::MAX);
    for copy in &scatter.copies {
        let (from, to) = (&buffers[copy.from], &buffers[copy.to]);
        let (from_at, to_at, len) = (at(copy.from_at), at(copy.to_at), at(copy.len));
        assert!(copy.from != copy.to, "a buffer is not copied to itself");
        assert!(
            from_at + len <= from.len() && to_at + len <= to.len(),
            "S2: copies stay inside"
        );
        // SAFETY: both parts are inside their buffers, which are distinct allocations owned here,
        // and the kernel is done with them (U1). The source is part of a wanted range or its page,
        // which a transfer filled (U3).
        unsafe {
            std::ptr::copy_nonoverlapping(from.as_ptr().add(from_at), to.as_ptr().add(to_at), len);
        }
    }
    let ranges = wanted.iter().zip(&scatter.buffers);
    buffers
        .into_iter()
        .zip(ranges)
        .map(|(buffer, (range, pages))| {
            if range.is_empty() {
                return Bytes::new();
            }
            // SAFETY: by S2 transfers and copies filled the wanted range, and each successful
            // transfer brought all the bytes that it needed (U3). No transfer is left (U1).
            unsafe { buffer.into_bytes(at(range.start - pages.start), at(range.end - range.start)) }
        })
        .collect()
}

/// Adjacent bytes of a file that are read into a job's buffers.
#[derive(Debug)]
pub(crate) struct Transfer {
    job: Arc<Job>,
    offset: u64,
    need: u64,
    /// Bytes that have arrived. T1: less than `need` until the transfer ends.
    done: u64,
    /// The segments still to be read, from the page that contains `done`.
    segments: Vec<libc::iovec>,
}

// SAFETY: the pointers lead into buffers of `job`, which is `Send` and `Sync` and which the
// transfer keeps alive (U2).
unsafe impl Send for Transfer {}

impl Transfer {
    fn new(job: &Arc<Job>, piece: &Piece) -> Self {
        let segments = piece.segments.iter().map(|segment| {
            let buffer = match segment.buffer {
                Some(index) => &job.buffers[index],
                None => &*job.sink,
            };
            let at = usize::try_from(segment.at).unwrap_or(usize::MAX);
            let len = usize::try_from(segment.len).unwrap_or(usize::MAX);
            assert!(
                at.saturating_add(len) <= buffer.len(),
                "S2: segments stay inside"
            );
            libc::iovec {
                // SAFETY: `at` is inside the buffer.
                iov_base: unsafe { buffer.as_ptr().add(at) }.cast(),
                iov_len: len,
            }
        });
        Self {
            segments: segments.collect(),
            job: Arc::clone(job),
            offset: piece.offset,
            need: piece.need,
            done: 0,
        }
    }

    /// Whether a caller still waits for the job. If not, the transfer need not begin.
    pub(crate) fn is_wanted(&self) -> bool {
        let caller = self.job.caller.lock();
        caller
            .as_ref()
            .is_some_and(|caller| !caller.answer.is_closed())
    }

    /// Reads in the calling thread until the transfer has ended.
    pub(crate) fn run(mut self) {
        loop {
            let (fd, offset) = (self.job.file.as_raw_fd(), self.resume_at());
            let offset = i64::try_from(offset).unwrap_or(i64::MAX);
            let count = libc::c_int::try_from(self.segments.len()).unwrap_or(libc::c_int::MAX);
            // SAFETY: the segments are memory of the job, which stays alive (U2) and which only
            // this read accesses (U1).
            let came = unsafe { libc::preadv(fd, self.segments.as_ptr(), count, offset) };
            let came = usize::try_from(came).map_err(|_| io::Error::last_os_error());
            match self.advance(came) {
                Some(again) => self = again,
                None => return,
            }
        }
    }

    /// The submission entry for a ring. The transfer, with its segments, must not move or be
    /// dropped until the read has ended.
    pub(super) fn entry(&self) -> io_uring::squeue::Entry {
        let fd = io_uring::types::Fd(self.job.file.as_raw_fd());
        let count = u32::try_from(self.segments.len()).unwrap_or(u32::MAX);
        io_uring::opcode::Readv::new(fd, self.segments.as_ptr(), count)
            .offset(self.resume_at())
            .build()
    }

    /// Handles the end of a read: returns the transfer if it has to continue, or `None` if it has
    /// ended.
    pub(crate) fn advance(mut self, came: io::Result<usize>) -> Option<Self> {
        match came {
            Ok(came) => {
                let done = self.done - self.done % PAGE + came as u64;
                if done >= self.need {
                    self.end();
                    return None;
                }
                if done <= self.done {
                    // The read started at the same page and brought nothing new, so the file ends
                    // here.
                    let at = self.offset + self.done;
                    self.fail(Failure::EndOfFile { at });
                    return None;
                }
                self.skip(done - done % PAGE - (self.done - self.done % PAGE));
                self.done = done;
                Some(self)
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => Some(self),
            Err(source) => {
                let range = self.resume_at()..self.offset + self.need;
                self.fail(Failure::Io { range, source });
                None
            }
        }
    }

    pub(crate) fn fail(self, failure: Failure) {
        self.job.failure.lock().get_or_insert(failure);
        self.end();
    }

    /// Answers the job at once, although other transfers of it may still be in the kernel; these
    /// keep their memory (U2).
    pub(super) fn abandon(&self) {
        let caller = self.job.caller.lock().take();
        if let Some(caller) = caller {
            caller.answer(Err(Failure::Abandoned));
        }
    }

    /// Direct I/O continues at a page border, so part of a page may be read twice.
    fn resume_at(&self) -> u64 {
        self.offset + self.done - self.done % PAGE
    }

    fn skip(&mut self, bytes: u64) {
        let mut left = usize::try_from(bytes).unwrap_or(usize::MAX);
        let whole = self.segments.iter().take_while(|segment| {
            let skipped = segment.iov_len <= left;
            if skipped {
                left -= segment.iov_len;
            }
            skipped
        });
        let whole = whole.count();
        self.segments.drain(..whole);
        if let Some(first) = self.segments.first_mut() {
            // SAFETY: `left` is less than the segment's length.
            first.iov_base = unsafe { first.iov_base.cast::<u8>().add(left) }.cast();
            first.iov_len -= left;
        }
    }

    fn end(self) {
        // Of transfers that end concurrently exactly one, the last, gets the job.
        if let Some(job) = Arc::into_inner(self.job) {
            job.answer();
        }
    }
}
