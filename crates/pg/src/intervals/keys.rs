//! The analyzer rule that compares intervals by their length.
//!
//! It runs before DataFusion's type coercion, which refuses windows over intervals.

use std::sync::Arc;

use datafusion::arrow::datatypes::{DataType, IntervalUnit};
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{Column, DFSchema, TableReference};
use datafusion::config::ConfigOptions;
use datafusion::error::Result;
use datafusion::functions_aggregate::first_last::first_value_udaf;
use datafusion::logical_expr::expr::{
    AggregateFunction, Between, InList, ScalarFunction, Sort as SortExpr, WindowFunction,
};
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::utils::merge_schema;
use datafusion::logical_expr::{
    Aggregate, BinaryExpr, Distinct, Expr, ExprSchemable, LogicalPlan, Operator, Projection,
    WindowFunctionDefinition,
};
use datafusion::optimizer::AnalyzerRule;

use super::aggregates::{greatest, least, max, min};
use super::overloaded::Overloaded;
use crate::PgError;
use crate::functions::time::operators;

/// See the module.
#[derive(Debug)]
pub(crate) struct IntervalKeys;

impl AnalyzerRule for IntervalKeys {
    fn name(&self) -> &'static str {
        "interval_keys"
    }

    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> Result<LogicalPlan> {
        let analyzed = plan.transform_up_with_subqueries(rewrite)?;
        Ok(analyzed.data)
    }
}

/// Whether an expression is an interval; one without a type yet is none.
fn is_interval(expr: &Expr, schema: &DFSchema) -> bool {
    matches!(
        expr.get_type(schema),
        Ok(DataType::Interval(IntervalUnit::MonthDayNano))
    )
}

fn key(expr: Expr) -> Expr {
    operators::key().call(vec![expr])
}

fn keyed(expr: Expr, schema: &DFSchema) -> Expr {
    if is_interval(&expr, schema) {
        key(expr)
    } else {
        expr
    }
}

fn rewrite(plan: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
    let inputs = plan.inputs();
    let schema = if inputs.is_empty() {
        DFSchema::empty()
    } else {
        merge_schema(&inputs)
    };
    let sorts = matches!(plan, LogicalPlan::Sort(_));
    let joins = matches!(plan, LogicalPlan::Join(_));
    let names = NamePreserver::new(&plan);
    let mapped = plan.map_expressions(|expr| {
        let name = names.save(&expr);
        let mut changed = expr.transform_up(|expr| compare(expr, &schema))?;
        // The keys of a sort, and the columns on which a join is made.
        let is_key = sorts || (joins && !matches!(changed.data, Expr::BinaryExpr(_)));
        if is_key && is_interval(&changed.data, &schema) {
            changed = Transformed::yes(key(changed.data));
            return Ok(changed);
        }
        Ok(changed.update_data(|expr| name.restore(expr)))
    })?;
    if !mapped.transformed && !has_intervals(&mapped.data) {
        return Ok(mapped);
    }
    match mapped.data {
        LogicalPlan::Aggregate(aggregate) => group(aggregate),
        LogicalPlan::Distinct(Distinct::All(input)) if has_interval_columns(input.schema()) => {
            let columns = input.schema().columns().into_iter().map(Expr::Column);
            group(Aggregate::try_new(input, columns.collect(), vec![])?)
        }
        LogicalPlan::Distinct(Distinct::On(mut on)) => {
            let schema = Arc::clone(on.input.schema());
            on.on_expr = on
                .on_expr
                .into_iter()
                .map(|expr| keyed(expr, &schema))
                .collect();
            Ok(Transformed::yes(LogicalPlan::Distinct(Distinct::On(on))))
        }
        other if mapped.transformed => Ok(Transformed::yes(other.recompute_schema()?)),
        other => Ok(Transformed::no(other)),
    }
}

fn has_interval_columns(schema: &DFSchema) -> bool {
    let interval = DataType::Interval(IntervalUnit::MonthDayNano);
    schema
        .fields()
        .iter()
        .any(|field| field.data_type() == &interval)
}

fn has_intervals(plan: &LogicalPlan) -> bool {
    plan.inputs()
        .iter()
        .any(|input| has_interval_columns(input.schema()))
        || has_interval_columns(plan.schema())
}

/// An expression whose comparisons of intervals compare keys.
fn compare(expr: Expr, schema: &DFSchema) -> Result<Transformed<Expr>> {
    let of = |expr: &Expr| is_interval(expr, schema);
    Ok(Transformed::yes(match expr {
        Expr::BinaryExpr(BinaryExpr { left, op, right })
            if is_comparison(op) && of(&left) && of(&right) =>
        {
            Expr::BinaryExpr(BinaryExpr::new(
                Box::new(key(*left)),
                op,
                Box::new(key(*right)),
            ))
        }
        Expr::Between(between) if of(&between.expr) => Expr::Between(Between::new(
            Box::new(key(*between.expr)),
            between.negated,
            Box::new(key(*between.low)),
            Box::new(key(*between.high)),
        )),
        Expr::InList(list) if of(&list.expr) => Expr::InList(InList::new(
            Box::new(key(*list.expr)),
            list.list.into_iter().map(key).collect(),
            list.negated,
        )),
        Expr::ScalarFunction(ScalarFunction { func, args })
            if args.iter().any(of) && ["greatest", "least"].contains(&func.name()) =>
        {
            let extreme = if func.name() == "greatest" {
                greatest()
            } else {
                least()
            };
            extreme.call(args)
        }
        Expr::AggregateFunction(function) => return Ok(aggregate(function, schema)),
        Expr::WindowFunction(function) => return Ok(window(*function, schema)),
        other => return Ok(Transformed::no(other)),
    }))
}

fn is_comparison(op: Operator) -> bool {
    matches!(
        op,
        Operator::Eq
            | Operator::NotEq
            | Operator::Lt
            | Operator::LtEq
            | Operator::Gt
            | Operator::GtEq
            | Operator::IsDistinctFrom
            | Operator::IsNotDistinctFrom
    )
}

fn sorted(order: Vec<SortExpr>, schema: &DFSchema, changed: &mut bool) -> Vec<SortExpr> {
    order
        .into_iter()
        .map(|sort| {
            if !is_interval(&sort.expr, schema) {
                return sort;
            }
            *changed = true;
            SortExpr {
                expr: key(sort.expr),
                ..sort
            }
        })
        .collect()
}

fn aggregate(mut function: AggregateFunction, schema: &DFSchema) -> Transformed<Expr> {
    let mut changed = false;
    if let Some(overloaded) = function.func.inner().downcast_ref::<Overloaded>() {
        function.func = overloaded.function(argument_type(&function.params.args, schema).as_ref());
        changed = true;
    }
    let params = &mut function.params;
    let order = std::mem::take(&mut params.order_by);
    params.order_by = sorted(order, schema, &mut changed);
    if let [argument] = params.args.as_slice()
        && is_interval(argument, schema)
    {
        match function.func.name() {
            "min" => function.func = Arc::new(min()),
            "max" => function.func = Arc::new(max()),
            "count" if params.distinct => {
                params.args = std::mem::take(&mut params.args)
                    .into_iter()
                    .map(key)
                    .collect();
            }
            _ if !changed => return Transformed::no(Expr::AggregateFunction(function)),
            _ => {}
        }
        changed = true;
    }
    let expr = Expr::AggregateFunction(function);
    if changed {
        Transformed::yes(expr)
    } else {
        Transformed::no(expr)
    }
}

/// The type of a function's only argument.
fn argument_type(args: &[Expr], schema: &DFSchema) -> Option<DataType> {
    match args {
        [argument] => argument.get_type(schema).ok(),
        _ => None,
    }
}

fn window(mut function: WindowFunction, schema: &DFSchema) -> Transformed<Expr> {
    let mut changed = false;
    if let WindowFunctionDefinition::AggregateUDF(known) = &function.fun
        && let Some(overloaded) = known.inner().downcast_ref::<Overloaded>()
    {
        let argument = argument_type(&function.params.args, schema);
        let resolved = overloaded.function(argument.as_ref());
        function.fun = WindowFunctionDefinition::AggregateUDF(resolved);
        changed = true;
    }
    let params = &mut function.params;
    let order = std::mem::take(&mut params.order_by);
    params.order_by = sorted(order, schema, &mut changed);
    let partitions = std::mem::take(&mut params.partition_by);
    params.partition_by = partitions
        .into_iter()
        .map(|expr| {
            changed |= is_interval(&expr, schema);
            keyed(expr, schema)
        })
        .collect();
    if let [argument] = params.args.as_slice()
        && is_interval(argument, schema)
    {
        let extreme = match function.fun.name() {
            "min" => Some(min()),
            "max" => Some(max()),
            _ => None,
        };
        if let Some(extreme) = extreme {
            function.fun = WindowFunctionDefinition::AggregateUDF(Arc::new(extreme));
            changed = true;
        }
    }
    let expr = Expr::WindowFunction(Box::new(function));
    if changed {
        Transformed::yes(expr)
    } else {
        Transformed::no(expr)
    }
}

/// Groups by the keys of intervals; a group shows the first of its intervals, as in PostgreSQL.
fn group(aggregate: Aggregate) -> Result<Transformed<LogicalPlan>> {
    let input_schema = Arc::clone(aggregate.input.schema());
    let intervals: Vec<bool> = aggregate
        .group_expr
        .iter()
        .map(|expr| is_interval(expr, &input_schema))
        .collect();
    if let [Expr::GroupingSet(sets)] = aggregate.group_expr.as_slice() {
        let groups = sets.distinct_expr();
        if groups.iter().any(|expr| is_interval(expr, &input_schema)) {
            let message = "grouping sets over intervals are not supported";
            return Err(PgError::unsupported(message).into());
        }
    }
    if !intervals.contains(&true) {
        return Ok(Transformed::yes(LogicalPlan::Aggregate(aggregate)));
    }
    let names: Vec<(Option<TableReference>, String)> = aggregate
        .schema
        .iter()
        .map(|(qualifier, field)| (qualifier.cloned(), field.name().clone()))
        .collect();
    let mut groups = vec![];
    let mut aggregates = aggregate.aggr_expr.clone();
    for (at, (expr, interval)) in aggregate.group_expr.iter().zip(&intervals).enumerate() {
        if !interval {
            groups.push(expr.clone());
            continue;
        }
        groups.push(key(expr.clone()).alias(format!("interval_key_{at}")));
        let first = Expr::AggregateFunction(AggregateFunction::new_udf(
            first_value_udaf(),
            vec![expr.clone()],
            false,
            None,
            vec![],
            None,
        ));
        aggregates.push(first.alias(shown(at)));
    }
    let count = aggregate.group_expr.len();
    let grouped = Aggregate::try_new(aggregate.input, groups, aggregates)?;
    let columns = grouped.schema.columns();
    let projected = names
        .into_iter()
        .enumerate()
        .map(|(at, (qualifier, name))| {
            let column = if at < count && intervals[at] {
                Column::new_unqualified(shown(at))
            } else {
                columns[at].clone()
            };
            if column.relation == qualifier && column.name == name {
                return Expr::Column(column);
            }
            Expr::Column(column).alias_qualified(qualifier, name)
        })
        .collect();
    let grouped = Arc::new(LogicalPlan::Aggregate(grouped));
    let projection = Projection::try_new(projected, grouped)?;
    Ok(Transformed::yes(LogicalPlan::Projection(projection)))
}

/// The column with the interval that the group of expression `at` shows.
fn shown(at: usize) -> String {
    format!("interval_shown_{at}")
}
