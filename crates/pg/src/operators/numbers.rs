//! Operators of numbers.
//!
//! Two integers are computed in the wider type, an integer and a numeric in numeric, and any
//! number and a float in double precision (two reals in real). Comparisons remain DataFusion's
//! operators.

use datafusion::arrow::datatypes::{DataType, Field};
use datafusion::config::ConfigOptions;
use datafusion::error::Result;
use datafusion::logical_expr::{BinaryExpr, Cast, Expr, Operator};
use datafusion::scalar::ScalarValue;

use super::Kind;
use super::chains;
use super::meeting::{Meeting, compared, decimal_of, meeting, rank};
use crate::casts::{Target, cast_expr, decimal};
use crate::numbers::arithmetic::{self, Op, as_decimal, digits};

/// A product of a factor of at most this many digits …
const NARROW_FACTOR_MAX: i16 = 19;
/// … and a computed one of at most this many is computed in 128 bits, with a check for overflow.
const NARROW_DIGITS_MAX: i16 = 32;
/// Such a product has at least this many digits before the decimal point.
const NARROW_WHOLE_MIN: i16 = 20;

/// The result of planning an operator.
pub(super) enum Planned {
    /// A complete expression.
    Expr(Expr),
    /// The operands of an operator that is left to DataFusion.
    Operands(Expr, Expr),
}

/// Plans `left op right` of numbers.
pub(super) fn plan(
    kind: Kind,
    left: Expr,
    right: Expr,
    (left_field, right_field): (&Field, &Field),
    config: &ConfigOptions,
) -> Result<Planned> {
    let (a, b) = (left_field.data_type(), right_field.data_type());
    match kind {
        Kind::Concat => {
            let types = [a.clone(), b.clone()];
            Err(arithmetic::no_such_operator("||", &types))
        }
        Kind::Compare(op) => Ok(compare(op, left, right, (a, b))),
        Kind::Arithmetic(op) => arithmetic_of(op, left, right, (a, b), config).map(Planned::Expr),
    }
}

fn compare(op: Operator, left: Expr, right: Expr, (a, b): (&DataType, &DataType)) -> Planned {
    if meeting(&[a.clone(), b.clone()]) == Meeting::AsTheyAre && !a.is_floating() {
        return Planned::Operands(left, right);
    }
    Planned::Expr(compared(op, (left, a), (right, b)))
}

/// Casts a number that is combined with a float.
fn as_float(expr: Expr, data_type: &DataType, config: &ConfigOptions) -> Expr {
    if data_type.is_floating() {
        return expr;
    }
    cast_expr(expr, &Target::Float8, config)
}

fn arithmetic_of(
    op: Op,
    left: Expr,
    right: Expr,
    (a, b): (&DataType, &DataType),
    config: &ConfigOptions,
) -> Result<Expr> {
    let operator = match op {
        Op::Add => Some(Operator::Plus),
        Op::Subtract => Some(Operator::Minus),
        Op::Multiply => Some(Operator::Multiply),
        _ => None,
    };
    if a.is_floating() || b.is_floating() {
        if operator.is_none() && !matches!(op, Op::Divide | Op::Power) {
            return Err(arithmetic::no_operator(op, &[a.clone(), b.clone()]));
        }
        let (left, right) = (as_float(left, a, config), as_float(right, b, config));
        return Ok(arithmetic::call(op, vec![left, right]));
    }
    let integers =
        a.is_integer() && b.is_integer() && *a != DataType::UInt64 && *b != DataType::UInt64;
    match operator {
        Some(operator) if integers => {
            let both = wider(a, b).unwrap_or(DataType::Int64);
            let (left, right) = (as_integer(left, a, &both), as_integer(right, b, &both));
            Ok(chains::integers(left, operator, right))
        }
        Some(operator) => Ok(decimals(op, operator, (left, a), (right, b))),
        None if integers || matches!(op, Op::Divide | Op::Modulo | Op::Power) => {
            Ok(arithmetic::call(op, vec![left, right]))
        }
        None => Err(arithmetic::no_operator(op, &[a.clone(), b.clone()])),
    }
}

/// Widens an integer to the type `both`.
fn as_integer(expr: Expr, from: &DataType, both: &DataType) -> Expr {
    if from == both {
        return expr;
    }
    if let Expr::Literal(value, _) = &expr
        && let Ok(value) = value.cast_to(both)
    {
        return Expr::Literal(value, None);
    }
    Expr::Cast(Cast::new(Box::new(expr), both.clone()))
}

/// A number as a decimal; a literal has exactly its own digits.
fn as_decimals(expr: Expr, data_type: &DataType) -> (Expr, DataType) {
    if let Expr::Literal(value, _) = &expr {
        let whole = match value {
            ScalarValue::Int16(Some(value)) => Some(i128::from(*value)),
            ScalarValue::Int32(Some(value)) => Some(i128::from(*value)),
            ScalarValue::Int64(Some(value)) => Some(i128::from(*value)),
            _ => None,
        };
        if let Some(whole) = whole {
            let digits = u8::try_from(whole.unsigned_abs().to_string().len()).unwrap_or(38);
            let literal = ScalarValue::Decimal128(Some(whole), digits, 0);
            return (
                Expr::Literal(literal, None),
                DataType::Decimal128(digits, 0),
            );
        }
    }
    let plain = match data_type {
        DataType::Int8 | DataType::UInt8 => DataType::Int16,
        DataType::UInt16 => DataType::Int32,
        DataType::UInt32 => DataType::Int64,
        DataType::UInt64 => DataType::Decimal128(20, 0),
        DataType::Decimal32(p, s) | DataType::Decimal64(p, s) => DataType::Decimal128(*p, *s),
        other => other.clone(),
    };
    let held = as_decimal(&plain).unwrap_or(plain);
    (as_integer(expr, data_type, &held), held)
}

/// A sum, difference or product with at least one decimal operand.
fn decimals(op: Op, operator: Operator, left: (Expr, &DataType), right: (Expr, &DataType)) -> Expr {
    let ((left, a), (right, b)) = (as_decimals(left.0, left.1), as_decimals(right.0, right.1));
    let (Some((p1, s1)), Some((p2, s2))) = (digits(&a), digits(&b)) else {
        return arithmetic::call(op, vec![left, right]);
    };
    let (precision, scale) = match op {
        Op::Multiply => (p1 + p2, s1 + s2),
        _ => ((p1 - s1).max(p2 - s2) + 1 + s1.max(s2), s1.max(s2)),
    };
    let plain =
        |left, right| Expr::BinaryExpr(BinaryExpr::new(Box::new(left), operator, Box::new(right)));
    let narrow = matches!(
        (&a, &b),
        (DataType::Decimal128(..), DataType::Decimal128(..))
    );
    // A product of a product, as in `price * (1 - discount) * (1 + tax)`.
    let factor = |digits: i16, expr: &Expr| {
        digits <= NARROW_FACTOR_MAX
            || (digits <= NARROW_DIGITS_MAX && matches!(expr, Expr::BinaryExpr(_)))
    };
    let checked_narrow = op == Op::Multiply
        && p1.min(p2) <= NARROW_FACTOR_MAX
        && factor(p1, &left)
        && factor(p2, &right)
        && 38 - scale >= NARROW_WHOLE_MIN;
    if narrow && (precision <= 38 || checked_narrow) {
        return plain(left, right);
    }
    if precision <= 76 && scale <= 76 {
        let widened = |expr: Expr, held: &DataType| match held {
            DataType::Decimal128(precision, scale) => {
                as_integer(expr, held, &DataType::Decimal256(*precision, *scale))
            }
            _ => expr,
        };
        return plain(widened(left, &a), widened(right, &b));
    }
    arithmetic::call(op, vec![left, right])
}

/// The common type of two numbers in one column.
pub(crate) fn wider(a: &DataType, b: &DataType) -> Option<DataType> {
    if let (Some(a), Some(b)) = (rank(a), rank(b)) {
        let width = |data_type: &DataType| data_type.primitive_width();
        return Some(if width(&a) >= width(&b) { a } else { b });
    }
    if *a == DataType::Float64 || *b == DataType::Float64 {
        return Some(DataType::Float64);
    }
    // The common type of a numeric or an integer and a real is real.
    if a.is_floating() || b.is_floating() {
        return Some(DataType::Float32);
    }
    let ((p1, s1), (p2, s2)) = (digits(&decimal_of(a)?)?, digits(&decimal_of(b)?)?);
    let scale = s1.max(s2);
    let whole = (p1 - s1).max(p2 - s2).min(76 - scale);
    Some(decimal(
        u8::try_from(whole + scale).ok()?,
        i8::try_from(scale).ok()?,
    ))
}
