//! Queries that form one group without naming a column in GROUP BY.
//!
//! `GROUP BY ()` and HAVING make one group of all rows, even if there are none. DataFusion does
//! the same if there are aggregates, also in ORDER BY. Without aggregates the query can name no
//! column: it becomes one row, from a subquery that counts rows, with HAVING as its WHERE.
//!
//! ROLLUP and CUBE are written out as sets if they stand inside GROUPING SETS, repeat a key, or
//! have several keys in brackets.
//!
//! A constant that is a key of grouping sets is NULL in the sets without it, but only where it is a
//! whole item of SELECT or a whole key of a window. DataFusion takes every equal constant for the
//! key, so others become subqueries: `HAVING (SELECT 'a') IS NULL`.

use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    Expr, Function, FunctionArg, FunctionArgExpr, FunctionArguments, GroupByExpr, Ident, OrderBy,
    OrderByExpr, OrderByKind, Query, Select, SelectItem, SetExpr, TableFactor, TableWithJoins,
    Value, VisitorMut, WindowType,
};

use crate::dialect::ast::{
    aggregates, arguments, call, item_expr, item_expr_mut, last_word, template, text,
};
use crate::functions::FAIL;
use crate::names::MARK;
use crate::visits::{Walk, visit_expressions};

pub(super) fn rewrite(select: &mut Select, order_by: Option<&OrderBy>) {
    let GroupByExpr::Expressions(keys, modifiers) = &mut select.group_by else {
        return;
    };
    if !modifiers.is_empty() {
        return;
    }
    // Keys in brackets: `GROUP BY (a, b), c`.
    let flat = |key: Expr| match key {
        Expr::Tuple(fields) if !fields.is_empty() => fields,
        key => vec![key],
    };
    *keys = keys.drain(..).flat_map(flat).collect();
    for key in keys.iter_mut() {
        written_keys(key, &select.projection);
        if let Some(sets) = repeated(key) {
            *key = Expr::GroupingSets(sets);
        } else if let Expr::GroupingSets(sets) = key {
            *sets = sets.drain(..).flat_map(written_out).collect();
        }
    }
    let constants = constant_keys(keys);
    let before = keys.len();
    let is_empty = |key: &Expr| matches!(key, Expr::Tuple(fields) if fields.is_empty());
    keys.retain(|key| !is_empty(key));
    let one_group = keys.is_empty() && (before > 0 || select.having.is_some());
    if !constants.is_empty() {
        keep_constants(select, constants);
    }
    if !one_group {
        return;
    }
    let items = select.projection.iter().filter_map(item_expr);
    let sorts: &[OrderByExpr] = match order_by.map(|order_by| &order_by.kind) {
        Some(OrderByKind::Expressions(sorts)) => sorts,
        _ => &[],
    };
    let sorts = sorts.iter().map(|sort| &sort.expr);
    let mut all = items.chain(select.having.as_ref()).chain(sorts);
    if all.any(aggregates) {
        return;
    }
    if let Some(one) = one_row(select) {
        select.from = vec![one];
        select.selection = select.having.take();
    }
}

/// The constants among the keys of grouping sets.
fn constant_keys(keys: &[Expr]) -> Vec<Expr> {
    let sets = keys.iter().flat_map(|key| match key {
        Expr::GroupingSets(sets) | Expr::Rollup(sets) | Expr::Cube(sets) => sets.as_slice(),
        _ => &[],
    });
    let constants = sets.flatten().map(bare).filter(|key| is_constant(key));
    constants.cloned().collect()
}

fn bare(expr: &Expr) -> &Expr {
    match expr {
        Expr::Nested(inner) => bare(inner),
        other => other,
    }
}

fn is_constant(expr: &Expr) -> bool {
    let found = visit_expressions(expr, |part| match part {
        Expr::Value(value) if !matches!(value.value, Value::Placeholder(_)) => {
            ControlFlow::Continue(())
        }
        Expr::Nested(_)
        | Expr::Cast { .. }
        | Expr::TypedString(_)
        | Expr::UnaryOp { .. }
        | Expr::BinaryOp { .. } => ControlFlow::Continue(()),
        _ => ControlFlow::Break(()),
    });
    found.is_continue()
}

/// Keeps constants apart from equal keys, in HAVING and inside of items.
fn keep_constants(select: &mut Select, keys: Vec<Expr>) {
    let mut constants = Constants {
        keys,
        depth: 0,
        of_windows: vec![],
    };
    let _ = select.having.walk(&mut constants);
    for item in select.projection.iter_mut().filter_map(item_expr_mut) {
        if !constants.keys.contains(bare(item)) {
            let _ = item.walk(&mut constants);
        }
    }
}

struct Constants {
    keys: Vec<Expr>,
    /// The number of queries and of calls with aggregates around. Arguments of these are computed
    /// before there are groups.
    depth: usize,
    /// The constants among the keys of each window around, in whose place stands [`away`].
    of_windows: Vec<Vec<Expr>>,
}

/// Stands for a key of a window that is not to be replaced.
fn away() -> Expr {
    Expr::Identifier(Ident::new(MARK.to_string()))
}

/// The keys of the window of a call; `None` for another expression.
fn window_keys(expr: &mut Expr) -> Option<Vec<&mut Expr>> {
    let Expr::Function(Function {
        over: Some(WindowType::WindowSpec(window)),
        ..
    }) = expr
    else {
        return None;
    };
    let sorts = window.order_by.iter_mut().map(|sort| &mut sort.expr);
    Some(window.partition_by.iter_mut().chain(sorts).collect())
}

impl Constants {
    fn is_passed(expr: &Expr) -> bool {
        matches!(expr, Expr::Function(_)) && aggregates(expr)
    }
}

impl VisitorMut for Constants {
    type Break = ();

    fn pre_visit_query(&mut self, _: &mut Query) -> ControlFlow<()> {
        self.depth += 1;
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, _: &mut Query) -> ControlFlow<()> {
        self.depth -= 1;
        ControlFlow::Continue(())
    }

    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        if Self::is_passed(expr) {
            self.depth += 1;
        } else if self.depth == 0
            && self.keys.contains(expr)
            && let Some(mut query) = template("SELECT 1")
            && let SetExpr::Select(select) = query.body.as_mut()
        {
            select.projection = vec![SelectItem::UnnamedExpr(expr.clone())];
            *expr = Expr::Subquery(Box::new(query));
        }
        if let Some(keys) = window_keys(expr) {
            let constants = keys.into_iter();
            let constants = constants.filter(|key| self.keys.contains(bare(key)));
            let taken = constants
                .map(|key| std::mem::replace(key, away()))
                .collect();
            self.of_windows.push(taken);
        }
        ControlFlow::Continue(())
    }

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        if let Some(keys) = window_keys(expr) {
            let taken = self.of_windows.pop().unwrap_or_default();
            let places = keys.into_iter().filter(|key| **key == away());
            places.zip(taken).for_each(|(key, taken)| *key = taken);
        }
        if Self::is_passed(expr) {
            self.depth -= 1;
        }
        ControlFlow::Continue(())
    }
}

/// A relation of one row without a usable column, whatever FROM and WHERE produce.
fn one_row(select: &mut Select) -> Option<TableWithJoins> {
    let mut query = template("SELECT 1 FROM (SELECT count(*)) AS __group")?;
    let SetExpr::Select(outer) = query.body.as_mut() else {
        return None;
    };
    let mut one = outer.from.pop()?;
    if let TableFactor::Derived { subquery, .. } = &mut one.relation
        && let SetExpr::Select(rows) = subquery.body.as_mut()
    {
        rows.from = std::mem::take(&mut select.from);
        rows.selection = select.selection.take();
    }
    Some(one)
}

/// Replaces a position in grouping sets with the item it refers to; other constants are not keys.
fn written_keys(key: &mut Expr, items: &[SelectItem]) {
    match key {
        Expr::GroupingSets(sets) | Expr::Rollup(sets) | Expr::Cube(sets) => {
            sets.iter_mut().flatten().for_each(|key| item(key, items));
        }
        Expr::Value(value) if !matches!(value.value, Value::Number(..)) => item(key, items),
        _ => {}
    }
}

fn item(key: &mut Expr, items: &[SelectItem]) {
    let Expr::Value(value) = &*key else {
        if let Expr::Function(call) = key
            && let FunctionArguments::List(list) = &mut call.args
            && matches!(last_word(&call.name).as_deref(), Some("rollup" | "cube"))
        {
            for argument in &mut list.args {
                if let FunctionArg::Unnamed(FunctionArgExpr::Expr(key)) = argument {
                    item(key, items);
                }
            }
        }
        return;
    };
    let fail = |code: &str, message: &str| call(FAIL, vec![text(code), text(message)]);
    *key = match &value.value {
        Value::Placeholder(_) => return,
        Value::Number(digits, _) => {
            let place = digits
                .parse::<usize>()
                .ok()
                .and_then(|at| at.checked_sub(1));
            // Beside `*` the column at a position is not known from the syntax.
            let wild = items.iter().any(|item| item_expr(item).is_none());
            match place.and_then(|at| items.get(at)).and_then(item_expr) {
                Some(expr) if !wild => Expr::Nested(Box::new(expr.clone())),
                _ if wild => fail(
                    "0A000",
                    "positions in grouping sets beside * are not supported",
                ),
                _ => fail(
                    "42P10",
                    &format!("GROUP BY position {digits} is not in select list"),
                ),
            }
        }
        _ => fail("42601", "non-integer constant in GROUP BY"),
    };
}

/// The sets of a ROLLUP or CUBE that repeats a key or has several keys in brackets, which
/// DataFusion does not support.
fn repeated(key: &Expr) -> Option<Vec<Vec<Expr>>> {
    let (lists, is_cube) = match key {
        Expr::Rollup(lists) if lists.len() < 64 => (lists, false),
        Expr::Cube(lists) if lists.len() <= CUBE_MAX => (lists, true),
        _ => return None,
    };
    let all: Vec<&Expr> = lists.iter().flatten().collect();
    let mut keys = all.iter().enumerate();
    let is_plain = lists.iter().all(|list| list.len() == 1);
    if is_plain && !keys.any(|(at, key)| all[..at].contains(key)) {
        return None;
    }
    let chosen: Vec<u64> = if is_cube {
        (0..1 << lists.len()).rev().collect()
    } else {
        (0..=lists.len())
            .rev()
            .map(|count| (1 << count) - 1)
            .collect()
    };
    let set = |bits: u64| {
        let mut set: Vec<Expr> = vec![];
        for (at, list) in lists.iter().enumerate() {
            if bits >> at & 1 == 1 {
                let new: Vec<Expr> = list
                    .iter()
                    .filter(|key| !set.contains(key))
                    .cloned()
                    .collect();
                set.extend(new);
            }
        }
        set
    };
    Some(chosen.into_iter().map(set).collect())
}

/// A set of GROUPING SETS, or the sets that a nested ROLLUP or CUBE stands for.
fn written_out(set: Vec<Expr>) -> Vec<Vec<Expr>> {
    let named = match set.as_slice() {
        [Expr::Function(call)] => last_word(&call.name).zip(arguments(call)),
        _ => None,
    };
    // A key of ROLLUP may be a list in brackets.
    let keys = |arguments: &[&Expr]| -> Vec<Expr> {
        let each = arguments.iter().flat_map(|argument| match argument {
            Expr::Tuple(fields) => fields.clone(),
            other => vec![(*other).clone()],
        });
        each.collect()
    };
    match named {
        Some((name, arguments)) if name == "rollup" => {
            let counts = (0..=arguments.len()).rev();
            counts.map(|count| keys(&arguments[..count])).collect()
        }
        Some((name, arguments)) if name == "cube" && arguments.len() <= CUBE_MAX => {
            let subsets = (0..1_usize << arguments.len()).rev();
            let subset = |bits: usize| {
                let chosen = arguments.iter().enumerate();
                let chosen = chosen.filter(|(index, _)| bits >> index & 1 == 1);
                keys(&chosen.map(|(_, argument)| *argument).collect::<Vec<_>>())
            };
            subsets.map(subset).collect()
        }
        _ => vec![set],
    }
}

/// The most keys of a CUBE that is written out: 4096 sets, as in PostgreSQL.
const CUBE_MAX: usize = 12;
