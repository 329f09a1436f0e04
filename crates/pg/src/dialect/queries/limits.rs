//! FETCH FIRST, and LIMIT and OFFSET computed by a subquery.
//!
//! `FETCH FIRST n ROWS ONLY` is LIMIT. `WITH TIES` also returns the rows that are equal to the
//! last one by ORDER BY: those whose rank is at most n.

use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    BinaryOperator, CastKind, DataType, Expr, Ident, LimitClause, Offset, OrderByKind, Query,
    SelectItem, SetExpr, TableAliasColumnDef, TableFactor, TableWithJoins, Value,
};

use crate::dialect::ast::{call, compared, item_expr, number, template, text, with_ands};
use crate::dialect::names::{first_select, folded};
use crate::functions::{FAIL, LIMIT_ROWS, OFFSET_ROWS};
use crate::names::{DROPPED, MARK, on_the_wire};
use crate::visits::visit_expressions;

/// The rank and the number of a row, under names that end with [`DROPPED`]: the relation around
/// them keeps such a name, also where it renames others (`relations/names.rs`).
const RANK: &str = "__rank\u{1e}";
const ROW: &str = "__row\u{1e}";

/// The name of a key of ORDER BY.
fn key_name(index: usize) -> String {
    format!("__key_{index}{DROPPED}")
}

pub(super) fn rewrite(query: &mut Query) {
    counts(query);
    let Some(fetch) = &query.fetch else {
        return computed(query);
    };
    if fetch.percent {
        return;
    }
    let (rows, with_ties) = (fetch.quantity.clone(), fetch.with_ties);
    let rows = rows.unwrap_or_else(|| number(1));
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
    if !with_ties {
        query.fetch = None;
        query.limit_clause = Some(limited(Some(rows), offset));
        return computed(query);
    }
    if query.order_by.is_none() {
        let message = "WITH TIES cannot be specified without ORDER BY clause";
        let fails = call(FAIL, vec![text("42601"), text(message)]);
        query.fetch = None;
        query.limit_clause = Some(limited(Some(fails), None));
        return;
    }
    let zero = number(0);
    let least = offset
        .as_ref()
        .map_or(zero.clone(), |offset| offset.value.clone());
    let last = compared(least.clone(), "+", rows.clone());
    let condition = with_ands(vec![
        compared(column(ROW), ">", least),
        compared(column(RANK), "<=", last),
        compared(rows, ">", zero),
    ]);
    if counted(query, condition).is_none() {
        // DataFusion refuses FETCH.
        query.limit_clause = offset.map(|offset| limited(None, Some(offset)));
    }
}

/// LIMIT and OFFSET are integers: `LIMIT 2.5` is `LIMIT 2.5::bigint`. The column of a subquery is
/// a text if it is untyped.
fn counts(query: &mut Query) {
    let Some(LimitClause::LimitOffset { limit, offset, .. }) = &mut query.limit_clause else {
        return;
    };
    let limit = limit.iter_mut().map(|count| ("LIMIT", count));
    let offset = offset
        .iter_mut()
        .map(|offset| ("OFFSET", &mut offset.value));
    for (clause, count) in limit.chain(offset) {
        if is_untyped_query(count) {
            let message = format!("argument of {clause} must be type bigint, not type text");
            *count = call(FAIL, vec![text("42804"), text(&message)]);
        } else if !stays(count) {
            let given = std::mem::replace(count, number(0));
            *count = bigint(Expr::Nested(Box::new(given)));
        }
    }
}

/// Whether this is a subquery of an untyped constant: `(SELECT NULL)`.
fn is_untyped_query(count: &Expr) -> bool {
    let query = match count {
        Expr::Nested(inner) => return is_untyped_query(inner),
        Expr::Subquery(query) => query,
        _ => return false,
    };
    let items = match query.body.as_ref() {
        SetExpr::Select(select) => select.projection.as_slice(),
        _ => return false,
    };
    match items {
        [item] => matches!(item_expr(item), Some(Expr::Value(value))
            if matches!(value.value, Value::Null | Value::SingleQuotedString(_))),
        _ => false,
    }
}

/// Whether the planner takes a count as it is, or refuses it by its type (42804).
fn stays(count: &Expr) -> bool {
    match count {
        Expr::Nested(inner) | Expr::UnaryOp { expr: inner, .. } => stays(inner),
        Expr::Value(value) => match &value.value {
            Value::Number(digits, _) => digits.bytes().all(|byte| byte.is_ascii_digit()),
            Value::SingleQuotedString(_) => false,
            _ => true,
        },
        Expr::Cast { data_type, .. } => !matches!(
            data_type,
            DataType::Numeric(_)
                | DataType::Decimal(_)
                | DataType::Dec(_)
                | DataType::Real
                | DataType::Float(_)
                | DataType::Float4
                | DataType::Float8
                | DataType::Double(_)
                | DataType::DoublePrecision
                | DataType::Custom(..)
        ),
        Expr::Function(_) | Expr::Subquery(_) => true,
        _ => false,
    }
}

/// Applies a LIMIT or OFFSET computed by a subquery by numbering the rows, because DataFusion only
/// supports constants.
fn computed(query: &mut Query) {
    let Some(LimitClause::LimitOffset { limit, offset, .. }) = &query.limit_clause else {
        return;
    };
    let offset = offset.as_ref().map(|offset| &offset.value);
    if !limit.iter().chain(offset).any(has_query) {
        return;
    }
    let least = match offset {
        Some(offset) => {
            let given = call(OFFSET_ROWS, vec![bigint(offset.clone())]);
            call("coalesce", vec![given, number(0)])
        }
        None => number(0),
    };
    let mut conditions = vec![compared(column(ROW), ">", least.clone())];
    if let Some(limit) = limit {
        let rows = call(LIMIT_ROWS, vec![bigint(limit.clone())]);
        let last = compared(least, "+", rows.clone());
        // A limit of NULL returns all rows.
        let within = compared(column(ROW), "<=", last);
        conditions.push(Expr::Nested(Box::new(Expr::BinaryOp {
            left: Box::new(Expr::IsNull(Box::new(rows))),
            op: BinaryOperator::Or,
            right: Box::new(within),
        })));
    }
    let kept = query.limit_clause.take();
    if counted(query, with_ands(conditions)).is_none() {
        query.limit_clause = kept;
    }
}

fn has_query(expr: &Expr) -> bool {
    let found = visit_expressions(expr, |inner| match inner {
        Expr::Subquery(_) => ControlFlow::Break(()),
        _ => ControlFlow::Continue(()),
    });
    found.is_break()
}

fn bigint(expr: Expr) -> Expr {
    Expr::Cast {
        kind: CastKind::Cast,
        expr: Box::new(expr),
        data_type: DataType::BigInt(None),
        array: false,
        format: None,
    }
}

fn column(name: &str) -> Expr {
    Expr::Identifier(Ident::with_quote('"', name))
}

fn limited(limit: Option<Expr>, offset: Option<Offset>) -> LimitClause {
    LimitClause::LimitOffset {
        limit,
        offset,
        limit_by: vec![],
    }
}

/// `SELECT … ORDER BY k` becomes a relation that also has the keys. Its rows are numbered in their
/// order, and those that fulfil a condition over [`RANK`] and [`ROW`] are kept.
fn counted(query: &mut Query, condition: Expr) -> Option<()> {
    let mut keys = match query.order_by.as_ref().map(|order_by| &order_by.kind) {
        Some(OrderByKind::Expressions(keys)) => keys.clone(),
        Some(_) => return None,
        None => vec![],
    };
    if !matches!(query.body.as_ref(), SetExpr::Select(_)) {
        let names = apart(names(&mut query.body)?);
        for key in &mut keys {
            if let Some(position) = position(&key.expr) {
                key.expr = Expr::Identifier(names.get(position.checked_sub(1)?)?.clone());
            }
        }
        as_select(query, names)?;
    }
    let SetExpr::Select(select) = query.body.as_mut() else {
        return None;
    };
    let mut by = vec![];
    for (index, key) in keys.iter().enumerate() {
        let value = output(&key.expr, &select.projection)?;
        let name = Ident::with_quote('"', key_name(index));
        let mut key = key.clone();
        key.expr = Expr::Identifier(name.clone());
        by.push(key);
        let item = SelectItem::ExprWithAlias {
            expr: value,
            alias: name,
        };
        select.projection.push(item);
    }
    let names = (0..keys.len()).map(|index| format!("\"{}\", ", key_name(index)));
    let names: String = names.collect();
    let by: Vec<String> = by.iter().map(ToString::to_string).collect();
    let by = if by.is_empty() {
        String::new()
    } else {
        format!("ORDER BY {}", by.join(", "))
    };
    let outer = template(&format!(
        "SELECT * EXCEPT ({names}\"{RANK}\", \"{ROW}\") FROM (SELECT *, rank() OVER ({by}) AS \
         \"{RANK}\", row_number() OVER ({by}) AS \"{ROW}\" FROM (SELECT 1) AS __all) AS __ranked \
         WHERE true ORDER BY \"{ROW}\"",
    ))?;
    query.fetch = None;
    query.order_by = None;
    let mut inner = std::mem::replace(query, outer);
    query.with = inner.with.take();
    let SetExpr::Select(select) = query.body.as_mut() else {
        return None;
    };
    select.selection = Some(condition);
    let ranked = derived(select.from.first_mut()?)?;
    let SetExpr::Select(select) = ranked.body.as_mut() else {
        return None;
    };
    *derived(select.from.first_mut()?)? = inner;
    Some(())
}

/// The column names of a set operation or of VALUES.
fn names(body: &mut SetExpr) -> Option<Vec<Ident>> {
    if let SetExpr::Values(values) = body {
        let width = values.rows.first().map_or(0, |row| row.content.len());
        let names = (1..=width).map(|at| Ident::new(format!("column{at}")));
        return Some(names.collect());
    }
    let items = first_select(body)?
        .projection
        .iter()
        .map(|item| match item {
            SelectItem::ExprWithAlias { alias, .. } => Some(alias.clone()),
            SelectItem::UnnamedExpr(Expr::Identifier(name)) => Some(name.clone()),
            SelectItem::UnnamedExpr(Expr::CompoundIdentifier(words)) => words.last().cloned(),
            _ => None,
        });
    items.collect()
}

/// The names, with repeated ones marked as in `outer_names.rs`.
fn apart(names: Vec<Ident>) -> Vec<Ident> {
    let known: Vec<String> = names
        .iter()
        .map(|name| on_the_wire(&folded(name)).to_owned())
        .collect();
    let named = names.into_iter().zip(&known).enumerate();
    let named =
        named.map(
            |(at, (name, own))| match known.iter().filter(|other| *other == own).count() {
                1 => name,
                _ => Ident::with_quote('"', format!("{own}{MARK}{at}")),
            },
        );
    named.collect()
}

/// Replaces `body` with `SELECT * FROM (body) AS __set (names)`.
fn as_select(query: &mut Query, names: Vec<Ident>) -> Option<()> {
    let whole = template("SELECT * FROM (SELECT 1) AS __set")?;
    let body = std::mem::replace(&mut query.body, whole.body);
    let SetExpr::Select(select) = query.body.as_mut() else {
        return None;
    };
    let item = select.from.first_mut()?;
    derived(item)?.body = body;
    if let TableFactor::Derived {
        alias: Some(alias), ..
    } = &mut item.relation
    {
        alias.columns = names.into_iter().map(column_of).collect();
    }
    Some(())
}

fn column_of(name: Ident) -> TableAliasColumnDef {
    TableAliasColumnDef {
        name,
        data_type: None,
    }
}

fn derived(item: &mut TableWithJoins) -> Option<&mut Query> {
    match &mut item.relation {
        TableFactor::Derived { subquery, .. } => Some(subquery),
        _ => None,
    }
}

/// The expression that a key of ORDER BY refers to: a result column, by name or number, or the key
/// itself.
fn output(key: &Expr, items: &[SelectItem]) -> Option<Expr> {
    match key {
        Expr::Identifier(name) => {
            let named = items.iter().find_map(|item| match item {
                SelectItem::ExprWithAlias { expr, alias } if folded(alias) == folded(name) => {
                    Some(expr)
                }
                _ => None,
            });
            Some(named.unwrap_or(key).clone())
        }
        Expr::Value(_) => {
            let position = position(key)?;
            item_expr(items.get(position.checked_sub(1)?)?).cloned()
        }
        other => Some(other.clone()),
    }
}

/// The number of the result column that a key gives.
pub(super) fn position(key: &Expr) -> Option<usize> {
    match key {
        Expr::Value(value) => value.to_string().parse().ok(),
        _ => None,
    }
}
