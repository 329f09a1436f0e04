//! Gives an untyped parameter beside an operator its type when PostgreSQL's operator is selected.
//!
//! This runs before other planners of operators, which would take the parameter for NULL and plan
//! the operator into functions from which PostgreSQL's operator cannot be recovered.

use datafusion::common::DFSchema;
use datafusion::error::Result;
use datafusion::logical_expr::Expr;
use datafusion::logical_expr::expr::Placeholder;
use datafusion::logical_expr::planner::{ExprPlanner, PlannerResult, RawBinaryExpr};
use datafusion::sql::sqlparser::ast::BinaryOperator;
use postgres_types::Type;

use super::infer::{shown, type_in};
use super::types::open_target;
use crate::PgError;
use crate::casts::udf;
use crate::resolve::{self, Oid, UNKNOWN, Undecided};

/// Plans operators with untyped parameters. Must be the session's first planner.
#[derive(Debug)]
pub(crate) struct OpenParameters;

impl ExprPlanner for OpenParameters {
    fn plan_binary_op(
        &self,
        expr: RawBinaryExpr,
        schema: &DFSchema,
    ) -> Result<PlannerResult<RawBinaryExpr>> {
        let is_logic = matches!(expr.op, BinaryOperator::And | BinaryOperator::Or);
        if is_logic || !(is_open(&expr.left) || is_open(&expr.right)) {
            return Ok(PlannerResult::Original(expr));
        }
        let RawBinaryExpr { op, left, right } = expr;
        let given = [type_in(&left, schema), type_in(&right, schema)];
        let name = match op {
            BinaryOperator::NotEq => "<>".to_owned(),
            ref other => other.to_string(),
        };
        let (left, right) = match resolve::binary(&name, given[0], given[1]) {
            Ok(chosen) => (
                typed(left, chosen.arguments[0]),
                typed(right, chosen.arguments[1]),
            ),
            Err(Undecided::Several) => {
                let [left, right] = given.map(shown);
                let message = format!("operator is not unique: {left} {name} {right}");
                return Err(PgError::new("42725", message).into());
            }
            Err(Undecided::None | Undecided::Polymorphic) => (left, right),
        };
        Ok(PlannerResult::Original(RawBinaryExpr { op, left, right }))
    }
}

fn is_open(expr: &Expr) -> bool {
    match expr {
        Expr::Placeholder(Placeholder { field, .. }) => field.is_none(),
        Expr::Alias(alias) => is_open(&alias.expr),
        _ => false,
    }
}

/// Gives an untyped parameter this type.
fn typed(expr: Expr, oid: Oid) -> Expr {
    match Type::from_oid(oid) {
        Some(pg_type) if is_open(&expr) && oid != UNKNOWN => {
            let target = open_target(&pg_type).to_string();
            let config = datafusion::config::ConfigOptions::default();
            udf(&config).call(vec![expr, datafusion::logical_expr::lit(target)])
        }
        _ => expr,
    }
}
