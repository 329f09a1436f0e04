//! One `io_uring`, driven by one thread.
//!
//! Callers put transfers into an inbox and ring an eventfd (the bell). The thread keeps a read of
//! that eventfd in the ring, so that one wait covers both completions and arrivals.
//! Bounds: at most `depth` transfers are in the kernel; the rest wait in the order of arrival,
//! bounded by the reads that the device admits. A transfer without a waiting caller is dropped
//! when it would be submitted.
//! R1: a transfer stays in its slot from submission to completion (U2).
//! R2: when the kernel refuses to continue a ring, the ring answers every transfer, present and
//! later, with [`Failure::Abandoned`]; the caller may then read in another way.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, Write};
use std::mem::ManuallyDrop;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::sync::{Arc, mpsc};
use std::thread;

use io_uring::{IoUring, opcode, types};
use parking_lot::Mutex;

use super::{Failure, Transfer};

/// The caller's side of a ring. Dropping it ends the thread once all transfers have ended.
#[derive(Debug)]
pub(crate) struct Ring {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    inbox: Mutex<Inbox>,
    bell: File,
    #[cfg(test)]
    broken: std::sync::atomic::AtomicBool,
}

#[derive(Debug, Default)]
struct Inbox {
    transfers: VecDeque<Transfer>,
    closed: bool,
}

impl Ring {
    /// Starts a ring with room for `depth` reads.
    ///
    /// # Errors
    /// The kernel's error, in particular `ENOSYS` and `EPERM` where `io_uring` is not available.
    pub(crate) fn start(name: String, depth: u16) -> io::Result<Self> {
        let shared = Arc::new(Shared {
            inbox: Mutex::default(),
            bell: bell()?,
            #[cfg(test)]
            broken: false.into(),
        });
        let (started, result) = mpsc::sync_channel(1);
        let theirs = Arc::clone(&shared);
        thread::Builder::new().name(name).spawn(move || {
            // The ring is made in its thread, because `single_issuer` binds it to the thread that
            // makes it.
            match build(depth) {
                Ok(ring) => {
                    let _gone = started.send(Ok(()));
                    Driver::new(ring, theirs, depth).run();
                }
                Err(error) => {
                    let _gone = started.send(Err(error));
                }
            }
        })?;
        result
            .recv()
            .map_err(|_| io::Error::other("the ring's thread ended while it started"))??;
        Ok(Self { shared })
    }

    /// Queues transfers, in order.
    pub(crate) fn submit(&self, transfers: Vec<Transfer>) {
        {
            let mut inbox = self.shared.inbox.lock();
            if inbox.closed {
                drop(inbox);
                // R2: the ring gave up.
                return transfers.iter().for_each(Transfer::abandon);
            }
            inbox.transfers.extend(transfers);
        }
        self.shared.ring_bell();
    }

    /// Makes the kernel refuse to continue the ring from its next wait on.
    #[cfg(test)]
    pub(crate) fn break_down(&self) {
        let broken = &self.shared.broken;
        broken.store(true, std::sync::atomic::Ordering::SeqCst);
        self.shared.ring_bell();
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        self.shared.inbox.lock().closed = true;
        self.shared.ring_bell();
    }
}

impl Shared {
    fn ring_bell(&self) {
        // Writing fails only if the count would overflow, and then the bell is ringing already.
        let _rung = (&self.bell).write_all(&1u64.to_ne_bytes());
    }
}

fn bell() -> io::Result<File> {
    // SAFETY: no memory is passed; the returned descriptor is owned here alone.
    let fd = unsafe { libc::eventfd(0, libc::EFD_CLOEXEC) };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the descriptor was just opened, and only this code has it.
    Ok(File::from(unsafe { OwnedFd::from_raw_fd(fd) }))
}

fn build(depth: u16) -> io::Result<IoUring> {
    // One entry more than reads, for the bell.
    let entries = (u32::from(depth) + 1).next_power_of_two();
    IoUring::builder()
        .setup_single_issuer()
        .setup_defer_taskrun()
        .build(entries)
        // Kernels older than 6.1 do not know these flags, which only save interrupts of the ring's
        // thread.
        .or_else(|error| match error.raw_os_error() {
            Some(libc::EINVAL) => IoUring::new(entries),
            _ => Err(error),
        })
}

/// The thread's state.
struct Driver {
    /// Not dropped if the kernel refuses to continue: its reads may still write.
    ring: ManuallyDrop<IoUring>,
    shared: Arc<Shared>,
    waiting: VecDeque<Transfer>,
    /// Transfers in the kernel, by the tag of their read.
    slots: ManuallyDrop<Vec<Option<Transfer>>>,
    free: Vec<u16>,
    /// The memory for the bell's count. Boxed, because the kernel has its address.
    rings: ManuallyDrop<Box<u64>>,
    bell_armed: bool,
    closed: bool,
}

impl Driver {
    fn new(ring: IoUring, shared: Arc<Shared>, depth: u16) -> Self {
        Self {
            ring: ManuallyDrop::new(ring),
            shared,
            waiting: VecDeque::new(),
            slots: ManuallyDrop::new((0..depth).map(|_| None).collect()),
            free: (0..depth).rev().collect(),
            rings: ManuallyDrop::new(Box::new(0)),
            bell_armed: false,
            closed: false,
        }
    }

    fn run(mut self) {
        loop {
            self.take_inbox();
            self.fill_queue();
            let idle = self.waiting.is_empty() && self.free.len() == self.slots.len();
            if self.closed && idle && !self.bell_armed {
                break;
            }
            if let Err(error) = self.wait()
                && !is_transient(&error)
            {
                return self.give_up(&error);
            }
            self.reap();
        }
        // SAFETY: each is dropped once, here, and not used afterwards. Neither a read nor the bell
        // is in the kernel.
        unsafe {
            ManuallyDrop::drop(&mut self.ring);
            ManuallyDrop::drop(&mut self.slots);
            ManuallyDrop::drop(&mut self.rings);
        }
    }

    /// Submits queued transfers to the kernel, and waits for a completion.
    fn wait(&mut self) -> io::Result<usize> {
        #[cfg(test)]
        if self.shared.broken.load(std::sync::atomic::Ordering::SeqCst) {
            return Err(io::Error::from_raw_os_error(libc::EBADF));
        }
        self.ring.submit_and_wait(1)
    }

    fn take_inbox(&mut self) {
        let mut inbox = self.shared.inbox.lock();
        self.waiting.append(&mut inbox.transfers);
        self.closed = inbox.closed;
    }

    fn fill_queue(&mut self) {
        // The bell of a closed ring is not armed, so that the thread can end.
        if !self.bell_armed && !self.closed {
            let (fd, to) = (self.shared.bell.as_raw_fd(), &raw mut **self.rings);
            let entry = opcode::Read::new(types::Fd(fd), to.cast(), 8)
                .build()
                .user_data(BELL);
            // SAFETY: `shared` keeps the descriptor open and `rings` the memory until the bell's
            // completion; if the thread gives up earlier, both are leaked.
            self.bell_armed = unsafe { self.ring.submission().push(&entry) }.is_ok();
        }
        while let Some(slot) = self.free.pop() {
            let Some(transfer) = self.waiting.pop_front() else {
                self.free.push(slot);
                return;
            };
            if !transfer.is_wanted() {
                self.free.push(slot);
                transfer.fail(Failure::Unwanted);
                continue;
            }
            let entry = transfer.entry().user_data(u64::from(slot));
            // SAFETY: the transfer goes into its slot and stays there until the completion is
            // reaped (R1). It keeps its file open and its memory alive (U2); its list of segments
            // is on the heap and does not change meanwhile.
            if unsafe { self.ring.submission().push(&entry) }.is_err() {
                // The submission queue stays full until the kernel has taken its entries.
                self.waiting.push_front(transfer);
                self.free.push(slot);
                return;
            }
            self.slots[usize::from(slot)] = Some(transfer);
        }
    }

    fn reap(&mut self) {
        let completions = self.ring.completion();
        for completion in completions {
            if completion.user_data() == BELL {
                self.bell_armed = false;
                continue;
            }
            let Ok(slot) = u16::try_from(completion.user_data()) else {
                continue;
            };
            let Some(transfer) = self.slots[usize::from(slot)].take() else {
                continue;
            };
            self.free.push(slot);
            let came = usize::try_from(completion.result())
                .map_err(|_| io::Error::from_raw_os_error(-completion.result()));
            if let Some(again) = transfer.advance(came) {
                self.waiting.push_front(again);
            }
        }
    }

    /// The ring is broken (R2). Transfers in the kernel stay there and their memory is leaked
    /// (U2): at most once per device, and no more than is in flight.
    fn give_up(mut self, error: &io::Error) {
        log::error!("io_uring stopped: {error}");
        let mut inbox = self.shared.inbox.lock();
        inbox.closed = true;
        self.waiting.append(&mut inbox.transfers);
        drop(inbox);
        let in_kernel = self.slots.iter().flatten();
        in_kernel.chain(&self.waiting).for_each(Transfer::abandon);
        std::mem::forget(self.shared);
    }
}

/// Errors after which the wait can be repeated: a signal, or a temporary lack of kernel memory.
fn is_transient(error: &io::Error) -> bool {
    matches!(
        error.raw_os_error(),
        Some(libc::EINTR | libc::EAGAIN | libc::EBUSY)
    )
}

/// The tag of the bell's read; no slot has it.
const BELL: u64 = u64::MAX;
