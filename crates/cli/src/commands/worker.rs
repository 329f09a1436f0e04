//! `coscan worker`: runs parts of other processes' queries.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use coscan_cluster::{Links, Timeouts, Tls, TlsFiles, WorkerServer};
use coscan_quantities::parse_duration;
use coscan_server::stop_signal;

use crate::args::Settings;
use crate::failure::Failure;

/// Options of `coscan worker`.
#[derive(Args)]
pub(crate) struct Options {
    /// The address to listen on; without TLS one of this machine's own (`127.0.0.1` or `::1`).
    /// Port 0 takes a free one.
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:50051")]
    listen: SocketAddr,
    /// How long a connection to another worker may take, as in the list of nodes.
    #[arg(long, value_name = "TIME", default_value = "2s", value_parser = parse_duration)]
    connect_timeout: Duration,
    /// How long another worker may be silent, as in the list of nodes.
    #[arg(long, value_name = "TIME", default_value = "5s", value_parser = parse_duration)]
    silence_timeout: Duration,
    /// Take and open connections with this certificate (PEM), and only with processes whose
    /// certificates the same authority has signed.
    #[arg(
        long,
        value_name = "FILE",
        requires = "tls_key",
        requires = "tls_authority"
    )]
    tls_cert: Option<PathBuf>,
    /// The certificate's private key (PEM).
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    tls_key: Option<PathBuf>,
    /// The certificates of the cluster's authority (PEM).
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    tls_authority: Option<PathBuf>,
    /// The name that the certificates of other workers have, if that is not the host by which they
    /// are listed.
    #[arg(long, value_name = "NAME", requires = "tls_cert")]
    tls_name: Option<String>,
    #[command(flatten)]
    settings: Settings,
}

impl Options {
    fn links(&self) -> Result<Links, Failure> {
        let timeouts = Timeouts {
            connect: self.connect_timeout,
            silence: self.silence_timeout,
        };
        let files = (&self.tls_cert, &self.tls_key, &self.tls_authority);
        let tls = match files {
            (Some(certificate), Some(key), Some(authority)) => Some(TlsFiles {
                certificate: certificate.clone(),
                key: key.clone(),
                authority: authority.clone(),
            }),
            _ => None,
        };
        let tls = tls.as_ref().map(Tls::read).transpose();
        let tls = tls.map_err(Failure::new)?.map(|tls| match &self.tls_name {
            Some(name) => tls.with_name(name),
            None => tls,
        });
        Ok(Links { timeouts, tls })
    }
}

/// Runs the command until a signal stops it.
pub(crate) fn run(options: &Options) -> Result<(), Failure> {
    let _written = crate::log_lines::begin()?;
    let runtime = crate::runtime("coscan-worker", 2)?;
    let outcome = runtime.block_on(async {
        let engine = options.settings.engine()?;
        let server = WorkerServer::bind(engine.clone(), options.listen, options.links()?);
        let server = server.map_err(Failure::new)?;
        eprintln!("coscan: worker on {}", server.local_addr());
        let outcome = server.run(stop_signal()).await.map_err(Failure::new);
        engine.finish_recording();
        let done = engine.metrics();
        eprintln!(
            "coscan: stopped; {} requests read {:.1} MB, {:.1} MB of arrays were decoded",
            done.io_requests,
            done.io_bytes as f64 / 1e6,
            done.decode_bytes as f64 / 1e6,
        );
        outcome
    });
    runtime.shutdown_background();
    outcome
}
