//! What does a process give back that takes more than it may?
//!
//! Idea: the kernel counts every page of code that was ever needed as the process's, with its
//! neighbours: 100 MB after half a minute of all kinds of statements. It takes them back where
//! memory is short on the machine, and not where it is short under our own limit. So this thread
//! gives the code back when the process nears what it may take, and what the allocator has free
//! when it takes more, before buffered chunks have to make way for them. What is needed again comes
//! from the kernel's page cache, some microseconds a page. With 24 clients in 150 MiB that leaves
//! as many answers as there are without a bound; 0.6 of them were left where buffered chunks made
//! way and the allocator returned free pages at once (two runs of 40 s each).
//! Not here: what the process may take (`coscan-storage`'s `memory/process.rs`).
//! Bounds: four times a second.
//!
//! The only unsafe code of this file: the kernel is told of an address.
#![allow(unsafe_code)]

use std::fs;
use std::ptr::with_exposed_provenance_mut;
use std::thread;
use std::time::Duration;

use crate::allocator;

/// The time between two looks.
const EVERY: Duration = Duration::from_millis(250);

/// How a process stands to what it may take.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bound {
    /// It takes nearly as much, or more.
    pub(crate) is_near: bool,
    /// It takes more.
    pub(crate) is_exceeded: bool,
}

/// Starts the thread, which ends when `look` gives nothing.
pub(crate) fn keep_small(look: impl Fn() -> Option<Bound> + Send + 'static) {
    let looks = move || {
        while let Some(bound) = look() {
            if bound.is_exceeded {
                allocator::purge();
            }
            if bound.is_near {
                give_code_back();
            }
            thread::sleep(EVERY);
        }
    };
    let thread = thread::Builder::new().name("coscan-reclaim".to_owned());
    if let Err(error) = thread.spawn(looks) {
        log::error!("no thread that gives memory back: {error}");
    }
}

/// Gives back the pages of this program's code, and returns their number of bytes in the address
/// space; 0 where the kernel does not say where they are.
fn give_code_back() -> usize {
    let maps = fs::read_to_string("/proc/self/maps").unwrap_or_default();
    let Ok(program) = std::env::current_exe() else {
        return 0;
    };
    let mut given = 0;
    for (start, bytes) in code(&maps, &program.to_string_lossy()) {
        // SAFETY: the mapping is the program's code, which is read and executed, never written. The
        // kernel reads the same bytes again when they are needed.
        let failed = unsafe {
            let start = with_exposed_provenance_mut(start);
            libc::madvise(start, bytes, libc::MADV_DONTNEED)
        };
        if failed == 0 {
            given += bytes;
        }
    }
    given
}

/// Where a program's code lies: addresses and numbers of bytes.
fn code(maps: &str, program: &str) -> Vec<(usize, usize)> {
    let of_line = |line: &str| {
        let (range, rest) = line.split_once(' ')?;
        let is_code = rest.starts_with("r-xp ") && rest.ends_with(program);
        let (start, end) = range.split_once('-')?;
        let [start, end] = [start, end].map(|address| usize::from_str_radix(address, 16).ok());
        is_code.then_some((start?, end?.checked_sub(start?)?))
    };
    maps.lines().filter_map(of_line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_code_of_the_program_is_given_back() {
        let maps = "1000-3000 r--p 00000000 08:01 7 /bin/coscan\n\
                    3000-a000 r-xp 00002000 08:01 7 /bin/coscan\n\
                    a000-b000 rw-p 00009000 08:01 7 /bin/coscan\n\
                    c000-d000 r-xp 00000000 08:01 8 /lib/libc.so.6\n\
                    e000-f000 r-xp 00000000 00:00 0 [vdso]\n";
        assert_eq!(code(maps, "/bin/coscan"), [(0x3000, 0x7000)]);
        assert_eq!(code("nonsense", "/bin/coscan"), []);
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn code_that_was_given_back_still_runs() {
        assert!(give_code_back() > 0);
        assert_eq!((1..=10).map(|n| n * n).sum::<u32>(), 385);
    }
}
