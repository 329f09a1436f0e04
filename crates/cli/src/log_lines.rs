//! Where do the messages of a server go that no client asked for?
//!
//! To standard error, a line each: the time, the level, where, what. `COSCAN_LOG` says how much:
//! `off`, `error`, `warn` (the default), `info` or `debug`. Only Coscan's own crates are heard.
//! Bounds: [`LINES_MAX`] lines a second. The next second's first line says how many are missing, so
//! that no client fills a disk.

use std::fmt;
use std::io::{self, Write};
use std::sync::{Mutex, PoisonError};
use std::time::{Instant, SystemTime};

use log::{LevelFilter, Log, Metadata, Record};

use crate::failure::Failure;

const VARIABLE: &str = "COSCAN_LOG";
const LINES_MAX: u32 = 100;

/// Writes messages from now on.
///
/// # Errors
/// `COSCAN_LOG` has another value.
pub(crate) fn begin() -> Result<(), Failure> {
    let level = match std::env::var(VARIABLE) {
        Err(_) => LevelFilter::Warn,
        Ok(named) => named.trim().parse().map_err(|_| {
            let text = format!("{VARIABLE} is {named:?}, not off, error, warn, info or debug");
            Failure::new(text)
        })?,
    };
    // A program that embeds this may have its own.
    if log::set_logger(&LINES).is_ok() {
        log::set_max_level(level);
    }
    Ok(())
}

static LINES: Lines = Lines(Mutex::new(Second {
    began: None,
    written: 0,
    missing: 0,
}));

struct Lines(Mutex<Second>);

/// What was written in the present second.
struct Second {
    began: Option<Instant>,
    written: u32,
    missing: u32,
}

impl Second {
    /// Whether one more line may be written; how many were left out before.
    fn next(&mut self, now: Instant) -> (bool, u32) {
        let goes_on = self.began.is_some_and(|began| (now - began).as_secs() == 0);
        let mut missing = 0;
        if !goes_on {
            missing = std::mem::take(&mut self.missing);
            (self.began, self.written) = (Some(now), 0);
        }
        if self.written == LINES_MAX {
            self.missing += 1;
            return (false, missing);
        }
        self.written += 1;
        (true, missing)
    }
}

impl Log for Lines {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.target().starts_with("coscan")
    }

    fn log(&self, record: &Record<'_>) {
        if !self.enabled(record.metadata()) {
            return;
        }
        let mut second = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let (is_written, missing) = second.next(Instant::now());
        let mut out = io::stderr().lock();
        // Nobody can be told that standard error is closed.
        if missing > 0 {
            drop(writeln!(out, "coscan: {missing} messages are missing here"));
        }
        if is_written {
            drop(writeln!(out, "{}", Line(record)));
        }
    }

    fn flush(&self) {}
}

/// A message as a line.
struct Line<'a>(&'a Record<'a>);

impl fmt::Display for Line<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let now = humantime::format_rfc3339_millis(SystemTime::now());
        let (level, place) = (self.0.level(), self.0.target());
        let text = self.0.args().to_string().replace(['\n', '\r'], " ");
        write!(f, "{now} {level} {place}: {text}")
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn lines_of_a_second_have_a_bound() {
        let now = Instant::now();
        let mut second = Second {
            began: None,
            written: 0,
            missing: 0,
        };
        let all = |second: &mut Second, at| (0..150).filter(|_| second.next(at).0).count();
        assert_eq!(all(&mut second, now), 100);
        let later = now + Duration::from_secs(1);
        assert_eq!(second.next(later), (true, 50), "and the gap is told");
        assert_eq!(second.next(later), (true, 0));
    }

    #[test]
    fn a_message_is_one_line_that_says_where() {
        let record = Record::builder()
            .target("coscan::running")
            .level(log::Level::Warn)
            .args(format_args!("one\ntwo"))
            .build();
        let line = Line(&record).to_string();
        assert!(
            line.ends_with("Z WARN coscan::running: one two"),
            "{line:?}"
        );
    }
}
