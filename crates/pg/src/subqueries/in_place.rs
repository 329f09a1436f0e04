//! LATERAL items without tables of their own: `t, jsonb_array_elements(t.j)`.
//!
//! Such an item only computes with the columns to its left and unnests arrays, so it is computed
//! by projections above them. No join is needed, conditions on the left side are pushed below it,
//! and rows that they remove raise no errors. The elements of a set stay in their order.

use std::sync::Arc;

use datafusion::common::{Column, NullHandling, RecursionUnnestOption, UnnestOptions};
use datafusion::error::Result;
use datafusion::logical_expr::{Expr, LogicalPlan, Unnest};

use super::plans::{Names, column_exprs, filter, has_outer, outer_to_columns, project, substitute};
use super::references::subquery_of;
use crate::functions::MARKED;
use crate::trees::Tree;

/// A plan with the columns of the left side, and the item's columns as expressions over it.
pub(super) type Placed = (LogicalPlan, Vec<Expr>);

/// Computes `right` above `left`; `None` if it is no such item.
pub(super) fn placed(
    right: &LogicalPlan,
    left: &LogicalPlan,
    names: &mut Names,
) -> Result<Option<Placed>> {
    match right {
        LogicalPlan::EmptyRelation(given) if given.produce_one_row => {
            Ok(Some((left.clone(), vec![])))
        }
        LogicalPlan::SubqueryAlias(given) => placed(&given.input, left, names),
        LogicalPlan::Subquery(given) => placed(&given.subquery, left, names),
        LogicalPlan::Projection(given) => {
            let Some((plan, values)) = placed(&given.input, left, names)? else {
                return Ok(None);
            };
            let mut exprs = column_exprs(left.schema());
            let mut outputs = vec![];
            for expr in &given.expr {
                let expr = substitute(expr.clone(), given.input.schema(), &values)?;
                let Some(expr) = over(expr, left)? else {
                    return Ok(None);
                };
                let name = names.next("__lateral_");
                exprs.push(expr.unalias().alias(&name));
                outputs.push(Expr::Column(Column::from_name(name)));
            }
            Ok(Some((project(exprs, plan)?, outputs)))
        }
        LogicalPlan::Filter(given) => {
            let Some((plan, values)) = placed(&given.input, left, names)? else {
                return Ok(None);
            };
            let condition = substitute(given.predicate.clone(), given.input.schema(), &values)?;
            let Some(condition) = over(condition, left)? else {
                return Ok(None);
            };
            Ok(Some((filter(vec![condition], plan)?, values)))
        }
        LogicalPlan::Unnest(given) => unnested(given, left, names),
        _ => Ok(None),
    }
}

/// [`placed`] for a LEFT JOIN without conditions: a row to the left whose set is empty stays, with
/// NULLs. `None` also if the item is more than a set.
pub(super) fn placed_or_null(
    right: &LogicalPlan,
    left: &LogicalPlan,
    names: &mut Names,
) -> Result<Option<Placed>> {
    match never_empty(right) {
        Some(right) => placed(&right, left, names),
        None => Ok(None),
    }
}

/// The item, whose set has a row of NULLs where it is empty. All columns must be the set's own, or
/// they might not be NULL there.
fn never_empty(item: &LogicalPlan) -> Option<LogicalPlan> {
    let mut item = item.clone();
    match &mut item {
        LogicalPlan::SubqueryAlias(given) => given.input = Arc::new(never_empty(&given.input)?),
        LogicalPlan::Subquery(given) => given.subquery = Arc::new(never_empty(&given.subquery)?),
        LogicalPlan::Projection(given) if given.expr.iter().all(is_column) => {
            given.input = Arc::new(never_empty(&given.input)?);
        }
        LogicalPlan::Unnest(given) if has_only_sets(given) && is_one_row(&given.input) => {
            given.options.null_handling = NullHandling::PreserveAndExpandEmpty;
        }
        _ => return None,
    }
    Some(item)
}

/// Whether an expression is a column, perhaps with another name or the name of its type.
fn is_column(expr: &Expr) -> bool {
    match expr {
        Expr::Column(_) => true,
        Expr::Alias(alias) => is_column(&alias.expr),
        Expr::ScalarFunction(call) if call.name() == MARKED => {
            call.args.first().is_some_and(is_column)
        }
        _ => false,
    }
}

/// Whether a set has no columns beside it, as in `SELECT unnest(a), 1`.
fn has_only_sets(unnest: &Unnest) -> bool {
    let is_set = |index: &usize| unnest.list_type_columns.iter().any(|(at, _)| at == index);
    unnest.dependency_indices.iter().all(is_set)
}

/// Whether a plan has one row, whatever is to the left: no condition and no set.
fn is_one_row(plan: &LogicalPlan) -> bool {
    match plan {
        LogicalPlan::EmptyRelation(given) => given.produce_one_row,
        LogicalPlan::SubqueryAlias(given) => is_one_row(&given.input),
        LogicalPlan::Subquery(given) => is_one_row(&given.subquery),
        LogicalPlan::Projection(given) => is_one_row(&given.input),
        _ => false,
    }
}

/// An expression over columns to the left; `None` if it uses others.
fn over(expr: Expr, left: &LogicalPlan) -> Result<Option<Expr>> {
    let is_foreign = expr.has(|part| {
        Ok(match part {
            Expr::OuterReferenceColumn(_, column) => !left.schema().has_column(column),
            other => subquery_of(other).is_some() || matches!(other, Expr::ScalarSubquery(_)),
        })
    })?;
    if is_foreign || expr.is_volatile() {
        return Ok(None);
    }
    Ok(Some(if has_outer(&expr) {
        outer_to_columns(expr)?
    } else {
        expr
    }))
}

fn unnested(given: &Unnest, left: &LogicalPlan, names: &mut Names) -> Result<Option<Placed>> {
    let is_flat = given
        .list_type_columns
        .iter()
        .all(|(_, list)| list.depth == 1);
    if !is_flat || !given.struct_type_columns.is_empty() {
        return Ok(None);
    }
    let Some((plan, values)) = placed(&given.input, left, names)? else {
        return Ok(None);
    };
    let mut recursions = vec![];
    for (index, _) in &given.list_type_columns {
        let Some(Expr::Column(column)) = values.get(*index) else {
            return Ok(None);
        };
        recursions.push(RecursionUnnestOption {
            input_column: column.clone(),
            output_column: Column::from_name(names.next("__lateral_")),
            depth: 1,
        });
    }
    let lists: Vec<usize> = given.list_type_columns.iter().map(|(at, _)| *at).collect();
    let mut rows = recursions.iter();
    let outputs = given.dependency_indices.iter().map(|index| {
        if lists.contains(index) {
            let row = rows.next()?;
            return Some(Expr::Column(row.output_column.clone()));
        }
        values.get(*index).cloned()
    });
    let Some(outputs) = outputs.collect::<Option<Vec<_>>>() else {
        return Ok(None);
    };
    let mut columns: Vec<Column> = recursions
        .iter()
        .map(|row| row.input_column.clone())
        .collect();
    columns.dedup();
    let options = UnnestOptions {
        null_handling: given.options.null_handling,
        recursions,
    };
    let unnest = Unnest::try_new(Arc::new(plan), columns, options)?;
    Ok(Some((LogicalPlan::Unnest(unnest), outputs)))
}
