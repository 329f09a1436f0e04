//! Which columns do the names in ORDER BY refer to?
//!
//! A bare name refers to a column of the result, also if PostgreSQL derived its name (`ORDER BY
//! count`); a name inside an expression refers to a column of the input. DataFusion resolves a
//! name inside an expression to the result too, and refuses a qualified name that is also the name
//! of a result column.
//!
//! | from | to |
//! |---|---|
//! | `SELECT sum(x) AS x … ORDER BY sum(x)` | the result's `x` gets a name that no expression has |
//! | `SELECT count(*) … ORDER BY count` | the name that the result's column was given |
//! | `SELECT DISTINCT f(x) … ORDER BY f(x)` | the same |
//! | `SELECT *, t.x AS x … ORDER BY x` | the same: the star brings an `x`, too |

use std::collections::HashSet;
use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    Distinct, Expr, Ident, OrderByExpr, OrderByKind, Query, Select, SelectItem, SetExpr, Statement,
    VisitorMut,
};

use super::column_names::{first_select, folded, is_wild};
use crate::names::{MARK, on_the_wire};
use crate::visits::{Walk, visit_expressions};

/// Names the columns of queries so that ORDER BY does not confuse them with the input's.
pub(in crate::dialect) fn rewrite(statement: &mut Statement) {
    struct Queries;
    impl VisitorMut for Queries {
        type Break = ();

        /// After the queries in it, because the first branch of a set operation names its columns.
        fn post_visit_query(&mut self, query: &mut Query) -> ControlFlow<()> {
            meant(query);
            ControlFlow::Continue(())
        }
    }
    let _ = statement.walk(&mut Queries);
}

fn meant(query: &mut Query) {
    let Some(order_by) = &mut query.order_by else {
        return;
    };
    let OrderByKind::Expressions(keys) = &mut order_by.kind else {
        return;
    };
    let is_wild = is_wild(&query.body);
    let SetExpr::Select(select) = query.body.as_mut() else {
        if let Some(first) = first_select(&mut query.body) {
            for key in keys {
                result_column(key, first);
            }
        }
        return;
    };
    if select.distinct == Some(Distinct::Distinct) {
        for key in keys.iter_mut() {
            if let Some(name) = selected(&key.expr, &select.projection) {
                key.expr = Expr::Identifier(name);
            }
        }
    }
    let of_input = names_of_input(keys);
    for (position, item) in select.projection.iter_mut().enumerate() {
        let SelectItem::ExprWithAlias { expr, alias } = item else {
            continue;
        };
        let name = folded(alias);
        let is_column = column(expr).as_ref() == Some(&name);
        if is_column && is_wild || !is_column && of_input.contains(&name) {
            *alias = Ident::with_quote('"', format!("{name}{MARK}{position}"));
        }
    }
    for key in keys {
        result_column(key, select);
    }
}

/// Replaces a key that is a name with the name that the result's column was given.
fn result_column(key: &mut OrderByExpr, select: &Select) {
    if let Expr::Identifier(name) = &key.expr
        && let Some(given) = given(&folded(name), &select.projection)
    {
        key.expr = Expr::Identifier(given);
    }
}

/// The name of the result column that equals this expression.
fn selected(key: &Expr, items: &[SelectItem]) -> Option<Ident> {
    items.iter().find_map(|item| match item {
        SelectItem::ExprWithAlias { expr, alias } if expr == key => Some(alias.clone()),
        _ => None,
    })
}

/// The column names inside expressions, and the qualified ones.
fn names_of_input(keys: &[OrderByExpr]) -> HashSet<String> {
    let mut names = HashSet::new();
    for key in keys {
        if matches!(key.expr, Expr::Identifier(_)) {
            continue;
        }
        let _ = visit_expressions(&key.expr, |inner| {
            names.extend(column(inner));
            ControlFlow::<()>::Continue(())
        });
    }
    names
}

/// The name of a column without its qualifier.
fn column(expr: &Expr) -> Option<String> {
    match expr {
        Expr::Identifier(name) => Some(folded(name)),
        Expr::CompoundIdentifier(names) => names.last().map(folded),
        _ => None,
    }
}

/// The new name of the result's only column of this name.
fn given(name: &str, items: &[SelectItem]) -> Option<Ident> {
    let is_named = |item: &&SelectItem| match item {
        SelectItem::ExprWithAlias { alias, .. } => on_the_wire(&alias.value) == name,
        SelectItem::UnnamedExpr(expr) => column(expr).as_deref() == Some(name),
        _ => false,
    };
    let mut named = items.iter().filter(is_named);
    match (named.next(), named.next()) {
        (Some(SelectItem::ExprWithAlias { alias, .. }), None) if alias.value.contains(MARK) => {
            Some(alias.clone())
        }
        _ => None,
    }
}
