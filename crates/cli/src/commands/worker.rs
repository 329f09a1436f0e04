//! `coscan worker`: runs parts of other processes' queries.

use std::net::SocketAddr;
use std::time::Duration;

use clap::Args;
use coscan_cluster::{Timeouts, WorkerServer};
use coscan_quantities::parse_duration;
use coscan_server::stop_signal;

use crate::args::Settings;
use crate::failure::Failure;

/// Options of `coscan worker`.
#[derive(Args)]
pub(crate) struct Options {
    /// The address to listen on, of this machine (`127.0.0.1` or `::1`); port 0 takes a free one.
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:50051")]
    listen: SocketAddr,
    /// How long a connection to another worker may take, as in the list of nodes.
    #[arg(long, value_name = "TIME", default_value = "2s", value_parser = parse_duration)]
    connect_timeout: Duration,
    /// How long another worker may be silent, as in the list of nodes.
    #[arg(long, value_name = "TIME", default_value = "5s", value_parser = parse_duration)]
    silence_timeout: Duration,
    #[command(flatten)]
    settings: Settings,
}

/// Runs the command until a signal stops it.
pub(crate) fn run(options: &Options) -> Result<(), Failure> {
    let runtime = crate::runtime("coscan-worker", 2)?;
    let outcome = runtime.block_on(async {
        let engine = options.settings.engine()?;
        let timeouts = Timeouts {
            connect: options.connect_timeout,
            silence: options.silence_timeout,
        };
        let server = WorkerServer::bind(engine.clone(), options.listen, timeouts);
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
