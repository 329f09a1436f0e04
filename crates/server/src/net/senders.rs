//! Which connections may send the rows of a large batch? As many at a time as there are cores.
//!
//! A socket's buffer grows to megabytes. Rows encoded for a client that does not read would fill
//! it for nothing, in memory outside of any budget, while other clients wait. So the server writes
//! little more than the network takes (`TCP_NOTSENT_LOWAT`; data in flight is not bounded). A
//! sender also yields after each [`FLUSH_BYTES`], so that messages of other clients are noticed.
//! If all connections with rows took turns, each would have a batch in hand, and such a batch is
//! not in the budget. So only a connection that holds a turn takes the next batch, which otherwise
//! stays where it is (`coscan::Running`).
//! Not here: what happens to a batch whose client stops reading (`../protocol/results.rs`).
//! Bounds: a turn lasts as long as encoding one batch: a connection that waits for its socket
//! gives its turn up. Small batches, which go out at once, need no turn. Turns are granted in the
//! order of requests.

use std::io;
use std::num::NonZero;
use std::sync::Arc;
use std::thread::available_parallelism;
use std::time::Duration;

use coscan::running::{LARGE_BYTES, Running};
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::arrow::record_batch::RecordBatch;
use socket2::SockRef;
use tokio::net::TcpStream;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::failure::Failure;

/// Large enough that system calls are rare, small enough that the first rows arrive soon.
pub(crate) const FLUSH_BYTES: usize = LARGE_BYTES;

/// The most bytes in a socket that the network has not taken yet.
const UNSENT_BYTES: u32 = 256 << 10;

/// Bounds the unsent data in the socket.
///
/// # Errors
/// The system refuses the bound, and the socket keeps the system's.
pub(crate) fn bound_unsent(socket: &TcpStream) -> io::Result<()> {
    SockRef::from(socket).set_tcp_notsent_lowat(UNSENT_BYTES)
}

/// The turns of a server.
#[derive(Clone)]
pub(crate) struct Senders(Arc<Semaphore>);

/// The right to send a large batch, until this is dropped.
pub(crate) struct Turn {
    _permit: Option<OwnedSemaphorePermit>,
}

impl Default for Senders {
    fn default() -> Self {
        Self::new(available_parallelism().map_or(1, NonZero::get))
    }
}

impl Senders {
    /// Grants up to `turns` turns at a time.
    pub(crate) fn new(turns: usize) -> Self {
        Self(Arc::new(Semaphore::new(turns)))
    }

    /// Waits for a turn. Cancel safe: a caller that stops waiting loses its place.
    pub(crate) async fn turn(&self) -> Turn {
        // The semaphore is never closed.
        let permit = Arc::clone(&self.0).acquire_owned().await.ok();
        Turn { _permit: permit }
    }
}

/// A running query whose large batches are taken in turns.
pub(crate) struct Sending {
    running: Running,
    senders: Senders,
    /// The turn in which the batch that was taken last is sent.
    turn: Option<Turn>,
}

impl Sending {
    pub(crate) fn new(running: Running, senders: Senders) -> Self {
        Self {
            running,
            senders,
            turn: None,
        }
    }

    pub(crate) fn schema(&self) -> &SchemaRef {
        self.running.schema()
    }

    /// The next batch, or `None` after the last; a large one when it is this query's turn to send.
    /// Releases the memory of the batch before. Cancel safe.
    pub(crate) async fn next(&mut self) -> Result<Option<RecordBatch>, Failure> {
        self.turn = None;
        let next = self.running.next_in_turn(|| self.senders.turn()).await?;
        let Some((batch, turn)) = next else {
            return Ok(None);
        };
        self.turn = turn;
        Ok(Some(batch))
    }

    /// How long the client may leave the batch that was taken last where it is.
    pub(crate) fn patience(&self) -> Duration {
        self.running.patience()
    }

    /// Lets others send, because the client does not take what was sent, or has all that it asked
    /// for.
    pub(crate) fn give_up_turn(&mut self) {
        self.turn = None;
    }

    /// Puts aside the rest of the batch that was taken last: it comes next. The client is idle from
    /// now on.
    pub(crate) fn put_aside(&mut self, rest: RecordBatch) {
        self.running.put_aside(rest);
    }
}
