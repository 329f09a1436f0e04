//! Sum, average, minimum and maximum of intervals.

use std::cmp::Ordering;
use std::sync::Arc;

use datafusion::arrow::array::{Array, ArrayRef, AsArray};
use datafusion::arrow::datatypes::{
    DataType, Decimal128Type, Field, FieldRef, Int64Type, IntervalMonthDayNano,
    IntervalMonthDayNanoType, IntervalUnit,
};
use datafusion::common::internal_err;
use datafusion::error::Result;
use datafusion::logical_expr::function::{AccumulatorArgs, StateFieldsArgs};
use datafusion::logical_expr::{
    Accumulator, AggregateUDF, AggregateUDFImpl, ColumnarValue, ScalarFunctionArgs, ScalarUDF,
    ScalarUDFImpl, Signature, Volatility,
};
use datafusion::scalar::ScalarValue;

use crate::time::span::Span;

pub(super) const INTERVAL: DataType = DataType::Interval(IntervalUnit::MonthDayNano);

/// The aggregate.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Of {
    Min,
    Max,
    Sum,
    Avg,
}

pub(super) fn min() -> AggregateUDF {
    aggregate(Of::Min)
}

pub(super) fn max() -> AggregateUDF {
    aggregate(Of::Max)
}

pub(super) fn sum() -> AggregateUDF {
    aggregate(Of::Sum)
}

pub(super) fn avg() -> AggregateUDF {
    aggregate(Of::Avg)
}

/// The aggregates of intervals, to which the overloaded ones resolve.
pub(crate) fn resolved() -> [AggregateUDF; 4] {
    [min(), max(), sum(), avg()]
}

fn aggregate(of: Of) -> AggregateUDF {
    AggregateUDF::new_from_impl(OfIntervals {
        of,
        signature: Signature::exact(vec![INTERVAL], Volatility::Immutable),
    })
}

/// An aggregate of intervals, named like the one of other types.
#[derive(Debug, PartialEq, Eq, Hash)]
struct OfIntervals {
    of: Of,
    signature: Signature,
}

impl AggregateUDFImpl for OfIntervals {
    fn name(&self) -> &str {
        match self.of {
            Of::Min => "min",
            Of::Max => "max",
            Of::Sum => "sum",
            Of::Avg => "avg",
        }
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(INTERVAL)
    }

    fn accumulator(&self, args: AccumulatorArgs) -> Result<Box<dyn Accumulator>> {
        Ok(match self.of {
            Of::Min | Of::Max => Box::new(Extreme {
                is_max: self.of == Of::Max,
                found: None,
            }),
            Of::Sum | Of::Avg => Box::new(Sum {
                is_avg: self.of == Of::Avg,
                seen: args.is_distinct.then(Vec::new),
                ..Sum::default()
            }),
        })
    }

    fn create_sliding_accumulator(&self, args: AccumulatorArgs) -> Result<Box<dyn Accumulator>> {
        self.accumulator(args)
    }

    fn state_fields(&self, args: StateFieldsArgs) -> Result<Vec<FieldRef>> {
        let field = |name: &str, data_type| Arc::new(Field::new(name, data_type, true));
        Ok(match self.of {
            Of::Min | Of::Max => vec![field("found", INTERVAL)],
            Of::Sum | Of::Avg if args.is_distinct => {
                vec![field("seen", DataType::new_list(INTERVAL, true))]
            }
            Of::Sum | Of::Avg => vec![
                field("months", DataType::Decimal128(38, 0)),
                field("days", DataType::Decimal128(38, 0)),
                field("micros", DataType::Decimal128(38, 0)),
                field("count", DataType::Int64),
            ],
        })
    }
}

fn spans(array: &ArrayRef) -> impl Iterator<Item = Span> + '_ {
    let intervals = array.as_primitive::<IntervalMonthDayNanoType>();
    intervals.iter().flatten().map(Span::of_arrow)
}

fn scalar(span: Option<Span>) -> Result<ScalarValue> {
    let value: Option<IntervalMonthDayNano> = span.map(Span::to_arrow).transpose()?;
    Ok(ScalarValue::IntervalMonthDayNano(value))
}

#[derive(Debug)]
struct Extreme {
    is_max: bool,
    found: Option<Span>,
}

/// The extreme of two values; if they are equal, the later one, as in PostgreSQL.
fn extreme(is_max: bool, found: Option<Span>, span: Span) -> Span {
    let Some(found) = found else {
        return span;
    };
    let wanted = if is_max {
        Ordering::Greater
    } else {
        Ordering::Less
    };
    if found.compare(span) == wanted {
        found
    } else {
        span
    }
}

impl Accumulator for Extreme {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        let Some(values) = values.first() else {
            return Ok(());
        };
        for span in spans(values) {
            self.found = Some(extreme(self.is_max, self.found, span));
        }
        Ok(())
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        self.update_batch(states)
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        Ok(vec![self.evaluate()?])
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        scalar(self.found)
    }

    fn size(&self) -> usize {
        size_of_val(self)
    }
}

/// The sums of the parts, wider than in an interval, so that an average does not overflow.
#[derive(Debug, Default)]
struct Sum {
    is_avg: bool,
    months: i128,
    days: i128,
    micros: i128,
    count: i64,
    /// The distinct lengths, for an aggregate with DISTINCT.
    seen: Option<Vec<Span>>,
}

impl Sum {
    fn add(&mut self, span: Span, sign: i128) {
        self.months += sign * i128::from(span.months);
        self.days += sign * i128::from(span.days);
        self.micros += sign * i128::from(span.micros);
        self.count += if sign > 0 { 1 } else { -1 };
    }

    fn add_all(&mut self, values: &ArrayRef) {
        for span in spans(values) {
            if let Some(seen) = &mut self.seen {
                if seen.iter().any(|other| other.length() == span.length()) {
                    continue;
                }
                seen.push(span);
            }
            self.add(span, 1);
        }
    }
}

impl Accumulator for Sum {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        if let Some(values) = values.first() {
            self.add_all(values);
        }
        Ok(())
    }

    fn retract_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        if let Some(values) = values.first() {
            spans(values).for_each(|span| self.add(span, -1));
        }
        Ok(())
    }

    fn supports_retract_batch(&self) -> bool {
        self.seen.is_none()
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        if let [lists] = states {
            for list in lists.as_list::<i32>().iter().flatten() {
                self.add_all(&list);
            }
            return Ok(());
        }
        let [months, days, micros, counts] = states else {
            return internal_err!("the state of an interval aggregate has four columns");
        };
        let total = |part: &ArrayRef| {
            part.as_primitive::<Decimal128Type>()
                .iter()
                .flatten()
                .sum::<i128>()
        };
        self.months += total(months);
        self.days += total(days);
        self.micros += total(micros);
        let counts = counts.as_primitive::<Int64Type>();
        self.count += counts.iter().flatten().sum::<i64>();
        Ok(())
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        if let Some(seen) = &self.seen {
            let values = seen.iter().map(|span| scalar(Some(*span)));
            let values: Vec<ScalarValue> = values.collect::<Result<_>>()?;
            let list = ScalarValue::new_list(&values, &INTERVAL, true);
            return Ok(vec![ScalarValue::List(list)]);
        }
        let part = |value: i128| ScalarValue::Decimal128(Some(value), 38, 0);
        Ok(vec![
            part(self.months),
            part(self.days),
            part(self.micros),
            ScalarValue::Int64(Some(self.count)),
        ])
    }

    #[expect(clippy::cast_precision_loss, reason = "PostgreSQL divides by a float")]
    fn evaluate(&mut self) -> Result<ScalarValue> {
        if self.count == 0 {
            return scalar(None);
        }
        let sum = Span::checked(self.months, self.days, self.micros);
        if !self.is_avg {
            return scalar(Some(sum?));
        }
        scalar(Some(match sum {
            Ok(sum) => sum.over(self.count as f64)?,
            // The sum is out of range, but the average is not.
            Err(_) => average(self.months, self.days, self.micros, self.count)?,
        }))
    }

    fn size(&self) -> usize {
        let seen = self.seen.as_ref().map_or(0, Vec::capacity);
        size_of_val(self) + seen * size_of::<Span>()
    }
}

/// The average of parts whose sum is out of range: divides the parts, then their remainders.
fn average(months: i128, days: i128, micros: i128, count: i64) -> Result<Span> {
    let wide = i128::from(count);
    let whole = Span::checked(months / wide, days / wide, micros / wide)?;
    let rest = Span::checked(months % wide, days % wide, micros % wide)?;
    #[expect(clippy::cast_precision_loss, reason = "PostgreSQL divides by a float")]
    let rest = rest.over(count as f64)?;
    Ok(whole.add(rest)?)
}

/// `greatest` of intervals.
pub(crate) fn greatest() -> ScalarUDF {
    of_arguments("greatest", true)
}

/// `least` of intervals.
pub(crate) fn least() -> ScalarUDF {
    of_arguments("least", false)
}

fn of_arguments(name: &'static str, is_max: bool) -> ScalarUDF {
    ScalarUDF::new_from_impl(OfArguments {
        name,
        is_max,
        signature: Signature::user_defined(Volatility::Immutable),
    })
}

/// The greatest or least argument, ignoring NULLs.
#[derive(Debug, PartialEq, Eq, Hash)]
struct OfArguments {
    name: &'static str,
    is_max: bool,
    signature: Signature,
}

impl ScalarUDFImpl for OfArguments {
    fn name(&self) -> &str {
        self.name
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, given: &[DataType]) -> Result<Vec<DataType>> {
        Ok(given.iter().map(|_| INTERVAL).collect())
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(INTERVAL)
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let arrays = ColumnarValue::values_to_arrays(&args.args)?;
        let columns: Vec<_> = arrays
            .iter()
            .map(arrow::array::AsArray::as_primitive::<IntervalMonthDayNanoType>)
            .collect();
        let rows = columns.first().map_or(0, arrow::array::Array::len);
        let found = (0..rows).map(|row| {
            let values = columns.iter().filter(|column| column.is_valid(row));
            // Of equal values the first is kept.
            values
                .map(|column| column.value(row))
                .reduce(|found, value| {
                    let order = Span::of_arrow(value).compare(Span::of_arrow(found));
                    let is_better = match order {
                        Ordering::Greater => self.is_max,
                        Ordering::Less => !self.is_max,
                        Ordering::Equal => false,
                    };
                    if is_better { value } else { found }
                })
        });
        let found: datafusion::arrow::array::IntervalMonthDayNanoArray = found.collect();
        Ok(ColumnarValue::Array(Arc::new(found)))
    }
}
