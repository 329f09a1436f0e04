//! How is a node reached, and how is it found to be lost?
//!
//! One connection to each node carries all queries. The library's own sets no timeouts, so a node
//! that is stopped would never be missed; here a connection has a time to come about, and pings.
//! What a connection says about a lost node becomes an error that names it, and that error stays
//! the same over further hops.
//! A plan that a node refuses is told the coordinator at once. The library would tell it only when
//! the query has ended, and has whoever waits for the plan's output wait ten seconds. So a refusal
//! ends all streams of its query in the coordinator.
//! Not here: what is in a plan (`codec.rs`).
//! Bounds: [`REFUSED_MAX`] refusals are remembered.

use std::collections::{HashMap, HashSet, VecDeque};
use std::fmt;
use std::sync::{Arc, Weak};
use std::time::Duration;

use arrow::array::RecordBatch;
use async_trait::async_trait;
use coscan::parts::{self, LostNode};
use datafusion::common::not_impl_err;
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::error::{DataFusionError, Result as PlanResult};
use datafusion::execution::TaskContext;
use datafusion::physical_expr::expressions::Literal;
use datafusion::physical_expr::{Partitioning, ScalarFunctionExpr};
use datafusion::physical_plan::metrics::ExecutionPlanMetricsSet;
use datafusion_distributed::grpc::{BoxCloneSyncChannel, create_worker_client};
use datafusion_distributed::{
    ChannelResolver, CoordinatorToWorkerMsg, ExecuteTaskRequest, GetWorkerInfoRequest,
    GetWorkerInfoResponse, MaybeEncoded, ProducerHead, SetPlanRequest, WorkerChannel,
    WorkerToCoordinatorMsg,
};
use futures::stream::BoxStream;
use futures::{FutureExt, StreamExt, TryStreamExt};
use http::HeaderMap;
use parking_lot::Mutex;
use tokio::sync::watch;
use tonic::transport::{Certificate, ClientTlsConfig, Endpoint, Identity};
use url::Url;
use uuid::Uuid;

use super::analyze::TaskPlans;
use super::codec::{Refusal, TravellingExec};
use super::errors::{Arrived, arrived};
use super::network::Network;
use super::status::Heard;
use super::{memory, settings};
use crate::distribution::NodeStatus;
use crate::error::{Error, Result, other_version};
use crate::nodes::{self, Links, Suspects, Timeouts, Tls};

/// The window of one stream: the bytes of a partition that wait until its consumer takes them.
const STREAM_WINDOW_BYTES: u32 = 1 << 20;

/// The window of a connection: the largest that HTTP/2 allows. One connection carries all queries,
/// so a smaller one fills with partitions that are not consumed, and then stops all others.
const CONNECTION_WINDOW_BYTES: u32 = i32::MAX.cast_unsigned();

/// The connections of a process to nodes.
pub(super) struct Channels {
    timeouts: Timeouts,
    tls: Option<ClientTlsConfig>,
    network: Network,
    suspects: Arc<Suspects>,
    open: Mutex<HashMap<Url, BoxCloneSyncChannel>>,
    refusals: Arc<Refusals>,
}

impl Channels {
    /// # Errors
    /// [`Error::Thread`], [`Error::Tls`].
    pub(super) fn new(links: &Links, suspects: Arc<Suspects>) -> Result<Self> {
        let network = Network::start().map_err(|error| Error::Thread {
            reason: error.to_string(),
        })?;
        let tls = links.tls.as_ref().map(connecting);
        if let Some(tls) = &tls {
            let tried = Endpoint::from_static("https://localhost").tls_config(tls.clone());
            tried.map_err(|error| Error::Tls {
                reason: with_causes(&error),
            })?;
        }
        Ok(Self {
            timeouts: links.timeouts,
            tls,
            network,
            suspects,
            open: Mutex::default(),
            refusals: Arc::default(),
        })
    }

    /// The connection to a node. It connects when it is first used, and again after it was lost.
    fn channel(&self, node: &Url) -> Result<BoxCloneSyncChannel> {
        let mut open = self.open.lock();
        if let Some(channel) = open.get(node) {
            return Ok(channel.clone());
        }
        let lost = |error: tonic::transport::Error| lost(node, &error.to_string());
        let mut endpoint = Endpoint::from_shared(node.to_string()).map_err(lost)?;
        if let Some(tls) = &self.tls {
            if node.scheme() != "https" {
                return Err(lost_without_tls(node));
            }
            let tls = tls.clone().timeout(self.timeouts.silence);
            endpoint = endpoint.tls_config(tls).map_err(lost)?;
        }
        let endpoint = endpoint
            .executor(self.network.executor())
            .connect_timeout(self.timeouts.connect)
            .tcp_nodelay(true)
            .initial_stream_window_size(STREAM_WINDOW_BYTES)
            .initial_connection_window_size(CONNECTION_WINDOW_BYTES)
            .http2_keep_alive_interval(self.timeouts.silence / 2)
            .keep_alive_timeout(self.timeouts.silence / 2)
            .keep_alive_while_idle(true);
        let channel = BoxCloneSyncChannel::new(endpoint.connect_lazy());
        open.insert(node.clone(), channel.clone());
        Ok(channel)
    }

    /// Closes the connections to nodes that are not among these, once no query uses them.
    pub(super) fn keep(&self, nodes: &[Url]) {
        let nodes: HashSet<&Url> = nodes.iter().collect();
        self.open.lock().retain(|node, _| nodes.contains(node));
    }

    fn worker(&self, node: &Url) -> Result<NodeChannel> {
        Ok(NodeChannel {
            inner: create_worker_client(self.channel(node)?),
            node: node.clone(),
            suspects: Arc::clone(&self.suspects),
            refusals: Arc::clone(&self.refusals),
        })
    }

    /// What a node says of itself.
    ///
    /// # Errors
    /// [`Error::Lost`].
    pub(super) async fn status(&self, node: &Url) -> Result<NodeStatus> {
        let heard = Heard::default();
        let mut worker = create_worker_client(heard.on(self.channel(node)?));
        let asked = worker.get_worker_info(GetWorkerInfoRequest {});
        let within = self.timeouts.connect + self.timeouts.silence;
        match tokio::time::timeout(within, asked).await {
            Ok(Ok(info)) => {
                let (version, process) = match info.version.split_once(' ') {
                    Some((version, process)) => (version.to_owned(), process.to_owned()),
                    None => (info.version, String::new()),
                };
                Ok(NodeStatus {
                    version,
                    process,
                    report: heard.last(),
                })
            }
            Ok(Err(error)) => {
                let text = said(&error).map_or_else(|| error.to_string(), |(text, _)| text);
                Err(lost(node, &text))
            }
            Err(_) => Err(lost(node, &silent(within))),
        }
    }
}

/// A node that is to be reached without TLS by a process that has it.
fn lost_without_tls(node: &Url) -> Error {
    lost(node, "it is listed without TLS, and this process uses TLS")
}

/// The error's text, and those of its causes.
fn with_causes(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text = format!("{text}: {error}");
        cause = error.source();
    }
    text
}

/// The side of TLS that connects: it shows its certificate, and wants one of the same authority
/// that names the node.
fn connecting(tls: &Tls) -> ClientTlsConfig {
    let connecting = ClientTlsConfig::new()
        .identity(Identity::from_pem(&tls.certificate, &tls.key))
        .ca_certificate(Certificate::from_pem(&tls.authority));
    match &tls.name {
        Some(name) => connecting.domain_name(name),
        None => connecting,
    }
}

#[async_trait]
impl ChannelResolver for Channels {
    async fn get_worker_client_for_url(&self, url: &Url) -> PlanResult<Box<dyn WorkerChannel>> {
        Ok(Box::new(self.worker(url)?))
    }
}

impl fmt::Debug for Channels {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Channels")
            .field("timeouts", &self.timeouts)
            .finish_non_exhaustive()
    }
}

/// The connection to one node, whose errors name it.
struct NodeChannel {
    inner: Box<dyn WorkerChannel>,
    node: Url,
    suspects: Arc<Suspects>,
    refusals: Arc<Refusals>,
}

impl NodeChannel {
    /// Makes of an error that the library returns one that names the node, if it was lost, and that
    /// is what it was on the node, if it came from there.
    fn heard(&self) -> impl Fn(DataFusionError) -> DataFusionError + Send + Sync + 'static {
        let (url, suspects) = (self.node.clone(), Arc::clone(&self.suspects));
        move |error| {
            let node = nodes::name(&url);
            let error = named(&url, error);
            if let Some(lost) = LostNode::of(&error) {
                suspects.lost(node, &lost.reason);
                return error;
            }
            match arrived(error) {
                Arrived::OtherVersion(theirs) => {
                    let reason = other_version(node, theirs).to_string();
                    suspects.lost(node, &reason);
                    let node = node.to_owned();
                    LostNode { node, reason }.into()
                }
                Arrived::Lost(lost) => {
                    suspects.reported(node, &lost);
                    lost.into()
                }
                Arrived::Other(error) => error,
            }
        }
    }
}

#[async_trait]
impl WorkerChannel for NodeChannel {
    async fn coordinator_channel(
        &mut self,
        mut headers: HeaderMap,
        mut request: SetPlanRequest,
        messages: BoxStream<'static, CoordinatorToWorkerMsg>,
        metrics: ExecutionPlanMetricsSet,
        context: &Arc<TaskContext>,
    ) -> PlanResult<BoxStream<'static, PlanResult<WorkerToCoordinatorMsg>>> {
        let (refusals, query_id) = (Arc::clone(&self.refusals), request.task_key.query_id);
        let (name, value) = settings::header(context.session_config().options())
            .map_err(|error| refusals.refuse(query_id, error.into()))?;
        headers.insert(name, value);
        let (name, value) = memory::header(query_id, parts::needed_on_nodes(context))
            .map_err(|error| refusals.refuse(query_id, error.into()))?;
        headers.insert(name, value);
        let unsent = Refusal::default();
        if let MaybeEncoded::Decoded(plan) = request.plan {
            let options = context.session_config().options();
            let travelling = TravellingExec::new(plan, options, unsent.clone());
            request.plan = MaybeEncoded::Decoded(Arc::new(travelling));
        }
        let (heard, node) = (self.heard(), nodes::name(&self.node).to_owned());
        let (key, plans) = (request.task_key, context.session_config().get_extension());
        let sent = self
            .inner
            .coordinator_channel(headers, request, messages, metrics, context);
        let refused = move |error| refusals.refuse(query_id, heard(unsent.within(error)));
        let answers = sent.await.map_err(&refused)?;
        let answers = answers.map(move |answer| answer.map_err(&refused));
        let taken = move |answer: &WorkerToCoordinatorMsg| {
            let plans: Option<&TaskPlans> = plans.as_deref();
            if let (WorkerToCoordinatorMsg::TaskMetrics(metrics), Some(plans)) = (answer, plans) {
                plans.take(key, &node, metrics);
            }
        };
        Ok(answers.inspect_ok(taken).boxed())
    }

    async fn execute_task(
        &mut self,
        headers: HeaderMap,
        request: ExecuteTaskRequest,
        metrics: ExecutionPlanMetricsSet,
        context: &Arc<TaskContext>,
    ) -> PlanResult<Vec<BoxStream<'static, PlanResult<RecordBatch>>>> {
        if let ProducerHead::RepartitionExec {
            partitioning: MaybeEncoded::Decoded(by),
        } = &request.producer_head
        {
            refuse_functions(by)?;
        }
        let query = self.refusals.of(request.task_key.query_id);
        let heard = Arc::new(self.heard());
        let mut streams = vec![];
        for one in each_partition(request) {
            let (headers, metrics) = (headers.clone(), metrics.clone());
            let stream = self.inner.execute_task(headers, one, metrics, context);
            streams.extend(stream.await.map_err(&*heard)?);
        }
        let streams = streams.into_iter().map(|stream| {
            let (query, heard) = (Arc::clone(&query), Arc::clone(&heard));
            let stream = stream.map(move |batch| batch.map_err(&*heard));
            let refused = async move { Err(DataFusionError::Shared(query.refused().await)) };
            // A stream that has ended wins over a refusal: then the refusal was of another part.
            let refused = refused.into_stream();
            until_refused(stream.boxed(), refused.boxed())
        });
        Ok(streams.collect())
    }

    async fn get_worker_info(
        &mut self,
        request: GetWorkerInfoRequest,
    ) -> PlanResult<GetWorkerInfoResponse> {
        let heard = self.heard();
        let info = self.inner.get_worker_info(request).await;
        info.map_err(heard)
    }
}

/// A request for each partition. The library has one budget for all partitions of a request: a
/// merge that waits for one partition would hang once the batches of another fill the budget.
fn each_partition(request: ExecuteTaskRequest) -> impl Iterator<Item = ExecuteTaskRequest> {
    let partitions = request.target_partition_start..request.target_partition_end;
    partitions.map(move |partition| ExecuteTaskRequest {
        task_key: request.task_key,
        target_partition_start: partition,
        target_partition_end: partition + 1,
        producer_head: request.producer_head.clone(),
    })
}

/// A stream of batches that fails once its query is refused.
fn until_refused(
    batches: BoxStream<'static, PlanResult<RecordBatch>>,
    refused: BoxStream<'static, PlanResult<RecordBatch>>,
) -> BoxStream<'static, PlanResult<RecordBatch>> {
    let state = Some((batches, refused));
    futures::stream::unfold(state, |state| async move {
        let (mut batches, mut refused) = state?;
        let next = tokio::select! {
            biased;
            batch = batches.next() => batch?,
            Some(error) = refused.next() => return Some((error, None)),
        };
        Some((next, Some((batches, refused))))
    })
    .boxed()
}

/// The queries of which a node has refused a part.
#[derive(Default)]
struct Refusals {
    queries: Mutex<Queries>,
}

#[derive(Default)]
struct Queries {
    /// Those whose output someone awaits.
    awaited: HashMap<Uuid, Weak<Query>>,
    /// The last ones that were refused: their output may be asked for later.
    refused: VecDeque<Arc<Query>>,
}

/// The most refused queries that are remembered.
const REFUSED_MAX: usize = 64;

/// A query's refusal; `None` so far.
struct Query(watch::Sender<Option<Arc<DataFusionError>>>);

impl Refusals {
    /// The entry of a query, which lasts as long as someone holds it.
    fn of(&self, query: Uuid) -> Arc<Query> {
        let mut queries = self.queries.lock();
        if let Some(known) = queries.awaited.get(&query).and_then(Weak::upgrade) {
            return known;
        }
        queries.awaited.retain(|_, known| known.strong_count() > 0);
        let new = Arc::new(Query(watch::Sender::new(None)));
        queries.awaited.insert(query, Arc::downgrade(&new));
        new
    }

    /// Ends all streams of a query with this error, and returns it.
    fn refuse(&self, query_id: Uuid, error: DataFusionError) -> DataFusionError {
        let error = Arc::new(error);
        let query = self.of(query_id);
        query.0.send_if_modified(|known| {
            let is_first = known.is_none();
            known.get_or_insert_with(|| Arc::clone(&error));
            is_first
        });
        let refused = &mut self.queries.lock().refused;
        refused.push_back(query);
        if refused.len() > REFUSED_MAX {
            refused.pop_front();
        }
        DataFusionError::Shared(error)
    }
}

impl Query {
    /// Waits for the refusal, if need be without end.
    async fn refused(&self) -> Arc<DataFusionError> {
        let mut seen = self.0.subscribe();
        let found = seen.wait_for(Option::is_some).await;
        match found.ok().and_then(|found| found.clone()) {
            Some(error) => error,
            None => std::future::pending().await,
        }
    }
}

/// A plan's parts are divided by the library's codec, which sends functions by their names alone.
fn refuse_functions(by: &Partitioning) -> PlanResult<()> {
    let Partitioning::Hash(exprs, _) = by else {
        return Ok(());
    };
    for expr in exprs {
        let mut calls = false;
        expr.apply(|part| {
            calls |= part.downcast_ref::<ScalarFunctionExpr>().is_some();
            Ok(TreeNodeRecursion::Continue)
        })?;
        let is_constant = expr.downcast_ref::<Literal>().is_some();
        if calls && !is_constant {
            return not_impl_err!("a cluster does not divide rows by {expr}");
        }
    }
    Ok(())
}

/// An error of a connection, or of the library on the node, becomes one that names the node; all
/// others stay.
fn named(node: &Url, error: DataFusionError) -> DataFusionError {
    match said(&error) {
        Some((text, true)) => lost(node, &text).into(),
        Some((text, false)) => {
            DataFusionError::Execution(format!("node {}: {text}", nodes::name(node)))
        }
        None => error,
    }
}

/// How h2 shows a stream that its peer has ended with an error, while the connection is well.
const STREAM_ENDED: &str = "stream error received";

/// What the library says of a connection that is closed for good.
const NOT_READY: &str = "Service was not ready";

fn lost(node: &Url, reason: &str) -> Error {
    Error::Lost {
        node: nodes::name(node).to_owned(),
        reason: reason.to_owned(),
    }
}

fn silent(within: Duration) -> String {
    format!("no answer within {} s", within.as_secs_f64())
}

/// What the library or the connection says, and whether the node is lost; `None` if the error is
/// neither's. A status without a cause came from the node, and so did the end of a single stream.
fn said(error: &DataFusionError) -> Option<(String, bool)> {
    let mut at: Option<&(dyn std::error::Error + 'static)> = Some(error);
    while let Some(found) = at {
        if let Some(status) = found.downcast_ref::<tonic::Status>() {
            let mut text = status.message().to_owned();
            let mut cause = std::error::Error::source(status);
            let has_cause = cause.is_some();
            while let Some(inner) = cause {
                let said = inner.to_string();
                if !text.contains(&said) {
                    text = format!("{text}: {said}");
                }
                cause = inner.source();
            }
            let is_lost = (has_cause && !text.contains(STREAM_ENDED)) || text.contains(NOT_READY);
            return Some((text, is_lost));
        }
        if found.downcast_ref::<tonic::transport::Error>().is_some() {
            return Some((found.to_string(), true));
        }
        at = found.source();
    }
    None
}
