//! RANGE frames that DataFusion 55.2 refuses, or whose ends it takes for the partition's.
//!
//! | frame | DataFusion | here |
//! |---|---|---|
//! | no offset, over `bytea` and others | "Cannot run range queries" | GROUPS, which has the same rows |
//! | an offset beyond the largest integer | all rows to the end, with the NULLs | over a wider type |
//! | an offset of hours over dates | rounded to days | over timestamps |
//! | an offset from an infinite date or timestamp | all rows to the end | refused |
//!
//! The rule runs before DataFusion's coercion, which gives offsets the type of the key.

use datafusion::arrow::array::{Array, AsArray};
use datafusion::arrow::datatypes::{DataType, Date32Type, TimeUnit, TimestampMicrosecondType};
use datafusion::common::DFSchema;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::config::ConfigOptions;
use datafusion::error::Result;
use datafusion::logical_expr::expr::{Sort, WindowFunction};
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::sort_properties::{ExprProperties, SortProperties};
use datafusion::logical_expr::utils::merge_schema;
use datafusion::logical_expr::{
    Cast, ColumnarValue, Expr, ExprSchemable, LogicalPlan, ScalarFunctionArgs, ScalarUDF,
    ScalarUDFImpl, Signature, Volatility, WindowFrameBound, WindowFrameUnits,
};
use datafusion::optimizer::AnalyzerRule;

use crate::PgError;
use crate::time::calendar::{DATE_INFINITY, DATE_MINUS_INFINITY, INFINITY, MINUS_INFINITY};
use crate::time::read_interval::interval;

/// See the file's header.
#[derive(Debug)]
pub(crate) struct WindowFrames;

impl AnalyzerRule for WindowFrames {
    fn name(&self) -> &'static str {
        "window_frames"
    }

    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> Result<LogicalPlan> {
        plan.transform_up_with_subqueries(|node| {
            if !matches!(node, LogicalPlan::Window(_)) {
                return Ok(Transformed::no(node));
            }
            let schema = merge_schema(&node.inputs());
            let names = NamePreserver::new(&node);
            node.map_expressions(|expr| {
                let name = names.save(&expr);
                let framed = expr.transform_up(|part| framed(part, &schema))?;
                Ok(framed.update_data(|expr| name.restore(expr)))
            })
        })
        .data()
    }
}

fn framed(expr: Expr, schema: &DFSchema) -> Result<Transformed<Expr>> {
    let Expr::WindowFunction(mut call) = expr else {
        return Ok(Transformed::no(expr));
    };
    let changed = change(&mut call, schema)?;
    Ok(Transformed::new_transformed(
        Expr::WindowFunction(call),
        changed,
    ))
}

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
                // `comparisons/list_key.rs` may make them bytes.
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
    if matches!(
        held,
        DataType::Date32 | DataType::Timestamp(TimeUnit::Microsecond, _)
    ) {
        let hours = has_hours(&frame.start_bound) || has_hours(&frame.end_bound);
        *expr = ScalarUDF::from(Finite::new()).call(vec![std::mem::take(expr)]);
        if held == DataType::Date32 && hours {
            let wide = DataType::Timestamp(TimeUnit::Microsecond, None);
            *expr = Expr::Cast(Cast::new(Box::new(std::mem::take(expr)), wide));
        }
        return Ok(true);
    }
    let wide = match held {
        DataType::Int8 | DataType::UInt8 | DataType::Int16 | DataType::UInt16 => DataType::Int32,
        DataType::Int32 | DataType::UInt32 => DataType::Decimal128(20, 0),
        DataType::Int64 | DataType::UInt64 => DataType::Decimal128(38, 0),
        _ => return Ok(false),
    };
    *expr = Expr::Cast(Cast::new(Box::new(std::mem::take(expr)), wide));
    Ok(true)
}

/// Whether an offset, which is still text, is no number of whole days.
fn has_hours(bound: &WindowFrameBound) -> bool {
    let (WindowFrameBound::Preceding(offset) | WindowFrameBound::Following(offset)) = bound else {
        return false;
    };
    let text = offset.try_as_str().flatten();
    let span = text.and_then(|text| interval(text, None, None).ok());
    span.is_some_and(|span| span.micros != 0)
}

fn has_offset(bound: &WindowFrameBound) -> bool {
    match bound {
        WindowFrameBound::CurrentRow => false,
        WindowFrameBound::Preceding(offset) | WindowFrameBound::Following(offset) => {
            !offset.is_null()
        }
    }
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
