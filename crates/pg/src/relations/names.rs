//! Column names of a relation that are not known from the syntax: `(SELECT * FROM a, b) q`,
//! `(a JOIN unnest(b) ON …) q`, `(SELECT *, 1 AS z …) q (x)`, `t AS q (x)`.
//!
//! The first columns have the names given by the alias, the others their own. Columns that share a
//! name are marked, so that no name refers to them, as in `dialect/names/outer_names.rs`;
//! DataFusion would choose the first one. A column of an outer query keeps its name; DataFusion
//! would call it `outer_ref(t.x)`.

use std::collections::HashMap;

use datafusion::common::Column;
use datafusion::error::Result;
use datafusion::logical_expr::expr::OUTER_REFERENCE_COLUMN_PREFIX;
use datafusion::logical_expr::planner::{
    PlannedRelation, RelationPlannerContext, RelationPlanning,
};
use datafusion::logical_expr::{Expr, LogicalPlan, LogicalPlanBuilder};
use datafusion::sql::sqlparser::ast::TableFactor;

use super::marked_sets::marked;
use super::planned;
use crate::PgError;
use crate::dialect::{merges, on_the_wire};
use crate::names::{MARK, is_of_set};

/// Plans a relation whose columns DataFusion would name differently.
pub(super) fn named(
    mut relation: TableFactor,
    context: &mut dyn RelationPlannerContext,
) -> Result<RelationPlanning> {
    let is_merged = has_merged(&relation);
    let alias = match &mut relation {
        TableFactor::Derived { alias, .. } => alias.take(),
        TableFactor::NestedJoin { alias, .. } if !is_merged => alias.take(),
        TableFactor::Table {
            args: None, alias, ..
        } if alias
            .as_ref()
            .is_some_and(|alias| !alias.columns.is_empty()) =>
        {
            alias.take()
        }
        _ => None,
    };
    let Some(mut alias) = alias else {
        return Ok(RelationPlanning::Original(Box::new(relation)));
    };
    let plan = with_outer_names(marked(context.plan(relation)?)?)?;
    let given = std::mem::take(&mut alias.columns).into_iter();
    let given = given
        .map(|column| context.normalize_ident(column.name))
        .collect();
    let plan = with_names(plan, given, &alias.name.value)?;
    Ok(planned(PlannedRelation::new(plan, Some(alias))))
}

/// Whether a join in brackets, or one in it, has USING or NATURAL. DataFusion shows both columns
/// of these, so that the name of a merged column would have to be that of two.
fn has_merged(factor: &TableFactor) -> bool {
    let TableFactor::NestedJoin {
        table_with_joins, ..
    } = factor
    else {
        return false;
    };
    let mut joined = table_with_joins.joins.iter().map(|join| &join.relation);
    merges(table_with_joins) || has_merged(&table_with_joins.relation) || joined.any(has_merged)
}

/// Gives columns of outer queries their own names.
pub(super) fn with_outer_names(plan: LogicalPlan) -> Result<LogicalPlan> {
    let is_outer = |name: &String| name.starts_with(OUTER_REFERENCE_COLUMN_PREFIX);
    if !plan.schema().field_names().iter().any(is_outer) {
        return Ok(plan);
    }
    let outer = plan.all_out_ref_exprs();
    let outer = outer.iter().filter_map(|expr| match expr {
        Expr::OuterReferenceColumn(_, column) => {
            Some((expr.schema_name().to_string(), column.name.as_str()))
        }
        _ => None,
    });
    let outer: HashMap<String, &str> = outer.collect();
    let columns = plan.schema().iter().map(|(relation, field)| {
        let value = Expr::Column(Column::from((relation, field)));
        match outer.get(field.name()) {
            Some(name) => value.alias(*name),
            None => value,
        }
    });
    let columns: Vec<Expr> = columns.collect();
    LogicalPlanBuilder::from(plan).project(columns)?.build()
}

/// Names the columns of sets in a relation that has no alias, or gets it later.
pub(super) fn with_set_names(plan: LogicalPlan) -> Result<LogicalPlan> {
    let mut fields = plan.schema().fields().iter();
    match fields.any(|field| is_of_set(field.name())) {
        true => with_names(plan, vec![], ""),
        false => Ok(plan),
    }
}

fn with_names(plan: LogicalPlan, mut names: Vec<String>, relation: &str) -> Result<LogicalPlan> {
    let own = plan.schema().fields();
    if names.len() > own.len() {
        let message = format!(
            "table \"{relation}\" has {} columns available but {} columns specified",
            own.len(),
            names.len()
        );
        return Err(PgError::new("42P10", message).into());
    }
    let is_given = !names.is_empty();
    names.extend(
        own[names.len()..]
            .iter()
            .map(|field| on_the_wire(field.name()).to_owned()),
    );
    let mut uses: HashMap<&str, usize> = HashMap::new();
    for name in &names {
        *uses.entry(name).or_default() += 1;
    }
    let is_named = !own.iter().any(|field| is_of_set(field.name()));
    if !is_given && is_named && uses.values().all(|uses| *uses == 1) {
        return Ok(plan);
    }
    let columns = plan.schema().iter().zip(&names).enumerate();
    let columns = columns.map(|(at, (column, name))| {
        let value = Expr::Column(Column::from(column));
        match uses.get(name.as_str()) {
            Some(1) => value.alias(name),
            _ => value.alias(format!("{name}{MARK}{at}")),
        }
    });
    let columns: Vec<Expr> = columns.collect();
    LogicalPlanBuilder::from(plan).project(columns)?.build()
}
