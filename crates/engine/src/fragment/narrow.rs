//! Decimals in 64 bits, where that is proved.
//!
//! A decimal of up to 18 digits is an integer of 64 bits and a scale. DataFusion computes with 128
//! bits and checks every operation. Here the least and greatest value of each column of a batch are
//! looked up, which costs a fraction of one addition; interval arithmetic over these says whether
//! an expression can leave 64 bits; if it cannot, it is computed in 64 bits, unchecked. The bounds
//! are those of the very values, not those that a file claims, so a file that lies changes nothing.
//! Not here: sums (`sums.rs`), what is done where nothing is proved (`graph.rs`: DataFusion's own
//! expressions).
//! N1: values are DataFusion's, digit by digit: scales are those of its types, and what does not
//! fit is refused.

use arrow::array::{Array, ArrayRef, AsArray, BooleanArray, Decimal64Array, Decimal128Array};
use arrow::buffer::{BooleanBuffer, NullBuffer, ScalarBuffer};
use arrow::datatypes::{DataType, Decimal64Type, Schema};
use datafusion::common::ScalarValue;
use datafusion::logical_expr::Operator;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::{BinaryExpr, CastExpr, Literal, NegativeExpr};
use std::sync::Arc;

use super::graph::NodeId;

/// Values of 64 bits with their bounds. What is under a null is any number within the bounds.
#[derive(Clone, Debug)]
pub(crate) struct Narrow {
    pub(crate) values: ScalarBuffer<i64>,
    pub(crate) nulls: Option<NullBuffer>,
    pub(crate) low: i64,
    pub(crate) high: i64,
}

/// An input of an operation.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Operand {
    Node(NodeId),
    Constant(i64),
}

/// An operation that may be done in 64 bits. Factors bring operands to one scale.
#[derive(Clone, Debug)]
pub(crate) enum NarrowOp {
    Add([(Operand, i64); 2]),
    Subtract([(Operand, i64); 2]),
    Multiply([Operand; 2]),
    Negate(Operand),
    /// To a larger scale, if the result has at most so many digits.
    Rescale(Operand, i64, i128),
}

/// A comparison that may be done in 64 bits.
#[derive(Clone, Debug)]
pub(crate) struct NarrowComparison {
    pub(crate) op: Operator,
    pub(crate) sides: [(Operand, i64); 2],
}

impl Narrow {
    /// A column of decimals as it was decoded.
    pub(crate) fn of_array(array: &ArrayRef) -> Option<Self> {
        let array: &Decimal64Array = array.as_primitive_opt::<Decimal64Type>()?;
        Some(Self::bounded(
            array.values().clone(),
            array.nulls().filter(|n| n.null_count() > 0).cloned(),
        ))
    }

    fn bounded(values: ScalarBuffer<i64>, nulls: Option<NullBuffer>) -> Self {
        let (mut low, mut high) = (i64::MAX, i64::MIN);
        for value in &values {
            low = low.min(*value);
            high = high.max(*value);
        }
        if values.is_empty() {
            (low, high) = (0, 0);
        }
        Self {
            values,
            nulls,
            low,
            high,
        }
    }

    /// The same values as DataFusion has them.
    pub(crate) fn widen(&self, data_type: &DataType) -> Option<ArrayRef> {
        let DataType::Decimal128(precision, scale) = data_type else {
            return None;
        };
        let values: ScalarBuffer<i128> = self.values.iter().map(|v| i128::from(*v)).collect();
        let array = Decimal128Array::new(values, self.nulls.clone());
        let array = array.with_precision_and_scale(*precision, *scale).ok()?;
        Some(Arc::new(array))
    }
}

/// An operand's values, and what they are multiplied by.
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

/// Bounds of a side after its factor, if they fit.
fn scaled(side: Side<'_>, factor: i64) -> Option<(i128, i128)> {
    let (low, high) = side.bounds();
    // The factor is positive, and both are 64 bits wide.
    let (low, high) = (low * i128::from(factor), high * i128::from(factor));
    fits(low, high)?;
    Some((low, high))
}

/// `f` of each pair of values. Callers have proved that it does not overflow.
fn each(sides: [Side<'_>; 2], rows: usize, f: impl Fn(i64, i64) -> i64) -> ScalarBuffer<i64> {
    match sides {
        [Side::Values(left), Side::Values(right)] => {
            let pairs = left.values.iter().zip(right.values.iter());
            pairs.map(|(left, right)| f(*left, *right)).collect()
        }
        [Side::Values(left), Side::Constant(right)] => {
            left.values.iter().map(|left| f(*left, right)).collect()
        }
        [Side::Constant(left), Side::Values(right)] => {
            right.values.iter().map(|right| f(left, *right)).collect()
        }
        [Side::Constant(left), Side::Constant(right)] => {
            std::iter::repeat_n(f(left, right), rows).collect()
        }
    }
}

impl NarrowOp {
    /// The nodes it needs, by position.
    pub(crate) fn operands(&self) -> [Option<Operand>; 2] {
        match self {
            Self::Add([(left, _), (right, _)]) | Self::Subtract([(left, _), (right, _)]) => {
                [Some(*left), Some(*right)]
            }
            Self::Multiply([left, right]) => [Some(*left), Some(*right)],
            Self::Negate(operand) | Self::Rescale(operand, ..) => [Some(*operand), None],
        }
    }

    /// The result, if it is proved to fit 64 bits. `known` are the values of the operands that are
    /// nodes.
    pub(crate) fn apply(&self, known: &[Option<Narrow>; 2], rows: usize) -> Option<Narrow> {
        let [first, second] = self.operands();
        let first = Side::of(first?, known, 0)?;
        match self {
            Self::Add([(_, f), (_, g)]) => {
                let second = Side::of(second?, known, 1)?;
                let (a, b) = (scaled(first, *f)?, scaled(second, *g)?);
                let (low, high) = fits(a.0 + b.0, a.1 + b.1)?;
                let (f, g) = (*f, *g);
                let add = |l: i64, r: i64| l.wrapping_mul(f).wrapping_add(r.wrapping_mul(g));
                Some(Narrow {
                    values: each([first, second], rows, add),
                    nulls: NullBuffer::union(first.nulls(), second.nulls()),
                    low,
                    high,
                })
            }
            Self::Subtract([(_, f), (_, g)]) => {
                let second = Side::of(second?, known, 1)?;
                let (a, b) = (scaled(first, *f)?, scaled(second, *g)?);
                let (low, high) = fits(a.0 - b.1, a.1 - b.0)?;
                let (f, g) = (*f, *g);
                let subtract = |l: i64, r: i64| l.wrapping_mul(f).wrapping_sub(r.wrapping_mul(g));
                Some(Narrow {
                    values: each([first, second], rows, subtract),
                    nulls: NullBuffer::union(first.nulls(), second.nulls()),
                    low,
                    high,
                })
            }
            Self::Multiply(_) => {
                let second = Side::of(second?, known, 1)?;
                let (a, b) = (first.bounds(), second.bounds());
                let corners = [a.0 * b.0, a.0 * b.1, a.1 * b.0, a.1 * b.1];
                let low = corners.iter().copied().min()?;
                let high = corners.iter().copied().max()?;
                let (low, high) = fits(low, high)?;
                Some(Narrow {
                    values: each([first, second], rows, i64::wrapping_mul),
                    nulls: NullBuffer::union(first.nulls(), second.nulls()),
                    low,
                    high,
                })
            }
            Self::Negate(_) => {
                let (low, high) = first.bounds();
                let (low, high) = fits(-high, -low)?;
                let zero = Side::Constant(0);
                Some(Narrow {
                    values: each([zero, first], rows, i64::wrapping_sub),
                    nulls: first.nulls().cloned(),
                    low,
                    high,
                })
            }
            Self::Rescale(_, factor, limit) => {
                let (low, high) = scaled(first, *factor)?;
                if low <= -limit || high >= *limit {
                    return None;
                }
                let (low, high) = fits(low, high)?;
                let factor = Side::Constant(*factor);
                Some(Narrow {
                    values: each([first, factor], rows, i64::wrapping_mul),
                    nulls: first.nulls().cloned(),
                    low,
                    high,
                })
            }
        }
    }
}

impl NarrowComparison {
    /// The result, if both sides are known in 64 bits and stay there at one scale.
    pub(crate) fn apply(&self, known: &[Option<Narrow>; 2], rows: usize) -> Option<BooleanArray> {
        let [(left, f), (right, g)] = self.sides;
        let sides = [Side::of(left, known, 0)?, Side::of(right, known, 1)?];
        scaled(sides[0], f)?;
        scaled(sides[1], g)?;
        let of = |compare: fn(&i64, &i64) -> bool| -> BooleanBuffer {
            let value = |side: Side<'_>, factor: i64, row: usize| match side {
                Side::Values(narrow) => narrow.values[row].wrapping_mul(factor),
                Side::Constant(value) => value.wrapping_mul(factor),
            };
            match (sides, f, g) {
                ([Side::Values(left), Side::Constant(right)], 1, g) => {
                    let (left, right) = (&left.values[..rows], right.wrapping_mul(g));
                    BooleanBuffer::collect_bool(rows, |row| compare(&left[row], &right))
                }
                _ => BooleanBuffer::collect_bool(rows, |row| {
                    compare(&value(sides[0], f, row), &value(sides[1], g, row))
                }),
            }
        };
        let values = match self.op {
            Operator::Eq => of(i64::eq),
            Operator::NotEq => of(i64::ne),
            Operator::Lt => of(i64::lt),
            Operator::LtEq => of(i64::le),
            Operator::Gt => of(i64::gt),
            Operator::GtEq => of(i64::ge),
            _ => return None,
        };
        let nulls = NullBuffer::union(sides[0].nulls(), sides[1].nulls());
        Some(BooleanArray::new(values, nulls))
    }
}

/// What an expression is in 64 bits, if it may be anything.
pub(crate) enum Narrowed {
    Value(NarrowOp),
    Comparison(NarrowComparison),
}

/// The operation of an expression of which `operands` are the children: nodes, or the literals that
/// they are.
pub(crate) fn narrowed(
    expr: &Arc<dyn PhysicalExpr>,
    operands: &[Option<NodeId>],
    schema: &Schema,
) -> Option<Narrowed> {
    let children = expr.children();
    let side = |at: usize| -> Option<(Operand, i8)> {
        let child = children.get(at)?;
        let DataType::Decimal128(_, scale) = child.data_type(schema).ok()? else {
            return None;
        };
        match operands.get(at)? {
            Some(node) => Some((Operand::Node(*node), scale)),
            None => Some((Operand::Constant(constant(child)?), scale)),
        }
    };
    if let Some(binary) = expr.downcast_ref::<BinaryExpr>() {
        let (left, right) = (side(0)?, side(1)?);
        let common = left.1.max(right.1);
        let sides = [
            (left.0, power(common, left.1)?),
            (right.0, power(common, right.1)?),
        ];
        let compares = matches!(
            binary.op(),
            Operator::Eq
                | Operator::NotEq
                | Operator::Lt
                | Operator::LtEq
                | Operator::Gt
                | Operator::GtEq
        );
        if compares {
            return Some(Narrowed::Comparison(NarrowComparison {
                op: *binary.op(),
                sides,
            }));
        }
        let DataType::Decimal128(_, scale) = expr.data_type(schema).ok()? else {
            return None;
        };
        return match binary.op() {
            Operator::Plus if scale == common => Some(Narrowed::Value(NarrowOp::Add(sides))),
            Operator::Minus if scale == common => Some(Narrowed::Value(NarrowOp::Subtract(sides))),
            Operator::Multiply if left.1.checked_add(right.1) == Some(scale) => {
                Some(Narrowed::Value(NarrowOp::Multiply([left.0, right.0])))
            }
            _ => None,
        };
    }
    if expr.is::<NegativeExpr>() {
        let (operand, _) = side(0)?;
        return Some(Narrowed::Value(NarrowOp::Negate(operand)));
    }
    if let Some(cast) = expr.downcast_ref::<CastExpr>() {
        let DataType::Decimal128(precision, scale) = cast.cast_type() else {
            return None;
        };
        let (operand, from) = side(0)?;
        let limit = 10i128.checked_pow(u32::from(*precision))?;
        let factor = power(*scale, from)?;
        return Some(Narrowed::Value(NarrowOp::Rescale(operand, factor, limit)));
    }
    None
}

/// What brings decimals of scale `from` to scale `to`, if that is larger.
fn power(to: i8, from: i8) -> Option<i64> {
    let digits = u32::try_from(to.checked_sub(from)?).ok()?;
    10i64.checked_pow(digits)
}

fn constant(expr: &Arc<dyn PhysicalExpr>) -> Option<i64> {
    match expr.downcast_ref::<Literal>()?.value() {
        ScalarValue::Decimal128(Some(value), ..) => i64::try_from(*value).ok(),
        _ => None,
    }
}
