//! Arrays and rows in PostgreSQL's order, wherever DataFusion would compare them.
//!
//! | from | to |
//! |---|---|
//! | `a < b`, `a BETWEEN b AND c` of arrays | `array_lt(a, b)` and similar functions |
//! | the same of rows | `record_lt(a, b)` and similar functions |
//! | `greatest(a, …)`, `least(a, …)` of arrays | `pg_array_greatest(a, …)`, `pg_array_least(a, …)` |
//!
//! A NULL element or field is less than all others in DataFusion, but greater in PostgreSQL. The
//! rule runs after those that turn subqueries into comparisons (`> ALL (SELECT …)`).

use datafusion::arrow::datatypes::DataType;
use datafusion::common::DFSchema;
use datafusion::common::tree_node::Transformed;
use datafusion::config::ConfigOptions;
use datafusion::error::Result;
use datafusion::logical_expr::expr_rewriter::FunctionRewrite;
use datafusion::logical_expr::{BinaryExpr, Expr, ExprSchemable, Operator};

use crate::PgError;
use crate::casts::Target;
use crate::functions::arrays::{comparison, extreme, row_comparison};
use crate::functions::json::jsonb_key;

/// See the file's header.
#[derive(Debug)]
pub(super) struct ArrayOrder;

impl ArrayOrder {
    /// Whether the rewrite below may change or refuse a part of an expression.
    pub(super) fn concerns(part: &Expr) -> bool {
        match part {
            Expr::BinaryExpr(given) => is_order(given.op),
            Expr::ScalarFunction(call) => ["greatest", "least"].contains(&call.name()),
            other => matches!(other, Expr::Between(_)),
        }
    }
}

impl FunctionRewrite for ArrayOrder {
    fn name(&self) -> &'static str {
        "postgres_array_order"
    }

    fn rewrite(
        &self,
        expr: Expr,
        schema: &DFSchema,
        _: &ConfigOptions,
    ) -> Result<Transformed<Expr>> {
        Ok(Transformed::yes(match expr {
            Expr::BinaryExpr(BinaryExpr { left, op, right })
                if is_order(op) && is_nested(&left, schema) =>
            {
                compared(*left, op, *right, schema)
            }
            Expr::Between(between) if is_nested(&between.expr, schema) => {
                let above = compared(*between.expr.clone(), Operator::GtEq, *between.low, schema);
                let below = compared(*between.expr, Operator::LtEq, *between.high, schema);
                let within = above.and(below);
                if between.negated { !within } else { within }
            }
            Expr::ScalarFunction(call)
                if ["greatest", "least"].contains(&call.name())
                    && call.args.iter().any(|arg| is_array(arg, schema)) =>
            {
                if call.args.iter().any(|arg| is_jsonb(arg, schema)) {
                    let message = format!("{} of arrays of jsonb is not supported", call.name());
                    return Err(PgError::unsupported(message).into());
                }
                extreme(call.name() == "greatest").call(call.args)
            }
            other => return Ok(Transformed::no(other)),
        }))
    }
}

fn is_order(op: Operator) -> bool {
    use Operator::{Gt, GtEq, Lt, LtEq};
    matches!(op, Lt | LtEq | Gt | GtEq)
}

fn is_array(expr: &Expr, schema: &DFSchema) -> bool {
    expr.get_type(schema).is_ok_and(|held| held.is_list())
}

fn is_row(expr: &Expr, schema: &DFSchema) -> bool {
    let held = expr.get_type(schema);
    held.is_ok_and(|held| matches!(held, DataType::Struct(_)))
}

fn is_nested(expr: &Expr, schema: &DFSchema) -> bool {
    is_array(expr, schema) || is_row(expr, schema)
}

fn is_jsonb(expr: &Expr, schema: &DFSchema) -> bool {
    let target = expr
        .to_field(schema)
        .ok()
        .and_then(|(_, field)| Target::of_field(&field));
    target.is_some_and(|target| target == Target::Array(Box::new(Target::Jsonb)))
}

fn compared(mut left: Expr, op: Operator, mut right: Expr, schema: &DFSchema) -> Expr {
    if is_jsonb(&left, schema) {
        (left, right) = (jsonb_key(left), jsonb_key(right));
    }
    let function = match is_row(&left, schema) {
        true => row_comparison(op),
        false => comparison(op),
    };
    match function {
        Some(function) => function.call(vec![left, right]),
        None => Expr::BinaryExpr(BinaryExpr::new(Box::new(left), op, Box::new(right))),
    }
}
