//! How do plans, scans and functions travel?
//!
//! The library asks its own codec first, which takes every function for one that the other node
//! knows by its name. That loses which `sum` is meant. So a plan travels as one node,
//! [`TravellingExec`], whose bytes are made by [`PartCodec`]: it names functions by their places
//! ([`SentFunctions`]), sends scans with what DataFusion's codec loses, and leaves the library's
//! nodes to the library's codec. What arrives is the plan itself.
//! DataFusion puts the text of the whole plan around the reason why a node does not travel, and
//! keeps no type of it, so the reason is noted beside the plan ([`Refusal`]).
//! Not here: by which expressions rows are divided between tasks, which the library encodes.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, LazyLock, OnceLock};

use coscan::parts::{self, Marks, Scan};
use coscan_pg::output::IntervalStyle;
use coscan_pg::{PgError, SentFunctions, StatedExec, translate};
use datafusion::common::config::ConfigOptions;
use datafusion::common::internal_err;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::memory_pool::MemoryPool;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::logical_expr::{AggregateUDF, ScalarUDF, WindowUDF};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_plan::{DisplayAs, DisplayFormatType, ExecutionPlan, PlanProperties};
use datafusion_distributed::DistributedCodec;
use datafusion_proto::physical_plan::{
    PhysicalExtensionCodec, PhysicalPlanDecodeContext, PhysicalProtoConverterExtension,
};
use datafusion_proto::protobuf::PhysicalPlanNode;
use parking_lot::Mutex;
use prost::Message;

use crate::placed::PlacedScanExec;

/// The most time zones, with styles of intervals, whose functions are kept.
const ZONES_MAX: usize = 16;

/// Why a plan does not travel: the first reason that was found.
#[derive(Clone, Debug, Default)]
pub(super) struct Refusal(Arc<OnceLock<PgError>>);

impl Refusal {
    /// The error for this reason; for the one that was found first, if there is one.
    fn because(&self, reason: PgError) -> DataFusionError {
        self.0.get_or_init(|| reason).clone().into()
    }

    /// The reason in place of an error that DataFusion has put around it, if there is one.
    pub(super) fn within(&self, error: DataFusionError) -> DataFusionError {
        self.0.get().map_or(error, |reason| reason.clone().into())
    }
}

/// A plan on its way to a node.
pub(super) struct TravellingExec {
    plan: Arc<dyn ExecutionPlan>,
    functions: Arc<SentFunctions>,
    refusal: Refusal,
}

impl TravellingExec {
    /// `options` are those of the session that sends it. If it does not travel, `refusal` is told
    /// why.
    pub(super) fn new(
        plan: Arc<dyn ExecutionPlan>,
        options: &ConfigOptions,
        refusal: Refusal,
    ) -> Self {
        Self {
            plan,
            functions: functions(options),
            refusal,
        }
    }
}

impl fmt::Debug for TravellingExec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TravellingExec")
            .field("plan", &self.plan)
            .finish_non_exhaustive()
    }
}

impl DisplayAs for TravellingExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl ExecutionPlan for TravellingExec {
    fn name(&self) -> &'static str {
        "TravellingExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        self.plan.properties()
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        vec![]
    }

    fn apply_expressions(
        &self,
        _: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        Ok(TreeNodeRecursion::Continue)
    }

    fn with_new_children(
        self: Arc<Self>,
        _: Vec<Arc<dyn ExecutionPlan>>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        Ok(self)
    }

    fn execute(&self, _: usize, _: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        internal_err!("a plan runs when it has arrived")
    }
}

/// Sends a [`TravellingExec`].
#[derive(Debug, Default)]
pub(super) struct WholeCodec;

impl PhysicalExtensionCodec for WholeCodec {
    fn try_decode(
        &self,
        bytes: &[u8],
        _: &[Arc<dyn ExecutionPlan>],
        context: &TaskContext,
        converter: &dyn PhysicalProtoConverterExtension,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let plan = PhysicalPlanNode::decode(bytes).map_err(unreadable)?;
        let options = context.session_config().options();
        let codec = PartCodec {
            functions: functions(options),
            options: Arc::clone(options),
            memory: Some(Arc::clone(context.memory_pool())),
            refusal: Refusal::default(),
        };
        let decoding = PhysicalPlanDecodeContext::new(context, &codec);
        converter.proto_to_execution_plan(&plan, &decoding)
    }

    fn try_encode(
        &self,
        node: Arc<dyn ExecutionPlan>,
        bytes: &mut Vec<u8>,
        converter: &dyn PhysicalProtoConverterExtension,
    ) -> Result<()> {
        let Some(travelling) = node.downcast_ref::<TravellingExec>() else {
            return Err(not_run(node.name()).into());
        };
        let refusal = &travelling.refusal;
        let codec = PartCodec {
            functions: Arc::clone(&travelling.functions),
            options: Arc::default(),
            memory: None,
            refusal: refusal.clone(),
        };
        let plan = converter.execution_plan_to_proto(&travelling.plan, &codec);
        let plan = plan.map_err(|error| refusal.because(translate(&error, &|_| None)))?;
        plan.encode(bytes).map_err(unreadable)
    }
}

/// Sends what is in a [`TravellingExec`].
struct PartCodec {
    functions: Arc<SentFunctions>,
    /// Those of the session that a plan arrives in.
    options: Arc<ConfigOptions>,
    /// The memory that bounds functions whose results can grow, where a plan arrives.
    memory: Option<Arc<dyn MemoryPool>>,
    /// Why the plan does not travel, where it is sent.
    refusal: Refusal,
}

impl PartCodec {
    /// Writes a function: its place, and its name, because a call may have another one.
    fn put(&self, bytes: &mut Vec<u8>, name: &str, place: Option<usize>) -> Result<()> {
        let Some(place) = place.and_then(|place| u8::try_from(place).ok()) else {
            let what = format!("the function {name} as it is used here");
            return Err(self.refusal.because(not_run(&what)));
        };
        bytes.push(place);
        bytes.extend_from_slice(name.as_bytes());
        Ok(())
    }
}

impl fmt::Debug for PartCodec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("PartCodec")
    }
}

/// What a node's bytes are; the first of them.
const LIBRARYS: u8 = 0;
const SCAN: u8 = 1;
const STATED: u8 = 2;

impl PhysicalExtensionCodec for PartCodec {
    fn try_decode(
        &self,
        bytes: &[u8],
        inputs: &[Arc<dyn ExecutionPlan>],
        context: &TaskContext,
        converter: &dyn PhysicalProtoConverterExtension,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        match (bytes.split_first(), inputs) {
            (Some((&LIBRARYS, rest)), _) => {
                DistributedCodec.try_decode(rest, inputs, context, converter)
            }
            (Some((&SCAN, rest)), []) => {
                let sent = SentScan::decode(rest).map_err(unreadable)?;
                let (Some(scan), Ok(lost)) =
                    (sent.scan, serde_json::from_slice::<Marks>(&sent.lost))
                else {
                    return internal_err!("a scan cannot be read");
                };
                let decoding = PhysicalPlanDecodeContext::new(context, self);
                let scan = converter.proto_to_execution_plan(&scan, &decoding)?;
                match Scan::of(&scan) {
                    Some(found) => Ok(found.restored(&lost)),
                    None => internal_err!("a scan is not one of Parquet files"),
                }
            }
            // Nodes above are made anew here, and must not believe what the join states.
            (Some((&STATED, _)), [input]) => Ok(Arc::new(StatedExec::new(Arc::clone(input))?)),
            _ => internal_err!("a part of a plan cannot be read"),
        }
    }

    fn try_encode(
        &self,
        node: Arc<dyn ExecutionPlan>,
        bytes: &mut Vec<u8>,
        converter: &dyn PhysicalProtoConverterExtension,
    ) -> Result<()> {
        if let Some(placed) = node.downcast_ref::<PlacedScanExec>() {
            let Some(scan) = Scan::of(placed.scan()) else {
                return internal_err!("a placed scan is not one of Parquet files");
            };
            let lost = serde_json::to_vec(&scan.lost()).map_err(unreadable)?;
            let sent = SentScan {
                scan: Some(converter.execution_plan_to_proto(placed.scan(), self)?),
                lost,
            };
            bytes.push(SCAN);
            return sent.encode(bytes).map_err(unreadable);
        }
        if node.is::<StatedExec>() {
            bytes.push(STATED);
            return Ok(());
        }
        bytes.push(LIBRARYS);
        let name = node.name().to_owned();
        let sent = DistributedCodec.try_encode(node, bytes, converter);
        sent.map_err(|_| self.refusal.because(not_run(&name)))
    }

    fn try_encode_udf(&self, function: &ScalarUDF, bytes: &mut Vec<u8>) -> Result<()> {
        let function = parts::unbounded(function);
        let place = self.functions.place_of_scalar(function);
        self.put(bytes, function.name(), place)
    }

    fn try_decode_udf(&self, name: &str, bytes: &[u8]) -> Result<Arc<ScalarUDF>> {
        let (name, place) = taken(bytes).unwrap_or((name, 0));
        let function = found(self.functions.scalar(name, place, &self.options), name)?;
        let bounded = self.memory.as_ref();
        let bounded = bounded.and_then(|memory| parts::bounded_one(&function, memory));
        Ok(bounded.map_or(function, Arc::new))
    }

    fn try_encode_udaf(&self, function: &AggregateUDF, bytes: &mut Vec<u8>) -> Result<()> {
        let place = self.functions.place_of_aggregate(function);
        self.put(bytes, function.name(), place)
    }

    fn try_decode_udaf(&self, name: &str, bytes: &[u8]) -> Result<Arc<AggregateUDF>> {
        let (name, place) = taken(bytes).unwrap_or((name, 0));
        found(self.functions.aggregate(name, place).cloned(), name)
    }

    fn try_encode_udwf(&self, function: &WindowUDF, bytes: &mut Vec<u8>) -> Result<()> {
        let place = self.functions.place_of_window(function);
        self.put(bytes, function.name(), place)
    }

    fn try_decode_udwf(&self, name: &str, bytes: &[u8]) -> Result<Arc<WindowUDF>> {
        let (name, place) = taken(bytes).unwrap_or((name, 0));
        found(self.functions.window(name, place).cloned(), name)
    }
}

/// A scan on its way.
#[derive(Clone, PartialEq, Message)]
struct SentScan {
    #[prost(message, optional, tag = "1")]
    scan: Option<PhysicalPlanNode>,
    #[prost(bytes = "vec", tag = "2")]
    lost: Vec<u8>,
}

/// The refusal of a plan with such a node or function.
fn not_run(what: &str) -> PgError {
    PgError::unsupported(format!("a cluster does not run {what}"))
}

fn taken(bytes: &[u8]) -> Option<(&str, usize)> {
    let (place, name) = bytes.split_first()?;
    Some((std::str::from_utf8(name).ok()?, usize::from(*place)))
}

fn found<F>(function: Option<Arc<F>>, name: &str) -> Result<Arc<F>> {
    match function {
        Some(function) => Ok(function),
        None => internal_err!("a node does not know the function {name}"),
    }
}

/// The functions of sessions with these options.
fn functions(options: &ConfigOptions) -> Arc<SentFunctions> {
    type Known = HashMap<(String, IntervalStyle), Arc<SentFunctions>>;
    static KNOWN: LazyLock<Mutex<Known>> = LazyLock::new(Mutex::default);
    let zone = options.execution.time_zone.clone().unwrap_or_default();
    let settings = (zone, IntervalStyle::of(options));
    let mut known = KNOWN.lock();
    if known.len() >= ZONES_MAX && !known.contains_key(&settings) {
        known.clear();
    }
    let made = known.entry(settings);
    Arc::clone(made.or_insert_with(|| Arc::new(SentFunctions::new(options))))
}

fn unreadable(error: impl std::error::Error + Send + Sync + 'static) -> DataFusionError {
    DataFusionError::External(Box::new(error))
}
