//! Errors of a cluster: which node, and what about it?

use std::net::SocketAddr;
use std::path::PathBuf;

use coscan::parts::LostNode;
use datafusion::error::DataFusionError;

use crate::version::VERSION;

/// An error of a cluster.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The list of nodes cannot be read.
    #[error("{}: {reason}", path.display())]
    List {
        /// The file.
        path: PathBuf,
        /// Why not.
        reason: String,
    },
    /// The addresses of a name in the list of nodes are not known.
    #[error("{name}: {reason}")]
    Name {
        /// The entry.
        name: String,
        /// Why not.
        reason: String,
    },
    /// A node cannot be reached, or was lost while it worked.
    #[error("node {node}: {reason}")]
    Lost {
        /// The node's address.
        node: String,
        /// What the connection says.
        reason: String,
    },
    /// A node runs another version of Coscan.
    #[error("node {node} runs {theirs}, this process {ours}: all nodes need the same version")]
    OtherVersion {
        /// The node's address.
        node: String,
        /// Its version.
        theirs: String,
        /// The version of this process.
        ours: &'static str,
    },
    /// A file for TLS cannot be read.
    #[error("{}: {reason}", path.display())]
    TlsFile {
        /// The file.
        path: PathBuf,
        /// Why not.
        reason: String,
    },
    /// The certificates of this process cannot be used.
    #[error("certificate, key and authority of this process do not work together: {reason}")]
    Tls {
        /// Why not.
        reason: String,
    },
    /// A worker without TLS is to listen beyond this machine.
    #[error(
        "without TLS a worker listens on this machine only (127.0.0.1 or [::1]), not on {address}"
    )]
    NotLoopback {
        /// The address.
        address: SocketAddr,
    },
    /// A worker cannot listen, or its server failed.
    #[error("{address}: {reason}")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// The cause.
        reason: String,
    },
    /// The system gives no thread for connections.
    #[error("no thread for the connections of a cluster: {reason}")]
    Thread {
        /// The cause.
        reason: String,
    },
    /// The settings of a session are too long to travel with a part of its query.
    #[error("the session's settings take {bytes} bytes; at most {most} travel with a query")]
    Settings {
        /// Their size.
        bytes: usize,
        /// The bound.
        most: usize,
    },
    /// The settings that came with a part of a query cannot be read.
    #[error("the settings of a query cannot be read: {reason}")]
    UnreadableSettings {
        /// Why not.
        reason: String,
    },
}

/// The error of a node of another version than this process.
pub(crate) fn other_version(node: &str, theirs: String) -> Error {
    Error::OtherVersion {
        node: node.to_owned(),
        theirs,
        ours: VERSION,
    }
}

/// The result of an operation of a cluster.
pub type Result<T, E = Error> = std::result::Result<T, E>;

impl From<Error> for DataFusionError {
    fn from(error: Error) -> Self {
        match error {
            // The engine runs the query again.
            Error::Lost { node, reason } => LostNode { node, reason }.into(),
            error => Self::External(Box::new(error)),
        }
    }
}
