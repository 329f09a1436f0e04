//! Why could a server not start, or why did it have to stop? What clients see is in `failure.rs`.

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;

use datafusion::error::DataFusionError;

/// A failure of the server itself, not of one client's statement.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ServerError {
    /// S5: other machines can reach the address, and no password was set.
    #[error(
        "refusing to listen on {listen}, which other machines can reach, without a password; \
         set one, or allow it explicitly"
    )]
    Unprotected {
        /// The address asked for.
        listen: SocketAddr,
    },
    /// The address could not be bound.
    #[error("cannot listen on {listen}")]
    Bind {
        /// The address asked for.
        listen: SocketAddr,
        /// The error of the system.
        source: io::Error,
    },
    /// A certificate or key could not be read.
    #[error("cannot read {path}")]
    TlsFile {
        /// The file asked for.
        path: PathBuf,
        /// The fault in the file.
        source: tokio_rustls::rustls::pki_types::pem::Error,
    },
    /// The certificate file holds no certificate.
    #[error("no certificate in {path}")]
    NoCertificate {
        /// The file asked for.
        path: PathBuf,
    },
    /// Certificate and key do not work together.
    #[error("certificate and key are not usable")]
    Tls {
        /// The error of rustls.
        source: tokio_rustls::rustls::Error,
    },
    /// TLS is required, but there is no certificate.
    #[error("TLS is required, but there is no certificate: set one, or do not require TLS")]
    TlsWithoutCertificate,
    /// No threads could be started for queries.
    #[error("cannot start threads for queries")]
    Threads {
        /// The error of the system.
        source: io::Error,
    },
    /// The `pg_catalog` tables could not be set up.
    #[error("cannot set up pg_catalog")]
    Catalog {
        /// The error of DataFusion.
        source: DataFusionError,
    },
}
