//! Which columns of the outer query does a subquery use?
//!
//! `OuterReferenceColumn` names a column of the nearest outer query that has it. A reference is
//! *free* in a subquery if no query inside the subquery has the column: then the column belongs to
//! the relation for whose rows the subquery is evaluated.
//!
//! Not here: the replacement of free references (`domain.rs`, `pulled.rs`).

use std::collections::HashMap;
use std::sync::Arc;

use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNodeRecursion};
use datafusion::common::{Column, DFSchema, TableReference};
use datafusion::error::Result;
use datafusion::logical_expr::expr::{Exists, InSubquery, SetComparison};
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::utils::merge_schema;
use datafusion::logical_expr::{Expr, LogicalPlan, Subquery};

use crate::trees::{PlanTree, Tree};

/// The prefix, before a number, of relations that hold the distinct values of outer columns.
pub(super) const DOMAIN: &str = "__outer_";

/// The columns that replace free references.
pub(super) type Renamed = HashMap<Column, Column>;

/// The schemas of the queries inside a subquery, innermost last.
#[derive(Clone, Default)]
struct Scopes(Vec<Scope>);

#[derive(Clone)]
struct Scope {
    schema: Arc<DFSchema>,
    /// False for the left side of a join, which only LATERAL items on its right side see.
    seen: bool,
}

impl Scopes {
    fn and(&self, schema: DFSchema, seen: bool) -> Self {
        let mut scopes = self.clone();
        let schema = Arc::new(schema);
        scopes.0.push(Scope { schema, seen });
        scopes
    }

    fn in_lateral(&self) -> Self {
        let mut scopes = self.clone();
        scopes.0.iter_mut().for_each(|scope| scope.seen = true);
        scopes
    }

    fn have(&self, column: &Column) -> bool {
        let mut seen = self.0.iter().filter(|scope| scope.seen);
        seen.any(|scope| scope.schema.has_column(column))
    }
}

/// The free references of a plan without duplicates, in the order of their first use.
pub(super) fn free(plan: &LogicalPlan) -> Vec<Column> {
    let mut found = vec![];
    // A renaming that changes nothing, so that only `walk` implements the scoping rules.
    let _ = walk(plan.clone(), &Scopes::default(), &mut |column| {
        if !found.contains(column) {
            found.push(column.clone());
        }
        None
    });
    found
}

/// Whether a plan has free references.
pub(crate) fn correlated(plan: &LogicalPlan) -> bool {
    !free(plan).is_empty()
}

/// The free references of an expression of a node with this input.
pub(super) fn free_in(expr: &Expr, input: &DFSchema) -> Vec<Column> {
    let mut found = vec![];
    let mut note = |column: &Column| {
        if !found.contains(column) {
            found.push(column.clone());
        }
        None
    };
    let _ = walk_expr(expr.clone(), input, &Scopes::default(), &mut note);
    found
}

/// The free references of the LATERAL items on the right side of a join that are columns of its
/// left side, and references to the columns of a domain (`domain.rs`), whose names are unique.
pub(super) fn lateral(left: &DFSchema, right: &LogicalPlan) -> Vec<Column> {
    let domains = free(right).into_iter().filter(|column| {
        let table = column.relation.as_ref().map(TableReference::table);
        table.is_some_and(|table| table.starts_with(DOMAIN)) && left.has_column(column)
    });
    let mut found: Vec<Column> = domains.collect();
    let mut note = |column: &Column| {
        if left.has_column(column) && !found.contains(column) {
            found.push(column.clone());
        }
        None
    };
    let _ = lateral_items(right, &Scopes::default(), &mut note);
    found
}

fn lateral_items(
    plan: &LogicalPlan,
    scopes: &Scopes,
    note: &mut impl FnMut(&Column) -> Option<Column>,
) -> Result<()> {
    match plan {
        LogicalPlan::Subquery(item) => {
            walk(item.subquery.as_ref().clone(), &scopes.in_lateral(), note)?;
        }
        LogicalPlan::Join(join) => {
            lateral_items(&join.left, scopes, note)?;
            let scopes = scopes.and(join.left.schema().as_ref().clone(), false);
            lateral_items(&join.right, &scopes, note)?;
        }
        LogicalPlan::SubqueryAlias(alias) => lateral_items(&alias.input, scopes, note)?,
        // Renames columns for an alias.
        LogicalPlan::Projection(names) => lateral_items(&names.input, scopes, note)?,
        // Other inputs are joins, LATERAL items, or queries that do not see the left side.
        _ => {}
    }
    Ok(())
}

/// Renames the free references of a subquery's plan; they remain references.
pub(super) fn rename(plan: LogicalPlan, renamed: &Renamed) -> Result<LogicalPlan> {
    walk(plan, &Scopes::default(), &mut |column| {
        renamed.get(column).cloned()
    })
}

/// The expression of a node whose free references have become columns of the node's input.
pub(super) fn resolve(expr: Expr, input: &DFSchema, renamed: &Renamed) -> Result<Expr> {
    let mut rename = |column: &Column| renamed.get(column).cloned();
    let expr = walk_expr(expr, input, &Scopes::default(), &mut rename)?;
    let resolved = |expr| match expr {
        Expr::OuterReferenceColumn(_, column) if renamed.values().any(|to| *to == column) => {
            Transformed::yes(Expr::Column(column))
        }
        other => Transformed::no(other),
    };
    expr.change_up(|expr| Ok(resolved(expr))).data()
}

fn walk(
    plan: LogicalPlan,
    scopes: &Scopes,
    to: &mut impl FnMut(&Column) -> Option<Column>,
) -> Result<LogicalPlan> {
    if let LogicalPlan::Subquery(item) = plan {
        let plan = walk(
            Arc::unwrap_or_clone(item.subquery),
            &scopes.in_lateral(),
            to,
        )?;
        return Ok(LogicalPlan::Subquery(subquery(plan, &item.spans)));
    }
    if let LogicalPlan::Join(mut join) = plan {
        let seen_right = scopes.and(join.left.schema().as_ref().clone(), false);
        join.left = Arc::new(walk(Arc::unwrap_or_clone(join.left), scopes, to)?);
        join.right = Arc::new(walk(Arc::unwrap_or_clone(join.right), &seen_right, to)?);
        return walk_expressions(LogicalPlan::Join(join), scopes, to);
    }
    let mut failed = Ok(());
    let plan = plan
        .change_children(|child| match walk(child.clone(), scopes, to) {
            Ok(child) => Ok(Transformed::yes(child)),
            Err(error) => {
                failed = Err(error);
                Ok(Transformed::no(child))
            }
        })
        .data()?;
    failed?;
    walk_expressions(plan, scopes, to)
}

fn walk_expressions(
    plan: LogicalPlan,
    scopes: &Scopes,
    to: &mut impl FnMut(&Column) -> Option<Column>,
) -> Result<LogicalPlan> {
    let input = merge_schema(&plan.inputs());
    let names = NamePreserver::new(&plan);
    plan.change_expressions(|expr| {
        let name = names.save(&expr);
        let expr = walk_expr(expr, &input, scopes, to)?;
        Ok(Transformed::yes(name.restore(expr)))
    })
    .data()
}

fn walk_expr(
    expr: Expr,
    input: &DFSchema,
    scopes: &Scopes,
    to: &mut impl FnMut(&Column) -> Option<Column>,
) -> Result<Expr> {
    if !mentions(&expr) {
        return Ok(expr);
    }
    let inner = scopes.and(input.clone(), true);
    expr.change_down(|expr| {
        let mut plan =
            |subquery: Subquery| -> Result<Subquery> { walk_subquery(subquery, &inner, to) };
        Ok(match expr {
            Expr::ScalarSubquery(subquery) => {
                Transformed::yes(Expr::ScalarSubquery(plan(subquery)?))
            }
            Expr::Exists(Exists { subquery, negated }) => {
                let subquery = plan(subquery)?;
                Transformed::yes(Expr::Exists(Exists { subquery, negated }))
            }
            Expr::InSubquery(mut within) => {
                within.subquery = plan(within.subquery)?;
                Transformed::yes(Expr::InSubquery(within))
            }
            Expr::SetComparison(mut compared) => {
                compared.subquery = plan(compared.subquery)?;
                Transformed::yes(Expr::SetComparison(compared))
            }
            Expr::OuterReferenceColumn(field, column) if !scopes.have(&column) => match to(&column)
            {
                Some(column) => Transformed::yes(Expr::OuterReferenceColumn(field, column)),
                None => Transformed::no(Expr::OuterReferenceColumn(field, column)),
            },
            other => Transformed::no(other),
        })
    })
    .data()
}

fn walk_subquery(
    given: Subquery,
    scopes: &Scopes,
    to: &mut impl FnMut(&Column) -> Option<Column>,
) -> Result<Subquery> {
    let plan = walk(Arc::unwrap_or_clone(given.subquery), scopes, to)?;
    Ok(subquery(plan, &given.spans))
}

/// A subquery over this plan.
pub(super) fn subquery(plan: LogicalPlan, spans: &datafusion::common::Spans) -> Subquery {
    Subquery {
        outer_ref_columns: plan.all_out_ref_exprs(),
        subquery: Arc::new(plan),
        spans: spans.clone(),
    }
}

/// Whether an expression contains outer references or subqueries.
fn mentions(expr: &Expr) -> bool {
    holds(expr, |expr| {
        matches!(expr, Expr::OuterReferenceColumn(..)) || subquery_of(expr).is_some()
    })
}

/// Whether a part of an expression meets `such`.
pub(super) fn holds(expr: &Expr, such: impl Fn(&Expr) -> bool) -> bool {
    let mut found = false;
    let _ = expr.each(|part| {
        found |= such(part);
        Ok(if found {
            TreeNodeRecursion::Stop
        } else {
            TreeNodeRecursion::Continue
        })
    });
    found
}

/// The subquery of an expression that consists of one.
pub(super) fn subquery_of(expr: &Expr) -> Option<&Subquery> {
    match expr {
        Expr::ScalarSubquery(subquery)
        | Expr::Exists(Exists { subquery, .. })
        | Expr::InSubquery(InSubquery { subquery, .. })
        | Expr::SetComparison(SetComparison { subquery, .. }) => Some(subquery),
        _ => None,
    }
}
