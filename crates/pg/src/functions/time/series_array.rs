//! `generate_series` in a select list: returns an array per row, which the dialect unnests.
//!
//! An untyped literal takes the type that the typed arguments determine.

use std::sync::Arc;

use datafusion::arrow::array::{
    Array, ArrayBuilder, ArrayRef, AsArray, Decimal256Builder, Int32Array, Int64Array, ListArray,
    TimestampMicrosecondArray,
};
use datafusion::arrow::buffer::{NullBuffer, OffsetBuffer};
use datafusion::arrow::datatypes::{
    DECIMAL256_MAX_PRECISION, DataType, Decimal256Type, Field, FieldRef, Int64Type,
    IntervalMonthDayNanoType, TimestampMicrosecondType, i256,
};
use datafusion::common::internal_err;
use datafusion::error::Result;
use datafusion::logical_expr::{
    ColumnarValue, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature,
    Volatility,
};
use datafusion::scalar::ScalarValue;

use super::rowwise::{Kind, undefined};
use super::series::{Moments, kind_of_series};
use crate::PgError;
use crate::casts::{Context, OPEN_SCALE, Target, arrow_cast, cast_array};
use crate::time::span::Span;
use crate::time::zone::Zone;

/// The function's name, which the dialect uses.
pub(crate) const SERIES: &str = "generate_series_array";
/// The most elements in the arrays of a batch: a short statement may request any number.
const ELEMENTS_MAX: usize = 1 << 22;

pub(super) fn udf() -> ScalarUDF {
    ScalarUDF::new_from_impl(SeriesArray {
        signature: Signature::user_defined(Volatility::Stable),
    })
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct SeriesArray {
    signature: Signature,
}

/// The element type of a series.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Of {
    Int4,
    Int8,
    Numeric,
    Times(Kind),
}

impl Of {
    /// Of arguments of these types. A text is a literal without a type.
    fn new(given: &[DataType]) -> Result<Self> {
        let refused = || {
            let shown = |given: &DataType| match given {
                given if is_text(given) => DataType::Null,
                given => given.clone(),
            };
            let shown: Vec<DataType> = given.iter().map(shown).collect();
            undefined("generate_series", &shown).into()
        };
        let (2 | 3) = given.len() else {
            return Err(refused());
        };
        let is_open = |given: &DataType| given.is_null() || is_text(given);
        if given.iter().all(is_open) && given.iter().any(is_text) {
            let unknown = vec!["unknown"; given.len()].join(", ");
            let message = format!("function generate_series({unknown}) is not unique");
            return Err(PgError::new("42725", message).into());
        }
        let integer = |given: &DataType| given.is_integer() || is_open(given);
        let exact = |given: &DataType| {
            integer(given) || matches!(given, DataType::Decimal128(..) | DataType::Decimal256(..))
        };
        if given.iter().all(integer) {
            let wide = given.contains(&DataType::Int64);
            return Ok(if wide { Self::Int8 } else { Self::Int4 });
        }
        if given.iter().all(exact) {
            return Ok(Self::Numeric);
        }
        let [start, end, step] = given else {
            return Err(refused());
        };
        let kinds = [Kind::of(start), Kind::of(end)];
        let is_interval = Kind::of(step) == Some(Kind::Interval);
        let is_end = |end: &DataType| {
            use Kind::{Date, Timestamp, Timestamptz};
            is_open(end) || matches!(Kind::of(end), Some(Date | Timestamp | Timestamptz))
        };
        if !(is_interval || is_open(step)) || !is_end(start) || !is_end(end) {
            return Err(refused());
        }
        Ok(Self::Times(kind_of_series(kinds)))
    }

    /// The Arrow type of the elements.
    fn held(self) -> DataType {
        match self {
            Self::Int4 => DataType::Int32,
            Self::Int8 => DataType::Int64,
            Self::Numeric => DataType::Decimal256(DECIMAL256_MAX_PRECISION, OPEN_SCALE),
            Self::Times(kind) => kind.held(),
        }
    }

    /// An argument, cast to the type that [`Elements::append`] reads.
    fn argument(
        self,
        at: usize,
        array: &ArrayRef,
        field: &Field,
        context: &Context,
    ) -> Result<ArrayRef> {
        let read = |target: &Target| {
            if is_text(field.data_type()) {
                cast_array(array, field, target, context)
            } else {
                Ok(Arc::clone(array))
            }
        };
        match self {
            Self::Int4 => arrow_cast(&read(&Target::Int4)?, &DataType::Int64),
            Self::Int8 => arrow_cast(&read(&Target::Int8)?, &DataType::Int64),
            Self::Numeric => arrow_cast(&read(&Target::Numeric(None))?, &self.held()),
            Self::Times(kind) => {
                let target = match kind {
                    _ if at == 2 => Target::Interval(None, None),
                    Kind::Timestamp => Target::Timestamp(None),
                    _ => Target::Timestamptz(None),
                };
                cast_array(array, field, &target, context)
            }
        }
    }
}

impl ScalarUDFImpl for SeriesArray {
    fn name(&self) -> &'static str {
        SERIES
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, given: &[DataType]) -> Result<Vec<DataType>> {
        Ok(given.to_vec())
    }

    fn return_type(&self, given: &[DataType]) -> Result<DataType> {
        let held = Of::new(given)?.held();
        Ok(DataType::new_list(held, true))
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs) -> Result<FieldRef> {
        let given = args
            .arg_fields
            .iter()
            .map(|field| field.data_type().clone());
        let given: Vec<DataType> = given.collect();
        let mut fields = args.arg_fields.iter().zip(args.scalar_arguments);
        let is_typed = fields.any(|(field, literal)| {
            is_text(field.data_type()) && (literal.is_none() || !field.metadata().is_empty())
        });
        if is_typed {
            return Err(undefined("generate_series", &given).into());
        }
        Ok(Field::new(SERIES, self.return_type(&given)?, true).into())
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let given = args
            .arg_fields
            .iter()
            .map(|field| field.data_type().clone());
        let of = Of::new(&given.collect::<Vec<_>>())?;
        let context = Context::of(&args.config_options);
        let is_scalar = |arg: &ColumnarValue| matches!(arg, ColumnarValue::Scalar(_));
        let is_constant = args.args.iter().all(is_scalar);
        let arrays = ColumnarValue::values_to_arrays(&args.args)?;
        let columns = arrays.iter().zip(&args.arg_fields).enumerate();
        let columns = columns.map(|(at, (array, field))| of.argument(at, array, field, &context));
        let columns = columns.collect::<Result<Vec<_>>>()?;
        let list = lists(of, &columns, context.surroundings().zone)?;
        if is_constant {
            return Ok(ColumnarValue::Scalar(ScalarValue::try_from_array(
                &list, 0,
            )?));
        }
        Ok(ColumnarValue::Array(list))
    }
}

fn is_text(given: &DataType) -> bool {
    matches!(
        given,
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View
    )
}

fn zero_step() -> PgError {
    PgError::new("22023", "step size cannot equal zero")
}

fn lists(of: Of, columns: &[ArrayRef], zone: Zone) -> Result<ArrayRef> {
    let rows = columns[0].len();
    let is_null = |row| columns.iter().any(|column| column.is_null(row));
    let mut lengths = Vec::with_capacity(rows);
    let mut all = Elements::new(of);
    for row in 0..rows {
        let before = all.len();
        if !is_null(row) {
            all.append(columns, row, zone)?;
        }
        lengths.push(all.len() - before);
    }
    let field = Arc::new(Field::new_list_field(of.held(), true));
    let valid: Vec<bool> = (0..rows).map(|row| !is_null(row)).collect();
    let offsets = OffsetBuffer::from_lengths(lengths);
    let nulls = Some(NullBuffer::from(valid));
    Ok(Arc::new(ListArray::try_new(
        field,
        offsets,
        all.finish(of)?,
        nulls,
    )?))
}

enum Elements {
    Whole(Vec<i64>),
    Numeric(Decimal256Builder),
    Moments(Kind, Vec<i64>),
}

impl Elements {
    fn new(of: Of) -> Self {
        match of {
            Of::Int4 | Of::Int8 => Self::Whole(vec![]),
            Of::Numeric => Self::Numeric(Decimal256Builder::new().with_data_type(of.held())),
            Of::Times(kind) => Self::Moments(kind, vec![]),
        }
    }

    fn len(&self) -> usize {
        match self {
            Self::Whole(all) | Self::Moments(_, all) => all.len(),
            Self::Numeric(all) => all.len(),
        }
    }

    fn append(&mut self, columns: &[ArrayRef], row: usize, zone: Zone) -> Result<()> {
        match self {
            Self::Whole(all) => {
                let at = |column: usize| columns[column].as_primitive::<Int64Type>().value(row);
                let step = if columns.len() > 2 { at(2) } else { 1 };
                if step == 0 {
                    return Err(zero_step().into());
                }
                let (mut next, end) = (Some(at(0)), at(1));
                while let Some(value) = next
                    && (if step > 0 { value <= end } else { value >= end })
                {
                    bounded(all.len())?;
                    all.push(value);
                    next = value.checked_add(step);
                }
            }
            Self::Numeric(all) => {
                let at =
                    |column: usize| columns[column].as_primitive::<Decimal256Type>().value(row);
                let step = match columns.get(2) {
                    Some(_) => at(2),
                    None => one(),
                };
                if step == i256::ZERO {
                    return Err(zero_step().into());
                }
                let (mut next, end, rises) = (Some(at(0)), at(1), step > i256::ZERO);
                while let Some(value) = next
                    && (if rises { value <= end } else { value >= end })
                {
                    bounded(all.len())?;
                    all.append_value(value);
                    next = value.checked_add(step);
                }
            }
            Self::Moments(kind, all) => {
                let at = |column: usize| {
                    let column = columns[column].as_primitive::<TimestampMicrosecondType>();
                    column.value(row)
                };
                let step = columns[2]
                    .as_primitive::<IntervalMonthDayNanoType>()
                    .value(row);
                let step = Span::of_arrow(step);
                if step.length() == 0 {
                    return Err(zero_step().into());
                }
                let zone = match kind {
                    Kind::Timestamp => Zone::Fixed(0),
                    _ => zone,
                };
                let mut moments = Moments::new(at(0), at(1), step, zone);
                let found = moments.batch(ELEMENTS_MAX)?;
                bounded(all.len() + found.len())?;
                all.extend(found);
            }
        }
        Ok(())
    }

    fn finish(self, of: Of) -> Result<ArrayRef> {
        Ok(match self {
            Self::Whole(all) if of == Of::Int4 => {
                let narrow = all.into_iter().map(i32::try_from);
                let Ok(narrow) = narrow.collect::<Result<Vec<_>, _>>() else {
                    return internal_err!("a series between integers overflows");
                };
                Arc::new(Int32Array::from(narrow))
            }
            Self::Whole(all) => Arc::new(Int64Array::from(all)),
            Self::Numeric(mut all) => Arc::new(all.finish()),
            Self::Moments(kind, all) => {
                Arc::new(TimestampMicrosecondArray::from(all).with_data_type(kind.held()))
            }
        })
    }
}

/// 1 as a numeric of unspecified scale.
fn one() -> i256 {
    let scale = u32::try_from(OPEN_SCALE).unwrap_or(0);
    i256::from_i128(10).wrapping_pow(scale)
}

fn bounded(elements: usize) -> Result<(), PgError> {
    if elements < ELEMENTS_MAX {
        return Ok(());
    }
    let message = format!(
        "generate_series in a select list gives at most {ELEMENTS_MAX} rows; in FROM, any number"
    );
    Err(PgError::new("54000", message))
}
