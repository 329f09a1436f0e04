//! Passes the types of parameters to the planner: `$1` is rewritten to `pg_cast($1, 'T')`.
//!
//! DataFusion accepts types of parameters only for PREPARE, and drops them in array literals,
//! INSERT and EXPLAIN. A cast is allowed wherever an expression is. In the plan it becomes a typed
//! parameter, which is replaced by a value of that type.
//!
//! LIMIT and OFFSET of a numeric or float parameter are `$1::bigint`, which rounds the value.

use std::collections::BTreeMap;
use std::ops::ControlFlow;

use datafusion::arrow::datatypes::{DataType, FieldRef};
use datafusion::common::DFSchema;
use datafusion::common::metadata::FieldMetadata;
use datafusion::common::tree_node::{Transformed, TransformedResult};
use datafusion::error::Result;
use datafusion::logical_expr::expr::Placeholder;
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::{Expr, ExprSchemable, LogicalPlan};
use datafusion::scalar::ScalarValue;
use datafusion::sql::sqlparser::ast::{
    Expr as SqlExpr, LimitClause, Query, Value, ValueWithSpan, VisitMut, VisitorMut,
};

use super::frames;
use super::types::Kind;
use crate::casts::{CAST, arrow_cast};
use crate::functions::first_value;
use crate::trees::{PlanTree, Tree};
use crate::visits::Walk;

/// The Arrow type of each parameter of a plan, by its number. The field's metadata names types
/// that Arrow lacks.
pub type PlanKinds = BTreeMap<usize, FieldRef>;

/// Writes the kinds of parameters into a statement. Parameters without a kind are left alone.
pub fn write_kinds(statement: &mut impl VisitMut, kinds: &BTreeMap<usize, Kind>) {
    let _ = statement.walk(&mut Writer(kinds));
}

struct Writer<'a>(&'a BTreeMap<usize, Kind>);

impl VisitorMut for Writer<'_> {
    type Break = ();

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<()> {
        if let Some(LimitClause::LimitOffset { limit, offset, .. }) = &mut query.limit_clause {
            let offset = offset.iter_mut().map(|offset| &mut offset.value);
            for count in limit.iter_mut().chain(offset) {
                if self.kind(count).is_some_and(Kind::is_fractional) {
                    *count = Kind::bigint().cast(count.clone());
                }
            }
        }
        ControlFlow::Continue(())
    }

    fn post_visit_expr(&mut self, expr: &mut SqlExpr) -> ControlFlow<()> {
        if let SqlExpr::Value(_) = expr
            && let Some(kind) = self.kind(expr)
        {
            *expr = kind.cast(expr.clone());
        }
        ControlFlow::Continue(())
    }
}

impl Writer<'_> {
    /// The kind of a parameter, which may be in brackets.
    fn kind(&self, expr: &SqlExpr) -> Option<&Kind> {
        match expr {
            SqlExpr::Nested(inner) => self.kind(inner),
            SqlExpr::Value(ValueWithSpan {
                value: Value::Placeholder(name),
                ..
            }) => self.0.get(&number(name)?),
            _ => None,
        }
    }
}

/// Turns the casts written by [`write_kinds`] into types of the parameters, and returns the types.
///
/// # Errors
/// Errors of walking a plan.
pub fn read_kinds(plan: LogicalPlan) -> Result<(LogicalPlan, PlanKinds)> {
    let mut kinds = BTreeMap::new();
    let plan = replaced(plan, |expr| {
        let Some((id, field)) = typed(expr)? else {
            return Ok(None);
        };
        if let Some(number) = number(&id) {
            kinds.insert(number, FieldRef::clone(&field));
        }
        let placeholder = Placeholder::new_with_field(id, Some(field));
        Ok(Some(Expr::Placeholder(placeholder)))
    })?;
    Ok((plan, kinds))
}

/// Replaces the parameters with values of their types. DataFusion's own function drops marks of
/// types, and infers the types of VALUES again.
///
/// # Errors
/// Errors of walking a plan.
pub fn fill(plan: LogicalPlan, kinds: &PlanKinds, values: Vec<ScalarValue>) -> Result<LogicalPlan> {
    let literals = (1..).zip(values).map(|(number, value)| {
        let Some(field) = kinds.get(&number) else {
            return Ok(Expr::Literal(value, None));
        };
        let value = match field.data_type() {
            held if *held == value.data_type() => value,
            held => cast(&value, held)?,
        };
        // Even without an entry: a literal without metadata counts as untyped.
        let metadata = FieldMetadata::from(field.as_ref());
        Ok(Expr::Literal(value, Some(metadata)))
    });
    let literals: Vec<Expr> = literals.collect::<Result<_>>()?;
    replaced(plan, |expr| match expr {
        Expr::Placeholder(placeholder) => {
            let at = number(&placeholder.id).and_then(|number| number.checked_sub(1));
            Ok(at.and_then(|at| literals.get(at)).cloned())
        }
        Expr::WindowFunction(call) => frames::filled(call, &literals),
        _ => Ok(None),
    })
}

/// Casts a value. The elements of an array get the field of `held`, with the mark of a type that
/// Arrow lacks, which `ScalarValue::cast_to` drops.
fn cast(value: &ScalarValue, held: &DataType) -> Result<ScalarValue> {
    match held {
        DataType::List(_) => first_value(&arrow_cast(&value.to_array()?, held)?),
        _ => value.cast_to(held),
    }
}

/// Replaces expressions in a plan, keeping their names.
fn replaced(
    plan: LogicalPlan,
    mut by: impl FnMut(&Expr) -> Result<Option<Expr>>,
) -> Result<LogicalPlan> {
    plan.change_up_with_subqueries(|node| {
        let names = NamePreserver::new(&node);
        let node = node.change_expressions(|expr| {
            let name = names.save(&expr);
            let changed = expr.change_up(|expr| {
                Ok(match by(&expr)? {
                    Some(other) => Transformed::yes(other),
                    None => Transformed::no(expr),
                })
            })?;
            Ok(if changed.transformed {
                changed.update_data(|expr| name.restore(expr))
            } else {
                changed
            })
        })?;
        node.map_data(LogicalPlan::recompute_schema)
    })
    .data()
}

/// The parameter and its type, if this is the cast of an untyped parameter.
fn typed(expr: &Expr) -> Result<Option<(String, FieldRef)>> {
    let Expr::ScalarFunction(call) = expr else {
        return Ok(None);
    };
    match call.args.first() {
        Some(Expr::Placeholder(Placeholder { id, field: None })) if call.name() == CAST => {
            let (_, field) = expr.to_field(&DFSchema::empty())?;
            // The value may be NULL, whatever type the parameter was planned with.
            let field = field.as_ref().clone().with_nullable(true);
            Ok(Some((id.clone(), field.into())))
        }
        _ => Ok(None),
    }
}

/// The number in `$1`.
pub(super) fn number(name: &str) -> Option<usize> {
    name.strip_prefix('$')?.parse().ok()
}
