//! Parameters as offsets of window frames: `ROWS $1 PRECEDING`.
//!
//! DataFusion's frames have numbers, not expressions. So the dialect
//! (`dialect/expressions/frames.rs`) writes a number that stands for the parameter, above all those
//! of a bigint, and the value takes its place where others take theirs ([`fill`](super::fill)).
//! Not here: RANGE, whose offsets have the type of the key, and parameters in expressions.

use datafusion::arrow::datatypes::DataType;
use datafusion::common::ScalarValue;
use datafusion::error::Result;
use datafusion::logical_expr::expr::WindowFunction;
use datafusion::logical_expr::{Expr, WindowFrame, WindowFrameBound};

use crate::PgError;
use crate::dialect::parameter_in;

fn parameter(bound: &WindowFrameBound) -> Option<usize> {
    match bound {
        WindowFrameBound::Preceding(ScalarValue::UInt64(Some(offset)))
        | WindowFrameBound::Following(ScalarValue::UInt64(Some(offset))) => parameter_in(*offset),
        _ => None,
    }
}

/// The parameters in a function's frame.
pub(super) fn in_frame(call: &WindowFunction) -> impl Iterator<Item = usize> {
    let frame = &call.params.window_frame;
    let bounds = [&frame.start_bound, &frame.end_bound];
    bounds.into_iter().filter_map(parameter)
}

/// Whether a part of an expression is a function whose frame has a parameter without a value.
pub(crate) fn has_open_frame(part: &Expr) -> bool {
    matches!(part, Expr::WindowFunction(call) if in_frame(call).next().is_some())
}

/// The function with values in place of parameters in its frame; `None` if it has none there.
///
/// # Errors
/// 22004 and 22013 for NULL and negative values.
pub(super) fn filled(call: &WindowFunction, values: &[Expr]) -> Result<Option<Expr>> {
    if in_frame(call).next().is_none() {
        return Ok(None);
    }
    let mut call = call.clone();
    let frame = call.params.window_frame;
    let start = bound(frame.start_bound, "starting", values)?;
    let end = bound(frame.end_bound, "ending", values)?;
    call.params.window_frame = WindowFrame::new_bounds(frame.units, start, end);
    Ok(Some(Expr::WindowFunction(Box::new(call))))
}

fn bound(bound: WindowFrameBound, side: &str, values: &[Expr]) -> Result<WindowFrameBound> {
    let value = parameter(&bound).and_then(|number| values.get(number - 1));
    let Some(Expr::Literal(value, _)) = value else {
        return Ok(bound);
    };
    let refused = |code, what| {
        let message = format!("frame {side} offset must not be {what}");
        PgError::new(code, message)
    };
    let ScalarValue::Int64(Some(value)) = value.cast_to(&DataType::Int64)? else {
        return Err(refused("22004", "null").into());
    };
    let offset = u64::try_from(value).map_err(|_| refused("22013", "negative"))?;
    let offset = ScalarValue::UInt64(Some(offset));
    Ok(match bound {
        WindowFrameBound::Preceding(_) => WindowFrameBound::Preceding(offset),
        WindowFrameBound::Following(_) => WindowFrameBound::Following(offset),
        WindowFrameBound::CurrentRow => WindowFrameBound::CurrentRow,
    })
}
