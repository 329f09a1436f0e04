//! `WITH RECURSIVE t(n) AS (…) SELECT array_agg(n) FROM t`: in which order are the rows found?
//!
//! A recursive query gives its rows in one partition: those of its first term, then those of each
//! step, as in PostgreSQL. DataFusion's rule that places repartitions deals them out to several
//! partitions, so that a series of numbers or days came out of order where no ORDER BY sorts it:
//! in ARRAY(SELECT …), `array_agg`, `string_agg`, `json_agg`, and in the result itself. This rule
//! takes such a repartition away. What stands above then works in one partition, up to the next
//! repartition by keys, while the recursion below has one anyway.
//! Not here: the order inside of a step, whose rows are spread where they are many.

use std::sync::Arc;

use datafusion::common::tree_node::Transformed;
use datafusion::config::ConfigOptions;
use datafusion::error::Result;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::projection::ProjectionExec;
use datafusion::physical_plan::recursive_query::RecursiveQueryExec;
use datafusion::physical_plan::repartition::RepartitionExec;
use datafusion::physical_plan::{ExecutionPlan, Partitioning};

use crate::trees::Tree;

/// See the file's header.
#[derive(Debug)]
pub(super) struct RecursiveOrder;

impl PhysicalOptimizerRule for RecursiveOrder {
    fn optimize(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        _: &ConfigOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let found = plan.change_down(|node| {
            let rows = in_sequence(&node);
            Ok(rows.map_or_else(|| Transformed::no(node), Transformed::yes))
        })?;
        Ok(found.data)
    }

    fn name(&self) -> &'static str {
        "recursive_order"
    }

    fn schema_check(&self) -> bool {
        true
    }
}

/// The input of a node that deals the rows of a recursive query out to partitions.
fn in_sequence(node: &Arc<dyn ExecutionPlan>) -> Option<Arc<dyn ExecutionPlan>> {
    let dealt = node.downcast_ref::<RepartitionExec>()?;
    if !matches!(dealt.partitioning(), Partitioning::RoundRobinBatch(_)) {
        return None;
    }
    let mut at = dealt.input();
    while let Some(projection) = at.downcast_ref::<ProjectionExec>() {
        at = projection.input();
    }
    at.is::<RecursiveQueryExec>()
        .then(|| Arc::clone(dealt.input()))
}
