//! `x IS DISTINCT FROM 'a'`: the untyped constant takes the type of `x`.
//!
//! DataFusion plans IS DISTINCT FROM without asking a planner, and refuses a text beside a boolean,
//! an array or an interval as soon as it needs the type. So the dialect
//! (`expressions/literals.rs`) writes it as an operator of its own if one side is a constant.
//! Not here: constants beside types of the catalog, which `rules/semantics.rs` types.

use std::sync::Arc;

use datafusion::common::DFSchema;
use datafusion::config::ConfigOptions;
use datafusion::error::Result;
use datafusion::logical_expr::planner::{ExprPlanner, PlannerResult, RawBinaryExpr};
use datafusion::logical_expr::{BinaryExpr, Expr, ExprSchemable, Operator};
use datafusion::sql::sqlparser::ast::BinaryOperator;

use super::{is_of_catalogue, is_unknown, typed};
use crate::dialect::{DISTINCT, NOT_DISTINCT};

/// Plans the dialect's operators.
#[derive(Debug)]
pub(crate) struct Distinct {
    pub(crate) config: Arc<ConfigOptions>,
}

impl ExprPlanner for Distinct {
    fn plan_binary_op(
        &self,
        expr: RawBinaryExpr,
        schema: &DFSchema,
    ) -> Result<PlannerResult<RawBinaryExpr>> {
        let op = match &expr.op {
            BinaryOperator::Custom(op) if op == DISTINCT => Operator::IsDistinctFrom,
            BinaryOperator::Custom(op) if op == NOT_DISTINCT => Operator::IsNotDistinctFrom,
            _ => return Ok(PlannerResult::Original(expr)),
        };
        let RawBinaryExpr { left, right, .. } = expr;
        let (left, right) = match (is_unknown(&left), is_unknown(&right)) {
            (true, false) => (self.like(left, &right, schema), right),
            (false, true) => {
                let right = self.like(right, &left, schema);
                (left, right)
            }
            _ => (left, right),
        };
        let compared = BinaryExpr::new(Box::new(left), op, Box::new(right));
        Ok(PlannerResult::Planned(Expr::BinaryExpr(compared)))
    }
}

impl Distinct {
    fn like(&self, constant: Expr, other: &Expr, schema: &DFSchema) -> Expr {
        match other.to_field(schema) {
            Ok((_, field)) if !is_of_catalogue(&field) => typed(constant, &field, &self.config),
            _ => constant,
        }
    }
}
