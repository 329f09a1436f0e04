//! `timestamp_value(x)` and related functions cast a value to a date or time type by PostgreSQL's
//! casts in the session's zone. The planner inserts them where an operator needs another type.

use datafusion::logical_expr::{Expr, ScalarUDF, Volatility};

use super::rowwise::{Kind, Out, Overload, function};

macro_rules! value {
    ($overloads:ident, $kind:ident, $out:expr) => {
        const $overloads: &[Overload] = &[Overload {
            args: &[Kind::$kind],
            result: Kind::$kind,
            run: $out,
        }];
    };
}

value!(DATE, Date, |_, cells| Ok(Out::Date(cells[0].date())));
value!(TIME, Time, |_, cells| Ok(Out::Micros(cells[0].micros())));
value!(TIMESTAMP, Timestamp, |_, cells| Ok(Out::Micros(
    cells[0].micros()
)));
value!(TIMESTAMPTZ, Timestamptz, |_, cells| Ok(Out::Micros(
    cells[0].micros()
)));
value!(INTERVAL, Interval, |_, cells| Ok(Out::Span(
    cells[0].span()
)));

pub(super) fn functions() -> Vec<ScalarUDF> {
    [
        Kind::Date,
        Kind::Time,
        Kind::Timestamp,
        Kind::Timestamptz,
        Kind::Interval,
    ]
    .into_iter()
    .filter_map(udf)
    .collect()
}

fn udf(kind: Kind) -> Option<ScalarUDF> {
    let (name, overloads) = match kind {
        Kind::Date => ("date_value", DATE),
        Kind::Time => ("time_value", TIME),
        Kind::Timestamp => ("timestamp_value", TIMESTAMP),
        Kind::Timestamptz => ("timestamptz_value", TIMESTAMPTZ),
        Kind::Interval => ("interval_value", INTERVAL),
        _ => return None,
    };
    Some(function(name, Volatility::Immutable, overloads))
}

/// Casts `expr` to a date or time type; other kinds leave it as it is.
pub(crate) fn value_of(expr: Expr, kind: Kind) -> Expr {
    match udf(kind) {
        Some(udf) => udf.call(vec![expr]),
        None => expr,
    }
}

/// Whether a name is one of these functions.
pub(crate) fn is_value_function(name: &str) -> bool {
    matches!(
        name,
        "date_value" | "time_value" | "timestamp_value" | "timestamptz_value" | "interval_value"
    )
}
