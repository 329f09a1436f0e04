//! Loads the certificate and key, and offers TLS the way PostgreSQL clients ask for it.

use std::fs;
use std::sync::Arc;

use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::{self, PemObject};
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};

use crate::config::TlsFiles;
use crate::error::ServerError;

/// The server's side of TLS.
pub(crate) struct Tls {
    pub(crate) acceptor: TlsAcceptor,
    /// The certificate file, from which SCRAM computes its channel binding.
    pub(crate) cert_pem: Vec<u8>,
}

impl Tls {
    pub(crate) fn load(files: &TlsFiles) -> Result<Self, ServerError> {
        let unreadable = |path: &std::path::Path| {
            let path = path.to_owned();
            move |source: pem::Error| ServerError::TlsFile { path, source }
        };
        let cert_pem =
            fs::read(&files.cert).map_err(|e| unreadable(&files.cert)(pem::Error::Io(e)))?;
        let chain = CertificateDer::pem_slice_iter(&cert_pem)
            .collect::<Result<Vec<_>, _>>()
            .map_err(unreadable(&files.cert))?;
        if chain.is_empty() {
            return Err(ServerError::NoCertificate {
                path: files.cert.clone(),
            });
        }
        let key = PrivateKeyDer::from_pem_file(&files.key).map_err(unreadable(&files.key))?;

        // The provider is passed, not installed: an embedder may have installed its own.
        let mut config =
            rustls::ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
                .with_safe_default_protocol_versions()
                .map_err(|source| ServerError::Tls { source })?
                .with_no_client_auth()
                .with_single_cert(chain, key)
                .map_err(|source| ServerError::Tls { source })?;
        config.alpn_protocols = vec![ALPN.to_vec()];
        Ok(Self {
            acceptor: TlsAcceptor::from(Arc::new(config)),
            cert_pem,
        })
    }
}

/// The protocol registered for PostgreSQL; clients with `sslnegotiation=direct` require it.
const ALPN: &[u8] = b"postgresql";
