//! `lag`, `max` and DISTINCT ON of arrays whose elements have a type that Arrow lacks (`jsonb[]`,
//! `uuid[]`, `char(n)[]`).
//!
//! | from | to |
//! |---|---|
//! | `lag(a) OVER w`, `first_value(a) OVER w`, … | `pg_marked(lag(a::plain) OVER w, 'jsonb[]')` |
//! | `DISTINCT ON (k) a` | the same of `DISTINCT ON (k) a::plain` |
//! | `max(a)`, `min(a)` | the same of `first_value(a::plain ORDER BY list_key(a))` |
//!
//! The last is also for arrays of intervals, of rows, and of several dimensions, whose order Arrow
//! does not know. As window functions over these, `max` and `min` are refused.
//!
//! DataFusion holds single values there. A single array loses the field that names the type of its
//! elements (55.2, `ScalarValue::try_from_array`), and then does not fit the column's type. So the
//! arrays get a type without that name, which the result gets back (`functions/marked.rs`).
//! Upstream: delete this once a single array keeps that field.
//!
//! Not here: keys of groups, which stand in rows (`sort_keys.rs`), and scalar subqueries
//! (`subqueries/evaluated/scalar.rs`).

use std::sync::Arc;

use datafusion::arrow::datatypes::{DataType, Field, FieldRef};
use datafusion::common::tree_node::{Transformed, TransformedResult};
use datafusion::common::{Column, DFSchema};
use datafusion::config::ConfigOptions;
use datafusion::error::Result;
use datafusion::functions_aggregate::first_last::first_value_udaf;
use datafusion::logical_expr::expr::AggregateFunction;
use datafusion::logical_expr::logical_plan::DistinctOn;
use datafusion::logical_expr::{
    Aggregate, Distinct, Expr, ExprSchemable, LogicalPlan, Projection, Window, cast,
};
use datafusion::optimizer::AnalyzerRule;

use super::list_key::list_key;
use crate::PgError;
use crate::functions::arrays::has_json;
use crate::functions::{is_marked_array, mark_of, marked_like, needs_keys, plain_array, unmarked};
use crate::trees::PlanTree;

/// The window functions that return one of their arguments.
const OF_VALUES: [&str; 5] = ["first_value", "last_value", "nth_value", "lag", "lead"];

/// The aggregates that return the first value in an order.
const EXTREMES: [&str; 2] = ["max", "min"];

/// See the file's header.
#[derive(Debug)]
pub(crate) struct MarkedElements;

impl AnalyzerRule for MarkedElements {
    fn name(&self) -> &'static str {
        "marked_elements"
    }

    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> Result<LogicalPlan> {
        let analyzed = plan.change_up_with_subqueries(|node| match node {
            LogicalPlan::Window(window) => of_window(window),
            LogicalPlan::Aggregate(aggregate) => of_aggregate(aggregate),
            LogicalPlan::Distinct(Distinct::On(on)) => of_distinct(on),
            other => Ok(Transformed::no(other)),
        });
        analyzed.data()
    }
}

/// An expression over arrays without the name of their elements' type, and the field of its result.
type Plain = Option<(Expr, FieldRef)>;

fn of_window(window: Window) -> Result<Transformed<LogicalPlan>> {
    let given = Arc::clone(window.input.schema());
    let exprs = window.window_expr.iter();
    let found = exprs.map(|expr| windowed(expr, &given));
    let found: Vec<Plain> = found.collect::<Result<_>>()?;
    if found.iter().all(Option::is_none) {
        return Ok(Transformed::no(LogicalPlan::Window(window)));
    }
    let (exprs, fields) = plain_exprs(&window.window_expr, found);
    let below = Window::try_new(exprs, Arc::clone(&window.input))?;
    marked(LogicalPlan::Window(below), &window.schema, fields)
}

fn of_aggregate(aggregate: Aggregate) -> Result<Transformed<LogicalPlan>> {
    let given = Arc::clone(aggregate.input.schema());
    let exprs = aggregate.aggr_expr.iter();
    let found = exprs.map(|expr| extreme(expr, &given));
    let found: Vec<Plain> = found.collect::<Result<_>>()?;
    if found.iter().all(Option::is_none) {
        return Ok(Transformed::no(LogicalPlan::Aggregate(aggregate)));
    }
    let (exprs, fields) = plain_exprs(&aggregate.aggr_expr, found);
    let (input, groups) = (Arc::clone(&aggregate.input), aggregate.group_expr.clone());
    let below = Aggregate::try_new(input, groups, exprs)?;
    marked(LogicalPlan::Aggregate(below), &aggregate.schema, fields)
}

fn of_distinct(on: DistinctOn) -> Result<Transformed<LogicalPlan>> {
    let given = Arc::clone(on.input.schema());
    let exprs = on.select_expr.iter();
    let found = exprs.map(|expr| selected(expr, &given));
    let found: Vec<Plain> = found.collect::<Result<_>>()?;
    if found.iter().all(Option::is_none) {
        return Ok(Transformed::no(LogicalPlan::Distinct(Distinct::On(on))));
    }
    let (exprs, fields) = plain_exprs(&on.select_expr, found);
    let below = DistinctOn::try_new(on.on_expr, exprs, None, on.input)?;
    let below = DistinctOn {
        sort_expr: on.sort_expr,
        ..below
    };
    let below = LogicalPlan::Distinct(Distinct::On(below));
    marked(below, &on.schema, fields)
}

/// The expressions of a node, and the fields of those that were replaced.
fn plain_exprs(given: &[Expr], found: Vec<Plain>) -> (Vec<Expr>, Vec<Option<FieldRef>>) {
    let all = given.iter().zip(found).enumerate();
    let all = all.map(|(at, (given, found))| match found {
        Some((plain, field)) => (plain.alias(format!("__plain_{at}")), Some(field)),
        None => (given.clone(), None),
    });
    all.unzip()
}

/// Shows a node's columns as `shown` names them. `fields` has those of the last columns.
fn marked(
    below: LogicalPlan,
    shown: &DFSchema,
    fields: Vec<Option<FieldRef>>,
) -> Result<Transformed<LogicalPlan>> {
    let others = shown.fields().len() - fields.len();
    let fields = std::iter::repeat_n(None, others).chain(fields);
    let columns = below.schema().iter().zip(shown.iter()).zip(fields);
    let columns = columns.map(|((own, (qualifier, field)), marked)| {
        let column = Column::from(own);
        let is_same = column.relation.as_ref() == qualifier && column.name == *field.name();
        let value = Expr::Column(column);
        let value = match marked {
            Some(marked) if mark_of(&marked).is_some() => marked_like(value, &marked),
            Some(given) => {
                let held = given.data_type();
                retyped(value, &plain_array(held), held)
            }
            None if is_same => return value,
            None => value,
        };
        value.alias_qualified(qualifier.cloned(), field.name())
    });
    let columns: Vec<Expr> = columns.collect();
    let above = Projection::try_new(columns, Arc::new(below))?;
    Ok(Transformed::yes(LogicalPlan::Projection(above)))
}

/// An array as another type of the same values.
fn retyped(array: Expr, from: &DataType, to: &DataType) -> Expr {
    match from == to {
        true => array,
        false => cast(array, to.clone()),
    }
}

fn windowed(expr: &Expr, schema: &DFSchema) -> Result<Plain> {
    let Expr::WindowFunction(function) = unaliased(expr) else {
        return Ok(None);
    };
    let Some(value) = function.params.args.first() else {
        return Ok(None);
    };
    let name = function.fun.name();
    if EXTREMES.contains(&name) && has_order_apart(&value.to_field(schema)?.1) {
        let message = format!("{name} of arrays of this type over a window is not supported");
        return Err(PgError::unsupported(message).into());
    }
    if !OF_VALUES.contains(&name) {
        return Ok(None);
    }
    let field = value.to_field(schema)?.1;
    if !is_marked_array(&field) {
        return Ok(None);
    }
    let mut function = function.clone();
    for argument in &mut function.params.args {
        let field = argument.to_field(schema)?.1;
        *argument = unmarked(std::mem::take(argument), &field);
    }
    Ok(Some((Expr::WindowFunction(function), field)))
}

fn extreme(expr: &Expr, schema: &DFSchema) -> Result<Plain> {
    let Expr::AggregateFunction(function) = unaliased(expr) else {
        return Ok(None);
    };
    let is_min = function.func.name() == "min";
    let value = match function.params.args.as_slice() {
        [value] if EXTREMES.contains(&function.func.name()) => value,
        _ => return Ok(None),
    };
    let field = value.to_field(schema)?.1;
    // Values of `json` have no order.
    let is_concerned = is_marked_array(&field) || has_order_apart(&field);
    if !is_concerned || has_json(&field) {
        return Ok(None);
    }
    let held = field.data_type();
    let given = retyped(value.clone(), held, &plain_array(held));
    let first = AggregateFunction::new_udf(
        first_value_udaf(),
        vec![given],
        false,
        function.params.filter.clone(),
        vec![list_key(value.clone()).sort(is_min, false)],
        None,
    );
    Ok(Some((Expr::AggregateFunction(first), field)))
}

/// Whether Arrow orders arrays of a field differently from PostgreSQL, or not at all.
fn has_order_apart(field: &Field) -> bool {
    match field.data_type() {
        held @ DataType::List(element) => element.data_type().is_nested() || needs_keys(held),
        _ => false,
    }
}

fn selected(expr: &Expr, schema: &DFSchema) -> Result<Plain> {
    let field = expr.to_field(schema)?.1;
    let is_marked = is_marked_array(&field);
    Ok(is_marked.then(|| (unmarked(unaliased(expr).clone(), &field), field)))
}

fn unaliased(expr: &Expr) -> &Expr {
    match expr {
        Expr::Alias(alias) => &alias.expr,
        other => other,
    }
}
