//! What is the value of `(SELECT …)` where it stands?
//!
//! The rows of the subquery are joined to the relation around it, at most one to each outer row,
//! and the subquery becomes an expression over the joined columns:
//!
//! | subquery | joined |
//! |---|---|
//! | an aggregate without GROUP BY, correlated by equalities | the aggregate, by the equal columns |
//! | rows correlated by equalities | a value and the number of rows, by the equal columns |
//! | any other | D ⨝ S (`domain.rs`), if need be a value and the number of rows by D |
//!
//! S3: a second row is an error (21000) where the value is used, not where it is joined: a branch
//! of CASE that is not taken does not fail.

use std::sync::Arc;

use datafusion::common::{Column, DFSchema, JoinType, Spans};
use datafusion::error::Result;
use datafusion::functions_aggregate::expr_fn::count;
use datafusion::functions_aggregate::first_last::first_value;
use datafusion::logical_expr::logical_plan::{Aggregate, FetchType, Limit, SkipType, Sort};
use datafusion::logical_expr::utils::conjunction;
use datafusion::logical_expr::{BinaryExpr, Expr, ExprSchemable, LogicalPlan, Operator, lit, when};

use super::domain::{Domain, default_of, push};
use super::plans::{
    Names, column_exprs, has_outer, join, named, outer_to_columns, project, substitute,
};
use super::pulled::{Asked, is_movable, pull, substitute_all};
use super::references::{free, subquery};
use super::{Around, stable};
use crate::functions::single_row;

/// Joins a correlated subquery of one column to the relation around it. The result is its value.
pub(super) fn scalar(around: &mut Around, plan: &LogicalPlan, names: &mut Names) -> Result<Expr> {
    if let Some(mut values) = aggregated(around, plan, true, names)? {
        return Ok(values.swap_remove(0));
    }
    if let Some(value) = grouped(around, plan, names)? {
        return Ok(value);
    }
    let outer = free(plan);
    stable(&around.plan)?;
    let d = Domain::new(around.plan.clone(), outer, names);
    let pushed = push(plan.clone(), &d, names)?;
    let alias = names.next("__scalar_");
    let at = |name: &str| Column::new(Some(alias.as_str()), name);
    let value = column_exprs(pushed.schema()).swap_remove(0);
    let keys = d.columns.iter().cloned().map(Expr::Column);
    if one_at_most(plan)? {
        let value = named(value, Some(&alias.as_str().into()), "v");
        let right = project([value].into_iter().chain(keys).collect(), pushed)?;
        around.plan = join(around.plan.clone(), right, JoinType::Left, d.is_outer()?)?;
        return Ok(Expr::Column(at("v")));
    }
    let right = counted(pushed, keys.collect(), value, &alias)?;
    around.plan = join(around.plan.clone(), right, JoinType::Left, d.is_outer()?)?;
    Ok(single_row(vec![
        Expr::Column(at("v")),
        Expr::Column(at("n")),
    ]))
}

/// A subquery that is not correlated: DataFusion runs it once. The error for a second row is raised
/// where the value is used, and a subquery without rows is NULL whatever its column's type says.
pub(super) fn once(plan: LogicalPlan) -> Result<Expr> {
    let value = column_exprs(plan.schema()).swap_remove(0);
    let values = vec![first_value(value, vec![]), count(lit(1_i64))];
    let aggregate = Aggregate::try_new(Arc::new(plan), vec![], values)?;
    let values = column_exprs(&aggregate.schema).into_iter();
    let fields = ["value", "rows"].map(lit).into_iter().zip(values);
    let fields = fields.flat_map(|(name, value)| [name, value]).collect();
    let both = datafusion::functions::core::expr_fn::named_struct(fields);
    let plan = project(vec![both.alias("once")], LogicalPlan::Aggregate(aggregate))?;
    let both = Expr::ScalarSubquery(subquery(plan, &Spans::new()));
    Ok(single_row(vec![both]))
}

/// Whether a subquery has exactly one row by its form.
pub(super) fn is_one_row(plan: &LogicalPlan) -> bool {
    match plan {
        LogicalPlan::Aggregate(aggregate) => aggregate.group_expr.is_empty(),
        LogicalPlan::Projection(given) => is_one_row(&given.input),
        LogicalPlan::SubqueryAlias(given) => is_one_row(&given.input),
        LogicalPlan::Sort(given) => is_one_row(&given.input),
        LogicalPlan::EmptyRelation(given) => given.produce_one_row,
        _ => false,
    }
}

/// A value `v` and the number of rows `n` for each combination of `keys`.
fn counted(input: LogicalPlan, keys: Vec<Expr>, value: Expr, alias: &str) -> Result<LogicalPlan> {
    let many = keys.len();
    let values = vec![first_value(value, vec![]), count(lit(1_i64))];
    let aggregate = Aggregate::try_new(Arc::new(input), keys, values)?;
    let table = alias.into();
    let columns = column_exprs(&aggregate.schema).into_iter().enumerate();
    let columns = columns.map(|(index, column)| match index.checked_sub(many) {
        None => column,
        Some(0) => named(column, Some(&table), "v"),
        Some(_) => named(column, Some(&table), "n"),
    });
    project(columns.collect(), LogicalPlan::Aggregate(aggregate))
}

/// The values of `inner = outer`, if all conditions are such equalities.
fn equalities(
    conditions: &[Expr],
    inner: &DFSchema,
    outer: &DFSchema,
) -> Result<Option<Vec<(Expr, Expr)>>> {
    let mut found = vec![];
    for condition in conditions {
        let Expr::BinaryExpr(BinaryExpr {
            left,
            op: Operator::Eq,
            right,
        }) = condition
        else {
            return Ok(None);
        };
        let (own, other) = match (has_outer(left), has_outer(right)) {
            (false, true) => (left, right),
            (true, false) => (right, left),
            _ => return Ok(None),
        };
        if other.any_column_refs() || !own.any_column_refs() || !is_movable(condition) {
            return Ok(None);
        }
        let other = outer_to_columns(other.as_ref().clone())?;
        if own.get_type(inner)? != other.get_type(outer)? {
            return Ok(None);
        }
        found.push((own.as_ref().clone(), other));
    }
    Ok(Some(found))
}

/// Rows that are correlated by equalities alone.
fn grouped(around: &mut Around, plan: &LogicalPlan, names: &mut Names) -> Result<Option<Expr>> {
    let Some(pulled) = pull(plan, Asked::Rows, names)? else {
        return Ok(None);
    };
    let pairs = equalities(
        &pulled.conditions,
        pulled.plan.schema(),
        around.plan.schema(),
    )?;
    let (Some(pairs), [value]) = (pairs, pulled.outputs.as_slice()) else {
        return Ok(None);
    };
    if pairs.is_empty() || has_outer(value) {
        return Ok(None);
    }
    let alias = names.next("__scalar_");
    let (keys, conditions) = keyed(pairs, &alias);
    let right = counted(pulled.plan, keys, value.clone(), &alias)?;
    around.plan = join(around.plan.clone(), right, JoinType::Left, conditions)?;
    let at = |name: &str| Expr::Column(Column::new(Some(alias.as_str()), name));
    Ok(Some(single_row(vec![at("v"), at("n")])))
}

/// The inner sides as keys `k0`, `k1`, … of the relation `alias`, and the join's conditions.
fn keyed(pairs: Vec<(Expr, Expr)>, alias: &str) -> (Vec<Expr>, Vec<Expr>) {
    let pairs = pairs.into_iter().enumerate();
    let keyed = pairs.map(|(index, (inner, outer))| {
        let key = Column::new(Some(alias), format!("k{index}"));
        let condition = outer.eq(Expr::Column(key.clone()));
        (named(inner, key.relation.as_ref(), &key.name), condition)
    });
    keyed.unzip()
}

/// An aggregate without GROUP BY whose input is correlated by equalities, with projections and,
/// if `having`, conditions on top: the values of the subquery's columns. It has one row for each
/// outer row, or none if a condition fails; then the values are NULL.
pub(super) fn aggregated(
    around: &mut Around,
    plan: &LogicalPlan,
    having: bool,
    names: &mut Names,
) -> Result<Option<Vec<Expr>>> {
    let Some((above, aggregate)) = above_aggregate(plan)? else {
        return Ok(None);
    };
    let Some(pulled) = pull(&aggregate.input, Asked::Rows, names)? else {
        return Ok(None);
    };
    let outer = around.plan.schema();
    let Some(pairs) = equalities(&pulled.conditions, pulled.plan.schema(), outer)? else {
        return Ok(None);
    };
    let mut calls = vec![];
    for call in &aggregate.aggr_expr {
        let call = substitute(
            call.clone().unalias(),
            aggregate.input.schema(),
            &pulled.outputs,
        )?;
        if has_outer(&call) || !is_movable(&call) {
            return Ok(None);
        }
        calls.push(call);
    }
    let alias = names.next("__scalar_");
    let table = alias.as_str().into();
    let matched = pairs.is_empty().then_some(lit(true));
    let (keys, conditions) = keyed(pairs, &alias);
    let many = keys.len();
    let mut values = vec![];
    for (index, (call, field)) in calls.iter().zip(aggregate.schema.fields()).enumerate() {
        let value = Expr::Column(Column::new(Some(alias.as_str()), format!("v{index}")));
        let default = default_of(call, field.data_type())?;
        values.push(if default.is_null() || matched.is_some() {
            value
        } else {
            let key = Expr::Column(Column::new(Some(alias.as_str()), "k0"));
            when(key.is_null(), Expr::Literal(default, None)).otherwise(value)?
        });
    }
    let Some(values) = through(&above, &aggregate.schema, values, having)? else {
        return Ok(None);
    };
    let right = if calls.is_empty() && many == 0 {
        return Ok(None);
    } else {
        Aggregate::try_new(Arc::new(pulled.plan), keys, calls)?
    };
    let columns = column_exprs(&right.schema).into_iter().enumerate();
    let columns = columns.map(|(index, column)| match index.checked_sub(many) {
        None => column,
        Some(value) => named(column, Some(&table), &format!("v{value}")),
    });
    let right = project(columns.collect(), LogicalPlan::Aggregate(right))?;
    around.plan = join(around.plan.clone(), right, JoinType::Left, conditions)?;
    Ok(Some(values))
}

/// The nodes above an aggregate without GROUP BY, the lowest first.
fn above_aggregate(plan: &LogicalPlan) -> Result<Option<(Vec<&LogicalPlan>, &Aggregate)>> {
    let mut above = vec![];
    let mut at = plan;
    loop {
        let next = match at {
            LogicalPlan::Aggregate(aggregate) => {
                above.reverse();
                let whole = aggregate.group_expr.is_empty();
                return Ok(whole.then_some((above, aggregate)));
            }
            LogicalPlan::Projection(given) => &given.input,
            LogicalPlan::Filter(given) => &given.input,
            LogicalPlan::SubqueryAlias(given) => &given.input,
            LogicalPlan::Subquery(given) => &given.subquery,
            LogicalPlan::Sort(Sort {
                input, fetch: None, ..
            }) => input,
            LogicalPlan::Limit(limit) if keeps_one(limit)? => &limit.input,
            _ => return Ok(None),
        };
        above.push(at);
        at = next;
    }
}

/// A LIMIT that does not take away the first row.
fn keeps_one(limit: &Limit) -> Result<bool> {
    let skips = !matches!(limit.get_skip_type()?, SkipType::Literal(0));
    let keeps = match limit.get_fetch_type()? {
        FetchType::Literal(rows) => rows != Some(0),
        FetchType::UnsupportedExpr => false,
    };
    Ok(!skips && keeps)
}

/// The values that projections and conditions make of an aggregate's.
fn through(
    above: &[&LogicalPlan],
    schema: &DFSchema,
    mut values: Vec<Expr>,
    having: bool,
) -> Result<Option<Vec<Expr>>> {
    let mut schema = schema;
    let mut conditions = vec![];
    for node in above {
        match node {
            LogicalPlan::Projection(given) => {
                if !given.expr.iter().all(is_movable) {
                    return Ok(None);
                }
                values = substitute_all(&given.expr, schema, &values)?;
            }
            LogicalPlan::Filter(given) if having && is_movable(&given.predicate) => {
                conditions.push(substitute(given.predicate.clone(), schema, &values)?);
            }
            LogicalPlan::Filter(_) => return Ok(None),
            _ => {}
        }
        schema = node.schema();
    }
    let values = values.into_iter().map(outer_to_columns);
    let mut values: Vec<Expr> = values.collect::<Result<_>>()?;
    if let Some(condition) = conjunction(conditions) {
        let condition = outer_to_columns(condition)?;
        for value in &mut values {
            *value = when(condition.clone(), value.clone()).end()?;
        }
    }
    Ok(Some(values))
}

/// Whether a subquery has at most one row by its form.
fn one_at_most(plan: &LogicalPlan) -> Result<bool> {
    if above_aggregate(plan)?.is_some() {
        return Ok(true);
    }
    Ok(match plan {
        LogicalPlan::Projection(given) => one_at_most(&given.input)?,
        LogicalPlan::Filter(given) => one_at_most(&given.input)?,
        LogicalPlan::SubqueryAlias(given) => one_at_most(&given.input)?,
        LogicalPlan::Sort(given) => one_at_most(&given.input)?,
        LogicalPlan::EmptyRelation(_) => true,
        LogicalPlan::Limit(given) => {
            matches!(given.get_fetch_type()?, FetchType::Literal(Some(0 | 1)))
        }
        _ => false,
    })
}
