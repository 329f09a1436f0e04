//! Who sends the rows of a large batch? As many connections at a time as there are cores.
//!
//! A socket's buffer grows to megabytes. A client that does not read would have them encoded for
//! nothing, while others wait, and in memory that is in no budget. So little more is written than
//! the network takes (`TCP_NOTSENT_LOWAT`; what is under way is not bounded). And whoever sends
//! gives way after each [`FLUSH_BYTES`], so that a question of another client is seen. If all who
//! have rows took turns, each would have a batch in hand, and such a batch is memory that nobody
//! was asked for. So the next batch is taken only by who has one of these turns, and stays where it
//! is meanwhile (`coscan::running`).
//! Not here: what happens to a batch whose client does not read on (`simple.rs`).
//! Bounds: a turn lasts as long as the encoding of one batch: who waits for the socket gives it up.
//! Batches that go out at once need none. Turns are given in the order in which they are asked for.

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

/// Large enough that a system call is rare, small enough that the first rows are seen soon.
pub(crate) const FLUSH_BYTES: usize = LARGE_BYTES;

/// So many bytes wait in a socket at most that the network has not taken.
const UNSENT_BYTES: u32 = 256 << 10;

/// Bounds what waits in the socket for the network.
///
/// # Errors
/// The system refuses it: the socket keeps the system's bound.
pub(crate) fn bound_unsent(socket: &TcpStream) -> io::Result<()> {
    SockRef::from(socket).set_tcp_notsent_lowat(UNSENT_BYTES)
}

/// The turns of a server.
#[derive(Clone)]
pub(crate) struct Senders(Arc<Semaphore>);

/// The right to send a large batch, until it is dropped.
pub(crate) struct Turn {
    _permit: Option<OwnedSemaphorePermit>,
}

impl Default for Senders {
    fn default() -> Self {
        Self::new(available_parallelism().map_or(1, NonZero::get))
    }
}

impl Senders {
    /// So many turns at a time.
    pub(crate) fn new(turns: usize) -> Self {
        Self(Arc::new(Semaphore::new(turns)))
    }

    /// Waits for a turn. Cancel safe: who does not wait any longer loses its place.
    pub(crate) async fn turn(&self) -> Turn {
        // Nobody closes the semaphore.
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
