//! Arithmetic that differs between Arrow and PostgreSQL: division and remainder, powers, bits,
//! signs, overflowing floats, and numerics that may exceed 76 digits.
//!
//! Each operation is a function of two arguments (one for signs and `~`); `operators/` plans them
//! for operators. Sums, differences and products of decimals that cannot overflow are plain
//! operators.

use std::fmt;
use std::sync::Arc;

use arrow::datatypes::i256;
use datafusion::arrow::array::{
    Array, ArrayRef, AsArray, Decimal256Array, IntervalMonthDayNanoArray, PrimitiveArray,
};
use datafusion::arrow::compute::kernels::arity::{binary as arrow_binary, try_binary, try_unary};
use datafusion::arrow::datatypes::{
    ArrowPrimitiveType, DataType, Decimal128Type, Decimal256Type, Float32Type, Float64Type,
    Int16Type, Int32Type, Int64Type, IntervalMonthDayNano, IntervalMonthDayNanoType, IntervalUnit,
};
use datafusion::common::{internal_err, plan_err};
use datafusion::error::{DataFusionError, Result};
use datafusion::logical_expr::simplify::{ExprSimplifyResult, SimplifyContext};
use datafusion::logical_expr::{
    ColumnarValue, Expr, Operator, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature,
    Volatility, lit,
};
use datafusion::scalar::ScalarValue;

use super::float_range::{float_overflow, float_underflow};
use super::integers::checked;
use super::numeric::{Numeric, fits, power_of_ten, shown_scale, ten};
use super::power;
use super::small::Small;
use crate::casts::{OPEN_SCALE, Target, arrow_cast, overflow};
use crate::error::PgError;

/// The operation of a function.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Op {
    Add,
    Subtract,
    Multiply,
    Divide,
    /// `div(a, b)`: the quotient truncated to an integer.
    WholeDivide,
    Modulo,
    Power,
    And,
    Or,
    Xor,
    ShiftLeft,
    ShiftRight,
    Negate,
    Plus,
    Not,
}

impl Op {
    pub(crate) const ALL: [Self; 15] = [
        Self::Add,
        Self::Subtract,
        Self::Multiply,
        Self::Divide,
        Self::WholeDivide,
        Self::Modulo,
        Self::Power,
        Self::And,
        Self::Or,
        Self::Xor,
        Self::ShiftLeft,
        Self::ShiftRight,
        Self::Negate,
        Self::Plus,
        Self::Not,
    ];

    /// PostgreSQL's operator.
    fn sign(self) -> &'static str {
        match self {
            Self::Add | Self::Plus => "+",
            Self::Subtract | Self::Negate => "-",
            Self::Multiply => "*",
            Self::Divide | Self::WholeDivide => "/",
            Self::Modulo => "%",
            Self::Power => "^",
            Self::And => "&",
            Self::Or => "|",
            Self::Xor => "#",
            Self::ShiftLeft => "<<",
            Self::ShiftRight => ">>",
            Self::Not => "~",
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::Add => "pg_add",
            Self::Subtract => "pg_subtract",
            Self::Multiply => "pg_multiply",
            Self::Divide => "pg_divide",
            Self::WholeDivide => "div",
            Self::Modulo => "mod",
            Self::Power => "power",
            Self::And => "pg_bit_and",
            Self::Or => "pg_bit_or",
            Self::Xor => "pg_bit_xor",
            Self::ShiftLeft => "pg_shift_left",
            Self::ShiftRight => "pg_shift_right",
            Self::Negate => "pg_negate",
            Self::Plus => "pg_plus",
            Self::Not => "pg_bit_not",
        }
    }
}

/// The operator of a function; `None` for those that are functions in PostgreSQL, too.
pub(crate) fn symbol(name: &str) -> Option<&'static str> {
    let op = Op::ALL.into_iter().find(|op| op.name() == name)?;
    name.starts_with("pg_").then(|| op.sign())
}

/// The functions by name.
pub(crate) fn functions() -> Vec<ScalarUDF> {
    let made = Op::ALL.map(|op| ScalarUDF::new_from_impl(Arithmetic::new(op)));
    let aliased = made.into_iter().map(|udf| match udf.name() {
        "power" => udf.with_aliases(["pow"]),
        _ => udf,
    });
    aliased.collect()
}

/// Calls the function of an operation.
pub(crate) fn call(op: Op, args: Vec<Expr>) -> Expr {
    ScalarUDF::new_from_impl(Arithmetic::new(op)).call(args)
}

/// See the file's header.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(crate) struct Arithmetic {
    op: Op,
    signature: Signature,
}

impl Arithmetic {
    fn new(op: Op) -> Self {
        let signature = Signature::user_defined(Volatility::Immutable);
        Self { op, signature }
    }
}

/// The operands' types after coercion, and the result's type.
fn types(op: Op, given: &[DataType]) -> Result<(Vec<DataType>, DataType)> {
    let known: Vec<DataType> = given.iter().map(plain).collect();
    let null = |data_type: &DataType| matches!(data_type, DataType::Null);
    let found = match known.as_slice() {
        [one] => match one {
            DataType::Null => Some((vec![DataType::Float64], DataType::Float64)),
            one if op == Op::Negate && (is_numeric(one) || is_interval(one)) => {
                Some((vec![one.clone()], one.clone()))
            }
            one if op == Op::Plus && is_numeric(one) => Some((vec![one.clone()], one.clone())),
            one if op == Op::Not && one.is_integer() => Some((vec![one.clone()], one.clone())),
            _ => None,
        },
        [a, b] if null(a) && !null(b) => return types(op, &[b.clone(), b.clone()]),
        [a, b] if null(b) && !null(a) => return types(op, &[a.clone(), a.clone()]),
        [a, b] => two(op, a, b),
        _ => None,
    };
    found.ok_or_else(|| no_operator(op, given))
}

fn two(op: Op, a: &DataType, b: &DataType) -> Option<(Vec<DataType>, DataType)> {
    let same = |data_type: DataType| (vec![data_type.clone(), data_type.clone()], data_type);
    if matches!(op, Op::ShiftLeft | Op::ShiftRight) {
        let fits = a.is_integer() && matches!(b, DataType::Int16 | DataType::Int32);
        return fits.then(|| (vec![a.clone(), DataType::Int32], a.clone()));
    }
    if a.is_integer() && b.is_integer() {
        return Some(match op {
            Op::WholeDivide => {
                let (a, b) = (as_decimal(a)?, as_decimal(b)?);
                let result = DataType::Decimal128(38, 0);
                (vec![a, b], result)
            }
            Op::Power => same(DataType::Float64),
            _ => same(if size(a) >= size(b) {
                a.clone()
            } else {
                b.clone()
            }),
        });
    }
    if a.is_floating() || b.is_floating() {
        let single = *a == DataType::Float32 && *b == DataType::Float32;
        return match op {
            Op::Power => Some(same(DataType::Float64)),
            Op::Add | Op::Subtract | Op::Multiply | Op::Divide
                if is_numeric(a) && is_numeric(b) =>
            {
                Some(same(if single {
                    DataType::Float32
                } else {
                    DataType::Float64
                }))
            }
            _ => None,
        };
    }
    let (a, b) = (as_decimal(a)?, as_decimal(b)?);
    let result = decimal_result(op, &a, &b)?;
    Some((vec![a, b], result))
}

fn plain(data_type: &DataType) -> DataType {
    match data_type {
        DataType::Int8 | DataType::UInt8 => DataType::Int16,
        DataType::UInt16 => DataType::Int32,
        DataType::UInt32 => DataType::Int64,
        DataType::UInt64 => DataType::Decimal128(20, 0),
        DataType::Float16 => DataType::Float32,
        DataType::Decimal32(p, s) | DataType::Decimal64(p, s) => DataType::Decimal128(*p, *s),
        DataType::Dictionary(_, values) => plain(values),
        DataType::Utf8 | DataType::Utf8View | DataType::LargeUtf8 => DataType::Utf8,
        other => other.clone(),
    }
}

fn is_numeric(data_type: &DataType) -> bool {
    data_type.is_numeric()
}

fn is_interval(data_type: &DataType) -> bool {
    matches!(data_type, DataType::Interval(IntervalUnit::MonthDayNano))
}

fn size(data_type: &DataType) -> usize {
    data_type.primitive_width().unwrap_or(0)
}

/// The decimal type that holds a type of numbers.
pub(crate) fn as_decimal(data_type: &DataType) -> Option<DataType> {
    Some(match data_type {
        DataType::Int16 => DataType::Decimal128(5, 0),
        DataType::Int32 => DataType::Decimal128(10, 0),
        DataType::Int64 => DataType::Decimal128(19, 0),
        DataType::Decimal128(..) | DataType::Decimal256(..) => data_type.clone(),
        _ => return None,
    })
}

/// The precision and scale of a decimal type.
pub(crate) fn digits(data_type: &DataType) -> Option<(i16, i16)> {
    match data_type {
        DataType::Decimal128(precision, scale) | DataType::Decimal256(precision, scale) => {
            Some((i16::from(*precision), i16::from(*scale)))
        }
        _ => None,
    }
}

/// The Arrow type of a numeric whose digits are not known.
pub(crate) const OPEN: DataType = DataType::Decimal256(76, OPEN_SCALE);

/// The decimal places of a product of two numerics whose digits are not known.
const PRODUCT_SCALE: i16 = 50;

/// Whether a column holds numerics of different scales, because their digits are not known or they
/// are products of such. They are shown without trailing zeros.
pub(crate) fn has_many_scales(data_type: &DataType) -> bool {
    matches!(data_type, DataType::Decimal256(76, scale) if *scale >= OPEN_SCALE)
}

fn decimal_result(op: Op, a: &DataType, b: &DataType) -> Option<DataType> {
    let ((p1, s1), (p2, s2)) = (digits(a)?, digits(b)?);
    let wide = |scale: i16| DataType::Decimal256(76, i8::try_from(scale).unwrap_or(OPEN_SCALE));
    let open = i16::from(OPEN_SCALE);
    Some(match op {
        // A numeric without known digits rarely uses all 76, so the other operand's digits
        // determine the result. The same holds for an integer quotient, which has scale 0.
        Op::Add | Op::Subtract => {
            let open_side = |p: i16, s: i16| p == 76 && (s == open || s == 0);
            let whole = match (open_side(p1, s1), open_side(p2, s2)) {
                (true, false) => p2 - s2 + 1,
                (false, true) => p1 - s1 + 1,
                _ => 0,
            };
            wide(s1.max(s2).min(76 - whole).max(s1.min(s2)))
        }
        Op::Multiply if s1 >= open && s2 >= open => wide(PRODUCT_SCALE),
        Op::Multiply => {
            let whole = (p1 - s1) + (p2 - s2);
            wide((s1 + s2).min((76 - whole).max(open)))
        }
        Op::Divide | Op::Power => OPEN,
        Op::WholeDivide => DataType::Decimal256(76, 0),
        Op::Modulo => wide(s1.max(s2)),
        _ => return None,
    })
}

/// PostgreSQL's error 42883 for a missing operator.
pub(crate) fn no_operator(op: Op, given: &[DataType]) -> DataFusionError {
    no_such_operator(op.sign(), given)
}

/// See [`no_operator`].
pub(crate) fn no_such_operator(sign: &str, given: &[DataType]) -> DataFusionError {
    let name = |data_type: &DataType| match Target::of_arrow(data_type) {
        Some(target) => target.name(),
        None => data_type.to_string(),
    };
    let shown = match given {
        [one] => format!("{sign} {}", name(one)),
        [a, b] => format!("{} {sign} {}", name(a), name(b)),
        _ => sign.to_owned(),
    };
    PgError::new("42883", format!("operator does not exist: {shown}")).into()
}

impl ScalarUDFImpl for Arithmetic {
    fn name(&self) -> &str {
        self.op.name()
    }

    fn display_name(&self, args: &[Expr]) -> Result<String> {
        Ok(shown(self.op, args, std::string::ToString::to_string))
    }

    fn schema_name(&self, args: &[Expr]) -> Result<String> {
        Ok(shown(self.op, args, |expr| expr.schema_name().to_string()))
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, given: &[DataType]) -> Result<Vec<DataType>> {
        // Other types are refused by `return_type`, because DataFusion would wrap an error raised
        // here as text.
        Ok(types(self.op, given).map_or_else(|_| given.to_vec(), |found| found.0))
    }

    fn return_type(&self, given: &[DataType]) -> Result<DataType> {
        Ok(types(self.op, given)?.1)
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let constant = args
            .args
            .iter()
            .all(|arg| matches!(arg, ColumnarValue::Scalar(_)));
        let arrays = ColumnarValue::values_to_arrays(&args.args)?;
        let result = match arrays.as_slice() {
            [one] => sign(self.op, one)?,
            [a, b] => binary(self.op, a, b, args.return_type())?,
            _ => return plan_err!("{} takes two numbers", self.name()),
        };
        if constant {
            return Ok(ColumnarValue::Scalar(ScalarValue::try_from_array(
                &result, 0,
            )?));
        }
        Ok(ColumnarValue::Array(result))
    }

    fn simplify(&self, args: Vec<Expr>, info: &SimplifyContext) -> Result<ExprSimplifyResult> {
        if self.op == Op::Plus
            && let [value] = args.as_slice()
            && !info.get_data_type(value)?.is_null()
        {
            return Ok(ExprSimplifyResult::Simplified(value.clone()));
        }
        if self.op == Op::Negate
            && let [value] = args.as_slice()
            && !matches!(value, Expr::Literal(..))
        {
            let plain = match info.get_data_type(value)? {
                DataType::Int16 => checked(lit(0_i16), Operator::Minus, value.clone()),
                DataType::Int32 => checked(lit(0_i32), Operator::Minus, value.clone()),
                DataType::Int64 => checked(lit(0_i64), Operator::Minus, value.clone()),
                DataType::Decimal128(..) | DataType::Decimal256(..) => {
                    Expr::Negative(Box::new(value.clone()))
                }
                _ => return Ok(ExprSimplifyResult::Original(args)),
            };
            return Ok(ExprSimplifyResult::Simplified(plain));
        }
        Ok(ExprSimplifyResult::Original(args))
    }
}

fn shown(op: Op, args: &[Expr], name: impl Fn(&Expr) -> String) -> String {
    match args {
        [one] => format!("({} {})", op.sign(), name(one)),
        [a, b] if op != Op::WholeDivide => format!("({} {} {})", name(a), op.sign(), name(b)),
        _ => format!(
            "{}({})",
            op.name(),
            args.iter().map(name).collect::<Vec<_>>().join(", ")
        ),
    }
}

fn sign(op: Op, array: &ArrayRef) -> Result<ArrayRef> {
    if op == Op::Plus {
        return Ok(Arc::clone(array));
    }
    macro_rules! integers {
        ($type:ty, $name:literal) => {{
            let cells = array.as_primitive::<$type>();
            let of = |value: <$type as ArrowPrimitiveType>::Native| match op {
                Op::Not => Ok(!value),
                _ => value
                    .checked_neg()
                    .ok_or_else(|| PgError::out_of_range($name)),
            };
            Arc::new(cells.try_unary::<_, $type, PgError>(of)?) as ArrayRef
        }};
    }
    Ok(match array.data_type() {
        DataType::Int16 => integers!(Int16Type, "smallint"),
        DataType::Int32 => integers!(Int32Type, "integer"),
        DataType::Int64 => integers!(Int64Type, "bigint"),
        DataType::Interval(IntervalUnit::MonthDayNano) => {
            let cells = array.as_primitive::<IntervalMonthDayNanoType>();
            let outside = || PgError::new("22008", "interval out of range");
            let negated: IntervalMonthDayNanoArray = try_unary(cells, |value| {
                let fields = (
                    value.months.checked_neg(),
                    value.days.checked_neg(),
                    value.nanoseconds.checked_neg(),
                );
                let (Some(months), Some(days), Some(nanoseconds)) = fields else {
                    return Err(external(outside()));
                };
                Ok(IntervalMonthDayNano::new(months, days, nanoseconds))
            })?;
            Arc::new(negated)
        }
        DataType::Float32 => {
            let values = array.as_primitive::<Float32Type>();
            Arc::new(values.unary::<_, Float32Type>(|x| if x.is_nan() { f32::NAN } else { -x }))
        }
        DataType::Float64 => {
            let values = array.as_primitive::<Float64Type>();
            Arc::new(values.unary::<_, Float64Type>(|x| if x.is_nan() { f64::NAN } else { -x }))
        }
        _ => datafusion::arrow::compute::kernels::numeric::neg(array)?,
    })
}

/// Wraps an error in Arrow's, where [`PgError::of`] finds it.
fn external(error: impl Into<PgError>) -> datafusion::arrow::error::ArrowError {
    datafusion::arrow::error::ArrowError::ExternalError(Box::new(error.into()))
}

fn binary(op: Op, a: &ArrayRef, b: &ArrayRef, result: &DataType) -> Result<ArrayRef> {
    match a.data_type() {
        DataType::Int16 if matches!(op, Op::ShiftLeft | Op::ShiftRight) => shift16(op, a, b),
        DataType::Int32 if matches!(op, Op::ShiftLeft | Op::ShiftRight) => shift32(op, a, b),
        DataType::Int64 if matches!(op, Op::ShiftLeft | Op::ShiftRight) => shift64(op, a, b),
        DataType::Int16 => int16(op, a, b),
        DataType::Int32 => int32(op, a, b),
        DataType::Int64 => int64(op, a, b),
        DataType::Float32 => float32(op, a, b),
        DataType::Float64 => float64(op, a, b),
        DataType::Decimal128(..) | DataType::Decimal256(..) => decimals(op, a, b, result),
        other => internal_err!("{} is not defined for {other}", op.name()),
    }
}

macro_rules! integer_operations {
    ($function:ident, $shift:ident, $type:ty, $native:ty, $shifted:ty, $name:literal) => {
        fn $function(op: Op, a: &ArrayRef, b: &ArrayRef) -> Result<ArrayRef> {
            let (a, b) = (a.as_primitive::<$type>(), b.as_primitive::<$type>());
            let outside = || external(PgError::out_of_range($name));
            let cells: PrimitiveArray<$type> =
                try_binary(a, b, |a: $native, b: $native| match op {
                    Op::Add => a.checked_add(b).ok_or_else(outside),
                    Op::Subtract => a.checked_sub(b).ok_or_else(outside),
                    Op::Multiply => a.checked_mul(b).ok_or_else(outside),
                    Op::Divide | Op::Modulo if b == 0 => Err(external(PgError::division_by_zero())),
                    Op::Divide => a.checked_div(b).ok_or_else(outside),
                    Op::Modulo => Ok(a.wrapping_rem(b)),
                    Op::And => Ok(a & b),
                    Op::Or => Ok(a | b),
                    _ => Ok(a ^ b),
                })?;
            Ok(Arc::new(cells))
        }

        fn $shift(op: Op, a: &ArrayRef, b: &ArrayRef) -> Result<ArrayRef> {
            let (a, b) = (a.as_primitive::<$type>(), b.as_primitive::<Int32Type>());
            // As in PostgreSQL, the processor shifts by the last bits of the count. A smallint is
            // widened to an integer for the shift (`int2shl`).
            #[allow(
                clippy::cast_sign_loss,
                clippy::cast_possible_truncation,
                clippy::unnecessary_cast,
                clippy::cast_lossless,
                reason = "only the last bits count"
            )]
            let cells: PrimitiveArray<$type> = try_binary(a, b, |a: $native, b: i32| {
                let a = a as $shifted;
                Ok(match op {
                    Op::ShiftLeft => a.wrapping_shl(b as u32),
                    _ => a.wrapping_shr(b as u32),
                } as $native)
            })?;
            Ok(Arc::new(cells))
        }
    };
}
integer_operations!(int16, shift16, Int16Type, i16, i32, "smallint");
integer_operations!(int32, shift32, Int32Type, i32, i32, "integer");
integer_operations!(int64, shift64, Int64Type, i64, i64, "bigint");

macro_rules! float_operations {
    ($function:ident, $type:ty, $native:ty) => {
        fn $function(op: Op, a: &ArrayRef, b: &ArrayRef) -> Result<ArrayRef> {
            let (a, b) = (a.as_primitive::<$type>(), b.as_primitive::<$type>());
            // Without a branch, so that the compiler can vectorize the loop.
            macro_rules! quick {
                ($sign:tt, $is_odd:expr) => {{
                    let cells: PrimitiveArray<$type> = arrow_binary(a, b, |a, b| a $sign b)?;
                    let operands = a.values().iter().zip(b.values());
                    let odd = cells.values().iter().zip(operands).fold(
                        false,
                        |any, (value, (a, b))| any | !value.is_finite() | $is_odd(*value, *a, *b),
                    );
                    if !odd {
                        return Ok(Arc::new(cells));
                    }
                }};
            }
            match op {
                Op::Add => quick!(+, |_, _, _| false),
                Op::Subtract => quick!(-, |_, _, _| false),
                Op::Multiply => {
                    quick!(*, |value, a, b| (value == 0.0) & (a != 0.0) & (b != 0.0));
                }
                Op::Divide => quick!(/, |value, a, _| (value == 0.0) & (a != 0.0)),
                _ => {}
            }
            let cells: PrimitiveArray<$type> = try_binary(a, b, |a: $native, b: $native| {
                let value = match op {
                    Op::Add => a + b,
                    Op::Subtract => a - b,
                    Op::Multiply => a * b,
                    Op::Divide if b == 0.0 && !a.is_nan() => {
                        return Err(external(PgError::division_by_zero()));
                    }
                    Op::Divide => a / b,
                    _ => {
                        return power::float(a.into(), b.into())
                            .map(|v| v as $native)
                            .map_err(external);
                    }
                };
                if value.is_infinite() && a.is_finite() && b.is_finite() {
                    return Err(external(float_overflow()));
                }
                let vanished = match op {
                    Op::Multiply => a != 0.0 && b != 0.0,
                    Op::Divide => a != 0.0 && !b.is_infinite(),
                    _ => false,
                };
                if value == 0.0 && vanished {
                    return Err(external(float_underflow()));
                }
                // Processors produce NaNs with a sign, which Arrow orders before all numbers.
                Ok(if value.is_nan() {
                    <$native>::NAN
                } else {
                    value
                })
            })?;
            Ok(Arc::new(cells))
        }
    };
}
#[allow(
    clippy::cast_possible_truncation,
    reason = "powers of real are never planned"
)]
mod floats {
    use super::{
        Arc, Array, ArrayRef, AsArray, Float32Type, Float64Type, Op, PgError, PrimitiveArray,
        Result, arrow_binary, external, float_overflow, float_underflow, power, try_binary,
    };
    float_operations!(float32_inner, Float32Type, f32);
    float_operations!(float64_inner, Float64Type, f64);
    pub(super) fn float32(op: Op, a: &ArrayRef, b: &ArrayRef) -> Result<ArrayRef> {
        debug_assert_eq!(a.len(), b.len());
        float32_inner(op, a, b)
    }
    pub(super) fn float64(op: Op, a: &ArrayRef, b: &ArrayRef) -> Result<ArrayRef> {
        float64_inner(op, a, b)
    }
}
use floats::{float32, float64};

fn decimals(op: Op, a: &ArrayRef, b: &ArrayRef, result: &DataType) -> Result<ArrayRef> {
    let scale = |array: &ArrayRef| digits(array.data_type()).map_or(0, |(_, scale)| scale);
    let (s1, s2, s3) = (
        u32::try_from(scale(a)).unwrap_or(0),
        u32::try_from(scale(b)).unwrap_or(0),
        u32::try_from(digits(result).map_or(0, |(_, scale)| scale)).unwrap_or(0),
    );
    let of = |a: i256, b: i256| decimal(op, (a, s1), (b, s2), s3).map_err(external);
    let narrow = |array: &ArrayRef| matches!(array.data_type(), DataType::Decimal128(..));
    let cells: Decimal256Array = if narrow(a) && narrow(b) {
        let (a, b) = (
            a.as_primitive::<Decimal128Type>(),
            b.as_primitive::<Decimal128Type>(),
        );
        try_binary(a, b, |a: i128, b: i128| {
            of(i256::from_i128(a), i256::from_i128(b))
        })?
    } else {
        let (a, b) = (wide(a)?, wide(b)?);
        let (a, b) = (
            a.as_primitive::<Decimal256Type>(),
            b.as_primitive::<Decimal256Type>(),
        );
        try_binary(a, b, of)?
    };
    let cells: ArrayRef =
        Arc::new(cells.with_precision_and_scale(76, i8::try_from(s3).unwrap_or(0))?);
    match result {
        DataType::Decimal128(..) => Ok(arrow_cast(&cells, result)?),
        _ => Ok(cells),
    }
}

fn wide(array: &ArrayRef) -> Result<ArrayRef> {
    match array.data_type() {
        DataType::Decimal128(_, scale) => arrow_cast(array, &DataType::Decimal256(76, *scale)),
        _ => Ok(Arc::clone(array)),
    }
}

/// An operation on two decimals, each with its scale.
fn decimal(op: Op, (a, s1): (i256, u32), (b, s2): (i256, u32), s3: u32) -> Result<i256, PgError> {
    let zero = b == i256::ZERO;
    if zero && matches!(op, Op::Divide | Op::WholeDivide | Op::Modulo) {
        return Err(PgError::division_by_zero());
    }
    if let Some(value) = quick(op, (a, s1), (b, s2), s3) {
        return Ok(value);
    }
    let (a, b) = (shown_scale(a, s1), shown_scale(b, s2));
    let value = match op {
        Op::Add => a.add(&b),
        Op::Subtract => a.sub(&b),
        Op::Multiply => a.mul(&b).trimmed(),
        Op::Divide => {
            let scale = a.quotient_scale(&b);
            a.div_at(&b, scale.min(i64::from(s3))).trimmed()
        }
        Op::WholeDivide => {
            let scale = a.scale.max(b.scale);
            let left = &a.digits * ten(scale - a.scale);
            let right = &b.digits * ten(scale - b.scale);
            Numeric::new(left / right, 0)
        }
        Op::Modulo => a.rem(&b),
        _ => {
            let value = power::numeric(&a, &b)?;
            value.rounded(i64::from(value.scale.min(s3)))
        }
    };
    value.to_i256(s3).ok_or_else(overflow)
}

/// Quotients of numbers of at most 128 bits, and other operations whose intermediate values fit 256
/// bits; `None` for others.
fn quick(op: Op, (a, s1): (i256, u32), (b, s2): (i256, u32), s3: u32) -> Option<i256> {
    let value = match op {
        Op::Divide => {
            let (a, b) = (Small::shown(a, s1)?, Small::shown(b, s2)?);
            let (quotient, scale) = a.quotient(&b, s3)?;
            i256::from_i128(quotient).checked_mul(power_of_ten(s3.checked_sub(scale)?)?)?
        }
        Op::Add | Op::Subtract => {
            let a = a.checked_mul(power_of_ten(s3.checked_sub(s1)?)?)?;
            let b = b.checked_mul(power_of_ten(s3.checked_sub(s2)?)?)?;
            match op {
                Op::Add => a.checked_add(b)?,
                _ => a.checked_sub(b)?,
            }
        }
        Op::WholeDivide | Op::Modulo => {
            let scale = s1.max(s2);
            let a = a.checked_mul(power_of_ten(scale - s1)?)?;
            let b = b.checked_mul(power_of_ten(scale - s2)?)?;
            if op == Op::WholeDivide {
                a.checked_div(b)?.checked_mul(power_of_ten(s3)?)?
            } else {
                let power = power_of_ten(s3.checked_sub(scale)?)?;
                a.checked_rem(b)?.checked_mul(power)?
            }
        }
        Op::Multiply => {
            let product = a.checked_mul(b)?;
            if s1 + s2 <= s3 {
                product.checked_mul(power_of_ten(s3 - s1 - s2)?)?
            } else {
                let cut = power_of_ten(s1 + s2 - s3)?;
                let kept = product.checked_div(cut)?;
                // The scale would cut digits, so `decimal` computes the result.
                if kept.checked_mul(cut)? != product {
                    return None;
                }
                kept
            }
        }
        _ => return None,
    };
    fits(value).then_some(value)
}

impl fmt::Display for Op {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.sign())
    }
}
