//! Functions that PostgreSQL overloads by type, evaluated row by row.
//!
//! An [`Overload`] lists the types of its arguments and its result. The first one that
//! PostgreSQL's implicit casts can reach is chosen, exact types first. A NULL argument gives NULL.

use std::sync::Arc;

use datafusion::arrow::array::{
    Array, ArrayRef, AsArray, BooleanBuilder, Date32Builder, Float64Builder, Int32Builder,
    Int64Builder, IntervalMonthDayNanoBuilder, PrimitiveArray, StringArray, StringBuilder,
    Time64MicrosecondBuilder, TimestampMicrosecondBuilder,
};
use datafusion::arrow::datatypes::{
    DataType, Date32Type, Field, FieldRef, Float64Type, Int32Type, Int64Type,
    IntervalMonthDayNanoType, IntervalUnit, Time64MicrosecondType, TimeUnit,
    TimestampMicrosecondType,
};
use datafusion::common::internal_err;
use datafusion::config::ConfigOptions;
use datafusion::error::Result;
use datafusion::logical_expr::{
    ColumnarValue, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature,
    Volatility,
};
use datafusion::scalar::ScalarValue;

use super::days::once_per_day;
use crate::PgError;
use crate::casts::{self, Target, cast_array};
use crate::time::read::Surroundings;
use crate::time::span::Span;

/// A type of an argument or a result.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[expect(
    dead_code,
    reason = "the enum is complete, although some variants are unused"
)]
pub(crate) enum Kind {
    Timestamp,
    Timestamptz,
    Date,
    Time,
    Interval,
    Text,
    Int4,
    Int8,
    Float8,
    Bool,
}

impl Kind {
    /// The kind of a date or time type.
    pub(crate) fn of(data_type: &DataType) -> Option<Self> {
        Some(match data_type {
            DataType::Date32 | DataType::Date64 => Self::Date,
            DataType::Timestamp(_, None) => Self::Timestamp,
            DataType::Timestamp(_, Some(_)) => Self::Timestamptz,
            DataType::Time32(_) | DataType::Time64(_) => Self::Time,
            DataType::Interval(_) | DataType::Duration(_) => Self::Interval,
            DataType::Dictionary(_, values) => return Self::of(values),
            _ => return None,
        })
    }

    fn target(self) -> Target {
        match self {
            Self::Timestamp => Target::Timestamp(None),
            Self::Timestamptz => Target::Timestamptz(None),
            Self::Date => Target::Date,
            Self::Time => Target::Time(None),
            Self::Interval => Target::Interval(None, None),
            Self::Text => Target::Text,
            Self::Int4 => Target::Int4,
            Self::Int8 => Target::Int8,
            Self::Float8 => Target::Float8,
            Self::Bool => Target::Bool,
        }
    }

    pub(super) fn held(self) -> DataType {
        match self {
            Self::Timestamp => DataType::Timestamp(TimeUnit::Microsecond, None),
            Self::Timestamptz => DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into())),
            Self::Date => DataType::Date32,
            Self::Time => DataType::Time64(TimeUnit::Microsecond),
            Self::Interval => DataType::Interval(IntervalUnit::MonthDayNano),
            Self::Text => DataType::Utf8,
            Self::Int4 => DataType::Int32,
            Self::Int8 => DataType::Int64,
            Self::Float8 => DataType::Float64,
            Self::Bool => DataType::Boolean,
        }
    }

    /// The distance by implicit casts from another type to this one: `None` if there is no cast.
    pub(crate) fn distance(self, from: &DataType) -> Option<u32> {
        let is_text = matches!(
            from,
            DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View
        );
        if let DataType::Dictionary(_, values) = from {
            return self.distance(values);
        }
        if from.is_null() {
            return Some(if self == Self::Timestamptz { 3 } else { 4 });
        }
        if is_text && self != Self::Text {
            return Some(if self == Self::Timestamptz { 5 } else { 6 });
        }
        Some(match (self, from) {
            (Self::Timestamp, DataType::Timestamp(_, None))
            | (Self::Timestamptz, DataType::Timestamp(_, Some(_)))
            | (Self::Date, DataType::Date32 | DataType::Date64)
            | (Self::Time, DataType::Time32(_) | DataType::Time64(_))
            | (Self::Interval, DataType::Interval(_) | DataType::Duration(_))
            | (Self::Int4, DataType::Int32)
            | (Self::Int8, DataType::Int64)
            | (Self::Float8, DataType::Float64)
            | (Self::Bool, DataType::Boolean) => 0,
            (Self::Text, _) if is_text => 0,
            // The preferred type of its category.
            (Self::Timestamptz, DataType::Timestamp(_, None) | DataType::Date32) => 1,
            (Self::Timestamp, DataType::Date32 | DataType::Date64)
            | (Self::Interval, DataType::Time64(_) | DataType::Time32(_)) => 2,
            (Self::Float8, from) if from.is_numeric() => 2,
            (Self::Int8, from) if from.is_integer() => 1,
            (Self::Int4, DataType::Int8 | DataType::Int16 | DataType::UInt8 | DataType::UInt16) => {
                1
            }
            // Integer literals have 64 bits in DataFusion's plans.
            (Self::Int4, DataType::Int64) => 3,
            _ => return None,
        })
    }
}

/// An argument's value.
#[derive(Debug, Clone, Copy)]
pub(super) enum Cell<'a> {
    /// Timestamps and times of day.
    Micros(i64),
    Date(i32),
    Span(Span),
    Text(&'a str),
    Int(i64),
    Float(f64),
    /// Only for functions that take NULLs.
    Null,
}

impl<'a> Cell<'a> {
    pub(super) fn micros(self) -> i64 {
        match self {
            Self::Micros(value) | Self::Int(value) => value,
            _ => 0,
        }
    }

    pub(super) fn date(self) -> i32 {
        match self {
            Self::Date(value) => value,
            _ => 0,
        }
    }

    pub(super) fn span(self) -> Span {
        match self {
            Self::Span(value) => value,
            _ => Span::default(),
        }
    }

    pub(super) fn text(self) -> &'a str {
        match self {
            Self::Text(value) => value,
            _ => "",
        }
    }

    pub(super) fn int(self) -> i64 {
        match self {
            Self::Int(value) | Self::Micros(value) => value,
            _ => 0,
        }
    }

    pub(super) fn float(self) -> f64 {
        match self {
            Self::Float(value) => value,
            _ => 0.0,
        }
    }
}

/// A result.
#[derive(Debug, Clone)]
pub(super) enum Out {
    Micros(i64),
    Date(i32),
    Span(Span),
    Text(String),
    Int(i64),
    Float(f64),
    Bool(bool),
    Null,
}

pub(super) type Run = fn(&Surroundings, &[Cell]) -> Result<Out, PgError>;

/// One of a function's signatures.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Overload {
    pub(super) args: &'static [Kind],
    pub(super) result: Kind,
    pub(super) run: Run,
}

impl Overload {
    /// The distance from the given types by implicit casts; `None` if they do not fit.
    pub(crate) fn distance(&self, given: &[DataType]) -> Option<u32> {
        if self.args.len() != given.len() {
            return None;
        }
        let kinds = self.args.iter().zip(given);
        kinds
            .map(|(kind, given)| {
                let distance = kind.distance(given)?;
                // An exact type outweighs several near ones.
                Some(if distance == 0 { 0 } else { distance + INEXACT })
            })
            .sum()
    }

    /// The two arguments of an operator.
    pub(crate) fn pair(&self) -> Option<[Kind; 2]> {
        self.args.try_into().ok()
    }
}

const INEXACT: u32 = 100;

/// A function with these overloads.
pub(super) fn function(
    name: &'static str,
    volatility: Volatility,
    overloads: &'static [Overload],
) -> ScalarUDF {
    make(name, volatility, overloads, false)
}

/// Like [`function`], but also called for NULLs, which are [`Cell::Null`].
pub(super) fn function_with_nulls(
    name: &'static str,
    volatility: Volatility,
    overloads: &'static [Overload],
) -> ScalarUDF {
    make(name, volatility, overloads, true)
}

fn make(
    name: &'static str,
    volatility: Volatility,
    overloads: &'static [Overload],
    takes_nulls: bool,
) -> ScalarUDF {
    ScalarUDF::new_from_impl(Rowwise {
        name,
        signature: Signature::user_defined(volatility),
        overloads,
        takes_nulls,
    })
}

#[derive(Debug)]
struct Rowwise {
    name: &'static str,
    signature: Signature,
    overloads: &'static [Overload],
    takes_nulls: bool,
}

impl PartialEq for Rowwise {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}

impl Eq for Rowwise {}

impl std::hash::Hash for Rowwise {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        self.name.hash(state);
    }
}

impl Rowwise {
    fn overload(&self, given: &[DataType]) -> Result<&'static Overload> {
        overload(self.name, self.overloads, given)
    }
}

/// The overload that PostgreSQL would choose for these types.
pub(super) fn overload(
    name: &str,
    overloads: &'static [Overload],
    given: &[DataType],
) -> Result<&'static Overload> {
    let fitting = overloads
        .iter()
        .filter_map(|overload| Some((overload.distance(given)?, overload)));
    let best = fitting.min_by_key(|(distance, _)| *distance);
    best.map(|(_, overload)| overload)
        .ok_or_else(|| undefined(name, given).into())
}

/// Error 42883.
pub(super) fn undefined(name: &str, given: &[DataType]) -> PgError {
    let names: Vec<String> = given.iter().map(type_name).collect();
    PgError::undefined_function(&format!("function {name}({})", names.join(", ")))
}

fn type_name(data_type: &DataType) -> String {
    match data_type {
        DataType::Null => "unknown".to_owned(),
        other => Target::of_field(&Field::new("", other.clone(), true))
            .map_or_else(|| other.to_string(), |target| target.name()),
    }
}

impl ScalarUDFImpl for Rowwise {
    fn name(&self) -> &str {
        self.name
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, given: &[DataType]) -> Result<Vec<DataType>> {
        self.overload(given)?;
        Ok(given.to_vec())
    }

    fn return_type(&self, given: &[DataType]) -> Result<DataType> {
        Ok(self.overload(given)?.result.held())
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs) -> Result<FieldRef> {
        let given: Vec<DataType> = args
            .arg_fields
            .iter()
            .map(|field| field.data_type().clone())
            .collect();
        Ok(Field::new(self.name, self.return_type(&given)?, true).into())
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        invoke(self.name, self.overloads, self.takes_nulls, &args)
    }
}

/// Evaluates the overload for the arguments' types.
pub(super) fn invoke(
    name: &str,
    overloads: &'static [Overload],
    takes_nulls: bool,
    args: &ScalarFunctionArgs,
) -> Result<ColumnarValue> {
    let given: Vec<DataType> = args
        .arg_fields
        .iter()
        .map(|field| field.data_type().clone())
        .collect();
    let overload = overload(name, overloads, &given)?;
    let around = surroundings(&args.config_options);
    let compute = |cells: &[Cell]| (overload.run)(&around, cells);
    once_per_day(args, |args| run(args, overload, takes_nulls, compute))
}

/// The session's settings on which texts of dates depend.
pub(crate) fn surroundings(config: &ConfigOptions) -> Surroundings {
    casts::Context::of(config).surroundings()
}

/// Evaluates each row whose arguments are not NULL.
fn run(
    args: &ScalarFunctionArgs,
    overload: &Overload,
    takes_nulls: bool,
    compute: impl Fn(&[Cell]) -> Result<Out, PgError>,
) -> Result<ColumnarValue> {
    let columns = columns(args, overload.args)?;
    let is_scalar = columns.iter().all(|column| column.is_scalar);
    let rows = if is_scalar { 1 } else { args.number_rows };
    let mut builder = Builder::new(overload.result, rows);
    let mut cells = Vec::with_capacity(columns.len());
    'rows: for row in 0..rows {
        cells.clear();
        for column in &columns {
            match column.cell(row) {
                Some(cell) => cells.push(cell),
                None if takes_nulls => cells.push(Cell::Null),
                None => {
                    builder.append(Out::Null)?;
                    continue 'rows;
                }
            }
        }
        builder.append(compute(&cells)?)?;
    }
    let array = builder.finish();
    if is_scalar {
        return Ok(ColumnarValue::Scalar(ScalarValue::try_from_array(
            &array, 0,
        )?));
    }
    Ok(ColumnarValue::Array(array))
}

/// The arguments, cast to the types of `kinds`.
pub(super) fn columns(args: &ScalarFunctionArgs, kinds: &[Kind]) -> Result<Vec<Column>> {
    let context = casts::Context::of(&args.config_options);
    let given = args.args.iter().zip(&args.arg_fields).zip(kinds);
    given
        .map(|((value, field), kind)| {
            let (array, is_scalar) = match value {
                ColumnarValue::Array(array) => (Arc::clone(array), false),
                ColumnarValue::Scalar(scalar) => (scalar.to_array()?, true),
            };
            let array = if array.data_type() == &kind.held() {
                array
            } else {
                cast_array(&array, field, &kind.target(), &context)?
            };
            Column::new(&array, *kind, is_scalar)
        })
        .collect()
}

/// An argument's values.
pub(super) struct Column {
    is_scalar: bool,
    values: Values,
}

enum Values {
    Timestamp(PrimitiveArray<TimestampMicrosecondType>),
    Time(PrimitiveArray<Time64MicrosecondType>),
    Date(PrimitiveArray<Date32Type>),
    Interval(PrimitiveArray<IntervalMonthDayNanoType>),
    Text(StringArray),
    Int4(PrimitiveArray<Int32Type>),
    Int8(PrimitiveArray<Int64Type>),
    Float8(PrimitiveArray<Float64Type>),
}

impl Column {
    fn new(array: &ArrayRef, kind: Kind, is_scalar: bool) -> Result<Self> {
        let values = match kind {
            Kind::Timestamp | Kind::Timestamptz => Values::Timestamp(array.as_primitive().clone()),
            Kind::Time => Values::Time(array.as_primitive().clone()),
            Kind::Date => Values::Date(array.as_primitive().clone()),
            Kind::Interval => Values::Interval(array.as_primitive().clone()),
            Kind::Text => {
                let plain = casts::arrow_cast(array, &DataType::Utf8)?;
                Values::Text(plain.as_string().clone())
            }
            Kind::Int4 => Values::Int4(array.as_primitive().clone()),
            Kind::Int8 => Values::Int8(array.as_primitive().clone()),
            Kind::Float8 => Values::Float8(array.as_primitive().clone()),
            Kind::Bool => return internal_err!("no date or time function takes a boolean"),
        };
        Ok(Self { is_scalar, values })
    }

    /// The value of a row, `None` for NULL.
    pub(super) fn cell(&self, row: usize) -> Option<Cell<'_>> {
        let row = if self.is_scalar { 0 } else { row };
        macro_rules! cell {
            ($values:expr, $wrap:expr) => {
                $values.is_valid(row).then(|| $wrap($values.value(row)))
            };
        }
        match &self.values {
            Values::Timestamp(values) => cell!(values, Cell::Micros),
            Values::Time(values) => cell!(values, Cell::Micros),
            Values::Date(values) => cell!(values, Cell::Date),
            Values::Interval(values) => {
                cell!(values, |value| Cell::Span(Span::of_arrow(value)))
            }
            Values::Text(values) => cell!(values, Cell::Text),
            Values::Int4(values) => cell!(values, |value| Cell::Int(i64::from(value))),
            Values::Int8(values) => cell!(values, Cell::Int),
            Values::Float8(values) => cell!(values, Cell::Float),
        }
    }
}

enum Builder {
    Timestamp(TimestampMicrosecondBuilder),
    Time(Time64MicrosecondBuilder),
    Date(Date32Builder),
    Interval(IntervalMonthDayNanoBuilder),
    Text(StringBuilder),
    Int4(Int32Builder),
    Int8(Int64Builder),
    Float8(Float64Builder),
    Bool(BooleanBuilder),
}

impl Builder {
    fn new(kind: Kind, rows: usize) -> Self {
        match kind {
            Kind::Timestamp | Kind::Timestamptz => Self::Timestamp(
                TimestampMicrosecondBuilder::with_capacity(rows).with_data_type(kind.held()),
            ),
            Kind::Time => Self::Time(Time64MicrosecondBuilder::with_capacity(rows)),
            Kind::Date => Self::Date(Date32Builder::with_capacity(rows)),
            Kind::Interval => Self::Interval(IntervalMonthDayNanoBuilder::with_capacity(rows)),
            Kind::Text => Self::Text(StringBuilder::new()),
            Kind::Int4 => Self::Int4(Int32Builder::with_capacity(rows)),
            Kind::Int8 => Self::Int8(Int64Builder::with_capacity(rows)),
            Kind::Float8 => Self::Float8(Float64Builder::with_capacity(rows)),
            Kind::Bool => Self::Bool(BooleanBuilder::with_capacity(rows)),
        }
    }

    fn append(&mut self, value: Out) -> Result<()> {
        match (self, value) {
            (Self::Timestamp(cells), Out::Micros(value)) => cells.append_value(value),
            (Self::Timestamp(cells), Out::Null) => cells.append_null(),
            (Self::Time(cells), Out::Micros(value)) => cells.append_value(value),
            (Self::Time(cells), Out::Null) => cells.append_null(),
            (Self::Date(cells), Out::Date(value)) => cells.append_value(value),
            (Self::Date(cells), Out::Null) => cells.append_null(),
            (Self::Interval(cells), Out::Span(value)) => cells.append_value(value.to_arrow()?),
            (Self::Interval(cells), Out::Null) => cells.append_null(),
            (Self::Text(cells), Out::Text(value)) => cells.append_value(value),
            (Self::Text(cells), Out::Null) => cells.append_null(),
            (Self::Int4(cells), Out::Int(value)) => {
                let value = i32::try_from(value);
                cells.append_value(value.map_err(|_| PgError::out_of_range("integer"))?);
            }
            (Self::Int4(cells), Out::Null) => cells.append_null(),
            (Self::Int8(cells), Out::Int(value)) => cells.append_value(value),
            (Self::Int8(cells), Out::Null) => cells.append_null(),
            (Self::Float8(cells), Out::Float(value)) => cells.append_value(value),
            (Self::Float8(cells), Out::Null) => cells.append_null(),
            (Self::Bool(cells), Out::Bool(value)) => cells.append_value(value),
            (Self::Bool(cells), Out::Null) => cells.append_null(),
            _ => return internal_err!("a result has another type than planned"),
        }
        Ok(())
    }

    fn finish(self) -> ArrayRef {
        match self {
            Self::Timestamp(mut cells) => Arc::new(cells.finish()),
            Self::Time(mut cells) => Arc::new(cells.finish()),
            Self::Date(mut cells) => Arc::new(cells.finish()),
            Self::Interval(mut cells) => Arc::new(cells.finish()),
            Self::Text(mut cells) => Arc::new(cells.finish()),
            Self::Int4(mut cells) => Arc::new(cells.finish()),
            Self::Int8(mut cells) => Arc::new(cells.finish()),
            Self::Float8(mut cells) => Arc::new(cells.finish()),
            Self::Bool(mut cells) => Arc::new(cells.finish()),
        }
    }
}
