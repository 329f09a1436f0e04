//! Clauses of PostgreSQL's queries that DataFusion cannot plan or plans wrongly.
//!
//! | pass | from | to |
//! |---|---|---|
//! | `using` | `RIGHT JOIN … USING (x)`, `SELECT *` of `NATURAL JOIN` | `ON`, and values for `x` |
//! | `limits` | `WITH TIES`, `LIMIT (SELECT …)` | ranks and numbers of rows |
//! | `values` | `VALUES ((SELECT …))` | a union |
//! | `set_keys` | `SELECT unnest(a) … ORDER BY x` | a subquery that also has `x` |
//! | `rows` | `(a, b) IN (SELECT …)`, `(a, b) = (SELECT …)` | comparisons of columns |
//! | `outer_aggregates` | `WHERE u.x > sum(t.x)` in a subquery | `(SELECT sum(t.x))` |
//! | `grouping` | `GROUP BY ()`, HAVING without aggregates | WHERE |
//! | `alike` | `sum(x::int), sum(x::bigint)` | aggregates with names of their own |
//! | `items` | `generate_series(1, t.x)` in FROM | LATERAL |
//! | `windows` | `OVER w`, `OVER (w ROWS …)` | windows written out |
//! | `aliases` | `(VALUES (1, 2)) AS t(a)` | all columns named |
//! | here | `ORDER BY a, b, a` | `ORDER BY a, b` |
//! | here | `DISTINCT ON (b, 1) … ORDER BY a, b` | `DISTINCT ON (a, b) … ORDER BY a, b` |
//!
//! Not here: TABLESAMPLE (`samples.rs`), subqueries (`subqueries/`), INTERSECT ALL and the checks
//! of plans (`analysis/`).

mod aliases;
mod alike;
mod grouping;
mod items;
mod limits;
mod outer_aggregates;
mod rows;
mod set_keys;
pub(crate) mod using;
mod values;
mod windows;

use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    Distinct, Expr, OrderBy, OrderByKind, Query, Select, SelectItem, SetExpr, Statement, VisitorMut,
};

use super::ast::{each_branch, item_expr};
use crate::visits::Walk;
use limits::position;

/// Rewrites the clauses of all queries of a statement.
pub(super) fn rewrite(statement: &mut Statement) {
    let _ = statement.walk(&mut Queries);
}

/// Drops repeated keys, which do not change the order. (DataFusion's DISTINCT ON fails on them.)
fn each_once(order_by: &mut OrderBy) {
    if let OrderByKind::Expressions(keys) = &mut order_by.kind {
        let mut known: Vec<Expr> = vec![];
        keys.retain(|key| {
            let is_new = !known.contains(&key.expr);
            if is_new {
                known.push(key.expr.clone());
            }
            is_new
        });
    }
}

/// Puts the keys of DISTINCT ON into the order of ORDER BY, as DataFusion requires.
fn in_order(select: &mut Select, order_by: Option<&OrderBy>) {
    let Some(Distinct::On(keys)) = &mut select.distinct else {
        return;
    };
    // A number refers to a column of the result.
    let meant = |key: &Expr| {
        let at = position(key)?.checked_sub(1)?;
        match select.projection.get(at)? {
            SelectItem::ExprWithAlias { alias, .. } => Some(Expr::Identifier(alias.clone())),
            item => item_expr(item).cloned(),
        }
    };
    for key in keys.iter_mut() {
        if let Some(column) = meant(key) {
            *key = column;
        }
    }
    if let Some(OrderByKind::Expressions(sorts)) = order_by.map(|by| &by.kind) {
        let sorts = sorts
            .iter()
            .map(|sort| meant(&sort.expr).unwrap_or_else(|| sort.expr.clone()));
        let sorts: Vec<Expr> = sorts.collect();
        if keys.iter().all(|key| sorts.contains(key)) {
            keys.sort_by_key(|key| sorts.iter().position(|sort| sort == key));
        }
    }
}

struct Queries;

impl VisitorMut for Queries {
    type Break = ();

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<()> {
        values::rewrite(query);
        set_keys::rewrite(query);
        limits::rewrite(query);
        if let Some(order_by) = &mut query.order_by {
            each_once(order_by);
        }
        let body = query.body.as_mut();
        let mut order_by = query.order_by.as_mut();
        if let SetExpr::Select(select) = body {
            windows::rewrite(select, order_by.as_deref_mut());
            using::rewrite(select, order_by.as_deref_mut(), &using::Known::new(), None);
            grouping::rewrite(select, order_by.as_deref());
            items::rewrite(select);
            aliases::rewrite(select);
            in_order(select, order_by.as_deref());
            alike::rewrite(select, order_by);
            return ControlFlow::Continue(());
        }
        each_branch(body, &mut |body| {
            if let SetExpr::Select(select) = body {
                windows::rewrite(select, None);
                using::rewrite(select, None, &using::Known::new(), None);
                grouping::rewrite(select, None);
                items::rewrite(select);
                aliases::rewrite(select);
                alike::rewrite(select, None);
            }
        });
        ControlFlow::Continue(())
    }

    fn pre_visit_select(&mut self, select: &mut Select) -> ControlFlow<()> {
        outer_aggregates::rewrite(select);
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, query: &mut Query) -> ControlFlow<()> {
        using::as_relation(query);
        each_branch(&mut query.body, &mut using::branch_as_relation);
        ControlFlow::Continue(())
    }

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        rows::rewrite(expr);
        ControlFlow::Continue(())
    }
}
