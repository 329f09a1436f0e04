//! PostgreSQL's mathematical functions (chapter 9.3 of its manual), and a few for any values.
//!
//! Each is resolved as in PostgreSQL: an integer argument selects the function of doubles if there
//! is none of integers.
//! More than 800 lines: the tables of names, types and values follow one list of functions.

use std::sync::Arc;

use arrow::datatypes::i256;
use datafusion::arrow::array::{
    Array, ArrayRef, AsArray, Decimal256Array, Float64Array, Int32Array, Int64Array, StringArray,
};
use datafusion::arrow::datatypes::{
    DataType, Decimal256Type, Field, FieldRef, Float32Type, Float64Type, Int16Type, Int32Type,
    Int64Type,
};
use datafusion::common::internal_err;
use datafusion::error::Result;
use datafusion::logical_expr::{
    ColumnarValue, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature,
    Volatility,
};
use datafusion::scalar::ScalarValue;
use num_bigint::BigInt;

use super::arithmetic::{OPEN, as_decimal, digits};
use super::c_math;
use super::degrees;
use super::float_range::{float_overflow, float_underflow};
use super::numeric::{Numeric, fits, shown_scale};
use super::power;
use super::small::rounded;
use crate::casts::{OPEN_SCALE, Target, arrow_cast, decimal, overflow};
use crate::error::PgError;

/// The function that returns the name of a value's type.
pub(crate) const TYPEOF: &str = "pg_typeof";

/// The function.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Name {
    Abs,
    Sign,
    Ceil,
    Floor,
    Round,
    Trunc,
    Sqrt,
    Cbrt,
    Exp,
    Ln,
    Log,
    Log10,
    Factorial,
    Gcd,
    Lcm,
    WidthBucket,
    MinScale,
    Scale,
    TrimScale,
    Typeof,
    NumNulls,
    NumNonnulls,
    Degrees,
    Radians,
    Sin,
    Cos,
    Tan,
    Cot,
    Asin,
    Acos,
    Atan,
    Atan2,
    Sinh,
    Cosh,
    Tanh,
    Asinh,
    Acosh,
    Atanh,
    Sind,
    Cosd,
    Tand,
    Cotd,
    Asind,
    Acosd,
    Atand,
    Atan2d,
    ToHex,
}

const NAMES: &[(Name, &str, &[&str])] = &[
    (Name::Abs, "abs", &[]),
    (Name::Sign, "sign", &["signum"]),
    (Name::Ceil, "ceil", &["ceiling"]),
    (Name::Floor, "floor", &[]),
    (Name::Round, "round", &[]),
    (Name::Trunc, "trunc", &[]),
    (Name::Sqrt, "sqrt", &[]),
    (Name::Cbrt, "cbrt", &[]),
    (Name::Exp, "exp", &[]),
    (Name::Ln, "ln", &[]),
    (Name::Log, "log", &[]),
    (Name::Log10, "log10", &[]),
    (Name::Factorial, "factorial", &[]),
    (Name::Gcd, "gcd", &[]),
    (Name::Lcm, "lcm", &[]),
    (Name::WidthBucket, "width_bucket", &[]),
    (Name::MinScale, "min_scale", &[]),
    (Name::Scale, "scale", &[]),
    (Name::TrimScale, "trim_scale", &[]),
    (Name::Typeof, TYPEOF, &[]),
    (Name::NumNulls, "num_nulls", &[]),
    (Name::NumNonnulls, "num_nonnulls", &[]),
    (Name::Degrees, "degrees", &[]),
    (Name::Radians, "radians", &[]),
    (Name::Sin, "sin", &[]),
    (Name::Cos, "cos", &[]),
    (Name::Tan, "tan", &[]),
    (Name::Cot, "cot", &[]),
    (Name::Asin, "asin", &[]),
    (Name::Acos, "acos", &[]),
    (Name::Atan, "atan", &[]),
    (Name::Atan2, "atan2", &[]),
    (Name::Sinh, "sinh", &[]),
    (Name::Cosh, "cosh", &[]),
    (Name::Tanh, "tanh", &[]),
    (Name::Asinh, "asinh", &[]),
    (Name::Acosh, "acosh", &[]),
    (Name::Atanh, "atanh", &[]),
    (Name::Sind, "sind", &[]),
    (Name::Cosd, "cosd", &[]),
    (Name::Tand, "tand", &[]),
    (Name::Cotd, "cotd", &[]),
    (Name::Asind, "asind", &[]),
    (Name::Acosd, "acosd", &[]),
    (Name::Atand, "atand", &[]),
    (Name::Atan2d, "atan2d", &[]),
    (Name::ToHex, "to_hex", &[]),
];

pub(super) fn functions() -> Vec<ScalarUDF> {
    let made = NAMES.iter().map(|(name, text, aliases)| {
        let signature = match name {
            Name::Typeof | Name::NumNulls | Name::NumNonnulls => {
                Signature::variadic_any(Volatility::Immutable)
            }
            _ => Signature::user_defined(Volatility::Immutable),
        };
        ScalarUDF::new_from_impl(Mathematical {
            name: *name,
            text,
            signature,
        })
        .with_aliases(aliases.iter().copied())
    });
    made.collect()
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Mathematical {
    name: Name,
    text: &'static str,
    signature: Signature,
}

/// The arguments' types after coercion, and the result's type.
fn types(name: Name, given: &[DataType]) -> Option<(Vec<DataType>, DataType)> {
    if let (Name::Abs, [DataType::Float32]) = (name, given) {
        return Some((given.to_vec(), DataType::Float32));
    }
    let known: Vec<DataType> = given.iter().map(plain).collect();
    let all = |count: usize, held: DataType| (vec![held.clone(); count], held);
    let is_number = |held: &DataType| held.is_numeric() || held.is_null();
    if !known.iter().all(is_number) {
        return None;
    }
    let exact = |held: &DataType| digits(held).is_some();
    let any_exact = known.iter().any(exact) && !known.iter().any(DataType::is_floating);
    let as_exact = |held: &DataType| as_decimal(held).unwrap_or(DataType::Decimal128(1, 0));
    Some(match (name, known.as_slice()) {
        (Name::Abs, [one]) if !one.is_null() => all(1, one.clone()),
        (Name::Sign | Name::Ceil | Name::Floor | Name::Round | Name::Trunc, [one]) => {
            match digits(one) {
                Some((precision, scale)) => {
                    let whole = u8::try_from((precision - scale + 1).clamp(1, 76)).ok()?;
                    let result = match name {
                        Name::Sign => DataType::Decimal128(1, 0),
                        _ => decimal(whole, 0),
                    };
                    (vec![one.clone()], result)
                }
                None => all(1, DataType::Float64),
            }
        }
        (Name::Round | Name::Trunc, [one, places]) if places.is_integer() || places.is_null() => {
            let held = as_exact(one);
            if one.is_floating() {
                return None;
            }
            let (precision, scale) = digits(&held)?;
            let wider = u8::try_from((precision + 1).min(76)).ok()?;
            let result = decimal(wider, i8::try_from(scale).ok()?);
            // An integer literal is kept, because it determines the result's scale.
            let places = match places {
                DataType::Int64 => DataType::Int64,
                _ => DataType::Int32,
            };
            (vec![held, places], result)
        }
        (Name::Sqrt | Name::Exp | Name::Ln | Name::Log | Name::Log10, [one]) if exact(one) => {
            (vec![one.clone()], OPEN)
        }
        (Name::Log, [a, b]) if !known.iter().any(DataType::is_floating) => {
            (vec![as_exact(a), as_exact(b)], OPEN)
        }
        (Name::Factorial, [one]) if one.is_integer() || one.is_null() => {
            (vec![DataType::Int64], DataType::Decimal256(76, 0))
        }
        (Name::Gcd | Name::Lcm, [a, b]) => {
            if any_exact {
                let (a, b) = (as_exact(a), as_exact(b));
                let ((_, s1), (_, s2)) = (digits(&a)?, digits(&b)?);
                let result = DataType::Decimal256(76, i8::try_from(s1.max(s2)).ok()?);
                (vec![a, b], result)
            } else if a.is_floating() || b.is_floating() {
                return None;
            } else if *a == DataType::Int64 || *b == DataType::Int64 {
                all(2, DataType::Int64)
            } else {
                all(2, DataType::Int32)
            }
        }
        (Name::WidthBucket, [a, b, c, count]) if count.is_integer() || count.is_null() => {
            let values = if any_exact {
                vec![as_exact(a), as_exact(b), as_exact(c), DataType::Int32]
            } else {
                let double = DataType::Float64;
                vec![double.clone(), double.clone(), double, DataType::Int32]
            };
            (values, DataType::Int32)
        }
        (Name::MinScale | Name::Scale, [one]) => (vec![as_exact(one)], DataType::Int32),
        (Name::TrimScale, [one]) => {
            let held = as_exact(one);
            let (precision, scale) = digits(&held)?;
            let open = i16::from(OPEN_SCALE);
            // The declared scale would show trailing zeros.
            let fits = (1..open).contains(&scale) && precision - scale <= 76 - open;
            let result = if fits { OPEN } else { held.clone() };
            (vec![held], result)
        }
        (Name::Atan2 | Name::Atan2d, [_, _]) => all(2, DataType::Float64),
        (Name::ToHex, [one]) if one.is_integer() || one.is_null() => {
            let held = match one {
                DataType::Int64 => DataType::Int64,
                _ => DataType::Int32,
            };
            (vec![held], DataType::Utf8)
        }
        (
            Name::Abs
            | Name::Sqrt
            | Name::Exp
            | Name::Ln
            | Name::Log
            | Name::Log10
            | Name::Asind
            | Name::Acosd
            | Name::Atand
            | Name::Cotd
            | Name::Cbrt
            | Name::Degrees
            | Name::Radians
            | Name::Sin
            | Name::Cos
            | Name::Tan
            | Name::Cot
            | Name::Asin
            | Name::Acos
            | Name::Atan
            | Name::Sinh
            | Name::Cosh
            | Name::Tanh
            | Name::Asinh
            | Name::Acosh
            | Name::Atanh
            | Name::Sind
            | Name::Cosd
            | Name::Tand,
            [_],
        ) => all(1, DataType::Float64),
        _ => return None,
    })
}

fn plain(data_type: &DataType) -> DataType {
    match data_type {
        DataType::Int8 | DataType::UInt8 => DataType::Int16,
        DataType::UInt16 => DataType::Int32,
        DataType::UInt32 => DataType::Int64,
        DataType::UInt64 => DataType::Decimal128(20, 0),
        DataType::Float16 | DataType::Float32 => DataType::Float64,
        DataType::Decimal32(p, s) | DataType::Decimal64(p, s) => DataType::Decimal128(*p, *s),
        DataType::Dictionary(_, values) => plain(values),
        other => other.clone(),
    }
}

impl Mathematical {
    fn types(&self, given: &[DataType]) -> Result<(Vec<DataType>, DataType)> {
        types(self.name, given).ok_or_else(|| {
            let names = given.iter().map(|given| match Target::of_arrow(given) {
                Some(target) => target.name(),
                None => "unknown".to_owned(),
            });
            let names = names.collect::<Vec<_>>().join(", ");
            PgError::undefined_function(&format!("function {}({names})", self.text)).into()
        })
    }
}

impl ScalarUDFImpl for Mathematical {
    fn name(&self) -> &str {
        self.text
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, given: &[DataType]) -> Result<Vec<DataType>> {
        // Other types are refused by `return_type`, because DataFusion would wrap an error raised
        // here as text.
        Ok(types(self.name, given).map_or_else(|| given.to_vec(), |found| found.0))
    }

    fn return_type(&self, given: &[DataType]) -> Result<DataType> {
        match self.name {
            Name::Typeof => Ok(DataType::Utf8),
            Name::NumNulls | Name::NumNonnulls => Ok(DataType::Int32),
            _ => Ok(self.types(given)?.1),
        }
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs) -> Result<FieldRef> {
        let given = args.arg_fields.iter();
        let mut given: Vec<DataType> = given.map(|field| field.data_type().clone()).collect();
        let places = match (self.name, args.scalar_arguments) {
            (Name::Round | Name::Trunc, [_, Some(ScalarValue::Int64(places))]) => *places,
            _ => None,
        };
        if places.is_some() {
            given[1] = DataType::Int32;
        }
        let held = match (self.return_type(&given)?, places) {
            (held, Some(places)) => at_places(held, places),
            (held, None) => held,
        };
        Ok(Arc::new(Field::new(self.name(), held, true)))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let constant = args
            .args
            .iter()
            .all(|arg| matches!(arg, ColumnarValue::Scalar(_)));
        let arrays = ColumnarValue::values_to_arrays(&args.args)?;
        let result = match self.name {
            Name::Typeof => {
                let name = args
                    .arg_fields
                    .first()
                    .and_then(|field| Target::of_field(field));
                let name = name.map_or_else(|| "unknown".to_owned(), |target| target.name());
                return Ok(ColumnarValue::Scalar(ScalarValue::from(name)));
            }
            Name::NumNulls => count_nulls(&arrays, true),
            Name::NumNonnulls => count_nulls(&arrays, false),
            _ => compute(self.name, &arrays, args.return_type())?,
        };
        if constant {
            return Ok(ColumnarValue::Scalar(ScalarValue::try_from_array(
                &result, 0,
            )?));
        }
        Ok(ColumnarValue::Array(result))
    }
}

/// The type of a decimal rounded to this many places, which are shown; `held` itself if that needs
/// more than 76 digits.
fn at_places(held: DataType, places: i64) -> DataType {
    let shown = || {
        let (precision, scale) = digits(&held)?;
        let places = i16::try_from(places.clamp(0, i64::from(OPEN_SCALE))).ok()?;
        let all = u8::try_from(precision - scale + 1 + places).ok()?;
        (all <= 76).then(|| Some(decimal(all, i8::try_from(places).ok()?)))?
    };
    shown().unwrap_or(held)
}

fn count_nulls(arrays: &[ArrayRef], nulls: bool) -> ArrayRef {
    let rows = arrays.first().map_or(0, Array::len);
    let masks: Vec<_> = arrays
        .iter()
        .map(arrow::array::Array::logical_nulls)
        .collect();
    let count = |row: usize| {
        let found = masks
            .iter()
            .filter(|mask| mask.as_ref().is_some_and(|mask| mask.is_null(row)) == nulls);
        i32::try_from(found.count()).unwrap_or(i32::MAX)
    };
    Arc::new((0..rows).map(count).collect::<Int32Array>())
}

fn compute(name: Name, arrays: &[ArrayRef], result: &DataType) -> Result<ArrayRef> {
    let Some(first) = arrays.first() else {
        return internal_err!("the function has no arguments");
    };
    if let (Name::Round | Name::Trunc, [value, places]) = (name, arrays)
        && *places.data_type() == DataType::Int64
    {
        let places = arrow_cast(places, &DataType::Int32)?;
        return compute(name, &[Arc::clone(value), places], result);
    }
    if arrays.iter().any(|array| array.data_type().is_null()) {
        return Ok(datafusion::arrow::array::new_null_array(
            result,
            first.len(),
        ));
    }
    match first.data_type() {
        DataType::Float32 => {
            let cells = first.as_primitive::<Float32Type>();
            Ok(Arc::new(cells.unary::<_, Float32Type>(f32::abs)))
        }
        DataType::Float64 => of_floats(name, arrays),
        DataType::Int16 | DataType::Int32 | DataType::Int64 => of_integers(name, arrays),
        DataType::Decimal128(..) | DataType::Decimal256(..) => of_decimals(name, arrays, result),
        other => internal_err!("no function of {other}"),
    }
}

fn of_integers(name: Name, arrays: &[ArrayRef]) -> Result<ArrayRef> {
    if let (Name::Abs, [one]) = (name, arrays) {
        macro_rules! absolute {
            ($type:ty, $name:literal) => {{
                let of =
                    |value: <$type as datafusion::arrow::array::ArrowPrimitiveType>::Native| {
                        value
                            .checked_abs()
                            .ok_or_else(|| PgError::out_of_range($name))
                    };
                Arc::new(
                    one.as_primitive::<$type>()
                        .try_unary::<_, $type, PgError>(of)?,
                ) as ArrayRef
            }};
        }
        return Ok(match one.data_type() {
            DataType::Int16 => absolute!(Int16Type, "smallint"),
            DataType::Int32 => absolute!(Int32Type, "integer"),
            _ => absolute!(Int64Type, "bigint"),
        });
    }
    if let (Name::ToHex, [one]) = (name, arrays) {
        let texts: StringArray = match one.as_primitive_opt::<Int32Type>() {
            Some(cells) => cells.iter().map(|n| n.map(|n| format!("{n:x}"))).collect(),
            None => {
                let cells = one.as_primitive::<Int64Type>();
                cells.iter().map(|n| n.map(|n| format!("{n:x}"))).collect()
            }
        };
        return Ok(Arc::new(texts));
    }
    let held = arrays[0].data_type().clone();
    let wide = arrays
        .iter()
        .map(|array| arrow_cast(array, &DataType::Int64));
    let wide = wide.collect::<Result<Vec<_>>>()?;
    match (name, wide.as_slice()) {
        (Name::Factorial, [one]) => {
            let values = one.as_primitive::<Int64Type>().iter();
            let values = values.map(|n| n.map(factorial).transpose());
            let cells = values.collect::<Result<Decimal256Array, PgError>>()?;
            Ok(Arc::new(cells.with_precision_and_scale(76, 0)?))
        }
        (Name::Gcd | Name::Lcm, [a, b]) => {
            let type_name = if held == DataType::Int64 {
                "bigint"
            } else {
                "integer"
            };
            let outside = || PgError::out_of_range(type_name);
            let pairs = a
                .as_primitive::<Int64Type>()
                .iter()
                .zip(b.as_primitive::<Int64Type>());
            let values = pairs.map(|(a, b)| {
                let (Some(a), Some(b)) = (a, b) else {
                    return Ok(None);
                };
                let divisor = gcd(a.unsigned_abs(), b.unsigned_abs());
                let value = match name {
                    Name::Gcd => i64::try_from(divisor).ok(),
                    _ if divisor == 0 => Some(0),
                    _ => (a.unsigned_abs() / divisor)
                        .checked_mul(b.unsigned_abs())
                        .and_then(|value| i64::try_from(value).ok()),
                };
                let fits = |value: &i64| held == DataType::Int64 || i32::try_from(*value).is_ok();
                value.filter(fits).map(Some).ok_or_else(outside)
            });
            let cells: ArrayRef = Arc::new(values.collect::<Result<Int64Array, PgError>>()?);
            arrow_cast(&cells, &held)
        }
        _ => internal_err!("no function of integers"),
    }
}

fn gcd(a: u64, b: u64) -> u64 {
    let (mut a, mut b) = (a, b);
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a
}

fn factorial(n: i64) -> Result<i256, PgError> {
    if n < 0 {
        return Err(PgError::new(
            "22003",
            "factorial of a negative number is undefined",
        ));
    }
    let mut value = i256::ONE;
    for factor in 2..=n {
        value = value
            .checked_mul(i256::from_i128(factor.into()))
            .ok_or_else(overflow)?;
    }
    if !fits(value) {
        return Err(overflow());
    }
    Ok(value)
}

fn of_floats(name: Name, arrays: &[ArrayRef]) -> Result<ArrayRef> {
    match (name, arrays) {
        (Name::WidthBucket, [x, low, high, count]) => {
            let (x, low, high) = (
                x.as_primitive::<Float64Type>(),
                low.as_primitive::<Float64Type>(),
                high.as_primitive::<Float64Type>(),
            );
            let count = count.as_primitive::<Int32Type>();
            let values = (0..x.len()).map(|row| {
                let null =
                    x.is_null(row) || low.is_null(row) || high.is_null(row) || count.is_null(row);
                if null {
                    return Ok(None);
                }
                float_bucket(
                    x.value(row),
                    low.value(row),
                    high.value(row),
                    count.value(row),
                )
                .map(Some)
            });
            Ok(Arc::new(values.collect::<Result<Int32Array, PgError>>()?))
        }
        (Name::Atan2 | Name::Atan2d, [a, b]) => {
            let pairs = a
                .as_primitive::<Float64Type>()
                .iter()
                .zip(b.as_primitive::<Float64Type>());
            let values = pairs.map(|(a, b)| {
                let radians = a?.atan2(b?);
                Some(match name {
                    Name::Atan2d => degrees::of_tangent(radians),
                    _ => radians,
                })
            });
            Ok(Arc::new(values.collect::<Float64Array>()))
        }
        (_, [one]) => {
            let cells = one.as_primitive::<Float64Type>();
            if let Some(quick) = quick(name, cells) {
                return Ok(Arc::new(quick));
            }
            Ok(Arc::new(cells.try_unary::<_, Float64Type, PgError>(
                |x| float(name, x),
            )?))
        }
        _ => internal_err!("no function of floats"),
    }
}

fn input_out_of_range() -> PgError {
    PgError::new("22003", "input is out of range")
}

/// Evaluates a function for a whole array; `None` if a value is outside of its domain.
fn quick(name: Name, cells: &Float64Array) -> Option<Float64Array> {
    Some(match name {
        Name::Abs => cells.unary(f64::abs),
        Name::Ceil => cells.unary(f64::ceil),
        Name::Floor => cells.unary(f64::floor),
        Name::Trunc => cells.unary(f64::trunc),
        Name::Round => cells.unary(f64::round_ties_even),
        Name::Sqrt if cells.values().iter().filter(|x| **x < 0.0).count() == 0 => {
            cells.unary(f64::sqrt)
        }
        _ => return None,
    })
}

/// Evaluates a function for one double.
fn float(name: Name, x: f64) -> Result<f64, PgError> {
    let within = |fits: bool, value: f64| {
        if fits || x.is_nan() {
            Ok(value)
        } else {
            Err(input_out_of_range())
        }
    };
    let finite = |value: f64| {
        if value.is_infinite() && x.is_finite() {
            Err(float_overflow())
        } else {
            Ok(value)
        }
    };
    let periodic = |value: f64| within(!x.is_infinite(), value);
    match name {
        // PostgreSQL's sign of NaN is 0, because NaN is neither greater nor less than 0.
        Name::Sign => Ok(if x > 0.0 {
            1.0
        } else if x < 0.0 {
            -1.0
        } else {
            0.0
        }),
        Name::Sqrt if x < 0.0 => Err(negative_root()),
        Name::Sqrt => Ok(x.sqrt()),
        Name::Cbrt => Ok(c_math::cbrt(x)),
        Name::Exp => {
            let value = x.exp();
            if value == 0.0 && x.is_finite() {
                return Err(float_underflow());
            }
            finite(value)
        }
        Name::Ln | Name::Log | Name::Log10 if x == 0.0 => {
            Err(PgError::new("2201E", "cannot take logarithm of zero"))
        }
        Name::Ln | Name::Log | Name::Log10 if x < 0.0 => Err(PgError::new(
            "2201E",
            "cannot take logarithm of a negative number",
        )),
        Name::Ln => Ok(x.ln()),
        Name::Log | Name::Log10 => Ok(x.log10()),
        Name::Degrees => finite(x / (std::f64::consts::PI / 180.0)),
        Name::Radians => {
            let value = x * (std::f64::consts::PI / 180.0);
            if value == 0.0 && x != 0.0 {
                return Err(float_underflow());
            }
            Ok(value)
        }
        Name::Sin => periodic(x.sin()),
        Name::Cos => periodic(x.cos()),
        Name::Tan => periodic(x.tan()),
        Name::Cot => periodic(1.0 / x.tan()),
        Name::Asin => within((-1.0..=1.0).contains(&x), x.asin()),
        Name::Acos => within((-1.0..=1.0).contains(&x), x.acos()),
        Name::Atan => Ok(x.atan()),
        Name::Sinh => Ok(x.sinh()),
        Name::Cosh => Ok(x.cosh()),
        Name::Tanh => Ok(x.tanh()),
        Name::Asinh => Ok(c_math::asinh(x)),
        Name::Acosh => within(x >= 1.0, c_math::acosh(x)),
        Name::Atanh => within((-1.0..=1.0).contains(&x), c_math::atanh(x)),
        Name::Sind => periodic(degrees::sine(x)),
        Name::Cosd => periodic(degrees::cosine(x)),
        Name::Tand => periodic(degrees::tangent(x)),
        Name::Cotd => periodic(degrees::cotangent(x)),
        Name::Asind => within((-1.0..=1.0).contains(&x), degrees::arc_sine(x)),
        Name::Acosd => within((-1.0..=1.0).contains(&x), degrees::arc_cosine(x)),
        Name::Atand => Ok(degrees::of_tangent(x.atan())),
        _ => Err(PgError::unsupported("unknown function of a double")),
    }
}

fn negative_root() -> PgError {
    PgError::new("2201F", "cannot take square root of a negative number")
}

fn bucket_error(message: &str) -> PgError {
    PgError::new("2201G", message)
}

fn check_count(count: i32) -> Result<(), PgError> {
    if count <= 0 {
        return Err(bucket_error("count must be greater than zero"));
    }
    Ok(())
}

/// The number of the bucket after the last.
fn after(count: i32) -> Result<i32, PgError> {
    count
        .checked_add(1)
        .ok_or_else(|| PgError::out_of_range("integer"))
}

#[expect(clippy::cast_possible_truncation, reason = "a fraction of the count")]
fn float_bucket(x: f64, low: f64, high: f64, count: i32) -> Result<i32, PgError> {
    check_count(count)?;
    if x.is_nan() || low.is_nan() || high.is_nan() {
        return Err(bucket_error(
            "operand, lower bound, and upper bound cannot be NaN",
        ));
    }
    if low.is_infinite() || high.is_infinite() {
        return Err(bucket_error("lower and upper bounds must be finite"));
    }
    let share = if low < high {
        if x < low {
            return Ok(0);
        }
        if x >= high {
            return after(count);
        }
        (x - low) / (high - low)
    } else if low > high {
        if x > low {
            return Ok(0);
        }
        if x <= high {
            return after(count);
        }
        (low - x) / (low - high)
    } else {
        return Err(bucket_error("lower bound cannot equal upper bound"));
    };
    let bucket = (f64::from(count) * share) as i32;
    Ok(bucket.min(count - 1) + 1)
}

fn numeric_bucket(x: &Numeric, low: &Numeric, high: &Numeric, count: i32) -> Result<i32, PgError> {
    check_count(count)?;
    let (inside, range) = match low.compare(high) {
        std::cmp::Ordering::Equal => {
            return Err(bucket_error("lower bound cannot equal upper bound"));
        }
        std::cmp::Ordering::Less => (x.sub(low), high.sub(low)),
        std::cmp::Ordering::Greater => (low.sub(x), low.sub(high)),
    };
    if inside.is_negative() {
        return Ok(0);
    }
    if inside.compare(&range).is_ge() {
        return after(count);
    }
    let share = inside.mul(&Numeric::new(count, 0));
    let scale = share.scale.max(range.scale);
    let bucket = share.rounded(i64::from(scale)).digits / range.rounded(i64::from(scale)).digits;
    Ok(i32::try_from(&bucket).unwrap_or(count - 1) + 1)
}

/// A column of decimals, with its scale.
struct Decimals {
    cells: Decimal256Array,
    scale: u32,
}

impl Decimals {
    fn of(array: &ArrayRef) -> Result<Self> {
        let scale = digits(array.data_type()).map_or(0, |(_, scale)| scale);
        let held = DataType::Decimal256(76, i8::try_from(scale).unwrap_or(0));
        let wide = match array.data_type() {
            DataType::Decimal256(..) => Arc::clone(array),
            _ => arrow_cast(array, &held)?,
        };
        Ok(Self {
            cells: wide.as_primitive::<Decimal256Type>().clone(),
            scale: u32::try_from(scale).unwrap_or(0),
        })
    }

    fn at(&self, row: usize) -> Option<Numeric> {
        self.cells
            .is_valid(row)
            .then(|| shown_scale(self.cells.value(row), self.scale))
    }
}

fn of_decimals(name: Name, arrays: &[ArrayRef], result: &DataType) -> Result<ArrayRef> {
    if let (Name::Round | Name::Trunc, Some(value)) = (name, arrays.first())
        && let Some(found) = rounded(value, arrays.get(1), name == Name::Round, result)
    {
        return Ok(found);
    }
    let first = Decimals::of(&arrays[0])?;
    let rows = arrays[0].len();
    if matches!(name, Name::Scale | Name::MinScale) {
        let scale = |value: Numeric| {
            let value = if name == Name::MinScale {
                value.trimmed()
            } else {
                value
            };
            i32::try_from(value.scale).unwrap_or(i32::MAX)
        };
        let values = (0..rows).map(|row| first.at(row).map(scale));
        return Ok(Arc::new(values.collect::<Int32Array>()));
    }
    if let (Name::WidthBucket, [_, low, high, count]) = (name, arrays) {
        let (low, high) = (Decimals::of(low)?, Decimals::of(high)?);
        let count = count.as_primitive::<Int32Type>();
        let values = (0..rows).map(|row| match (first.at(row), low.at(row), high.at(row)) {
            (Some(x), Some(low), Some(high)) if count.is_valid(row) => {
                numeric_bucket(&x, &low, &high, count.value(row)).map(Some)
            }
            _ => Ok(None),
        });
        return Ok(Arc::new(values.collect::<Result<Int32Array, PgError>>()?));
    }
    let places = match (name, arrays.get(1)) {
        (Name::Round | Name::Trunc, Some(places)) => {
            Some(places.as_primitive::<Int32Type>().clone())
        }
        _ => None,
    };
    let second = match (name, arrays.get(1)) {
        (Name::Log | Name::Gcd | Name::Lcm, Some(second)) => Some(Decimals::of(second)?),
        _ => None,
    };
    let scale = digits(result).map_or(0, |(_, scale)| scale);
    let held_scale = u32::try_from(scale).unwrap_or(0);
    let values = (0..rows).map(|row| -> Result<Option<i256>, PgError> {
        let Some(x) = first.at(row) else {
            return Ok(None);
        };
        let value = if let Some(second) = &second {
            let Some(y) = second.at(row) else {
                return Ok(None);
            };
            two(name, &x, &y)?
        } else if let Some(places) = &places {
            if places.is_null(row) {
                return Ok(None);
            }
            let at = i64::from(places.value(row)).clamp(-1000, i64::from(held_scale));
            if name == Name::Round {
                x.rounded(at)
            } else {
                x.truncated(at)
            }
        } else {
            one(name, &x)?
        };
        let value = if result == &OPEN {
            value.rounded(i64::from(value.scale.min(held_scale)))
        } else {
            value
        };
        value.to_i256(held_scale).map(Some).ok_or_else(overflow)
    });
    let cells = values.collect::<Result<Decimal256Array, PgError>>()?;
    let cells: ArrayRef =
        Arc::new(cells.with_precision_and_scale(76, i8::try_from(scale).unwrap_or(0))?);
    if cells.data_type() == result {
        return Ok(cells);
    }
    arrow_cast(&cells, result)
}

/// Evaluates a function for one numeric.
fn one(name: Name, x: &Numeric) -> Result<Numeric, PgError> {
    let whole = x.truncated(0);
    let cut = whole.compare(x).is_ne();
    Ok(match name {
        Name::Abs if x.is_negative() => x.neg(),
        Name::Abs => x.clone(),
        Name::Sign => Numeric::new(
            i32::from(!x.is_zero()) * if x.is_negative() { -1 } else { 1 },
            0,
        ),
        Name::Ceil if cut && !x.is_negative() => whole.add(&Numeric::new(1, 0)),
        Name::Floor if cut && x.is_negative() => whole.sub(&Numeric::new(1, 0)),
        Name::Ceil | Name::Floor | Name::Trunc => whole,
        Name::Round => x.rounded(0),
        Name::Sqrt => x.sqrt().ok_or_else(negative_root)?,
        Name::Exp => power::exp(x)?,
        Name::Ln => power::ln(x)?,
        Name::Log | Name::Log10 => power::log(&Numeric::new(10, 0), x)?,
        Name::TrimScale => x.trimmed(),
        _ => return Err(PgError::unsupported("unknown function of a numeric")),
    })
}

fn two(name: Name, x: &Numeric, y: &Numeric) -> Result<Numeric, PgError> {
    if name == Name::Log {
        return power::log(x, y);
    }
    let scale = x.scale.max(y.scale);
    let (a, b) = (
        x.rounded(i64::from(scale)).digits.magnitude().clone(),
        y.rounded(i64::from(scale)).digits.magnitude().clone(),
    );
    let zero = num_bigint::BigUint::from(0_u8);
    let (mut n, mut d) = (a.clone(), b.clone());
    while d != zero {
        let rest = &n % &d;
        n = d;
        d = rest;
    }
    let value = match name {
        Name::Gcd => n,
        _ if n == zero => zero,
        _ => a / n * b,
    };
    Ok(Numeric::new(BigInt::from(value), scale))
}
