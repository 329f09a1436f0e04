//! To which query does an aggregate over columns of outer queries belong?
//!
//! `SELECT (SELECT sum(t.a) FROM u) FROM t` sums the rows of `t`: an aggregate belongs to the
//! innermost query whose columns it uses in its arguments, ORDER BY or FILTER, or to its own query
//! if it uses none. DataFusion's planner computes each aggregate where it is written. This rule
//! moves it to the query it belongs to, and the subquery reads the result as an outer column.
//!
//! OA1: an aggregate written in a clause of its own query that allows none (WHERE, ON, a LATERAL
//! item of FROM) is PostgreSQL's error 42803.

use std::sync::Arc;

use datafusion::arrow::datatypes::FieldRef;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNodeRecursion};
use datafusion::common::{Column, DFSchema};
use datafusion::config::ConfigOptions;
use datafusion::error::Result;
use datafusion::logical_expr::logical_plan::{Aggregate, Filter, Projection, Window};
use datafusion::logical_expr::utils::merge_schema;
use datafusion::logical_expr::{Expr, LogicalPlan, Subquery};
use datafusion::optimizer::AnalyzerRule;

use super::plans::{Names, column_exprs, filter, project_as};
use super::references::{free, subquery, subquery_of};
use super::unsupported;
use crate::PgError;
use crate::trees::{PlanTree, Tree};

/// See the file's header. It runs before the rules that rewrite aggregates.
#[derive(Debug, Default)]
pub(crate) struct OuterAggregates;

impl AnalyzerRule for OuterAggregates {
    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> Result<LogicalPlan> {
        let mut found = false;
        plan.each_with_subqueries(|node| {
            found |= outer_aggregates(node).next().is_some();
            Ok(match found {
                true => TreeNodeRecursion::Stop,
                false => TreeNodeRecursion::Continue,
            })
        })?;
        if !found {
            return Ok(plan);
        }
        Moving::default().plan(plan)
    }

    fn name(&self) -> &'static str {
        "outer_aggregates"
    }
}

/// The aggregates of a node that use columns of outer queries, and none of its own.
fn outer_aggregates(node: &LogicalPlan) -> impl Iterator<Item = &Expr> {
    let aggregate = match node {
        LogicalPlan::Aggregate(aggregate) => Some(aggregate),
        _ => None,
    };
    aggregate.into_iter().flat_map(|aggregate| {
        let own = aggregate.input.schema();
        let calls = aggregate.aggr_expr.iter();
        calls.filter(move |call| is_outer(call, own))
    })
}

fn is_outer(expr: &Expr, own: &DFSchema) -> bool {
    match expr {
        Expr::Alias(alias) => return is_outer(&alias.expr, own),
        // `ARRAY(…)` was rewritten to `array_agg` with `FILTER (WHERE true)`; it is not an
        // aggregate.
        Expr::AggregateFunction(call)
            if call.func.name() != "array_agg"
                || !matches!(call.params.filter.as_deref(), Some(Expr::Literal(..))) => {}
        _ => return false,
    }
    let outer = outer_columns(expr);
    !expr.any_column_refs()
        && !outer.is_empty()
        && !outer.iter().any(|column| own.has_column(column))
}

/// The outer columns in an expression, and the free columns of its subqueries.
fn outer_columns(expr: &Expr) -> Vec<Column> {
    let mut columns = vec![];
    let _ = expr.each(|part| {
        match part {
            Expr::OuterReferenceColumn(_, column) => columns.push(column.clone()),
            part => columns.extend(
                subquery_of(part)
                    .map(|given| free(&given.subquery))
                    .into_iter()
                    .flatten(),
            ),
        }
        Ok(TreeNodeRecursion::Continue)
    });
    columns
}

#[derive(Default)]
struct Moving {
    names: Names,
}

/// An aggregate on its way to the query it belongs to, and the name it will have there.
type Moved = (Expr, Column);

impl Moving {
    /// Innermost queries come first, so that an aggregate stops at the first query that has one of
    /// its columns.
    fn plan(&mut self, plan: LogicalPlan) -> Result<LogicalPlan> {
        let plan = plan.map_subqueries(|within| match within {
            LogicalPlan::Subquery(given) => {
                let plan = self.plan(Arc::unwrap_or_clone(given.subquery))?;
                Ok(Transformed::yes(LogicalPlan::Subquery(subquery(
                    plan,
                    &given.spans,
                ))))
            }
            other => Ok(Transformed::no(other)),
        });
        let plan = plan.data()?;
        let plan = plan.change_children(|child| Ok(Transformed::yes(self.plan(child)?)));
        self.node(plan.data()?)
    }

    /// Takes the aggregates that belong to this node's query out of the node's subqueries.
    fn node(&mut self, plan: LogicalPlan) -> Result<LogicalPlan> {
        if let LogicalPlan::Join(given) = &plan
            && lateral_item_has(&given.right, given.left.schema())?
        {
            return Err(not_allowed("FROM clause of their own query level").into());
        }
        let own = match (&plan, plan.inputs().as_slice()) {
            (LogicalPlan::Sort(_), [LogicalPlan::Projection(given)]) => {
                Arc::clone(rows(&given.input))
            }
            (_, [input]) => Arc::clone(rows(input)),
            (_, inputs) => Arc::new(merge_schema(inputs)),
        };
        let mut moved = vec![];
        let plan = plan.map_subqueries(|within| match within {
            LogicalPlan::Subquery(given) => {
                let given = self.taken(given, &own, &mut moved)?;
                Ok(Transformed::yes(LogicalPlan::Subquery(given)))
            }
            other => Ok(Transformed::no(other)),
        });
        let plan = plan.data()?;
        if moved.is_empty() {
            return Ok(plan);
        }
        match plan {
            LogicalPlan::Projection(given) => projection(given, &own, moved),
            LogicalPlan::Sort(mut given) => {
                let LogicalPlan::Projection(selected) = Arc::unwrap_or_clone(given.input) else {
                    return Err(unsupported(
                        "an aggregate of an outer query in this ORDER BY",
                    ));
                };
                given.input = Arc::new(projection(selected, &own, moved)?);
                Ok(LogicalPlan::Sort(given))
            }
            LogicalPlan::Window(given) => computed(LogicalPlan::Window(given), moved),
            LogicalPlan::Filter(given) if is_having(&given) => {
                computed(LogicalPlan::Filter(given), moved)
            }
            LogicalPlan::Filter(_) => Err(not_allowed("WHERE").into()),
            LogicalPlan::Join(_) => Err(not_allowed("JOIN conditions").into()),
            LogicalPlan::Aggregate(given) => {
                let keys = given.group_expr.iter();
                let mut names = keys.flat_map(outer_columns);
                let of_key = names.any(|name| moved.iter().any(|(_, column)| *column == name));
                Err(match of_key {
                    true => not_allowed("GROUP BY"),
                    false => PgError::new("42803", "aggregate function calls cannot be nested"),
                }
                .into())
            }
            _ => Err(unsupported("an aggregate of an outer query in this clause")),
        }
    }

    /// A subquery that reads aggregates over columns of `own` as outer columns.
    fn taken(
        &mut self,
        given: Subquery,
        own: &DFSchema,
        moved: &mut Vec<Moved>,
    ) -> Result<Subquery> {
        let plan = Arc::unwrap_or_clone(given.subquery);
        let plan = plan.change_up_with_subqueries(|node| {
            let concerned = outer_aggregates(&node).any(|call| names(call, own));
            match node {
                LogicalPlan::Aggregate(aggregate) if concerned => {
                    Ok(Transformed::yes(self.without(aggregate, own, moved)?))
                }
                other => Ok(Transformed::no(other)),
            }
        });
        Ok(subquery(plan.data()?, &given.spans))
    }

    /// Removes the moved aggregates from an aggregation; if nothing is left of it, returns its
    /// input.
    fn without(
        &mut self,
        given: Aggregate,
        own: &DFSchema,
        moved: &mut Vec<Moved>,
    ) -> Result<LogicalPlan> {
        let schema = Arc::clone(&given.schema);
        let first = schema.fields().len() - given.aggr_expr.len();
        let mut left = vec![];
        let mut columns = column_exprs(&schema);
        for (place, call) in given.aggr_expr.into_iter().enumerate() {
            if !is_outer(&call, given.input.schema()) || !names(&call, own) {
                left.push(call);
                continue;
            }
            let call = of_query(call, own)?;
            let known = moved
                .iter()
                .find(|(other, _)| *other == call)
                .map(|(_, name)| name.clone());
            let name = known.unwrap_or_else(|| {
                let name = Column::new_unqualified(self.names.next("__outer_aggregate_"));
                moved.push((call, name.clone()));
                name
            });
            let field: FieldRef = Arc::clone(&schema.fields()[first + place]);
            columns[first + place] = Expr::OuterReferenceColumn(field, name);
        }
        let input = match left.is_empty() && given.group_expr.is_empty() {
            true => given.input,
            false => {
                let rest = Aggregate::try_new(given.input, given.group_expr, left)?;
                Arc::new(LogicalPlan::Aggregate(rest))
            }
        };
        project_as(columns, &schema, vec![], Arc::unwrap_or_clone(input))
    }
}

/// Whether an aggregate uses a column of a query.
fn names(call: &Expr, own: &DFSchema) -> bool {
    outer_columns(call)
        .iter()
        .any(|column| own.has_column(column))
}

/// Whether a filter is HAVING and not WHERE.
fn is_having(filter: &Filter) -> bool {
    matches!(filter.input.as_ref(), LogicalPlan::Aggregate(_))
}

/// Whether a LATERAL item contains an aggregate over columns to its left.
fn lateral_item_has(plan: &LogicalPlan, left: &DFSchema) -> Result<bool> {
    Ok(match plan {
        LogicalPlan::Subquery(item) => {
            let mut found = false;
            item.subquery.each_with_subqueries(|node| {
                found |= outer_aggregates(node).any(|call| names(call, left));
                Ok(TreeNodeRecursion::Continue)
            })?;
            found
        }
        LogicalPlan::SubqueryAlias(alias) => lateral_item_has(&alias.input, left)?,
        LogicalPlan::Projection(given) => lateral_item_has(&given.input, left)?,
        LogicalPlan::Join(join) => {
            lateral_item_has(&join.left, left)? || lateral_item_has(&join.right, left)?
        }
        _ => false,
    })
}

/// The schema of a query's rows before they are grouped.
fn rows(plan: &LogicalPlan) -> &Arc<DFSchema> {
    match plan {
        LogicalPlan::Window(given) => rows(&given.input),
        LogicalPlan::Filter(given) if is_having(given) => rows(&given.input),
        LogicalPlan::Aggregate(given) => given.input.schema(),
        other => other.schema(),
    }
}

fn projection(given: Projection, own: &DFSchema, moved: Vec<Moved>) -> Result<LogicalPlan> {
    let input = computed(Arc::unwrap_or_clone(given.input), moved)?;
    let mut exprs = given.expr.iter();
    exprs.try_for_each(|expr| grouped(expr, own, input.schema()))?;
    Projection::try_new(given.expr, Arc::new(input)).map(LogicalPlan::Projection)
}

/// The query below its select list, with these aggregates added.
fn computed(plan: LogicalPlan, moved: Vec<Moved>) -> Result<LogicalPlan> {
    match plan {
        LogicalPlan::Window(given) => {
            let before = Arc::clone(given.input.schema());
            let input = computed(Arc::unwrap_or_clone(given.input), moved)?;
            given
                .window_expr
                .iter()
                .try_for_each(|expr| grouped(expr, &before, input.schema()))?;
            Window::try_new(given.window_expr, Arc::new(input)).map(LogicalPlan::Window)
        }
        LogicalPlan::Filter(given) if is_having(&given) => filter(
            vec![given.predicate],
            computed(Arc::unwrap_or_clone(given.input), moved)?,
        ),
        LogicalPlan::Aggregate(mut given) => {
            given.aggr_expr.extend(calls(moved));
            Aggregate::try_new(given.input, given.group_expr, given.aggr_expr)
                .map(LogicalPlan::Aggregate)
        }
        other => {
            Aggregate::try_new(Arc::new(other), vec![], calls(moved)).map(LogicalPlan::Aggregate)
        }
    }
}

fn calls(moved: Vec<Moved>) -> Vec<Expr> {
    let moved = moved.into_iter();
    moved
        .map(|(call, column)| call.unalias().alias(column.name))
        .collect()
}

/// An aggregate in which the outer columns have become columns of its query.
fn of_query(call: Expr, own: &DFSchema) -> Result<Expr> {
    let plain = |expr| match expr {
        Expr::OuterReferenceColumn(_, column) if own.has_column(&column) => {
            Transformed::yes(Expr::Column(column))
        }
        other => Transformed::no(other),
    };
    call.change_up(|expr| Ok(plain(expr))).data()
}

/// Refuses columns that an expression cannot use after grouping.
fn grouped(expr: &Expr, before: &DFSchema, after: &DFSchema) -> Result<()> {
    let lost = |column: &&Column| before.has_column(column) && !after.has_column(column);
    let error = |message| Err(PgError::new("42803", message).into());
    if let Some(column) = expr.column_refs().into_iter().find(lost) {
        let name = column.flat_name();
        return error(format!(
            "column \"{name}\" must appear in the GROUP BY clause or be used in an aggregate function"
        ));
    }
    if let Some(column) = outer_columns(expr).iter().find(lost) {
        let name = column.flat_name();
        return error(format!(
            "subquery uses ungrouped column \"{name}\" from outer query"
        ));
    }
    Ok(())
}

fn not_allowed(clause: &str) -> PgError {
    PgError::new(
        "42803",
        format!("aggregate functions are not allowed in {clause}"),
    )
}
