//! Which operator does `a op b` mean in PostgreSQL?
//!
//! PostgreSQL resolves an operator by its operands' types; a quoted constant without a type takes
//! the other operand's. [`Planner`] does so when SQL becomes a plan, before DataFusion's coercion,
//! which would compare numbers with text as text.
//!
//! By kind: `numbers.rs`; what is not listed is left to the next planner (arrays, dates, json).

pub(crate) mod numbers;
mod unknown;

use std::sync::Arc;

use datafusion::arrow::datatypes::DataType;
use datafusion::common::DFSchema;
use datafusion::config::ConfigOptions;
use datafusion::error::Result;
use datafusion::logical_expr::planner::{ExprPlanner, PlannerResult, RawBinaryExpr};
use datafusion::logical_expr::{BinaryExpr, Expr, ExprSchemable, Operator};
use datafusion::sql::sqlparser::ast::BinaryOperator;

pub(crate) use unknown::{common, is_unknown, typed};

use crate::casts::Target;
use crate::numbers::arithmetic::no_such_operator;

/// PostgreSQL's operators in DataFusion's SQL planner.
#[derive(Debug)]
pub(crate) struct Planner {
    pub(crate) config: Arc<ConfigOptions>,
}

impl ExprPlanner for Planner {
    fn plan_binary_op(
        &self,
        expr: RawBinaryExpr,
        schema: &DFSchema,
    ) -> Result<PlannerResult<RawBinaryExpr>> {
        let Some(kind) = kind(&expr.op) else {
            return Ok(PlannerResult::Original(expr));
        };
        let RawBinaryExpr { op, left, right } = expr;
        let (left, right) = (constant(left), constant(right));
        let fields = (left.to_field(schema), right.to_field(schema));
        let (Ok((_, left_field)), Ok((_, right_field))) = fields else {
            return Ok(PlannerResult::Original(RawBinaryExpr { op, left, right }));
        };
        // The catalogue's types (oid, name) are left to its own rules.
        let catalogue = |field: &datafusion::arrow::datatypes::Field| {
            field.metadata().keys().any(|key| key.starts_with("pg_"))
        };
        if catalogue(&left_field) || catalogue(&right_field) {
            return Ok(PlannerResult::Original(RawBinaryExpr { op, left, right }));
        }
        let (left, right) = match (is_unknown(&left), is_unknown(&right)) {
            (true, false) => (typed(left, &right_field, &self.config), right),
            (false, true) => (left, typed(right, &left_field, &self.config)),
            _ => (left, right),
        };
        let (Ok((_, left_field)), Ok((_, right_field))) =
            (left.to_field(schema), right.to_field(schema))
        else {
            return Ok(PlannerResult::Original(RawBinaryExpr { op, left, right }));
        };
        let (a, b) = (
            Target::of_field(&left_field),
            Target::of_field(&right_field),
        );
        let null = left_field.data_type().is_null() || right_field.data_type().is_null();
        let original = |left, right| {
            Ok(PlannerResult::Original(RawBinaryExpr {
                op: op.clone(),
                left,
                right,
            }))
        };
        match (kind, a, b) {
            (_, Some(a), Some(b)) if a.is_number() && b.is_number() => {
                match numbers::plan(kind, left, right, (&left_field, &right_field), &self.config)? {
                    Ok(expr) => Ok(PlannerResult::Planned(expr)),
                    Err((left, right)) => original(left, right),
                }
            }
            (Kind::Compare(op), Some(a), Some(b)) if !comparable(&a, &b) && !null => {
                let types = [
                    left_field.data_type().clone(),
                    right_field.data_type().clone(),
                ];
                Err(no_such_operator(&op.to_string(), &types))
            }
            (Kind::Concat, Some(a), Some(b)) => {
                let scalar = |target: &Target| !matches!(target, Target::Array(_));
                if !scalar(&a) || !scalar(&b) || (a.is_text() && b.is_text()) {
                    return original(left, right);
                }
                let text = |expr: Expr, target: &Target| match target.is_text() {
                    true => expr,
                    false => crate::casts::cast_expr(expr, &Target::Text, &self.config),
                };
                if a.is_text() || b.is_text() {
                    let concat = BinaryExpr::new(
                        Box::new(text(left, &a)),
                        Operator::StringConcat,
                        Box::new(text(right, &b)),
                    );
                    return Ok(PlannerResult::Planned(Expr::BinaryExpr(concat)));
                }
                if a.is_number() || b.is_number() || a == Target::Bool || b == Target::Bool {
                    let types = [
                        left_field.data_type().clone(),
                        right_field.data_type().clone(),
                    ];
                    return Err(no_such_operator("||", &types));
                }
                original(left, right)
            }
            (Kind::Arithmetic(arithmetic), Some(a), Some(b))
                if no_arithmetic(&a) || no_arithmetic(&b) =>
            {
                if null {
                    return original(left, right);
                }
                let types = [
                    left_field.data_type().clone(),
                    right_field.data_type().clone(),
                ];
                Err(crate::numbers::arithmetic::no_operator(arithmetic, &types))
            }
            (_, None, Some(b)) | (_, Some(b), None) if null && b.is_number() => {
                // NULL has the other operand's type.
                let (left, right) = match left_field.data_type() {
                    DataType::Null => (typed(left, &right_field, &self.config), right),
                    _ => (left, typed(right, &left_field, &self.config)),
                };
                let field = if left_field.data_type().is_null() {
                    &right_field
                } else {
                    &left_field
                };
                match numbers::plan(kind, left, right, (field, field), &self.config)? {
                    Ok(expr) => Ok(PlannerResult::Planned(expr)),
                    Err((left, right)) => original(left, right),
                }
            }
            _ => original(left, right),
        }
    }
}

/// What an operator does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Compare(Operator),
    Arithmetic(crate::numbers::arithmetic::Op),
    Concat,
}

fn kind(op: &BinaryOperator) -> Option<Kind> {
    use crate::numbers::arithmetic::Op;
    Some(match op {
        BinaryOperator::Eq => Kind::Compare(Operator::Eq),
        BinaryOperator::NotEq => Kind::Compare(Operator::NotEq),
        BinaryOperator::Lt => Kind::Compare(Operator::Lt),
        BinaryOperator::LtEq => Kind::Compare(Operator::LtEq),
        BinaryOperator::Gt => Kind::Compare(Operator::Gt),
        BinaryOperator::GtEq => Kind::Compare(Operator::GtEq),
        BinaryOperator::Plus => Kind::Arithmetic(Op::Add),
        BinaryOperator::Minus => Kind::Arithmetic(Op::Subtract),
        BinaryOperator::Multiply => Kind::Arithmetic(Op::Multiply),
        BinaryOperator::Divide => Kind::Arithmetic(Op::Divide),
        BinaryOperator::Modulo => Kind::Arithmetic(Op::Modulo),
        BinaryOperator::PGExp => Kind::Arithmetic(Op::Power),
        BinaryOperator::BitwiseAnd => Kind::Arithmetic(Op::And),
        BinaryOperator::BitwiseOr => Kind::Arithmetic(Op::Or),
        BinaryOperator::PGBitwiseXor => Kind::Arithmetic(Op::Xor),
        BinaryOperator::PGBitwiseShiftLeft => Kind::Arithmetic(Op::ShiftLeft),
        BinaryOperator::PGBitwiseShiftRight => Kind::Arithmetic(Op::ShiftRight),
        BinaryOperator::StringConcat => Kind::Concat,
        _ => return None,
    })
}

/// A number as the dialect writes it (`CAST(1 AS INT4)`) as the literal that it is.
fn constant(expr: Expr) -> Expr {
    use datafusion::scalar::ScalarValue;
    if let Expr::Cast(cast) = &expr
        && cast.field.data_type() == &DataType::Int32
        && let Expr::Literal(ScalarValue::Int64(Some(value)), _) = cast.expr.as_ref()
        && let Ok(value) = i32::try_from(*value)
    {
        return Expr::Literal(ScalarValue::Int32(Some(value)), None);
    }
    expr
}

/// Whether PostgreSQL compares values of these types.
fn comparable(a: &Target, b: &Target) -> bool {
    let group = |target: &Target| match target {
        Target::Bool => 1,
        number if number.is_number() => 2,
        text if text.is_text() => 3,
        Target::Date | Target::Timestamp(_) | Target::Timestamptz(_) => 4,
        Target::Time(_) | Target::Interval(..) => 5,
        _ => 0,
    };
    let (a, b) = (group(a), group(b));
    a == b || a == 0 || b == 0
}

/// Whether no arithmetic is defined for the type.
fn no_arithmetic(target: &Target) -> bool {
    matches!(target, Target::Bool | Target::Bytea | Target::Uuid) || target.is_text()
}
