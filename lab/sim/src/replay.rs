//! Does the core still make the decisions that this log recorded?
//!
//! Idea: the log is read line by line. Its events go to a core that is configured as the log says,
//! and the core's actions, written in the same format, must equal the recorded lines byte for byte.
//! Not here: the format (`coscan_core::log`), opening files (coscan-study).
//! Bounds: holds the actions of one event. A log that was cut off (no `end`) is replayed as far as
//! it goes.
//! R1: after an event every recorded line is compared before the next event is handled.

use std::collections::VecDeque;
use std::io::BufRead;

use coscan_core::log::{self, LogError, Record};
use coscan_core::{Abm, Time};

/// A log being replayed. Pass it lines, then call [`Replay::finish`].
#[derive(Debug, Default)]
pub struct Replay {
    abm: Option<Abm>,
    line: u64,
    /// The line of the last event.
    event_line: u64,
    /// The core's actions after the last event that the log has not shown yet.
    ahead: VecDeque<String>,
    ended: bool,
    summary: Replayed,
}

/// The result of a replay.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Replayed {
    /// Events handled.
    pub events: u64,
    /// Actions that were equal.
    pub actions: u64,
    /// The time of the last event.
    pub time: Time,
    /// Whether the log has no `end`: its writer was stopped, or its disk was full.
    pub cut_off: bool,
}

/// Why a replay stopped.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReplayError {
    /// The log could not be read further.
    #[error("reading the log: {0}")]
    Read(#[from] std::io::Error),
    /// The first line is not that of a log.
    #[error("line 1: this is no log of Coscan's core")]
    NotALog,
    /// A line cannot be parsed.
    #[error("line {line}: {source}")]
    BadLine {
        /// The line, from 1.
        line: u64,
        /// The reason.
        source: LogError,
    },
    /// A line in the wrong place: a second header, an action before the first event, anything after
    /// the end.
    #[error("line {line}: {what} is out of place")]
    OutOfPlace {
        /// The line, from 1.
        line: u64,
        /// The kind of the line.
        what: &'static str,
    },
    /// The core made another decision.
    #[error(
        "event {event} (line {event_line}): the log goes on with {recorded:?} (line {line}), the core with {ours:?}"
    )]
    Differs {
        /// The event, from 1.
        event: u64,
        /// Its line, from 1.
        event_line: u64,
        /// The line at which the two differ.
        line: u64,
        /// The recorded line; `None` if the log has no further action.
        recorded: Option<String>,
        /// The core's line; `None` if the core has no further action.
        ours: Option<String>,
    },
}

/// Replays a log from its first line to its last. A last line without a line feed is incomplete and
/// is left out.
///
/// # Errors
/// The log cannot be read, is damaged, or the core makes another decision than it records.
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
    /// The state before the first line.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Handles the next line, given without its line feed.
    ///
    /// # Errors
    /// The line is damaged or out of place, or the core makes another decision than the log
    /// records.
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

    /// Ends the replay after the last line.
    ///
    /// # Errors
    /// The log has no first line.
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

    /// R1. (Not checked at the end of a log that was cut off, which may lack the last event's
    /// actions.)
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
    // Writing to a String cannot fail.
    let _ = write(&mut line);
    line.truncate(line.trim_end_matches('\n').len());
    line
}
