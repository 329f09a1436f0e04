//! Counts and sums of decimals and floats, group by group.
//!
//! Most aggregates of a report are `count`, `sum` and `avg` of decimals or doubles. The rows of
//! each group are counted once per batch for all of them. Decimals that are known in 64 bits are
//! summed in 64 bits, in four lanes, so that additions for one group do not wait for each other;
//! the lanes are added to the wide sum once per batch. Floats have lanes, too. The states equal
//! those of the partial aggregates of DataFusion and of `coscan-pg`.
//! Not here: other aggregates, and those with FILTER or DISTINCT, which use DataFusion's
//! accumulators (`program.rs`).
//! N2: sums of decimals are exact, so the order of rows does not matter; a state that the
//! aggregate declares with 128 bits has the lowest 128 bits of the sum, as DataFusion's has. Sums
//! of floats differ from DataFusion's by the rounding of another order of additions.

use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, AsArray, Decimal128Array, Decimal256Array, Float64Array, Int64Array,
    UInt64Array,
};
use arrow::buffer::{NullBuffer, ScalarBuffer};
use arrow::datatypes::{DataType, Decimal128Type, FieldRef, Float64Type};
use coscan_pg::numbers::{Totals, decimal_sum};
use datafusion::common::internal_datafusion_err;
use datafusion::error::Result;
use datafusion::functions_aggregate::average::avg_udaf;
use datafusion::functions_aggregate::count::count_udaf;
use datafusion::functions_aggregate::sum::sum_udaf;
use datafusion::physical_plan::udaf::AggregateFunctionExpr;

use super::narrow::Narrow;
use crate::read::each_width;

/// Rows per group of the current batch, in four lanes.
#[derive(Default)]
pub(crate) struct Histogram {
    lanes: Vec<[u32; LANES]>,
    counts: Vec<u64>,
    valid: bool,
}

/// Lanes of a sum per group: as many as additions that a core has in flight.
const LANES: usize = 4;

impl Histogram {
    /// Ends the batch: the next call of `counts` counts a new one.
    pub(crate) fn clear(&mut self) {
        self.valid = false;
    }

    /// The number of rows of each group in the batch.
    pub(crate) fn counts(&mut self, group_of: &[usize], groups: usize) -> &[u64] {
        if !self.valid {
            self.valid = true;
            self.lanes.clear();
            self.lanes.resize(groups, [0; LANES]);
            for (row, group) in group_of.iter().enumerate() {
                self.lanes[*group][row % LANES] += 1;
            }
            self.counts.clear();
            let sum = |lanes: &[u32; LANES]| -> u64 { lanes.iter().map(|n| u64::from(*n)).sum() };
            self.counts.extend(self.lanes.iter().map(sum));
        }
        &self.counts
    }
}

/// The DataFusion aggregate that a [`Sums`] implements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// The number of rows, or of values that are not null.
    Count,
    Sum,
    Average,
}

/// The states of one aggregate.
pub(crate) struct Sums {
    kind: Kind,
    fields: Vec<FieldRef>,
    /// Sums of decimals; empty for floats.
    sums: Totals,
    /// Sums of floats, in lanes; empty for decimals.
    floats: Vec<[f64; LANES]>,
    counts: Vec<u64>,
    lanes: Vec<[i64; LANES]>,
}

impl Sums {
    /// The states of an aggregate; `None` if it needs DataFusion's accumulator.
    ///
    /// # Errors
    /// If the function cannot declare its states.
    pub(crate) fn of(
        function: &AggregateFunctionExpr,
        arg: Option<&DataType>,
    ) -> Result<Option<Self>> {
        if function.is_distinct() || function.is_reversed() {
            return Ok(None);
        }
        let fields = function.state_fields()?;
        let types: Vec<&DataType> = fields.iter().map(|field| field.data_type()).collect();
        let udaf = function.fun();
        let decimal = matches!(arg, Some(DataType::Decimal128(..)));
        let double = matches!(arg, Some(DataType::Float64));
        let kind = match types.as_slice() {
            [DataType::Int64] if *udaf == *count_udaf() => Kind::Count,
            [DataType::Decimal128(..)] if decimal && *udaf == *sum_udaf() => Kind::Sum,
            [DataType::Decimal256(..)] if decimal && *udaf == *decimal_sum() => Kind::Sum,
            [DataType::Float64] if double && *udaf == *sum_udaf() => Kind::Sum,
            [DataType::UInt64, DataType::Decimal128(..)] if decimal && *udaf == *avg_udaf() => {
                Kind::Average
            }
            [DataType::UInt64, DataType::Float64] if double && *udaf == *avg_udaf() => {
                Kind::Average
            }
            _ => return Ok(None),
        };
        Ok(Some(Self {
            kind,
            fields,
            sums: Totals::default(),
            floats: Vec::new(),
            counts: Vec::new(),
            lanes: Vec::new(),
        }))
    }

    /// The aggregate that this implements.
    pub(crate) fn kind(&self) -> Kind {
        self.kind
    }

    fn adds_floats(&self) -> bool {
        let sum = self.fields.last();
        sum.is_some_and(|field| *field.data_type() == DataType::Float64)
    }

    fn grow(&mut self, groups: usize) {
        self.counts.resize(groups, 0);
        match self.kind {
            Kind::Count => {}
            Kind::Sum | Kind::Average if self.adds_floats() => {
                self.floats.resize(groups, [0.0; LANES]);
            }
            Kind::Sum | Kind::Average => self.sums.resize(groups),
        }
    }

    /// Counts the rows of a batch that are not null.
    pub(crate) fn count(
        &mut self,
        nulls: Option<&NullBuffer>,
        group_of: &[usize],
        groups: usize,
        histogram: &mut Histogram,
    ) {
        self.grow(groups);
        match nulls.filter(|nulls| nulls.null_count() > 0) {
            None => {
                let rows = histogram.counts(group_of, groups);
                for (count, rows) in self.counts.iter_mut().zip(rows) {
                    *count += rows;
                }
            }
            Some(nulls) => {
                for row in nulls.valid_indices() {
                    self.counts[group_of[row]] += 1;
                }
            }
        }
    }

    /// Adds values that are known in 64 bits.
    pub(crate) fn add_narrow(
        &mut self,
        values: &Narrow,
        group_of: &[usize],
        groups: usize,
        histogram: &mut Histogram,
    ) {
        self.count(values.nulls.as_ref(), group_of, groups, histogram);
        let rows = group_of.len() as i128;
        let largest = i128::from(values.low)
            .abs()
            .max(i128::from(values.high).abs());
        let safe = i64::try_from(largest * rows).is_ok() && groups <= rows.unsigned_abs() as usize;
        let nulls = values.nulls.as_ref();
        each_width!(&values.values, values => self.sum(values, nulls, group_of, groups, safe));
    }

    /// Adds values to the sums. `safe`: no sum of a batch overflows 64 bits.
    fn sum<T: Copy + Into<i64>>(
        &mut self,
        values: &[T],
        nulls: Option<&NullBuffer>,
        group_of: &[usize],
        groups: usize,
        safe: bool,
    ) {
        let wide = |value: &T| -> i64 { (*value).into() };
        if let Some(nulls) = nulls {
            for row in nulls.valid_indices() {
                self.sums.add(group_of[row], wide(&values[row]).into());
            }
        } else if !safe {
            for (group, value) in group_of.iter().zip(values) {
                self.sums.add(*group, wide(value).into());
            }
        } else if groups == 1 {
            let sum: i64 = values.iter().map(wide).sum();
            self.sums.add(0, sum.into());
        } else {
            self.lanes.clear();
            self.lanes.resize(groups, [0; LANES]);
            for (row, (group, value)) in group_of.iter().zip(values).enumerate() {
                self.lanes[*group][row % LANES] += wide(value);
            }
            for (group, lanes) in self.lanes.iter().enumerate() {
                let batch: i128 = lanes.iter().map(|lane| i128::from(*lane)).sum();
                self.sums.add(group, batch);
            }
        }
    }

    /// Adds decimals of 128 bits, or floats.
    ///
    /// # Errors
    /// If they are neither: a bug.
    pub(crate) fn add_wide(
        &mut self,
        values: &ArrayRef,
        group_of: &[usize],
        groups: usize,
        histogram: &mut Histogram,
    ) -> Result<()> {
        let other = || internal_datafusion_err!("a sum of {}", values.data_type());
        if self.adds_floats() {
            let floats = values.as_primitive_opt::<Float64Type>().ok_or_else(other)?;
            self.add_floats(floats, group_of, groups, histogram);
            return Ok(());
        }
        let values: &Decimal128Array = values
            .as_primitive_opt::<Decimal128Type>()
            .ok_or_else(other)?;
        self.count(values.nulls(), group_of, groups, histogram);
        match values.nulls().filter(|nulls| nulls.null_count() > 0) {
            None => {
                for (group, value) in group_of.iter().zip(values.values()) {
                    self.sums.add(*group, *value);
                }
            }
            Some(nulls) => {
                for row in nulls.valid_indices() {
                    self.sums.add(group_of[row], values.value(row));
                }
            }
        }
        Ok(())
    }

    fn add_floats(
        &mut self,
        values: &Float64Array,
        group_of: &[usize],
        groups: usize,
        histogram: &mut Histogram,
    ) {
        self.count(values.nulls(), group_of, groups, histogram);
        match values.nulls().filter(|nulls| nulls.null_count() > 0) {
            None => {
                for (row, (group, value)) in group_of.iter().zip(values.values()).enumerate() {
                    self.floats[*group][row % LANES] += value;
                }
            }
            Some(nulls) => {
                for row in nulls.valid_indices() {
                    self.floats[group_of[row]][row % LANES] += values.value(row);
                }
            }
        }
    }

    /// Copies the sums and counts of `other`.
    pub(crate) fn take_over(&mut self, other: &Self) {
        self.sums.clone_from(&other.sums);
        self.floats.clone_from(&other.floats);
        self.counts.clone_from(&other.counts);
    }

    /// Takes out the states of `groups` groups.
    ///
    /// # Errors
    /// If a state's type is not the declared one: a bug.
    pub(crate) fn state(&mut self, groups: usize) -> Result<Vec<ArrayRef>> {
        self.grow(groups);
        let counts = std::mem::take(&mut self.counts);
        if self.kind == Kind::Count {
            let counts = counts.into_iter().map(u64::cast_signed);
            return Ok(vec![Arc::new(Int64Array::from_iter_values(counts))]);
        }
        let seen: NullBuffer = counts.iter().map(|count| *count > 0).collect();
        let seen = (seen.null_count() > 0).then_some(seen);
        let sums: ArrayRef = match self.fields.last().map(|field| field.data_type()) {
            Some(DataType::Decimal128(precision, scale)) => {
                let sums = ScalarBuffer::from(std::mem::take(&mut self.sums).into_low());
                let sums = Decimal128Array::new(sums, seen.clone());
                Arc::new(sums.with_precision_and_scale(*precision, *scale)?)
            }
            Some(DataType::Decimal256(precision, scale)) => {
                let sums = std::mem::take(&mut self.sums);
                let sums = (0..groups).map(|group| sums.total(group));
                let sums = ScalarBuffer::from(sums.collect::<Result<Vec<_>>>()?);
                let sums = Decimal256Array::new(sums, seen.clone());
                Arc::new(sums.with_precision_and_scale(*precision, *scale)?)
            }
            Some(DataType::Float64) => {
                let lanes = std::mem::take(&mut self.floats);
                let sums = lanes.iter().map(|lanes| lanes.iter().sum()).collect();
                Arc::new(Float64Array::new(sums, seen.clone()))
            }
            other => return Err(internal_datafusion_err!("the state of a sum is {other:?}")),
        };
        Ok(match self.kind {
            Kind::Average => {
                let counts = UInt64Array::new(ScalarBuffer::from(counts), seen);
                vec![Arc::new(counts), sums]
            }
            Kind::Sum | Kind::Count => vec![sums],
        })
    }
}

#[cfg(test)]
mod tests {
    use arrow::array::BooleanArray;
    use arrow::datatypes::{Decimal256Type, Field, Schema, i256};
    use datafusion::logical_expr::{AggregateUDF, EmitTo};
    use datafusion::physical_expr::aggregate::AggregateExprBuilder;
    use datafusion::physical_expr::expressions::col;
    use proptest::prelude::*;

    use super::*;

    const EDGE: i64 = 999_999_999_999_999_999;

    fn values() -> impl Strategy<Value = Vec<Option<i64>>> {
        let value = prop_oneof![
            3 => (-1_000i64..1_000).prop_map(Some),
            1 => select_edge().prop_map(Some),
            1 => Just(None),
        ];
        prop_oneof![
            proptest::collection::vec(value, 1..200),
            proptest::collection::vec((-EDGE..EDGE).prop_map(Some), 1..200),
        ]
    }

    fn select_edge() -> impl Strategy<Value = i64> {
        proptest::sample::select(vec![EDGE, -EDGE, EDGE - 1, 0])
    }

    proptest! {
        /// Sums of whole numbers of this size are exact in any order.
        #[test]
        fn states_of_floats_are_those_of_datafusion(
            batches in proptest::collection::vec(
                proptest::collection::vec(
                    proptest::option::weighted(0.9, -1_000_000i32..1_000_000),
                    1..200,
                ),
                1..4,
            ),
            groups in 1usize..6,
        ) {
            let groups = batches.iter().map(Vec::len).fold(groups, usize::min);
            let schema = Arc::new(Schema::new(vec![Field::new("v", DataType::Float64, true)]));
            for udaf in [sum_udaf(), avg_udaf()] {
                let function = function(udaf, &schema);
                let mut ours = Sums::of(&function, Some(&DataType::Float64)).unwrap().unwrap();
                let mut theirs = function.create_groups_accumulator().unwrap();
                let mut histogram = Histogram::default();
                for batch in &batches {
                    let values: Float64Array = batch.iter().map(|v| v.map(f64::from)).collect();
                    let values: ArrayRef = Arc::new(values);
                    let group_of: Vec<usize> =
                        (0..batch.len()).map(|row| row * 7 % groups).collect();
                    theirs.update_batch(&[Arc::clone(&values)], &group_of, None, groups).unwrap();
                    histogram.clear();
                    ours.add_wide(&values, &group_of, groups, &mut histogram).unwrap();
                }
                let ours = ours.state(groups).unwrap();
                let theirs = theirs.state(EmitTo::All).unwrap();
                prop_assert_eq!(ours.len(), theirs.len());
                for (ours, theirs) in ours.iter().zip(&theirs) {
                    prop_assert_eq!(ours, theirs);
                }
            }
        }
    }

    fn function(udaf: Arc<AggregateUDF>, schema: &Arc<Schema>) -> AggregateFunctionExpr {
        let arg = col("v", schema).unwrap();
        let builder = AggregateExprBuilder::new(udaf, vec![arg]);
        builder
            .schema(Arc::clone(schema))
            .alias("a")
            .build()
            .unwrap()
    }

    proptest! {
        #[test]
        fn states_are_those_of_datafusion(
            batches in proptest::collection::vec(values(), 1..4),
            groups in 1usize..6,
            narrow in any::<bool>(),
            shrink in any::<bool>(),
        ) {
            // Every group has rows in every batch: DataFusion treats a group without rows as a
            // group with a sum of 0.
            let groups = batches.iter().map(Vec::len).fold(groups, usize::min);
            let data_type = DataType::Decimal128(18, 2);
            let schema = Arc::new(Schema::new(vec![Field::new("v", data_type.clone(), true)]));
            for udaf in [sum_udaf(), decimal_sum(), avg_udaf(), count_udaf()] {
                let function = function(udaf, &schema);
                let mut ours = Sums::of(&function, Some(&data_type)).unwrap().unwrap();
                let mut theirs = function.create_groups_accumulator().unwrap();
                let mut histogram = Histogram::default();
                for batch in &batches {
                    let wide: Decimal128Array = batch.iter().map(|v| v.map(i128::from)).collect();
                    let wide = wide.with_precision_and_scale(18, 2).unwrap();
                    let group_of: Vec<usize> = (0..batch.len()).map(|row| row * 7 % groups).collect();
                    let wide: ArrayRef = Arc::new(wide);
                    let none: Option<&BooleanArray> = None;
                    theirs.update_batch(&[Arc::clone(&wide)], &group_of, none, groups).unwrap();
                    histogram.clear();
                    let known: arrow::array::Decimal64Array = batch.iter().copied().collect();
                    let known = known.with_precision_and_scale(18, 2).unwrap();
                    let known: ArrayRef = Arc::new(known);
                    let known = if shrink { coscan_storage::narrowest(known) } else { known };
                    let known = Narrow::of_array(&known).unwrap();
                    match ours.kind() {
                        Kind::Count => ours.count(wide.nulls(), &group_of, groups, &mut histogram),
                        _ if narrow => ours.add_narrow(&known, &group_of, groups, &mut histogram),
                        _ => ours.add_wide(&wide, &group_of, groups, &mut histogram).unwrap(),
                    }
                }
                let ours = ours.state(groups).unwrap();
                let theirs = theirs.state(EmitTo::All).unwrap();
                prop_assert_eq!(ours.len(), theirs.len());
                for (ours, theirs) in ours.iter().zip(&theirs) {
                    prop_assert_eq!(ours.data_type(), theirs.data_type());
                    prop_assert_eq!(ours, theirs);
                }
            }
        }
    }

    #[test]
    fn sums_leave_128_bits() {
        let data_type = DataType::Decimal128(38, 0);
        let schema = Arc::new(Schema::new(vec![Field::new("v", data_type.clone(), true)]));
        let function = function(decimal_sum(), &schema);
        let mut ours = Sums::of(&function, Some(&data_type)).unwrap().unwrap();
        let mut theirs = function.create_groups_accumulator().unwrap();
        let values = Decimal128Array::from(vec![10_i128.pow(38) - 1; 7]);
        let values: ArrayRef = Arc::new(values.with_data_type(data_type));
        let group_of = [0, 1, 0, 1, 0, 0, 0];
        theirs
            .update_batch(&[Arc::clone(&values)], &group_of, None, 2)
            .unwrap();
        ours.add_wide(&values, &group_of, 2, &mut Histogram::default())
            .unwrap();
        let ours = ours.state(2).unwrap();
        assert_eq!(ours, theirs.state(EmitTo::All).unwrap());
        let exact = i256::from_i128(10_i128.pow(38) - 1).wrapping_mul(i256::from_i128(5));
        assert_eq!(ours[0].as_primitive::<Decimal256Type>().value(0), exact);
    }
}
