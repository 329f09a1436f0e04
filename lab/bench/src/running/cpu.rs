//! How much CPU time has this process used?

use std::time::Duration;

/// User and system time of all threads since the process started, ended threads included.
pub(crate) fn process_time() -> Duration {
    let mut usage = std::mem::MaybeUninit::<libc::rusage>::zeroed();
    // SAFETY: the pointer is valid for writes of one rusage for the length of the call, and
    // all-zero bytes are a valid rusage, so reading it is sound even if the call fails (which it
    // cannot with RUSAGE_SELF).
    #[allow(unsafe_code)]
    let usage = unsafe {
        libc::getrusage(libc::RUSAGE_SELF, usage.as_mut_ptr());
        usage.assume_init()
    };
    duration(usage.ru_utime) + duration(usage.ru_stime)
}

/// CPUs that the process may use.
pub(crate) fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, std::num::NonZero::get)
}

#[allow(clippy::useless_conversion)] // The fields' types differ between systems.
fn duration(time: libc::timeval) -> Duration {
    let seconds = u64::try_from(i64::from(time.tv_sec)).unwrap_or(0);
    let micros = u64::try_from(i64::from(time.tv_usec)).unwrap_or(0);
    Duration::from_secs(seconds) + Duration::from_micros(micros)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_takes_time() {
        let before = process_time();
        let mut x = 1_u64;
        while process_time() < before + Duration::from_millis(5) {
            x = std::hint::black_box(x.wrapping_mul(3));
        }
        assert!(process_time() > before && cores() >= 1);
    }
}
