//! The events and actions of a run, as a hash or as a log.
//!
//! Idea: the trace of a run is its log (`coscan_core::log`), so two runs with one hash have one
//! log, and a run that failed can be replayed.

use std::fmt::Write;

use coscan_core::{AbmConfig, Action, Event, Time, log};

/// Every event and action of a run.
#[derive(Clone, Debug)]
pub struct Trace {
    hash: u64,
    /// The lines, if they are kept.
    text: Option<String>,
    line: String,
    /// The number of events.
    pub events: u64,
    /// The number of actions.
    pub actions: u64,
}

/// FNV-1a, 64 bits.
const OFFSET: u64 = 0xCBF2_9CE4_8422_2325;
const PRIME: u64 = 0x0000_0100_0000_01B3;

impl Trace {
    /// An empty trace. `keep`: whether the log is kept too.
    #[must_use]
    pub fn new(keep: bool) -> Self {
        Self {
            hash: OFFSET,
            text: keep.then(String::new),
            line: String::new(),
            events: 0,
            actions: 0,
        }
    }

    /// The hash: equal for equal logs.
    #[must_use]
    pub fn hash(&self) -> u64 {
        self.hash
    }

    /// The log, if it was kept.
    #[must_use]
    pub fn text(&self) -> &str {
        self.text.as_deref().unwrap_or_default()
    }

    pub(super) fn config(&mut self, config: &AbmConfig) {
        self.add(|line| log::write_config(line, config));
    }

    pub(super) fn event(&mut self, now: Time, event: &Event) {
        self.events += 1;
        self.add(|line| log::write_event(line, now, event));
    }

    pub(super) fn action(&mut self, action: &Action) {
        self.actions += 1;
        self.add(|line| log::write_action(line, action));
    }

    pub(super) fn end(&mut self) {
        self.add(log::write_end);
    }

    fn add(&mut self, write: impl FnOnce(&mut String) -> std::fmt::Result) {
        self.line.clear();
        // Writing to a String cannot fail.
        let _ = write(&mut self.line);
        for byte in self.line.bytes() {
            self.hash = (self.hash ^ u64::from(byte)).wrapping_mul(PRIME);
        }
        if let Some(text) = &mut self.text {
            let _ = text.write_str(&self.line);
        }
    }
}
