//! How does a node run the parts that it gets?
//!
//! A part gets a session with the engine's options, those of its query, and the engine's memory;
//! batches are smaller where the node's memory is.
//! When it has arrived its scans become cooperative scans of the engine, and from then on it is a
//! plan like any other.
//! The library forgets a part whose query has ended only at its next operation, so a part whose
//! coordinator is gone would go on. A pulse asks it for nothing several times a second.

use std::sync::Arc;
use std::time::Duration;

use arrow::datatypes::Schema;
use async_trait::async_trait;
use coscan::parts::{NodeMeters, PartsMemory};
use coscan::running::QueryRuntime;
use coscan::{Engine, parts};
use coscan_pg::OverExec;
use datafusion::common::config::ConfigOptions;
use datafusion::error::Result as PlanResult;
use datafusion::execution::SessionState;
use datafusion::physical_expr::Partitioning;
use datafusion::physical_plan::coop::CooperativeExec;
use datafusion::physical_plan::empty::EmptyExec;
use datafusion::physical_plan::execution_plan::replace_children_if_necessary;
use datafusion::physical_plan::repartition::RepartitionExec;
use datafusion::physical_plan::{ExecutionPlan, ExecutionPlanProperties};
use datafusion_distributed::{
    BroadcastExec, ChannelResolver, CoordinatorToWorkerMsg, DistributedConfig, DistributedExt,
    ExecuteTaskRequest, MaybeEncoded, ProducerHead, SetPlanRequest, TaskKey, Worker,
    WorkerPlanRewriteEvent, WorkerPlanRewriteEventResponse, WorkerQueryContext,
    WorkerSessionBuilder,
};
use futures::{FutureExt, StreamExt};
use http::HeaderMap;
use tokio::net::TcpListener;
use tokio::runtime::Handle;
use tokio::sync::oneshot;
use tonic::transport::server::TcpIncoming;
use tonic::transport::{Certificate, Identity, Server, ServerTlsConfig};
use tower::layer::layer_fn;
use url::Url;
use uuid::Uuid;

use super::channel::Channels;
use super::codec::WholeCodec;
use super::errors::SentErrors;
use super::memory::Memories;
use super::network::{Network, RunOn};
use super::settings;
use super::unrepeatable::{read_once, reads_others};
use crate::nodes::report::Reporting;
use crate::nodes::{Links, Tls};
use crate::version::VERSION;

/// How often the library is asked for nothing. A cancelled query holds its node's memory so long.
const PULSE: Duration = Duration::from_millis(350);

/// How long a server that stops waits for connections to end.
const END_MAX: Duration = Duration::from_secs(2);

/// The largest message: a plan. Batches go the other way.
const MESSAGE_BYTES_MAX: usize = 64 << 20;

/// Serves parts of queries with this engine, on the threads that call it, until `stop` is ready.
/// `reporting` says how busy the node is, in place of its meters.
///
/// # Errors
/// What the server and the system say.
pub(crate) async fn serve(
    engine: Engine,
    listener: std::net::TcpListener,
    links: Links,
    reporting: Option<Reporting>,
    stop: impl Future<Output = ()>,
) -> Result<(), String> {
    let network = Network::start().map_err(|error| error.to_string())?;
    let tls = links.tls.as_ref().map(listening);
    let silence = links.timeouts.silence;
    let channels = Channels::new(&links, Arc::default()).map_err(|error| error.to_string())?;
    let sessions = Sessions {
        options: parts::options(&engine),
        channels: Arc::new(channels),
        memories: Memories::new(engine.clone()),
        engine: engine.clone(),
    };
    let worker = Worker::from_session_builder(sessions)
        .with_runtime_env(Arc::clone(engine.runtime()))
        .with_version(process());
    let pulse = pulse(worker.clone());
    let service = worker
        .into_worker_server()
        .max_decoding_message_size(MESSAGE_BYTES_MAX);
    let queries = QueryRuntime::new(Some(Handle::current())).map_err(|error| error.to_string())?;
    let queries = Arc::new(queries);
    let reporting = reporting.unwrap_or_else(|| {
        let meters = NodeMeters::new(&engine, &queries.tasks);
        Arc::new(move || meters.report())
    });
    let run_on_threads = layer_fn(move |service| RunOn {
        queries: Arc::clone(&queries),
        reporting: Arc::clone(&reporting),
        service,
    });
    let (end, ended) = oneshot::channel::<()>();
    let served = network.handle().spawn(async move {
        let listener = TcpListener::from_std(listener).map_err(|error| error.to_string())?;
        let mut builder = Server::builder()
            .http2_keepalive_interval(Some(silence / 2))
            .http2_keepalive_timeout(Some(silence / 2));
        if let Some(tls) = tls {
            let refused = |error: tonic::transport::Error| error.to_string();
            builder = builder.tls_config(tls.timeout(silence)).map_err(refused)?;
        }
        let served = builder
            .layer(run_on_threads)
            .add_service(service)
            .serve_with_incoming_shutdown(
                TcpIncoming::from(listener).with_nodelay(Some(true)),
                ended.map(drop),
            );
        served.await.map_err(|error| error.to_string())
    });
    let late = async {
        stop.await;
        drop(end);
        tokio::time::sleep(END_MAX).await;
    };
    tokio::select! {
        served = served => served.map_err(|error| error.to_string())?,
        said = pulse => said.map_err(|error| error.to_string()),
        () = late => Ok(()),
    }
}

/// What a worker answers: its version, and what tells it from all others, so that one that was
/// started again is noticed.
fn process() -> String {
    format!("{VERSION} {}", Uuid::new_v4())
}

/// The side of TLS that waits for connections: it wants a certificate of the same authority.
fn listening(tls: &Tls) -> ServerTlsConfig {
    ServerTlsConfig::new()
        .identity(Identity::from_pem(&tls.certificate, &tls.key))
        .client_ca_root(Certificate::from_pem(&tls.authority))
}

/// Has the library do its housekeeping.
async fn pulse(worker: Worker) -> PlanResult<()> {
    let task_key = TaskKey {
        query_id: Uuid::nil(),
        stage_id: 0,
        task_number: 0,
    };
    let nothing = Arc::new(EmptyExec::new(Arc::new(Schema::empty())));
    let request = SetPlanRequest {
        task_key,
        task_count: 1,
        plan: MaybeEncoded::Decoded(nothing),
        work_unit_feed_declarations: vec![],
        target_worker_url: Url::parse("http://localhost")
            .map_err(|error| datafusion::error::DataFusionError::External(Box::new(error)))?,
        query_start_time_ns: 0,
    };
    // The library forgets the part when this stream ends, which is when the pulse is dropped.
    let (_beats, ended) = oneshot::channel::<CoordinatorToWorkerMsg>();
    let open = futures::stream::once(ended).filter_map(async |_| None);
    let _answers = worker
        .coordinator_channel(HeaderMap::new(), request, open.boxed())
        .await?;
    let mut ticks = tokio::time::interval(PULSE);
    loop {
        ticks.tick().await;
        let request = ExecuteTaskRequest {
            task_key,
            target_partition_start: 0,
            target_partition_end: 0,
            producer_head: ProducerHead::None,
        };
        worker.execute_task(request).await?;
    }
}

/// Makes the sessions in which parts run.
struct Sessions {
    engine: Engine,
    options: ConfigOptions,
    channels: Arc<Channels>,
    memories: Memories,
}

#[async_trait]
impl WorkerSessionBuilder for Sessions {
    async fn build_session_state(&self, context: WorkerQueryContext) -> PlanResult<SessionState> {
        let WorkerQueryContext {
            mut builder,
            headers,
        } = context;
        let config = builder.config().get_or_insert_default();
        let librarys = DistributedConfig::from_session_config(config)?.clone();
        let options = config.options_mut();
        *options = part_options(&self.engine, &self.options, &headers)?;
        options.extensions.insert(librarys);
        let memory = self.memories.of(&headers)?;
        if let Some(memory) = &memory {
            builder = builder.with_runtime_env(memory.environment());
        }
        let engine = self.engine.clone();
        let channels: Arc<dyn ChannelResolver + Send + Sync> = Arc::clone(&self.channels) as _;
        let state = builder
            .with_distributed_user_codec(WholeCodec)
            .with_distributed_channel_resolver(channels)
            .with_distributed_worker_plan_rewrite_handler(
                move |event: WorkerPlanRewriteEvent<'_>| {
                    let options = event.session_config.options();
                    let partitions = event.plan.output_partitioning().partition_count();
                    let reads_no_others = partitions == 1 && !reads_others(&event.plan)?;
                    let plan = parts::cooperative(&engine, event.plan, options, reads_no_others)?;
                    let plan = in_partitions(plan, partitions)?;
                    let plan = with_sent_errors(read_once(plan)?, memory.as_ref())?;
                    Ok(WorkerPlanRewriteEventResponse::new(plan))
                },
            )
            .build();
        Ok(state)
    }
}

/// The node's own options with those that came with the query.
fn part_options(
    engine: &Engine,
    own: &ConfigOptions,
    headers: &HeaderMap,
) -> PlanResult<ConfigOptions> {
    let mut options = own.clone();
    settings::apply(headers, &mut options)?;
    parts::bound_batches(engine, &mut options)?;
    Ok(options)
}

/// The part, which waits for its memory, and whose errors are made to travel. Where the library
/// exchanges the root for one that divides rows as its reader wants them, that stays the root.
fn with_sent_errors(
    plan: Arc<dyn ExecutionPlan>,
    memory: Option<&Arc<PartsMemory>>,
) -> PlanResult<Arc<dyn ExecutionPlan>> {
    let is_kept = plan.is::<BroadcastExec>();
    let sent = |rows: Arc<dyn ExecutionPlan>| -> Arc<dyn ExecutionPlan> {
        let way = SentErrors::new(&rows, is_kept, memory);
        Arc::new(OverExec::new(rows, way))
    };
    if !is_kept && !plan.is::<RepartitionExec>() {
        return Ok(sent(plan));
    }
    let below = plan.children().into_iter().cloned().map(sent);
    let below: Vec<Arc<dyn ExecutionPlan>> = below.collect();
    replace_children_if_necessary(plan, below)
}

/// The part in as many partitions as its readers ask for. A fragment leaves out the node that
/// spreads the rows of its scan.
fn in_partitions(
    plan: Arc<dyn ExecutionPlan>,
    partitions: usize,
) -> PlanResult<Arc<dyn ExecutionPlan>> {
    if plan.output_partitioning().partition_count() == partitions {
        return Ok(plan);
    }
    let spread = RepartitionExec::try_new(plan, Partitioning::RoundRobinBatch(partitions))?;
    // The library takes a repartition at the root for its own, and replaces it.
    Ok(Arc::new(CooperativeExec::new(Arc::new(spread))))
}

#[cfg(test)]
mod tests {
    use coscan::EngineConfig;

    use super::*;

    fn engine(memory_bytes: u64) -> Engine {
        let config = EngineConfig {
            memory_bytes: Some(memory_bytes),
            ..EngineConfig::default()
        };
        Engine::new(config).unwrap()
    }

    #[test]
    fn a_node_with_little_memory_has_smaller_batches_than_its_coordinator() {
        let coordinator = engine(1 << 30);
        for (memory_bytes, sent, rows) in [
            (128 << 20, "8192", 2048),
            (128 << 20, "100", 100),
            (1 << 30, "8192", 8192),
        ] {
            let mut options = parts::options(&coordinator);
            let name = "datafusion.execution.batch_size";
            options.set(name, sent).unwrap();
            let (name, value) = settings::header(&options).unwrap();
            let mut headers = HeaderMap::new();
            headers.insert(name, value);
            let node = engine(memory_bytes);
            let options = part_options(&node, &parts::options(&node), &headers).unwrap();
            let found = options.execution.batch_size.get();
            assert_eq!(found, rows, "{memory_bytes} bytes, {sent} rows sent");
        }
    }
}
