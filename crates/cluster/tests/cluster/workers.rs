//! Workers for tests, which can be killed, and a node in between that can fall silent.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use coscan::{Engine, EngineConfig, Session};
use coscan_cluster::{Cluster, Links, NodeReport, Nodes, Timeouts, Tls, WorkerServer};
use parking_lot::Mutex;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::Builder;
use tokio::sync::oneshot;

use crate::common;

/// Workers answer late beside other tests.
pub(crate) const TIMEOUTS: Timeouts = Timeouts {
    connect: Duration::from_secs(10),
    silence: Duration::from_secs(60),
};

/// A worker, until it is dropped or killed.
pub(crate) struct Worker {
    pub(crate) engine: Engine,
    pub(crate) address: SocketAddr,
    /// Dropped, it ends the worker.
    alive: Option<oneshot::Sender<()>>,
}

impl Worker {
    pub(crate) fn start(config: EngineConfig) -> Self {
        Self::start_with(config, None)
    }

    pub(crate) fn start_with(config: EngineConfig, tls: Option<Tls>) -> Self {
        Self::start_as(config, tls, |server| server)
    }

    /// A worker that says this of its load.
    pub(crate) fn start_reporting(config: EngineConfig, report: &Arc<Mutex<NodeReport>>) -> Self {
        let report = Arc::clone(report);
        Self::start_as(config, None, |server| {
            server.reporting(move || *report.lock())
        })
    }

    fn start_as(
        config: EngineConfig,
        tls: Option<Tls>,
        changed: impl FnOnce(WorkerServer) -> WorkerServer,
    ) -> Self {
        let runtime = Builder::new_multi_thread()
            .worker_threads(2)
            .thread_stack_size(coscan::THREAD_STACK_BYTES)
            .enable_all()
            .build()
            .unwrap();
        let engine = Engine::new(config).unwrap();
        let local = "127.0.0.1:0".parse().unwrap();
        let timeouts = TIMEOUTS;
        let links = Links { timeouts, tls };
        let server = changed(WorkerServer::bind(engine.clone(), local, links).unwrap());
        let address = server.local_addr();
        let (alive, killed) = oneshot::channel::<()>();
        // On a thread that does nothing else, so that a kill is one while its queries are busy.
        std::thread::spawn(move || {
            runtime.block_on(async {
                tokio::select! {
                    _ = killed => {}
                    ended = server.run(std::future::pending()) => ended.unwrap(),
                }
            });
            runtime.shutdown_background();
        });
        Self {
            engine,
            address,
            alive: Some(alive),
        }
    }

    /// Ends it at once, with all its connections.
    pub(crate) fn kill(&mut self) {
        self.alive = None;
    }
}

/// The configuration of engines: as in the engine's tests, and loads are recorded.
pub(crate) fn config() -> EngineConfig {
    EngineConfig {
        record_trace: true,
        ..common::config()
    }
}

pub(crate) fn start(count: usize) -> Vec<Worker> {
    (0..count).map(|_| Worker::start(config())).collect()
}

/// The cluster of nodes at these addresses, of which each reads `bytes` before another one helps.
pub(crate) fn cluster(addresses: &[SocketAddr], bytes: u64) -> Cluster {
    cluster_with(addresses, bytes, TIMEOUTS)
}

pub(crate) fn cluster_with(addresses: &[SocketAddr], bytes: u64, timeouts: Timeouts) -> Cluster {
    let names: Vec<String> = addresses.iter().map(ToString::to_string).collect();
    let nodes = Nodes::new(names.iter().map(String::as_str)).unwrap();
    Cluster::new(nodes.with_bytes_per_node(bytes).with_timeouts(timeouts)).unwrap()
}

/// A session on all workers, whatever a query reads.
pub(crate) async fn session(workers: &[Worker], tables: &[(&str, &Path)]) -> Session {
    let addresses: Vec<SocketAddr> = workers.iter().map(|worker| worker.address).collect();
    session_on(&cluster(&addresses, 1), tables).await
}

pub(crate) async fn session_on(cluster: &Cluster, tables: &[(&str, &Path)]) -> Session {
    let session = cluster.session(&Engine::new(config()).unwrap());
    for (name, path) in tables {
        session
            .register(name, path.to_str().unwrap())
            .await
            .unwrap();
    }
    session
}

/// The rows of a statement, each as text, sorted; or its error.
pub(crate) async fn rows(session: &Session, sql: &str) -> Result<Vec<String>, String> {
    let statement = session
        .prepare(sql, &[])
        .await
        .map_err(|error| error.to_string())?;
    let rows = statement
        .execute(vec![])
        .await
        .map_err(|error| error.to_string())?;
    let mut rows = common::collect(rows)
        .await
        .map_err(|error| error.to_string())?;
    rows.sort_unstable();
    Ok(rows)
}

/// An address that passes bytes on to a worker until it falls silent.
pub(crate) struct Relay {
    pub(crate) address: SocketAddr,
    silent: Arc<AtomicBool>,
}

impl Relay {
    pub(crate) async fn to(worker: SocketAddr) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let silent = Arc::new(AtomicBool::new(false));
        let is_silent = Arc::clone(&silent);
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                let Ok(server) = TcpStream::connect(worker).await else {
                    continue;
                };
                let (from_client, to_client) = client.into_split();
                let (from_server, to_server) = server.into_split();
                tokio::spawn(pass(from_client, to_server, Arc::clone(&is_silent)));
                tokio::spawn(pass(from_server, to_client, Arc::clone(&is_silent)));
            }
        });
        Self { address, silent }
    }

    /// From now on nothing passes, and connections stay open, as if the node was stopped.
    pub(crate) fn fall_silent(&self) {
        self.silent.store(true, Ordering::SeqCst);
    }

    /// From now on new connections pass bytes again.
    pub(crate) fn speak(&self) {
        self.silent.store(false, Ordering::SeqCst);
    }
}

async fn pass(
    mut from: impl AsyncReadExt + Unpin,
    mut to: impl AsyncWriteExt + Unpin,
    silent: Arc<AtomicBool>,
) {
    let mut bytes = vec![0; 64 << 10];
    while let Ok(read @ 1..) = from.read(&mut bytes).await {
        if silent.load(Ordering::SeqCst) {
            std::future::pending::<()>().await;
        }
        if to.write_all(&bytes[..read]).await.is_err() {
            return;
        }
    }
}
