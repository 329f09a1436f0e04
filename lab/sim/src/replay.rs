//! Does the core still decide what it decided when this log was written?
//!
//! Idea: lines go in as they are read, the events among them go to a core set up as the log says,
//! and what it does, written down in the same way, must be the lines that follow, byte for byte.
//! Not here: the format (`coscan_core::log`), opening files (coscan-study).
//! Bounds: holds the actions of one event. A log that was cut off (no `end`) is replayed as far as
//! it goes.
//! R1: after an event every recorded line is compared before the next event is handled.

use std::collections::VecDeque;
use std::io::BufRead;

use coscan_core::log::{self, LogError, Record};
use coscan_core::{Abm, Time};

/// A log being replayed. Feed it lines, then [`Replay::finish`].
#[derive(Debug, Default)]
pub struct Replay {
    abm: Option<Abm>,
    line: u64,
    /// Of the last event.
    event_line: u64,
    /// What the core did after the last event, not yet met in the log.
    ahead: VecDeque<String>,
    ended: bool,
    summary: Replayed,
}

/// What was replayed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Replayed {
    /// Events handled.
    pub events: u64,
    /// Actions that were the same.
    pub actions: u64,
    /// The time of the last event.
    pub time: Time,
    /// The log has no `end`: the program that wrote it was stopped, or its disk was full.
    pub cut_off: bool,
}

/// Why a replay stopped.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReplayError {
    /// The log could not be read on.
    #[error("reading the log: {0}")]
    Read(#[from] std::io::Error),
    /// The first line is not that of a log.
    #[error("line 1: this is no log of Coscan's core")]
    NotALog,
    /// A line that cannot be read.
    #[error("line {line}: {source}")]
    BadLine {
        /// From 1.
        line: u64,
        /// Why.
        source: LogError,
    },
    /// A line where it has no business: a second header, an action before the first event, anything
    /// after the end.
    #[error("line {line}: {what} is out of place")]
    OutOfPlace {
        /// From 1.
        line: u64,
        /// What it is.
        what: &'static str,
    },
    /// The core did something else.
    #[error(
        "event {event} (line {event_line}): the log goes on with {recorded:?} (line {line}), the core with {ours:?}"
    )]
    Differs {
        /// The event, from 1.
        event: u64,
        /// Its line, from 1.
        event_line: u64,
        /// The line at which they differ.
        line: u64,
        /// What the log says. None: it has no further action.
        recorded: Option<String>,
        /// What the core does. None: it does nothing more.
        ours: Option<String>,
    },
}

/// Replays a log from its first line to its last. A last line without a line feed was not written
/// to its end and is left out.
///
/// # Errors
/// The log cannot be read, is damaged, or the core does something else than it says.
pub fn replay(mut log: impl BufRead) -> Result<Replayed, ReplayError> {
    let mut replay = Replay::new();
    let mut line = String::new();
    while log.read_line(&mut line)? > 0 && line.pop() == Some('\n') {
        replay.line(&line)?;
        line.clear();
    }
    replay.finish()
}

impl Replay {
    /// Before the first line.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// The next line, without its line feed.
    ///
    /// # Errors
    /// The line is damaged or out of place, or the core does something else than the log says.
    pub fn line(&mut self, text: &str) -> Result<(), ReplayError> {
        self.line += 1;
        let line = self.line;
        let out_of_place = |what| Err(ReplayError::OutOfPlace { line, what });
        let record = log::parse(text);
        if line == 1 && !matches!(record, Ok(Record::Config(_)) | Err(LogError::Version(_))) {
            return Err(ReplayError::NotALog);
        }
        let record = record.map_err(|source| ReplayError::BadLine { line, source })?;
        match (record, &mut self.abm) {
            _ if self.ended => out_of_place("a line after the end"),
            (Record::Config(config), None) => {
                self.abm = Some(Abm::new(config));
                Ok(())
            }
            (Record::Event(now, event), Some(_)) => {
                self.nothing_ahead()?;
                if let Some(abm) = &mut self.abm {
                    let refused = abm.handle(now, event).err();
                    self.ahead
                        .extend(refused.map(|e| written(|out| log::write_refusal(out, &e))));
                    let actions = std::iter::from_fn(|| abm.poll_action());
                    self.ahead.extend(
                        actions.map(|action| written(|out| log::write_action(out, &action))),
                    );
                }
                self.event_line = line;
                self.summary.events += 1;
                self.summary.time = now;
                Ok(())
            }
            (Record::Action | Record::Refusal, Some(_)) if self.summary.events > 0 => {
                let ours = self.ahead.pop_front();
                if ours.as_deref() != Some(text) {
                    return Err(self.differs(Some(text.to_owned()), ours));
                }
                self.summary.actions += 1;
                Ok(())
            }
            (Record::End, Some(_)) => {
                self.ended = true;
                self.nothing_ahead()
            }
            _ => out_of_place("this line"),
        }
    }

    /// After the last line.
    ///
    /// # Errors
    /// There was no first line.
    pub fn finish(self) -> Result<Replayed, ReplayError> {
        if self.abm.is_none() {
            return Err(ReplayError::NotALog);
        }
        let cut_off = !self.ended;
        Ok(Replayed {
            cut_off,
            ..self.summary
        })
    }

    /// R1. (Not at the end of a log that was cut off, which may lack the last event's actions.)
    fn nothing_ahead(&mut self) -> Result<(), ReplayError> {
        match self.ahead.pop_front() {
            Some(ours) => Err(self.differs(None, Some(ours))),
            None => Ok(()),
        }
    }

    fn differs(&self, recorded: Option<String>, ours: Option<String>) -> ReplayError {
        ReplayError::Differs {
            event: self.summary.events,
            event_line: self.event_line,
            line: self.line,
            recorded,
            ours,
        }
    }
}

/// A line without its line feed.
fn written(write: impl FnOnce(&mut String) -> std::fmt::Result) -> String {
    let mut line = String::new();
    // A String takes everything.
    let _ = write(&mut line);
    line.truncate(line.trim_end_matches('\n').len());
    line
}
