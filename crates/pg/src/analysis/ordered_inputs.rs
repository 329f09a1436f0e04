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
//! | volatile columns that INSERT writes: the numbers of `serial` | a sort below them |
//! | `array_agg`, `string_agg` without ORDER BY | the function's ORDER BY |
//! | `row_number() OVER ()`, `lag`, `first_value`, …, frames of some ROWS | the window's ORDER BY |
//!
//! For the last two, `generate_series` counts as an ordered subquery, too. So does DISTINCT ON with
//! ORDER BY, also below a LIMIT that is computed for each outer row.
//!
//! What is computed for each outer row is computed for all of them at once, and spread over
//! partitions. There sets (`unnest`) count as ordered by the places of their elements, and VALUES
//! and UNION ALL by their rows and branches. So they do for INSERT's volatile columns. A UNION ALL
//! of a few single rows (`SELECT 'a', count(*) FROM a UNION ALL SELECT 'b', …`) counts as ordered
//! everywhere, also in the result.

use std::collections::HashMap;
use std::sync::Arc;

use datafusion::arrow::datatypes::{DataType, Field};
use datafusion::common::tree_node::{Transformed, TransformedResult};
use datafusion::common::{Column, DFSchema};
use datafusion::config::ConfigOptions;
use datafusion::error::Result;
use datafusion::logical_expr::expr::{AggregateFunction, Sort as Key, WindowFunction};
use datafusion::logical_expr::logical_plan::{Distinct, DistinctOn, Sort, Window};
use datafusion::logical_expr::{
    Aggregate, Expr, ExprSchemable, FetchType, Filter, Limit, LogicalPlan, Projection, Subquery,
    SubqueryAlias, Union, Unnest, Values, WindowFrameUnits, lit,
};
use datafusion::optimizer::AnalyzerRule;

use super::sets_in_order::{are_flat, numbered, placed};
use crate::functions::time::series_falls;
use crate::once::Once;
use crate::trees::{PlanTree, Tree};

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

/// The columns with the number of a branch of UNION ALL or of a row of VALUES, and with the keys of
/// the rows of a branch.
const BRANCH: &str = "branch\u{1f}";

/// A UNION ALL of more single rows has any order: each of its nested branches has a key.
const SINGLE_ROWS_MAX: usize = 16;

/// See the file's header.
#[derive(Debug, Default)]
pub(crate) struct OrderedInputs;

impl AnalyzerRule for OrderedInputs {
    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> Result<LogicalPlan> {
        let plan = plan.change_up_with_subqueries(shown).data()?;
        let plan = result(plan)?;
        plan.change_down_with_subqueries(|node| {
            if hides_order(&node) {
                node.change_children(unsorted)
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
                distinct: is_correlated(&limit.input),
                ..Orders::OF_SUBQUERIES
            };
            let orders = orders.with_spread(&limit.input, Spread::All);
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
        | LogicalPlan::Ddl(_)
        | LogicalPlan::Statement(_) => plan
            .change_children(|child| result(child).map(Transformed::yes))
            .data(),
        LogicalPlan::Dml(_) => plan
            .change_children(|child| written(child).map(Transformed::yes))
            .data(),
        query => {
            let orders = Orders::OF_SUBQUERIES.with_single_rows(&query);
            Ok(sorted(&query, orders)?.unwrap_or(query))
        }
    }
}

/// Sorts the rows that a statement writes: below the columns that a volatile function computes for
/// each of them, because its values may follow the order.
fn written(plan: LogicalPlan) -> Result<LogicalPlan> {
    if !is_volatile_list(&plan) {
        return result(plan);
    }
    let is_here = matches!(&plan, LogicalPlan::Projection(list) if calls_volatile(list));
    plan.change_children(|child| {
        let child = match child {
            // They are in one partition.
            LogicalPlan::Values(_) => child,
            child if is_here => {
                let orders = Orders {
                    spread: Spread::Branches,
                    ..Orders::OF_SUBQUERIES
                };
                sorted(&child, orders)?.unwrap_or(child)
            }
            child => written(child)?,
        };
        Ok(Transformed::yes(child))
    })
    .data()
}

/// Whether a volatile function is called in one of the select lists on top of a plan.
fn is_volatile_list(plan: &LogicalPlan) -> bool {
    match plan {
        LogicalPlan::Projection(list) => calls_volatile(list) || is_volatile_list(&list.input),
        _ => false,
    }
}

fn calls_volatile(list: &Projection) -> bool {
    list.expr.iter().any(Expr::is_volatile)
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
    let orders = Orders::ALL.with_spread(&aggregate.input, Spread::Branches);
    let Some((input, order)) = orders.of(&aggregate.input)? else {
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
    let (name, frame) = (call.fun.name(), &call.params.window_frame);
    let is_whole = frame.start_bound.is_unbounded() && frame.end_bound.is_unbounded();
    let is_counted = frame.units == WindowFrameUnits::Rows && !is_whole;
    call.params.order_by.is_empty()
        && (is_counted || PICKING.contains(&name) || LISTING.contains(&name))
}

/// Puts the functions that depend on the order into a window of their own, because a window has
/// one order.
fn picked(window: Window) -> Result<Transformed<LogicalPlan>> {
    let orders = Orders::ALL.with_spread(&window.input, Spread::All);
    let Some((input, order)) = orders.of(&window.input)? else {
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
    let changed = call.change_up(|expr| Ok(change(expr)))?;
    if !changed.transformed {
        return Ok(changed.data);
    }
    Ok(changed.data.unalias().alias_qualified(qualifier, name))
}

/// A plan, and the keys by which its rows are sorted.
type Ordered = (Arc<LogicalPlan>, Vec<Key>);

/// Whether a plan is computed for each outer row.
fn is_correlated(plan: &LogicalPlan) -> bool {
    !plan.all_out_ref_exprs().is_empty()
}

/// Which rows of a plan leave their order because it is computed for each outer row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Spread {
    No,
    /// Those of VALUES, and of the branches of UNION ALL.
    Branches,
    /// Also those of sets. (An aggregate gets them in their order.)
    All,
}

/// Which sources of an order count.
#[derive(Debug, Clone, Copy)]
struct Orders {
    /// ORDER BY counts, because it is in a subquery.
    in_subquery: bool,
    /// `generate_series` counts. (Not for LIMIT: a sort would first compute all of its rows.)
    series: bool,
    /// The ORDER BY of DISTINCT ON counts. (DataFusion sorts by it, but for the whole statement.)
    distinct: bool,
    /// The order of sets, VALUES and UNION ALL counts.
    spread: Spread,
}

impl Orders {
    const OF_SUBQUERIES: Self = Self {
        in_subquery: false,
        series: false,
        distinct: false,
        spread: Spread::No,
    };
    const ALL: Self = Self {
        in_subquery: false,
        series: true,
        distinct: true,
        spread: Spread::No,
    };

    /// With these orders, too, if the plan is computed for each outer row.
    fn with_spread(self, plan: &LogicalPlan, spread: Spread) -> Self {
        match is_correlated(plan) {
            true => Self { spread, ..self },
            false => self.with_single_rows(plan),
        }
    }

    /// With the order of the branches, if the plan is a UNION ALL of single rows.
    fn with_single_rows(self, plan: &LogicalPlan) -> Self {
        let spread = match single_rows(plan) {
            Some(0..=SINGLE_ROWS_MAX) => Spread::Branches,
            _ => self.spread,
        };
        Self { spread, ..self }
    }

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
            _ if self.spread != Spread::No => self.of_spread(plan)?,
            _ => None,
        })
    }

    /// The same for what only has an order where it is computed for each outer row.
    fn of_spread(self, plan: &LogicalPlan) -> Result<Option<Ordered>> {
        Ok(match plan {
            LogicalPlan::Subquery(item) => self.of(&item.subquery)?.map(|(subquery, order)| {
                let item = Subquery {
                    subquery,
                    ..item.clone()
                };
                (Arc::new(LogicalPlan::Subquery(item)), order)
            }),
            LogicalPlan::Unnest(sets) if self.spread == Spread::All && hold_lists(sets) => {
                Some(self.of_sets(sets)?)
            }
            LogicalPlan::Union(union) => Some(self.of_branches(union)?),
            LogicalPlan::Values(values) if values.values.len() > 1 => Some(of_values(values)?),
            _ => None,
        })
    }

    /// Sets are ordered like the rows that contain them, and within a row by place.
    fn of_sets(self, sets: &Unnest) -> Result<Ordered> {
        let (expanded, mut order) = match self.of(&sets.input)? {
            Some((input, order)) => (placed(sets, &input)?, order),
            None if is_one_row(&sets.input) => (placed(sets, &sets.input)?, vec![]),
            None => {
                let (plan, [row, place]) = numbered(sets)?;
                ((plan, place), vec![ascending(row)])
            }
        };
        let (plan, place) = expanded;
        order.push(ascending(place));
        Ok((Arc::new(plan), order))
    }

    /// The rows of UNION ALL are ordered by the number of their branch, and within a branch by its
    /// keys, if it has some.
    fn of_branches(self, union: &Union) -> Result<Ordered> {
        let width = union.schema.fields().len();
        let branches = union.inputs.iter().map(|branch| self.branch(branch));
        let branches = branches.collect::<Result<Vec<_>>>()?;
        let most = branches.iter().map(|(_, keys)| keys.len()).max();
        let names = (0..=most.unwrap_or_default()).map(|at| format!("{BRANCH}{at}"));
        let names: Vec<String> = names.collect();
        let inputs = (0_i64..).zip(branches).map(|(number, (plan, keys))| {
            let keys = std::iter::once(lit(number)).chain(keys);
            let keys = keys.chain(std::iter::repeat(lit(0_i64))).zip(&names);
            let keys = keys.map(|(key, name)| key.alias(name));
            let columns = plan.schema().iter().take(width).map(Expr::from);
            let columns = columns.chain(keys).collect();
            let branch = Projection::try_new(columns, plan)?;
            Ok(Arc::new(LogicalPlan::Projection(branch)))
        });
        let made = Union::try_new_with_loose_types(inputs.collect::<Result<_>>()?)?;
        let columns = made.schema.iter().take(width).zip(union.schema.iter());
        let columns = columns.map(|(own, (relation, field))| {
            Expr::from(own).alias_qualified(relation.cloned(), field.name())
        });
        let keys = names.into_iter().map(Column::new_unqualified);
        let keys: Vec<Column> = keys.collect();
        let columns = columns.chain(keys.iter().cloned().map(Expr::Column));
        let columns = columns.collect();
        let made = Projection::try_new(columns, Arc::new(LogicalPlan::Union(made)))?;
        let order = keys.into_iter().map(ascending).collect();
        Ok((Arc::new(LogicalPlan::Projection(made)), order))
    }

    /// A branch, and the keys of its rows if these are numbers.
    fn branch(self, branch: &Arc<LogicalPlan>) -> Result<(Arc<LogicalPlan>, Vec<Expr>)> {
        let orders = Self {
            spread: Spread::All,
            ..self
        };
        let Some((plan, order)) = orders.of(branch)? else {
            return Ok((Arc::clone(branch), vec![]));
        };
        let is_number = |key: &Key| {
            let held = key.expr.get_type(plan.schema());
            key.asc && held.is_ok_and(|held| held == DataType::Int64)
        };
        Ok(match order.iter().all(is_number) {
            true => (plan, order.into_iter().map(|key| key.expr).collect()),
            false => (Arc::clone(branch), vec![]),
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

fn ascending(column: Column) -> Key {
    Key::new(Expr::Column(column), true, false)
}

/// Whether all columns that are expanded are lists.
fn hold_lists(sets: &Unnest) -> bool {
    let schema = sets.input.schema();
    let mut lists = sets.list_type_columns.iter();
    are_flat(sets) && lists.all(|(at, _)| schema.field(*at).data_type().is_list())
}

/// Whether a plan has at most one row for each outer row.
fn is_one_row(plan: &LogicalPlan) -> bool {
    match plan {
        LogicalPlan::EmptyRelation(_) => true,
        LogicalPlan::Projection(given) => is_one_row(&given.input),
        LogicalPlan::Filter(given) => is_one_row(&given.input),
        LogicalPlan::SubqueryAlias(given) => is_one_row(&given.input),
        LogicalPlan::Subquery(given) => is_one_row(&given.subquery),
        _ => false,
    }
}

/// The number of branches of a UNION ALL, if a plan shows its rows and each branch has at most one.
fn single_rows(plan: &LogicalPlan) -> Option<usize> {
    match plan {
        LogicalPlan::Union(union) => {
            let rows = union.inputs.iter().map(|branch| match is_single(branch) {
                true => Some(1),
                false => single_rows(branch),
            });
            rows.sum()
        }
        LogicalPlan::Projection(given) => single_rows(&given.input),
        LogicalPlan::Filter(given) => single_rows(&given.input),
        LogicalPlan::SubqueryAlias(given) => single_rows(&given.input),
        LogicalPlan::Limit(given) => single_rows(&given.input),
        _ => None,
    }
}

/// Whether a branch has at most one row: constants, an aggregate of all rows, a first row.
fn is_single(branch: &LogicalPlan) -> bool {
    match branch {
        LogicalPlan::Aggregate(given) => given.group_expr.is_empty(),
        LogicalPlan::Projection(given) => is_single(&given.input),
        LogicalPlan::Filter(given) => is_single(&given.input),
        LogicalPlan::SubqueryAlias(given) => is_single(&given.input),
        LogicalPlan::Limit(given) => {
            let first = matches!(given.get_fetch_type(), Ok(FetchType::Literal(Some(1))));
            first || is_single(&given.input)
        }
        other => is_one_row(other),
    }
}

/// VALUES with the numbers of its rows.
fn of_values(values: &Values) -> Result<Ordered> {
    let name = format!("{BRANCH}0");
    let rows = (0_i64..).zip(&values.values);
    let rows = rows.map(|(number, row)| row.iter().cloned().chain([lit(number)]).collect());
    let number = Field::new(&name, DataType::Int64, false);
    let number = DFSchema::from_unqualified_fields(vec![number].into(), HashMap::new())?;
    let numbered = Values {
        schema: Arc::new(values.schema.join(&number)?),
        values: rows.collect(),
    };
    let order = vec![ascending(Column::new_unqualified(name))];
    Ok((Arc::new(LogicalPlan::Values(numbered)), order))
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
        let expr = key.expr.change_up(|expr| match expr {
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
            plan.change_children(unsorted)
        }
        other => Ok(Transformed::no(other)),
    }
}
