//! For how many rows is a subquery evaluated where only the first ones are asked for?
//!
//! `SELECT …, (SELECT … q.a …) FROM q ORDER BY a LIMIT 3`: PostgreSQL computes the subquery for
//! three rows. Here the limit moves below the projection that contains the subquery. The relation
//! with the limit is then computed twice, for the subquery and for the rows to which it is joined,
//! and may have other rows the second time where the order leaves ties. So the subquery is
//! evaluated for the first rows with all their ties.
//!
//! SO1 holds: the first rows with their ties include the first rows of each computation.

use std::sync::Arc;

use datafusion::common::Column;
use datafusion::error::Result;
use datafusion::functions_window::expr_fn::rank;
use datafusion::logical_expr::logical_plan::{
    FetchType, Limit, Projection, SkipType, Sort, Window,
};
use datafusion::logical_expr::{Expr, ExprFunctionExt, LogicalPlan, lit};

use super::is_replaced;
use super::plans::{column_exprs, filter, project, substitute};
use super::pulled::is_movable;
use super::references::holds;

/// The column with the rank of a row. No statement can use this name.
const RANK: &str = "__rank\u{1e}";

/// A plan whose limits stand below the projections that contain subqueries.
pub(super) fn below_subqueries(plan: LogicalPlan) -> Result<LogicalPlan> {
    let LogicalPlan::Limit(limit) = plan else {
        return Ok(plan);
    };
    let sunk = match limit.input.as_ref() {
        LogicalPlan::Projection(given) if may_follow_limit(given) => {
            Some(projected(given, with_input(&limit, &given.input))?)
        }
        LogicalPlan::Projection(given) => match given.input.as_ref() {
            LogicalPlan::Sort(sort) => match sorted(&limit, sort)? {
                Some(first) => Some(projected(given, first)?),
                None => None,
            },
            _ => None,
        },
        LogicalPlan::Sort(sort) => sorted(&limit, sort)?,
        _ => None,
    };
    Ok(sunk.unwrap_or(LogicalPlan::Limit(limit)))
}

/// The first rows of a sorted projection with subqueries; `None` if the subqueries are needed to
/// find them, or there are none.
fn sorted(limit: &Limit, sort: &Sort) -> Result<Option<LogicalPlan>> {
    let LogicalPlan::Projection(given) = sort.input.as_ref() else {
        return Ok(None);
    };
    if sort.fetch.is_some() || !may_follow_limit(given) {
        return Ok(None);
    }
    let mut keys = vec![];
    for key in &sort.expr {
        let expr = substitute(key.expr.clone(), &given.schema, &given.expr)?;
        if !is_movable(&expr) {
            return Ok(None);
        }
        keys.push(key.with_expr(expr));
    }
    let first = LogicalPlan::Sort(Sort {
        expr: keys,
        input: Arc::clone(&given.input),
        fetch: None,
    });
    let first = projected(given, with_input(limit, &Arc::new(first)))?;
    // The joins with the subqueries need not keep the order.
    Ok(Some(LogicalPlan::Sort(Sort {
        expr: sort.expr.clone(),
        input: Arc::new(first),
        fetch: None,
    })))
}

/// Whether a projection contains subqueries, and nothing volatile, so that it may be computed for
/// the rows of the limit only.
fn may_follow_limit(given: &Projection) -> bool {
    given.expr.iter().any(|expr| holds(expr, is_replaced))
        && !given.expr.iter().any(Expr::is_volatile)
}

fn with_input(limit: &Limit, input: &Arc<LogicalPlan>) -> LogicalPlan {
    LogicalPlan::Limit(Limit {
        input: Arc::clone(input),
        ..limit.clone()
    })
}

fn projected(given: &Projection, input: LogicalPlan) -> Result<LogicalPlan> {
    let exprs = given.expr.clone();
    let input = Arc::new(input);
    let schema = Arc::clone(&given.schema);
    Projection::try_new_with_schema(exprs, input, schema).map(LogicalPlan::Projection)
}

/// The first rows of a sorted relation with all their ties; `None` if their number is not known.
pub(super) fn with_ties(limit: &Limit) -> Result<Option<LogicalPlan>> {
    let (LogicalPlan::Sort(sort), SkipType::Literal(skip), FetchType::Literal(Some(fetch))) = (
        limit.input.as_ref(),
        limit.get_skip_type()?,
        limit.get_fetch_type()?,
    ) else {
        return Ok(None);
    };
    if !sort.expr.iter().all(|key| is_movable(&key.expr)) {
        return Ok(None);
    }
    let ranks = rank().order_by(sort.expr.clone()).build()?.alias(RANK);
    let window = Window::try_new(vec![ranks], Arc::clone(&sort.input))?;
    let ranked = LogicalPlan::Window(window);
    let last = u64::try_from(skip.saturating_add(fetch)).unwrap_or(u64::MAX);
    let within = Expr::Column(Column::from_name(RANK)).lt_eq(lit(last));
    let columns = column_exprs(sort.input.schema());
    project(columns, filter(vec![within], ranked)?).map(Some)
}
