//! What does an aggregate compute, in terms of the output of the scan below it?
//!
//! There may be projections and round-robin repartitions between the two. Projections are inlined
//! into the aggregate's expressions. Repartitions are dropped: a partial aggregate does not depend
//! on the partition of a row.
//! Not here: which scans and aggregates are allowed.

use std::sync::Arc;

use datafusion::error::Result;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_plan::aggregates::AggregateExec;
use datafusion::physical_plan::projection::ProjectionExec;
use datafusion::physical_plan::repartition::RepartitionExec;
use datafusion::physical_plan::{ExecutionPlan, Partitioning};

use super::evaluation::{PlannedAggregate, inline};

/// An aggregate over the raw rows of `input`.
pub(crate) struct OverScan {
    /// The expressions by which rows are grouped.
    pub(crate) group: Vec<Arc<dyn PhysicalExpr>>,
    pub(crate) aggregates: Vec<PlannedAggregate>,
    /// The first node below that is neither a projection nor a round-robin repartition.
    pub(crate) input: Arc<dyn ExecutionPlan>,
}

impl OverScan {
    /// Every expression: group expressions, arguments and filters.
    pub(crate) fn expressions(&self) -> impl Iterator<Item = &Arc<dyn PhysicalExpr>> {
        let aggregates = self.aggregates.iter();
        let over = aggregates.flat_map(|one| one.args.iter().chain(&one.filter));
        self.group.iter().chain(over)
    }
}

/// Looks through the nodes between the aggregate and its scan; see the file's header.
///
/// # Errors
/// If the plan does not fit together: a bug.
pub(crate) fn over_scan(aggregate: &AggregateExec) -> Result<OverScan> {
    let mut group = aggregate.group_expr().input_exprs();
    let functions = aggregate.aggr_expr().iter().zip(aggregate.filter_expr());
    let mut aggregates: Vec<PlannedAggregate> = functions
        .map(|(function, filter)| PlannedAggregate {
            function: Arc::clone(function),
            args: function.expressions(),
            filter: filter.clone(),
        })
        .collect();
    let mut input = aggregate.input();
    loop {
        if let Some(spread) = spread(input) {
            input = spread;
            continue;
        }
        let Some(projection) = input.downcast_ref::<ProjectionExec>() else {
            break;
        };
        let exprs = projection.expr().iter();
        let exprs: Vec<_> = exprs.map(|p| Arc::clone(&p.expr)).collect();
        let of_aggregates = aggregates
            .iter_mut()
            .flat_map(|one| one.args.iter_mut().chain(&mut one.filter));
        for expr in group.iter_mut().chain(of_aggregates) {
            *expr = inline(expr, &exprs)?;
        }
        input = projection.input();
    }
    Ok(OverScan {
        group,
        aggregates,
        input: Arc::clone(input),
    })
}

/// The input of a node that only spreads rows over more partitions.
pub(super) fn spread(node: &Arc<dyn ExecutionPlan>) -> Option<&Arc<dyn ExecutionPlan>> {
    let repartition = node.downcast_ref::<RepartitionExec>()?;
    let spreads = matches!(repartition.partitioning(), Partitioning::RoundRobinBatch(_));
    spreads.then(|| repartition.input())
}
