//! `min(s ORDER BY k)`: which aggregates are the same in any order?
//!
//! Their ORDER BY is dropped. With it, DataFusion 55.2 fails in a grouped query with other
//! aggregates ("number of columns must match number of fields"), and sorts for nothing.

use datafusion::common::tree_node::{Transformed, TransformedResult};
use datafusion::config::ConfigOptions;
use datafusion::error::Result;
use datafusion::logical_expr::expr::AggregateFunction;
use datafusion::logical_expr::{Aggregate, Expr, LogicalPlan};
use datafusion::optimizer::AnalyzerRule;

use super::ordered_inputs::renamed_as_before;
use crate::trees::PlanTree;

const IN_ANY_ORDER: [&str; 8] = [
    "bit_and", "bit_or", "bit_xor", "bool_and", "bool_or", "count", "max", "min",
];

/// See the file's header.
#[derive(Debug, Default)]
pub(crate) struct NeedlessOrders;

impl AnalyzerRule for NeedlessOrders {
    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> Result<LogicalPlan> {
        plan.change_up_with_subqueries(|node| match node {
            LogicalPlan::Aggregate(aggregate) if aggregate.aggr_expr.iter().any(has_any) => {
                dropped(aggregate)
            }
            other => Ok(Transformed::no(other)),
        })
        .data()
    }

    fn name(&self) -> &'static str {
        "needless_orders"
    }
}

fn has_any(expr: &Expr) -> bool {
    matches!(expr.clone().unalias(), Expr::AggregateFunction(call) if is_needless(&call))
}

fn is_needless(call: &AggregateFunction) -> bool {
    !call.params.order_by.is_empty() && IN_ANY_ORDER.contains(&call.func.name())
}

fn dropped(aggregate: Aggregate) -> Result<Transformed<LogicalPlan>> {
    let calls = aggregate.aggr_expr.into_iter().map(|call| {
        renamed_as_before(call, |expr| match expr {
            Expr::AggregateFunction(mut call) if is_needless(&call) => {
                call.params.order_by.clear();
                Transformed::yes(Expr::AggregateFunction(call))
            }
            other => Transformed::no(other),
        })
    });
    let calls = calls.collect::<Result<_>>()?;
    let aggregate = Aggregate::try_new(aggregate.input, aggregate.group_expr, calls)?;
    Ok(Transformed::yes(LogicalPlan::Aggregate(aggregate)))
}
