//! What do the operating system's scheduler and a thread tell each other: that it may wait, how
//! much processor time it has used, how long it had to wait?
//!
//! The scheduler gives every thread its share; the slice length decides who runs first. A thread
//! that wakes up preempts a thread with a longer slice, and otherwise waits for the next tick, up
//! to 4 ms [EEVDF95; `sched(7)`]. A short query changes threads several times, so threads with
//! long computations ask for long slices: they get as much time, only later. Threads for
//! deferrable work are also niced: they get less time whenever another thread wants it, one of
//! another program included. A thread cannot take that back, because raising its priority needs a
//! privilege.
//!
//! Nothing here needs a privilege. Before Linux 6.12, and where the system refuses, threads stay
//! as they are.
//! Not here: which query's task runs next (the core).

#![expect(unsafe_code, reason = "system calls that no safe library has")]

use std::cell::Cell;
use std::time::Duration;
use std::{fs, io};

/// How long a thread may compute while others that are woken wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Slice {
    /// The system's default.
    Usual,
    /// As long as the system allows: a woken thread with the usual slice runs first.
    Long,
}

/// The longest slice that Linux grants.
const LONG_NS: u64 = 100_000_000;

thread_local! {
    static SLICE: Cell<Slice> = const { Cell::new(Slice::Usual) };
}

/// Sets the slice of the calling thread.
pub fn set_slice(slice: Slice) {
    if SLICE.replace(slice) == slice {
        return;
    }
    let ns = match slice {
        Slice::Usual => 0,
        Slice::Long => LONG_NS,
    };
    if let Err(error) = change(|attributes| attributes.sched_runtime = ns) {
        log::debug!("a thread keeps its slices: {error}");
    }
}

/// Makes the calling thread yield to threads of lower niceness, for the rest of its life. `steps`
/// is above 0: each step means a fifth less of a contended processor. The steps add to the
/// niceness that the thread has already, up to 19, the highest there is.
pub fn give_way(steps: i32) {
    let changed = change(|attributes| {
        attributes.sched_nice = (attributes.sched_nice + steps).min(19);
        attributes.sched_runtime = LONG_NS;
    });
    match changed {
        Ok(()) => SLICE.set(Slice::Long),
        Err(error) => log::debug!("a thread keeps its niceness: {error}"),
    }
}

/// The processor time that the calling thread has used, as the system counts it.
#[must_use]
pub fn processor_time() -> Duration {
    time(libc::CLOCK_THREAD_CPUTIME_ID)
}

/// The processor time that all threads of the process have used.
#[must_use]
pub fn process_time() -> Duration {
    time(libc::CLOCK_PROCESS_CPUTIME_ID)
}

/// How long the calling thread has been ready to run while others ran; `None` if the system does
/// not count it.
#[must_use]
pub fn ready_time() -> Option<Duration> {
    let counted = fs::read_to_string("/proc/thread-self/schedstat").ok()?;
    let waited = counted.split_whitespace().nth(1)?.parse().ok()?;
    Some(Duration::from_nanos(waited))
}

fn time(clock: libc::clockid_t) -> Duration {
    // SAFETY: all zeroes is a valid `timespec`, which the kernel fills.
    let time = unsafe {
        let mut time: libc::timespec = std::mem::zeroed();
        libc::clock_gettime(clock, &raw mut time);
        time
    };
    let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
    Duration::new(seconds, u32::try_from(time.tv_nsec).unwrap_or(0))
}

/// The calling thread's niceness; 0 if the system does not report it.
#[must_use]
pub fn niceness() -> i32 {
    let mut found = 0;
    match change(|attributes| found = attributes.sched_nice) {
        Ok(()) => found,
        Err(_) => 0,
    }
}

/// Changes the calling thread's attributes.
fn change(how: impl FnOnce(&mut libc::sched_attr)) -> io::Result<()> {
    // SAFETY: all zeroes is a valid `sched_attr`, and 0 means the calling thread; the kernel writes
    // no more than the size that is passed, and reads no more than the size in the attributes.
    unsafe {
        let mut attributes: libc::sched_attr = std::mem::zeroed();
        let size = size_of::<libc::sched_attr>();
        let address = &raw mut attributes;
        if libc::syscall(libc::SYS_sched_getattr, 0, address, size, 0) != 0 {
            return Err(io::Error::last_os_error());
        }
        how(&mut attributes);
        if libc::syscall(libc::SYS_sched_setattr, 0, address, 0) != 0 {
            return Err(io::Error::last_os_error());
        }
    }
    Ok(())
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn waiting_uses_no_processor_time() {
        let used = |begun: Duration| processor_time().saturating_sub(begun);
        let begun = processor_time();
        std::thread::sleep(Duration::from_millis(50));
        assert!(used(begun) < Duration::from_millis(40));
        while used(begun) < Duration::from_millis(45) {
            std::hint::spin_loop();
        }
    }

    #[test]
    fn slices_come_and_go_without_rights() {
        let worker = std::thread::spawn(|| {
            let runtime = || {
                let mut found = 0;
                change(|attributes| found = attributes.sched_runtime).map(|()| found)
            };
            let usual = runtime().expect("the thread's attributes");
            set_slice(Slice::Long);
            let long = runtime().expect("the thread's attributes");
            set_slice(Slice::Usual);
            // Before Linux 6.12 all are 0.
            assert!(long == LONG_NS || long == usual, "{long}");
            assert_eq!(runtime().expect("the thread's attributes"), usual);
            let before = niceness();
            give_way(2);
            assert_eq!(niceness(), (before + 2).min(19));
            give_way(2);
            assert_eq!(niceness(), (before + 4).min(19), "further steps");
        });
        worker.join().expect("no panic");
    }
}
