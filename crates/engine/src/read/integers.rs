//! How are whole numbers in one, two, four or eight bytes compared and widened?
//!
//! Integers, dates and the digits of decimals take as few bytes in a batch as its values need
//! (`coscan_storage::narrowest`). This file compares them in that width, and widens them to the
//! type that a plan expects. The caller knows what the numbers mean: it may compare two decimals
//! by their digits only if their scales are equal.
//! Not here: arithmetic (`fragment/evaluation/narrow.rs`), which columns are kept this way
//! (`compact.rs`).
//! I1: every result equals that of the same values in 64 bits; the number under a NULL is
//! arbitrary.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, ArrowPrimitiveType, AsArray, BooleanArray, PrimitiveArray};
use arrow::buffer::{BooleanBuffer, NullBuffer, ScalarBuffer};
use arrow::datatypes::{
    ArrowNativeType, DataType, Date32Type, Decimal32Type, Decimal64Type, Decimal128Type, Int8Type,
    Int16Type, Int32Type, Int64Type, Schema,
};
use datafusion::common::ScalarValue;
use datafusion::logical_expr::Operator;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::{BinaryExpr, Column, Literal};

/// The values of an array, in the array's width.
#[derive(Clone, Debug)]
pub(crate) enum Integers {
    One(ScalarBuffer<i8>),
    Two(ScalarBuffer<i16>),
    Four(ScalarBuffer<i32>),
    Eight(ScalarBuffer<i64>),
}

/// Evaluates the same expression over the values, whatever their width.
macro_rules! each_width {
    ($integers:expr, $values:ident => $result:expr) => {
        match $integers {
            $crate::read::Integers::One($values) => $result,
            $crate::read::Integers::Two($values) => $result,
            $crate::read::Integers::Four($values) => $result,
            $crate::read::Integers::Eight($values) => $result,
        }
    };
}
pub(crate) use each_width;

impl Integers {
    /// The values of an array of integers, dates or decimals (their digits) of at most 64 bits;
    /// `None` for any other array.
    pub(crate) fn of(array: &dyn Array) -> Option<Self> {
        Some(match array.data_type() {
            DataType::Int8 => Self::One(array.as_primitive::<Int8Type>().values().clone()),
            DataType::Int16 => Self::Two(array.as_primitive::<Int16Type>().values().clone()),
            DataType::Int32 => Self::Four(array.as_primitive::<Int32Type>().values().clone()),
            DataType::Date32 => Self::Four(array.as_primitive::<Date32Type>().values().clone()),
            DataType::Decimal32(..) => {
                Self::Four(array.as_primitive::<Decimal32Type>().values().clone())
            }
            DataType::Int64 => Self::Eight(array.as_primitive::<Int64Type>().values().clone()),
            DataType::Decimal64(..) => {
                Self::Eight(array.as_primitive::<Decimal64Type>().values().clone())
            }
            _ => return None,
        })
    }

    /// The least and the greatest value; zeros if there are no values.
    pub(crate) fn bounds(&self) -> (i64, i64) {
        each_width!(self, values => bounds(values))
    }

    /// The values as an array of the type `wanted`, with these nulls; `None` if plans do not use
    /// that type for whole numbers, or if it is narrower than the values.
    pub(crate) fn widen(&self, nulls: Option<&NullBuffer>, wanted: &DataType) -> Option<ArrayRef> {
        Some(match wanted {
            DataType::Int16 => Arc::new(self.array::<Int16Type>(nulls)?),
            DataType::Int32 => Arc::new(self.array::<Int32Type>(nulls)?),
            DataType::Int64 => Arc::new(self.array::<Int64Type>(nulls)?),
            DataType::Date32 => Arc::new(self.array::<Date32Type>(nulls)?),
            DataType::Decimal128(precision, scale) => {
                let digits = self.array::<Decimal128Type>(nulls)?;
                Arc::new(digits.with_precision_and_scale(*precision, *scale).ok()?)
            }
            _ => return None,
        })
    }

    /// The values as an array of the type `T`; `None` if `T` is narrower than the values.
    fn array<T>(&self, nulls: Option<&NullBuffer>) -> Option<PrimitiveArray<T>>
    where
        T: ArrowPrimitiveType<Native: Wide>,
    {
        let values = match self {
            Self::One(values) => T::Native::of_8(values)?,
            Self::Two(values) => T::Native::of_16(values)?,
            Self::Four(values) => T::Native::of_32(values)?,
            Self::Eight(values) => T::Native::of_64(values)?,
        };
        Some(PrimitiveArray::new(values, nulls.cloned()))
    }

    /// Whether `value op constant` is true, for each value; `None` if the operator does not
    /// compare.
    pub(crate) fn compare(&self, op: Operator, constant: i64) -> Option<BooleanBuffer> {
        each_width!(self, values => compare(values, op, constant))
    }

    /// Whether `value op other` is true, row by row; `None` if the operator does not compare.
    pub(crate) fn compare_with(&self, op: Operator, other: &Self) -> Option<BooleanBuffer> {
        match (self, other) {
            (Self::One(left), Self::One(right)) => compare_pairs(left, op, right),
            (Self::Two(left), Self::Two(right)) => compare_pairs(left, op, right),
            (Self::Four(left), Self::Four(right)) => compare_pairs(left, op, right),
            (left, right) => compare_pairs(&left.eight(), op, &right.eight()),
        }
    }

    fn eight(&self) -> ScalarBuffer<i64> {
        match self {
            Self::Eight(values) => values.clone(),
            narrow => each_width!(narrow, values => widened(values)),
        }
    }
}

/// A type of values, with the widths that convert to it without loss; the others return `None`.
trait Wide: ArrowNativeType {
    fn of_8(values: &[i8]) -> Option<ScalarBuffer<Self>>;
    fn of_16(values: &[i16]) -> Option<ScalarBuffer<Self>>;
    fn of_32(values: &[i32]) -> Option<ScalarBuffer<Self>>;
    fn of_64(values: &[i64]) -> Option<ScalarBuffer<Self>>;
}

macro_rules! wide {
    ($native:ty: $($of:ident $from:ty),*; $($not_of:ident $wider:ty),*) => {
        impl Wide for $native {
            $(fn $of(values: &[$from]) -> Option<ScalarBuffer<Self>> {
                Some(values.iter().map(|value| Self::from(*value)).collect())
            })*
            $(fn $not_of(_: &[$wider]) -> Option<ScalarBuffer<Self>> {
                None
            })*
        }
    };
}

wide! { i16: of_8 i8, of_16 i16; of_32 i32, of_64 i64 }
wide! { i32: of_8 i8, of_16 i16, of_32 i32; of_64 i64 }
wide! { i64: of_8 i8, of_16 i16, of_32 i32, of_64 i64; }
wide! { i128: of_8 i8, of_16 i16, of_32 i32, of_64 i64; }

fn bounds<T: Copy + Ord + Default + Into<i64>>(values: &[T]) -> (i64, i64) {
    let first = values.first().copied().unwrap_or_default();
    let (least, greatest) = values
        .iter()
        .fold((first, first), |(least, greatest), value| {
            (least.min(*value), greatest.max(*value))
        });
    (least.into(), greatest.into())
}

fn widened<T: Copy + Into<i64>>(values: &[T]) -> ScalarBuffer<i64> {
    values.iter().map(|value| (*value).into()).collect()
}

fn compare<T>(values: &[T], op: Operator, constant: i64) -> Option<BooleanBuffer>
where
    T: Copy + Ord + TryFrom<i64>,
{
    let Ok(constant) = T::try_from(constant) else {
        let all_are_less = constant > 0;
        let all = match op {
            Operator::Eq => false,
            Operator::NotEq => true,
            Operator::Lt | Operator::LtEq => all_are_less,
            Operator::Gt | Operator::GtEq => !all_are_less,
            _ => return None,
        };
        return Some(if all {
            BooleanBuffer::new_set(values.len())
        } else {
            BooleanBuffer::new_unset(values.len())
        });
    };
    Some(match op {
        Operator::Eq => tested(values, |value| value == constant),
        Operator::NotEq => tested(values, |value| value != constant),
        Operator::Lt => tested(values, |value| value < constant),
        Operator::LtEq => tested(values, |value| value <= constant),
        Operator::Gt => tested(values, |value| value > constant),
        Operator::GtEq => tested(values, |value| value >= constant),
        _ => return None,
    })
}

fn compare_pairs<T: Copy + Ord>(left: &[T], op: Operator, right: &[T]) -> Option<BooleanBuffer> {
    let test = match op {
        Operator::Eq => pairs(left, right, |left, right| left == right),
        Operator::NotEq => pairs(left, right, |left, right| left != right),
        Operator::Lt => pairs(left, right, |left, right| left < right),
        Operator::LtEq => pairs(left, right, |left, right| left <= right),
        Operator::Gt => pairs(left, right, |left, right| left > right),
        Operator::GtEq => pairs(left, right, |left, right| left >= right),
        _ => return None,
    };
    Some(test)
}

/// Rows tested per step. Each row's flag takes a byte, so that the compiler uses vector
/// comparisons.
const STEP: usize = 64;

/// Which of the values pass.
pub(crate) fn tested<T: Copy>(values: &[T], test: impl Fn(T) -> bool) -> BooleanBuffer {
    let mut bits = Vec::with_capacity(values.len().div_ceil(8));
    let mut flags = [0; STEP];
    for step in values.chunks(STEP) {
        for (flag, value) in flags.iter_mut().zip(step) {
            *flag = u8::from(test(*value));
        }
        pack(&flags[..step.len()], &mut bits);
    }
    BooleanBuffer::new(bits.into(), 0, values.len())
}

/// Like [`tested`], for pairs of values.
fn pairs<T: Copy>(left: &[T], right: &[T], test: impl Fn(T, T) -> bool) -> BooleanBuffer {
    let rows = left.len().min(right.len());
    let mut bits = Vec::with_capacity(rows.div_ceil(8));
    let mut flags = [0; STEP];
    for (left, right) in left.chunks(STEP).zip(right.chunks(STEP)) {
        let both = left.iter().zip(right);
        for (flag, (left, right)) in flags.iter_mut().zip(both) {
            *flag = u8::from(test(*left, *right));
        }
        pack(&flags[..left.len().min(right.len())], &mut bits);
    }
    BooleanBuffer::new(bits.into(), 0, rows)
}

/// Appends a bit for each flag (0 or 1), eight to a byte.
fn pack(flags: &[u8], bits: &mut Vec<u8>) {
    let (eights, rest) = flags.as_chunks::<8>();
    // The product has bit 8 i of the flags at bit 56 + i; no other bit gets into the top byte.
    bits.extend(eights.iter().map(|eight| {
        let [.., bits] = u64::from_le_bytes(*eight)
            .wrapping_mul(0x0102_0408_1020_4080)
            .to_le_bytes();
        bits
    }));
    if !rest.is_empty() {
        let byte = rest.iter().rev().fold(0, |byte, flag| byte << 1 | flag);
        bits.push(byte);
    }
}

/// A comparison of columns and constants of the same type that are kept as whole numbers.
pub(crate) struct Comparison {
    op: Operator,
    sides: [Side; 2],
}

enum Side {
    /// The column's position.
    Column(usize),
    Constant(i64),
}

impl Comparison {
    /// The comparison in an expression over columns of this schema; `None` if the expression is
    /// not a comparison of whole numbers.
    pub(crate) fn of(expr: &dyn PhysicalExpr, schema: &Schema) -> Option<Self> {
        let binary = expr.downcast_ref::<BinaryExpr>()?;
        let types = [binary.left(), binary.right()].map(|side| side.data_type(schema).ok());
        let [Some(left), Some(right)] = types else {
            return None;
        };
        if !alike(&left, &right) {
            return None;
        }
        let sides = [side(binary.left())?, side(binary.right())?];
        let swapped = matches!(sides[0], Side::Constant(_));
        let op = if swapped {
            binary.op().swap()?
        } else {
            *binary.op()
        };
        let [left, right] = sides;
        let sides = if swapped {
            [right, left]
        } else {
            [left, right]
        };
        compares(op).then_some(Self { op, sides })
    }

    /// The rows for which the comparison is true; NULL counts as false. `None` if a column is not
    /// kept as whole numbers.
    pub(crate) fn mask(&self, columns: &[ArrayRef]) -> Option<BooleanArray> {
        let [Side::Column(left), right] = &self.sides else {
            return None;
        };
        let left = columns.get(*left)?;
        let values = Integers::of(left)?;
        let (mask, nulls) = match right {
            Side::Constant(constant) => {
                (values.compare(self.op, *constant)?, left.nulls().cloned())
            }
            Side::Column(right) => {
                let right = columns.get(*right)?;
                let mask = values.compare_with(self.op, &Integers::of(right)?)?;
                (mask, NullBuffer::union(left.nulls(), right.nulls()))
            }
        };
        Some(match nulls.filter(|nulls| nulls.null_count() > 0) {
            Some(nulls) => (&mask & nulls.inner()).into(),
            None => mask.into(),
        })
    }
}

/// Whether the operator is one of the six that [`Integers::compare`] knows.
pub(crate) fn compares(op: Operator) -> bool {
    matches!(
        op,
        Operator::Eq
            | Operator::NotEq
            | Operator::Lt
            | Operator::LtEq
            | Operator::Gt
            | Operator::GtEq
    )
}

/// Whether both types' values are kept as whole numbers that compare as the values do.
fn alike(left: &DataType, right: &DataType) -> bool {
    match (left, right) {
        (DataType::Decimal128(_, left), DataType::Decimal128(_, right)) => left == right,
        (left, right) => left == right && is_whole(left),
    }
}

/// Whether the type's values are whole numbers of at most 64 bits.
pub(crate) fn is_whole(data_type: &DataType) -> bool {
    matches!(
        data_type,
        DataType::Int16 | DataType::Int32 | DataType::Int64 | DataType::Date32
    )
}

fn side(expr: &std::sync::Arc<dyn PhysicalExpr>) -> Option<Side> {
    if let Some(column) = expr.downcast_ref::<Column>() {
        return Some(Side::Column(column.index()));
    }
    whole_of(expr.downcast_ref::<Literal>()?.value()).map(Side::Constant)
}

/// The number of a constant, or the digits of a decimal; `None` if 64 bits cannot hold it.
pub(crate) fn whole_of(value: &ScalarValue) -> Option<i64> {
    match value {
        ScalarValue::Int16(value) => value.map(i64::from),
        ScalarValue::Int32(value) | ScalarValue::Date32(value) => value.map(i64::from),
        ScalarValue::Int64(value) => *value,
        ScalarValue::Decimal128(Some(value), ..) => i64::try_from(*value).ok(),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use arrow::array::Int64Array;
    use arrow::datatypes::Field;
    use coscan_storage::narrowest;
    use datafusion::arrow::record_batch::RecordBatch;
    use datafusion::physical_expr::expressions::{col, lit};
    use proptest::prelude::*;

    use super::*;

    const OPS: [Operator; 6] = [
        Operator::Eq,
        Operator::NotEq,
        Operator::Lt,
        Operator::LtEq,
        Operator::Gt,
        Operator::GtEq,
    ];

    fn number() -> impl Strategy<Value = i64> {
        let edges = [
            0,
            i8::MAX.into(),
            i16::MAX.into(),
            i32::MAX.into(),
            i64::MAX - 1,
        ];
        (
            proptest::sample::select(edges.to_vec()),
            -2i64..2,
            any::<bool>(),
        )
            .prop_map(|(edge, off, negative)| {
                if negative {
                    !edge + off.max(0)
                } else {
                    edge + off.min(1)
                }
            })
    }

    /// Values of one width (8, 16, 32 or 64 bits), with one in ten from another; some are NULL.
    fn column() -> impl Strategy<Value = Vec<Option<i64>>> {
        let width = proptest::sample::select(vec![8u32, 16, 32, 64]);
        let one = (number(), width).prop_map(|(value, bits)| value << (64 - bits) >> (64 - bits));
        (one, proptest::sample::select(vec![8u32, 16, 32, 64])).prop_flat_map(|(first, bits)| {
            let rest = number().prop_map(move |value| value << (64 - bits) >> (64 - bits));
            let value = prop_oneof![9 => rest, 1 => Just(first)];
            proptest::collection::vec(proptest::option::weighted(0.9, value), 150)
        })
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 512, ..ProptestConfig::default() })]

        #[test]
        fn kept_values_are_the_original_ones(values in column()) {
            let wide: ArrayRef = Arc::new(Int64Array::from(values));
            let kept = narrowest(Arc::clone(&wide));
            let integers = Integers::of(&kept).unwrap();
            let back = integers.widen(kept.nulls(), &DataType::Int64).unwrap();
            prop_assert_eq!(&back, &wide);
            let (low, high) = integers.bounds();
            for value in wide.as_primitive::<Int64Type>().iter().flatten() {
                prop_assert!((low..=high).contains(&value));
            }
        }

        #[test]
        fn comparisons_are_those_of_datafusion(
            left in column(),
            right in column(),
            constant in number(),
            op in proptest::sample::select(OPS.to_vec()),
            shape in 0..3,
        ) {
            let fields = ["a", "b"].map(|name| Field::new(name, DataType::Int64, true));
            let schema = Arc::new(Schema::new(fields.to_vec()));
            let wide: Vec<ArrayRef> =
                vec![Arc::new(Int64Array::from(left)), Arc::new(Int64Array::from(right))];
            let (a, b) = (col("a", &schema).unwrap(), col("b", &schema).unwrap());
            let (left, right) = match shape {
                0 => (a, b),
                1 => (b, lit(constant)),
                _ => (lit(constant), a),
            };
            let expr = BinaryExpr::new(left, op, right);
            let comparison = Comparison::of(&expr, &schema).unwrap();
            let kept: Vec<ArrayRef> = wide.iter().map(|array| narrowest(Arc::clone(array))).collect();
            let batch = RecordBatch::try_new(schema, wide).unwrap();
            let expected = expr.evaluate(&batch).unwrap().into_array(150).unwrap();
            let expected: Vec<bool> =
                expected.as_boolean().iter().map(|value| value == Some(true)).collect();
            let found: Vec<bool> = comparison.mask(&kept).unwrap().values().iter().collect();
            prop_assert_eq!(found, expected);
        }
    }
}
