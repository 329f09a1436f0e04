//! A server with small tables, and clients for it.

mod neighbours;
pub(crate) mod raw;
pub(crate) mod tables;
pub(crate) mod tls;

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use coscan_server::{Server, ServerConfig, ServerError, SessionFactory};
use datafusion::arrow::array::{ArrayRef, Int32Array, Int64Array, RecordBatch, StringViewArray};
use datafusion::arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use datafusion::catalog::streaming::StreamingTable;
use datafusion::common::extensions_options;
use datafusion::config::ConfigExtension;
use datafusion::error::DataFusionError;
use datafusion::execution::memory_pool::MemoryPool;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::logical_expr::{ColumnarValue, Volatility, create_udf};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::streaming::PartitionStream;
use datafusion::prelude::{SessionConfig, SessionContext};
use futures::StreamExt;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tokio_postgres::{Client, Config, NoTls};

use neighbours::Beside;
pub(crate) use neighbours::{Alone, alone};

extensions_options! {
    /// Stands in for the engine's settings.
    pub struct CoscanOptions {
        /// The policy.
        pub policy: String, default = "relevance".to_owned()
    }
}

impl ConfigExtension for CoscanOptions {
    const PREFIX: &'static str = "coscan";
}

/// Within this time everything happens that a test waits for without measuring it.
pub(crate) const HAPPENS_WITHIN: Duration = Duration::from_secs(60);

/// A server that runs until it is stopped or dropped.
pub(crate) struct TestServer {
    pub(crate) addr: SocketAddr,
    /// The number of existing streams of the table `endless`.
    pub(crate) live: Arc<AtomicUsize>,
    stop: Option<oneshot::Sender<()>>,
    run: JoinHandle<Result<(), ServerError>>,
}

impl TestServer {
    pub(crate) async fn start() -> Self {
        Self::start_with(|_| {}).await
    }

    pub(crate) async fn start_with(change: impl FnOnce(&mut ServerConfig)) -> Self {
        let live = Arc::new(AtomicUsize::new(0));
        let factory = factory(&live);
        Self::start_on(factory, live, change).await
    }

    /// A server over the engine's sessions.
    pub(crate) async fn start_on_engine(engine: &coscan::Engine) -> Self {
        Self::start_with_rights(engine, coscan::Rights::NONE).await
    }

    /// A server over the engine's sessions, whose clients have `rights`.
    pub(crate) async fn start_with_rights(engine: &coscan::Engine, rights: coscan::Rights) -> Self {
        let engine = engine.clone();
        let factory = move || Ok(engine.session().context().clone());
        let change = |config: &mut ServerConfig| config.rights = rights;
        Self::start_on(Arc::new(factory), Arc::default(), change).await
    }

    /// A server whose sessions share `bytes` bytes of memory, and that memory.
    pub(crate) async fn limited(bytes: usize) -> (Self, Arc<dyn MemoryPool>) {
        let config = coscan::EngineConfig {
            memory_bytes: Some(bytes as u64),
            ..coscan::EngineConfig::default()
        };
        let engine = coscan::Engine::new(config).unwrap();
        let session = engine.session();
        let pool = Arc::clone(&session.context().runtime_env().memory_pool);
        let server = Self::start_on_engine(&engine).await;
        (server, pool)
    }

    pub(crate) async fn start_on(
        factory: SessionFactory,
        live: Arc<AtomicUsize>,
        change: impl FnOnce(&mut ServerConfig),
    ) -> Self {
        let beside = Beside::others();
        let mut config = ServerConfig::new(([127, 0, 0, 1], 0).into());
        change(&mut config);
        let server = Server::bind(config, factory).await.unwrap();
        let addr = server.local_addr();
        let (stop, stopped) = oneshot::channel();
        let run = tokio::spawn(async move {
            let ended = server.run(async move {
                let _ = stopped.await;
            });
            let ended = ended.await;
            // A server that was dropped runs on until it has stopped.
            drop(beside);
            ended
        });
        Self {
            addr,
            live,
            stop: Some(stop),
            run,
        }
    }

    pub(crate) fn config(&self) -> Config {
        let mut config = Config::new();
        config
            .host(self.addr.ip().to_string())
            .port(self.addr.port())
            .user("tester");
        config
    }

    pub(crate) async fn connect(&self) -> Client {
        connect(&self.config()).await.unwrap()
    }

    /// Stops the server; returns how long that took.
    pub(crate) async fn stop(mut self) -> Duration {
        let start = Instant::now();
        self.stop.take().unwrap().send(()).unwrap();
        self.run.await.unwrap().unwrap();
        start.elapsed()
    }

    /// Waits until no stream of `endless` exists, however busy the machine is.
    pub(crate) async fn all_dropped(&self) {
        self.live_becomes(|live| live == 0, HAPPENS_WITHIN).await;
    }

    /// No stream of `endless` exists soon: for tests that are alone, which measure it.
    pub(crate) async fn all_dropped_soon(&self) {
        let soon = Duration::from_secs(2);
        self.live_becomes(|live| live == 0, soon).await;
    }

    pub(crate) async fn some_live(&self) {
        self.live_becomes(|live| live > 0, HAPPENS_WITHIN).await;
    }

    async fn live_becomes(&self, expected: impl Fn(usize) -> bool, within: Duration) {
        let start = Instant::now();
        loop {
            let live = self.live.load(Ordering::SeqCst);
            if expected(live) {
                return;
            }
            assert!(start.elapsed() < within, "{live} streams live");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }
}

pub(crate) async fn connect(config: &Config) -> Result<Client, tokio_postgres::Error> {
    let (client, connection) = config.connect(NoTls).await?;
    tokio::spawn(connection);
    Ok(client)
}

/// The SQLSTATE of a failed call.
pub(crate) fn state<T: std::fmt::Debug>(result: Result<T, tokio_postgres::Error>) -> String {
    let error = result.unwrap_err();
    error.code().map_or_else(
        || panic!("not from the server: {error:?}"),
        |c| c.code().to_owned(),
    )
}

/// A query that runs for minutes in operators that rarely yield.
pub(crate) const LONG: &str = "SELECT count(*) FROM generate_series(1::bigint, 2000000) a(x), \
                        generate_series(1::bigint, 2000000) b(y) WHERE x * y % 7 = 3";

/// As [`LONG`], but endless, and seen by [`TestServer::some_live`] when it runs.
pub(crate) const LONG_AND_LIVE: &str = "SELECT count(*) \
                        FROM generate_series(1::bigint, 2000000) a(x), endless \
                        WHERE x * n % 7 = 3";

fn factory(live: &Arc<AtomicUsize>) -> SessionFactory {
    let live = Arc::clone(live);
    Arc::new(move || session(&live))
}

fn session(live: &Arc<AtomicUsize>) -> Result<SessionContext, DataFusionError> {
    let config = SessionConfig::new()
        .with_information_schema(true)
        .with_target_partitions(2)
        .with_option_extension(CoscanOptions::default());
    let context = SessionContext::new_with_config(config);
    context.register_batch("people", people())?;
    context.register_batch("kinds", tables::kinds())?;
    tables::register_view(&context)?;
    let endless = Endless {
        schema: endless_schema(),
        live: Arc::clone(live),
    };
    let endless = StreamingTable::try_new(endless_schema(), vec![Arc::new(endless)])?;
    context.register_table("endless", Arc::new(endless))?;
    let explode =
        |_: &[ColumnarValue]| -> Result<ColumnarValue, DataFusionError> { panic!("boom") };
    context.register_udf(create_udf(
        "explode",
        vec![DataType::Int64],
        DataType::Int64,
        Volatility::Volatile,
        Arc::new(explode),
    ));
    Ok(context)
}

fn people() -> RecordBatch {
    let ids: ArrayRef = Arc::new(Int32Array::from(vec![1, 2, 3]));
    let names: ArrayRef = Arc::new(StringViewArray::from(vec![
        Some("Ada"),
        Some("Barbara"),
        None,
    ]));
    RecordBatch::try_from_iter_with_nullable([("id", ids, false), ("name", names, true)]).unwrap()
}

fn endless_schema() -> SchemaRef {
    Arc::new(Schema::new(vec![Field::new("n", DataType::Int64, false)]))
}

/// Endless batches of a thousand rows each.
#[derive(Debug)]
struct Endless {
    schema: SchemaRef,
    live: Arc<AtomicUsize>,
}

struct Alive(Arc<AtomicUsize>);

impl Drop for Alive {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

impl PartitionStream for Endless {
    fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    fn execute(&self, _: Arc<TaskContext>) -> SendableRecordBatchStream {
        self.live.fetch_add(1, Ordering::SeqCst);
        let alive = Alive(Arc::clone(&self.live));
        let schema = Arc::clone(&self.schema);
        let batches = futures::stream::iter(0_i64..).map(move |batch| {
            let _held = &alive;
            let numbers = Int64Array::from_iter_values(batch * 1000..(batch + 1) * 1000);
            Ok(RecordBatch::try_new(Arc::clone(&schema), vec![Arc::new(numbers)]).unwrap())
        });
        Box::pin(RecordBatchStreamAdapter::new(
            Arc::clone(&self.schema),
            batches,
        ))
    }
}
