//! DataFusion's rule that turns DISTINCT in an aggregate into groups, with the original types
//! kept.
//!
//! The rule splits the other aggregates into partial results. A sum of sums of numerics has more
//! digits than the sum, but the nodes above were planned for the sum's type: `SELECT
//! count(DISTINCT x) … HAVING sum(n) > 1` was an error. Here such columns are cast to their
//! original type. Delete this file once `single_distinct_to_groupby.rs` keeps the types.

use std::sync::Arc;

use datafusion::arrow::datatypes::DataType;
use datafusion::common::tree_node::Transformed;
use datafusion::common::{Column, DFSchema};
use datafusion::error::Result;
use datafusion::logical_expr::{Expr, LogicalPlan, LogicalPlanBuilder, cast};
use datafusion::optimizer::optimizer::ApplyOrder;
use datafusion::optimizer::{OptimizerConfig, OptimizerRule};

type Rule = Arc<dyn OptimizerRule + Send + Sync>;

/// Wraps the optimizer rule of this name.
#[derive(Debug)]
pub(crate) struct SingleDistinct(Rule);

impl SingleDistinct {
    /// Wraps `rule` if it is the one that turns DISTINCT into groups.
    pub(crate) fn around(rule: Rule) -> Rule {
        if rule.name() == "single_distinct_aggregation_to_group_by" {
            Arc::new(Self(rule))
        } else {
            rule
        }
    }
}

impl OptimizerRule for SingleDistinct {
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
        let before = Arc::clone(plan.schema());
        let made = self.0.rewrite(plan, config)?;
        made.map_data(|plan| with_types(plan, &before))
    }
}

fn with_types(plan: LogicalPlan, before: &DFSchema) -> Result<LogicalPlan> {
    let now = Arc::clone(plan.schema());
    let types = |schema: &DFSchema| -> Vec<DataType> {
        let fields = schema.fields().iter();
        fields.map(|field| field.data_type().clone()).collect()
    };
    if types(before) == types(&now) {
        return Ok(plan);
    }
    let columns = before.iter().zip(now.iter()).map(|(old, new)| {
        let column = Expr::Column(Column::from(new));
        let (qualifier, field) = old;
        if field.data_type() == new.1.data_type() {
            return column;
        }
        cast(column, field.data_type().clone()).alias_qualified(qualifier.cloned(), field.name())
    });
    let columns: Vec<Expr> = columns.collect();
    LogicalPlanBuilder::from(plan).project(columns)?.build()
}
