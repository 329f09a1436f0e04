//! Threads that give way to others.
//!
//! The one file of this crate with unsafe code.

/// The niceness of a thread that gives way: beside a thread of the usual niceness it gets a quarter
/// of a processor, and a whole one where no other thread wants it.
const NICENESS: i32 = 5;

/// Makes the calling thread give way to those of the usual priority. If the host refuses, the
/// thread keeps its priority.
pub(crate) fn give_way() {
    // SAFETY: no memory is passed; on Linux 0 means the calling thread.
    let failed = unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, NICENESS) };
    if failed != 0 {
        log::debug!(
            "a thread does not give way: {}",
            std::io::Error::last_os_error()
        );
    }
}
