//! Keeps the order of a subquery with ORDER BY where the outer statement depends on it.
//!
//! `SELECT * FROM (SELECT … ORDER BY x) s LIMIT 5` returns the first five rows in PostgreSQL, and
//! `SELECT array_agg(x) FROM (SELECT x FROM t ORDER BY y) s` collects in the subquery's order
//! (manual, 9.21). DataFusion drops ORDER BY in FROM because it spreads rows over partitions. Here
//! the order moves up to the node that depends on it, and is dropped elsewhere:
//!
//! | depends on the order | gets |
//! |---|---|
//! | the result, LIMIT and OFFSET | a sort |
//! | `array_agg`, `string_agg` without ORDER BY | the function's ORDER BY |
//! | `row_number() OVER ()`, `lag`, `first_value`, … | the window's ORDER BY |
//!
//! For the last two, `generate_series` counts as an ordered subquery, too. So does DISTINCT ON with
//! ORDER BY, also below a LIMIT that is computed for each outer row.

use std::sync::Arc;

use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::common::{Column, DFSchema};
use datafusion::config::ConfigOptions;
use datafusion::error::Result;
use datafusion::logical_expr::expr::{AggregateFunction, Sort as Key, WindowFunction};
use datafusion::logical_expr::logical_plan::{Distinct, DistinctOn, Sort, Window};
use datafusion::logical_expr::{
    Aggregate, Expr, Filter, Limit, LogicalPlan, Projection, SubqueryAlias,
};
use datafusion::optimizer::AnalyzerRule;

use crate::functions::time::series_falls;
use crate::once::Once;

/// Aggregates that list their input. (The JSON aggregates are built on `array_agg`.)
const LISTING: [&str; 2] = ["array_agg", "string_agg"];
/// Window functions that number rows or pick one.
const PICKING: [&str; 7] = [
    "row_number",
    "lag",
    "lead",
    "ntile",
    "first_value",
    "last_value",
    "nth_value",
];

/// See the file's header.
#[derive(Debug, Default)]
pub(crate) struct OrderedInputs;

impl AnalyzerRule for OrderedInputs {
    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> Result<LogicalPlan> {
        let plan = plan.transform_up_with_subqueries(shown).data()?;
        let plan = result(plan)?;
        plan.transform_down_with_subqueries(|node| {
            if hides_order(&node) {
                node.map_children(unsorted)
            } else {
                Ok(Transformed::no(node))
            }
        })
        .data()
    }

    fn name(&self) -> &'static str {
        "ordered_inputs"
    }
}

/// Gives a node that depends on its input's order the order of the subquery.
fn shown(node: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
    match node {
        LogicalPlan::Limit(limit) => {
            // DataFusion sorts the rows of a DISTINCT ON that is not computed for each outer row.
            let orders = Orders {
                distinct: !limit.input.all_out_ref_exprs().is_empty(),
                ..Orders::OF_SUBQUERIES
            };
            let Some(input) = sorted(&limit.input, orders)? else {
                return Ok(Transformed::no(LogicalPlan::Limit(limit)));
            };
            let limit = Limit {
                input: Arc::new(input),
                ..limit
            };
            Ok(Transformed::yes(LogicalPlan::Limit(limit)))
        }
        LogicalPlan::Aggregate(aggregate) if aggregate.aggr_expr.iter().any(lists) => {
            listed(aggregate)
        }
        LogicalPlan::Window(window) if window.window_expr.iter().any(picks) => picked(window),
        other => Ok(Transformed::no(other)),
    }
}

/// Sorts the rows of a statement's result.
fn result(plan: LogicalPlan) -> Result<LogicalPlan> {
    match plan {
        LogicalPlan::Explain(_)
        | LogicalPlan::Analyze(_)
        | LogicalPlan::Copy(_)
        | LogicalPlan::Dml(_)
        | LogicalPlan::Ddl(_)
        | LogicalPlan::Statement(_) => plan
            .map_children(|child| result(child).map(Transformed::yes))
            .data(),
        query => Ok(sorted(&query, Orders::OF_SUBQUERIES)?.unwrap_or(query)),
    }
}

/// The plan, sorted like the subquery in it; `None` if no subquery is ordered.
fn sorted(plan: &LogicalPlan, orders: Orders) -> Result<Option<LogicalPlan>> {
    let Some((ordered, order)) = orders.of(plan)? else {
        return Ok(None);
    };
    let columns = plan.schema().fields().len();
    let is_wider = ordered.schema().fields().len() > columns;
    let sort = LogicalPlan::Sort(Sort {
        expr: order,
        input: ordered,
        fetch: None,
    });
    if !is_wider {
        return Ok(Some(sort));
    }
    let shown = plan.schema().iter().map(Expr::from).collect();
    let projection = Projection::try_new(shown, Arc::new(sort))?;
    Ok(Some(LogicalPlan::Projection(projection)))
}

/// Whether an aggregate lists its rows in the order of its input.
fn lists(expr: &Expr) -> bool {
    match expr {
        Expr::Alias(alias) => lists(&alias.expr),
        Expr::AggregateFunction(call) => follows_input(call),
        _ => false,
    }
}

fn follows_input(call: &AggregateFunction) -> bool {
    let params = &call.params;
    LISTING.contains(&call.func.name()) && params.order_by.is_empty() && !params.distinct
}

fn listed(aggregate: Aggregate) -> Result<Transformed<LogicalPlan>> {
    let Some((input, order)) = Orders::ALL.of(&aggregate.input)? else {
        return Ok(Transformed::no(LogicalPlan::Aggregate(aggregate)));
    };
    let calls = aggregate.aggr_expr.into_iter().map(|call| {
        renamed_as_before(call, |expr| match expr {
            Expr::AggregateFunction(mut call) if follows_input(&call) => {
                call.params.order_by.clone_from(&order);
                Transformed::yes(Expr::AggregateFunction(call))
            }
            other => Transformed::no(other),
        })
    });
    let calls = calls.collect::<Result<_>>()?;
    let aggregate = Aggregate::try_new(input, aggregate.group_expr, calls)?;
    Ok(Transformed::yes(LogicalPlan::Aggregate(aggregate)))
}

/// Whether a window function depends on the order of its input.
fn picks(expr: &Expr) -> bool {
    match expr {
        Expr::Alias(alias) => picks(&alias.expr),
        Expr::WindowFunction(call) => takes_order(call),
        _ => false,
    }
}

fn takes_order(call: &WindowFunction) -> bool {
    let name = call.fun.name();
    call.params.order_by.is_empty() && (PICKING.contains(&name) || LISTING.contains(&name))
}

/// Puts the functions that depend on the order into a window of their own, because a window has
/// one order.
fn picked(window: Window) -> Result<Transformed<LogicalPlan>> {
    let Some((input, order)) = Orders::ALL.of(&window.input)? else {
        return Ok(Transformed::no(LogicalPlan::Window(window)));
    };
    let (picking, others): (Vec<_>, Vec<_>) = window.window_expr.into_iter().partition(picks);
    let picking = picking.into_iter().map(|call| {
        renamed_as_before(call, |expr| match expr {
            Expr::WindowFunction(mut call) if takes_order(&call) => {
                call.params.order_by.clone_from(&order);
                Transformed::yes(Expr::WindowFunction(call))
            }
            other => Transformed::no(other),
        })
    });
    let picking = picking.collect::<Result<_>>()?;
    let mut windows = LogicalPlan::Window(Window::try_new(picking, input)?);
    if !others.is_empty() {
        windows = LogicalPlan::Window(Window::try_new(others, Arc::new(windows))?);
    }
    let columns = window.schema.iter().map(Expr::from).collect();
    let projection = Projection::try_new(columns, Arc::new(windows))?;
    Ok(Transformed::yes(LogicalPlan::Projection(projection)))
}

/// Changes a call and keeps its name, by which the plan above refers to it.
pub(super) fn renamed_as_before(
    call: Expr,
    change: impl Fn(Expr) -> Transformed<Expr>,
) -> Result<Expr> {
    let (qualifier, name) = call.qualified_name();
    let changed = call.transform_up(|expr| Ok(change(expr)))?;
    if !changed.transformed {
        return Ok(changed.data);
    }
    Ok(changed.data.unalias().alias_qualified(qualifier, name))
}

/// A plan, and the keys by which its rows are sorted.
type Ordered = (Arc<LogicalPlan>, Vec<Key>);

/// Which sources of an order count.
#[derive(Debug, Clone, Copy)]
struct Orders {
    /// ORDER BY counts, because it is in a subquery.
    in_subquery: bool,
    /// `generate_series` counts. (Not for LIMIT: a sort would first compute all of its rows.)
    series: bool,
    /// The ORDER BY of DISTINCT ON counts. (DataFusion sorts by it, but for the whole statement.)
    distinct: bool,
}

impl Orders {
    const OF_SUBQUERIES: Self = Self {
        in_subquery: false,
        series: false,
        distinct: false,
    };
    const ALL: Self = Self {
        in_subquery: false,
        series: true,
        distinct: true,
    };

    /// The order of the plan's rows, and the plan with the columns of that order appended.
    fn of(self, plan: &LogicalPlan) -> Result<Option<Ordered>> {
        Ok(match plan {
            LogicalPlan::Sort(sort) if self.in_subquery => {
                Some((Arc::new(plan.clone()), sort.expr.clone()))
            }
            LogicalPlan::Distinct(Distinct::On(on)) if self.distinct => distinct_on(on)?,
            LogicalPlan::TableScan(scan) if self.series => {
                series_falls(&scan.source).map(|falls| {
                    let value = Column::from(plan.schema().qualified_field(0));
                    let key = Key::new(Expr::Column(value), !falls, false);
                    (Arc::new(plan.clone()), vec![key])
                })
            }
            LogicalPlan::Filter(filter) => self
                .of(&filter.input)?
                .map(|(input, order)| -> Result<_> {
                    let filter = Filter::try_new(filter.predicate.clone(), input)?;
                    Ok((Arc::new(LogicalPlan::Filter(filter)), order))
                })
                .transpose()?,
            LogicalPlan::Limit(limit) => self.of(&limit.input)?.map(|(input, order)| {
                let limit = Limit {
                    input,
                    ..limit.clone()
                };
                (Arc::new(LogicalPlan::Limit(limit)), order)
            }),
            LogicalPlan::Projection(projection) => self
                .of(&projection.input)?
                .map(|(input, order)| projected(projection, input, order))
                .transpose()?,
            LogicalPlan::SubqueryAlias(alias) => {
                let inside = Self {
                    in_subquery: true,
                    ..self
                };
                inside
                    .of(&alias.input)?
                    .map(|(input, order)| aliased(alias, input, order))
                    .transpose()?
            }
            LogicalPlan::Extension(_) => self.once(plan)?,
            _ => None,
        })
    }

    /// The order of a query in WITH that all mentions share. Its plan is not changed, so it stays
    /// the same at every mention.
    fn once(self, plan: &LogicalPlan) -> Result<Option<Ordered>> {
        let Some(once) = Once::of(plan) else {
            return Ok(None);
        };
        let is_same = |(input, _): &Ordered| input.schema() == plan.schema();
        let ordered = self.of(once.input())?.filter(is_same);
        Ok(ordered.map(|(_, order)| (Arc::new(plan.clone()), order)))
    }
}

/// The columns of a select list, then those of the keys that are not in it, and the keys as these
/// columns.
fn with_keys(
    selected: &[Expr],
    schema: &DFSchema,
    keys: impl IntoIterator<Item = Key>,
) -> (Vec<Expr>, Vec<Key>) {
    let mut columns = selected.to_vec();
    let order = keys.into_iter().map(|key| {
        let kept = selected
            .iter()
            .position(|column| column.clone().unalias() == key.expr);
        let column = if let Some(at) = kept {
            Column::from(schema.qualified_field(at))
        } else {
            let name = format!("__order_{}", columns.len());
            columns.push(key.expr.alias(&name));
            Column::new_unqualified(name)
        };
        Key::new(Expr::Column(column), key.asc, key.nulls_first)
    });
    let order = order.collect();
    (columns, order)
}

/// A DISTINCT ON that keeps the columns by which DataFusion sorts its groups.
fn distinct_on(on: &DistinctOn) -> Result<Option<Ordered>> {
    let Some(sorts) = &on.sort_expr else {
        return Ok(None);
    };
    let keys = sorts.iter().take(on.on_expr.len()).cloned();
    let (columns, order) = with_keys(&on.select_expr, &on.schema, keys);
    let mut wider = DistinctOn::try_new(on.on_expr.clone(), columns, None, Arc::clone(&on.input))?;
    // Another rule may have given the sorts other keys than the groups, which `try_new` refuses.
    wider.sort_expr = Some(sorts.clone());
    let wider = LogicalPlan::Distinct(Distinct::On(wider));
    Ok(Some((Arc::new(wider), order)))
}

/// A projection that keeps the sort columns.
fn projected(projection: &Projection, input: Arc<LogicalPlan>, order: Vec<Key>) -> Result<Ordered> {
    let (columns, order) = with_keys(&projection.expr, &projection.schema, order);
    let projection = Projection::try_new(columns, input)?;
    Ok((Arc::new(LogicalPlan::Projection(projection)), order))
}

/// A subquery alias, with the order expressed in the alias's column names.
fn aliased(alias: &SubqueryAlias, input: Arc<LogicalPlan>, order: Vec<Key>) -> Result<Ordered> {
    let inside = Arc::clone(input.schema());
    let alias = SubqueryAlias::try_new(input, alias.alias.clone())?;
    let order = order.into_iter().map(|key| {
        let expr = key.expr.transform_up(|expr| match expr {
            Expr::Column(column) => {
                let column = outside(&column, &inside, &alias.schema)?;
                Ok(Transformed::yes(Expr::Column(column)))
            }
            other => Ok(Transformed::no(other)),
        });
        Ok(Key::new(expr.data()?, key.asc, key.nulls_first))
    });
    let order = order.collect::<Result<_>>()?;
    Ok((Arc::new(LogicalPlan::SubqueryAlias(alias)), order))
}

fn outside(column: &Column, inside: &DFSchema, outside: &DFSchema) -> Result<Column> {
    let at = inside.index_of_column(column)?;
    Ok(Column::from(outside.qualified_field(at)))
}

/// Whether a node makes the order of its input irrelevant.
fn hides_order(node: &LogicalPlan) -> bool {
    matches!(
        node,
        LogicalPlan::SubqueryAlias(_)
            | LogicalPlan::Aggregate(_)
            | LogicalPlan::Join(_)
            | LogicalPlan::Sort(_)
            | LogicalPlan::Distinct(Distinct::All(_))
    )
}

/// Drops a sort that has no effect.
fn unsorted(plan: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
    match plan {
        LogicalPlan::Sort(sort) if sort.fetch.is_none() => {
            let input = unsorted(Arc::unwrap_or_clone(sort.input))?;
            Ok(Transformed::yes(input.data))
        }
        LogicalPlan::Projection(_) | LogicalPlan::Filter(_) | LogicalPlan::Union(_) => {
            plan.map_children(unsorted)
        }
        other => Ok(Transformed::no(other)),
    }
}
