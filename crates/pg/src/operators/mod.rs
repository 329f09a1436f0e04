//! Which operator does `a op b` refer to in PostgreSQL?
//!
//! PostgreSQL resolves an operator by its operands' types; an untyped quoted constant takes the
//! other operand's type. [`Planner`] does the same when SQL is planned, before DataFusion's
//! coercion, which would compare numbers and texts as texts.
//!
//! Operators of numbers are in `numbers.rs`; arrays, dates and json are left to the next planner.
//! Untyped arguments of aggregates get their types here, too (`arguments.rs`).

mod arguments;
pub(crate) mod chains;
mod common_type;
mod distinct;
mod meeting;
pub(crate) mod numbers;
pub(crate) mod padded;
mod unknown;

use std::sync::Arc;

use datafusion::arrow::datatypes::{DataType, Field, FieldRef};
use datafusion::common::DFSchema;
use datafusion::config::ConfigOptions;
use datafusion::error::Result;
use datafusion::logical_expr::planner::{
    ExprPlanner, PlannerResult, RawAggregateExpr, RawBinaryExpr, RawWindowExpr,
};
use datafusion::logical_expr::{Expr, ExprSchemable, Operator};
use datafusion::scalar::ScalarValue;
use datafusion::sql::sqlparser::ast::BinaryOperator;

pub(crate) use common_type::ComparedIn;
pub(crate) use distinct::Distinct;
pub(crate) use meeting::{Meeting, compared, meeting, met, order};
pub(crate) use unknown::{as_common, common, is_unknown, mismatch, no_equality, numeric_of, typed};

use crate::PgError;
use crate::casts::{Target, cast_expr};
use crate::functions::scalar::type_name;
use crate::functions::{arrays, rows_compared};
use crate::numbers::arithmetic::{Op, no_operator, no_such_operator};
use numbers::Planned;

/// A planner of PostgreSQL's operators for DataFusion's SQL planner.
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
        Ok(match self.plan(kind, left, right, schema)? {
            Planned::Expr(expr) => PlannerResult::Planned(expr),
            Planned::Operands(left, right) => {
                PlannerResult::Original(RawBinaryExpr { op, left, right })
            }
        })
    }

    fn plan_array_literal(
        &self,
        elements: Vec<Expr>,
        schema: &DFSchema,
    ) -> Result<PlannerResult<Vec<Expr>>> {
        let mut fields = Vec::with_capacity(elements.len());
        for element in &elements {
            fields.push((element.to_field(schema)?.1, is_unknown(element)));
        }
        let Some(field) = common(&fields) else {
            return match mismatch("ARRAY", &fields) {
                Some(error) => Err(error.into()),
                None => Ok(PlannerResult::Original(elements)),
            };
        };
        let elements = elements.into_iter().zip(&fields);
        let united =
            elements.map(|(element, (held, _))| as_common(element, held, &field, &self.config));
        let united = united.collect();
        Ok(match field.data_type().is_list() {
            true => PlannerResult::Planned(arrays::make_array(united, &field)),
            false => PlannerResult::Original(united),
        })
    }

    fn plan_aggregate(
        &self,
        mut expr: RawAggregateExpr,
    ) -> Result<PlannerResult<RawAggregateExpr>> {
        arguments::type_arguments(expr.func.name(), &mut expr.args, &self.config);
        Ok(PlannerResult::Original(expr))
    }

    fn plan_window(&self, mut expr: RawWindowExpr) -> Result<PlannerResult<RawWindowExpr>> {
        arguments::type_arguments(expr.func_def.name(), &mut expr.args, &self.config);
        Ok(PlannerResult::Original(expr))
    }
}

impl Planner {
    fn plan(&self, kind: Kind, left: Expr, right: Expr, schema: &DFSchema) -> Result<Planned> {
        let Some((a, b)) = fields(&left, &right, schema) else {
            return Ok(Planned::Operands(left, right));
        };
        let (left, right) = match (is_unknown(&left), is_unknown(&right)) {
            (true, false) if takes(kind, &b) => (typed(left, &b, &self.config), right),
            (false, true) if takes(kind, &a) => (left, typed(right, &a, &self.config)),
            _ => (left, right),
        };
        // NULL takes the other operand's type.
        let is_number = |field: &Field| Target::of_field(field).is_some_and(|t| t.is_number());
        let (left, right) = match (a.data_type(), b.data_type()) {
            (DataType::Null, other) if !other.is_null() && is_number(&b) => {
                (typed(left, &b, &self.config), right)
            }
            (other, DataType::Null) if !other.is_null() && is_number(&a) => {
                (left, typed(right, &a, &self.config))
            }
            _ => (left, right),
        };
        let Some((a, b)) = fields(&left, &right, schema) else {
            return Ok(Planned::Operands(left, right));
        };
        if let Kind::Compare(op) = kind
            && arrays::are_unlike(&a, &b)
            && let Some(compared) = rows_compared(op, left.clone(), right.clone())
        {
            return Ok(Planned::Expr(compared));
        }
        let (Some(of_a), Some(of_b)) = (Target::of_field(&a), Target::of_field(&b)) else {
            return Ok(Planned::Operands(left, right));
        };
        if of_a.is_number() && of_b.is_number() {
            return numbers::plan(kind, left, right, (&a, &b), &self.config);
        }
        let types = [a.data_type().clone(), b.data_type().clone()];
        match kind {
            Kind::Compare(op) if !comparable(&of_a, &of_b) => {
                Err(no_such_operator(&sign_of(op), &types))
            }
            Kind::Arithmetic(op) if no_arithmetic(&of_a) || no_arithmetic(&of_b) => {
                Err(no_operator(op, &types))
            }
            Kind::Concat => self.concat((left, &of_a), (right, &of_b), &types),
            _ => Ok(Planned::Operands(left, right)),
        }
    }

    /// `a || b`: text and a value that is not an array give text.
    fn concat(
        &self,
        (left, a): (Expr, &Target),
        (right, b): (Expr, &Target),
        types: &[DataType],
    ) -> Result<Planned> {
        let array = |target: &Target| matches!(target, Target::Array(_));
        if array(a) || array(b) {
            return Ok(Planned::Operands(left, right));
        }
        if a.is_text() && b.is_text() {
            return Ok(Planned::Expr(chains::texts(left, right)));
        }
        if a.is_text() || b.is_text() {
            let text = |expr: Expr, target: &Target| {
                if target.is_text() {
                    expr
                } else {
                    cast_expr(expr, &Target::Text, &self.config)
                }
            };
            return Ok(Planned::Expr(chains::texts(text(left, a), text(right, b))));
        }
        if a.is_number() || b.is_number() || *a == Target::Bool || *b == Target::Bool {
            return Err(no_such_operator("||", types));
        }
        Ok(Planned::Operands(left, right))
    }
}

/// The fields of both operands; `None` if one is unknown, or of a type of the catalog (oid, name),
/// which has its own rules.
fn fields(left: &Expr, right: &Expr, schema: &DFSchema) -> Option<(FieldRef, FieldRef)> {
    let (a, b) = (
        left.to_field(schema).ok()?.1,
        right.to_field(schema).ok()?.1,
    );
    (!is_of_catalogue(&a) && !is_of_catalogue(&b)).then_some((a, b))
}

/// Whether an untyped constant takes the other operand's type. Beside `||` it is text, unless the
/// other is an array.
fn takes(kind: Kind, other: &Field) -> bool {
    match (kind, Target::of_field(other)) {
        (Kind::Concat, Some(target)) => {
            matches!(
                target,
                Target::Array(_) | Target::Bytea | Target::Json | Target::Jsonb
            )
        }
        // A constant added to a date or time is an interval.
        (Kind::Arithmetic(Op::Add), Some(target)) => !matches!(
            target,
            Target::Date | Target::Time(_) | Target::Timestamp(_) | Target::Timestamptz(_)
        ),
        _ => true,
    }
}

/// The kind of an operator.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Compare(Operator),
    Arithmetic(Op),
    Concat,
}

fn kind(op: &BinaryOperator) -> Option<Kind> {
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

/// Turns a number as the dialect writes it (`CAST(1 AS INT4)`) back into a literal.
fn constant(expr: Expr) -> Expr {
    if let Expr::Cast(cast) = &expr
        && cast.field.data_type() == &DataType::Int32
        && let Expr::Literal(ScalarValue::Int64(Some(value)), _) = cast.expr.as_ref()
        && let Ok(value) = i32::try_from(*value)
    {
        return Expr::Literal(ScalarValue::Int32(Some(value)), None);
    }
    expr
}

/// Refuses a comparison for whose types PostgreSQL has no operator; DataFusion would compare
/// numbers and texts as texts. Untyped constants and types of the catalog are not checked.
pub(crate) fn check_comparable(
    sign: &str,
    left: &Expr,
    right: &Expr,
    schema: &DFSchema,
) -> Result<()> {
    if [left, right]
        .into_iter()
        .any(|value| is_unknown(value) || is_null(value))
    {
        return Ok(());
    }
    match fields(left, right, schema) {
        Some((left, right)) => check_fields(sign, &left, &right),
        None => Ok(()),
    }
}

/// Whether a value is an untyped NULL. In the plan of a view DataFusion has cast it to the Arrow
/// type of the other operand, which does not name PostgreSQL's. (Other casts are `pg_cast`.)
fn is_null(value: &Expr) -> bool {
    match value {
        Expr::Literal(value, _) => *value == ScalarValue::Null,
        Expr::Cast(cast) => is_null(&cast.expr),
        _ => false,
    }
}

/// Like [`check_comparable`], for values in columns.
///
/// Plans are checked when they are analysed: until then, a field may lack the name of a type that
/// Arrow lacks (`relations/marked_sets.rs`).
pub(crate) fn check_fields(sign: &str, left: &Field, right: &Field) -> Result<()> {
    if is_of_catalogue(left) || is_of_catalogue(right) {
        return Ok(());
    }
    match (Target::of_field(left), Target::of_field(right)) {
        (Some(a), Some(b)) if !comparable(&a, &b) || is_alone(&a, &b) => {
            let (left, right) = (type_name(left), type_name(right));
            let message = format!("operator does not exist: {left} {sign} {right}");
            Err(PgError::new("42883", message).into())
        }
        _ => Ok(()),
    }
}

/// The sign of a comparison in PostgreSQL's errors.
pub(crate) fn sign_of(op: Operator) -> String {
    match op {
        Operator::NotEq => "<>".to_owned(),
        Operator::IsDistinctFrom | Operator::IsNotDistinctFrom => "=".to_owned(),
        other => other.to_string(),
    }
}

/// Whether one of two types is compared with itself only, and the other is another one. (Arrow
/// lacks most of these types and holds them as texts.)
fn is_alone(a: &Target, b: &Target) -> bool {
    if let (Target::Array(a), Target::Array(b)) = (a, b) {
        return are_elements_apart(a, b);
    }
    let is_own = |target: &Target| {
        use Target::{Bytea, Json, Jsonb, Uuid};
        matches!(target, Bytea | Json | Jsonb | Uuid)
    };
    (is_own(a) || is_own(b)) && a != b
}

/// Whether PostgreSQL has no operators for arrays of these elements, whose types must be the same.
///
/// Integers of other widths, and texts of other names, are compared here: the catalog's columns do
/// not always have PostgreSQL's width, and not every expression keeps the name.
fn are_elements_apart(a: &Target, b: &Target) -> bool {
    let kind = |element: &Target| match element {
        Target::Int2 | Target::Int4 | Target::Int8 => Target::Int8,
        Target::Numeric(_) | Target::NumericOf(..) => Target::Numeric(None),
        text if text.is_text() => Target::Text,
        other => other.unmodified(),
    };
    kind(a) != kind(b)
}

/// Whether a type is one of the catalog's (oid, name), which have their own rules.
pub(crate) fn is_of_catalogue(field: &Field) -> bool {
    field.metadata().keys().any(|key| key.starts_with("pg_"))
}

/// Whether PostgreSQL can compare values of these types.
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

/// Whether the type has no arithmetic operators.
fn no_arithmetic(target: &Target) -> bool {
    matches!(target, Target::Bool | Target::Bytea | Target::Uuid) || target.is_text()
}
