//! `SELECT unnest(t.tags) FROM t ORDER BY t.id`: keys of ORDER BY that are not selected, beside a
//! set-returning function.
//!
//! DataFusion (55.2, `add_missing_columns`) does not bring such a key through the unnesting. So
//! the key becomes a column, and a query around sorts by it and drops it:
//! `SELECT * EXCEPT (k) FROM (SELECT unnest(t.tags), t.id AS k FROM t) ORDER BY k`.
//!
//! Not here: SELECT DISTINCT, whose keys must be selected.

use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    Expr, Ident, OrderByExpr, OrderByKind, Query, Select, SelectItem, SetExpr, TableFactor, Visitor,
};

use super::limits::position;
use crate::dialect::ast::{item_expr, last_word, template};
use crate::dialect::expressions::array_of_set;
use crate::dialect::names::folded;
use crate::visits::Look;

pub(super) fn rewrite(query: &mut Query) {
    let SetExpr::Select(select) = query.body.as_ref() else {
        return;
    };
    let Some(OrderByKind::Expressions(keys)) = query.order_by.as_ref().map(|by| &by.kind) else {
        return;
    };
    let is_hidden = |key: &OrderByExpr| matches!(Key::new(&key.expr, select), Key::Hidden);
    let is_kept = select.distinct.is_some() || select.into.is_some();
    if is_kept || !keys.iter().any(is_hidden) || !has_sets(select) {
        return;
    }
    let _ = wrap(query);
}

/// Puts the query into the FROM of one that sorts its rows.
fn wrap(query: &mut Query) -> Option<()> {
    let mut order_by = query.order_by.clone()?;
    let OrderByKind::Expressions(keys) = &mut order_by.kind else {
        return None;
    };
    let SetExpr::Select(select) = query.body.as_ref() else {
        return None;
    };
    let mut added = vec![];
    for key in keys.iter_mut() {
        let alias = match Key::new(&key.expr, select) {
            Key::Result => continue,
            Key::Item(name) => name,
            Key::Hidden => {
                let alias = Ident::with_quote('"', format!("__key_{}", added.len()));
                added.push(SelectItem::ExprWithAlias {
                    expr: key.expr.clone(),
                    alias: alias.clone(),
                });
                alias
            }
        };
        key.expr = Expr::Identifier(alias);
    }
    let names: Vec<String> = (0..added.len())
        .map(|at| format!("\"__key_{at}\""))
        .collect();
    let names = names.join(", ");
    let mut outer = template(&format!(
        "SELECT * EXCEPT ({names}) FROM (SELECT 1) AS __sets"
    ))?;
    let SetExpr::Select(whole) = outer.body.as_mut() else {
        return None;
    };
    let TableFactor::Derived { subquery, .. } = &mut whole.from.first_mut()?.relation else {
        return None;
    };
    let SetExpr::Select(select) = query.body.as_mut() else {
        return None;
    };
    select.projection.append(&mut added);
    std::mem::swap(&mut subquery.body, &mut query.body);
    query.body = outer.body;
    query.order_by = Some(order_by);
    Some(())
}

/// What a key of ORDER BY refers to.
enum Key {
    /// A column of the result, by its name or number.
    Result,
    /// The expression of the result's column of this name.
    Item(Ident),
    /// An expression that is not selected.
    Hidden,
}

impl Key {
    fn new(key: &Expr, select: &Select) -> Self {
        if position(key).is_some() {
            return Self::Result;
        }
        let mut names = select.projection.iter().filter_map(name);
        if let Expr::Identifier(word) = key
            && names.any(|name| folded(name) == folded(word))
        {
            return Self::Result;
        }
        let mut items = select.projection.iter();
        let equal = items.find(|item| item_expr(item) == Some(key));
        match equal.and_then(name) {
            Some(name) => Self::Item(name.clone()),
            None => Self::Hidden,
        }
    }
}

/// The name of an item's column.
fn name(item: &SelectItem) -> Option<&Ident> {
    match item {
        SelectItem::ExprWithAlias { alias, .. } => Some(alias),
        SelectItem::UnnamedExpr(Expr::Identifier(name)) => Some(name),
        SelectItem::UnnamedExpr(Expr::CompoundIdentifier(words)) => words.last(),
        _ => None,
    }
}

/// Whether a set-returning function is in the select list.
fn has_sets(select: &Select) -> bool {
    let mut sets = Sets { depth: 0 };
    let mut exprs = select.projection.iter().filter_map(item_expr);
    exprs.any(|expr| expr.look(&mut sets).is_break())
}

/// Finds a set-returning function outside of subqueries.
struct Sets {
    /// The number of queries around.
    depth: usize,
}

impl Visitor for Sets {
    type Break = ();

    fn pre_visit_query(&mut self, _: &Query) -> ControlFlow<()> {
        self.depth += 1;
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, _: &Query) -> ControlFlow<()> {
        self.depth -= 1;
        ControlFlow::Continue(())
    }

    fn pre_visit_expr(&mut self, expr: &Expr) -> ControlFlow<()> {
        match expr {
            Expr::Function(function)
                if self.depth == 0
                    && last_word(&function.name).is_some_and(|name| is_set(&name)) =>
            {
                ControlFlow::Break(())
            }
            _ => ControlFlow::Continue(()),
        }
    }
}

fn is_set(function: &str) -> bool {
    matches!(function, "unnest" | "generate_series") || array_of_set(function).is_some()
}
