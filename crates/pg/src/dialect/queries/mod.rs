//! Clauses of PostgreSQL's queries that DataFusion has no plan for, or a wrong one.
//!
//! | pass | from | to |
//! |---|---|---|
//! | `using` | `RIGHT JOIN … USING (x)`, `FULL JOIN … USING (x)` | `ON`, and `coalesce` for `x` |
//! | `limits` | `FETCH FIRST … ROWS ONLY`, `WITH TIES` | `LIMIT`, a rank |
//! | `rows` | `(a, b) IN (SELECT …)`, `(a, b) = (SELECT …)` | comparisons of columns |
//! | `grouping` | `GROUP BY ()`, HAVING without aggregates | WHERE |
//! | `alike` | `sum(x::int), sum(x::bigint)` | aggregates with names of their own |
//! | `items` | `generate_series(1, t.x)` in FROM | LATERAL |
//! | `values` | `VALUES ('1'::jsonb), ('2')` | all rows cast |
//! | `aliases` | `(VALUES (1, 2)) AS t(a)` | all columns named |
//! | here | `ORDER BY a, b, a` | `ORDER BY a, b` |
//!
//! Not here: subqueries (`subqueries/`), INTERSECT ALL and checks of plans (`analysis/`).

mod aliases;
mod alike;
mod grouping;
mod items;
mod limits;
mod rows;
mod using;
mod values;

use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    Expr, OrderBy, OrderByKind, Query, SetExpr, Statement, VisitMut, VisitorMut,
};

/// Rewrites the clauses of all queries of a statement.
pub(super) fn rewrite(statement: &mut Statement) {
    let _ = statement.visit(&mut Queries);
}

/// A key that comes again tells no rows apart. (DataFusion's DISTINCT ON fails on it.)
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

struct Queries;

impl VisitorMut for Queries {
    type Break = ();

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<()> {
        limits::rewrite(query);
        if let Some(order_by) = &mut query.order_by {
            each_once(order_by);
        }
        let mut body = query.body.as_mut();
        let mut order_by = query.order_by.as_mut();
        if let SetExpr::Select(select) = body {
            using::rewrite(select, order_by.as_deref_mut());
            grouping::rewrite(select);
            items::rewrite(select);
            aliases::rewrite(select);
            alike::rewrite(select, order_by);
            return ControlFlow::Continue(());
        }
        let mut branches = vec![];
        loop {
            match body {
                SetExpr::SetOperation { left, right, .. } => {
                    branches.push(right.as_mut());
                    body = left.as_mut();
                    continue;
                }
                SetExpr::Select(select) => {
                    using::rewrite(select, None);
                    grouping::rewrite(select);
                    items::rewrite(select);
                    aliases::rewrite(select);
                    alike::rewrite(select, None);
                }
                SetExpr::Values(rows) => values::rewrite(rows),
                // A query in brackets is visited itself.
                _ => {}
            }
            match branches.pop() {
                Some(next) => body = next,
                None => return ControlFlow::Continue(()),
            }
        }
    }

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        rows::rewrite(expr);
        ControlFlow::Continue(())
    }
}
