//! Grouping sets over expressions, and calls of `grouping(…)` on their keys.
//!
//! DataFusion names a key by its expression and resolves it by that name, even if another rule has
//! rewritten the expression in only one of the two places. And its rule for `grouping` runs after
//! others that hide the column it reads. Here each key that is not a column becomes one, below the
//! aggregate; above it, keys and `grouping` are functions of the grouping's id (`grouping_id.rs`).

use std::sync::Arc;

use datafusion::common::Column;
use datafusion::common::tree_node::{Transformed, TransformedResult};
use datafusion::config::ConfigOptions;
use datafusion::error::Result;
use datafusion::logical_expr::utils::grouping_set_to_exprlist;
use datafusion::logical_expr::{Aggregate, Expr, GroupingSet, LogicalPlan, Projection, lit};
use datafusion::optimizer::AnalyzerRule;

use super::grouping_id;
use crate::PgError;
use crate::trees::PlanTree;

/// See the file's header. It runs before the rules that rewrite expressions.
#[derive(Debug, Default)]
pub(crate) struct GroupingKeys;

impl AnalyzerRule for GroupingKeys {
    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> Result<LogicalPlan> {
        let keyed = plan.change_up_with_subqueries(|node| match node {
            LogicalPlan::Aggregate(given) if concerns(&given) => {
                Ok(Transformed::yes(keyed(given)?))
            }
            other => Ok(Transformed::no(other)),
        })?;
        if !keyed.transformed {
            return Ok(keyed.data);
        }
        let plan = keyed.data;
        plan.change_up_with_subqueries(|node| node.recompute_schema().map(Transformed::yes))
            .data()
    }

    fn name(&self) -> &'static str {
        "grouping_keys"
    }
}

fn concerns(aggregate: &Aggregate) -> bool {
    matches!(aggregate.group_expr.as_slice(), [Expr::GroupingSet(_)])
        || aggregate
            .aggr_expr
            .iter()
            .any(|expr| grouping_call(expr).is_some())
}

/// The arguments of `grouping`.
fn grouping_call(expr: &Expr) -> Option<&[Expr]> {
    match expr {
        Expr::Alias(alias) => grouping_call(&alias.expr),
        Expr::AggregateFunction(call) if call.func.name() == "grouping" => Some(&call.params.args),
        _ => None,
    }
}

/// The aggregate with columns as keys, under its former column names.
fn keyed(aggregate: Aggregate) -> Result<LogicalPlan> {
    let given: Vec<Expr> = grouping_set_to_exprlist(&aggregate.group_expr)?
        .into_iter()
        .cloned()
        .collect();
    let mut below: Vec<Expr> = aggregate.input.schema().iter().map(Expr::from).collect();
    let mut keys = vec![];
    for (at, expr) in given.iter().enumerate() {
        keys.push(match expr {
            Expr::Column(_) => expr.clone(),
            other => {
                let name = format!("__group_{at}");
                below.push(other.clone().alias(&name));
                Expr::Column(Column::new_unqualified(name))
            }
        });
    }
    let key = |expr: &Expr| {
        given
            .iter()
            .position(|one| one == expr)
            .map(|at| keys[at].clone())
    };
    let list = |exprs: &Vec<Expr>| -> Vec<Expr> {
        let each = exprs
            .iter()
            .map(|expr| key(expr).unwrap_or_else(|| expr.clone()));
        each.collect()
    };
    let groups = aggregate.group_expr.iter().map(|expr| match expr {
        Expr::GroupingSet(GroupingSet::Rollup(exprs)) => {
            Expr::GroupingSet(GroupingSet::Rollup(list(exprs)))
        }
        Expr::GroupingSet(GroupingSet::Cube(exprs)) => {
            Expr::GroupingSet(GroupingSet::Cube(list(exprs)))
        }
        Expr::GroupingSet(GroupingSet::GroupingSets(sets)) => {
            Expr::GroupingSet(GroupingSet::GroupingSets(sets.iter().map(list).collect()))
        }
        plain => key(plain).unwrap_or_else(|| plain.clone()),
    });
    let groups: Vec<Expr> = groups.collect();
    let in_sets = matches!(groups.as_slice(), [Expr::GroupingSet(_)]);
    let functions = aggregate.aggr_expr;
    let called = functions.iter().filter_map(grouping_call);
    let called: Vec<Expr> = called
        .map(|args| grouping(args, &given))
        .collect::<Result<_>>()?;
    let mut called = called.into_iter();
    let computed = functions
        .iter()
        .filter(|function| grouping_call(function).is_none());
    let computed = computed.cloned().collect();
    let input = Projection::try_new(below, aggregate.input)?;
    let input = Arc::new(LogicalPlan::Projection(input));
    let inner = Aggregate::try_new(input, groups, computed)?;
    let mut own = inner.schema.columns().into_iter().map(Expr::Column);
    let mut output: Vec<Expr> = own.by_ref().take(given.len()).collect();
    if in_sets {
        let keys = output.into_iter().enumerate();
        output = keys
            .map(|(place, column)| grouping_id::key(column, place))
            .collect();
        own.next();
    }
    for function in &functions {
        output.extend(match grouping_call(function) {
            None => own.next(),
            Some(_) => called
                .next()
                .map(|bits| if in_sets { bits } else { lit(0_i32) }),
        });
    }
    let names = aggregate.schema.iter();
    let names = names.filter(|(_, field)| field.name() != Aggregate::INTERNAL_GROUPING_ID);
    let output = output
        .into_iter()
        .zip(names)
        .map(|(expr, (relation, field))| match &expr {
            Expr::Column(own) if own.relation.as_ref() == relation && own.name == *field.name() => {
                expr
            }
            _ => expr.alias_qualified(relation.cloned(), field.name()),
        });
    let output = output.collect();
    let above = Projection::try_new(output, Arc::new(LogicalPlan::Aggregate(inner)))?;
    Ok(LogicalPlan::Projection(above))
}

/// `grouping` of some keys. The last key has the lowest bit of the id.
fn grouping(arguments: &[Expr], keys: &[Expr]) -> Result<Expr> {
    let bits = arguments.iter().map(|argument| {
        let place = keys.iter().position(|key| key == argument);
        place.map(|place| keys.len() - 1 - place).ok_or_else(|| {
            if argument.contains_outer() {
                return PgError::unsupported(
                    "GROUPING of the keys of an outer query is not supported",
                );
            }
            let message = "arguments to GROUPING must be grouping expressions of the associated \
                           query level";
            PgError::new("42803", message)
        })
    });
    let bits: Vec<usize> = bits.collect::<std::result::Result<_, _>>()?;
    Ok(grouping_id::grouping(bits.into_iter()))
}
