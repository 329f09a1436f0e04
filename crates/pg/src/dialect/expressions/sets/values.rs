//! `e.value FROM json_array_elements(…) AS e`: the column of a set whose table has an alias.
//!
//! PostgreSQL names the column `value`, and resolves `e` to it, too. Here the column is named
//! after the alias, so that a column `e` of another table makes `e` ambiguous instead of changing
//! its meaning, and `value` is written as `e.e`. Outside of the query the column is `value`.
//!
//! | from | to |
//! |---|---|
//! | `SELECT e.value FROM f(…) e WHERE e.value > 1` | `SELECT e.e AS value … WHERE e.e > 1` |
//! | `SELECT e.* FROM f(…) WITH ORDINALITY e` | `SELECT e.e AS value, e.ordinality …` |
//! | `SELECT * FROM f(…) e` | `SELECT e.e AS value …` |
//! | `SELECT * FROM t, f(…) e` | `SELECT t.*, e.e AS value …` |
//!
//! In a result the last name is marked, because `t` may have a column of that name, too.
//! Not here: `*` over joins with USING or in brackets, and stars over two such sets, in which the
//! column is `e`: two columns of a name are refused.

use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    Expr, Ident, JoinConstraint, JoinOperator, ObjectName, OrderByKind, Query, Select, SelectItem,
    SelectItemQualifiedWildcardKind, SetExpr, TableFactor, VisitMut, VisitorMut,
    WildcardAdditionalOptions,
};

use crate::dialect::ast::{each_branch, last_word};
use crate::names::MARK;

const VALUE: &str = "value";

/// `is_result` says whether a client sees the query's columns.
pub(super) fn rewrite(query: &mut Query, is_result: bool) {
    if let SetExpr::Select(select) = query.body.as_mut() {
        let mut keys: Vec<&mut Expr> = vec![];
        if let Some(order_by) = &mut query.order_by
            && let OrderByKind::Expressions(found) = &mut order_by.kind
        {
            keys.extend(found.iter_mut().map(|key| &mut key.expr));
        }
        if let [set] = sets(select).as_slice() {
            expand_star(select, set, is_result);
        }
        in_select(select, &mut keys);
        return;
    }
    each_branch(&mut query.body, &mut |body| {
        if let SetExpr::Select(select) = body {
            in_select(select, &mut []);
        }
    });
}

/// Writes `value` as the column after which it is named, in a query and its keys of ORDER BY.
fn in_select(select: &mut Select, keys: &mut [&mut Expr]) {
    let sets = sets(select);
    if sets.is_empty() {
        return;
    }
    let is_named = |item: &SelectItem| matches!(item, SelectItem::ExprWithAlias { alias, .. } if alias.value == VALUE);
    let is_output = select.projection.iter().any(is_named);
    if let [set] = sets.as_slice() {
        expand_wildcards(select, set);
    }
    let only = match sets.as_slice() {
        [set] => Some(set.alias.clone()),
        _ => None,
    };
    let mut values = Values {
        aliases: sets.into_iter().map(|set| set.alias).collect(),
        only,
        depth: 0,
    };
    for item in &mut select.projection {
        if let SelectItem::UnnamedExpr(expr) = item
            && let Some(column) = values.column(expr)
        {
            *item = as_value(column);
        }
    }
    let _ = select.visit(&mut values);
    if is_output {
        values.only = None;
    }
    for key in keys {
        let _ = key.visit(&mut values);
    }
}

/// `column AS value`.
fn as_value(column: Expr) -> SelectItem {
    SelectItem::ExprWithAlias {
        expr: column,
        alias: Ident::with_quote('"', VALUE),
    }
}

/// A set whose column is named `value`.
struct Set {
    alias: Ident,
    ordinality: bool,
}

impl Set {
    /// The items for all columns.
    fn items(&self) -> Vec<SelectItem> {
        let column = |name: Ident| Expr::CompoundIdentifier(vec![self.alias.clone(), name]);
        let mut items = vec![as_value(column(self.alias.clone()))];
        if self.ordinality {
            let places = column(Ident::new("ordinality"));
            items.push(SelectItem::UnnamedExpr(places));
        }
        items
    }
}

/// The sets in FROM whose column is named `value` and whose table has another name.
fn sets(select: &Select) -> Vec<Set> {
    factors(select).filter_map(set).collect()
}

fn factors(select: &Select) -> impl Iterator<Item = &TableFactor> {
    select.from.iter().flat_map(|from| {
        std::iter::once(&from.relation).chain(from.joins.iter().map(|join| &join.relation))
    })
}

fn set(factor: &TableFactor) -> Option<Set> {
    let (TableFactor::Table {
        name,
        args: Some(_),
        alias: Some(alias),
        with_ordinality,
        ..
    }
    | TableFactor::Function {
        name,
        alias: Some(alias),
        with_ordinality,
        ..
    }) = factor
    else {
        return None;
    };
    let is_set = last_word(name).is_some_and(|name| {
        let of = name
            .strip_prefix("jsonb_")
            .or_else(|| name.strip_prefix("json_"));
        matches!(of, Some("array_elements" | "array_elements_text"))
    });
    let is_other = alias.columns.is_empty() && alias.name.value != VALUE;
    (is_set && is_other).then(|| Set {
        alias: alias.name.clone(),
        ordinality: *with_ordinality,
    })
}

/// Replaces `*` over several relations, of which one is the set, with the columns of each.
fn expand_star(select: &mut Select, set: &Set, is_result: bool) {
    let is_star =
        |item: &SelectItem| matches!(item, SelectItem::Wildcard(options) if is_plain(options));
    let Some(at) = select.projection.iter().position(is_star) else {
        return;
    };
    let joins = select.from.iter().flat_map(|from| &from.joins);
    let mut operators = joins.map(|join| &join.join_operator);
    if factors(select).count() == 1 || !operators.all(keeps_columns) {
        return;
    }
    let items = factors(select).map(|factor| {
        let table = name(factor)?;
        if table.value != set.alias.value {
            let table = SelectItemQualifiedWildcardKind::ObjectName(vec![table].into());
            let options = WildcardAdditionalOptions::default();
            return Some(vec![SelectItem::QualifiedWildcard(table, options)]);
        }
        let mut items = set.items();
        if let (true, Some(SelectItem::ExprWithAlias { alias, .. })) =
            (is_result, items.first_mut())
        {
            alias.value = format!("{VALUE}{MARK}{at}");
        }
        Some(items)
    });
    if let Some(items) = items.collect::<Option<Vec<_>>>() {
        select.projection.splice(at..=at, items.concat());
    }
}

/// Whether `*` has all columns of both sides.
fn keeps_columns(join: &JoinOperator) -> bool {
    match join {
        JoinOperator::CrossJoin(_) => true,
        JoinOperator::Join(constraint)
        | JoinOperator::Inner(constraint)
        | JoinOperator::Left(constraint)
        | JoinOperator::LeftOuter(constraint) => matches!(constraint, JoinConstraint::On(_)),
        _ => false,
    }
}

/// The name of a relation that has one of a single word.
fn name(factor: &TableFactor) -> Option<Ident> {
    match factor {
        TableFactor::Table {
            alias: Some(alias), ..
        }
        | TableFactor::Derived {
            alias: Some(alias), ..
        }
        | TableFactor::Function {
            alias: Some(alias), ..
        } => Some(alias.name.clone()),
        TableFactor::Table {
            name, args: None, ..
        } if name.0.len() == 1 => name.0.first()?.as_ident().cloned(),
        _ => None,
    }
}

/// Replaces `e.*`, and `*` where the set is the only relation, with the set's columns.
fn expand_wildcards(select: &mut Select, set: &Set) {
    let is_alone = factors(select).count() == 1;
    let mut items = Vec::with_capacity(select.projection.len());
    for item in select.projection.drain(..) {
        let is_this = match &item {
            SelectItem::Wildcard(options) => is_alone && is_plain(options),
            SelectItem::QualifiedWildcard(
                SelectItemQualifiedWildcardKind::ObjectName(table),
                options,
            ) => is_plain(options) && *table == ObjectName::from(vec![set.alias.clone()]),
            _ => false,
        };
        if is_this {
            items.extend(set.items());
        } else {
            items.push(item);
        }
    }
    select.projection = items;
}

fn is_plain(options: &WildcardAdditionalOptions) -> bool {
    *options == WildcardAdditionalOptions::default()
}

struct Values {
    aliases: Vec<Ident>,
    /// The set to which an unqualified `value` belongs.
    only: Option<Ident>,
    /// The number of queries around.
    depth: usize,
}

impl Values {
    /// The column of a set that an expression calls `value`.
    fn column(&self, expr: &Expr) -> Option<Expr> {
        let alias = match expr {
            Expr::Identifier(name) if name.value == VALUE && self.depth == 0 => {
                self.only.clone()?
            }
            Expr::CompoundIdentifier(words) => match words.as_slice() {
                [table, column] if column.value == VALUE => {
                    let mut aliases = self.aliases.iter();
                    aliases.find(|alias| alias.value == table.value)?.clone()
                }
                _ => return None,
            },
            _ => return None,
        };
        Some(Expr::CompoundIdentifier(vec![alias.clone(), alias]))
    }
}

impl VisitorMut for Values {
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
        if let Some(column) = self.column(expr) {
            *expr = column;
        }
        ControlFlow::Continue(())
    }
}
