//! How does integer arithmetic detect overflow?
//!
//! `+`, `-` and `*` of integers are calls of [`CheckedInteger`], also in physical plans.
//! (DataFusion's flag for checked operators would have to be set wherever an expression can occur,
//! whereas a call is always checked.) Where the operands' types prove that the result fits,
//! `simplify` restores the plain operator.
//!
//! INT-I1: both arguments and the result have the same type: `Int16`, `Int32` or `Int64`.

use std::fmt::Write;
use std::sync::Arc;

use datafusion::arrow::array::{Array, ArrayRef, ArrowPrimitiveType, AsArray, PrimitiveArray};
use datafusion::arrow::buffer::NullBuffer;
use datafusion::arrow::datatypes::{DataType, Int16Type, Int32Type, Int64Type};
use datafusion::common::{exec_err, internal_err, plan_err};
use datafusion::error::Result;
use datafusion::logical_expr::simplify::{ExprSimplifyResult, SimplifyContext};
use datafusion::logical_expr::{
    BinaryExpr, Cast, ColumnarValue, Expr, Operator, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl,
    Signature, Volatility,
};
use datafusion::scalar::ScalarValue;

use crate::error::PgError;

/// `a + b`, `a - b` or `a * b` of integers; overflow is an error (22003).
#[derive(Debug, PartialEq, Eq, Hash)]
pub struct CheckedInteger {
    op: Operator,
    signature: Signature,
}

impl CheckedInteger {
    /// The operation, which must be plus, minus or multiply.
    #[must_use]
    pub fn new(op: Operator) -> Self {
        let signature = Signature::user_defined(Volatility::Immutable);
        Self { op, signature }
    }

    /// Plus, minus or multiply.
    #[must_use]
    pub fn op(&self) -> Operator {
        self.op
    }
}

/// `left op right`, both of the same integer type.
pub(crate) fn checked(left: Expr, op: Operator, right: Expr) -> Expr {
    ScalarUDF::new_from_impl(CheckedInteger::new(op)).call(vec![left, right])
}

/// The operator that a function implements.
pub(crate) fn symbol(name: &str) -> Option<&'static str> {
    Some(match name {
        "pg_int_add" => "+",
        "pg_int_subtract" => "-",
        "pg_int_multiply" => "*",
        _ => return None,
    })
}

impl ScalarUDFImpl for CheckedInteger {
    fn name(&self) -> &str {
        match self.op {
            Operator::Plus => "pg_int_add",
            Operator::Minus => "pg_int_subtract",
            _ => "pg_int_multiply",
        }
    }

    fn display_name(&self, args: &[Expr]) -> Result<String> {
        Ok(match args {
            [left, right] => format!("{left} {} {right}", self.op),
            _ => self.name().to_owned(),
        })
    }

    /// Writes a chain from its first term on. With nested names, the name of a sum of a thousand
    /// terms would be quadratic in its length, and its type cubic.
    fn schema_name(&self, args: &[Expr]) -> Result<String> {
        let [left, right] = args else {
            return Ok(self.name().to_owned());
        };
        let mut terms = vec![(self.op, right)];
        let mut first = left;
        while let Expr::ScalarFunction(call) = first
            && let Some(inner) = call.func.inner().downcast_ref::<Self>()
            && let [left, right] = call.args.as_slice()
        {
            terms.push((inner.op, right));
            first = left;
        }
        let mut name = "(".repeat(terms.len());
        name.push_str(&first.schema_name().to_string());
        for (op, right) in terms.iter().rev() {
            let _infallible = write!(name, " {op} {})", right.schema_name());
        }
        Ok(name)
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, given: &[DataType]) -> Result<Vec<DataType>> {
        // Other types are refused by `return_type`.
        Ok(wider(given).map_or_else(|_| given.to_vec(), |wider| vec![wider; given.len()]))
    }

    fn return_type(&self, given: &[DataType]) -> Result<DataType> {
        wider(given)
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let [left, right] = args.args.as_slice() else {
            return exec_err!("{} takes two integers", self.name());
        };
        apply(self.op, left, right)
    }

    fn simplify(&self, args: Vec<Expr>, info: &SimplifyContext) -> Result<ExprSimplifyResult> {
        let [left, right] = args.as_slice() else {
            return Ok(ExprSimplifyResult::Original(args));
        };
        if matches!((left, right), (Expr::Literal(..), Expr::Literal(..))) {
            return Ok(ExprSimplifyResult::Original(args));
        }
        let result = info.get_data_type(left)?;
        let fits = match (range(left, info)?, range(right, info)?, bounds(&result)) {
            (Some(left), Some(right), Some((low, high))) => corners(self.op, left, right)
                .iter()
                .all(|value| (low..=high).contains(value)),
            _ => false,
        };
        if !fits {
            return Ok(ExprSimplifyResult::Original(args));
        }
        let (left, right) = (Box::new(left.clone()), Box::new(right.clone()));
        let plain = BinaryExpr::new(left, self.op, right);
        Ok(ExprSimplifyResult::Simplified(Expr::BinaryExpr(plain)))
    }
}

/// Computes plus, minus or multiply of values of one type.
pub(crate) fn apply(
    op: Operator,
    left: &ColumnarValue,
    right: &ColumnarValue,
) -> Result<ColumnarValue> {
    match left.data_type() {
        DataType::Int16 => compute::<Int16Type>(op, left, right),
        DataType::Int32 => compute::<Int32Type>(op, left, right),
        DataType::Int64 => compute::<Int64Type>(op, left, right),
        other => internal_err!("{op} is not defined for {other}"),
    }
}

/// The widest of the integer types.
pub(crate) fn wider(given: &[DataType]) -> Result<DataType> {
    let mut widest = DataType::Int16;
    for data_type in given {
        widest = match (data_type, &widest) {
            (DataType::Null | DataType::Int8 | DataType::UInt8 | DataType::Int16, _) => widest,
            (DataType::Int64 | DataType::UInt32, _) | (_, DataType::Int64) => DataType::Int64,
            (DataType::Int32 | DataType::UInt16, _) => DataType::Int32,
            (other, _) => return plan_err!("{other} is not an integer"),
        };
    }
    Ok(widest)
}

/// The minimum and maximum of a type.
fn bounds(data_type: &DataType) -> Option<(i128, i128)> {
    let bits = match data_type {
        DataType::Int8 => 7,
        DataType::Int16 => 15,
        DataType::Int32 => 31,
        DataType::Int64 => 63,
        DataType::UInt8 => return Some((0, (1 << 8) - 1)),
        DataType::UInt16 => return Some((0, (1 << 16) - 1)),
        DataType::UInt32 => return Some((0, (1 << 32) - 1)),
        _ => return None,
    };
    Some((-(1 << bits), (1 << bits) - 1))
}

/// The range of an operand's values.
fn range(expr: &Expr, info: &SimplifyContext) -> Result<Option<(i128, i128)>> {
    Ok(match expr {
        Expr::Literal(value, _) => match value {
            ScalarValue::Int16(Some(value)) => Some((i128::from(*value), i128::from(*value))),
            ScalarValue::Int32(Some(value)) => Some((i128::from(*value), i128::from(*value))),
            ScalarValue::Int64(Some(value)) => Some((i128::from(*value), i128::from(*value))),
            _ => None,
        },
        Expr::Cast(Cast { expr, .. }) => match bounds(&info.get_data_type(expr)?) {
            Some(_) => range(expr, info)?,
            None => None,
        },
        other => bounds(&info.get_data_type(other)?),
    })
}

fn corners(op: Operator, left: (i128, i128), right: (i128, i128)) -> [i128; 4] {
    let of = |a: i128, b: i128| match op {
        Operator::Plus => a + b,
        Operator::Minus => a - b,
        _ => a * b,
    };
    [
        of(left.0, right.0),
        of(left.0, right.1),
        of(left.1, right.0),
        of(left.1, right.1),
    ]
}

/// Integers with operations that report overflow.
pub(super) trait Integer: ArrowPrimitiveType {
    /// PostgreSQL's name of the type.
    const NAME: &'static str;
    fn add(a: Self::Native, b: Self::Native) -> (Self::Native, bool);
    fn subtract(a: Self::Native, b: Self::Native) -> (Self::Native, bool);
    fn multiply(a: Self::Native, b: Self::Native) -> (Self::Native, bool);
}

macro_rules! integer {
    ($type:ty, $name:literal) => {
        impl Integer for $type {
            const NAME: &'static str = $name;
            fn add(a: Self::Native, b: Self::Native) -> (Self::Native, bool) {
                a.overflowing_add(b)
            }
            fn subtract(a: Self::Native, b: Self::Native) -> (Self::Native, bool) {
                a.overflowing_sub(b)
            }
            fn multiply(a: Self::Native, b: Self::Native) -> (Self::Native, bool) {
                a.overflowing_mul(b)
            }
        }
    };
}
integer!(Int16Type, "smallint");
integer!(Int32Type, "integer");
integer!(Int64Type, "bigint");

/// An operand: a column, or one value for all rows.
enum Operand<'a, T: Integer> {
    Column(&'a PrimitiveArray<T>),
    Value(T::Native),
    Null,
}

fn operand<T: Integer>(value: &ColumnarValue) -> Result<(Operand<'_, T>, Option<ArrayRef>)> {
    Ok(match value {
        ColumnarValue::Array(array) => (Operand::Column(array.as_primitive::<T>()), None),
        ColumnarValue::Scalar(value) => {
            let array = value.to_array()?;
            let operand = if array.is_null(0) {
                Operand::Null
            } else {
                Operand::Value(array.as_primitive::<T>().value(0))
            };
            (operand, Some(array))
        }
    })
}

fn compute<T: Integer>(
    op: Operator,
    left: &ColumnarValue,
    right: &ColumnarValue,
) -> Result<ColumnarValue> {
    let (left_operand, left_scalar) = operand::<T>(left)?;
    let (right_operand, right_scalar) = operand::<T>(right)?;
    let array = match op {
        Operator::Plus => combine(&left_operand, &right_operand, T::add),
        Operator::Minus => combine(&left_operand, &right_operand, T::subtract),
        _ => combine(&left_operand, &right_operand, T::multiply),
    }?;
    let array: ArrayRef = Arc::new(array);
    if left_scalar.is_some() && right_scalar.is_some() {
        return Ok(ColumnarValue::Scalar(ScalarValue::try_from_array(
            &array, 0,
        )?));
    }
    Ok(ColumnarValue::Array(array))
}

/// Computes every row, even of NULLs, and searches for the row of an error only after an overflow,
/// so the loop has no branch.
fn combine<T: Integer>(
    left: &Operand<'_, T>,
    right: &Operand<'_, T>,
    of: impl Fn(T::Native, T::Native) -> (T::Native, bool) + Copy,
) -> Result<PrimitiveArray<T>> {
    let mut left_type = false;
    let mut seen = |a: T::Native, b: T::Native| {
        let (value, overflow) = of(a, b);
        left_type |= overflow;
        value
    };
    let (values, nulls): (Vec<T::Native>, Option<NullBuffer>) = match (left, right) {
        (Operand::Column(a), Operand::Column(b)) => (
            a.values()
                .iter()
                .zip(b.values())
                .map(|(a, b)| seen(*a, *b))
                .collect(),
            NullBuffer::union(a.nulls(), b.nulls()),
        ),
        (Operand::Column(a), Operand::Value(b)) => (
            a.values().iter().map(|a| seen(*a, *b)).collect(),
            a.nulls().cloned(),
        ),
        (Operand::Value(a), Operand::Column(b)) => (
            b.values().iter().map(|b| seen(*a, *b)).collect(),
            b.nulls().cloned(),
        ),
        (Operand::Value(a), Operand::Value(b)) => (vec![seen(*a, *b)], None),
        (Operand::Column(a), Operand::Null) | (Operand::Null, Operand::Column(a)) => {
            return Ok(PrimitiveArray::new_null(a.len()));
        }
        _ => return Ok(PrimitiveArray::new_null(1)),
    };
    if left_type {
        let overflows = |row: usize| match (left, right) {
            (Operand::Column(a), Operand::Column(b)) => of(a.value(row), b.value(row)).1,
            (Operand::Column(a), Operand::Value(b)) => of(a.value(row), *b).1,
            (Operand::Value(a), Operand::Column(b)) => of(*a, b.value(row)).1,
            _ => true,
        };
        let valid = |row: &usize| nulls.as_ref().is_none_or(|nulls| nulls.is_valid(*row));
        if (0..values.len()).filter(valid).any(overflows) {
            return Err(PgError::out_of_range(T::NAME).into());
        }
    }
    Ok(PrimitiveArray::new(values.into(), nulls))
}

#[cfg(test)]
mod tests {
    use datafusion::arrow::array::Int32Array;

    use super::*;

    #[test]
    fn a_null_does_not_overflow() {
        let values = Int32Array::new(
            vec![i32::MAX, 1].into(),
            Some(NullBuffer::from(vec![false, true])),
        );
        let column = Operand::Column(&values);
        let sum = combine(&column, &Operand::Value(1), Int32Type::add).unwrap();
        assert_eq!(sum, Int32Array::from(vec![None, Some(2)]));
        let values = Int32Array::from(vec![i32::MAX]);
        let sum = combine(
            &Operand::Column(&values),
            &Operand::Value(1),
            Int32Type::add,
        );
        assert!(sum.is_err());
    }
}
