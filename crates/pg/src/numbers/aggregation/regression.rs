//! `corr`, `covar_pop`, `covar_samp` and `regr_*`: which digits do they have, and which results do
//! NaN and infinity give?
//!
//! Idea: the sums are those of the distances from the mean, which each row corrects by the
//! algorithm of Youngs and Cramer, in the order of operations of PostgreSQL's `float8_regr_accum`;
//! states of several partitions are merged as its parallel workers do, which may change the last
//! digits. Each function is a quotient of these sums.
//! DataFusion's group accumulator for `corr` (55.2) subtracts sums of squares instead, which leaves
//! no correct digit of `corr(x, y)` if `x` is a time in seconds. Its `regr_*` are NULL for one row,
//! also where PostgreSQL has NaN.
//!
//! Not here: variances, and `regr_count` (`wrapped.rs`).
//! CORR-I1: both accumulators have the same states, so that either can merge the other's.

use std::sync::{Arc, LazyLock};

use datafusion::arrow::array::{Array, ArrayRef, AsArray, BooleanArray, Float64Array};
use datafusion::arrow::datatypes::{DataType, Field, FieldRef, Float64Type};
use datafusion::common::internal_err;
use datafusion::error::Result;
use datafusion::logical_expr::function::{AccumulatorArgs, StateFieldsArgs};
use datafusion::logical_expr::{
    Accumulator, AggregateUDF, AggregateUDFImpl, EmitTo, GroupsAccumulator, Signature, Volatility,
};
use datafusion::scalar::ScalarValue;

use crate::error::PgError;
use crate::numbers::float_range::float_overflow;

/// What is computed from the sums.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Kind {
    Corr,
    CovarPop,
    CovarSamp,
    AvgX,
    AvgY,
    Intercept,
    R2,
    Slope,
    Sxx,
    Sxy,
    Syy,
}

impl Kind {
    const ALL: [Self; 11] = [
        Self::Corr,
        Self::CovarPop,
        Self::CovarSamp,
        Self::AvgX,
        Self::AvgY,
        Self::Intercept,
        Self::R2,
        Self::Slope,
        Self::Sxx,
        Self::Sxy,
        Self::Syy,
    ];

    /// PostgreSQL's name.
    fn name(self) -> &'static str {
        match self {
            Self::Corr => "corr",
            Self::CovarPop => "covar_pop",
            Self::CovarSamp => "covar_samp",
            Self::AvgX => "regr_avgx",
            Self::AvgY => "regr_avgy",
            Self::Intercept => "regr_intercept",
            Self::R2 => "regr_r2",
            Self::Slope => "regr_slope",
            Self::Sxx => "regr_sxx",
            Self::Sxy => "regr_sxy",
            Self::Syy => "regr_syy",
        }
    }
}

/// The aggregates of two arguments, `y` and `x`.
#[must_use]
pub fn regressions() -> Vec<Arc<AggregateUDF>> {
    static ALL: LazyLock<Vec<Arc<AggregateUDF>>> = LazyLock::new(|| {
        let floats = vec![DataType::Float64, DataType::Float64];
        let function = |kind| {
            Arc::new(AggregateUDF::new_from_impl(Regression {
                kind,
                signature: Signature::exact(floats.clone(), Volatility::Immutable),
            }))
        };
        Kind::ALL.into_iter().map(function).collect()
    });
    ALL.clone()
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Regression {
    kind: Kind,
    signature: Signature,
}

/// The columns of a state, in the order of [`Sums::parts`].
const PARTS: [&str; 6] = ["n", "sx", "sxx", "sy", "syy", "sxy"];

impl AggregateUDFImpl for Regression {
    fn name(&self) -> &'static str {
        self.kind.name()
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(DataType::Float64)
    }

    fn accumulator(&self, args: AccumulatorArgs) -> Result<Box<dyn Accumulator>> {
        if args.is_distinct {
            let message = format!("{}(DISTINCT …) is not supported", self.kind.name());
            return Err(PgError::unsupported(message).into());
        }
        Ok(Box::new(One {
            kind: self.kind,
            sums: Sums::default(),
        }))
    }

    fn state_fields(&self, args: StateFieldsArgs) -> Result<Vec<FieldRef>> {
        let field = |part: &str| {
            let name = format!("{}[{part}]", args.name);
            Arc::new(Field::new(name, DataType::Float64, true))
        };
        Ok(PARTS.map(field).into())
    }

    fn groups_accumulator_supported(&self, args: AccumulatorArgs) -> bool {
        !args.is_distinct
    }

    fn create_groups_accumulator(&self, _: AccumulatorArgs) -> Result<Box<dyn GroupsAccumulator>> {
        Ok(Box::new(Groups {
            kind: self.kind,
            sums: vec![],
        }))
    }
}

/// The sums of PostgreSQL's `float8_regr_accum`.
#[derive(Clone, Copy, Debug, Default)]
struct Sums {
    /// The number of rows, as PostgreSQL counts it.
    n: f64,
    x: f64,
    /// The sum of squares of the distances of `x` from its mean.
    xx: f64,
    y: f64,
    yy: f64,
    xy: f64,
}

impl Sums {
    /// Adds a row (`float8_regr_accum`).
    fn add(&mut self, y: f64, x: f64) -> Result<()> {
        let before = *self;
        self.n += 1.0;
        self.x += x;
        self.y += y;
        if before.n < 1.0 {
            let of_first = |is_finite| if is_finite { 0.0 } else { f64::NAN };
            self.xx = of_first(x.is_finite());
            self.yy = of_first(y.is_finite());
            self.xy = of_first(x.is_finite() && y.is_finite());
            return Ok(());
        }
        let x_apart = x * self.n - self.x;
        let y_apart = y * self.n - self.y;
        let scale = 1.0 / (self.n * before.n);
        self.xx += x_apart * x_apart * scale;
        self.yy += y_apart * y_apart * scale;
        self.xy += x_apart * y_apart * scale;
        let of_finite_x = !before.x.is_infinite() && !x.is_infinite();
        let of_finite_y = !before.y.is_infinite() && !y.is_infinite();
        let overflows = (of_finite_x && (self.x.is_infinite() || self.xx.is_infinite()))
            || (of_finite_y && (self.y.is_infinite() || self.yy.is_infinite()))
            || (of_finite_x && of_finite_y && self.xy.is_infinite());
        if overflows {
            return Err(float_overflow().into());
        }
        // The distance from an infinite mean is undefined.
        for sum in [&mut self.xx, &mut self.yy, &mut self.xy] {
            if sum.is_infinite() {
                *sum = f64::NAN;
            }
        }
        Ok(())
    }

    /// Adds the rows of other sums (`float8_regr_combine`).
    fn merge(&mut self, other: &Self) -> Result<()> {
        if other.n < 1.0 {
            return Ok(());
        }
        if self.n < 1.0 {
            *self = *other;
            return Ok(());
        }
        let n = self.n + other.n;
        let x_apart = self.x / self.n - other.x / other.n;
        let y_apart = self.y / self.n - other.y / other.n;
        let merged = Self {
            n,
            x: self.x + other.x,
            xx: self.xx + other.xx + self.n * other.n * x_apart * x_apart / n,
            y: self.y + other.y,
            yy: self.yy + other.yy + self.n * other.n * y_apart * y_apart / n,
            xy: self.xy + other.xy + self.n * other.n * x_apart * y_apart / n,
        };
        let given = self.parts().into_iter().zip(other.parts());
        let mut sums = merged.parts().into_iter().zip(given);
        let overflows = |(sum, (a, b)): (f64, (f64, f64))| {
            sum.is_infinite() && !a.is_infinite() && !b.is_infinite()
        };
        if sums.any(overflows) {
            return Err(float_overflow().into());
        }
        *self = merged;
        Ok(())
    }

    fn parts(&self) -> [f64; PARTS.len()] {
        [self.n, self.x, self.xx, self.y, self.yy, self.xy]
    }

    /// A function's result (`float8_corr` and its siblings); `None` if it is undefined.
    fn result(&self, of: Kind) -> Option<f64> {
        if self.n < 1.0 {
            return None;
        }
        let without_x = self.xx == 0.0;
        let without_y = self.yy == 0.0;
        let value = match of {
            Kind::AvgX => self.x / self.n,
            Kind::AvgY => self.y / self.n,
            Kind::Sxx => self.xx,
            Kind::Sxy => self.xy,
            Kind::Syy => self.yy,
            Kind::CovarPop => self.xy / self.n,
            Kind::CovarSamp if self.n < 2.0 => return None,
            Kind::CovarSamp => self.xy / (self.n - 1.0),
            Kind::Corr if without_x || without_y => return None,
            Kind::Corr => self.xy / (self.xx * self.yy).sqrt(),
            Kind::Intercept | Kind::R2 | Kind::Slope if without_x => return None,
            Kind::Intercept => (self.y - self.x * self.xy / self.xx) / self.n,
            Kind::R2 if without_y => 1.0,
            Kind::R2 => (self.xy * self.xy) / (self.xx * self.yy),
            Kind::Slope => self.xy / self.xx,
        };
        // PostgreSQL has one NaN; a computed one may have a sign.
        Some(if value.is_nan() { f64::NAN } else { value })
    }
}

/// The rows in which both arguments are set: the row's number, `y` and `x`.
fn pairs(values: &[ArrayRef]) -> Result<impl Iterator<Item = (usize, f64, f64)> + '_> {
    // Keys of an ORDER BY follow.
    let [y, x, ..] = values else {
        return internal_err!("a regression takes two values");
    };
    let y = y.as_primitive::<Float64Type>().iter();
    let x = x.as_primitive::<Float64Type>().iter();
    let rows = y.zip(x).enumerate();
    Ok(rows.filter_map(|(row, (y, x))| Some((row, y?, x?))))
}

/// The states and their rows.
fn states(states: &[ArrayRef]) -> Result<impl Iterator<Item = (usize, Sums)> + '_> {
    let [n, x, xx, y, yy, xy] = states else {
        return internal_err!("the state of a regression has {} columns", PARTS.len());
    };
    let [n, x, xx, y, yy, xy] = [n, x, xx, y, yy, xy].map(AsArray::as_primitive::<Float64Type>);
    let set = (0..n.len()).filter(move |row| n.is_valid(*row));
    Ok(set.map(move |row| {
        let sums = Sums {
            n: n.value(row),
            x: x.value(row),
            xx: xx.value(row),
            y: y.value(row),
            yy: yy.value(row),
            xy: xy.value(row),
        };
        (row, sums)
    }))
}

/// The sums of all rows, or of the rows of a frame.
#[derive(Debug)]
struct One {
    kind: Kind,
    sums: Sums,
}

impl Accumulator for One {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        for (_, y, x) in pairs(values)? {
            self.sums.add(y, x)?;
        }
        Ok(())
    }

    fn merge_batch(&mut self, given: &[ArrayRef]) -> Result<()> {
        for (_, sums) in states(given)? {
            self.sums.merge(&sums)?;
        }
        Ok(())
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        let parts = self.sums.parts();
        Ok(parts.map(|part| ScalarValue::Float64(Some(part))).into())
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        Ok(ScalarValue::Float64(self.sums.result(self.kind)))
    }

    fn size(&self) -> usize {
        size_of_val(self)
    }
}

/// The sums of each group.
#[derive(Debug)]
struct Groups {
    kind: Kind,
    sums: Vec<Sums>,
}

impl GroupsAccumulator for Groups {
    fn update_batch(
        &mut self,
        values: &[ArrayRef],
        group_of: &[usize],
        filter: Option<&BooleanArray>,
        groups: usize,
    ) -> Result<()> {
        self.sums.resize(groups, Sums::default());
        let is_kept = |row| filter.is_none_or(|filter| filter.is_valid(row) && filter.value(row));
        for (row, y, x) in pairs(values)? {
            if is_kept(row) {
                self.sums[group_of[row]].add(y, x)?;
            }
        }
        Ok(())
    }

    fn merge_batch(&mut self, given: &[ArrayRef], group_of: &[usize], groups: usize) -> Result<()> {
        self.sums.resize(groups, Sums::default());
        for (row, sums) in states(given)? {
            self.sums[group_of[row]].merge(&sums)?;
        }
        Ok(())
    }

    fn evaluate(&mut self, emit_to: EmitTo) -> Result<ArrayRef> {
        let sums = emit_to.take_needed(&mut self.sums);
        let results = sums.iter().map(|sums| sums.result(self.kind));
        let results = Float64Array::from_iter(results);
        Ok(Arc::new(results))
    }

    fn state(&mut self, emit_to: EmitTo) -> Result<Vec<ArrayRef>> {
        let sums = emit_to.take_needed(&mut self.sums);
        let column = |at: usize| -> ArrayRef {
            let parts = sums.iter().map(|sums| sums.parts()[at]);
            Arc::new(Float64Array::from_iter_values(parts))
        };
        Ok((0..PARTS.len()).map(column).collect())
    }

    fn convert_to_state(
        &self,
        values: &[ArrayRef],
        filter: Option<&BooleanArray>,
    ) -> Result<Vec<ArrayRef>> {
        let count = values.first().map_or(0, Array::len);
        let group_of: Vec<usize> = (0..count).collect();
        let mut rows = Self {
            kind: self.kind,
            sums: vec![],
        };
        rows.update_batch(values, &group_of, filter, count)?;
        rows.state(EmitTo::All)
    }

    fn size(&self) -> usize {
        size_of_val(self) + self.sums.capacity() * size_of::<Sums>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sums_of(rows: impl IntoIterator<Item = (f64, f64)>) -> Sums {
        let mut sums = Sums::default();
        for (y, x) in rows {
            sums.add(y, x).unwrap();
        }
        sums
    }

    fn groups_of(kind: Kind) -> Groups {
        Groups { kind, sums: vec![] }
    }

    /// Seconds since 1970, and small differences beside them.
    fn seconds(g: u32) -> (f64, f64) {
        (
            1_700_000_000.0 + f64::from(g),
            1_700_000_000.0 + f64::from(g * 7 % 5),
        )
    }

    #[test]
    fn results_are_postgresqls() {
        let even = (1..=20).filter(|g| g % 2 == 0).map(seconds);
        assert_eq!(
            sums_of(even).result(Kind::Corr),
            Some(-0.492_365_963_917_330_9)
        );
        let odd = (1..=20).filter(|g| g % 2 == 1).map(seconds);
        assert_eq!(
            sums_of(odd).result(Kind::Corr),
            Some(0.246_182_981_958_665_45)
        );
        let equal = (1..=5).map(|x| (f64::from(x), f64::from(x)));
        assert_eq!(sums_of(equal).result(Kind::Corr), Some(1.0));
        let tiny = [(1e-200, 1e-200), (2e-200, 2e-200)];
        assert_eq!(sums_of(tiny).result(Kind::Corr), None);
        assert_eq!(sums_of([]).result(Kind::Corr), None);
        assert_eq!(sums_of([(1.0, 2.0)]).result(Kind::Corr), None);
        let undefined = sums_of([(f64::INFINITY, 1.0), (1.0, 2.0)]);
        assert!(undefined.result(Kind::Corr).is_some_and(f64::is_nan));
        let mut large = sums_of([(1e200, 1.0)]);
        assert!(large.add(-1e200, 2.0).is_err());
    }

    #[test]
    fn one_row_has_results_of_its_sums() {
        let of_nan = sums_of([(1.0, f64::NAN)]);
        assert!(of_nan.result(Kind::Slope).is_some_and(f64::is_nan));
        assert_eq!(of_nan.result(Kind::R2), Some(1.0));
        assert_eq!(of_nan.result(Kind::Corr), None);
        let of_one = sums_of([(1.0, 2.0)]);
        assert_eq!(of_one.result(Kind::Slope), None);
        assert_eq!(of_one.result(Kind::AvgX), Some(2.0));
        assert_eq!(of_one.result(Kind::CovarPop), Some(0.0));
        assert_eq!(of_one.result(Kind::CovarSamp), None);
    }

    #[test]
    fn merged_states_are_those_of_one_pass() {
        let whole = sums_of((1..=20).map(seconds)).result(Kind::Corr).unwrap();
        for first in [0, 1, 7, 20] {
            let mut merged = sums_of((1..=first).map(seconds));
            merged
                .merge(&sums_of((first + 1..=20).map(seconds)))
                .unwrap();
            let merged = merged.result(Kind::Corr).unwrap();
            assert!((merged - whole).abs() < 1e-6, "{merged} {whole}");
        }
    }

    #[test]
    fn groups_and_single_states_mix() {
        let column = |of: fn((f64, f64)) -> f64| -> ArrayRef {
            let cells = (1..=20).map(|g| (g != 3).then(|| of(seconds(g))));
            Arc::new(Float64Array::from_iter(cells))
        };
        let values = [column(|row| row.0), column(|row| row.1)];
        let group_of: Vec<usize> = (1..=20).map(|g| g % 2).collect();
        let mut groups = groups_of(Kind::Corr);
        groups.update_batch(&values, &group_of, None, 2).unwrap();
        let parts = groups.state(EmitTo::All).unwrap();
        let mut one = One {
            kind: Kind::Corr,
            sums: Sums::default(),
        };
        one.merge_batch(&parts).unwrap();
        let rows = groups.convert_to_state(&values, None).unwrap();
        let mut other = groups_of(Kind::Corr);
        other.merge_batch(&rows, &[0; 20], 1).unwrap();
        let other = other.evaluate(EmitTo::All).unwrap();
        let other = other.as_primitive::<Float64Type>().value(0);
        let expected = sums_of((1..=20).filter(|g| *g != 3).map(seconds)).result(Kind::Corr);
        let expected = expected.unwrap();
        let ScalarValue::Float64(Some(merged)) = one.evaluate().unwrap() else {
            panic!("no value");
        };
        assert!((merged - expected).abs() < 1e-6, "{merged} {expected}");
        assert!((other - expected).abs() < 1e-6, "{other} {expected}");
    }
}
