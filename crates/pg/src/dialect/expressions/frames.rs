//! Offsets of window frames, which DataFusion reads only as numbers and plain intervals.
//!
//! | from | to |
//! |---|---|
//! | `RANGE '1 day' PRECEDING`, `RANGE 7 * interval '1 day' PRECEDING` | `RANGE INTERVAL '1 day ' PRECEDING` |
//! | `ROWS 1 + 1 PRECEDING`, `RANGE 2::bigint PRECEDING` | `2` |
//! | `RANGE 1.5::float8 PRECEDING` | `1.5` |
//! | `ROWS $1 PRECEDING` | a number that stands for the parameter (`parameters/frames.rs`) |
//!
//! Other expressions are left for DataFusion to refuse.

use datafusion::sql::sqlparser::ast::{
    BinaryOperator, DataType, ExactNumberInfo, Expr, Interval, UnaryOperator, Value,
    WindowFrameBound, WindowFrameUnits, WindowSpec,
};

use crate::casts::CAST;
use crate::dialect::ast::{arguments, last_word, literal_text, text};
use crate::numbers::numeric::Numeric;
use crate::output::interval_text;
use crate::time::read_interval::interval;
use crate::time::span::Span;

/// The end of an offset of RANGE that is a text. DataFusion keeps numbers as texts, too, and `30`
/// is no offset for a date, but `'30'` is 30 seconds.
pub(crate) const TEXT_OFFSET: char = ' ';

/// The number that stands for a parameter: above all those of a bigint. `None` for a name that no
/// parameter has.
fn mark(name: &str) -> Option<u64> {
    let number: u16 = name.strip_prefix('$')?.parse().ok()?;
    (number > 0).then(|| u64::MAX - u64::from(number))
}

/// The number of the parameter for which an offset stands.
pub(crate) fn parameter_in(offset: u64) -> Option<usize> {
    let number = u16::try_from(u64::MAX - offset).ok()?;
    (number > 0).then_some(number.into())
}

pub(super) fn write_offsets(window: &mut WindowSpec) {
    let Some(frame) = &mut window.window_frame else {
        return;
    };
    let is_range = frame.units == WindowFrameUnits::Range;
    let bounds = std::iter::once(&mut frame.start_bound).chain(&mut frame.end_bound);
    for bound in bounds {
        if let WindowFrameBound::Preceding(Some(offset)) | WindowFrameBound::Following(Some(offset)) =
            bound
            && let Some(plain) = if is_range {
                of_range(offset)
            } else {
                of_rows(offset)
            }
        {
            **offset = plain;
        }
    }
}

fn of_rows(offset: &Expr) -> Option<Expr> {
    if let Some(parameter) = parameter(offset) {
        return mark(parameter).map(|mark| digits(mark.to_string()));
    }
    whole(offset).and_then(counted)
}

fn of_range(offset: &Expr) -> Option<Expr> {
    if let Some(value) = shown_interval(offset) {
        return Some(Expr::Interval(Interval {
            value: Box::new(text(&format!("{value}{TEXT_OFFSET}"))),
            leading_field: None,
            leading_precision: None,
            last_field: None,
            fractional_seconds_precision: None,
        }));
    }
    match whole(offset) {
        Some(count) => counted(count),
        None => fraction(offset).map(digits),
    }
}

fn counted(count: i64) -> Option<Expr> {
    (count >= 0).then(|| digits(count.to_string()))
}

fn digits(number: String) -> Expr {
    Expr::Value(Value::Number(number, false).into())
}

/// The name of a parameter, in brackets or below a cast to an integer.
fn parameter(offset: &Expr) -> Option<&str> {
    match offset {
        Expr::Nested(inner) => parameter(inner),
        Expr::Cast {
            expr, data_type, ..
        } if is_integer(data_type) => parameter(expr),
        Expr::Value(value) => match &value.value {
            Value::Placeholder(name) => Some(name),
            _ => None,
        },
        _ => None,
    }
}

/// The value of an expression of integers.
fn whole(offset: &Expr) -> Option<i64> {
    match offset {
        Expr::Nested(inner) => whole(inner),
        Expr::Value(value) => match &value.value {
            Value::Number(digits, _) => digits.parse().ok(),
            _ => None,
        },
        Expr::Cast {
            expr, data_type, ..
        } if is_integer(data_type) => match literal_text(expr) {
            Some(text) => text.trim().parse().ok(),
            None => whole(expr),
        },
        Expr::UnaryOp { op, expr } => match op {
            UnaryOperator::Plus => whole(expr),
            UnaryOperator::Minus => whole(expr)?.checked_neg(),
            _ => None,
        },
        Expr::BinaryOp { left, op, right } => {
            let (left, right) = (whole(left)?, whole(right)?);
            match op {
                BinaryOperator::Plus => left.checked_add(right),
                BinaryOperator::Minus => left.checked_sub(right),
                BinaryOperator::Multiply => left.checked_mul(right),
                _ => None,
            }
        }
        _ => None,
    }
}

/// The digits of a number that is cast to a numeric or a float, always with a point or an exponent:
/// such an offset is refused beside integers.
fn fraction(offset: &Expr) -> Option<String> {
    let number = match offset {
        Expr::Nested(inner) => return fraction(inner),
        Expr::Cast {
            expr, data_type, ..
        } if is_fractional(data_type) => expr,
        _ => return None,
    };
    let number = match number.as_ref() {
        Expr::Value(value) => match &value.value {
            Value::Number(digits, _) => digits.as_str(),
            _ => literal_text(number)?.trim(),
        },
        _ => return None,
    };
    Numeric::parse(number).filter(|_| !number.starts_with(['-', '+']))?;
    let has_point = number.contains(['.', 'e', 'E']);
    Some(if has_point {
        number.to_owned()
    } else {
        format!("{number}.0")
    })
}

fn is_integer(data_type: &DataType) -> bool {
    matches!(
        data_type,
        DataType::SmallInt(None)
            | DataType::Int2(None)
            | DataType::Int(None)
            | DataType::Integer(None)
            | DataType::Int4(None)
            | DataType::BigInt(None)
            | DataType::Int8(None)
    )
}

fn is_fractional(data_type: &DataType) -> bool {
    matches!(
        data_type,
        DataType::Numeric(ExactNumberInfo::None)
            | DataType::Decimal(ExactNumberInfo::None)
            | DataType::Real
            | DataType::Float4
            | DataType::Float8
            | DataType::DoublePrecision
    )
}

/// The text of an offset that is a text or an interval.
fn shown_interval(offset: &Expr) -> Option<String> {
    match literal_text(offset) {
        Some(plain) => Some(plain.to_owned()),
        None => typed_interval(offset),
    }
}

/// The text of `'1 day'::interval`, of the rewritten `interval '1 day'` and `interval '1' day`, or
/// of such an interval times an integer.
fn typed_interval(offset: &Expr) -> Option<String> {
    match offset {
        Expr::Nested(inner) => typed_interval(inner),
        Expr::Cast {
            expr,
            data_type:
                DataType::Interval {
                    fields: None,
                    precision: None,
                },
            ..
        } => literal_text(expr).map(str::to_owned),
        Expr::BinaryOp {
            left,
            op: BinaryOperator::Multiply,
            right,
        } => match (typed_interval(left), typed_interval(right)) {
            (Some(interval), None) => times(&interval, whole(right)?),
            (None, Some(interval)) => times(&interval, whole(left)?),
            _ => None,
        },
        Expr::Function(function) if last_word(&function.name).as_deref() == Some(CAST) => {
            let [value, target] = arguments(function)?[..] else {
                return None;
            };
            let (value, target) = (literal_text(value)?, literal_text(target)?);
            let unit = target.strip_prefix("interval")?.trim_start_matches(':');
            Some(format!("{value} {unit}").trim_end().to_owned())
        }
        _ => None,
    }
}

fn times(text: &str, factor: i64) -> Option<String> {
    let span = interval(text, None, None).ok()?;
    let by = |part: i64| i128::from(part) * i128::from(factor);
    let (months, days) = (by(span.months.into()), by(span.days.into()));
    let span = Span::checked(months, days, by(span.micros)).ok()?;
    Some(interval_text(span.months, span.days, span.micros))
}
