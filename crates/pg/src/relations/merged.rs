//! Joins with USING and NATURAL whose merged columns the syntax does not show, and the types of all
//! merged columns (`dialect/queries/using.rs`).
//!
//! | join | value, if the sides have different types |
//! |---|---|
//! | inner | the side that has the common type; else the left one, cast |
//! | LEFT, RIGHT | the left or the right side, cast to the common type |
//! | FULL | `coalesce` of both, in the common type |

use std::sync::Arc;

use datafusion::arrow::datatypes::Field;
use datafusion::common::DFSchema;
use datafusion::config::ConfigOptions;
use datafusion::error::Result;
use datafusion::logical_expr::planner::{
    ExprPlanner, PlannerResult, RawBinaryExpr, RelationPlannerContext,
};
use datafusion::logical_expr::{Expr, ExprSchemable, LogicalPlan};
use datafusion::sql::sqlparser::ast::{
    BinaryOperator, Expr as SqlExpr, Query, SelectItem, SetExpr, TableFactor,
};

use super::derived;
use crate::PgError;
use crate::casts::{Target, cast_expr};
use crate::dialect::{EITHER, FIRST, Known, SHARED, concerns, folded, merged, on_the_wire, table};
use crate::operators::{common, is_of_catalogue, mismatch};

/// Plans the operators that the dialect inserts.
#[derive(Debug)]
pub(crate) struct MergedColumns {
    pub(crate) config: Arc<ConfigOptions>,
}

impl ExprPlanner for MergedColumns {
    fn plan_binary_op(
        &self,
        expr: RawBinaryExpr,
        schema: &DFSchema,
    ) -> Result<PlannerResult<RawBinaryExpr>> {
        let is_either = match &expr.op {
            BinaryOperator::Custom(op) if op == EITHER => true,
            BinaryOperator::Custom(op) if op == FIRST => false,
            BinaryOperator::Custom(op) if op == SHARED => {
                check_shared(&expr.left, &expr.right, schema)?;
                let RawBinaryExpr { left, right, .. } = expr;
                let op = BinaryOperator::Eq;
                return Ok(PlannerResult::Original(RawBinaryExpr { op, left, right }));
            }
            _ => return Ok(PlannerResult::Original(expr)),
        };
        let value = self.value(expr.left, expr.right, is_either, schema);
        Ok(PlannerResult::Planned(value))
    }
}

/// # Errors
/// 42804, if no type is common to both columns of a name.
fn check_shared(left: &Expr, right: &Expr, schema: &DFSchema) -> Result<()> {
    let (Ok((_, a)), Ok((_, b))) = (left.to_field(schema), right.to_field(schema)) else {
        return Ok(());
    };
    if is_of_catalogue(&a) || is_of_catalogue(&b) {
        return Ok(());
    }
    let both = [(a, false), (b, false)];
    if common(&both).is_none()
        && let Some(error) = mismatch("JOIN/USING", &both)
    {
        return Err(error.into());
    }
    Ok(())
}

impl MergedColumns {
    fn value(&self, first: Expr, second: Expr, is_either: bool, schema: &DFSchema) -> Expr {
        let (Ok((_, a)), Ok((_, b))) = (first.to_field(schema), second.to_field(schema)) else {
            return first;
        };
        let both = [(Arc::clone(&a), false), (Arc::clone(&b), false)];
        let Some(target) = common(&both).and_then(|field| plain(&field)) else {
            return first;
        };
        if plain(&a).as_ref() == Some(&target) {
            first
        } else if is_either && plain(&b).as_ref() == Some(&target) {
            second
        } else {
            cast_expr(first, &target, &self.config)
        }
    }
}

/// The columns of a subquery as its text names them; `None` if it does not.
fn written(factor: &TableFactor) -> Option<Vec<String>> {
    let TableFactor::Derived {
        subquery, alias, ..
    } = factor
    else {
        return None;
    };
    let SetExpr::Select(select) = subquery.body.as_ref() else {
        return None;
    };
    let names = select.projection.iter().map(|item| match item {
        SelectItem::UnnamedExpr(SqlExpr::Identifier(name)) => Some(folded(name)),
        SelectItem::UnnamedExpr(SqlExpr::CompoundIdentifier(names)) => names.last().map(folded),
        SelectItem::ExprWithAlias { alias, .. } => Some(on_the_wire(&folded(alias)).to_owned()),
        _ => None,
    });
    let mut names: Vec<String> = names.collect::<Option<_>>()?;
    let given = alias.iter().flat_map(|alias| &alias.columns);
    for (name, given) in names.iter_mut().zip(given) {
        *name = folded(&given.name);
    }
    Some(names)
}

/// A field's type without its modifier.
fn plain(field: &Field) -> Option<Target> {
    Some(match Target::of_field(field)?.unmodified() {
        Target::NumericOf(..) => Target::Numeric(None),
        other => other,
    })
}

/// Plans a query over such joins. Its tables are planned first, for their columns.
pub(super) fn with_merged(
    mut query: Query,
    context: &mut dyn RelationPlannerContext,
) -> Result<LogicalPlan> {
    if let SetExpr::Select(select) = query.body.as_mut() {
        let mut known = Known::new();
        for item in &select.from {
            let joined = item.joins.iter().map(|join| &join.relation);
            for factor in std::iter::once(&item.relation).chain(joined) {
                let Some(name) = table(factor) else {
                    continue;
                };
                if let TableFactor::Derived { lateral: true, .. } = factor {
                    // It cannot be planned without the relations to its left.
                    known.extend(written(factor).map(|columns| (folded(&name), columns)));
                    continue;
                }
                let plan = context.plan(factor.clone())?;
                let columns = plan.schema().fields().iter();
                known.insert(folded(&name), columns.map(|it| it.name().clone()).collect());
            }
        }
        let mut of_factor = |factor: &TableFactor| {
            let plan = context.plan(factor.clone()).ok()?;
            let columns = plan.schema().fields().iter();
            Some(
                columns
                    .map(|it| on_the_wire(it.name()).to_owned())
                    .collect(),
            )
        };
        merged(
            select,
            query.order_by.as_mut(),
            &known,
            Some(&mut of_factor),
        );
        if concerns(select) {
            let message = "these joins with USING or NATURAL are not supported";
            return Err(PgError::unsupported(message).into());
        }
    }
    context.plan(derived(query))
}
