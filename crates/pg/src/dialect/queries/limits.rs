//! FETCH FIRST.
//!
//! `FETCH FIRST n ROWS ONLY` is LIMIT. `WITH TIES` also gives the rows that ORDER BY does not tell
//! from the last one: those whose rank is at most n.

use datafusion::sql::sqlparser::ast::{
    Expr, Ident, LimitClause, Offset, OrderByKind, Query, SelectItem, SetExpr, TableFactor,
    TableWithJoins,
};

use crate::dialect::ast::{compared, item_expr, number, template, with_ands};

pub(super) fn rewrite(query: &mut Query) {
    let Some(fetch) = &query.fetch else { return };
    if fetch.percent {
        return;
    }
    let rows = fetch.quantity.clone().unwrap_or_else(|| number(1));
    let offset = match query.limit_clause.take() {
        None => None,
        Some(LimitClause::LimitOffset {
            limit: None,
            offset,
            ..
        }) => offset,
        other => {
            query.limit_clause = other;
            return;
        }
    };
    if !fetch.with_ties {
        query.fetch = None;
        query.limit_clause = Some(limited(Some(rows), offset));
        return;
    }
    if with_ties(query, &rows, offset.as_ref()).is_none() {
        // DataFusion refuses FETCH.
        query.limit_clause = offset.map(|offset| limited(None, Some(offset)));
    }
}

fn limited(limit: Option<Expr>, offset: Option<Offset>) -> LimitClause {
    LimitClause::LimitOffset {
        limit,
        offset,
        limit_by: vec![],
    }
}

/// `SELECT … ORDER BY k` becomes a relation that also has the keys; rows are ranked by them.
fn with_ties(query: &mut Query, rows: &Expr, offset: Option<&Offset>) -> Option<()> {
    let OrderByKind::Expressions(keys) = &query.order_by.as_ref()?.kind else {
        return None;
    };
    let keys = keys.clone();
    let SetExpr::Select(select) = query.body.as_mut() else {
        return None;
    };
    let mut by = vec![];
    for (index, key) in keys.iter().enumerate() {
        let value = output(&key.expr, &select.projection)?;
        let name = Ident::with_quote('"', format!("__key_{index}"));
        let mut key = key.clone();
        key.expr = Expr::Identifier(name.clone());
        by.push(key);
        let item = SelectItem::ExprWithAlias {
            expr: value,
            alias: name,
        };
        select.projection.push(item);
    }
    let names: Vec<String> = (0..keys.len())
        .map(|index| format!("\"__key_{index}\""))
        .collect();
    let by_text: Vec<String> = by.iter().map(ToString::to_string).collect();
    let by_text = by_text.join(", ");
    let outer = template(&format!(
        "SELECT * EXCEPT ({}, \"__rank\", \"__row\") FROM (SELECT *, rank() OVER (ORDER BY {by_text}) \
         AS \"__rank\", row_number() OVER (ORDER BY {by_text}) AS \"__row\" FROM (SELECT 1) AS __all) \
         AS __ranked WHERE true ORDER BY {by_text}",
        names.join(", "),
    ))?;
    query.fetch = None;
    query.order_by = None;
    let mut inner = std::mem::replace(query, outer);
    query.with = inner.with.take();
    let SetExpr::Select(select) = query.body.as_mut() else {
        return None;
    };
    let column = |name: &str| Expr::Identifier(Ident::with_quote('"', name));
    let zero = number(0);
    let least = offset.map_or(zero.clone(), |offset| offset.value.clone());
    select.selection = Some(with_ands(vec![
        compared(column("__row"), ">", least.clone()),
        compared(column("__rank"), "<=", compared(least, "+", rows.clone())),
        compared(rows.clone(), ">", zero),
    ]));
    let ranked = derived(select.from.first_mut()?)?;
    let SetExpr::Select(select) = ranked.body.as_mut() else {
        return None;
    };
    *derived(select.from.first_mut()?)? = inner;
    Some(())
}

fn derived(item: &mut TableWithJoins) -> Option<&mut Query> {
    match &mut item.relation {
        TableFactor::Derived { subquery, .. } => Some(subquery),
        _ => None,
    }
}

/// The expression that a key of ORDER BY means: a column of the result by name or number, or else
/// itself.
fn output(key: &Expr, items: &[SelectItem]) -> Option<Expr> {
    match key {
        Expr::Identifier(name) => {
            let named = items.iter().find_map(|item| match item {
                SelectItem::ExprWithAlias { expr, alias } if alias.value == name.value => {
                    Some(expr)
                }
                _ => None,
            });
            Some(named.unwrap_or(key).clone())
        }
        Expr::Value(value) => {
            let position: usize = value.to_string().parse().ok()?;
            item_expr(items.get(position.checked_sub(1)?)?).cloned()
        }
        other => Some(other.clone()),
    }
}
