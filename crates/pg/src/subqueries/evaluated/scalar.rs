//! How does `(SELECT …)` become a value where it stands?
//!
//! The rows of the subquery are joined to the relation around it, at most one per outer row, and
//! the subquery becomes an expression over the joined columns:
//!
//! | subquery | joined |
//! |---|---|
//! | an aggregate without GROUP BY, correlated by equalities | the aggregate, by the equal columns |
//! | rows correlated by equalities | a value and the number of rows, by the equal columns |
//! | any other | D ⨝ S (`domain.rs`), if necessary a value and the number of rows by D |
//!
//! S3: a second row is an error (21000) where the value is used, not where it is joined: a branch
//! of CASE that is not taken does not fail.

use std::collections::HashSet;
use std::sync::Arc;

use datafusion::common::{DFSchema, JoinType, ScalarValue, Spans};
use datafusion::error::Result;
use datafusion::functions_aggregate::expr_fn::count;
use datafusion::functions_aggregate::first_last::first_value;
use datafusion::logical_expr::logical_plan::{Aggregate, FetchType, Limit, SkipType, Sort};
use datafusion::logical_expr::utils::conjunction;
use datafusion::logical_expr::{BinaryExpr, Expr, ExprSchemable, LogicalPlan, Operator, lit, when};

use super::domain::{Domain, default_of, push};
use crate::functions::{named_row, single_row, unmarked};
use crate::once::{Once, is_volatile};
use crate::subqueries::Around;
use crate::subqueries::plans::{
    Names, aliased, column_exprs, columns, has_outer, join, outer_to_columns, project, substitute,
};
use crate::subqueries::pulled::{Asked, is_movable, pull, substitute_all};
use crate::subqueries::references::{free, subquery};

/// Joins a correlated subquery of one column to the relation around it, and returns its value.
pub(in crate::subqueries) fn scalar(
    around: &mut Around,
    plan: &LogicalPlan,
    names: &mut Names,
) -> Result<Expr> {
    if let Some(mut values) = aggregated(around, plan, true, names)? {
        return Ok(values.swap_remove(0));
    }
    if let Some(value) = grouped(around, plan, names)? {
        return Ok(value);
    }
    let outer = free(plan);
    let d = Domain::of(around, outer, names)?;
    let pushed = push(plan.clone(), &d, names)?;
    let alias = names.next("__scalar_");
    let own = column_exprs(pushed.schema());
    let (value, keys) = own.split_at(1);
    // DataFusion would take a constant column of the nullable side for a constant of the result
    // and drop an ORDER BY of it. It does not do so with an aggregate's value.
    if one_at_most(plan)? && !is_constant(plan) {
        let right = aliased(pushed, &alias, Some(around.plan.schema()))?;
        let columns = columns(right.schema());
        let conditions = d.is_outer_in(&columns[1..])?;
        around.plan = join(around.plan.clone(), right, JoinType::Left, conditions)?;
        return Ok(Expr::Column(columns[0].clone()));
    }
    let right = counted(
        pushed,
        keys.to_vec(),
        value[0].clone(),
        &alias,
        around.plan.schema(),
    )?;
    let columns = columns(right.schema());
    let (keys, value) = columns.split_at(columns.len() - 2);
    let conditions = d.is_outer_in(keys)?;
    around.plan = join(around.plan.clone(), right, JoinType::Left, conditions)?;
    Ok(single_row(
        value.iter().cloned().map(Expr::Column).collect(),
    ))
}

/// An uncorrelated subquery, which DataFusion runs once. The error for a second row is raised
/// where the value is used, and a subquery without rows is NULL even if its column is not
/// nullable.
pub(in crate::subqueries) fn once(plan: LogicalPlan, names: &mut Names) -> Result<Expr> {
    // DataFusion runs equal subqueries once, even volatile ones.
    let name = if is_volatile(&plan)? {
        names.next("once_")
    } else {
        "once".to_owned()
    };
    let value = column_exprs(plan.schema()).swap_remove(0);
    // `rules/semantics.rs` has marked the subquery.
    let value = unmarked(value, plan.schema().field(0));
    let values = vec![first_value(value, vec![]), count(lit(1_i64))];
    let aggregate = Aggregate::try_new(Arc::new(plan), vec![], values)?;
    let values = column_exprs(&aggregate.schema).into_iter();
    let fields = ["value", "rows"].map(lit).into_iter().zip(values);
    let fields = fields.flat_map(|(name, value)| [name, value]).collect();
    let both = named_row(fields);
    let plan = project(vec![both.alias(name)], LogicalPlan::Aggregate(aggregate))?;
    let both = Expr::ScalarSubquery(subquery(plan, &Spans::new()));
    Ok(single_row(vec![both]))
}

/// Whether the form of a subquery shows that it has exactly one row.
pub(in crate::subqueries) fn is_one_row(plan: &LogicalPlan) -> bool {
    match plan {
        LogicalPlan::Aggregate(aggregate) => aggregate.group_expr.is_empty(),
        LogicalPlan::Projection(given) => is_one_row(&given.input),
        LogicalPlan::SubqueryAlias(given) => is_one_row(&given.input),
        LogicalPlan::Extension(_) => Once::of(plan).is_some_and(|once| is_one_row(once.input())),
        LogicalPlan::Sort(given) => is_one_row(&given.input),
        LogicalPlan::EmptyRelation(given) => given.produce_one_row,
        _ => false,
    }
}

/// The value and the number of rows for each combination of `keys`: the keys, then these two.
fn counted(
    input: LogicalPlan,
    keys: Vec<Expr>,
    value: Expr,
    alias: &str,
    beside: &DFSchema,
) -> Result<LogicalPlan> {
    let field = value.to_field(input.schema())?.1;
    // As in `once`.
    let values = vec![
        first_value(unmarked(value, &field), vec![]),
        count(lit(1_i64)),
    ];
    let aggregate = Aggregate::try_new(Arc::new(input), keys, values)?;
    aliased(LogicalPlan::Aggregate(aggregate), alias, Some(beside))
}

/// The pairs of expressions in `inner = outer`, if all conditions are such equalities.
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

/// A subquery that is correlated by equalities only.
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
    let keys = keys(&pairs);
    let right = counted(
        pulled.plan,
        apart(&keys, names),
        value.clone(),
        &alias,
        around.plan.schema(),
    )?;
    let columns = column_exprs(right.schema());
    let conditions = equal(pairs, &keys, &columns);
    around.plan = join(around.plan.clone(), right, JoinType::Left, conditions)?;
    Ok(Some(single_row(columns[keys.len()..].to_vec())))
}

/// The inner sides of equalities, without duplicates.
fn keys(pairs: &[(Expr, Expr)]) -> Vec<Expr> {
    let mut keys: Vec<Expr> = vec![];
    for (inner, _) in pairs {
        if !keys.contains(inner) {
            keys.push(inner.clone());
        }
    }
    keys
}

/// The keys with names of their own: a cast has the name of its operand.
fn apart(keys: &[Expr], names: &mut Names) -> Vec<Expr> {
    let mut known = HashSet::new();
    let named = keys.iter().map(|key| {
        if known.insert(key.schema_name().to_string()) {
            key.clone()
        } else {
            key.clone().alias(names.next("__key_"))
        }
    });
    named.collect()
}

/// The equalities between the outer sides and the columns that hold the keys.
fn equal(pairs: Vec<(Expr, Expr)>, keys: &[Expr], columns: &[Expr]) -> Vec<Expr> {
    let pairs = pairs.into_iter().filter_map(|(inner, outer)| {
        let place = keys.iter().position(|key| *key == inner)?;
        Some(outer.eq(columns[place].clone()))
    });
    pairs.collect()
}

/// An aggregate without GROUP BY whose input is correlated by equalities, with projections and, if
/// `having`, conditions on top. Returns the values of the subquery's columns. There is one row per
/// outer row, or none if a condition fails; then the values are NULL.
pub(in crate::subqueries) fn aggregated(
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
    if calls.is_empty() {
        return Ok(None);
    }
    let defaults = calls.iter().zip(aggregate.schema.fields());
    let defaults = defaults.map(|(call, field)| default_of(call, field.data_type()));
    let defaults: Vec<ScalarValue> = defaults.collect::<Result<_>>()?;
    let keys = keys(&pairs);
    let right = Aggregate::try_new(Arc::new(pulled.plan), apart(&keys, names), calls)?;
    let right = aliased(
        LogicalPlan::Aggregate(right),
        &names.next("__scalar_"),
        Some(outer),
    )?;
    let columns = column_exprs(right.schema());
    let (key_columns, value_columns) = columns.split_at(keys.len());
    let mut values = vec![];
    for (value, default) in value_columns.iter().zip(defaults) {
        values.push(match key_columns.first() {
            // An outer row without a partner gets the aggregate's value over no rows.
            Some(key) if !default.is_null() => {
                let default = Expr::Literal(default, None);
                when(key.clone().is_null(), default).otherwise(value.clone())?
            }
            _ => value.clone(),
        });
    }
    let Some(values) = through(&above, &aggregate.schema, values, having)? else {
        return Ok(None);
    };
    let conditions = equal(pairs, &keys, &columns);
    around.plan = join(around.plan.clone(), right, JoinType::Left, conditions)?;
    Ok(Some(values))
}

/// The nodes above an aggregate without GROUP BY, lowest first.
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

/// Whether a LIMIT keeps the first row.
fn keeps_one(limit: &Limit) -> Result<bool> {
    let skips = !matches!(limit.get_skip_type()?, SkipType::Literal(0));
    let keeps = match limit.get_fetch_type()? {
        FetchType::Literal(rows) => rows != Some(0),
        FetchType::UnsupportedExpr => false,
    };
    Ok(!skips && keeps)
}

/// The values that projections and conditions compute from an aggregate's.
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

/// Whether the form of a subquery shows that it has at most one row.
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

/// Whether the column of a subquery has the same value in all rows.
fn is_constant(plan: &LogicalPlan) -> bool {
    match plan {
        LogicalPlan::Projection(given) => {
            let value = given.expr.first();
            value.is_some_and(|value| !value.any_column_refs() && !has_outer(value))
        }
        LogicalPlan::Filter(given) => is_constant(&given.input),
        LogicalPlan::SubqueryAlias(given) => is_constant(&given.input),
        LogicalPlan::Sort(given) => is_constant(&given.input),
        LogicalPlan::Limit(given) => is_constant(&given.input),
        _ => false,
    }
}
