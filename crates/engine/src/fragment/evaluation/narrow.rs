//! Decimals in 64 or 32 bits, where these are proved to suffice.
//!
//! A decimal of up to 18 digits is an integer of 64 bits and a scale. DataFusion computes with 128
//! bits and checks every operation. This code first finds the least and the greatest value of each
//! column of a batch, which costs a fraction of one addition. Interval arithmetic over these
//! bounds proves whether an expression stays within 64 bits, or 32. If it does, it is computed in
//! that width, unchecked. The bounds come from the values, not from the file's statistics, so
//! wrong statistics change nothing. Columns are read as they are kept, in one to eight bytes per
//! value. Integers and dates are read in the same way, but only for comparisons and casts to
//! decimals. Integer arithmetic is done in this way only if the bounds prove that no result leaves
//! its type: the check that PostgreSQL's answer needs could then never fail.
//! Not here: sums (`sums.rs`); expressions without a proof (`graph.rs`: DataFusion's own
//! expressions).
//! N1: values equal DataFusion's, digit by digit: scales are those of its types, and an operation
//! whose result may not fit is refused.

use std::borrow::Cow;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, BooleanArray, Float64Array};
use arrow::buffer::{NullBuffer, ScalarBuffer};
use arrow::datatypes::{ArrowNativeType, DataType, Schema};
use coscan_pg::numbers::CheckedInteger;
use datafusion::logical_expr::Operator;
use datafusion::physical_expr::expressions::{BinaryExpr, CastExpr, Literal, NegativeExpr};
use datafusion::physical_expr::{PhysicalExpr, ScalarFunctionExpr};

use crate::read::{Integers, compares, each_width, is_whole, whole_of};

/// Values of at most 64 bits with their bounds. The value under a null is an arbitrary number
/// within the bounds.
#[derive(Clone, Debug)]
pub(crate) struct Narrow {
    pub(crate) values: Integers,
    pub(crate) nulls: Option<NullBuffer>,
    pub(crate) low: i64,
    pub(crate) high: i64,
}

/// A node's position in its graph (`graph.rs`).
pub(crate) type NodeId = usize;

/// An input of an operation.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Operand {
    Node(NodeId),
    Constant(i64),
}

/// An operation that may be computed in 64 bits. Factors bring operands to one scale.
#[derive(Clone, Debug)]
pub(crate) enum NarrowOp {
    Add([(Operand, i64); 2]),
    Subtract([(Operand, i64); 2]),
    Multiply([Operand; 2]),
    Negate(Operand),
    /// Plus, minus or multiply of integers, whose results must be within the bounds of their type.
    Whole(Operator, [Operand; 2], (i128, i128)),
    /// To a larger scale: operand, factor, and the power of ten that the absolute value of the
    /// result must stay below.
    Rescale(Operand, i64, i128),
}

/// A comparison that may be computed in 64 bits.
#[derive(Clone, Debug)]
pub(crate) struct NarrowComparison {
    pub(crate) op: Operator,
    pub(crate) sides: [(Operand, i64); 2],
}

impl Narrow {
    /// A decoded column, if its values are whole numbers of at most 64 bits.
    pub(crate) fn of_array(array: &ArrayRef) -> Option<Self> {
        let values = Integers::of(array)?;
        let (low, high) = values.bounds();
        Some(Self {
            values,
            nulls: array.nulls().filter(|n| n.null_count() > 0).cloned(),
            low,
            high,
        })
    }

    /// The same values in DataFusion's type.
    pub(crate) fn widen(&self, data_type: &DataType) -> Option<ArrayRef> {
        self.values.widen(self.nulls.as_ref(), data_type)
    }
}

/// An operand: a node's values, or a constant.
#[derive(Clone, Copy)]
enum Side<'a> {
    Values(&'a Narrow),
    Constant(i64),
}

impl<'a> Side<'a> {
    fn of(operand: Operand, known: &'a [Option<Narrow>; 2], at: usize) -> Option<Self> {
        match operand {
            Operand::Constant(value) => Some(Self::Constant(value)),
            Operand::Node(_) => known[at].as_ref().map(Side::Values),
        }
    }

    fn bounds(self) -> (i128, i128) {
        match self {
            Self::Values(narrow) => (narrow.low.into(), narrow.high.into()),
            Self::Constant(value) => (value.into(), value.into()),
        }
    }

    fn nulls(self) -> Option<&'a NullBuffer> {
        match self {
            Self::Values(narrow) => narrow.nulls.as_ref(),
            Self::Constant(_) => None,
        }
    }
}

fn fits(low: i128, high: i128) -> Option<(i64, i64)> {
    Some((i64::try_from(low).ok()?, i64::try_from(high).ok()?))
}

/// The bounds of a side times its factor, if they fit 64 bits.
fn scaled(side: Side<'_>, factor: i64) -> Option<(i128, i128)> {
    let (low, high) = side.bounds();
    // The factor is positive, and both are 64 bits wide.
    let (low, high) = (low * i128::from(factor), high * i128::from(factor));
    fits(low, high)?;
    Some((low, high))
}

/// The integer type of the results. Arithmetic is modulo its size, so the low bits of the operands
/// suffice, and only the result must fit.
trait Word: ArrowNativeType {
    fn of(value: i64) -> Self;
    fn plus(self, other: Self) -> Self;
    fn minus(self, other: Self) -> Self;
    fn times(self, other: Self) -> Self;
}

macro_rules! word {
    ($($native:ty),*) => {$(
        #[allow(clippy::cast_possible_truncation, trivial_numeric_casts, reason = "the low bits")]
        impl Word for $native {
            fn of(value: i64) -> Self {
                value as $native
            }
            fn plus(self, other: Self) -> Self {
                self.wrapping_add(other)
            }
            fn minus(self, other: Self) -> Self {
                self.wrapping_sub(other)
            }
            fn times(self, other: Self) -> Self {
                self.wrapping_mul(other)
            }
        }
    )*};
}

word! { i32, i64 }

/// The operation on each pair of values.
trait Operation: Copy {
    fn of<W: Word>(self, left: W, right: W) -> W;
}

/// The sum of the sides after their factors.
#[derive(Clone, Copy)]
struct Sum(i64, i64);

/// The difference of the sides after their factors.
#[derive(Clone, Copy)]
struct Difference(i64, i64);

#[derive(Clone, Copy)]
struct Product;

impl Operation for Sum {
    fn of<W: Word>(self, left: W, right: W) -> W {
        left.times(W::of(self.0)).plus(right.times(W::of(self.1)))
    }
}

impl Operation for Difference {
    fn of<W: Word>(self, left: W, right: W) -> W {
        left.times(W::of(self.0)).minus(right.times(W::of(self.1)))
    }
}

impl Operation for Product {
    fn of<W: Word>(self, left: W, right: W) -> W {
        left.times(right)
    }
}

/// Values of four or eight bytes. Narrower values are widened into a copy of the batch's length.
enum Wide<'a> {
    Four(Cow<'a, [i32]>),
    Eight(&'a [i64]),
}

impl<'a> Wide<'a> {
    fn of(values: &'a Integers) -> Self {
        match values {
            Integers::One(values) => Self::Four(values.iter().map(|v| i32::from(*v)).collect()),
            Integers::Two(values) => Self::Four(values.iter().map(|v| i32::from(*v)).collect()),
            Integers::Four(values) => Self::Four(Cow::Borrowed(values)),
            Integers::Eight(values) => Self::Eight(values),
        }
    }
}

/// The operation's result for each pair. The caller has proved that all results are within the
/// bounds.
fn each(
    sides: [Side<'_>; 2],
    rows: usize,
    (low, high): (i64, i64),
    operation: impl Operation,
) -> Integers {
    if i32::try_from(low).is_ok() && i32::try_from(high).is_ok() {
        Integers::Four(words(sides, rows, operation))
    } else {
        Integers::Eight(words(sides, rows, operation))
    }
}

fn words<W: Word>(sides: [Side<'_>; 2], rows: usize, operation: impl Operation) -> ScalarBuffer<W> {
    match sides {
        [Side::Values(left), Side::Values(right)] => {
            match (Wide::of(&left.values), Wide::of(&right.values)) {
                (Wide::Four(left), Wide::Four(right)) => zipped(&left, &right, operation),
                (Wide::Four(left), Wide::Eight(right)) => zipped(&left, right, operation),
                (Wide::Eight(left), Wide::Four(right)) => zipped(left, &right, operation),
                (Wide::Eight(left), Wide::Eight(right)) => zipped(left, right, operation),
            }
        }
        [Side::Values(left), Side::Constant(right)] => {
            let right = W::of(right);
            each_width!(&left.values, left => mapped(left, |left| operation.of(left, right)))
        }
        [Side::Constant(left), Side::Values(right)] => {
            let left = W::of(left);
            each_width!(&right.values, right => mapped(right, |right| operation.of(left, right)))
        }
        [Side::Constant(left), Side::Constant(right)] => {
            std::iter::repeat_n(operation.of(W::of(left), W::of(right)), rows).collect()
        }
    }
}

fn mapped<W: Word, T: Copy + Into<i64>>(values: &[T], f: impl Fn(W) -> W) -> ScalarBuffer<W> {
    let words = values.iter().map(|value| W::of((*value).into()));
    words.map(f).collect()
}

fn zipped<W: Word, L, R>(left: &[L], right: &[R], operation: impl Operation) -> ScalarBuffer<W>
where
    L: Copy + Into<i64>,
    R: Copy + Into<i64>,
{
    let pairs = left.iter().zip(right);
    pairs
        .map(|(left, right)| operation.of(W::of((*left).into()), W::of((*right).into())))
        .collect()
}

impl NarrowOp {
    /// The operands, by position.
    pub(crate) fn operands(&self) -> [Option<Operand>; 2] {
        match self {
            Self::Add([(left, _), (right, _)]) | Self::Subtract([(left, _), (right, _)]) => {
                [Some(*left), Some(*right)]
            }
            Self::Multiply([left, right]) | Self::Whole(_, [left, right], _) => {
                [Some(*left), Some(*right)]
            }
            Self::Negate(operand) | Self::Rescale(operand, ..) => [Some(*operand), None],
        }
    }

    /// The result, if it is proved to fit 64 bits. `known` has the values of the operands that are
    /// nodes.
    pub(crate) fn apply(&self, known: &[Option<Narrow>; 2], rows: usize) -> Option<Narrow> {
        let [first, second] = self.operands();
        let first = Side::of(first?, known, 0)?;
        let second = || Side::of(second?, known, 1);
        match self {
            Self::Add([(_, f), (_, g)]) => {
                let sides = [first, second()?];
                let (a, b) = (scaled(sides[0], *f)?, scaled(sides[1], *g)?);
                let bounds = fits(a.0 + b.0, a.1 + b.1)?;
                Some(made(sides, rows, bounds, Sum(*f, *g)))
            }
            Self::Subtract([(_, f), (_, g)]) => {
                let sides = [first, second()?];
                let (a, b) = (scaled(sides[0], *f)?, scaled(sides[1], *g)?);
                let bounds = fits(a.0 - b.1, a.1 - b.0)?;
                Some(made(sides, rows, bounds, Difference(*f, *g)))
            }
            Self::Multiply(_) => {
                let sides = [first, second()?];
                let (low, high) = product(sides[0].bounds(), sides[1].bounds())?;
                Some(made(sides, rows, fits(low, high)?, Product))
            }
            Self::Whole(op, _, of_type) => whole(*op, [first, second()?], rows, *of_type),
            Self::Negate(_) => {
                let (low, high) = first.bounds();
                let sides = [Side::Constant(0), first];
                Some(made(sides, rows, fits(-high, -low)?, Difference(1, 1)))
            }
            Self::Rescale(_, factor, limit) => {
                let (low, high) = scaled(first, *factor)?;
                if low <= -limit || high >= *limit {
                    return None;
                }
                if let (Side::Values(same), 1) = (first, *factor) {
                    return Some(same.clone());
                }
                let sides = [first, Side::Constant(*factor)];
                Some(made(sides, rows, fits(low, high)?, Product))
            }
        }
    }
}

/// The bounds of the products of values with these bounds.
fn product(a: (i128, i128), b: (i128, i128)) -> Option<(i128, i128)> {
    let corners = [a.0 * b.0, a.0 * b.1, a.1 * b.0, a.1 * b.1];
    let low = corners.iter().copied().min()?;
    Some((low, corners.iter().copied().max()?))
}

/// Plus, minus or multiply of integers, if no result leaves the bounds of their type.
fn whole(
    op: Operator,
    sides: [Side<'_>; 2],
    rows: usize,
    (least, greatest): (i128, i128),
) -> Option<Narrow> {
    let (a, b) = (sides[0].bounds(), sides[1].bounds());
    let (low, high) = match op {
        Operator::Plus => (a.0 + b.0, a.1 + b.1),
        Operator::Minus => (a.0 - b.1, a.1 - b.0),
        _ => product(a, b)?,
    };
    if low < least || high > greatest {
        return None;
    }
    let bounds = fits(low, high)?;
    Some(match op {
        Operator::Plus => made(sides, rows, bounds, Sum(1, 1)),
        Operator::Minus => made(sides, rows, bounds, Difference(1, 1)),
        _ => made(sides, rows, bounds, Product),
    })
}

/// The result of an operation with its bounds.
fn made(
    sides: [Side<'_>; 2],
    rows: usize,
    bounds: (i64, i64),
    operation: impl Operation,
) -> Narrow {
    Narrow {
        values: each(sides, rows, bounds, operation),
        nulls: NullBuffer::union(sides[0].nulls(), sides[1].nulls()),
        low: bounds.0,
        high: bounds.1,
    }
}

impl NarrowComparison {
    /// The result, if both sides are known in 64 bits and still fit there at one scale.
    pub(crate) fn apply(&self, known: &[Option<Narrow>; 2], rows: usize) -> Option<BooleanArray> {
        let [(left, f), (right, g)] = self.sides;
        let sides = [Side::of(left, known, 0)?, Side::of(right, known, 1)?];
        scaled(sides[0], f)?;
        scaled(sides[1], g)?;
        let values = match (sides, f, g) {
            ([Side::Values(left), Side::Constant(right)], 1, g) => {
                left.values.compare(self.op, right.wrapping_mul(g))?
            }
            ([Side::Constant(left), Side::Values(right)], f, 1) => right
                .values
                .compare(self.op.swap()?, left.wrapping_mul(f))?,
            ([Side::Values(left), Side::Values(right)], 1, 1) => {
                left.values.compare_with(self.op, &right.values)?
            }
            ([left, right], f, g) => {
                let scaled = |side, factor| words([side, Side::Constant(factor)], rows, Product);
                let (left, right) = (scaled(left, f), scaled(right, g));
                Integers::Eight(left).compare_with(self.op, &Integers::Eight(right))?
            }
        };
        let nulls = NullBuffer::union(sides[0].nulls(), sides[1].nulls());
        Some(BooleanArray::new(values, nulls))
    }
}

/// A decimal as a floating-point number.
#[derive(Clone, Copy, Debug)]
pub(crate) struct NarrowFloat {
    pub(crate) operand: Operand,
    scale: i8,
}

impl NarrowFloat {
    /// The result, if the operand is known in 64 bits. It is computed as arrow's cast does: the
    /// digits, rounded to the nearest float, divided by a power of ten.
    pub(crate) fn apply(&self, known: &[Option<Narrow>; 2]) -> Option<Float64Array> {
        let Side::Values(narrow) = Side::of(self.operand, known, 0)? else {
            return None;
        };
        let power = 10f64.powi(self.scale.into());
        let values = each_width!(&narrow.values, values => floats(values, power));
        Some(Float64Array::new(values, narrow.nulls.clone()))
    }
}

fn floats<T: Whole>(values: &[T], power: f64) -> ScalarBuffer<f64> {
    values.iter().map(|value| value.float() / power).collect()
}

/// A whole number of at most 64 bits.
trait Whole: Copy {
    /// The nearest float.
    fn float(self) -> f64;
}

macro_rules! whole {
    ($($native:ty),*) => {$(
        #[allow(clippy::cast_precision_loss, clippy::cast_lossless, reason = "the nearest")]
        impl Whole for $native {
            fn float(self) -> f64 {
                self as f64
            }
        }
    )*};
}

whole! { i8, i16, i32, i64 }

/// The 64-bit form of an expression.
pub(crate) enum Narrowed {
    Value(NarrowOp),
    Comparison(NarrowComparison),
    Float(NarrowFloat),
}

/// The 64-bit form of an expression; `None` if it has none. `operands` are the nodes of its
/// children; `None` stands for a child that is a literal.
pub(crate) fn narrowed(
    expr: &Arc<dyn PhysicalExpr>,
    operands: &[Option<NodeId>],
    schema: &Schema,
) -> Option<Narrowed> {
    let sought = Sought {
        expr,
        children: expr.children(),
        operands,
        schema,
    };
    let result = expr.data_type(schema).ok()?;
    if let Some(op) = whole_operator(expr).filter(|_| is_integer(&result)) {
        return sought.whole(op, &result);
    }
    if let Some(binary) = expr.downcast_ref::<BinaryExpr>() {
        return sought.binary(binary);
    }
    if expr.is::<NegativeExpr>() {
        let (operand, _) = sought.decimal(0)?;
        return Some(Narrowed::Value(NarrowOp::Negate(operand)));
    }
    sought.cast(expr.downcast_ref::<CastExpr>()?)
}

/// An expression whose 64-bit form is sought.
struct Sought<'a> {
    expr: &'a Arc<dyn PhysicalExpr>,
    children: Vec<&'a Arc<dyn PhysicalExpr>>,
    operands: &'a [Option<NodeId>],
    schema: &'a Schema,
}

impl Sought<'_> {
    fn operand(&self, at: usize) -> Option<Operand> {
        match self.operands.get(at)? {
            Some(node) => Some(Operand::Node(*node)),
            None => constant(self.children.get(at)?).map(Operand::Constant),
        }
    }

    /// An operand that is a decimal, with its scale.
    fn decimal(&self, at: usize) -> Option<(Operand, i8)> {
        match self.children.get(at)?.data_type(self.schema).ok()? {
            DataType::Decimal128(_, scale) => Some((self.operand(at)?, scale)),
            _ => None,
        }
    }

    /// An operation on integers of one type.
    fn whole(&self, op: Operator, result: &DataType) -> Option<Narrowed> {
        let is_result = |own: DataType| own == *result;
        let mut types = self
            .children
            .iter()
            .map(|child| child.data_type(self.schema));
        let of_one_type = types.all(|own| own.is_ok_and(is_result));
        // Results of 16 bits are computed in 32, which cannot be widened to 16.
        let bounds = match result {
            DataType::Int32 => (i32::MIN.into(), i32::MAX.into()),
            DataType::Int64 => (i64::MIN.into(), i64::MAX.into()),
            _ => return None,
        };
        let sides = [self.operand(0)?, self.operand(1)?];
        of_one_type.then_some(Narrowed::Value(NarrowOp::Whole(op, sides, bounds)))
    }

    /// A comparison, or a sum, a difference or a product of decimals.
    fn binary(&self, binary: &BinaryExpr) -> Option<Narrowed> {
        let op = *binary.op();
        let types = [binary.left(), binary.right()].map(|side| side.data_type(self.schema).ok());
        if types[0] == types[1] && types[0].as_ref().is_some_and(is_whole) {
            let sides = [(self.operand(0)?, 1), (self.operand(1)?, 1)];
            let comparison = compares(op).then_some(NarrowComparison { op, sides });
            return comparison.map(Narrowed::Comparison);
        }
        let (left, right) = (self.decimal(0)?, self.decimal(1)?);
        let common = left.1.max(right.1);
        let sides = [
            (left.0, power(common, left.1)?),
            (right.0, power(common, right.1)?),
        ];
        if compares(op) {
            return Some(Narrowed::Comparison(NarrowComparison { op, sides }));
        }
        let DataType::Decimal128(_, scale) = self.expr.data_type(self.schema).ok()? else {
            return None;
        };
        match op {
            Operator::Plus if scale == common => Some(Narrowed::Value(NarrowOp::Add(sides))),
            Operator::Minus if scale == common => Some(Narrowed::Value(NarrowOp::Subtract(sides))),
            Operator::Multiply if left.1.checked_add(right.1) == Some(scale) => {
                Some(Narrowed::Value(NarrowOp::Multiply([left.0, right.0])))
            }
            _ => None,
        }
    }

    /// A cast of an integer to a decimal, or of a decimal to another one or to a float.
    fn cast(&self, cast: &CastExpr) -> Option<Narrowed> {
        let of_integer = is_integer(&self.children.first()?.data_type(self.schema).ok()?);
        let (operand, from) = if of_integer {
            (self.operand(0)?, 0)
        } else {
            self.decimal(0)?
        };
        if !of_integer && *cast.cast_type() == DataType::Float64 {
            let float = NarrowFloat {
                operand,
                scale: from,
            };
            return Some(Narrowed::Float(float));
        }
        let DataType::Decimal128(precision, scale) = cast.cast_type() else {
            return None;
        };
        let limit = 10i128.checked_pow(u32::from(*precision))?;
        let factor = power(*scale, from)?;
        Some(Narrowed::Value(NarrowOp::Rescale(operand, factor, limit)))
    }
}

/// Plus, minus or multiply, with or without a check of the result; `None` for another expression
/// or for a type other than integers.
fn whole_operator(expr: &Arc<dyn PhysicalExpr>) -> Option<Operator> {
    let op = match expr.downcast_ref::<BinaryExpr>() {
        Some(binary) => *binary.op(),
        None => {
            let call = expr.downcast_ref::<ScalarFunctionExpr>()?;
            call.fun().inner().downcast_ref::<CheckedInteger>()?.op()
        }
    };
    matches!(op, Operator::Plus | Operator::Minus | Operator::Multiply).then_some(op)
}

fn is_integer(data_type: &DataType) -> bool {
    matches!(
        data_type,
        DataType::Int16 | DataType::Int32 | DataType::Int64
    )
}

/// The factor from decimals of scale `from` to scale `to`; `None` if `to` is smaller or the factor
/// does not fit.
fn power(to: i8, from: i8) -> Option<i64> {
    let digits = u32::try_from(to.checked_sub(from)?).ok()?;
    10i64.checked_pow(digits)
}

fn constant(expr: &Arc<dyn PhysicalExpr>) -> Option<i64> {
    whole_of(expr.downcast_ref::<Literal>()?.value())
}
