//! `WITH RECURSIVE r … SELECT array_agg(n) FROM r`: in which order do the rows of a recursive query
//! come?
//!
//! In PostgreSQL they come in the order in which they are found, and statements count on it:
//! `string_agg(path, ';')`, or a result without ORDER BY. DataFusion does not know how many rows
//! there are, and spreads them over partitions. This rule takes that out, above a recursive query
//! and above the rows of its last round. What needs rows by the hash of a key keeps its partitions.
//! Not here: joins, which may give up the order.

use std::sync::Arc;

use datafusion::common::tree_node::{Transformed, TransformedResult};
use datafusion::config::ConfigOptions;
use datafusion::error::Result;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::recursive_query::RecursiveQueryExec;
use datafusion::physical_plan::repartition::RepartitionExec;
use datafusion::physical_plan::work_table::WorkTableExec;
use datafusion::physical_plan::{ExecutionPlan, Partitioning};

use super::{PLACES_SORTS, Rule};
use crate::trees::Tree;

/// Adds our rule after `rule` if that is the one that spreads rows.
pub(super) fn behind(rule: Rule) -> Vec<Rule> {
    if rule.name() == PLACES_SORTS {
        return vec![rule, Arc::new(Recursions)];
    }
    vec![rule]
}

/// See the file's header.
#[derive(Debug)]
struct Recursions;

impl PhysicalOptimizerRule for Recursions {
    fn optimize(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        _: &ConfigOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        plan.change_up(|node| {
            Ok(match spread(&node) {
                Some(input) => Transformed::yes(input),
                None => Transformed::no(node),
            })
        })
        .data()
    }

    fn name(&self) -> &'static str {
        "recursions"
    }

    fn schema_check(&self) -> bool {
        true
    }
}

/// The rows in order that a node spreads over partitions.
fn spread(node: &Arc<dyn ExecutionPlan>) -> Option<Arc<dyn ExecutionPlan>> {
    let spreads = node.downcast_ref::<RepartitionExec>()?;
    let in_turns = matches!(spreads.partitioning(), Partitioning::RoundRobinBatch(_));
    (in_turns && are_in_order(spreads.input())).then(|| Arc::clone(spreads.input()))
}

/// Whether rows come in the order in which a recursive query finds them.
fn are_in_order(rows: &Arc<dyn ExecutionPlan>) -> bool {
    if rows.is::<RecursiveQueryExec>() || rows.is::<WorkTableExec>() {
        return true;
    }
    match rows.children().as_slice() {
        [input] => rows.maintains_input_order() == [true] && are_in_order(input),
        _ => false,
    }
}
