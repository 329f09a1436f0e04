//! Restricts DataFusion's rule that removes joins to plans whose uniqueness is certain.
//!
//! The rule removes a left join whose right side is unused and has unique keys. It takes
//! uniqueness from functional dependencies, which are wrong for one kind of aggregate: if the
//! input has a dependency that does not make rows unique (`Multi`, as of a joined relation), the
//! aggregate turns it into one that does, even if it groups by more columns. A plan with such an
//! aggregate is left alone.

use std::sync::Arc;

use datafusion::common::tree_node::{Transformed, TreeNodeRecursion};
use datafusion::common::{DFSchema, Dependency};
use datafusion::error::Result;
use datafusion::logical_expr::LogicalPlan;
use datafusion::logical_expr::logical_plan::Aggregate;
use datafusion::optimizer::optimizer::ApplyOrder;
use datafusion::optimizer::{OptimizerConfig, OptimizerRule};

use crate::trees::PlanTree;

/// Wraps the optimizer rule of this name.
#[derive(Debug)]
pub(crate) struct EliminateJoins(Arc<dyn OptimizerRule + Send + Sync>);

impl EliminateJoins {
    /// Wraps `rule` if it is the one that removes joins.
    pub(crate) fn around(
        rule: Arc<dyn OptimizerRule + Send + Sync>,
    ) -> Arc<dyn OptimizerRule + Send + Sync> {
        if rule.name() == "eliminate_join" {
            Arc::new(Self(rule))
        } else {
            rule
        }
    }
}

impl OptimizerRule for EliminateJoins {
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
        let mut wrong = false;
        plan.each_with_subqueries(|node| {
            wrong |= matches!(node, LogicalPlan::Aggregate(given) if claims_too_much(given));
            Ok(if wrong {
                TreeNodeRecursion::Stop
            } else {
                TreeNodeRecursion::Continue
            })
        })?;
        if wrong {
            return Ok(Transformed::no(plan));
        }
        self.0.rewrite(plan, config)
    }
}

/// Whether an aggregate claims that a part of its groups is unique although its input has no
/// unique key.
fn claims_too_much(aggregate: &Aggregate) -> bool {
    let unique = |schema: &DFSchema, below: usize| {
        let mut all = schema.functional_dependencies().iter();
        all.any(|one| one.mode == Dependency::Single && one.source_indices.len() < below)
    };
    unique(&aggregate.schema, aggregate.group_expr.len())
        && !unique(aggregate.input.schema(), usize::MAX)
}
