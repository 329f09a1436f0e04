//! When may the bounds of a floating-point column prove that a predicate holds for no row?
//!
//! Parquet's bounds ignore NaN, and DataFusion orders NaN above every number, or below every
//! number if its sign bit is set. So a row group with the bounds 1 and 2 may hold rows of `f >
//! 50`, and its bounds prove nothing. They count if the predicate is true for no NaN: no row of `f
//! = 3` or `f BETWEEN 3 AND 4` is a NaN, and every other value is within the bounds. `f > 50` is
//! not true for a NaN below the numbers, so the lower bound counts.
//! Not here: what is concluded from bounds (`prune/`); DataFusion's own scans
//! (`plan/float_bounds.rs`).
//! N1: a bound of a column counts only if the predicate is true for no row in which the column is
//! a NaN beyond that bound.
//! N2: a bound that is NaN does not count: some writers compare with the first value, which may be
//! NaN. Zeros need no care: -0 equals 0 in every comparison.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, BooleanArray, PrimitiveArray};
use arrow::datatypes::{
    ArrowPrimitiveType, DataType, Float16Type, Float32Type, Float64Type, Schema,
};
use datafusion::common::pruning::PruningStatistics;
use datafusion::common::{Column, ScalarValue};
use datafusion::logical_expr::Operator;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::{
    BinaryExpr, CastExpr, Column as ColumnExpr, InListExpr, IsNullExpr, Literal, TryCastExpr,
};
use datafusion::physical_expr::utils::collect_columns;

/// A flag for each of the two ends of a column's values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Ends {
    pub(crate) low: bool,
    pub(crate) high: bool,
}

impl Ends {
    const NEITHER: Self = Self {
        low: false,
        high: false,
    };
    const BOTH: Self = Self {
        low: true,
        high: true,
    };

    /// Whether both flags are set.
    pub(crate) fn both(self) -> bool {
        self == Self::BOTH
    }
}

/// The floating-point columns of a predicate, by position, with the bounds that count for it (N1).
/// A dynamic filter makes no bound count: pass a snapshot of the predicate.
pub(crate) fn bounds_that_count(
    predicate: &Arc<dyn PhysicalExpr>,
    schema: &Schema,
) -> BTreeMap<usize, Ends> {
    let columns = collect_columns(predicate);
    let mut floats = columns
        .iter()
        .map(ColumnExpr::index)
        .filter(|column| is_float_column(schema, *column))
        .peekable();
    if floats.peek().is_none() {
        return BTreeMap::new();
    }
    let excluded = excluded(predicate, schema);
    floats.map(|column| (column, excluded.of(column))).collect()
}

/// Whether values of this type may be NaN.
pub(crate) fn is_float(data_type: &DataType) -> bool {
    match data_type {
        DataType::Dictionary(_, values) => is_float(values),
        DataType::RunEndEncoded(_, values) => is_float(values.data_type()),
        other => other.is_floating(),
    }
}

fn is_float_column(schema: &Schema, column: usize) -> bool {
    let field = schema.fields().get(column);
    field.is_some_and(|field| is_float(field.data_type()))
}

/// Whether a value is NaN.
pub(crate) fn is_nan(value: &ScalarValue) -> bool {
    match value {
        ScalarValue::Float16(Some(value)) => value.is_nan(),
        ScalarValue::Float32(Some(value)) => value.is_nan(),
        ScalarValue::Float64(Some(value)) => value.is_nan(),
        ScalarValue::Dictionary(_, value) => is_nan(value),
        _ => false,
    }
}

/// The NaN values for which an expression is certainly not true.
enum Excluded {
    /// All values: the expression is never true.
    Everything,
    /// By column: a NaN below (`low`) or above (`high`) all numbers.
    Of(BTreeMap<usize, Ends>),
}

impl Excluded {
    const NOTHING: Self = Self::Of(BTreeMap::new());

    fn of(&self, column: usize) -> Ends {
        match self {
            Self::Everything => Ends::BOTH,
            Self::Of(ends) => ends.get(&column).copied().unwrap_or(Ends::NEITHER),
        }
    }

    /// What `a AND b` excludes.
    fn and(self, other: Self) -> Self {
        let (Self::Of(mut all), Self::Of(other)) = (self, other) else {
            return Self::Everything;
        };
        for (column, more) in other {
            let ends = all.entry(column).or_insert(Ends::NEITHER);
            ends.low |= more.low;
            ends.high |= more.high;
        }
        Self::Of(all)
    }

    /// What `a OR b` excludes.
    fn or(self, other: Self) -> Self {
        let mut all = match (self, other) {
            (Self::Everything, one) | (one, Self::Everything) => return one,
            (Self::Of(mut all), other) => {
                for (column, ends) in &mut all {
                    let less = other.of(*column);
                    ends.low &= less.low;
                    ends.high &= less.high;
                }
                all
            }
        };
        all.retain(|_, ends| *ends != Ends::NEITHER);
        Self::Of(all)
    }
}

fn excluded(expr: &Arc<dyn PhysicalExpr>, schema: &Schema) -> Excluded {
    if let Some(binary) = expr.downcast_ref::<BinaryExpr>() {
        return match binary.op() {
            op @ (Operator::And | Operator::Or) => {
                let terms = terms(expr, *op).into_iter();
                let each = terms.map(|term| excluded(term, schema));
                let all = match op {
                    Operator::And => each.reduce(Excluded::and),
                    _ => each.reduce(Excluded::or),
                };
                all.unwrap_or(Excluded::NOTHING)
            }
            op => by_comparison(binary.left(), *op, binary.right(), schema),
        };
    }
    if let Some(list) = expr.downcast_ref::<InListExpr>() {
        let numbers = list.list().iter().all(is_number_or_null);
        return match float_column(list.expr(), schema) {
            Some(column) if numbers && !list.negated() => one(column, Ends::BOTH),
            _ => Excluded::NOTHING,
        };
    }
    if let Some(is_null) = expr.downcast_ref::<IsNullExpr>() {
        return match float_column(is_null.arg(), schema) {
            Some(column) => one(column, Ends::BOTH),
            None => Excluded::NOTHING,
        };
    }
    match expr.downcast_ref::<Literal>().map(Literal::value) {
        Some(ScalarValue::Boolean(None | Some(false))) => Excluded::Everything,
        _ => Excluded::NOTHING,
    }
}

/// The operands of a chain of one operator, found without recursion, however long the chain is.
fn terms(expr: &Arc<dyn PhysicalExpr>, op: Operator) -> Vec<&Arc<dyn PhysicalExpr>> {
    let (mut open, mut terms) = (vec![expr], Vec::new());
    while let Some(expr) = open.pop() {
        match expr.downcast_ref::<BinaryExpr>() {
            Some(binary) if *binary.op() == op => open.extend([binary.right(), binary.left()]),
            _ => terms.push(expr),
        }
    }
    terms
}

fn by_comparison(
    left: &Arc<dyn PhysicalExpr>,
    op: Operator,
    right: &Arc<dyn PhysicalExpr>,
    schema: &Schema,
) -> Excluded {
    let (column, op, value) = match (float_column(left, schema), float_column(right, schema)) {
        (Some(column), None) => (column, Some(op), right),
        (None, Some(column)) => (column, op.swap(), left),
        _ => return Excluded::NOTHING,
    };
    if !is_number_or_null(value) {
        return Excluded::NOTHING;
    }
    let (low, high) = match op {
        Some(Operator::Eq) => (true, true),
        Some(Operator::Gt | Operator::GtEq) => (true, false),
        Some(Operator::Lt | Operator::LtEq) => (false, true),
        _ => return Excluded::NOTHING,
    };
    one(column, Ends { low, high })
}

fn one(column: usize, ends: Ends) -> Excluded {
    Excluded::Of(BTreeMap::from([(column, ends)]))
}

/// The floating-point column in an expression, possibly cast to another floating-point type.
fn float_column(expr: &Arc<dyn PhysicalExpr>, schema: &Schema) -> Option<usize> {
    let cast = expr.downcast_ref::<CastExpr>();
    let cast = cast.map(|cast| (cast.expr(), cast.cast_type()));
    let try_cast = || {
        let cast = expr.downcast_ref::<TryCastExpr>();
        cast.map(|cast| (cast.expr(), cast.cast_type()))
    };
    let inner = match cast.or_else(try_cast) {
        Some((inner, to)) if is_float(to) => inner,
        Some(_) => return None,
        None => expr,
    };
    let column = inner.downcast_ref::<ColumnExpr>()?.index();
    is_float_column(schema, column).then_some(column)
}

/// Whether the expression is a literal other than NaN. A comparison with NaN may be true for a
/// NaN.
fn is_number_or_null(expr: &Arc<dyn PhysicalExpr>) -> bool {
    let literal = expr.downcast_ref::<Literal>();
    literal.is_some_and(|literal| !is_nan(literal.value()))
}

/// Statistics without the bounds that do not count (N1, N2).
pub(crate) struct CountingBounds<'a, S> {
    pub(crate) inner: &'a S,
    pub(crate) schema: &'a Schema,
    /// The bounds that count for the predicate being judged.
    pub(crate) counting: &'a BTreeMap<usize, Ends>,
}

impl<S> CountingBounds<'_, S> {
    /// The bounds of the column that count; `None` if its type has no NaN.
    fn ends(&self, column: &Column) -> Option<Ends> {
        let position = self.schema.index_of(&column.name).ok()?;
        is_float_column(self.schema, position).then(|| {
            let known = self.counting.get(&position);
            known.copied().unwrap_or(Ends::NEITHER)
        })
    }
}

impl<S: PruningStatistics> PruningStatistics for CountingBounds<'_, S> {
    fn min_values(&self, column: &Column) -> Option<ArrayRef> {
        match self.ends(column) {
            None => self.inner.min_values(column),
            Some(ends) if ends.low => self.inner.min_values(column).map(numbers),
            Some(_) => None,
        }
    }

    fn max_values(&self, column: &Column) -> Option<ArrayRef> {
        match self.ends(column) {
            None => self.inner.max_values(column),
            Some(ends) if ends.high => self.inner.max_values(column).map(numbers),
            Some(_) => None,
        }
    }

    fn num_containers(&self) -> usize {
        self.inner.num_containers()
    }

    fn null_counts(&self, column: &Column) -> Option<ArrayRef> {
        self.inner.null_counts(column)
    }

    fn row_counts(&self) -> Option<ArrayRef> {
        self.inner.row_counts()
    }

    fn contained(&self, column: &Column, values: &HashSet<ScalarValue>) -> Option<BooleanArray> {
        self.inner.contained(column, values)
    }
}

/// The array with NULL in place of every NaN.
fn numbers(array: ArrayRef) -> ArrayRef {
    fn without<T: ArrowPrimitiveType>(
        array: &ArrayRef,
        is_nan: impl Fn(T::Native) -> bool,
    ) -> Option<ArrayRef> {
        let array = array.as_any().downcast_ref::<PrimitiveArray<T>>()?;
        let values = array
            .iter()
            .map(|value| value.filter(|value| !is_nan(*value)));
        Some(Arc::new(values.collect::<PrimitiveArray<T>>()))
    }
    let found = match array.data_type() {
        DataType::Float16 => {
            without::<Float16Type>(&array, <Float16Type as ArrowPrimitiveType>::Native::is_nan)
        }
        DataType::Float32 => without::<Float32Type>(&array, f32::is_nan),
        DataType::Float64 => without::<Float64Type>(&array, f64::is_nan),
        _ => None,
    };
    found.unwrap_or(array)
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests: a failure should panic")]
mod tests {
    use arrow::array::Float64Array;
    use arrow::datatypes::Field;
    use datafusion::physical_expr::expressions::{
        binary, cast, col, in_list, is_not_null, is_null, lit, not,
    };

    use super::*;

    fn schema() -> Schema {
        Schema::new(vec![
            Field::new("f", DataType::Float64, true),
            Field::new("g", DataType::Float32, true),
            Field::new("i", DataType::Int64, true),
        ])
    }

    fn of(name: &str, op: Operator, value: impl Into<ScalarValue>) -> Arc<dyn PhysicalExpr> {
        let value: ScalarValue = value.into();
        let column = col(name, &schema()).unwrap();
        let column = cast(column, &schema(), value.data_type()).unwrap();
        let value = Arc::new(Literal::new(value));
        binary(column, op, value, &schema()).unwrap()
    }

    fn both(
        a: Arc<dyn PhysicalExpr>,
        op: Operator,
        b: Arc<dyn PhysicalExpr>,
    ) -> Arc<dyn PhysicalExpr> {
        Arc::new(BinaryExpr::new(a, op, b))
    }

    /// Whether the bounds of `f` count: (low, high).
    fn ends(predicate: &Arc<dyn PhysicalExpr>) -> (bool, bool) {
        let ends = bounds_that_count(predicate, &schema())[&0];
        (ends.low, ends.high)
    }

    #[test]
    fn a_bound_counts_if_the_predicate_accepts_no_nan_beyond_it() {
        use Operator::{And, Eq, Gt, GtEq, IsDistinctFrom, Lt, NotEq, Or};
        let f = || col("f", &schema()).unwrap();
        let either = |a, b| both(a, Or, b);
        let all = |a, b| both(a, And, b);
        let listed = |value: f64| {
            let values = vec![lit(1.0), lit(value)];
            in_list(f(), values, &false, &schema()).unwrap()
        };
        let between = || all(of("f", GtEq, 3.0), of("f", Lt, 4.0));
        let cases = [
            (of("f", Eq, 3.0), (true, true)),
            (of("f", Gt, 3.0), (true, false)),
            (of("f", Lt, 3.0), (false, true)),
            (of("f", NotEq, 3.0), (false, false)),
            (of("f", IsDistinctFrom, 3.0), (false, false)),
            (of("f", Eq, f64::NAN), (false, false)),
            (of("f", Lt, f64::NAN), (false, false)),
            (of("f", Gt, ScalarValue::Float64(None)), (true, false)),
            (between(), (true, true)),
            (either(between(), of("f", Eq, 9.0)), (true, true)),
            (either(between(), of("f", Gt, 9.0)), (true, false)),
            (either(between(), of("i", Gt, 9_i64)), (false, false)),
            (all(of("f", Gt, 9.0), of("i", Gt, 9_i64)), (true, false)),
            (
                either(is_null(f()).unwrap(), of("f", Gt, 9.0)),
                (true, false),
            ),
            (is_null(f()).unwrap(), (true, true)),
            (is_not_null(f()).unwrap(), (false, false)),
            (not(of("f", Gt, 9.0)).unwrap(), (false, false)),
            (listed(2.0), (true, true)),
            (listed(f64::NAN), (false, false)),
            (all(of("f", Gt, 1.0), lit(false)), (true, true)),
            (either(of("f", Gt, 1.0), lit(false)), (true, false)),
        ];
        for (predicate, expected) in cases {
            assert_eq!(ends(&predicate), expected, "{predicate}");
        }
        let turned = binary(lit(3.0), Lt, f(), &schema()).unwrap();
        assert_eq!(ends(&turned), (true, false));
    }

    #[test]
    fn columns_are_judged_by_themselves_and_through_casts() {
        let wide = of("g", Operator::Eq, 3.0_f64);
        let mixed = both(wide, Operator::And, of("f", Operator::Lt, 1.0));
        let counting = bounds_that_count(&mixed, &schema());
        assert_eq!(counting[&1], Ends::BOTH);
        assert!(!counting[&0].low && counting[&0].high);
        assert!(!counting.contains_key(&2));
        // A NaN that is cast to an integer is not a NaN.
        let whole = of("f", Operator::Eq, 3_i64);
        assert_eq!(ends(&whole), (false, false));
        let other = of("i", Operator::Eq, 3_i64);
        assert!(bounds_that_count(&other, &schema()).is_empty());
    }

    #[test]
    fn a_chain_of_any_length_is_judged() {
        let term = || of("f", Operator::Eq, 1.0);
        let mut chain = term();
        for _ in 0..20_000 {
            chain = both(chain, Operator::Or, term());
        }
        let terms = terms(&chain, Operator::Or);
        assert_eq!(terms.len(), 20_001);
        drop(terms);
        // Dropping the chain recurses, which is not the subject of this test.
        std::mem::forget(chain);
    }

    #[test]
    fn bounds_that_are_nan_are_none() {
        let array: ArrayRef = Arc::new(Float64Array::from(vec![Some(1.0), None, Some(f64::NAN)]));
        let found = numbers(array);
        assert_eq!(found.null_count(), 2);
        assert!(found.is_valid(0));
    }
}
