//! How does a process serve parts of queries?
//!
//! It has one engine, whose memory serves all queries, and listens on one address. Without TLS it
//! listens on this machine only (`nodes/links.rs`).
//! Not here: the protocol (`upstream/serve.rs`).

use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;

use coscan::Engine;
use coscan_core::parallelism::nodes::NodeReport;

use crate::error::{Error, Result};
use crate::nodes::Links;
use crate::nodes::report::Reporting;
use crate::upstream;

/// A worker that listens.
pub struct WorkerServer {
    engine: Engine,
    listener: TcpListener,
    address: SocketAddr,
    links: Links,
    reporting: Option<Reporting>,
}

impl WorkerServer {
    /// Listens on an address, which is one of this machine's own unless there is TLS; port 0 takes
    /// a free one.
    ///
    /// # Errors
    /// [`Error::NotLoopback`], and [`Error::Listen`] if the system refuses the address.
    pub fn bind(engine: Engine, address: SocketAddr, links: Links) -> Result<Self> {
        if links.tls.is_none() && !address.ip().is_loopback() {
            return Err(Error::NotLoopback { address });
        }
        let refused = |error: std::io::Error| Error::Listen {
            address,
            reason: error.to_string(),
        };
        let listener = TcpListener::bind(address).map_err(refused)?;
        listener.set_nonblocking(true).map_err(refused)?;
        Ok(Self {
            address: listener.local_addr().map_err(refused)?,
            engine,
            listener,
            links,
            reporting: None,
        })
    }

    /// The same worker, which says this of its load when a coordinator asks, and not what its
    /// meters say: for tests of what follows from it. Called on the thread of connections.
    #[must_use]
    pub fn reporting(mut self, report: impl Fn() -> NodeReport + Send + Sync + 'static) -> Self {
        self.reporting = Some(Arc::new(report));
        self
    }

    /// The address on which it listens.
    #[must_use]
    pub fn local_addr(&self) -> SocketAddr {
        self.address
    }

    /// Serves until `stop` is ready, and then at most two seconds longer. Parts of queries run on
    /// the runtime that calls it.
    ///
    /// # Errors
    /// [`Error::Listen`] if the server fails.
    pub async fn run(self, stop: impl Future<Output = ()>) -> Result<()> {
        let (engine, listener, links) = (self.engine, self.listener, self.links);
        let served = upstream::serve(engine, listener, links, self.reporting, stop);
        served.await.map_err(|reason| Error::Listen {
            address: self.address,
            reason,
        })
    }
}
