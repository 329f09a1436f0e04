//! `SELECT array_agg(n) FROM unnest(…) n`: which rows have an order although nothing sorts them?
//!
//! The elements of a set that no table stands beside, and the rows of a recursive query (those of
//! its first term, then those of each round), have PostgreSQL's order, and statements count on it:
//! `string_agg(path, ';')`, ARRAY(SELECT …), or a result without ORDER BY. DataFusion does not know
//! how many rows there are, and deals them out to several partitions. This rule takes such a
//! repartition away. What stands above then works in one partition, up to the next repartition by
//! keys.
//! Not here: joins, which may give up the order; series of numbers (`generate_series` in FROM,
//! whose values state their order).

use std::sync::Arc;

use datafusion::common::tree_node::{Transformed, TransformedResult};
use datafusion::config::ConfigOptions;
use datafusion::error::Result;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::aggregates::AggregateExec;
use datafusion::physical_plan::placeholder_row::PlaceholderRowExec;
use datafusion::physical_plan::recursive_query::RecursiveQueryExec;
use datafusion::physical_plan::repartition::RepartitionExec;
use datafusion::physical_plan::unnest::UnnestExec;
use datafusion::physical_plan::work_table::WorkTableExec;
use datafusion::physical_plan::{ExecutionPlan, Partitioning};

use super::{PLACES_SORTS, Rule};
use crate::trees::Tree;

/// Adds our rule after `rule` if that is the one that spreads rows.
pub(super) fn behind(rule: Rule) -> Vec<Rule> {
    if rule.name() == PLACES_SORTS {
        return vec![rule, Arc::new(Sequences)];
    }
    vec![rule]
}

/// See the file's header.
#[derive(Debug)]
struct Sequences;

impl PhysicalOptimizerRule for Sequences {
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
        "sequences"
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

/// Whether rows come in an order of their own: as a recursive query finds them, or as a set of one
/// row has them.
fn are_in_order(rows: &Arc<dyn ExecutionPlan>) -> bool {
    if rows.is::<RecursiveQueryExec>() || rows.is::<WorkTableExec>() || is_one(rows) {
        return true;
    }
    let keeps_order = rows.is::<UnnestExec>() || rows.maintains_input_order() == [true];
    match rows.children().as_slice() {
        [input] => keeps_order && are_in_order(input),
        _ => false,
    }
}

/// Whether a node gives one row.
fn is_one(rows: &Arc<dyn ExecutionPlan>) -> bool {
    let aggregate = rows.downcast_ref::<AggregateExec>();
    rows.is::<PlaceholderRowExec>()
        || aggregate.is_some_and(|aggregate| aggregate.group_expr().is_empty())
}
