//! How do the processes of a cluster reach and know each other?
//!
//! Each has a certificate that the cluster's authority has signed, and shows it to every other one,
//! whichever of both connects. Without certificates nodes listen on their own machine only:
//! whoever reaches a node may have any plan run and any file read.

use std::fmt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::error::{Error, Result};

/// How a process reaches the nodes of its cluster, and is reached by them.
#[derive(Clone, Debug, Default)]
pub struct Links {
    /// How long a node may be silent.
    pub timeouts: Timeouts,
    /// By what nodes know each other; `None` on a single machine.
    pub tls: Option<Tls>,
}

/// How long a node may be silent before it counts as lost.
#[derive(Clone, Copy, Debug)]
pub struct Timeouts {
    /// Until a connection is there.
    pub connect: Duration,
    /// Until a node that is connected answers a ping.
    pub silence: Duration,
}

impl Default for Timeouts {
    fn default() -> Self {
        Self {
            connect: Duration::from_secs(2),
            silence: Duration::from_secs(5),
        }
    }
}

/// The files with which a process shows who it is, each in PEM.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlsFiles {
    /// Its certificate, and those between it and the authority's. It names the hosts by which other
    /// processes list this one, or what they expect of all nodes ([`Tls::with_name`]).
    pub certificate: PathBuf,
    /// The certificate's private key.
    pub key: PathBuf,
    /// The certificates of the cluster's authority, which has signed those of all its processes.
    pub authority: PathBuf,
}

/// What is in [`TlsFiles`].
#[derive(Clone)]
pub struct Tls {
    pub(crate) certificate: Vec<u8>,
    pub(crate) key: Vec<u8>,
    pub(crate) authority: Vec<u8>,
    /// What the certificate of each node names in place of the host by which it is reached.
    pub(crate) name: Option<String>,
}

impl Tls {
    /// # Errors
    /// [`Error::TlsFile`], which names the file.
    pub fn read(files: &TlsFiles) -> Result<Self> {
        let TlsFiles {
            certificate,
            key,
            authority,
        } = files;
        Ok(Self {
            certificate: read(certificate, "CERTIFICATE")?,
            key: read(key, "PRIVATE KEY")?,
            authority: read(authority, "CERTIFICATE")?,
            name: None,
        })
    }

    /// The same for nodes whose certificates all name this, whatever their addresses are.
    #[must_use]
    pub fn with_name(mut self, name: impl Into<String>) -> Self {
        self.name = Some(name.into());
        self
    }
}

/// The bytes of a file that has a section of this kind.
fn read(path: &Path, kind: &str) -> Result<Vec<u8>> {
    let wrong = |reason: String| Error::TlsFile {
        path: path.to_owned(),
        reason,
    };
    let bytes = std::fs::read(path).map_err(|error| wrong(error.to_string()))?;
    let end = format!("{kind}-----");
    if String::from_utf8_lossy(&bytes).contains(&end) {
        Ok(bytes)
    } else {
        Err(wrong(format!("it has no {}", kind.to_lowercase())))
    }
}

impl fmt::Debug for Tls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The key is a secret.
        f.debug_struct("Tls").finish_non_exhaustive()
    }
}
