//! `… FROM a RIGHT JOIN b … WHERE a.name IS NULL`: to which `name` does a pushed-down filter
//! refer?
//!
//! DataFusion passes a filter to the node below by the names of its columns (55.2,
//! `filter_pushdown.rs`: `FilterRemapper`). Rows are lost in two cases:
//! - If that node has two columns of one name, the first is used.
//! - A semi join passes filters on its keys to both sides, although the other side's column of
//!   that name need not be the matching key: in `EXISTS (SELECT … FROM b WHERE a.k = b.k + 5)` a
//!   filter on `a.k` removes rows by `b.k`.
//!
//! Here such a node only receives filters on its other columns. Delete this file once filters are
//! pushed down by column index.

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::sync::Arc;

use datafusion::arrow::datatypes::Schema;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNodeRecursion};
use datafusion::common::{JoinType, internal_err};
use datafusion::config::ConfigOptions;
use datafusion::error::Result;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_expr::{PhysicalExpr, PhysicalExprRef};
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::filter_pushdown::{
    ChildFilterDescription, FilterDescription, FilterPushdownPhase,
};
use datafusion::physical_plan::joins::HashJoinExec;
use datafusion::physical_plan::{DisplayAs, DisplayFormatType, ExecutionPlan, PlanProperties};

use super::Rule;
use crate::trees::Tree;

/// DataFusion's rule that pushes filters down, in two phases.
const RULES: [&str; 2] = ["FilterPushdown", "FilterPushdown(Post)"];

/// So many names are compared with each other: 120 pairs.
const FEW: usize = 16;

/// Wraps `rule` if it is the one that pushes filters down.
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
        let gated = plan.change_up(|node| {
            if !node.is::<HashJoinExec>() && has_few_names_once(&node.schema()) {
                return Ok(Transformed::no(node));
            }
            let columns = node.schema().fields().len();
            let mut places = unambiguous(&node.schema());
            if let Some(join) = node.downcast_ref::<HashJoinExec>() {
                let wrong = named_otherwise(join);
                places.retain(|place| !wrong.contains(place));
            }
            Ok(if places.len() < columns {
                Transformed::yes(Arc::new(Gate {
                    below: node,
                    places,
                }))
            } else {
                Transformed::no(node)
            })
        })?;
        let pushed = self.0.optimize(gated.data, config)?;
        if !gated.transformed {
            return Ok(pushed);
        }
        let opened = pushed.change_up(|node| {
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

/// Whether a node has few columns, all of different names, as most have: they are compared with
/// each other, without a table of them.
fn has_few_names_once(schema: &Schema) -> bool {
    let fields = schema.fields();
    let mut columns = fields.iter().enumerate();
    fields.len() <= FEW
        && columns.all(|(at, field)| {
            let mut before = fields[..at].iter();
            before.all(|other| other.name() != field.name())
        })
}

/// The indices of columns whose names are unique.
fn unambiguous(schema: &Schema) -> HashSet<usize> {
    let mut places = HashMap::new();
    for (place, field) in schema.fields().iter().enumerate() {
        let known = places.entry(field.name().as_str());
        known
            .and_modify(|place| *place = None)
            .or_insert(Some(place));
    }
    places.into_values().flatten().collect()
}

/// The indices of a semi join's columns for which the other side has a column of the same name
/// that is not the matching key, or has another type.
fn named_otherwise(join: &HashJoinExec) -> HashSet<usize> {
    let (own, other) = match join.join_type() {
        JoinType::LeftSemi => (join.left(), join.right()),
        JoinType::RightSemi => (join.right(), join.left()),
        _ => return HashSet::new(),
    };
    let is_left = *join.join_type() == JoinType::LeftSemi;
    let pairs = join.on().iter().map(|(left, right)| {
        if is_left {
            (left, right)
        } else {
            (right, left)
        }
    });
    let place = |key: &PhysicalExprRef| key.downcast_ref::<Column>().map(Column::index);
    let pairs: Vec<_> = pairs
        .map(|(key, equal)| (place(key), place(equal)))
        .collect();
    let (own, other) = (own.schema(), other.schema());
    let is_wrong = |at: usize| {
        let field = own.field(at);
        other.index_of(field.name()).is_ok_and(|found| {
            !pairs.contains(&(Some(at), Some(found)))
                || field.data_type() != other.field(found).data_type()
        })
    };
    let output = join.schema().fields().len();
    let shown = (0..output).map(|at| join.projection.as_ref().map_or(at, |all| all[at]));
    let wrong = shown.enumerate().filter(|(_, at)| is_wrong(*at));
    wrong.map(|(place, _)| place).collect()
}

/// Stands above a node while filters are pushed down, and only passes filters on some columns.
#[derive(Debug)]
struct Gate {
    below: Arc<dyn ExecutionPlan>,
    places: HashSet<usize>,
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
            (Some(below), true) => Ok(Arc::new(Self {
                below,
                places: self.places.clone(),
            })),
            _ => internal_err!("a gate has exactly one child"),
        }
    }

    fn gather_filters_for_pushdown(
        &self,
        _: FilterPushdownPhase,
        filters: Vec<Arc<dyn PhysicalExpr>>,
        _: &ConfigOptions,
    ) -> Result<FilterDescription> {
        let child = ChildFilterDescription::from_child_with_allowed_indices(
            &filters,
            self.places.clone(),
            &self.below,
        )?;
        Ok(FilterDescription::new().with_child(child))
    }

    fn execute(&self, _: usize, _: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        internal_err!("a gate was not opened")
    }
}

#[cfg(test)]
mod tests {
    use datafusion::arrow::datatypes::{DataType, Field};

    use super::*;

    #[test]
    fn a_name_of_two_columns_is_seen() {
        let schema = |names: &[&str]| {
            let field = |name: &&str| Field::new(*name, DataType::Int32, true);
            Schema::new(names.iter().map(field).collect::<Vec<_>>())
        };
        assert!(has_few_names_once(&schema(&[])));
        assert!(has_few_names_once(&schema(&["a", "b", "c"])));
        assert!(!has_few_names_once(&schema(&["a", "b", "a"])));
        assert!(!has_few_names_once(&schema(&["a", "b", "b"])));
        let many = (0..=FEW).map(|n| Field::new(n.to_string(), DataType::Int32, true));
        assert!(!has_few_names_once(&Schema::new(many.collect::<Vec<_>>())));
    }
}
