//! How a server is configured.

use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use coscan::Rights;
use datafusion::prelude::SessionContext;
use tokio::runtime::Handle;

/// Makes the session of one connection. Called once for each authenticated client.
///
/// The factory decides what sessions share (tables, memory pool, buffers). Settings are cloned
/// with the session, so they must not be behind a shared reference.
pub type SessionFactory = Arc<dyn Fn() -> datafusion::error::Result<SessionContext> + Send + Sync>;

/// A certificate chain and its private key, both PEM.
#[derive(Debug, Clone)]
pub struct TlsFiles {
    /// The server's certificate, followed by any intermediate ones.
    pub cert: PathBuf,
    /// The private key: PKCS#8, PKCS#1 or SEC1.
    pub key: PathBuf,
}

/// How a [`Server`](crate::Server) listens, which clients it accepts and what it grants them.
#[derive(Clone)]
pub struct ServerConfig {
    /// The address to listen on; port 0 takes a free one.
    pub listen: SocketAddr,
    /// The only user name accepted, if there is a password. `None` accepts any name.
    pub user: Option<String>,
    /// The password, checked by SCRAM-SHA-256. `None` accepts every client.
    pub password: Option<String>,
    /// Offers TLS. Clients may still connect without it unless `tls_required` is set: SCRAM does
    /// not reveal the password.
    pub tls: Option<TlsFiles>,
    /// Refuses clients that do not use TLS. Cancel requests are accepted without TLS: they carry
    /// only a key.
    pub tls_required: bool,
    /// Allows listening beyond loopback without a password.
    pub allow_insecure: bool,
    /// Connections served at once; more are refused with SQLSTATE 53300.
    pub connections_max: usize,
    /// How long running statements may go on after the shutdown signal before they are cancelled.
    pub grace: Duration,
    /// What clients may do beyond reading and creating session-local names. The default is
    /// nothing: otherwise every client could change data and tables for all, reach every file that
    /// the server can reach, or take the engine's memory.
    pub rights: Rights,
    /// Where statements are planned and run. `None` starts two threads per core for them. Use
    /// other threads than those that serve connections: busy queries would delay cancel requests.
    /// Long queries use as many threads as there are cores; the rest are for short ones.
    pub query_runtime: Option<Handle>,
}

impl ServerConfig {
    /// The defaults: no password, no TLS, 512 connections, ten seconds of grace.
    #[must_use]
    pub fn new(listen: SocketAddr) -> Self {
        Self {
            listen,
            user: None,
            password: None,
            tls: None,
            tls_required: false,
            allow_insecure: false,
            connections_max: CONNECTIONS_MAX_DEFAULT,
            grace: GRACE_DEFAULT,
            rights: Rights::NONE,
            query_runtime: None,
        }
    }
}

impl fmt::Debug for ServerConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ServerConfig")
            .field("listen", &self.listen)
            .field("user", &self.user)
            .field("password", &self.password.as_ref().map(|_| "…"))
            .field("tls", &self.tls)
            .field("tls_required", &self.tls_required)
            .field("allow_insecure", &self.allow_insecure)
            .field("connections_max", &self.connections_max)
            .field("grace", &self.grace)
            .field("rights", &self.rights)
            .finish_non_exhaustive()
    }
}

/// An idle connection holds a session and two small buffers: 512 of them take some tens of MB.
const CONNECTIONS_MAX_DEFAULT: usize = 512;

/// Less than the 30 s (Kubernetes) and 90 s (systemd) between SIGTERM and SIGKILL.
const GRACE_DEFAULT: Duration = Duration::from_secs(10);
