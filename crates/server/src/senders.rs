//! Who sends the rows of a large batch? As many connections at a time as there are cores.
//!
//! A socket's buffer grows to megabytes. A client that does not read would have them encoded for
//! nothing, while others wait, and in memory that is in no budget. So little more is written than
//! the network takes (`TCP_NOTSENT_LOWAT`; what is under way is not bounded). And whoever sends
//! gives way after each [`FLUSH_BYTES`], so that a question of another client is seen. If all who
//! have rows took turns, each would have a batch in hand, and such a batch is memory that nobody
//! was asked for. So the next batch is taken only by who has one of these turns, and stays where it
//! is meanwhile (`waiting.rs`).
//! Not here: what happens to a batch whose client does not read on (`simple.rs`).
//! Bounds: a turn lasts as long as the encoding of one batch: who waits for the socket gives it up.
//! Batches that go out at once need none. Turns are given in the order in which they are asked for.

use std::io;
use std::num::NonZero;
use std::sync::Arc;
use std::thread::available_parallelism;

use socket2::SockRef;
use tokio::net::TcpStream;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Large enough that a system call is rare, small enough that the first rows are seen soon.
pub(crate) const FLUSH_BYTES: usize = 64 << 10;

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
