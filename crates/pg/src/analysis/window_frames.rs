//! RANGE frames that DataFusion 55.2 refuses, or whose ends it takes for the partition's.
//!
//! | frame | DataFusion | here |
//! |---|---|---|
//! | no offset, over `bytea` and others | "Cannot run range queries" | GROUPS, which has the same rows |
//! | an offset beyond the largest integer | all rows to the end, with the NULLs | over a wider type |
//! | an offset of hours over dates | rounded to days | over timestamps |
//!
//! The rule runs before DataFusion's coercion, which gives offsets the type of the key. Not here:
//! infinite dates and timestamps, for which DataFusion's frames with offsets reach to the end.

use datafusion::arrow::datatypes::{DataType, TimeUnit};
use datafusion::common::DFSchema;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::config::ConfigOptions;
use datafusion::error::Result;
use datafusion::logical_expr::expr::{Sort, WindowFunction};
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::utils::merge_schema;
use datafusion::logical_expr::{
    Cast, Expr, ExprSchemable, LogicalPlan, WindowFrameBound, WindowFrameUnits,
};
use datafusion::optimizer::AnalyzerRule;

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
                | DataType::Time32(_)
                | DataType::Time64(_)
                | DataType::Duration(_)
        ) {
            return Ok(false);
        }
        frame.units = WindowFrameUnits::Groups;
        return Ok(true);
    }
    let wide = match held {
        DataType::Int8 | DataType::UInt8 | DataType::Int16 | DataType::UInt16 => DataType::Int32,
        DataType::Int32 | DataType::UInt32 => DataType::Decimal128(20, 0),
        DataType::Int64 | DataType::UInt64 => DataType::Decimal128(38, 0),
        DataType::Date32
            if [&frame.start_bound, &frame.end_bound]
                .into_iter()
                .any(has_hours) =>
        {
            DataType::Timestamp(TimeUnit::Microsecond, None)
        }
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
