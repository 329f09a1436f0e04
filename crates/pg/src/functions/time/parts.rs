//! `extract`, `date_part`, `date_trunc` and `date_bin`.
//!
//! The scale of `extract`'s numeric result depends on the field, so the field must be a literal.

use std::sync::Arc;

use datafusion::arrow::array::{ArrayRef, Decimal128Builder};
use datafusion::arrow::datatypes::{DECIMAL128_MAX_PRECISION, DataType, Field, FieldRef};
use datafusion::common::{internal_err, plan_err};
use datafusion::error::Result;
use datafusion::logical_expr::{
    ColumnarValue, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature,
    Volatility,
};
use datafusion::scalar::ScalarValue;

use super::days::once_per_day;
use super::rowwise::{Cell, Kind, Out, Overload, columns, function, surroundings, undefined};
use crate::PgError;
use crate::time::arithmetic::{self, midnight};
use crate::time::calendar::{self, INFINITY, is_finite};
use crate::time::fields::{self, Field as Value};
use crate::time::read::{self, Surroundings};
use crate::time::words::{self, Unit};
use crate::time::zone::Zone;

/// The function that the planner writes for `EXTRACT(… FROM …)`.
const EXTRACT: &str = "extract";

pub(super) fn functions() -> Vec<ScalarUDF> {
    vec![
        extract(),
        function("date_part", Volatility::Immutable, PART),
        function("date_trunc", Volatility::Immutable, TRUNC),
        function("date_bin", Volatility::Immutable, BIN),
    ]
}

pub(crate) fn extract() -> ScalarUDF {
    ScalarUDF::new_from_impl(Extract {
        signature: Signature::user_defined(Volatility::Immutable),
    })
}

const PART: &[Overload] = &[
    Overload {
        args: &[Kind::Text, Kind::Timestamp],
        result: Kind::Float8,
        run: |around, cells| part(around, cells, Kind::Timestamp),
    },
    Overload {
        args: &[Kind::Text, Kind::Timestamptz],
        result: Kind::Float8,
        run: |around, cells| part(around, cells, Kind::Timestamptz),
    },
    Overload {
        args: &[Kind::Text, Kind::Date],
        result: Kind::Float8,
        run: |around, cells| {
            let at = midnight(cells[1].date())?;
            part(around, &[cells[0], Cell::Micros(at)], Kind::Timestamp)
        },
    },
    Overload {
        args: &[Kind::Text, Kind::Time],
        result: Kind::Float8,
        run: |around, cells| part(around, cells, Kind::Time),
    },
    Overload {
        args: &[Kind::Text, Kind::Interval],
        result: Kind::Float8,
        run: |around, cells| part(around, cells, Kind::Interval),
    },
];

fn part(around: &Surroundings, cells: &[Cell], kind: Kind) -> Result<Out, PgError> {
    let name = cells[0].text().to_ascii_lowercase();
    let unit = unit_of(&name, kind)?;
    let infinite = match cells[1] {
        Cell::Micros(at) if kind != Kind::Time && !is_finite(at) => Some(at == INFINITY),
        _ => None,
    };
    if let Some(is_positive) = infinite {
        return Ok(match (fields::grows(unit), is_positive) {
            (false, _) => Out::Null,
            (true, true) => Out::Float(f64::INFINITY),
            (true, false) => Out::Float(f64::NEG_INFINITY),
        });
    }
    let value = value(around.zone, cells[1], unit, kind).ok_or_else(|| unsupported(&name, kind))?;
    if unit == Unit::Julian {
        let local = match kind {
            Kind::Timestamptz => around.zone.local(cells[1].micros()),
            _ => cells[1].micros(),
        };
        return Ok(Out::Float(fields::julian_float(local)));
    }
    Ok(Out::Float(value.as_float()))
}

/// The value of a field of a finite value; `None` if the type has no such field.
fn value(zone: Zone, cell: Cell, unit: Unit, kind: Kind) -> Option<Value> {
    match (kind, cell) {
        (Kind::Date, Cell::Date(day)) => fields::of_date(day.into(), unit),
        (Kind::Timestamp, Cell::Micros(at)) => fields::of_moment(at, at, unit),
        (Kind::Timestamptz, Cell::Micros(at)) => fields::of_offset(zone.offset_at(at), unit)
            .or_else(|| fields::of_moment(zone.local(at), at, unit)),
        (Kind::Time, Cell::Micros(at)) => fields::of_time(at, unit),
        (_, Cell::Span(span)) => fields::of_span(span, unit),
        _ => None,
    }
}

fn unit_of(name: &str, kind: Kind) -> Result<Unit, PgError> {
    words::field(name).ok_or_else(|| unrecognized(name, kind))
}

fn type_name(kind: Kind) -> &'static str {
    match kind {
        Kind::Date => "date",
        Kind::Time => "time without time zone",
        Kind::Interval => "interval",
        Kind::Timestamptz => "timestamp with time zone",
        _ => "timestamp without time zone",
    }
}

/// Error 22023.
fn unrecognized(name: &str, kind: Kind) -> PgError {
    let message = format!(
        "unit \"{name}\" not recognized for type {}",
        type_name(kind)
    );
    PgError::new("22023", message)
}

fn unsupported(name: &str, kind: Kind) -> PgError {
    let message = format!("unit \"{name}\" not supported for type {}", type_name(kind));
    PgError::unsupported(message)
}

const TRUNC: &[Overload] = &[
    Overload {
        args: &[Kind::Text, Kind::Timestamp],
        result: Kind::Timestamp,
        run: |_, cells| {
            truncated(cells[0], Kind::Timestamp, |unit| {
                arithmetic::truncated(cells[1].micros(), unit)
            })
        },
    },
    Overload {
        args: &[Kind::Text, Kind::Timestamptz],
        result: Kind::Timestamptz,
        run: |around, cells| {
            truncated(cells[0], Kind::Timestamptz, |unit| {
                arithmetic::truncated_in(cells[1].micros(), unit, around.zone)
            })
        },
    },
    Overload {
        args: &[Kind::Text, Kind::Timestamptz, Kind::Text],
        result: Kind::Timestamptz,
        run: |_, cells| {
            let name = cells[2].text();
            let zone = Zone::read(name).ok_or_else(|| read::unknown_zone(name))?;
            let zone = zone.whole();
            truncated(cells[0], Kind::Timestamptz, |unit| {
                arithmetic::truncated_in(cells[1].micros(), unit, zone)
            })
        },
    },
    Overload {
        args: &[Kind::Text, Kind::Interval],
        result: Kind::Interval,
        run: |_, cells| {
            let name = cells[0].text().to_ascii_lowercase();
            let unit = words::unit(&name).ok_or_else(|| unrecognized(&name, Kind::Interval))?;
            let span = arithmetic::truncated_span(cells[1].span(), unit);
            span.map(Out::Span)
                .ok_or_else(|| unsupported(&name, Kind::Interval))
        },
    },
];

fn truncated(
    name: Cell,
    kind: Kind,
    truncate: impl Fn(Unit) -> Option<Result<i64, PgError>>,
) -> Result<Out, PgError> {
    let name = name.text();
    let unit = unit_quick(name).or_else(|| words::unit(&name.to_ascii_lowercase()));
    let unit = unit.ok_or_else(|| unrecognized(&name.to_ascii_lowercase(), kind))?;
    let start = truncate(unit).ok_or_else(|| unsupported(&name.to_ascii_lowercase(), kind))?;
    Ok(Out::Micros(start?))
}

/// Looks up the usual spelling without copying it for each row.
fn unit_quick(name: &str) -> Option<Unit> {
    name.bytes()
        .all(|byte| byte.is_ascii_lowercase())
        .then(|| words::unit(name))
        .flatten()
}

const BIN: &[Overload] = &[
    Overload {
        args: &[Kind::Interval, Kind::Timestamp, Kind::Timestamp],
        result: Kind::Timestamp,
        run: bin,
    },
    Overload {
        args: &[Kind::Interval, Kind::Timestamptz, Kind::Timestamptz],
        result: Kind::Timestamptz,
        run: bin,
    },
];

fn bin(_: &Surroundings, cells: &[Cell]) -> Result<Out, PgError> {
    let at = arithmetic::binned(cells[0].span(), cells[1].micros(), cells[2].micros())?;
    Ok(Out::Micros(at))
}

/// `EXTRACT(field FROM x)`, a numeric.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Extract {
    signature: Signature,
}

/// The kind of a value's type.
fn kind_of(data_type: &DataType) -> Option<Kind> {
    Some(match data_type {
        DataType::Date32 | DataType::Date64 => Kind::Date,
        DataType::Timestamp(_, None) => Kind::Timestamp,
        DataType::Timestamp(_, Some(_)) => Kind::Timestamptz,
        DataType::Time32(_) | DataType::Time64(_) => Kind::Time,
        DataType::Interval(_) | DataType::Duration(_) | DataType::Null => Kind::Interval,
        DataType::Dictionary(_, values) => return kind_of(values),
        _ => return None,
    })
}

impl Extract {
    /// The field and the kind of the value.
    fn resolve(args: &ReturnFieldArgs) -> Result<(Unit, Kind)> {
        let given: Vec<DataType> = args
            .arg_fields
            .iter()
            .map(|field| field.data_type().clone())
            .collect();
        let [_, of] = given.as_slice() else {
            return Err(undefined(EXTRACT, &given).into());
        };
        let kind = kind_of(of).ok_or_else(|| PgError::from_extract(&given))?;
        let Some(Some(name)) = args.scalar_arguments.first() else {
            return plan_err!("the field of extract must be a literal");
        };
        let name = name.try_as_str().flatten().unwrap_or_default();
        let name = name.to_ascii_lowercase();
        let unit = unit_of(&name, kind)?;
        let sample = match kind {
            Kind::Date => Cell::Date(0),
            Kind::Interval => Cell::Span(crate::time::span::Span::default()),
            _ => Cell::Micros(0),
        };
        if value(crate::time::zone::UTC, sample, unit, kind).is_none() {
            return Err(unsupported(&name, kind).into());
        }
        Ok((unit, kind))
    }
}

impl PgError {
    fn from_extract(given: &[DataType]) -> Self {
        undefined("pg_catalog.extract", given)
    }
}

/// The precision and scale of a field.
fn numeric(unit: Unit, kind: Kind) -> (u8, i8) {
    let scale = fields::scale(unit, kind == Kind::Date);
    let precision = match unit {
        Unit::Julian => DECIMAL128_MAX_PRECISION,
        Unit::Epoch if kind == Kind::Date => 15,
        Unit::Epoch => 20,
        Unit::Second => 8,
        Unit::Millisecond => 8,
        _ => 10,
    };
    (precision, scale.cast_signed())
}

impl ScalarUDFImpl for Extract {
    fn name(&self) -> &str {
        EXTRACT
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, given: &[DataType]) -> Result<Vec<DataType>> {
        Ok(given.to_vec())
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        internal_err!("the type of {EXTRACT} depends on its field")
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs) -> Result<FieldRef> {
        let (unit, kind) = Self::resolve(&args)?;
        let (precision, scale) = numeric(unit, kind);
        let data_type = DataType::Decimal128(precision, scale);
        Ok(Field::new(EXTRACT, data_type, true).into())
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        once_per_day(&args, extracted)
    }
}

/// Extracts the field from a column.
fn extracted(args: &ScalarFunctionArgs) -> Result<ColumnarValue> {
    let [ColumnarValue::Scalar(name), _] = args.args.as_slice() else {
        return plan_err!("the field of extract must be a literal");
    };
    let name = name.try_as_str().flatten().unwrap_or_default();
    let name = name.to_ascii_lowercase();
    let Some(kind) = kind_of(args.arg_fields[1].data_type()) else {
        return internal_err!("extract got another type than planned");
    };
    let unit = unit_of(&name, kind)?;
    let zone = surroundings(&args.config_options).zone;
    let columns = columns(args, &[Kind::Text, kind])?;
    let is_scalar = matches!(args.args[1], ColumnarValue::Scalar(_));
    let rows = if is_scalar { 1 } else { args.number_rows };
    let (precision, scale) = numeric(unit, kind);
    let mut builder =
        Decimal128Builder::with_capacity(rows).with_precision_and_scale(precision, scale)?;
    for row in 0..rows {
        let Some(cell) = columns[1].cell(row) else {
            builder.append_null();
            continue;
        };
        if is_infinite(cell, kind) {
            if fields::grows(unit) {
                let message = "an infinite numeric is not supported";
                return Err(PgError::unsupported(message).into());
            }
            builder.append_null();
            continue;
        }
        let value = value(zone, cell, unit, kind).ok_or_else(|| unsupported(&name, kind))?;
        builder.append_value(value.at_scale(scale.cast_unsigned()));
    }
    let array: ArrayRef = Arc::new(builder.finish());
    if is_scalar {
        let value = ScalarValue::try_from_array(&array, 0)?;
        return Ok(ColumnarValue::Scalar(value));
    }
    Ok(ColumnarValue::Array(array))
}

fn is_infinite(cell: Cell, kind: Kind) -> bool {
    match (kind, cell) {
        (Kind::Date, Cell::Date(day)) => {
            day == calendar::DATE_INFINITY || day == calendar::DATE_MINUS_INFINITY
        }
        (Kind::Timestamp | Kind::Timestamptz, Cell::Micros(at)) => !is_finite(at),
        _ => false,
    }
}
