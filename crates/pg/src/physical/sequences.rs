//! `SELECT array_agg(n) FROM unnest(…) n`: which rows have an order although nothing sorts them?
//!
//! The elements of a set that no table stands beside, and the rows of a recursive query (those of
//! its first term, then those of each step), come in one partition and in PostgreSQL's order.
//! DataFusion's rule that places repartitions deals them out to several partitions, so that they
//! came out of order where no ORDER BY sorts them: in ARRAY(SELECT …), `array_agg`, `string_agg`,
//! `json_agg`, and in the result itself. This rule takes such a repartition away. What stands above
//! then works in one partition, up to the next repartition by keys.
//! Not here: sets beside tables, the order inside of a recursive step, series of numbers
//! (`generate_series` in FROM, whose values state their order).

use std::sync::Arc;

use datafusion::common::tree_node::Transformed;
use datafusion::config::ConfigOptions;
use datafusion::error::Result;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::aggregates::AggregateExec;
use datafusion::physical_plan::placeholder_row::PlaceholderRowExec;
use datafusion::physical_plan::projection::ProjectionExec;
use datafusion::physical_plan::recursive_query::RecursiveQueryExec;
use datafusion::physical_plan::repartition::RepartitionExec;
use datafusion::physical_plan::unnest::UnnestExec;
use datafusion::physical_plan::{ExecutionPlan, Partitioning};

use crate::trees::Tree;

/// See the file's header.
#[derive(Debug)]
pub(super) struct Sequences;

impl PhysicalOptimizerRule for Sequences {
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
        "sequences"
    }

    fn schema_check(&self) -> bool {
        true
    }
}

/// The input of a node that deals rows of an own order out to partitions.
fn in_sequence(node: &Arc<dyn ExecutionPlan>) -> Option<Arc<dyn ExecutionPlan>> {
    let dealt = node.downcast_ref::<RepartitionExec>()?;
    let is_dealt = matches!(dealt.partitioning(), Partitioning::RoundRobinBatch(_));
    let mut at = dealt.input();
    loop {
        if let Some(projection) = at.downcast_ref::<ProjectionExec>() {
            at = projection.input();
        } else if let Some(set) = at.downcast_ref::<UnnestExec>() {
            at = set.input();
        } else {
            break;
        }
    }
    (is_dealt && begins_sequence(at)).then(|| Arc::clone(dealt.input()))
}

/// Whether a node gives one row, or the rows of a recursive query.
fn begins_sequence(node: &Arc<dyn ExecutionPlan>) -> bool {
    let aggregate = node.downcast_ref::<AggregateExec>();
    node.is::<RecursiveQueryExec>()
        || node.is::<PlaceholderRowExec>()
        || aggregate.is_some_and(|aggregate| aggregate.group_expr().is_empty())
}
