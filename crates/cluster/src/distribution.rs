//! What does Coscan ask of the library that runs plans on many nodes?
//!
//! To add what it needs to a coordinator's session, to divide a plan whose scans know their nodes,
//! to show it, and to ask a node how it is. On a node it serves parts of queries
//! (`upstream/serve.rs`). Everything else is Coscan's own and stays when the library is replaced:
//! where a scan runs (`placed.rs`), and what becomes of it there (`coscan::parts`).

use std::fmt;
use std::sync::Arc;

use arrow::datatypes::SchemaRef;
use async_trait::async_trait;
use coscan_core::parallelism::nodes::NodeReport;
use datafusion::error::Result as PlanResult;
use datafusion::execution::{SessionState, SessionStateBuilder};
use datafusion::physical_plan::ExecutionPlan;
use url::Url;

use crate::error::Result;

/// What a node says of itself.
#[derive(Debug)]
pub(crate) struct NodeStatus {
    /// The version of the program that it runs.
    pub(crate) version: String,
    /// Which of its processes answers.
    pub(crate) process: String,
    /// How busy it is; `None` if it does not say.
    pub(crate) report: Option<NodeReport>,
}

/// See the file's header.
#[async_trait]
pub(crate) trait Distribution: fmt::Debug + Send + Sync {
    /// Adds what divided plans need when they run.
    fn session(&self, builder: SessionStateBuilder) -> SessionStateBuilder;

    /// The plan, which runs on at most `degree` nodes; its Parquet scans are `PlacedScanExec`s.
    ///
    /// # Errors
    /// If the plan cannot be divided.
    async fn divide(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        degree: usize,
        state: &SessionState,
    ) -> PlanResult<Arc<dyn ExecutionPlan>>;

    /// What a node says of itself.
    ///
    /// # Errors
    /// [`Error::Lost`](crate::Error::Lost), which names the node.
    async fn status(&self, node: &Url) -> Result<NodeStatus>;

    /// Closes the connections to nodes that are not among these, once no query uses them.
    fn keep(&self, nodes: &[Url]);

    /// A plan that runs a divided plan, and returns what its nodes did as rows of EXPLAIN ANALYZE,
    /// which have this schema. `None` if the plan is not divided.
    fn analyzed(
        &self,
        plan: &Arc<dyn ExecutionPlan>,
        schema: SchemaRef,
    ) -> Option<Arc<dyn ExecutionPlan>>;

    /// The plan as text, with its stages.
    fn shown(&self, plan: &dyn ExecutionPlan) -> String;
}
