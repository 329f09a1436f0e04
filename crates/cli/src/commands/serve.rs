//! `coscan serve`: SQL over Parquet files for PostgreSQL clients.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;

use clap::Args;
use coscan::Rights;
use coscan_cluster::WorkerServer;
use coscan_server::{Server, ServerConfig, SessionFactory, TlsFiles, stop_signal};

use crate::args::{OnNodes, Settings, Tables, sessions};
use crate::descriptors;
use crate::failure::Failure;

/// Options of `coscan serve`.
#[derive(Args)]
pub(crate) struct Options {
    #[command(flatten)]
    tables: Tables,
    /// The address to listen on; port 0 takes a free one.
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:5432")]
    listen: SocketAddr,
    /// The only user name accepted; without this option any name is.
    #[arg(long, value_name = "NAME")]
    user: Option<String>,
    /// A file whose first line is the password. The environment variable `COSCAN_PASSWORD` works
    /// too. There is no option for the password itself, since every user of a machine can see
    /// options.
    #[arg(long, value_name = "FILE")]
    password_file: Option<PathBuf>,
    /// Offer TLS with this certificate chain (PEM).
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    tls_cert: Option<PathBuf>,
    /// The certificate's private key (PEM).
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    tls_key: Option<PathBuf>,
    /// Refuse clients that do not use TLS.
    #[arg(long, requires = "tls_cert")]
    require_tls: bool,
    /// Listen beyond this machine even without a password.
    #[arg(long)]
    allow_insecure: bool,
    #[command(flatten)]
    allowed: Allowed,
    /// The most connections at once; more are refused.
    #[arg(long, value_name = "N")]
    connections_max: Option<usize>,
    #[command(flatten)]
    nodes: OnNodes,
    /// Be a worker as well, at this address, with the timeouts and certificates of the list of
    /// nodes, which names it.
    #[arg(long, value_name = "ADDRESS", requires = "cluster")]
    worker_listen: Option<SocketAddr>,
    #[command(flatten)]
    settings: Settings,
}

/// What clients may do beyond reading and creating session-local tables and views.
#[derive(Args)]
struct Allowed {
    /// Allow statements that change data, indexes or the tables that all clients see (INSERT,
    /// CREATE INDEX, DROP TABLE; COPY TO needs --allow-files as well). Without this option clients
    /// only read, and create session-local tables and views.
    #[arg(long)]
    allow_writes: bool,
    /// Allow statements that name files of this machine (CREATE EXTERNAL TABLE, COPY, SET
    /// `coscan.index_folder`).
    #[arg(long)]
    allow_files: bool,
    /// Allow settings that affect all clients (SET `coscan.memory`, options of DataFusion beyond
    /// harmless values).
    #[arg(long)]
    allow_engine_settings: bool,
}

impl Allowed {
    fn rights(&self) -> Rights {
        Rights {
            writes: self.allow_writes,
            files: self.allow_files,
            engine_settings: self.allow_engine_settings,
        }
    }
}

/// Runs the command until a signal stops it.
pub(crate) fn run(options: Options) -> Result<(), Failure> {
    let _written = crate::log_lines::begin()?;
    // Queries have threads of their own, so that a cancel request or a new connection does not
    // wait for a busy query. Half of these threads are for short queries.
    let queries = crate::runtime("coscan-query", 2)?;
    let connections = crate::runtime("coscan-connection", 1)?;
    let mut config = ServerConfig::new(options.listen);
    config.password = password(&options)?;
    config.user = options.user;
    if let (Some(cert), Some(key)) = (options.tls_cert, options.tls_key) {
        config.tls = Some(TlsFiles { cert, key });
    }
    config.tls_required = options.require_tls;
    config.allow_insecure = options.allow_insecure;
    config.rights = options.allowed.rights();
    if let Some(connections_max) = options.connections_max {
        config.connections_max = connections_max;
    }
    config.connections_max = descriptors::connections(config.connections_max);
    config.query_runtime = Some(queries.handle().clone());

    let outcome = connections.block_on(async {
        let engine = options.settings.engine()?;
        options.tables.declare(&engine.session()).await;
        let cluster = options.nodes.cluster()?;
        if let (Some(address), Some(cluster)) = (options.worker_listen, &cluster) {
            let links = cluster.links().clone();
            let worker = WorkerServer::bind(engine.clone(), address, links);
            let worker = worker.map_err(Failure::new)?;
            eprintln!("coscan: worker on {}", worker.local_addr());
            queries.spawn(async move {
                if let Err(error) = worker.run(std::future::pending()).await {
                    eprintln!("coscan: the worker ended: {error}");
                }
            });
        }
        let sessions = sessions(cluster, &engine).await?;
        let factory: SessionFactory = Arc::new(move || Ok(sessions().context().clone()));
        let server = Server::bind(config, factory).await.map_err(Failure::new)?;
        eprintln!("coscan: listening on {}", server.local_addr());
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
    connections.shutdown_background();
    queries.shutdown_background();
    outcome
}

fn password(options: &Options) -> Result<Option<String>, Failure> {
    let Some(path) = &options.password_file else {
        return Ok(std::env::var("COSCAN_PASSWORD")
            .ok()
            .filter(|password| !password.is_empty()));
    };
    let text = std::fs::read_to_string(path)
        .map_err(|error| Failure::new(format!("{}: {error}", path.display())))?;
    match text.lines().next() {
        Some(password) if !password.is_empty() => Ok(Some(password.to_owned())),
        _ => Err(Failure::new(format!(
            "{}: the file contains no password",
            path.display()
        ))),
    }
}
