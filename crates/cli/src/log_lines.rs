//! Where do messages go that a server has for its operator, and not for a client?
//!
//! To standard error, a line each: the time, the level, where, what. `COSCAN_LOG` says how much:
//! `off`, `error`, `warn` (the default), `info` or `debug`. Only Coscan's own crates are heard.
//! A thread of its own writes the lines: a stopped terminal or a full pipe blocks the writer, and
//! some messages come from threads that hold locks of the whole engine.
//! Bounds: [`LINES_MAX`] lines a second, so that no client fills a disk, and [`WAITING_MAX`] that
//! wait to be written. The first line after a gap says how many are missing.

use std::fmt;
use std::io::{self, Write};
use std::sync::mpsc::{Sender, SyncSender, TrySendError, channel, sync_channel};
use std::sync::{Mutex, OnceLock, PoisonError};
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use log::{LevelFilter, Log, Metadata, Record};

use crate::failure::Failure;

const VARIABLE: &str = "COSCAN_LOG";
const LINES_MAX: u32 = 100;
/// The most lines that wait to be written.
const WAITING_MAX: usize = 100;
/// How long the end of the program waits for the last lines.
const END_MAX: Duration = Duration::from_secs(1);

/// Messages are written until this is dropped.
#[must_use]
pub(crate) struct Written;

/// Writes messages from now on.
///
/// # Errors
/// `COSCAN_LOG` has another value; the host starts no thread.
pub(crate) fn begin() -> Result<Written, Failure> {
    let level = match std::env::var(VARIABLE) {
        Err(_) => LevelFilter::Warn,
        Ok(named) => named.trim().parse().map_err(|_| {
            let text = format!("{VARIABLE} is {named:?}, not off, error, warn, info or debug");
            Failure::new(text)
        })?,
    };
    let lines = Lines::to(io::stderr());
    let lines = lines.map_err(|error| Failure::new(format!("no thread for messages: {error}")))?;
    // A program that embeds this may have its own.
    if log::set_logger(LINES.get_or_init(|| lines)).is_ok() {
        log::set_max_level(level);
    }
    Ok(Written)
}

static LINES: OnceLock<Lines> = OnceLock::new();

impl Drop for Written {
    fn drop(&mut self) {
        log::logger().flush();
    }
}

struct Lines {
    second: Mutex<Second>,
    /// What the thread writes.
    queue: SyncSender<Job>,
}

enum Job {
    Line(String),
    /// Dropped when all before it has been written.
    End(Sender<()>),
}

impl Lines {
    /// Starts the thread that writes.
    fn to(mut out: impl Write + Send + 'static) -> io::Result<Self> {
        let (queue, jobs) = sync_channel(WAITING_MAX);
        let write = move || {
            for job in jobs {
                match job {
                    // A closed standard error leaves no place for the message.
                    Job::Line(line) => drop(writeln!(out, "{line}")),
                    Job::End(done) => drop(done),
                }
            }
        };
        let named = thread::Builder::new().name("coscan-log".to_owned());
        named.spawn(write)?;
        Ok(Self {
            second: Mutex::default(),
            queue,
        })
    }

    /// Has a line written; false if too many wait.
    fn put(&self, line: String) -> bool {
        self.queue.try_send(Job::Line(line)).is_ok()
    }
}

/// What was written in the present second.
#[derive(Default)]
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
        let mut second = self.second.lock().unwrap_or_else(PoisonError::into_inner);
        let (is_written, missing) = second.next(Instant::now());
        if missing > 0 && !self.put(format!("coscan: {missing} messages are missing here")) {
            second.missing += missing;
        }
        if is_written && !self.put(Line(record).to_string()) {
            second.missing += 1;
        }
    }

    fn flush(&self) {
        let until = Instant::now() + END_MAX;
        let (done, ended) = channel::<()>();
        let mut job = Job::End(done);
        while let Err(TrySendError::Full(again)) = self.queue.try_send(job) {
            if Instant::now() >= until {
                return;
            }
            job = again;
            thread::sleep(Duration::from_millis(1));
        }
        // Either it was dropped, or the time is over.
        let _ended = ended.recv_timeout(until.saturating_duration_since(Instant::now()));
    }
}

/// A message as a line.
struct Line<'a>(&'a Record<'a>);

impl fmt::Display for Line<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let now = humantime::format_rfc3339_millis(SystemTime::now());
        let (level, place) = (self.0.level(), self.0.target());
        // A client chooses names, and control characters in them are commands to a terminal.
        let text = self.0.args().to_string().replace(char::is_control, " ");
        write!(f, "{now} {level} {place}: {text}")
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::mpsc::Receiver;

    use super::*;

    /// Standard error that takes nothing until the other end is dropped.
    struct Stuck {
        hang: Receiver<()>,
        taken: Arc<Mutex<Vec<u8>>>,
    }

    impl Write for Stuck {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            let _released = self.hang.recv();
            self.taken.lock().unwrap().write(bytes)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn no_thread_waits_for_standard_error() {
        let (release, hang) = channel();
        let taken = Arc::<Mutex<Vec<u8>>>::default();
        let out = Stuck {
            hang,
            taken: Arc::clone(&taken),
        };
        let lines = Lines::to(out).unwrap();
        for at in 0..300 {
            lines.log(
                &Record::builder()
                    .target("coscan")
                    .level(log::Level::Warn)
                    .args(format_args!("message {at}"))
                    .build(),
            );
        }
        // They wait, but for the one that is being written.
        while lines.put("more".to_owned()) {}
        assert!(taken.lock().unwrap().is_empty());
        drop(release);
        while !lines.put("last".to_owned()) {
            thread::yield_now();
        }
        lines.flush();
        let taken = String::from_utf8(taken.lock().unwrap().clone()).unwrap();
        let written: Vec<&str> = taken.lines().collect();
        assert!(written[0].ends_with(": message 0"), "{taken}");
        assert_eq!(written.last(), Some(&"last"));
        assert!(
            (WAITING_MAX..WAITING_MAX + 9).contains(&written.len()),
            "{taken}"
        );
    }

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
            .args(format_args!("one\ntwo\x1b[2J"))
            .build();
        let line = Line(&record).to_string();
        assert!(
            line.ends_with("Z WARN coscan::running: one two [2J"),
            "{line:?}"
        );
    }
}
