//! Keeps DataFusion's rule that reorders inner joins away from joins whose keys it would lose.
//!
//! The rule flattens a tree of inner joins and rebuilds it with the topmost join's treatment of
//! NULL for all keys, so `a JOIN b ON a.k IS NOT DISTINCT FROM b.k JOIN c ON c.v = a.v` lost or
//! gained rows. It also drops a key that needs two of the relations (`a CROSS JOIN b JOIN c ON c.x
//! = a.x AND a.y + b.y = c.y`) unless it joins these two first. Here such a join is put between
//! projections, which the rule does not look through. Delete this file once
//! `eliminate_cross_join.rs` keeps all keys with their treatment of NULL.

use std::sync::Arc;

use datafusion::common::tree_node::Transformed;
use datafusion::common::{JoinType, NullEquality};
use datafusion::error::Result;
use datafusion::logical_expr::{Expr, Join, LogicalPlan, Projection};
use datafusion::optimizer::optimizer::ApplyOrder;
use datafusion::optimizer::{OptimizerConfig, OptimizerRule};

use crate::trees::PlanTree;

type Rule = Arc<dyn OptimizerRule + Send + Sync>;

/// Wraps the optimizer rule of this name.
#[derive(Debug)]
pub(crate) struct EliminateCrossJoins(Rule);

impl EliminateCrossJoins {
    /// Wraps `rule` if it is the one that reorders joins.
    pub(crate) fn around(rule: Rule) -> Rule {
        if rule.name() == "eliminate_cross_join" {
            Arc::new(Self(rule))
        } else {
            rule
        }
    }
}

impl OptimizerRule for EliminateCrossJoins {
    fn name(&self) -> &str {
        self.0.name()
    }

    fn apply_order(&self) -> Option<ApplyOrder> {
        self.0.apply_order()
    }

    fn rewrite(
        &self,
        plan: LogicalPlan,
        config: &dyn OptimizerConfig,
    ) -> Result<Transformed<LogicalPlan>> {
        let apart = plan.change_up_with_subqueries(|node| {
            Ok(match node {
                LogicalPlan::Join(join) if null_equals_null(&join) || spans(&join) => {
                    Transformed::yes(set_apart(join))
                }
                other => Transformed::no(other),
            })
        })?;
        apart.transform_data(|plan| self.0.rewrite(plan, config))
    }
}

fn null_equals_null(join: &Join) -> bool {
    join.join_type == JoinType::Inner && join.null_equality == NullEquality::NullEqualsNull
}

/// Whether one side of a key uses several of the relations that the rule flattens.
fn spans(join: &Join) -> bool {
    let of_one = |key: &Expr, side: &LogicalPlan| {
        let columns = key.column_refs();
        let mut inputs = vec![];
        relations(side, &mut inputs);
        let has_all = |input: &&LogicalPlan| {
            let mut columns = columns.iter();
            columns.all(|column| input.schema().has_column(column))
        };
        inputs.iter().any(has_all)
    };
    let mut keys = join.on.iter();
    join.join_type == JoinType::Inner
        && keys.any(|(left, right)| !of_one(left, &join.left) || !of_one(right, &join.right))
}

/// Collects the relations into which the rule flattens inner joins.
fn relations<'a>(plan: &'a LogicalPlan, found: &mut Vec<&'a LogicalPlan>) {
    match plan {
        LogicalPlan::Join(join) if join.join_type == JoinType::Inner => {
            relations(&join.left, found);
            relations(&join.right, found);
        }
        other => found.push(other),
    }
}

/// Puts the join between projections.
fn set_apart(mut join: Join) -> LogicalPlan {
    for side in [&mut join.left, &mut join.right] {
        if matches!(side.as_ref(), LogicalPlan::Join(_)) {
            *side = Arc::new(all_of(Arc::clone(side)));
        }
    }
    all_of(Arc::new(LogicalPlan::Join(join)))
}

fn all_of(plan: Arc<LogicalPlan>) -> LogicalPlan {
    let schema = Arc::clone(plan.schema());
    LogicalPlan::Projection(Projection::new_from_schema(plan, schema))
}
