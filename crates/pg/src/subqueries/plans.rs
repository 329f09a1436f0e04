//! Builds nodes of logical plans with the column names that their parents expect.

use std::collections::HashSet;
use std::sync::Arc;

use datafusion::common::tree_node::{Transformed, TransformedResult};
use datafusion::common::{
    Column, DFSchema, ExprSchema, JoinType, NullEquality, ScalarValue, TableReference,
};
use datafusion::error::Result;
use datafusion::functions_window::expr_fn::row_number;
use datafusion::logical_expr::expr::Sort;
use datafusion::logical_expr::logical_plan::{
    Filter, Join, JoinConstraint, Projection, SubqueryAlias,
};
use datafusion::logical_expr::utils::{conjunction, split_conjunction_owned};
use datafusion::logical_expr::{
    Expr, ExprFunctionExt, LogicalPlan, Operator, WindowFrame, WindowFrameBound, WindowFrameUnits,
    binary_expr, lit,
};

use super::references::holds;
use crate::functions::some_value;
use crate::trees::Tree;

/// Generates names that are unique in the statement.
#[derive(Default)]
pub(super) struct Names {
    last: usize,
    /// Whether the session's query planner supports [`Once`](crate::Once).
    pub(super) computes_once: bool,
}

impl Names {
    pub(super) fn next(&mut self, prefix: &str) -> String {
        self.last += 1;
        format!("{prefix}{}", self.last)
    }
}

/// The columns of a schema, in order.
pub(super) fn columns(schema: &DFSchema) -> Vec<Column> {
    schema.iter().map(Column::from).collect()
}

/// The columns of a schema as expressions.
pub(super) fn column_exprs(schema: &DFSchema) -> Vec<Expr> {
    columns(schema).into_iter().map(Expr::Column).collect()
}

/// `expr` with the name of a field.
pub(super) fn named(expr: Expr, qualifier: Option<&TableReference>, name: &str) -> Expr {
    let (own_qualifier, own_name) = expr.qualified_name();
    if own_qualifier.as_ref() == qualifier && own_name == name {
        return expr;
    }
    match expr {
        Expr::Alias(mut alias) => {
            alias.relation = qualifier.cloned();
            name.clone_into(&mut alias.name);
            Expr::Alias(alias)
        }
        expr => expr.alias_qualified(qualifier.cloned(), name),
    }
}

pub(super) fn project(exprs: Vec<Expr>, input: LogicalPlan) -> Result<LogicalPlan> {
    let projection = Projection::try_new(exprs, Arc::new(input))?;
    Ok(LogicalPlan::Projection(projection))
}

/// `exprs` with the names of the first fields of `schema`, followed by `more`.
pub(super) fn project_as(
    exprs: Vec<Expr>,
    schema: &DFSchema,
    more: Vec<Expr>,
    input: LogicalPlan,
) -> Result<LogicalPlan> {
    let fields = schema.iter();
    let own = exprs.into_iter().zip(fields);
    let own = own.map(|(expr, (qualifier, field))| named(expr, qualifier, field.name()));
    project(own.chain(more).collect(), input)
}

/// The plan as a relation with this alias. Columns keep their names if these are unique, so that
/// nothing is computed; column i of the result is column i of the plan.
///
/// The plan will be joined to a relation of the schema `beside`; its columns do not get the names
/// of that relation's unqualified columns.
pub(super) fn aliased(
    plan: LogicalPlan,
    alias: &str,
    beside: Option<&DFSchema>,
) -> Result<LogicalPlan> {
    let taken = beside.into_iter().flat_map(DFSchema::iter);
    let taken = taken.filter(|(qualifier, _)| qualifier.is_none());
    let mut seen: HashSet<String> = taken.map(|(_, field)| field.name().clone()).collect();
    if plan
        .schema()
        .fields()
        .iter()
        .all(|field| seen.insert(field.name().clone()))
    {
        let alias = SubqueryAlias::try_new(Arc::new(plan), alias)?;
        return Ok(LogicalPlan::SubqueryAlias(alias));
    }
    let table = alias.into();
    let columns = column_exprs(plan.schema()).into_iter().enumerate();
    let columns = columns.map(|(index, column)| named(column, Some(&table), &format!("c{index}")));
    project(columns.collect(), plan)
}

/// A window expression that numbers the rows of each partition from 1.
pub(super) fn row_numbers(partition: Vec<Expr>, order: Vec<Sort>, name: &str) -> Result<Expr> {
    let all_before = WindowFrame::new_bounds(
        WindowFrameUnits::Rows,
        WindowFrameBound::Preceding(ScalarValue::UInt64(None)),
        WindowFrameBound::CurrentRow,
    );
    let numbers = row_number()
        .partition_by(partition)
        .order_by(order)
        .window_frame(all_before);
    Ok(numbers.build()?.alias(name))
}

pub(super) fn filter(conditions: Vec<Expr>, input: LogicalPlan) -> Result<LogicalPlan> {
    Ok(match conjunction(conditions) {
        Some(condition) => LogicalPlan::Filter(Filter::try_new(condition, Arc::new(input))?),
        None => input,
    })
}

/// A join on these conditions. The optimizer turns equalities into keys.
pub(super) fn join(
    left: LogicalPlan,
    right: LogicalPlan,
    join_type: JoinType,
    conditions: Vec<Expr>,
) -> Result<LogicalPlan> {
    let mut condition = conjunction(conditions);
    if condition.is_none() && join_type != JoinType::Inner {
        condition = Some(lit(true));
    }
    Ok(LogicalPlan::Join(Join::try_new(
        Arc::new(left),
        Arc::new(right),
        vec![],
        condition,
        join_type,
        JoinConstraint::On,
        NullEquality::NullEqualsNothing,
        false,
    )?))
}

/// All conditions of a join, including its keys.
pub(super) fn join_conditions(join: &Join) -> Vec<Expr> {
    let operator = match join.null_equality {
        NullEquality::NullEqualsNothing => Operator::Eq,
        NullEquality::NullEqualsNull => Operator::IsNotDistinctFrom,
    };
    let keys = join.on.iter();
    let keys = keys.map(|(left, right)| binary_expr(left.clone(), operator, right.clone()));
    let filter = join
        .filter
        .clone()
        .into_iter()
        .flat_map(split_conjunction_owned);
    keys.chain(filter).collect()
}

/// Conditions that hold if two columns of one type are equal or both NULL. They are plain
/// equalities, for which hash joins are planned: `IS NOT DISTINCT FROM` becomes a key only if
/// there is no other equality (`ExtractEquijoinPredicate`).
pub(super) fn same(left: &Column, right: &Column, schema: &DFSchema) -> Result<Vec<Expr>> {
    let field = schema.field_from_column(left)?;
    let (left, right) = (Expr::Column(left.clone()), Expr::Column(right.clone()));
    if !field.is_nullable() {
        return Ok(vec![left.eq(right)]);
    }
    let Ok(value) = some_value(field.data_type()) else {
        return Ok(vec![binary_expr(left, Operator::IsNotDistinctFrom, right)]);
    };
    let value = Expr::Literal(value, None);
    let coalesce = |column: &Expr| {
        datafusion::functions::expr_fn::coalesce(vec![column.clone(), value.clone()])
    };
    let values = coalesce(&left).eq(coalesce(&right));
    Ok(vec![values, left.is_null().eq(right.is_null())])
}

/// Replaces each column of `schema` in an expression with the value at its position.
pub(super) fn substitute(expr: Expr, schema: &DFSchema, values: &[Expr]) -> Result<Expr> {
    let replaced = |expr| match expr {
        Expr::Column(column) => {
            let index = schema.maybe_index_of_column(&column);
            let value = index.and_then(|index| values.get(index));
            let value = value.map_or(Expr::Column(column), |value| value.clone().unalias());
            Ok(Transformed::yes(value))
        }
        other => Ok(Transformed::no(other)),
    };
    expr.change_up(replaced).data()
}

/// Turns outer references into columns, once these are on the left side of a join.
pub(super) fn outer_to_columns(expr: Expr) -> Result<Expr> {
    let plain = |expr| match expr {
        Expr::OuterReferenceColumn(_, column) => Transformed::yes(Expr::Column(column)),
        other => Transformed::no(other),
    };
    expr.change_up(|expr| Ok(plain(expr))).data()
}

/// Whether an expression refers to an outer query.
pub(super) fn has_outer(expr: &Expr) -> bool {
    holds(expr, |part| matches!(part, Expr::OuterReferenceColumn(..)))
}
