//! Which types have the rows of `unnest` that Arrow lacks?
//!
//! The elements of `uuid[]`, `jsonb[]` and `char(n)[]` name their type in the field of the array's
//! elements (`functions/marked.rs`). DataFusion's Unnest (55.2, `get_unnested_columns`) drops it,
//! so the rows would be texts: `json_agg` would quote them. The node above marks them.
//!
//! A relation is marked when it is planned, because the operators around it are resolved then.
//! [`MarkedOperands`] marks those of scalar subqueries that are operands, for the same reason, and
//! [`MarkedSets`] the sets in the select lists of all other queries. [`marked_sets`] does so for a
//! view or a new table, whose columns are taken from a plan that is not analyzed.
//!
//! A relation with sets also loses the keys that its rows had below them (`without_keys`): a
//! subquery in FROM here, a view or a query in WITH where its name is planned
//! (`planners/file_types.rs`).
//! Not here: arrays whose cast is written in the select list (`dialect/expressions/sets/`).

use std::collections::HashMap;
use std::sync::Arc;

use datafusion::arrow::datatypes::{DataType, FieldRef};
use datafusion::common::DFSchema;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNodeRecursion};
use datafusion::config::ConfigOptions;
use datafusion::error::Result;
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::planner::{
    ExprPlanner, PlannerResult, RawBinaryExpr, RawFieldAccessExpr,
};
use datafusion::logical_expr::{Distinct, Expr, LogicalPlan, Unnest};
use datafusion::optimizer::AnalyzerRule;

use crate::analysis::without_keys;
use crate::functions::{MARKED, mark_of, marked_like};
use crate::operators::padded::unpadded;
use crate::trees::{PlanTree, Tree};

/// See the file's header. It runs before the rules that need types.
#[derive(Debug, Default)]
pub(crate) struct MarkedSets;

impl AnalyzerRule for MarkedSets {
    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> Result<LogicalPlan> {
        marked_sets(plan)
    }

    fn name(&self) -> &'static str {
        "marked_sets"
    }
}

/// See the file's header. It leaves the operators to the planners behind it.
#[derive(Debug)]
pub(crate) struct MarkedOperands;

impl ExprPlanner for MarkedOperands {
    fn plan_binary_op(
        &self,
        mut expr: RawBinaryExpr,
        _: &DFSchema,
    ) -> Result<PlannerResult<RawBinaryExpr>> {
        expr.left = marked_operand(expr.left)?;
        expr.right = marked_operand(expr.right)?;
        Ok(PlannerResult::Original(expr))
    }

    fn plan_field_access(
        &self,
        mut expr: RawFieldAccessExpr,
        _: &DFSchema,
    ) -> Result<PlannerResult<RawFieldAccessExpr>> {
        expr.expr = marked_operand(expr.expr)?;
        Ok(PlannerResult::Original(expr))
    }
}

fn marked_operand(operand: Expr) -> Result<Expr> {
    Ok(match operand {
        Expr::ScalarSubquery(mut query) if has_set(&query.subquery) => {
            query.subquery = Arc::new(marked(Arc::unwrap_or_clone(query.subquery))?);
            Expr::ScalarSubquery(query)
        }
        other => other,
    })
}

/// Marks the sets in all select lists of a query, its subqueries included.
///
/// # Errors
/// DataFusion's error for an inconsistent plan.
pub fn marked_sets(query: LogicalPlan) -> Result<LogicalPlan> {
    let query = query.change_up_with_subqueries(above)?;
    if !query.transformed {
        return Ok(query.data);
    }
    let query = query.data;
    query
        .change_up_with_subqueries(|node| node.recompute_schema().map(Transformed::yes))
        .data()
}

/// Marks the sets in the select list of a relation.
pub(super) fn marked(relation: LogicalPlan) -> Result<LogicalPlan> {
    match has_set(&relation) {
        true => without_keys(in_select_list(relation).data()?),
        false => Ok(relation),
    }
}

/// The relation without the keys that its sets repeat, if it has any.
///
/// # Errors
/// DataFusion's error for an inconsistent plan.
pub(crate) fn without_repeated_keys(relation: LogicalPlan) -> Result<LogicalPlan> {
    match has_set(&relation) {
        true => without_keys(relation),
        false => Ok(relation),
    }
}

/// Whether a select list of sets passes its rows on to this node.
fn has_set(plan: &LogicalPlan) -> bool {
    match plan {
        LogicalPlan::Unnest(_) => true,
        plan if passes_on(plan) => plan.inputs().into_iter().any(has_set),
        _ => false,
    }
}

/// Whether the columns of a node have the types of the columns below it.
fn passes_on(plan: &LogicalPlan) -> bool {
    matches!(
        plan,
        LogicalPlan::Projection(_)
            | LogicalPlan::SubqueryAlias(_)
            | LogicalPlan::Filter(_)
            | LogicalPlan::Sort(_)
            | LogicalPlan::Limit(_)
            | LogicalPlan::Distinct(Distinct::All(_))
    )
}

fn in_select_list(plan: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
    if !passes_on(&plan) {
        return Ok(Transformed::no(plan));
    }
    let below = plan.change_children(in_select_list)?;
    if below.transformed {
        return below.map_data(LogicalPlan::recompute_schema);
    }
    above(below.data)
}

/// Marks the rows of a set in the expressions of the node above it.
fn above(node: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
    let marks = match node.inputs()[..] {
        [LogicalPlan::Unnest(sets)] => marks(sets),
        _ => HashMap::new(),
    };
    if marks.is_empty() {
        return Ok(Transformed::no(node));
    }
    let names = NamePreserver::new(&node);
    let mapped = node.change_expressions(|expr| {
        let name = names.save(&expr);
        let expr = expr.change_down(|part| Ok(with_mark(part, &marks)))?;
        Ok(expr.update_data(|expr| name.restore(expr)))
    })?;
    if !mapped.transformed {
        return Ok(mapped);
    }
    mapped.map_data(LogicalPlan::recompute_schema)
}

/// The fields of the elements that need marks, by the names of the columns that have their rows.
/// The rows of `char(n)[]` have no declared length.
fn marks(sets: &Unnest) -> HashMap<String, FieldRef> {
    let fields = sets.input.schema().fields();
    let lists = sets.list_type_columns.iter().filter_map(|(at, list)| {
        let element = element(fields.get(*at)?, list.depth)?;
        mark_of(&element)?;
        Some((list.output_column.name.clone(), unpadded(&element)))
    });
    lists.collect()
}

/// The field of the elements below `depth` dimensions.
fn element(array: &FieldRef, depth: usize) -> Option<FieldRef> {
    let mut found = Arc::clone(array);
    for _ in 0..depth {
        let DataType::List(inner) = found.data_type() else {
            return None;
        };
        let inner = Arc::clone(inner);
        found = inner;
    }
    Some(found)
}

fn with_mark(expr: Expr, marks: &HashMap<String, FieldRef>) -> Transformed<Expr> {
    match expr {
        Expr::ScalarFunction(call) if call.name() == MARKED => {
            let call = Expr::ScalarFunction(call);
            Transformed::new(call, false, TreeNodeRecursion::Jump)
        }
        Expr::Column(column) => match marks.get(&column.name) {
            Some(field) if column.relation.is_none() => {
                let marked = marked_like(Expr::Column(column), field);
                Transformed::new(marked, true, TreeNodeRecursion::Jump)
            }
            _ => Transformed::no(Expr::Column(column)),
        },
        other => Transformed::no(other),
    }
}
