//! How the planner learns the types of parameters: `$1` is written as `CAST($1 AS type)`.
//!
//! DataFusion takes types of parameters only for PREPARE, and forgets them in array literals,
//! INSERT and EXPLAIN. A cast is understood wherever an expression may stand. In the plan it becomes
//! a parameter with a type, which a value of that type replaces. A time with a zone is in UTC,
//! whatever the session's zone, and SQL has no name for that: Arrow's is written.

use std::collections::BTreeMap;
use std::ops::ControlFlow;

use datafusion::arrow::datatypes::{DataType, FieldRef};
use datafusion::common::DFSchema;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::error::Result;
use datafusion::logical_expr::expr::Placeholder;
use datafusion::logical_expr::{Cast, Expr, ExprSchemable, LogicalPlan};
use datafusion::sql::sqlparser::ast::{
    CastKind, Expr as SqlExpr, Value, ValueWithSpan, VisitMut, VisitorMut,
};

use super::types::Kind;
use crate::dialect::ast::{call, text};

/// Arrow's type of each parameter of a plan, by its number.
pub type PlanKinds = BTreeMap<usize, DataType>;

/// Writes the kinds of the parameters into a statement. A parameter without a kind stays as it is.
pub fn write_kinds(statement: &mut impl VisitMut, kinds: &BTreeMap<usize, Kind>) {
    let _ = statement.visit(&mut Writer(kinds));
}

struct Writer<'a>(&'a BTreeMap<usize, Kind>);

impl VisitorMut for Writer<'_> {
    type Break = ();

    fn post_visit_expr(&mut self, expr: &mut SqlExpr) -> ControlFlow<()> {
        if let SqlExpr::Value(ValueWithSpan {
            value: Value::Placeholder(name),
            ..
        }) = expr
            && let Some(kind) = number(name).and_then(|number| self.0.get(&number))
        {
            *expr = match kind.arrow() {
                Some(arrow) => call(ARROW_CAST, vec![expr.clone(), text(arrow)]),
                None => SqlExpr::Cast {
                    kind: CastKind::Cast,
                    data_type: kind.0.clone(),
                    array: false,
                    format: None,
                    expr: Box::new(expr.clone()),
                },
            };
        }
        ControlFlow::Continue(())
    }
}

/// Makes the casts that [`write_kinds`] wrote types of the parameters. Returns the types, too.
///
/// # Errors
/// Those of walking a plan.
pub fn read_kinds(plan: LogicalPlan) -> Result<(LogicalPlan, PlanKinds)> {
    let mut kinds = BTreeMap::new();
    let plan = plan.transform_up_with_subqueries(|node| {
        node.map_expressions(|expr| {
            expr.transform_up(|expr| {
                if let Expr::ScalarFunction(call) = &expr
                    && call.name() == ARROW_CAST
                    && let Some(Expr::Placeholder(Placeholder { id, field: None })) =
                        call.args.first()
                    && let Some(number) = number(id)
                {
                    kinds.insert(number, expr.get_type(&DFSchema::empty())?);
                }
                let Some((id, field)) = typed(&expr) else {
                    return Ok(Transformed::no(expr));
                };
                if let Some(number) = number(&id) {
                    kinds.insert(number, field.data_type().clone());
                }
                let placeholder = Placeholder::new_with_field(id, Some(field));
                Ok(Transformed::yes(Expr::Placeholder(placeholder)))
            })
        })
    })?;
    Ok((plan.data, kinds))
}

/// DataFusion's cast to a type of Arrow's that no SQL names.
const ARROW_CAST: &str = "arrow_cast";

/// The parameter and its type, if this is the cast of a parameter that has no type.
fn typed(expr: &Expr) -> Option<(String, FieldRef)> {
    let Expr::Cast(Cast { expr, field }) = expr else {
        return None;
    };
    match expr.as_ref() {
        Expr::Placeholder(Placeholder { id, field: None }) => Some((id.clone(), field.clone())),
        _ => None,
    }
}

/// The number in `$1`.
pub(super) fn number(name: &str) -> Option<usize> {
    name.strip_prefix('$')?.parse().ok()
}
