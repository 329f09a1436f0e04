//! In which type are numbers compared?
//!
//! | numbers | type |
//! |---|---|
//! | the same type; integers; numerics whose combined digits fit 38 | DataFusion's |
//! | a float and other numbers | double precision |
//! | numerics whose combined digits fit 76 | a numeric with these digits |
//! | other numerics | none: `pg_numeric_order(a, b)` is compared with 0 |
//!
//! A comparison never overflows.

use std::cmp::Ordering;
use std::sync::Arc;

use datafusion::arrow::array::{Array, AsArray, Int32Array};
use datafusion::arrow::datatypes::{DataType, Decimal256Type};
use datafusion::common::internal_err;
use datafusion::error::Result;
use datafusion::logical_expr::{
    BinaryExpr, Cast, ColumnarValue, Expr, Operator, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl,
    Signature, Volatility, lit,
};

use crate::casts::{Target, arrow_cast, cast_number, decimal};
use crate::numbers::arithmetic::{as_decimal, digits};
use crate::numbers::numeric::Numeric;

/// See the file's header.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Meeting {
    /// Without casts, by DataFusion.
    AsTheyAre,
    /// In this type.
    In(DataType),
    /// No type holds all values.
    Apart,
}

/// The type in which values of these types are compared.
pub(crate) fn meeting(types: &[DataType]) -> Meeting {
    let known = || types.iter().filter(|held| !held.is_null());
    let same = known().zip(known().skip(1)).all(|(a, b)| a == b);
    if same || !known().all(DataType::is_numeric) {
        return Meeting::AsTheyAre;
    }
    if known().any(DataType::is_floating) {
        return Meeting::In(DataType::Float64);
    }
    if !known().any(DataType::is_decimal) {
        return Meeting::AsTheyAre;
    }
    let (mut whole, mut scale, mut is_wide) = (0, 0, false);
    for held in known() {
        let Some(held) = decimal_of(held) else {
            return Meeting::AsTheyAre;
        };
        is_wide |= matches!(held, DataType::Decimal256(..));
        let (precision, own) = digits(&held).unwrap_or_default();
        (whole, scale) = (whole.max(precision - own), scale.max(own));
    }
    match (u8::try_from(whole + scale), i8::try_from(scale)) {
        (Ok(..=38), _) if !is_wide => Meeting::AsTheyAre,
        (Ok(precision @ ..=76), Ok(scale)) if is_wide => {
            Meeting::In(DataType::Decimal256(precision, scale))
        }
        (Ok(precision @ ..=76), Ok(scale)) => Meeting::In(decimal(precision, scale)),
        _ => Meeting::Apart,
    }
}

/// `left op right`, with the operands cast if necessary.
pub(crate) fn compared(
    op: Operator,
    (left, a): (Expr, &DataType),
    (right, b): (Expr, &DataType),
) -> Expr {
    let plain =
        |left, right| Expr::BinaryExpr(BinaryExpr::new(Box::new(left), op, Box::new(right)));
    match meeting(&[a.clone(), b.clone()]) {
        Meeting::AsTheyAre => plain(left, right),
        Meeting::In(held) => plain(met(left, a, &held), met(right, b, &held)),
        Meeting::Apart => plain(order().call(vec![left, right]), lit(0)),
    }
}

/// Casts a value of the type `from` to the type of a comparison.
pub(crate) fn met(expr: Expr, from: &DataType, held: &DataType) -> Expr {
    if from == held {
        return expr;
    }
    // Arrow's cast of a numeric does not give the nearest float.
    if *held == DataType::Float64 && from.is_decimal() {
        return cast_number(expr, &Target::Float8);
    }
    Expr::Cast(Cast::new(Box::new(expr), held.clone()))
}

/// The PostgreSQL integer type that holds an Arrow integer.
pub(super) fn rank(data_type: &DataType) -> Option<DataType> {
    match data_type {
        DataType::Int8 | DataType::UInt8 | DataType::Int16 => Some(DataType::Int16),
        DataType::UInt16 | DataType::Int32 => Some(DataType::Int32),
        DataType::UInt32 | DataType::Int64 => Some(DataType::Int64),
        _ => None,
    }
}

/// The decimal type that holds an integer or a numeric.
pub(super) fn decimal_of(data_type: &DataType) -> Option<DataType> {
    match data_type {
        DataType::UInt64 => Some(DataType::Decimal128(20, 0)),
        DataType::Decimal32(p, s) | DataType::Decimal64(p, s) => Some(DataType::Decimal128(*p, *s)),
        other => as_decimal(&rank(other).unwrap_or_else(|| other.clone())),
    }
}

/// The function that compares numbers without a common type.
pub(crate) fn order() -> ScalarUDF {
    ScalarUDF::from(Order::new())
}

/// `pg_numeric_order(a, b)`: −1, 0 or 1.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Order {
    signature: Signature,
}

impl Order {
    fn new() -> Self {
        Self {
            signature: Signature::any(2, Volatility::Immutable),
        }
    }
}

impl ScalarUDFImpl for Order {
    fn name(&self) -> &'static str {
        "pg_numeric_order"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(DataType::Int32)
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let arrays = ColumnarValue::values_to_arrays(&args.args)?;
        let mut sides = vec![];
        for array in &arrays {
            let Some(held) = decimal_of(array.data_type()) else {
                return internal_err!("{} takes numerics", self.name());
            };
            let (_, scale) = digits(&held).unwrap_or_default();
            let wide = DataType::Decimal256(76, i8::try_from(scale).unwrap_or_default());
            let held = arrow_cast(array, &held)?;
            sides.push((
                arrow_cast(&held, &wide)?,
                u32::try_from(scale).unwrap_or_default(),
            ));
        }
        let [(left, s1), (right, s2)] = sides.as_slice() else {
            return internal_err!("{} takes two numerics", self.name());
        };
        let (left, right) = (
            left.as_primitive::<Decimal256Type>(),
            right.as_primitive::<Decimal256Type>(),
        );
        let order = left.iter().zip(right).map(|(left, right)| {
            let (left, right) = (Numeric::of_i256(left?, *s1), Numeric::of_i256(right?, *s2));
            Some(match left.compare(&right) {
                Ordering::Less => -1,
                Ordering::Equal => 0,
                Ordering::Greater => 1,
            })
        });
        Ok(ColumnarValue::Array(Arc::new(
            order.collect::<Int32Array>(),
        )))
    }
}
