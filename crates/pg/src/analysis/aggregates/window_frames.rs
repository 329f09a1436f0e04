//! RANGE frames that DataFusion 55.2 refuses, or that it wrongly extends to the partition's end.
//!
//! | frame | DataFusion | here |
//! |---|---|---|
//! | no offset, over `bytea` and others | "Cannot run range queries" | GROUPS, which has the same rows |
//! | an offset beyond the largest integer | all rows to the end, with the NULLs | over a wider type |
//! | an offset with more digits than a numeric key | rounded to the key's | over a wider numeric |
//! | an offset over `real` | sums of `real` | over double precision, as PostgreSQL adds them |
//! | an offset of hours over dates | rounded to days | over timestamps |
//! | an offset of `'30'` over dates and timestamps | 30 months | 30 seconds |
//! | an offset of `30` over dates and times | 30 months | refused |
//! | an offset over times and intervals | refused | over microseconds |
//! | an offset over texts and others | added to the text | refused |
//! | an offset from an infinite date or timestamp | all rows to the end | refused |
//! | `2 PRECEDING AND 3 PRECEDING`, of any unit | refused | over no rows, but see `unmoved` |
//!
//! The rule runs before DataFusion's coercion, which gives offsets the type of the key.

use datafusion::arrow::array::{Array, AsArray};
use datafusion::arrow::datatypes::{
    DataType, Date32Type, Field, TimeUnit, TimestampMicrosecondType,
};
use datafusion::common::metadata::FieldMetadata;
use datafusion::common::tree_node::{Transformed, TransformedResult};
use datafusion::common::{DFSchema, ScalarValue};
use datafusion::config::ConfigOptions;
use datafusion::error::{DataFusionError, Result};
use datafusion::logical_expr::expr::{Sort, WindowFunction, WindowFunctionParams};
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::sort_properties::{ExprProperties, SortProperties};
use datafusion::logical_expr::utils::merge_schema;
use datafusion::logical_expr::{
    Case, Cast, ColumnarValue, Expr, ExprSchemable, LogicalPlan, ScalarFunctionArgs, ScalarUDF,
    ScalarUDFImpl, Signature, Volatility, WindowFrame, WindowFrameBound, WindowFrameUnits,
    WindowFunctionDefinition, lit,
};
use datafusion::optimizer::AnalyzerRule;
use postgres_types::Type;

use crate::PgError;
use crate::casts::{Target, decimal};
use crate::dialect::TEXT_OFFSET;
use crate::functions::marked_like;
use crate::functions::time::operators;
use crate::numbers::arithmetic::digits;
use crate::numbers::numeric::Numeric;
use crate::output::pg_type;
use crate::parameters::sql_name;
use crate::time::calendar::{DATE_INFINITY, DATE_MINUS_INFINITY, INFINITY, MINUS_INFINITY};
use crate::time::read_interval::interval;
use crate::trees::{PlanTree, Tree};

/// See the file's header.
#[derive(Debug)]
pub(crate) struct WindowFrames;

impl AnalyzerRule for WindowFrames {
    fn name(&self) -> &'static str {
        "window_frames"
    }

    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> Result<LogicalPlan> {
        typed_frames(plan)
    }
}

/// Gives the frames of a plan PostgreSQL's meaning. The rule does it before DataFusion's coercion;
/// the query of a view is coerced as soon as there is the view, without any rule.
///
/// # Errors
/// 0A000 and 22013, for offsets that PostgreSQL refuses.
pub fn typed_frames(plan: LogicalPlan) -> Result<LogicalPlan> {
    plan.change_up_with_subqueries(|node| {
        if !matches!(node, LogicalPlan::Window(_)) {
            return Ok(Transformed::no(node));
        }
        let schema = merge_schema(&node.inputs());
        let names = NamePreserver::new(&node);
        node.change_expressions(|expr| {
            let name = names.save(&expr);
            let framed = expr.change_up(|part| framed(part, &schema))?;
            Ok(framed.update_data(|expr| name.restore(expr)))
        })
    })
    .data()
}

fn framed(expr: Expr, schema: &DFSchema) -> Result<Transformed<Expr>> {
    let Expr::WindowFunction(mut call) = expr else {
        return Ok(Transformed::no(expr));
    };
    let is_empty = is_empty(&call.params.window_frame);
    let unmoved = if is_empty {
        unmoved(&call.params, schema)?
    } else {
        None
    };
    let mut changed = change(&mut call, schema)?;
    if is_empty {
        over_few_rows(&mut call, unmoved, schema)?;
        changed = true;
    }
    Ok(Transformed::new_transformed(
        Expr::WindowFunction(call),
        changed,
    ))
}

/// Whether a frame ends before it begins. Offsets that are intervals are not compared.
fn is_empty(frame: &WindowFrame) -> bool {
    let less = |a: &ScalarValue, b: &ScalarValue| match (a, b) {
        (ScalarValue::UInt64(Some(a)), ScalarValue::UInt64(Some(b))) => a < b,
        _ => {
            let number = |offset: &ScalarValue| Numeric::parse(offset.try_as_str()??);
            let (a, b) = (number(a), number(b));
            a.zip(b).is_some_and(|(a, b)| a.compare(&b).is_lt())
        }
    };
    match (&frame.start_bound, &frame.end_bound) {
        (WindowFrameBound::Preceding(start), WindowFrameBound::Preceding(end)) => less(start, end),
        (WindowFrameBound::Following(start), WindowFrameBound::Following(end)) => less(end, start),
        _ => false,
    }
}

/// Whether a row's key is NULL or infinite, so that no offset moves it: the frame of such a row has
/// all rows with its key, also where it would end before it begins. `None` for ROWS and GROUPS,
/// whose offsets move every row.
fn unmoved(params: &WindowFunctionParams, schema: &DFSchema) -> Result<Option<Expr>> {
    let [Sort { expr: key, .. }] = params.order_by.as_slice() else {
        return Ok(None);
    };
    if params.window_frame.units != WindowFrameUnits::Range {
        return Ok(None);
    }
    let is_null = key.clone().is_null();
    let (lowest, highest) = match key.get_type(schema)? {
        DataType::Float32 => (lit(f32::NEG_INFINITY), lit(f32::INFINITY)),
        DataType::Float64 => (lit(f64::NEG_INFINITY), lit(f64::INFINITY)),
        _ => return Ok(Some(is_null)),
    };
    // NaN is above all other numbers.
    let is_infinite = key.clone().lt_eq(lowest).or(key.clone().gt_eq(highest));
    Ok(Some(is_null.or(is_infinite)))
}

/// Gives a function no rows but those with an [`unmoved`] key: an aggregate by its filter, the
/// others NULL in place of each other value. The frame's bounds change places, so that DataFusion
/// takes them, and calls over other frames remain other expressions.
fn over_few_rows(
    call: &mut WindowFunction,
    unmoved: Option<Expr>,
    schema: &DFSchema,
) -> Result<()> {
    let params = &mut call.params;
    let frame = &params.window_frame;
    let (start, end) = (frame.end_bound.clone(), frame.start_bound.clone());
    params.window_frame = WindowFrame::new_bounds(frame.units, start, end);
    if matches!(call.fun, WindowFunctionDefinition::AggregateUDF(_)) {
        let filter = match (unmoved, params.filter.take()) {
            (Some(unmoved), Some(filter)) => unmoved.and(*filter),
            (Some(unmoved), None) => unmoved,
            (None, _) => lit(false),
        };
        params.filter = Some(Box::new(filter));
    } else if OF_FRAME.contains(&call.fun.name())
        && let Some(value) = params.args.first_mut()
    {
        let (_, field) = value.to_field(schema)?;
        let null = ScalarValue::try_from(field.data_type())?;
        let null = Expr::Literal(null, Some(FieldMetadata::from(field.as_ref())));
        *value = match unmoved {
            Some(unmoved) => {
                let given = vec![(Box::new(unmoved), Box::new(std::mem::take(value)))];
                let kept = Case::new(None, given, Some(Box::new(null)));
                marked_like(Expr::Case(kept), &field)
            }
            None => null,
        };
    }
    Ok(())
}

/// The window functions that read their frame.
const OF_FRAME: [&str; 3] = ["first_value", "last_value", "nth_value"];

fn change(call: &mut WindowFunction, schema: &DFSchema) -> Result<bool> {
    let params = &mut call.params;
    let Some(Sort { expr, .. }) = params.order_by.first_mut() else {
        return Ok(false);
    };
    let frame = &mut params.window_frame;
    if frame.units != WindowFrameUnits::Range {
        return Ok(false);
    }
    let held = expr.get_type(schema)?;
    if !has_offset(&frame.start_bound) && !has_offset(&frame.end_bound) {
        if !matches!(
            held,
            DataType::Binary
                | DataType::LargeBinary
                | DataType::BinaryView
                | DataType::FixedSizeBinary(_)
                | DataType::Struct(_)
                // `comparisons/list_key.rs` may turn lists into bytes.
                | DataType::List(_)
                | DataType::Time32(_)
                | DataType::Time64(_)
                | DataType::Duration(_)
        ) {
            return Ok(false);
        }
        frame.units = WindowFrameUnits::Groups;
        return Ok(true);
    }
    let numbers = [&mut frame.start_bound, &mut frame.end_bound].map(number);
    check_key(expr, &held, numbers.into_iter().flatten().next(), schema)?;
    if matches!(
        held,
        DataType::Date32 | DataType::Timestamp(TimeUnit::Microsecond, _)
    ) {
        let bounds = [&mut frame.start_bound, &mut frame.end_bound];
        over_dates(expr, bounds, &held)?;
        return Ok(true);
    }
    if matches!(
        held,
        DataType::Time32(_) | DataType::Time64(_) | DataType::Interval(_)
    ) {
        for bound in [&mut frame.start_bound, &mut frame.end_bound] {
            in_microseconds(bound, &held)?;
        }
        *expr = microseconds(std::mem::take(expr), &held);
        return Ok(true);
    }
    if held.is_integer() {
        check_whole(&frame.start_bound, &held)?;
        check_whole(&frame.end_bound, &held)?;
    }
    let wide = match held {
        DataType::Float32 => DataType::Float64,
        DataType::Decimal128(..) | DataType::Decimal256(..) => {
            with_digits(&held, [&mut frame.start_bound, &mut frame.end_bound])?
        }
        DataType::Int8 | DataType::UInt8 | DataType::Int16 | DataType::UInt16 => DataType::Int32,
        DataType::Int32 | DataType::UInt32 => DataType::Decimal128(20, 0),
        DataType::Int64 | DataType::UInt64 => DataType::Decimal128(38, 0),
        _ => return Ok(true),
    };
    *expr = Expr::Cast(Cast::new(Box::new(std::mem::take(expr)), wide));
    Ok(true)
}

/// Removes the mark from an offset that is a text, and returns the type of one that is a number.
fn number(bound: &mut WindowFrameBound) -> Option<&'static str> {
    let text = offset(bound)?.to_owned();
    if let Some(plain) = text.strip_suffix(TEXT_OFFSET) {
        give(bound, plain.to_owned());
        return None;
    }
    Numeric::parse(&text)?;
    Some(match text.parse::<i32>() {
        Ok(_) => "integer",
        Err(_) if text.contains(['.', 'e', 'E']) => "numeric",
        Err(_) => "bigint",
    })
}

/// # Errors
/// 0A000, if PostgreSQL adds no offset to a key of this type, or no number.
fn check_key(key: &Expr, held: &DataType, number: Option<&str>, schema: &DFSchema) -> Result<()> {
    let is_time = matches!(
        held,
        DataType::Date32
            | DataType::Timestamp(..)
            | DataType::Time32(_)
            | DataType::Time64(_)
            | DataType::Interval(_)
    );
    if let Some(number) = number.filter(|_| is_time) {
        return Err(no_frame(held, number));
    }
    let is_other = match held {
        DataType::Dictionary(_, value) => value.is_string(),
        DataType::Boolean
        | DataType::Binary
        | DataType::LargeBinary
        | DataType::BinaryView
        | DataType::FixedSizeBinary(_)
        | DataType::List(_)
        | DataType::Struct(_) => true,
        held => held.is_string(),
    };
    if !is_other {
        return Ok(());
    }
    let named = match held {
        DataType::List(_) => "anyarray".to_owned(),
        _ => match pg_type(&key.to_field(schema)?.1) {
            // It has the operators of text.
            Type::VARCHAR => sql_name(&Type::TEXT),
            other => sql_name(&other),
        },
    };
    let message =
        format!("RANGE with offset PRECEDING/FOLLOWING is not supported for column type {named}");
    Err(PgError::unsupported(message).into())
}

/// Prepares a frame over dates or timestamps.
///
/// # Errors
/// 22013, if an offset is negative.
fn over_dates(key: &mut Expr, bounds: [&mut WindowFrameBound; 2], held: &DataType) -> Result<()> {
    let mut has_hours = false;
    for bound in bounds {
        has_hours |= in_units(bound)?;
    }
    *key = called().call(vec![std::mem::take(key)]);
    if *held == DataType::Date32 && has_hours {
        let wide = DataType::Timestamp(TimeUnit::Microsecond, None);
        *key = Expr::Cast(Cast::new(Box::new(std::mem::take(key)), wide));
    }
    Ok(())
}

/// An offset that is still text.
fn offset(bound: &WindowFrameBound) -> Option<&str> {
    match bound {
        WindowFrameBound::CurrentRow => None,
        WindowFrameBound::Preceding(offset) | WindowFrameBound::Following(offset) => {
            offset.try_as_str().flatten()
        }
    }
}

/// Rewrites an offset over dates or timestamps as a text that Arrow reads as PostgreSQL does: for
/// Arrow a number without a unit is a number of months. Returns whether it has a time of day.
///
/// # Errors
/// 22013, if it is negative.
fn in_units(bound: &mut WindowFrameBound) -> Result<bool> {
    let Some(text) = offset(bound) else {
        return Ok(false);
    };
    let span = interval(text, None, None)?;
    if span.length() < 0 {
        return Err(negative());
    }
    let (months, days, micros) = (span.months, span.days, span.micros);
    give(
        bound,
        format!("{months} months {days} days {micros} microseconds"),
    );
    Ok(micros != 0)
}

/// The error for an offset below zero.
fn negative() -> DataFusionError {
    let message = "invalid preceding or following size in window function";
    PgError::new("22013", message).into()
}

/// A time or an interval in microseconds.
fn microseconds(key: Expr, held: &DataType) -> Expr {
    let to = |expr, data_type| Expr::Cast(Cast::new(Box::new(expr), data_type));
    if let DataType::Interval(_) = held {
        return operators::key().call(vec![key]);
    }
    let micros = to(key, DataType::Time64(TimeUnit::Microsecond));
    to(to(micros, DataType::Int64), DataType::Decimal128(20, 0))
}

/// Rewrites an offset over times or intervals as microseconds.
///
/// # Errors
/// 22013, if it is negative.
fn in_microseconds(bound: &mut WindowFrameBound, held: &DataType) -> Result<()> {
    let Some(text) = offset(bound) else {
        return Ok(());
    };
    let span = interval(text, None, None)?;
    let micros = match held {
        DataType::Interval(_) => span.length(),
        // Times ignore the days and months of an offset.
        _ => i128::from(span.micros),
    };
    if micros < 0 {
        return Err(negative());
    }
    give(bound, micros.to_string());
    Ok(())
}

/// Replaces an offset.
fn give(bound: &mut WindowFrameBound, text: String) {
    if let WindowFrameBound::Preceding(offset) | WindowFrameBound::Following(offset) = bound {
        *offset = ScalarValue::from(text);
    }
}

/// # Errors
/// 0A000, if an offset over integers has a decimal point.
fn check_whole(bound: &WindowFrameBound, held: &DataType) -> Result<()> {
    let given = offset(bound).unwrap_or_default();
    if !given.contains(['.', 'e', 'E']) {
        return Ok(());
    }
    Err(no_frame(held, "numeric"))
}

fn no_frame(held: &DataType, offset: &str) -> DataFusionError {
    let held = Target::of_field(&Field::new("", held.clone(), true));
    let named = held.map_or_else(String::new, |held| held.name());
    let message = format!(
        "RANGE with offset PRECEDING/FOLLOWING is not supported for column type {named} and \
         offset type {offset}"
    );
    PgError::unsupported(message).into()
}

/// A numeric type that holds the sums of a key and its offsets.
///
/// # Errors
/// 0A000, if such a sum has more than 76 digits.
fn with_digits(held: &DataType, bounds: [&mut WindowFrameBound; 2]) -> Result<DataType> {
    let (precision, own) = digits(held).unwrap_or_default();
    let (mut whole, mut scale) = (precision - own, own);
    for bound in bounds {
        let Some(number) = offset(bound).and_then(Numeric::parse) else {
            continue;
        };
        let number = number.trimmed();
        // Arrow does not read exponents.
        give(bound, number.to_string());
        let length = number.digits.magnitude().to_string().len();
        let (length, own) = (i16::try_from(length), i16::try_from(number.scale));
        let (length, own) = (length.unwrap_or(i16::MAX), own.unwrap_or(i16::MAX));
        whole = whole.max(length.saturating_sub(own));
        scale = scale.max(own);
    }
    if (whole, scale) == (precision - own, own) {
        return Ok(held.clone());
    }
    // One more digit for the carry of the sum.
    match (
        u8::try_from(whole.saturating_add(scale)),
        i8::try_from(scale),
    ) {
        (Ok(precision @ ..76), Ok(scale)) => Ok(decimal(precision + 1, scale)),
        _ => {
            let message = "RANGE frames over numerics of more than 75 digits are not supported";
            Err(PgError::unsupported(message).into())
        }
    }
}

fn has_offset(bound: &WindowFrameBound) -> bool {
    match bound {
        WindowFrameBound::CurrentRow => false,
        WindowFrameBound::Preceding(offset) | WindowFrameBound::Following(offset) => {
            !offset.is_null()
        }
    }
}

/// The function that the rule calls.
pub(super) fn called() -> ScalarUDF {
    ScalarUDF::from(Finite::new())
}

/// Returns its argument, unless it is infinite.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Finite {
    signature: Signature,
}

impl Finite {
    fn new() -> Self {
        Self {
            signature: Signature::any(1, Volatility::Immutable),
        }
    }
}

impl ScalarUDFImpl for Finite {
    fn name(&self) -> &'static str {
        "pg_finite"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, given: &[DataType]) -> Result<DataType> {
        Ok(given.first().cloned().unwrap_or(DataType::Null))
    }

    fn invoke_with_args(&self, mut args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let value = args.args.swap_remove(0);
        let array = value.to_array(args.number_rows)?;
        let is_infinite = match array.data_type() {
            DataType::Date32 => {
                let days = array.as_primitive::<Date32Type>().iter().flatten();
                days.into_iter()
                    .any(|days| [DATE_MINUS_INFINITY, DATE_INFINITY].contains(&days))
            }
            _ => {
                let micros = array
                    .as_primitive::<TimestampMicrosecondType>()
                    .iter()
                    .flatten();
                micros
                    .into_iter()
                    .any(|micros| [MINUS_INFINITY, INFINITY].contains(&micros))
            }
        };
        if is_infinite {
            let message = "RANGE frames with an offset over infinite times are not supported";
            return Err(PgError::unsupported(message).into());
        }
        Ok(value)
    }

    fn output_ordering(&self, inputs: &[ExprProperties]) -> Result<SortProperties> {
        Ok(inputs[0].sort_properties)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests: a failure should panic")]
mod tests {
    use datafusion::execution::SessionStateBuilder;
    use datafusion::prelude::SessionContext;

    use crate::PgError;

    async fn frame(first: &str, frame: &str) -> Result<usize, String> {
        let builder = SessionStateBuilder::new().with_default_features();
        let context = SessionContext::new_with_state(crate::install(builder).build());
        let sql = format!(
            "SELECT count(*) OVER (ORDER BY d {frame}) FROM (VALUES (pg_cast('{first}', 'date')), \
             (pg_cast('2024-01-02', 'date'))) AS v(d)"
        );
        let found = context.sql(&sql).await.unwrap().collect().await;
        let found = found.map_err(|error| PgError::of(&error).unwrap().code().to_owned())?;
        Ok(found
            .iter()
            .map(datafusion::arrow::array::RecordBatch::num_rows)
            .sum())
    }

    #[tokio::test]
    async fn offsets_from_infinite_dates_are_refused() {
        let day = "RANGE BETWEEN INTERVAL '1 day' PRECEDING AND CURRENT ROW";
        assert_eq!(frame("2024-01-01", day).await, Ok(2));
        assert_eq!(frame("infinity", day).await, Err("0A000".to_owned()));
        assert_eq!(frame("infinity", "RANGE UNBOUNDED PRECEDING").await, Ok(2));
    }
}
