//! Does a connection wait for its client?
//!
//! Other connections read this, in `pg_stat_activity`. A wait costs two stores.

use std::sync::atomic::{AtomicU8, Ordering};

/// What a connection waits for its client to do.
#[derive(Debug, Default)]
pub(crate) struct ClientWait(AtomicU8);

const NOTHING: u8 = 0;
const SEND: u8 = 1;
const TAKE: u8 = 2;

impl ClientWait {
    /// PostgreSQL's name of the wait, if there is one.
    pub(crate) fn event(&self) -> Option<&'static str> {
        match self.0.load(Ordering::Relaxed) {
            SEND => Some("ClientRead"),
            TAKE => Some("ClientWrite"),
            _ => None,
        }
    }

    /// Whether the client is to send a message.
    pub(super) fn reads(&self, waits: bool) {
        self.0
            .store(if waits { SEND } else { NOTHING }, Ordering::Relaxed);
    }

    /// Whether the client is to take what was written.
    pub(super) fn writes(&self, waits: bool) {
        self.0
            .store(if waits { TAKE } else { NOTHING }, Ordering::Relaxed);
    }
}
