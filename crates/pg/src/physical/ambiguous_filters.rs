//! `… FROM a RIGHT JOIN b … WHERE a.name IS NULL`: which `name` does a filter that is pushed down
//! mean?
//!
//! DataFusion gives a filter to the node below by the names of its columns (55.2,
//! `filter_pushdown.rs`: `FilterRemapper`); if that node has two columns of a name, the first is
//! taken, and the filter removes rows by another column. Here a filter passes such a node only by
//! names that it has once. To be deleted when filters are pushed down by places.

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::sync::Arc;

use datafusion::arrow::datatypes::Schema;
use datafusion::common::internal_err;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode, TreeNodeRecursion};
use datafusion::config::ConfigOptions;
use datafusion::error::Result;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::filter_pushdown::{
    ChildFilterDescription, FilterDescription, FilterPushdownPhase,
};
use datafusion::physical_plan::{DisplayAs, DisplayFormatType, ExecutionPlan, PlanProperties};

use super::Rule;

/// DataFusion's rule that pushes filters down, in two phases.
const RULES: [&str; 2] = ["FilterPushdown", "FilterPushdown(Post)"];

/// `rule`, held if it is that one.
pub(super) fn around(rule: Rule) -> Rule {
    if RULES.contains(&rule.name()) {
        return Arc::new(AmbiguousFilters(rule));
    }
    rule
}

/// See the file's header.
#[derive(Debug)]
struct AmbiguousFilters(Rule);

impl PhysicalOptimizerRule for AmbiguousFilters {
    fn optimize(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        config: &ConfigOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let gated = plan.transform_up(|node| {
            Ok(if has_twins(&node.schema()) {
                Transformed::yes(Arc::new(Gate { below: node }))
            } else {
                Transformed::no(node)
            })
        })?;
        let pushed = self.0.optimize(gated.data, config)?;
        if !gated.transformed {
            return Ok(pushed);
        }
        let opened = pushed.transform_up(|node| {
            let below = node
                .downcast_ref::<Gate>()
                .map(|gate| Arc::clone(&gate.below));
            Ok(below.map_or_else(|| Transformed::no(node), Transformed::yes))
        });
        opened.data()
    }

    fn name(&self) -> &str {
        self.0.name()
    }

    fn schema_check(&self) -> bool {
        self.0.schema_check()
    }
}

/// Whether two columns have one name.
fn has_twins(schema: &Schema) -> bool {
    let mut names: Vec<&str> = schema
        .fields()
        .iter()
        .map(|field| field.name().as_str())
        .collect();
    names.sort_unstable();
    names.windows(2).any(|pair| pair[0] == pair[1])
}

/// Stands above a node with columns of one name while filters are pushed down.
#[derive(Debug)]
struct Gate {
    below: Arc<dyn ExecutionPlan>,
}

impl Gate {
    /// The places of the columns whose names no others have.
    fn unambiguous(&self) -> HashSet<usize> {
        let schema = self.below.schema();
        let mut places = HashMap::new();
        for (place, field) in schema.fields().iter().enumerate() {
            let known = places.entry(field.name().as_str());
            known
                .and_modify(|place| *place = None)
                .or_insert(Some(place));
        }
        places.into_values().flatten().collect()
    }
}

impl DisplayAs for Gate {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Gate")
    }
}

impl ExecutionPlan for Gate {
    fn name(&self) -> &'static str {
        "Gate"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        self.below.properties()
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        vec![&self.below]
    }

    fn maintains_input_order(&self) -> Vec<bool> {
        vec![true]
    }

    fn apply_expressions(
        &self,
        _: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        Ok(TreeNodeRecursion::Continue)
    }

    fn with_new_children(
        self: Arc<Self>,
        mut children: Vec<Arc<dyn ExecutionPlan>>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        match (children.pop(), children.is_empty()) {
            (Some(below), true) => Ok(Arc::new(Self { below })),
            _ => internal_err!("a gate has one child"),
        }
    }

    fn gather_filters_for_pushdown(
        &self,
        _: FilterPushdownPhase,
        filters: Vec<Arc<dyn PhysicalExpr>>,
        _: &ConfigOptions,
    ) -> Result<FilterDescription> {
        let (below, places) = (&self.below, self.unambiguous());
        let child =
            ChildFilterDescription::from_child_with_allowed_indices(&filters, places, below)?;
        Ok(FilterDescription::new().with_child(child))
    }

    fn execute(&self, _: usize, _: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        internal_err!("a gate was not opened")
    }
}
