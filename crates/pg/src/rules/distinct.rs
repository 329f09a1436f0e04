//! `array_agg` and `string_agg` in PostgreSQL's order.
//!
//! | from | to |
//! |---|---|
//! | `array_agg(DISTINCT x ORDER BY x DESC)` | `sorted_array(array_agg(DISTINCT x), …)` |
//! | `string_agg(DISTINCT x, ',')` | `array_to_string` of that |
//! | `string_agg(x, d)` of a column `d` | `joined_texts(array_agg(named_row('x', x, 'd', d)))` |
//! | `string_agg(x, ',' ORDER BY y)` beside another order | `array_to_string(array_agg(…), ',')` |
//!
//! PostgreSQL finds distinct values by sorting them, NULL last; with DISTINCT the keys of ORDER BY
//! must be arguments. DataFusion lists distinct values in any order, and uses one order of rows
//! for all `string_agg` of a node; `array_agg` sorts its own input.

use std::sync::Arc;

use datafusion::arrow::datatypes::DataType;
use datafusion::common::tree_node::Transformed;
use datafusion::common::{Column, DFSchema};
use datafusion::config::ConfigOptions;
use datafusion::error::{DataFusionError, Result};
use datafusion::functions_aggregate::array_agg::array_agg_udaf;
use datafusion::logical_expr::expr::{AggregateFunction, Sort};
use datafusion::logical_expr::{Aggregate, Cast, Expr, ExprSchemable, LogicalPlan, ScalarUDF, lit};
use datafusion::optimizer::AnalyzerRule;

use super::aggregates::{project, unaliased};
use crate::error::PgError;
use crate::functions::{has_key, joined_texts, mark_of, named_row, sorted_array};
use crate::trees::PlanTree;

#[derive(Debug)]
pub(super) struct Distinct;

impl AnalyzerRule for Distinct {
    fn name(&self) -> &'static str {
        "postgres_distinct"
    }

    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> Result<LogicalPlan> {
        let plan = plan.change_up_with_subqueries(|plan| match plan {
            LogicalPlan::Aggregate(aggregate) => of_aggregate(aggregate),
            other => Ok(Transformed::no(other)),
        })?;
        Ok(plan.data)
    }
}

fn of_aggregate(aggregate: Aggregate) -> Result<Transformed<LogicalPlan>> {
    let input = Arc::clone(aggregate.input.schema());
    let orders = aggregate
        .aggr_expr
        .iter()
        .filter_map(|expr| match unaliased(expr) {
            Expr::AggregateFunction(call) => Some(&call.params.order_by),
            _ => None,
        });
    let orders: Vec<&Vec<Sort>> = orders.filter(|order| !order.is_empty()).collect();
    let conflict = orders.windows(2).any(|two| two[0] != two[1]);
    let mut found: Vec<Expr> = vec![];
    let mut results = vec![];
    let mut changed = false;
    for expr in &aggregate.aggr_expr {
        let listed = match unaliased(expr) {
            Expr::AggregateFunction(call) => listed(call, conflict, &input)?,
            _ => None,
        };
        changed |= listed.is_some();
        let (made, shown) = match listed {
            Some(listed) => listed,
            None => (expr.clone(), Shown::default()),
        };
        let column = Expr::Column(Column::new_unqualified(made.schema_name().to_string()));
        if !found.contains(&made) {
            found.push(made);
        }
        results.push(shown.of(column));
    }
    if !changed {
        return Ok(Transformed::no(LogicalPlan::Aggregate(aggregate)));
    }
    let schema = Arc::clone(&aggregate.schema);
    let kept = schema.fields().len() - aggregate.aggr_expr.len();
    let inner = Aggregate::try_new(aggregate.input, aggregate.group_expr, found)?;
    project(LogicalPlan::Aggregate(inner), &schema, kept, results)
}

/// The error for a key of ORDER BY that is no argument of an aggregate with DISTINCT.
pub(super) fn no_argument() -> DataFusionError {
    let message = "in an aggregate with DISTINCT, ORDER BY expressions must appear in argument \
                   list";
    PgError::new("42P10", message).into()
}

/// How an array of values becomes the result.
#[derive(Default)]
struct Shown {
    /// Sorted: whether descending, and whether NULL is first.
    sorted: Option<(bool, bool)>,
    /// Joined by a function, with one delimiter or with those of the rows.
    joined: Option<(ScalarUDF, Option<Expr>)>,
}

impl Shown {
    fn of(self, array: Expr) -> Expr {
        let array = match self.sorted {
            Some((descending, nulls_first)) => {
                sorted_array().call(vec![array, lit(descending), lit(nulls_first)])
            }
            None => array,
        };
        match self.joined {
            Some((join, delimiter)) => join.call(std::iter::once(array).chain(delimiter).collect()),
            None => array,
        }
    }
}

/// The array that replaces an aggregate, and how it becomes the result. `None` if the aggregate is
/// not replaced.
fn listed(
    call: &AggregateFunction,
    conflict: bool,
    input: &DFSchema,
) -> Result<Option<(Expr, Shown)>> {
    let mut params = call.params.clone();
    let is_string = call.func.name() == "string_agg";
    let concerned = match call.func.name() {
        "array_agg" => params.distinct,
        "string_agg" => {
            let varies = params.args.get(1).is_some_and(Expr::any_column_refs);
            params.distinct || varies || (conflict && !params.order_by.is_empty())
        }
        _ => false,
    };
    let Some(value) = params.args.first().cloned().filter(|_| concerned) else {
        return Ok(None);
    };
    let field = value.to_field(input)?.1;
    // Values that are compared by keys, and those of other types that Arrow lacks, are handled by
    // `aggregates.rs`.
    if !is_string && has_key(&field) {
        let is_argument = |sort: &Sort| params.args.contains(&sort.expr);
        return match params.order_by.iter().all(is_argument) {
            true => Ok(None),
            false => Err(no_argument()),
        };
    }
    if !is_string && mark_of(&field).is_some() {
        return Ok(None);
    }
    let held = field.data_type().clone();
    if matches!(held, DataType::Binary) {
        return Ok(None);
    }
    let mut shown = Shown::default();
    if params.distinct {
        let order = std::mem::take(&mut params.order_by);
        if order.iter().any(|sort| !params.args.contains(&sort.expr)) {
            return Err(no_argument());
        }
        let by_value = order.iter().find(|sort| sort.expr == value);
        shown.sorted = Some(by_value.map_or((false, false), |sort| (!sort.asc, sort.nulls_first)));
    }
    if is_string {
        // Texts that refer to a dictionary are listed as plain texts.
        let (text, is_text) = match &held {
            DataType::Dictionary(_, of) => {
                let cast = Cast::new(Box::new(value.clone()), of.as_ref().clone());
                (Expr::Cast(cast), of.is_string())
            }
            other => (value.clone(), other.is_string()),
        };
        let delimiter = params.args.pop().filter(|_| is_text);
        params.args = vec![text.clone()];
        shown.joined = match delimiter {
            Some(delimiter @ Expr::Literal(..)) => {
                let mut functions = crate::functions::scalar().into_iter();
                let join = functions.find(|function| function.name() == "array_to_string");
                join.map(|join| (join, Some(delimiter)))
            }
            // A delimiter of type char(n) would end with insignificant blanks.
            Some(delimiter)
                if !params.distinct
                    && delimiter.any_column_refs()
                    && mark_of(&delimiter.to_field(input)?.1).is_none() =>
            {
                let pair = vec![lit("x"), text, lit("d"), delimiter];
                params.args = vec![named_row(pair)];
                Some((joined_texts(), None))
            }
            _ => None,
        };
        if shown.joined.is_none() {
            return Ok(None);
        }
        let given = value.is_not_null();
        params.filter = Some(Box::new(match params.filter.take() {
            Some(filter) => filter.and(given),
            None => given,
        }));
    }
    let func = array_agg_udaf();
    let made = Expr::AggregateFunction(AggregateFunction { func, params });
    Ok(Some((made, shown)))
}
