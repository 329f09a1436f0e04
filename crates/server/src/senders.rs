//! Which connections may send the rows of a large batch? As many at a time as there are cores.
//!
//! A socket's buffer grows to megabytes. Rows encoded for a client that does not read would fill
//! it for nothing, in memory outside of any budget, while other clients wait. So the server writes
//! little more than the network takes (`TCP_NOTSENT_LOWAT`; data in flight is not bounded). A
//! sender also yields after each [`FLUSH_BYTES`], so that messages of other clients are noticed.
//! If all connections with rows took turns, each would have a batch in hand, and such a batch is
//! not in the budget. So only a connection that holds a turn takes the next batch, which otherwise
//! stays where it is (`waiting.rs`).
//! Not here: what happens to a batch whose client stops reading (`simple.rs`).
//! Bounds: a turn lasts as long as encoding one batch: a connection that waits for its socket
//! gives its turn up. Small batches, which go out at once, need no turn. Turns are granted in the
//! order of requests.

use std::io;
use std::num::NonZero;
use std::sync::Arc;
use std::thread::available_parallelism;

use socket2::SockRef;
use tokio::net::TcpStream;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Large enough that system calls are rare, small enough that the first rows arrive soon.
pub(crate) const FLUSH_BYTES: usize = 64 << 10;

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
