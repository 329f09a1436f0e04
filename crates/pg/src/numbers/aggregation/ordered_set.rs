//! `mode`, `percentile_disc` and `percentile_cont`: aggregates of sorted values.
//!
//! The fraction of an aggregate is constant. One that depends on the keys of GROUP BY, or on a row
//! of an outer query, is an argument of a function ([`OfList`]) of the group's values
//! (`rules/aggregates.rs`).
//!
//! They collect their values and sort them at the end, by keys where Arrow's order is another than
//! PostgreSQL's (`functions/keys.rs`). A state is one list, and a merge accepts any number of
//! states, so fragments of any shape can be merged.

use std::sync::Arc;

use datafusion::arrow::array::{
    Array, ArrayRef, AsArray, BooleanArray, RecordBatch, RecordBatchOptions, UInt64Array,
    new_empty_array,
};
use datafusion::arrow::compute::{SortOptions, concat, filter, is_not_null, sort, take};
use datafusion::arrow::datatypes::{
    DataType, Field, FieldRef, Float64Type, IntervalMonthDayNanoType, IntervalUnit, Schema,
};
use datafusion::common::utils::SingleRowListArrayBuilder;
use datafusion::common::{exec_err, internal_err};
use datafusion::error::Result;
use datafusion::logical_expr::function::{AccumulatorArgs, StateFieldsArgs};
use datafusion::logical_expr::utils::AggregateOrderSensitivity;
use datafusion::logical_expr::{
    Accumulator, AggregateUDF, AggregateUDFImpl, ColumnarValue, ScalarFunctionArgs, ScalarUDF,
    ScalarUDFImpl, Signature, Volatility,
};
use datafusion::scalar::ScalarValue;

use crate::casts::{Target, arrow_cast};
use crate::error::PgError;
use crate::functions::{first_value, has_key, key_bytes};
use crate::time::span::Span;

const INTERVAL: DataType = DataType::Interval(IntervalUnit::MonthDayNano);

/// The aggregate.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Kind {
    Mode,
    Discrete,
    Continuous,
}

pub(in crate::numbers) fn functions() -> Vec<AggregateUDF> {
    [Kind::Mode, Kind::Discrete, Kind::Continuous]
        .map(|kind| {
            AggregateUDF::new_from_impl(OrderedSet {
                kind,
                aliases: match kind {
                    Kind::Continuous => vec!["quantile_cont".to_owned()],
                    _ => vec![],
                },
                signature: Signature::user_defined(Volatility::Immutable),
            })
        })
        .into()
}

/// The functions that compute percentiles of values in a list.
pub(in crate::numbers) fn of_lists() -> Vec<ScalarUDF> {
    let kinds = [Kind::Discrete, Kind::Continuous];
    let all = kinds.map(|kind| [false, true].map(|is_descending| OfList::udf(kind, is_descending)));
    all.into_iter().flatten().collect()
}

/// The function that computes an aggregate's result from the list of its values and a fraction;
/// `None` for other aggregates than percentiles.
pub(crate) fn percentile_of_list(
    aggregate: &AggregateUDF,
    is_descending: bool,
) -> Option<ScalarUDF> {
    let of = aggregate.inner().downcast_ref::<OrderedSet>()?;
    (of.kind != Kind::Mode).then(|| OfList::udf(of.kind, is_descending))
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct OrderedSet {
    kind: Kind,
    aliases: Vec<String>,
    signature: Signature,
}

impl AggregateUDFImpl for OrderedSet {
    fn name(&self) -> &str {
        match self.kind {
            Kind::Mode => "mode",
            Kind::Discrete => "percentile_disc",
            Kind::Continuous => "percentile_cont",
        }
    }

    fn aliases(&self) -> &[String] {
        &self.aliases
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, given: &[DataType]) -> Result<Vec<DataType>> {
        let mut given = given.to_vec();
        if let (Kind::Continuous, Some(value)) = (self.kind, given.first_mut())
            && value.is_numeric()
        {
            *value = DataType::Float64;
        }
        Ok(given)
    }

    fn return_type(&self, given: &[DataType]) -> Result<DataType> {
        let value = match (self.kind, given) {
            (Kind::Mode, [value]) | (Kind::Discrete, [value, _]) => value.clone(),
            (Kind::Continuous, [value, _]) if *value == INTERVAL => INTERVAL,
            // Until `intervals/overloaded.rs` casts them.
            (Kind::Continuous, [DataType::Time32(_) | DataType::Time64(_), _]) => INTERVAL,
            (Kind::Continuous, [value, _]) if value.is_numeric() || value.is_null() => {
                DataType::Float64
            }
            _ => {
                let names = given
                    .iter()
                    .rev()
                    .map(|given| match Target::of_arrow(given) {
                        Some(target) => target.name(),
                        None => "unknown".to_owned(),
                    });
                let names = names.collect::<Vec<_>>().join(", ");
                let signature = format!("function {}({names})", self.name());
                return Err(PgError::undefined_function(&signature).into());
            }
        };
        Ok(match given.get(1) {
            Some(DataType::List(_)) => DataType::new_list(value, true),
            _ => value,
        })
    }

    fn return_field(&self, given: &[FieldRef]) -> Result<FieldRef> {
        let types: Vec<DataType> = given
            .iter()
            .map(|field| field.data_type().clone())
            .collect();
        let field = Field::new(self.name(), self.return_type(&types)?, true);
        // The result is one of the values, so it keeps the mark of their type.
        let value = given.first().filter(|value| {
            self.kind != Kind::Continuous && value.data_type() == field.data_type()
        });
        let metadata = value.map(|value| value.metadata().clone());
        Ok(Arc::new(field.with_metadata(metadata.unwrap_or_default())))
    }

    fn accumulator(&self, args: AccumulatorArgs) -> Result<Box<dyn Accumulator>> {
        let descending = args
            .order_bys
            .first()
            .is_some_and(|by| by.options.descending);
        let percents = match args.exprs.get(1) {
            None => Percents::One(None),
            Some(expr) => {
                let rows = RecordBatchOptions::new().with_row_count(Some(1));
                let schema = Arc::new(Schema::empty());
                let batch = RecordBatch::try_new_with_options(schema, vec![], &rows)?;
                match expr.evaluate(&batch)? {
                    ColumnarValue::Scalar(value) => percents(&value)?,
                    ColumnarValue::Array(array) => {
                        percents(&ScalarValue::try_from_array(&array, 0)?)?
                    }
                }
            }
        };
        let Some(value) = args.expr_fields.first() else {
            return internal_err!("{} needs a value", self.name());
        };
        Ok(Box::new(Values {
            kind: self.kind,
            percents,
            descending,
            value: Arc::clone(value),
            kept: vec![],
        }))
    }

    fn state_fields(&self, args: StateFieldsArgs) -> Result<Vec<FieldRef>> {
        let value = args
            .input_fields
            .first()
            .map_or(DataType::Null, |field| field.data_type().clone());
        let list = DataType::new_list(value, true);
        Ok(vec![Arc::new(Field::new(
            format!("{}[values]", args.name),
            list,
            true,
        ))])
    }

    fn supports_within_group_clause(&self) -> bool {
        true
    }

    fn order_sensitivity(&self) -> AggregateOrderSensitivity {
        AggregateOrderSensitivity::Insensitive
    }
}

/// A percentile of the values in a list.
#[derive(Debug, PartialEq, Eq, Hash)]
struct OfList {
    kind: Kind,
    is_descending: bool,
    signature: Signature,
}

impl OfList {
    fn udf(kind: Kind, is_descending: bool) -> ScalarUDF {
        ScalarUDF::new_from_impl(Self {
            kind,
            is_descending,
            signature: Signature::any(2, Volatility::Immutable),
        })
    }

    /// The result for one row.
    fn percentile(
        &self,
        values: Option<&ArrayRef>,
        element: &FieldRef,
        fraction: &ScalarValue,
    ) -> Result<ScalarValue> {
        let mut group = Values {
            kind: self.kind,
            percents: percents(fraction)?,
            descending: self.is_descending,
            value: Arc::clone(element),
            kept: vec![],
        };
        if let Some(values) = values {
            group.keep(values)?;
        }
        group.evaluate()
    }
}

impl ScalarUDFImpl for OfList {
    fn name(&self) -> &'static str {
        match (self.kind, self.is_descending) {
            (Kind::Discrete, false) => "pg_percentile_disc",
            (Kind::Discrete, true) => "pg_percentile_disc_desc",
            (_, false) => "pg_percentile_cont",
            (_, true) => "pg_percentile_cont_desc",
        }
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, given: &[DataType]) -> Result<DataType> {
        let [DataType::List(element), fraction] = given else {
            return internal_err!("{} takes a list and a fraction", self.name());
        };
        let value = element.data_type().clone();
        Ok(match fraction {
            DataType::List(_) => DataType::new_list(value, true),
            _ => value,
        })
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let rows = args.number_rows;
        let given = args.args.iter().map(|argument| argument.to_array(rows));
        let given: Vec<ArrayRef> = given.collect::<Result<_>>()?;
        let [lists, fractions] = given.as_slice() else {
            return internal_err!("{} takes a list and a fraction", self.name());
        };
        let (Some(values), DataType::List(element)) =
            (lists.as_list_opt::<i32>(), lists.data_type())
        else {
            return internal_err!("{} takes a list", self.name());
        };
        if rows == 0 {
            let held = args.return_field.data_type();
            return Ok(ColumnarValue::Array(new_empty_array(held)));
        }
        let results = (0..rows).map(|row| {
            let values = values.is_valid(row).then(|| values.value(row));
            let fraction = ScalarValue::try_from_array(fractions, row)?;
            self.percentile(values.as_ref(), element, &fraction)
        });
        let results = ScalarValue::iter_to_array(results.collect::<Result<Vec<_>>>()?)?;
        Ok(ColumnarValue::Array(results))
    }
}

/// The fractions requested by a call.
#[derive(Debug)]
enum Percents {
    One(Option<f64>),
    Many(Vec<Option<f64>>),
    /// NULL instead of an array.
    NoArray,
}

fn percents(value: &ScalarValue) -> Result<Percents> {
    if let ScalarValue::List(list) = value {
        if list.is_null(0) {
            return Ok(Percents::NoArray);
        }
        let values = arrow_cast(&list.value(0), &DataType::Float64)?;
        let values = values.as_primitive::<Float64Type>().iter();
        return Ok(Percents::Many(values.map(checked).collect::<Result<_>>()?));
    }
    let value = match value.cast_to(&DataType::Float64)? {
        ScalarValue::Float64(value) => value,
        _ => None,
    };
    Ok(Percents::One(checked(value)?))
}

fn checked(percent: Option<f64>) -> Result<Option<f64>> {
    match percent {
        Some(value) if !(0.0..=1.0).contains(&value) => {
            let message = format!("percentile value {value} is not between 0 and 1");
            Err(PgError::new("22003", message).into())
        }
        other => Ok(other),
    }
}

#[derive(Debug)]
struct Values {
    kind: Kind,
    percents: Percents,
    descending: bool,
    value: FieldRef,
    kept: Vec<ArrayRef>,
}

impl Values {
    fn keep(&mut self, values: &ArrayRef) -> Result<()> {
        let values = match values.null_count() {
            0 => Arc::clone(values),
            _ => filter(values, &is_not_null(values)?)?,
        };
        if !values.is_empty() {
            self.kept.push(compact(values)?);
        }
        Ok(())
    }

    fn all(&self) -> Result<ArrayRef> {
        if self.kept.is_empty() {
            return Ok(new_empty_array(self.value.data_type()));
        }
        let kept: Vec<&dyn Array> = self.kept.iter().map(AsRef::as_ref).collect();
        Ok(concat(&kept)?)
    }

    /// The values in PostgreSQL's order, and what is equal where two of them are.
    fn sorted(&self) -> Result<(ArrayRef, ArrayRef)> {
        let values = self.all()?;
        let held = self.value.data_type();
        let has_zeros = self.kind == Kind::Mode && held.is_floating();
        if !has_zeros && !held.is_nested() && !has_key(&self.value) {
            let options = SortOptions {
                descending: self.descending,
                nulls_first: false,
            };
            let sorted = sort(&values, Some(options))?;
            return Ok((Arc::clone(&sorted), sorted));
        }
        let keys = key_bytes(&values, &self.value)?;
        let mut rows: Vec<usize> = (0..values.len()).collect();
        // The first of equal values is shown, so they keep their order.
        rows.sort_by(|one, other| {
            let order = keys.value(*one).cmp(keys.value(*other));
            if self.descending {
                order.reverse()
            } else {
                order
            }
        });
        let rows = UInt64Array::from_iter_values(rows.into_iter().map(|row| row as u64));
        Ok((take(&values, &rows, None)?, take(&keys, &rows, None)?))
    }

    /// The value at a fraction of the sorted values.
    fn at(&self, sorted: &ArrayRef, percent: Option<f64>) -> Result<ScalarValue> {
        let Some(percent) = percent.filter(|_| !sorted.is_empty()) else {
            return ScalarValue::try_from(self.value.data_type());
        };
        #[expect(clippy::cast_precision_loss, reason = "PostgreSQL computes in doubles")]
        let count = sorted.len() as f64;
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "a position in the values"
        )]
        let index = |value: f64| (value.max(0.0) as usize).min(sorted.len() - 1);
        if self.kind == Kind::Discrete {
            let at = index((percent * count).ceil() - 1.0);
            return first_value(&sorted.slice(at, 1));
        }
        let place = percent * (count - 1.0);
        let (low, high) = (index(place.floor()), index(place.ceil()));
        if let Some(values) = sorted.as_primitive_opt::<IntervalMonthDayNanoType>() {
            let ends = [low, high].map(|at| Span::of_arrow(values.value(at)));
            let span = if low == high {
                ends[0]
            } else {
                between(ends, place - place.floor())?
            };
            return Ok(ScalarValue::IntervalMonthDayNano(Some(span.to_arrow()?)));
        }
        let values = sorted.as_primitive::<Float64Type>();
        let (first, second) = (values.value(low), values.value(high));
        let value = if low == high {
            first
        } else {
            first + (place - place.floor()) * (second - first)
        };
        Ok(ScalarValue::from(value))
    }
}

/// The interval at a part of the way between two.
fn between([first, second]: [Span; 2], part: f64) -> Result<Span, PgError> {
    second.add(first.negated()?)?.times(part)?.add(first)
}

/// Copies values that are a small part of a batch, as those of a group are, because a slice would
/// keep the whole batch in memory.
fn compact(values: ArrayRef) -> Result<ArrayRef> {
    let needed = values.to_data().get_slice_memory_size()?;
    if needed >= values.get_array_memory_size() / 2 {
        return Ok(values);
    }
    let all = UInt64Array::from_iter_values(0..values.len() as u64);
    Ok(take(&values, &all, None)?)
}

/// The position of the most frequent value, or of the first such value, by the sorted keys.
fn mode(keys: &ArrayRef) -> Result<Option<usize>> {
    if keys.is_empty() {
        return Ok(None);
    }
    let before = keys.slice(0, keys.len() - 1);
    let after = keys.slice(1, keys.len() - 1);
    let differs: BooleanArray =
        datafusion::arrow::compute::kernels::cmp::distinct(&before, &after)?;
    let (mut best, mut best_count, mut start) = (0, 0, 0);
    for row in 1..=keys.len() {
        if row == keys.len() || differs.value(row - 1) {
            if row - start > best_count {
                (best, best_count) = (start, row - start);
            }
            start = row;
        }
    }
    Ok(Some(best))
}

impl Accumulator for Values {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        match values.first() {
            Some(values) => self.keep(values),
            None => exec_err!("an ordered-set aggregate needs a value"),
        }
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        let Some(lists) = states.first().and_then(|state| state.as_list_opt::<i32>()) else {
            return internal_err!("the state of an ordered-set aggregate is one list");
        };
        for values in lists.iter().flatten() {
            self.keep(&values)?;
        }
        Ok(())
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        let list = SingleRowListArrayBuilder::new(self.all()?);
        Ok(vec![list.build_list_scalar()])
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        let (sorted, keys) = self.sorted()?;
        let held = self.value.data_type();
        if self.kind == Kind::Mode {
            return match mode(&keys)? {
                Some(at) => {
                    let at = UInt64Array::from(vec![u64::try_from(at).unwrap_or(0)]);
                    first_value(&take(&sorted, &at, None)?)
                }
                None => ScalarValue::try_from(held),
            };
        }
        let list = DataType::new_list(held.clone(), true);
        match &self.percents {
            Percents::One(percent) => self.at(&sorted, *percent),
            Percents::NoArray => ScalarValue::try_from(&list),
            Percents::Many(_) if sorted.is_empty() => ScalarValue::try_from(&list),
            Percents::Many(percents) => {
                let values = percents.iter().map(|percent| self.at(&sorted, *percent));
                let values = values.collect::<Result<Vec<_>>>()?;
                let list = ScalarValue::new_list(&values, held, true);
                Ok(ScalarValue::List(list))
            }
        }
    }

    fn size(&self) -> usize {
        let kept: usize = self
            .kept
            .iter()
            .map(arrow::array::Array::get_array_memory_size)
            .sum();
        size_of_val(self) + kept
    }
}
