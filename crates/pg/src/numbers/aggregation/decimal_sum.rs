//! How are decimals summed whose sum may overflow 128 bits?
//!
//! Idea: the sum of a group is kept modulo 2^128. From the first overflow on, overflows are
//! counted in a second array for all groups; without one, the check costs one branch per row.
//! Results have 256 bits. DataFusion's `sum` (55.2) wraps silently, so it is used only for values
//! of at most 28 digits, which cannot overflow 128 bits.
//!
//! Not here: which sums use this (`rules/aggregates.rs`), sums in fragments
//! (`fragment/evaluation/sums.rs` of the engine).
//! SUM-I1: a sum is exact or an error, in any order of its rows.

use std::collections::HashSet;
use std::sync::{Arc, LazyLock};

use datafusion::arrow::array::{Array, ArrayRef, AsArray, BooleanArray, Decimal256Array};
use datafusion::arrow::datatypes::{
    DECIMAL256_MAX_PRECISION, DataType, Decimal128Type, Decimal256Type, Field, FieldRef, i256,
};
use datafusion::common::internal_err;
use datafusion::error::Result;
use datafusion::logical_expr::function::{AccumulatorArgs, StateFieldsArgs};
use datafusion::logical_expr::{
    Accumulator, AggregateUDF, AggregateUDFImpl, EmitTo, GroupsAccumulator, ReversedUDAF,
    Signature, Volatility,
};
use datafusion::scalar::ScalarValue;

use crate::casts::overflow;

/// `sum` of decimals.
#[must_use]
pub fn decimal_sum() -> Arc<AggregateUDF> {
    static SUM: LazyLock<Arc<AggregateUDF>> = LazyLock::new(|| {
        Arc::new(AggregateUDF::new_from_impl(DecimalSum {
            signature: Signature::user_defined(Volatility::Immutable),
        }))
    });
    Arc::clone(&SUM)
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct DecimalSum {
    signature: Signature,
}

/// The digits by which a sum's type exceeds its values' type.
const DIGITS_MORE: u8 = 10;

impl AggregateUDFImpl for DecimalSum {
    fn name(&self) -> &'static str {
        "sum"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, given: &[DataType]) -> Result<Vec<DataType>> {
        Ok(given.to_vec())
    }

    fn return_type(&self, given: &[DataType]) -> Result<DataType> {
        match given {
            [DataType::Decimal128(digits, scale) | DataType::Decimal256(digits, scale)] => {
                let digits = (digits + DIGITS_MORE).clamp(39, DECIMAL256_MAX_PRECISION);
                Ok(DataType::Decimal256(digits, *scale))
            }
            other => internal_err!("a sum of decimals cannot add {other:?}"),
        }
    }

    fn accumulator(&self, args: AccumulatorArgs) -> Result<Box<dyn Accumulator>> {
        let held = args.return_field.data_type().clone();
        if args.is_distinct {
            return Ok(Box::new(Distinct {
                held,
                values: HashSet::new(),
            }));
        }
        Ok(Box::new(One {
            held,
            sum: Totals::of(1),
            rows: 0,
        }))
    }

    fn state_fields(&self, args: StateFieldsArgs) -> Result<Vec<FieldRef>> {
        let held = args.return_type().clone();
        let held = match args.is_distinct {
            true => DataType::new_list(held, true),
            false => held,
        };
        Ok(vec![Arc::new(Field::new(
            format!("{}[sum]", args.name),
            held,
            true,
        ))])
    }

    fn groups_accumulator_supported(&self, args: AccumulatorArgs) -> bool {
        !args.is_distinct
    }

    fn create_groups_accumulator(
        &self,
        args: AccumulatorArgs,
    ) -> Result<Box<dyn GroupsAccumulator>> {
        Ok(Box::new(Groups {
            held: args.return_field.data_type().clone(),
            sums: Totals::default(),
            seen: vec![],
        }))
    }

    fn reverse_expr(&self) -> ReversedUDAF {
        ReversedUDAF::Identical
    }
}

/// Marks a sum that overflowed 256 bits, in place of its high part.
const LOST: i128 = i128::MIN;

/// The exact sum of each group.
#[derive(Clone, Debug, Default)]
pub struct Totals {
    low: Vec<i128>,
    /// Multiples of 2^128. Empty while all of them are 0.
    high: Vec<i128>,
}

impl Totals {
    /// Sums of 0 for the given number of groups.
    #[must_use]
    pub fn of(groups: usize) -> Self {
        let mut totals = Self::default();
        totals.resize(groups);
        totals
    }

    /// The lowest 128 bits of each sum.
    #[must_use]
    pub fn into_low(self) -> Vec<i128> {
        self.low
    }

    /// Adds new groups with a sum of 0.
    pub fn resize(&mut self, groups: usize) {
        self.low.resize(groups, 0);
        if !self.high.is_empty() {
            self.high.resize(groups, 0);
        }
    }

    /// Adds a value to a group's sum.
    #[inline]
    pub fn add(&mut self, group: usize, value: i128) {
        let (sum, left) = self.low[group].overflowing_add(value);
        self.low[group] = sum;
        if left {
            self.carry(group, if value < 0 { -1 } else { 1 });
        }
    }

    #[cold]
    fn carry(&mut self, group: usize, times: i128) {
        self.high.resize(self.low.len(), 0);
        let high = &mut self.high[group];
        *high = match *high {
            LOST => LOST,
            high => high.checked_add(times).unwrap_or(LOST),
        };
    }

    /// Adds a value of 256 bits to a group's sum.
    fn add_wide(&mut self, group: usize, value: i256) {
        let (low, high) = value.to_parts();
        let low = low.cast_signed();
        let high = high + i128::from(low < 0);
        if high != 0 {
            self.carry(group, high);
        }
        self.add(group, low);
    }

    fn add_rows(
        &mut self,
        values: &ArrayRef,
        rows: impl Iterator<Item = (usize, usize)>,
    ) -> Result<()> {
        if let Some(values) = values.as_primitive_opt::<Decimal128Type>() {
            let values = values.values();
            rows.for_each(|(row, group)| self.add(group, values[row]));
        } else if let Some(values) = values.as_primitive_opt::<Decimal256Type>() {
            let values = values.values();
            rows.for_each(|(row, group)| self.add_wide(group, values[row]));
        } else {
            return internal_err!("a sum of decimals cannot add {}", values.data_type());
        }
        Ok(())
    }

    /// The sum of a group.
    ///
    /// # Errors
    /// 22003 if it has more than 76 digits.
    pub fn total(&self, group: usize) -> Result<i256> {
        let low = self.low[group];
        let high = self.high.get(group).copied().unwrap_or(0);
        let high = high.checked_add(low >> 127);
        let total = high.map(|high| i256::from_parts(low.cast_unsigned(), high));
        let fits = |total: &i256| (-*LIMIT < *total) && (*total < *LIMIT);
        Ok(total.filter(fits).ok_or_else(overflow)?)
    }
}

/// The least number with too many digits for a decimal.
static LIMIT: LazyLock<i256> =
    LazyLock::new(|| i256::from_i128(10).wrapping_pow(DECIMAL256_MAX_PRECISION.into()));

fn decimals(
    totals: impl Iterator<Item = Result<Option<i256>>>,
    held: &DataType,
) -> Result<ArrayRef> {
    let totals = totals.collect::<Result<Decimal256Array>>()?;
    Ok(Arc::new(totals.with_data_type(held.clone())))
}

/// The rows of an array that are not NULL.
fn valid_rows(values: &ArrayRef) -> impl Iterator<Item = usize> + '_ {
    let nulls = values.nulls();
    (0..values.len()).filter(move |row| nulls.is_none_or(|nulls| nulls.is_valid(*row)))
}

/// The sums of all groups.
struct Groups {
    held: DataType,
    sums: Totals,
    /// Whether a group has a value.
    seen: Vec<bool>,
}

impl Groups {
    fn emitted(&mut self, emit_to: EmitTo) -> Result<ArrayRef> {
        let seen = emit_to.take_needed(&mut self.seen);
        let low = emit_to.take_needed(&mut self.sums.low);
        let high = match self.sums.high.is_empty() {
            true => vec![],
            false => emit_to.take_needed(&mut self.sums.high),
        };
        let sums = Totals { low, high };
        let cells = seen
            .iter()
            .enumerate()
            .map(|(group, seen)| seen.then(|| sums.total(group)).transpose());
        decimals(cells, &self.held)
    }
}

impl GroupsAccumulator for Groups {
    fn update_batch(
        &mut self,
        values: &[ArrayRef],
        group_of: &[usize],
        filter: Option<&BooleanArray>,
        groups: usize,
    ) -> Result<()> {
        self.sums.resize(groups);
        self.seen.resize(groups, false);
        let [values] = values else {
            return internal_err!("a sum takes one value");
        };
        let seen = &mut self.seen;
        let kept =
            |row: &usize| filter.is_none_or(|filter| filter.is_valid(*row) && filter.value(*row));
        let rows = valid_rows(values).filter(kept).map(|row| {
            let group = group_of[row];
            seen[group] = true;
            (row, group)
        });
        self.sums.add_rows(values, rows)
    }

    fn merge_batch(
        &mut self,
        states: &[ArrayRef],
        group_of: &[usize],
        groups: usize,
    ) -> Result<()> {
        self.update_batch(states, group_of, None, groups)
    }

    fn evaluate(&mut self, emit_to: EmitTo) -> Result<ArrayRef> {
        self.emitted(emit_to)
    }

    fn state(&mut self, emit_to: EmitTo) -> Result<Vec<ArrayRef>> {
        Ok(vec![self.emitted(emit_to)?])
    }

    fn convert_to_state(
        &self,
        values: &[ArrayRef],
        filter: Option<&BooleanArray>,
    ) -> Result<Vec<ArrayRef>> {
        let mut rows = Self {
            held: self.held.clone(),
            sums: Totals::default(),
            seen: vec![],
        };
        let count = values.first().map_or(0, Array::len);
        let group_of: Vec<usize> = (0..count).collect();
        rows.update_batch(values, &group_of, filter, count)?;
        rows.state(EmitTo::All)
    }

    fn size(&self) -> usize {
        let wide = self.sums.low.capacity() + self.sums.high.capacity();
        size_of_val(self) + wide * size_of::<i128>() + self.seen.capacity()
    }
}

/// The sum of all rows, or of a window's rows.
#[derive(Debug)]
struct One {
    held: DataType,
    sum: Totals,
    rows: usize,
}

impl Accumulator for One {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        for values in values {
            self.rows += values.len() - values.null_count();
            self.sum
                .add_rows(values, valid_rows(values).map(|row| (row, 0)))?;
        }
        Ok(())
    }

    fn retract_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        for values in values {
            self.rows -= values.len() - values.null_count();
            let negative = datafusion::arrow::compute::kernels::numeric::neg(values)?;
            self.sum
                .add_rows(&negative, valid_rows(&negative).map(|row| (row, 0)))?;
        }
        Ok(())
    }

    fn supports_retract_batch(&self) -> bool {
        true
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        self.update_batch(states)
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        Ok(vec![self.evaluate()?])
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        let total = (self.rows > 0).then(|| self.sum.total(0)).transpose()?;
        ScalarValue::new_primitive::<Decimal256Type>(total, &self.held)
    }

    fn size(&self) -> usize {
        size_of_val(self) + 2 * size_of::<i128>()
    }
}

/// The sum of distinct values.
#[derive(Debug)]
struct Distinct {
    held: DataType,
    values: HashSet<i256>,
}

impl Accumulator for Distinct {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        for values in values {
            let wide = crate::casts::arrow_cast(values, &self.held)?;
            self.values
                .extend(wide.as_primitive::<Decimal256Type>().iter().flatten());
        }
        Ok(())
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        for states in states {
            for values in states.as_list::<i32>().iter().flatten() {
                self.update_batch(&[values])?;
            }
        }
        Ok(())
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        let value =
            |value: &i256| ScalarValue::new_primitive::<Decimal256Type>(Some(*value), &self.held);
        let values = self
            .values
            .iter()
            .map(value)
            .collect::<Result<Vec<_>, _>>()?;
        let list = ScalarValue::new_list_nullable(&values, &self.held);
        Ok(vec![ScalarValue::List(list)])
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        let mut sum = Totals::of(1);
        for value in &self.values {
            sum.add_wide(0, *value);
        }
        let total = (!self.values.is_empty())
            .then(|| sum.total(0))
            .transpose()?;
        ScalarValue::new_primitive::<Decimal256Type>(total, &self.held)
    }

    fn size(&self) -> usize {
        size_of_val(self) + self.values.capacity() * size_of::<i256>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sum_may_overflow_128_bits_and_return() {
        let mut totals = Totals::of(2);
        let mut exact = i256::ZERO;
        for value in [
            i128::MAX,
            i128::MAX,
            i128::MIN,
            -i128::MAX,
            5,
            i128::MIN,
            -7,
            i128::MIN,
        ] {
            totals.add(1, value);
            exact = exact.wrapping_add(i256::from_i128(value));
            assert_eq!(totals.total(1).unwrap(), exact);
        }
        assert_eq!(totals.total(0).unwrap(), i256::ZERO);
    }

    #[test]
    fn more_than_76_digits_are_an_error() {
        let mut totals = Totals::of(1);
        totals.add_wide(0, *LIMIT - i256::ONE);
        assert!(totals.total(0).is_ok());
        totals.add_wide(0, i256::ONE);
        assert!(totals.total(0).is_err());
        totals.add_wide(0, -*LIMIT);
        assert_eq!(totals.total(0).unwrap(), i256::ZERO);
        for value in [*LIMIT, -*LIMIT] {
            (0..6).for_each(|_| totals.add_wide(0, value));
        }
        assert!(totals.total(0).is_err());
    }
}
