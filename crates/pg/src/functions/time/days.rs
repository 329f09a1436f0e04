//! Computes a function of dates once per distinct date of a batch: batches have thousands of rows,
//! but tables have few different dates.

use std::sync::Arc;

use datafusion::arrow::array::{ArrayBuilder, AsArray, Date32Array, UInt32Array};
use datafusion::arrow::compute::{max, min, take};
use datafusion::arrow::datatypes::Date32Type;
use datafusion::error::Result;
use datafusion::logical_expr::{ColumnarValue, ScalarFunctionArgs};

/// The result of `compute` for the arguments. If the only column is one of dates that are close to
/// each other, `compute` is called with the distinct dates.
pub(super) fn once_per_day(
    args: &ScalarFunctionArgs,
    compute: impl FnOnce(&ScalarFunctionArgs) -> Result<ColumnarValue>,
) -> Result<ColumnarValue> {
    let Some((at, days, places)) = days(args) else {
        return compute(args);
    };
    let mut fewer = args.clone();
    fewer.number_rows = days.len();
    fewer.args[at] = ColumnarValue::Array(Arc::new(days));
    Ok(match compute(&fewer)? {
        ColumnarValue::Array(values) => ColumnarValue::Array(take(&values, &places, None)?),
        scalar @ ColumnarValue::Scalar(_) => scalar,
    })
}

/// The only column among the arguments, its distinct dates, and the index of each row's date.
fn days(args: &ScalarFunctionArgs) -> Option<(usize, Date32Array, UInt32Array)> {
    let mut columns = args
        .args
        .iter()
        .enumerate()
        .filter_map(|(at, arg)| match arg {
            ColumnarValue::Array(array) => Some((at, array)),
            ColumnarValue::Scalar(_) => None,
        });
    let (at, column) = columns.next()?;
    if columns.next().is_some() {
        return None;
    }
    let column = column.as_primitive_opt::<Date32Type>()?;
    let first = min(column)?;
    let count = usize::try_from(i64::from(max(column)?) - i64::from(first) + 1).ok()?;
    if count > column.len() {
        return None;
    }
    let (mut known, mut null) = (vec![None; count], None);
    let mut days = Date32Array::builder(count);
    let places = column.iter().map(|day| {
        let place = match day {
            Some(day) => &mut known[usize::try_from(i64::from(day) - i64::from(first)).ok()?],
            None => &mut null,
        };
        *place = place.or_else(|| {
            let next = u32::try_from(days.len()).ok();
            days.append_option(day);
            next
        });
        *place
    });
    let places: UInt32Array = places.collect();
    Some((at, days.finish(), places))
}
