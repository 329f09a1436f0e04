//! DataFusion's rule that removes joins, where the uniqueness that it relies on is true.
//!
//! The rule removes a left join whose right side is not used and has each key once. Which keys are
//! unique is said by functional dependencies, and those of an aggregate are wrong in one case: its
//! input has a dependency that does not make rows unique (`Multi`, as of a relation that is joined
//! to others), and the aggregate turns it into one that does, though it groups by more columns. A
//! plan with such an aggregate is left alone.

use std::sync::Arc;

use datafusion::common::tree_node::{Transformed, TreeNodeRecursion};
use datafusion::common::{DFSchema, Dependency};
use datafusion::error::Result;
use datafusion::logical_expr::LogicalPlan;
use datafusion::logical_expr::logical_plan::Aggregate;
use datafusion::optimizer::optimizer::ApplyOrder;
use datafusion::optimizer::{OptimizerConfig, OptimizerRule};

/// The rule of this name, held back.
#[derive(Debug)]
pub(crate) struct EliminateJoins(Arc<dyn OptimizerRule + Send + Sync>);

impl EliminateJoins {
    /// Holds `rule` back if it is the one that removes joins.
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
        plan.apply_with_subqueries(|node| {
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

/// Whether an aggregate's key is a part of its groups though its input has no unique key.
fn claims_too_much(aggregate: &Aggregate) -> bool {
    let unique = |schema: &DFSchema, below: usize| {
        let mut all = schema.functional_dependencies().iter();
        all.any(|one| one.mode == Dependency::Single && one.source_indices.len() < below)
    };
    unique(&aggregate.schema, aggregate.group_expr.len())
        && !unique(aggregate.input.schema(), usize::MAX)
}
