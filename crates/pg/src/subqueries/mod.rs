//! How do subqueries become joins with PostgreSQL's answers?
//!
//! DataFusion decorrelates some subqueries, some of them wrongly (counts over no rows, NULL with
//! NOT IN, inner windows and limits, duplicate column names), and refuses others. This rule
//! replaces every correlated subquery, every EXISTS, IN, ANY and ALL and every LATERAL item before
//! DataFusion's rules see the plan. Uncorrelated scalar subqueries are left to DataFusion, which
//! runs them once and counts their rows. The outermost subqueries come first, so that an inner one
//! that refers to two levels finds the columns of both in one relation.
//!
//! | file | question |
//! |---|---|
//! | `references.rs` | which outer columns does a subquery use? |
//! | `pulled.rs` | which subqueries can be joined as they are? |
//! | `evaluated/` | how are all others evaluated for all outer rows at once? |
//! | `first_rows.rs` | for how many rows is one evaluated below LIMIT? |
//! | `in_place.rs` | which LATERAL items are computed without a join? |
//! | `items.rs` | how are LATERAL items of FROM joined? |
//! | `outer_join.rs` | how does a condition over both sides of an outer join work? |
//! | `outer_aggregates.rs` | to which query does an aggregate of outer columns belong? |
//! | `plans.rs` | how are nodes built with the names that their parents expect? |
//!
//! S4: a correlated subquery that cannot be replaced is an error (0A000), never a different plan.

mod evaluated;
mod first_rows;
mod in_place;
mod items;
mod outer_aggregates;
mod outer_join;
mod plans;
mod pulled;
mod references;

use std::sync::Arc;

use datafusion::common::JoinType;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNodeRecursion};
use datafusion::config::ConfigOptions;
use datafusion::error::{DataFusionError, Result};
use datafusion::logical_expr::expr::{
    Exists, InSubquery, SetComparison, SetQuantifier, Sort as SortExpr,
};
use datafusion::logical_expr::logical_plan::{
    Aggregate, Distinct, DistinctOn, Join, Projection, RecursiveQuery, Sort, Window,
};
use datafusion::logical_expr::utils::split_conjunction_owned;
use datafusion::logical_expr::{Expr, LogicalPlan, Operator, Subquery};
use datafusion::optimizer::AnalyzerRule;

use self::evaluated::Predicate;
pub(crate) use self::outer_aggregates::OuterAggregates;
use self::plans::{Names, column_exprs, filter, join, join_conditions, named, project};
pub(crate) use self::references::correlated as is_correlated;
use self::references::{correlated, holds, subquery_of};
use crate::PgError;
use crate::once::is_volatile;
use crate::trees::{PlanTree, Tree};

/// Replaces subqueries with joins. Runs after types are coerced.
#[derive(Debug, Default)]
pub(crate) struct UnnestSubqueries {
    /// Whether the session's query planner supports [`Once`](crate::Once).
    pub(crate) computes_once: bool,
}

impl UnnestSubqueries {
    pub(crate) const NAME: &str = "unnest_subqueries";
}

impl AnalyzerRule for UnnestSubqueries {
    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> Result<LogicalPlan> {
        let mut found = false;
        plan.each(|node| {
            found |= matches!(node, LogicalPlan::Subquery(_));
            node.each_expression(|expr| {
                found |= holds(expr, |part| subquery_of(part).is_some());
                Ok(TreeNodeRecursion::Continue)
            })?;
            Ok(if found {
                TreeNodeRecursion::Stop
            } else {
                TreeNodeRecursion::Continue
            })
        })?;
        if !found {
            return Ok(plan);
        }
        let mut unnesting = Unnesting::default();
        unnesting.names.computes_once = self.computes_once;
        let plan = unnesting.plan(plan)?;
        plan.each_with_subqueries(|node| {
            node.each_expression(|expr| {
                if plans::has_outer(expr) {
                    return Err(unsupported("this correlated subquery"));
                }
                Ok(TreeNodeRecursion::Continue)
            })
        })?;
        Ok(plan)
    }

    fn name(&self) -> &'static str {
        Self::NAME
    }
}

/// The relation for whose rows a subquery is evaluated, and to which subqueries are joined.
struct Around {
    plan: LogicalPlan,
    /// The plan as it was when the first domain was computed from it. Later domains come from it,
    /// too: if each came from what was joined for the one before, k subqueries would make a plan of
    /// 2^k times the size.
    at_first: Option<LogicalPlan>,
    /// How often a domain came from a plan with another domain's subquery in it.
    doubled: u32,
}

/// The most doublings of a plan by conditions of one WHERE. A condition that removes rows spares
/// the next subquery these, and the errors that they would cause.
const DOUBLED_MAX: u32 = 3;

#[derive(Default)]
struct Unnesting {
    names: Names,
    /// How many subqueries have been replaced, each copy of one counted.
    replaced: usize,
}

/// The most subqueries that are replaced in one statement. Each level of subqueries that are
/// evaluated over a domain copies the levels below it, so that a dozen subqueries may become
/// millions.
const REPLACED_MAX: usize = 2_000;

impl Unnesting {
    fn plan(&mut self, plan: LogicalPlan) -> Result<LogicalPlan> {
        if let LogicalPlan::Subquery(item) = plan {
            // A LATERAL item that uses no columns to its left.
            return self.plan(Arc::unwrap_or_clone(item.subquery));
        }
        if let LogicalPlan::RecursiveQuery(query) = plan {
            return self.recursive(query);
        }
        let plan = self.node(first_rows::below_subqueries(plan)?)?;
        let plan = plan.map_subqueries(|within| match within {
            LogicalPlan::Subquery(mut given) => {
                given.subquery = Arc::new(self.plan(Arc::unwrap_or_clone(given.subquery))?);
                Ok(Transformed::yes(LogicalPlan::Subquery(given)))
            }
            other => Ok(Transformed::no(other)),
        });
        let plan = plan?.data;
        plan.change_children(|child| Ok(Transformed::yes(self.plan(child)?)))
            .data()
    }

    /// The later terms are computed anew in each round, so nothing in them is computed once.
    fn recursive(&mut self, mut query: RecursiveQuery) -> Result<LogicalPlan> {
        query.static_term = Arc::new(self.plan(Arc::unwrap_or_clone(query.static_term))?);
        let computes_once = std::mem::replace(&mut self.names.computes_once, false);
        let later = self.plan(Arc::unwrap_or_clone(query.recursive_term));
        self.names.computes_once = computes_once;
        query.recursive_term = Arc::new(later?);
        Ok(LogicalPlan::RecursiveQuery(query))
    }

    /// Replaces the subqueries in the expressions of one node.
    fn node(&mut self, plan: LogicalPlan) -> Result<LogicalPlan> {
        if let LogicalPlan::Join(given) = &plan
            && !references::lateral(given.left.schema(), &given.right).is_empty()
        {
            let LogicalPlan::Join(given) = plan else {
                return Ok(plan);
            };
            return items::lateral_join(given, &mut self.names);
        }
        let mut found = false;
        plan.each_expression(|expr| {
            found |= holds(expr, is_replaced);
            Ok(TreeNodeRecursion::Continue)
        })?;
        if !found {
            return Ok(plan);
        }
        match plan {
            LogicalPlan::Filter(given) => {
                self.restricted(given.predicate, Arc::unwrap_or_clone(given.input))
            }
            LogicalPlan::Projection(given) => self.projection(given),
            LogicalPlan::Aggregate(given) => self.aggregate(given),
            LogicalPlan::Window(given) => self.window(given),
            LogicalPlan::Sort(given) => self.sort(given),
            LogicalPlan::Distinct(Distinct::On(given)) => self.distinct_on(given),
            LogicalPlan::Join(given) => self.joined(given),
            _ => Err(unsupported("a subquery in this clause")),
        }
    }

    /// WHERE: conditions without subqueries are applied first, so that the joins do not contain
    /// the rows that they remove.
    fn restricted(&mut self, predicate: Expr, input: LogicalPlan) -> Result<LogicalPlan> {
        let schema = Arc::clone(input.schema());
        let parts = split_conjunction_owned(predicate).into_iter();
        let (with, without): (Vec<Expr>, Vec<Expr>) =
            parts.partition(|part| holds(part, is_replaced));
        let mut around = Around::from(filter(without, input)?);
        let mut left = vec![];
        for part in with {
            left.extend(self.condition(&mut around, part, false)?);
        }
        let plan = filter(left, around.plan)?;
        if plan.schema().fields().len() == schema.fields().len() {
            return Ok(plan);
        }
        project(column_exprs(&schema), plan)
    }

    /// Checks a subquery before it is replaced.
    fn begin(&mut self, given: &Subquery, around: &Around) -> Result<()> {
        self.replaced += 1;
        if self.replaced > REPLACED_MAX {
            let message = "statement too complex: its subqueries depend on each other in too many \
                           ways";
            return Err(PgError::new("54001", message).into());
        }
        are_of(&references::free(&given.subquery), around)
    }

    fn condition(
        &mut self,
        around: &mut Around,
        part: Expr,
        negated: bool,
    ) -> Result<Option<Expr>> {
        if let Some(given) = subquery_of(&part) {
            self.begin(given, around)?;
        }
        let (plan, predicate, turned) = match part {
            Expr::Not(inner) => return self.condition(around, *inner, !negated),
            Expr::Exists(_) | Expr::InSubquery(_) | Expr::SetComparison(_) => {
                self.predicate(around, part)?
            }
            other => {
                let other = self.expression(around, other)?;
                return Ok(Some(if negated { !other } else { other }));
            }
        };
        let negated = turned != negated;
        let (predicate, negated) = without_not(predicate, negated);
        evaluated::predicate::restrict(around, &plan, &predicate, negated, &mut self.names)
    }

    /// The subquery, its predicate, and whether that is negated.
    fn predicate(
        &mut self,
        around: &mut Around,
        expr: Expr,
    ) -> Result<(LogicalPlan, Predicate, bool)> {
        let plan = |subquery: Subquery| Arc::unwrap_or_clone(subquery.subquery);
        Ok(match expr {
            Expr::Exists(Exists { subquery, negated }) => {
                (plan(subquery), Predicate::Exists, negated)
            }
            Expr::InSubquery(InSubquery {
                expr,
                subquery,
                negated,
            }) => {
                let left = self.expression(around, *expr)?;
                let (op, quantifier) = (Operator::Eq, SetQuantifier::Any);
                let compare = Predicate::Compare {
                    left,
                    op,
                    quantifier,
                };
                (plan(subquery), compare, negated)
            }
            Expr::SetComparison(SetComparison {
                expr,
                subquery,
                op,
                quantifier,
            }) => {
                let left = self.expression(around, *expr)?;
                let compare = Predicate::Compare {
                    left,
                    op,
                    quantifier,
                };
                (plan(subquery), compare, false)
            }
            other => return Err(DataFusionError::Internal(format!("a predicate: {other}"))),
        })
    }

    /// Replaces the subqueries of an expression and joins what they need.
    fn expression(&mut self, around: &mut Around, expr: Expr) -> Result<Expr> {
        expr.change_down(|part| {
            if !is_replaced(&part) {
                return Ok(Transformed::no(part));
            }
            if let Some(given) = subquery_of(&part) {
                self.begin(given, around)?;
            }
            let value = if let Expr::ScalarSubquery(given) = part {
                if correlated(&given.subquery) {
                    evaluated::scalar::scalar(around, &given.subquery, &mut self.names)?
                } else {
                    evaluated::scalar::once(Arc::unwrap_or_clone(given.subquery), &mut self.names)?
                }
            } else {
                let (plan, predicate, negated) = self.predicate(around, part)?;
                evaluated::predicate::value(around, &plan, &predicate, negated, &mut self.names)?
            };
            Ok(Transformed::new(value, true, TreeNodeRecursion::Jump))
        })
        .data()
    }

    fn expressions(&mut self, around: &mut Around, exprs: Vec<Expr>) -> Result<Vec<Expr>> {
        let exprs = exprs.into_iter();
        exprs.map(|expr| self.expression(around, expr)).collect()
    }

    fn projection(&mut self, given: Projection) -> Result<LogicalPlan> {
        let mut around = Around::of(given.input);
        let exprs = self.expressions(&mut around, given.expr)?;
        plans::project_as(exprs, &given.schema, vec![], around.plan)
    }

    fn aggregate(&mut self, given: Aggregate) -> Result<LogicalPlan> {
        let mut around = Around::of(given.input);
        let group = self.expressions(&mut around, given.group_expr)?;
        let values = self.expressions(&mut around, given.aggr_expr)?;
        let aggregate = Aggregate::try_new(Arc::new(around.plan), group, values)?;
        let columns = column_exprs(&aggregate.schema);
        let aggregate = LogicalPlan::Aggregate(aggregate);
        plans::project_as(columns, &given.schema, vec![], aggregate)
    }

    fn window(&mut self, given: Window) -> Result<LogicalPlan> {
        let before = given.input.schema().fields().len();
        let mut around = Around::of(given.input);
        let exprs = self.expressions(&mut around, given.window_expr)?;
        let window = Window::try_new(exprs, Arc::new(around.plan))?;
        let mut columns = column_exprs(&window.schema);
        let made = columns.split_off(window.input.schema().fields().len());
        columns.truncate(before);
        columns.extend(made);
        plans::project_as(columns, &given.schema, vec![], LogicalPlan::Window(window))
    }

    fn sort(&mut self, given: Sort) -> Result<LogicalPlan> {
        let schema = Arc::clone(given.input.schema());
        let input = with_columns_read(given.input, &given.expr)?;
        let mut around = Around::from(input);
        let expr = self.sorts(&mut around, given.expr)?;
        let sort = Sort {
            expr,
            input: Arc::new(around.plan),
            fetch: given.fetch,
        };
        project(column_exprs(&schema), LogicalPlan::Sort(sort))
    }

    fn sorts(&mut self, around: &mut Around, sorts: Vec<SortExpr>) -> Result<Vec<SortExpr>> {
        let sorts = sorts.into_iter().map(|mut sort| {
            sort.expr = self.expression(around, sort.expr)?;
            Ok(sort)
        });
        sorts.collect()
    }

    fn distinct_on(&mut self, given: DistinctOn) -> Result<LogicalPlan> {
        // Each subquery becomes a column below, because ORDER BY repeats the expressions of ON.
        let mut around = Around::of(given.input);
        let on = self.expressions(&mut around, given.on_expr.clone())?;
        let mut known: Vec<(Expr, Expr)> = given.on_expr.into_iter().zip(on.clone()).collect();
        let mut selected = vec![];
        for (expr, (qualifier, field)) in given.select_expr.into_iter().zip(given.schema.iter()) {
            let expr = self.expression(&mut around, expr)?;
            selected.push(named(expr, qualifier, field.name()));
        }
        let sorts = given.sort_expr.map(|sorts| {
            let sorts = sorts.into_iter().map(|mut sort| {
                let same = known.iter().find(|(from, _)| *from == sort.expr);
                sort.expr = match same {
                    Some((_, to)) => to.clone(),
                    None => self.expression(&mut around, sort.expr)?,
                };
                Ok(sort)
            });
            sorts.collect::<Result<Vec<SortExpr>>>()
        });
        let sorts = sorts.transpose()?;
        known.clear();
        let distinct = DistinctOn::try_new(on, selected, sorts, Arc::new(around.plan))?;
        Ok(LogicalPlan::Distinct(Distinct::On(distinct)))
    }

    /// ON. The subqueries in an outer join's condition are evaluated on the side whose columns
    /// they use.
    fn joined(&mut self, given: Join) -> Result<LogicalPlan> {
        let parts = join_conditions(&given).into_iter();
        let (with, without): (Vec<Expr>, Vec<Expr>) =
            parts.partition(|part| holds(part, is_replaced));
        let Some(with) = with.into_iter().reduce(Expr::and) else {
            return Ok(LogicalPlan::Join(given));
        };
        if given.join_type == JoinType::Inner {
            let (left, right) = (given.left, given.right);
            let (left, right) = (Arc::unwrap_or_clone(left), Arc::unwrap_or_clone(right));
            return self.restricted(with, join(left, right, JoinType::Inner, without)?);
        }
        let of_one_side = |expr: &Expr| {
            let columns = outer_columns(expr);
            let mut sides = [&given.left, &given.right].into_iter();
            sides.any(|side| {
                columns
                    .iter()
                    .all(|column| side.schema().has_column(column))
            })
        };
        if holds(&with, |part| is_replaced(part) && !of_one_side(part)) {
            return self.joined_by_pairs(given, with, without);
        }
        let schema = given.schema;
        let (mut left, mut right) = (Around::of(given.left), Around::of(given.right));
        let with = with.change_down(|expr| {
            if !is_replaced(&expr) {
                return Ok(Transformed::no(expr));
            }
            let columns = outer_columns(&expr);
            let is_right = columns
                .iter()
                .all(|column| right.plan.schema().has_column(column));
            let side = if is_right { &mut right } else { &mut left };
            let value = self.expression(side, expr)?;
            Ok(Transformed::new(value, true, TreeNodeRecursion::Jump))
        });
        let mut conditions = without;
        conditions.push(with.data()?);
        let plan = join(left.plan, right.plan, given.join_type, conditions)?;
        project(column_exprs(&schema), plan)
    }
}

impl Around {
    fn of(plan: Arc<LogicalPlan>) -> Self {
        Self::from(Arc::unwrap_or_clone(plan))
    }
}

impl Around {
    /// Notes that the last join has removed rows.
    fn is_reduced(&mut self) {
        if self.at_first.is_some() && self.doubled < DOUBLED_MAX {
            self.doubled += 1;
            self.at_first = None;
        }
    }
}

impl From<LogicalPlan> for Around {
    fn from(plan: LogicalPlan) -> Self {
        Self {
            plan,
            at_first: None,
            doubled: 0,
        }
    }
}

/// Whether this rule replaces a subquery.
fn is_replaced(expr: &Expr) -> bool {
    match expr {
        Expr::ScalarSubquery(given) => {
            let plan = &given.subquery;
            correlated(plan)
                || !evaluated::scalar::is_one_row(plan)
                || is_volatile(plan).unwrap_or(true)
        }
        other => subquery_of(other).is_some(),
    }
}

/// The columns that an expression and its subqueries take from the expression's input.
fn outer_columns(expr: &Expr) -> Vec<datafusion::common::Column> {
    let mut columns: Vec<_> = expr.column_refs().into_iter().cloned().collect();
    let _ = expr.each(|part| {
        if let Some(given) = subquery_of(part) {
            columns.extend(references::free(&given.subquery));
        }
        Ok(TreeNodeRecursion::Continue)
    });
    columns
}

/// A projection with those columns of its input that subqueries in ORDER BY read. (For plain
/// columns DataFusion's planner adds them.)
fn with_columns_read(input: Arc<LogicalPlan>, sorts: &[SortExpr]) -> Result<LogicalPlan> {
    let LogicalPlan::Projection(Projection {
        expr,
        input: below,
        schema,
        ..
    }) = input.as_ref()
    else {
        return Ok(Arc::unwrap_or_clone(input));
    };
    let mut columns: Vec<_> = sorts
        .iter()
        .flat_map(|sort| outer_columns(&sort.expr))
        .collect();
    columns.retain(|column| !schema.has_column(column) && below.schema().has_column(column));
    columns.sort();
    columns.dedup();
    if columns.is_empty() {
        return Ok(Arc::unwrap_or_clone(input));
    }
    let exprs = expr
        .iter()
        .cloned()
        .chain(columns.into_iter().map(Expr::Column));
    Projection::try_new(exprs.collect(), Arc::clone(below)).map(LogicalPlan::Projection)
}

/// Turns `NOT (x op ANY …)` into `x op' ALL …`, where op' is the opposite operator.
fn without_not(predicate: Predicate, negated: bool) -> (Predicate, bool) {
    match predicate {
        Predicate::Compare {
            left,
            op,
            quantifier,
        } if negated => match op.negate() {
            Some(op) => {
                let quantifier = match quantifier {
                    SetQuantifier::Any => SetQuantifier::All,
                    SetQuantifier::All => SetQuantifier::Any,
                };
                let compare = Predicate::Compare {
                    left,
                    op,
                    quantifier,
                };
                (compare, false)
            }
            None => {
                let compare = Predicate::Compare {
                    left,
                    op,
                    quantifier,
                };
                (compare, true)
            }
        },
        other => (other, negated),
    }
}

/// Checks that the outer columns of a subquery exist in the relation around it. Otherwise grouping
/// has removed them.
fn are_of(columns: &[datafusion::common::Column], around: &Around) -> Result<()> {
    let schema = around.plan.schema();
    match columns.iter().find(|column| !schema.has_column(column)) {
        Some(column) => {
            let name = column.flat_name();
            let message = format!("subquery uses ungrouped column \"{name}\" from outer query");
            Err(PgError::new("42803", message).into())
        }
        None => Ok(()),
    }
}

fn unsupported(what: &str) -> DataFusionError {
    PgError::unsupported(format!("{what} is not supported")).into()
}
