//! The analyzer rule that replaces window functions with [`OverFrame`].

use std::sync::Arc;

use datafusion::arrow::datatypes::FieldRef;
use datafusion::common::tree_node::Transformed;
use datafusion::common::{DFSchema, ScalarValue};
use datafusion::config::ConfigOptions;
use datafusion::error::Result;
use datafusion::logical_expr::expr::WindowFunction;
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::utils::merge_schema;
use datafusion::logical_expr::{
    AggregateUDF, Expr, ExprSchemable, LogicalPlan, WindowFrame, WindowFunctionDefinition,
    WindowUDF,
};
use datafusion::optimizer::AnalyzerRule;
use datafusion::physical_expr::expressions::Literal;

use super::evaluator::{OverFrame, Seen, aggregate_over};
use super::in_order::in_order;
use crate::casts::CAST;
use crate::dialect::Excluded;
use crate::numbers::as_float_key;
use crate::trees::{PlanTree, Tree};

/// See the file's header. It runs last, over coerced types.
#[derive(Debug)]
pub(crate) struct Frames;

impl AnalyzerRule for Frames {
    fn name(&self) -> &'static str {
        "frames"
    }

    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> Result<LogicalPlan> {
        let changed = plan.change_up_with_subqueries(|node| {
            if !matches!(node, LogicalPlan::Window(_)) {
                return Ok(Transformed::no(node));
            }
            let schema = merge_schema(&node.inputs());
            let names = NamePreserver::new(&node);
            node.change_expressions(|expr| {
                let name = names.save(&expr);
                let changed = expr.change_up(|expr| computed(expr, &schema))?;
                Ok(changed.update_data(|expr| name.restore(expr)))
            })
        })?;
        Ok(changed.data)
    }
}

fn mark(expr: &Expr) -> Option<Excluded> {
    match expr {
        Expr::Literal(ScalarValue::Utf8(Some(text)), _) => Excluded::of_mark(text),
        Expr::Cast(cast) => mark(&cast.expr),
        _ => None,
    }
}

fn computed(expr: Expr, schema: &DFSchema) -> Result<Transformed<Expr>> {
    let Expr::WindowFunction(mut function) = expr else {
        return Ok(Transformed::no(expr));
    };
    let excluded = function.params.partition_by.iter().find_map(mark);
    let partitions = &mut function.params.partition_by;
    partitions.retain(|expr| mark(expr).is_none());
    let Some(seen) = seen(&function, excluded, schema)? else {
        let kept = kept_in_order(&function, schema)?;
        let is_changed = excluded.is_some() || kept.is_some();
        if let Some(kept) = kept {
            function.fun = WindowFunctionDefinition::AggregateUDF(kept);
        }
        let expr = Expr::WindowFunction(function);
        return Ok(Transformed::new_transformed(expr, is_changed));
    };
    let (_, field) = Expr::WindowFunction(function.clone()).to_field(schema)?;
    let WindowFunction { fun, params } = function.as_mut();
    if matches!(seen, Seen::Lag | Seen::Lead | Seen::Tile) {
        params.window_frame = WindowFrame::new(None);
    }
    let arguments = params.args.len();
    let keys = params.order_by.iter().map(|sort| &sort.expr);
    let keys: Vec<Expr> = keys.map(|key| as_float_key(key.clone(), schema)).collect();
    params.args.extend(keys);
    let filter = params.filter.take();
    let filtered = filter.is_some();
    params.args.extend(filter.map(|filter| *filter));
    let made = OverFrame::new(seen, excluded, field, arguments, filtered);
    *fun = WindowFunctionDefinition::WindowUDF(Arc::new(WindowUDF::new_from_impl(made)));
    Ok(Transformed::yes(Expr::WindowFunction(function)))
}

/// What must be computed over the frame, if DataFusion cannot do so.
fn seen(
    function: &WindowFunction,
    excluded: Option<Excluded>,
    schema: &DFSchema,
) -> Result<Option<Seen>> {
    let WindowFunction { fun, params } = function;
    let is_constant = |arg: &Expr| matches!(arg, Expr::Literal(..));
    let shifts = || {
        let has_default = params.args.get(2).is_some_and(|default| !is_null(default));
        let is_plain = params.args.get(1).is_none_or(is_number);
        !is_plain && !has_default && params.null_treatment.is_none()
    };
    Ok(match (fun, fun.name(), excluded) {
        (_, "lag", _) => shifts().then_some(Seen::Lag),
        (_, "lead", _) => shifts().then_some(Seen::Lead),
        (_, "ntile", _) => {
            let given = params.args.first();
            let is_known = |given: &Expr| is_constant(given) || is_number(given);
            given.filter(|given| !is_known(given)).map(|_| Seen::Tile)
        }
        (_, "nth_value", None) => {
            let given = params.args.get(1);
            given.filter(|given| !is_constant(given)).map(|_| Seen::Nth)
        }
        (_, "nth_value", Some(_)) => Some(Seen::Nth),
        (_, "first_value", Some(_)) => Some(Seen::First),
        (_, "last_value", Some(_)) => Some(Seen::Last),
        (WindowFunctionDefinition::AggregateUDF(aggregate), ..) => {
            let slides = !params.window_frame.start_bound.is_unbounded();
            let ours = excluded.is_some()
                || (slides
                    && (loses_digits(aggregate, &params.args, schema)
                        || !retracts(aggregate, &params.args, schema)?));
            ours.then(|| Seen::Aggregate(Arc::clone(aggregate)))
        }
        (WindowFunctionDefinition::WindowUDF(_), ..) => None,
    })
}

/// Whether an expression is an integer that DataFusion will know when it plans.
fn is_number(expr: &Expr) -> bool {
    match expr {
        Expr::Literal(value, _) => value.data_type().is_integer() && !value.is_null(),
        Expr::Negative(inner) => is_number(inner),
        Expr::Cast(cast) => is_number(&cast.expr),
        Expr::ScalarFunction(call) if call.name() == CAST => {
            call.args.first().is_some_and(is_number)
        }
        _ => false,
    }
}

fn is_null(expr: &Expr) -> bool {
    match expr {
        Expr::Literal(value, _) => value.is_null(),
        Expr::Cast(cast) => is_null(&cast.expr),
        _ => false,
    }
}

/// The aggregate that takes the place of one that must not be computed in the opposite order.
fn kept_in_order(
    function: &WindowFunction,
    schema: &DFSchema,
) -> Result<Option<Arc<AggregateUDF>>> {
    let WindowFunction { fun, params } = function;
    let WindowFunctionDefinition::AggregateUDF(aggregate) = fun else {
        return Ok(None);
    };
    let is_same = REVERSIBLE.contains(&aggregate.name())
        && !loses_digits(aggregate, &params.args, schema)
        && retracts(aggregate, &params.args, schema)?;
    let depends = !params.order_by.is_empty() && !is_same;
    Ok(depends.then(|| in_order(aggregate)))
}

/// Aggregates whose result is the same if rows leave the frame instead of entering it, unless they
/// add floats.
const REVERSIBLE: [&str; 5] = ["avg", "count", "max", "min", "sum"];

/// Whether an aggregate adds floats. Removing values from such a sum is not exact, and PostgreSQL
/// computes each frame from its rows.
fn loses_digits(aggregate: &AggregateUDF, args: &[Expr], schema: &DFSchema) -> bool {
    let is_float = |arg: &Expr| arg.get_type(schema).is_ok_and(|held| held.is_floating());
    !EXACT.contains(&aggregate.name()) && args.iter().any(is_float)
}

/// Aggregates that do not add values.
const EXACT: [&str; 4] = ["array_agg", "count", "max", "min"];

/// Whether an aggregate can remove rows, as DataFusion's sliding frames require.
fn retracts(aggregate: &Arc<AggregateUDF>, args: &[Expr], schema: &DFSchema) -> Result<bool> {
    let fields = args.iter().map(|arg| Ok(arg.to_field(schema)?.1));
    let fields: Vec<FieldRef> = fields.collect::<Result<_>>()?;
    let constants = args.iter().map(|arg| match arg {
        Expr::Literal(value, _) => Some(value.clone()),
        _ => None,
    });
    let constants: Vec<_> = constants.collect();
    let built = aggregate_over(aggregate, &fields, |at| {
        let value = constants[at].clone()?;
        Some(Arc::new(Literal::new(value)))
    });
    // An aggregate that cannot be built fails where it is computed.
    Ok(built.is_ok_and(|built| built.create_sliding_accumulator().is_ok()))
}
