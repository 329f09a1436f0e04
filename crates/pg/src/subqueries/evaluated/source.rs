//! Which relation provides the outer columns' values, for which a subquery is evaluated?
//!
//! A domain (`domain.rs`) is computed from the relation around the subquery, to which the result
//! is joined. If that relation might have other rows the second time, it becomes a [`Once`] in both
//! places. Where that is not possible (sessions whose planner does not know the node, relations
//! that refer to queries further out, later terms of WITH RECURSIVE), a part of it that has the
//! columns' values, and the same rows each time, is used instead.
//!
//! SO1: a source has each combination of values that the relation has; additional combinations
//! find no partner in the join. So the relation may be the one before other subqueries were joined
//! to it.

use std::sync::Arc;

use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{Column, DFSchema, JoinType, ScalarValue};
use datafusion::error::Result;
use datafusion::logical_expr::logical_plan::{Distinct, EmptyRelation, Join, Limit, Sort, Union};
use datafusion::logical_expr::{Expr, Extension, LogicalPlan, Projection, SubqueryAlias};

use crate::once::{Once, is_ordered, is_unstable};
use crate::subqueries::Around;
use crate::subqueries::first_rows::with_ties;
use crate::subqueries::plans::{Names, column_exprs, named, project};
use crate::subqueries::pulled::is_movable;
use crate::subqueries::references::correlated;
use crate::subqueries::unsupported;
use crate::trees::PlanTree;

/// A source for the columns `outer` of `around`.
pub(super) fn source(around: &mut Around, outer: &[Column], names: &Names) -> Result<LogicalPlan> {
    let lacks = |plan: &LogicalPlan| outer.iter().any(|column| !plan.schema().has_column(column));
    // What was joined since then only adds columns, or has been doubled too often.
    let at_first = around.at_first.take().filter(|plan| !lacks(plan));
    let from = match at_first {
        Some(plan) if !names.computes_once || !is_unstable(&plan)? => plan,
        _ => {
            let plan = &around.plan;
            if names.computes_once && is_unstable(plan)? && !correlated(plan) {
                let node = Arc::new(Once::new("outer rows", &Arc::new(plan.clone())));
                around.plan = LogicalPlan::Extension(Extension { node });
            }
            around.plan.clone()
        }
    };
    let found = part(&from, outer);
    around.at_first = Some(from);
    found
}

/// A source for columns of a relation that is computed twice: the relation, or a part of it.
fn part(plan: &LogicalPlan, outer: &[Column]) -> Result<LogicalPlan> {
    if is_stable(plan)? {
        return Ok(plan.clone());
    }
    match plan {
        LogicalPlan::Limit(given) => of_limit(given, outer),
        LogicalPlan::Filter(given) => part(&given.input, outer),
        LogicalPlan::Sort(Sort { input, .. }) | LogicalPlan::Distinct(Distinct::All(input)) => {
            part(input, outer)
        }
        LogicalPlan::SubqueryAlias(SubqueryAlias { input, schema, .. }) => {
            let within = column_exprs(input.schema());
            computed(&within, schema, input, outer)
        }
        LogicalPlan::Projection(Projection {
            expr,
            input,
            schema,
            ..
        }) => computed(expr, schema, input, outer),
        LogicalPlan::Join(given) => of_join(given, outer),
        _ => Err(unstable()),
    }
}

/// A source for columns of the first rows: these with their ties, or all rows.
fn of_limit(given: &Limit, outer: &[Column]) -> Result<LogicalPlan> {
    let limit = |input: &Arc<LogicalPlan>| {
        LogicalPlan::Limit(Limit {
            input: Arc::clone(input),
            ..given.clone()
        })
    };
    match given.input.as_ref() {
        LogicalPlan::Projection(Projection {
            expr,
            input,
            schema,
            ..
        }) => computed(expr, schema, &limit(input), outer),
        LogicalPlan::SubqueryAlias(SubqueryAlias { input, schema, .. }) => {
            let within = column_exprs(input.schema());
            computed(&within, schema, &limit(input), outer)
        }
        LogicalPlan::Sort(sort) if is_stable(&sort.input)? => match with_ties(given)? {
            Some(first) => Ok(first),
            None => part(&sort.input, outer),
        },
        input => part(input, outer),
    }
}

/// A source for columns that are expressions over a relation below.
fn computed(
    exprs: &[Expr],
    schema: &DFSchema,
    input: &LogicalPlan,
    outer: &[Column],
) -> Result<LogicalPlan> {
    let mut below: Vec<Column> = vec![];
    let mut selected = vec![];
    for column in outer {
        let expr = &exprs[schema.index_of_column(column)?];
        if !is_movable(expr) {
            return Err(unstable());
        }
        below.extend(expr.column_refs().into_iter().cloned());
        selected.push(named(expr.clone(), column.relation.as_ref(), &column.name));
    }
    project(selected, part(input, &below)?)
}

/// A source for columns of one side of a join, with NULLs if the join adds them.
fn of_join(given: &Join, outer: &[Column]) -> Result<LogicalPlan> {
    let sides = [
        (&given.left, [JoinType::Right, JoinType::Full]),
        (&given.right, [JoinType::Left, JoinType::Full]),
    ];
    let mut sides = sides.into_iter();
    let side = sides.find(|(side, _)| outer.iter().all(|column| side.schema().has_column(column)));
    let (side, with_nulls) = side.ok_or_else(unstable)?;
    let own = part(side, outer)?;
    if !with_nulls.contains(&given.join_type) {
        return Ok(own);
    }
    let columns = outer.iter().cloned().map(Expr::Column).collect();
    let own = project(columns, own)?;
    let nulls = own.schema().iter().map(|(qualifier, field)| {
        let null = ScalarValue::try_from(field.data_type())?;
        Ok(named(Expr::Literal(null, None), qualifier, field.name()))
    });
    let one = LogicalPlan::EmptyRelation(EmptyRelation {
        produce_one_row: true,
        schema: Arc::new(DFSchema::empty()),
    });
    let nulls = project(nulls.collect::<Result<_>>()?, one)?;
    let union = Union::try_new(vec![Arc::new(own), Arc::new(nulls)])?;
    let columns = column_exprs(&union.schema).into_iter().zip(outer);
    let columns = columns.map(|(expr, column)| named(expr, column.relation.as_ref(), &column.name));
    project(columns.collect(), LogicalPlan::Union(union))
}

fn unstable() -> datafusion::error::DataFusionError {
    unsupported("this correlated subquery over rows of LIMIT or of volatile functions")
}

/// Whether a relation counts as having the same rows each time. Weaker than `!is_unstable`: sums
/// of floats, `array_agg`, DISTINCT ON and ties of windows pass.
fn is_stable(plan: &LogicalPlan) -> Result<bool> {
    let mut stable = true;
    plan.each_with_subqueries(|node| {
        if Once::of(node).is_some() {
            return Ok(TreeNodeRecursion::Jump);
        }
        // The existence of a row does not depend on which row it is.
        if let LogicalPlan::Aggregate(aggregate) = node
            && aggregate.group_expr.is_empty()
            && aggregate
                .aggr_expr
                .iter()
                .all(|call| !call.any_column_refs())
            && let LogicalPlan::Limit(limit) = aggregate.input.as_ref()
        {
            stable &= is_stable(&limit.input)?;
            return Ok(TreeNodeRecursion::Jump);
        }
        if let LogicalPlan::Limit(limit) = node {
            stable &= is_ordered(&limit.input);
        }
        node.each_expression(|expr| {
            stable &= !expr.is_volatile();
            Ok(TreeNodeRecursion::Continue)
        })
    })?;
    Ok(stable)
}
