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
//! | `SELECT * FROM t NATURAL JOIN u, f(…) e` | `SELECT * RENAME (e AS value) …`, which `queries/using.rs` writes out |
//!
//! The last name is marked, because `t` may have a column of that name, too: in results, and in
//! subqueries, whose columns `relations/names.rs` names. A table made of the columns keeps them.
//! Not here: `*` over joins in brackets, in which the column is `e`.

use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    Expr, Ident, IdentWithAlias, JoinConstraint, JoinOperator, ObjectNamePart, OrderByKind, Query,
    RenameSelectItem, Select, SelectItem, SelectItemQualifiedWildcardKind, SetExpr, TableFactor,
    VisitorMut, WildcardAdditionalOptions,
};

use crate::dialect::ast::{each_branch, last_word};
use crate::dialect::names::folded;
use crate::names::{is_of_set, of_set};
use crate::visits::Walk;

const VALUE: &str = "value";

/// `marks` says whether the query's columns may have marked names.
pub(super) fn rewrite(query: &mut Query, marks: bool) {
    if let SetExpr::Select(select) = query.body.as_mut() {
        let mut keys: Vec<&mut Expr> = vec![];
        if let Some(order_by) = &mut query.order_by
            && let OrderByKind::Expressions(found) = &mut order_by.kind
        {
            keys.extend(found.iter_mut().map(|key| &mut key.expr));
        }
        let sets = sets(select);
        // Two columns of a table to be made cannot have one name.
        if sets.len() == 1 || marks && sets.len() > 1 {
            expand_star(select, &sets, marks);
        }
        in_select(select, &mut keys, marks);
        return;
    }
    each_branch(&mut query.body, &mut |body| {
        if let SetExpr::Select(select) = body {
            in_select(select, &mut [], false);
        }
    });
}

/// Takes the marks from the names of the first branch of a body, which are the body's. Several
/// columns of sets keep theirs: no name means one of them. In a table that is made they have the
/// names of their sets.
pub(super) fn unmark(mut body: &mut SetExpr, is_made: bool) {
    loop {
        body = match body {
            SetExpr::Query(query) => query.body.as_mut(),
            SetExpr::SetOperation { left, .. } => left.as_mut(),
            SetExpr::Select(select) => return unmark_items(&mut select.projection, is_made),
            _ => return,
        };
    }
}

fn unmark_items(items: &mut [SelectItem], is_made: bool) {
    let marked = items.iter_mut().filter_map(|item| match item {
        SelectItem::ExprWithAlias { expr, alias } if is_of_set(&alias.value) => Some((expr, alias)),
        _ => None,
    });
    let mut marked: Vec<_> = marked.collect();
    if let [(_, alias)] = marked.as_mut_slice() {
        VALUE.clone_into(&mut alias.value);
    } else if is_made {
        for (column, alias) in marked {
            if let Expr::CompoundIdentifier(words) = column
                && let Some(set) = words.last()
            {
                *alias = set.clone();
            }
        }
    }
}

/// Writes `value` as the column after which it is named, in a query and its keys of ORDER BY.
fn in_select(select: &mut Select, keys: &mut [&mut Expr], marks: bool) {
    let sets = sets(select);
    if sets.is_empty() {
        return;
    }
    let is_named = |item: &SelectItem| matches!(item, SelectItem::ExprWithAlias { alias, .. } if folded(alias) == VALUE);
    let is_output = select.projection.iter().any(is_named);
    if sets.len() == 1 || marks {
        if !all_keep_columns(select) {
            rename_in_star(select, &sets, marks);
        }
        expand_wildcards(select, &sets, marks);
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
    let _ = select.walk(&mut values);
    if is_output {
        values.only = None;
    }
    for key in keys {
        let _ = key.walk(&mut values);
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
    fn is_named(&self, word: &Ident) -> bool {
        folded(&self.alias) == folded(word)
    }

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
    let is_other = alias.columns.is_empty() && folded(&alias.name) != VALUE;
    (is_set && is_other).then(|| Set {
        alias: alias.name.clone(),
        ordinality: *with_ordinality,
    })
}

/// Replaces `*` over several relations, some of which are sets, with the columns of each.
fn expand_star(select: &mut Select, sets: &[Set], marks: bool) {
    let is_star =
        |item: &SelectItem| matches!(item, SelectItem::Wildcard(options) if is_plain(options));
    let Some(at) = select.projection.iter().position(is_star) else {
        return;
    };
    if factors(select).count() == 1 || !all_keep_columns(select) {
        return;
    }
    let items = factors(select).enumerate().map(|(place, factor)| {
        let table = name(factor)?;
        let Some(set) = sets.iter().find(|set| set.is_named(&table)) else {
            let table = SelectItemQualifiedWildcardKind::ObjectName(vec![table].into());
            let options = WildcardAdditionalOptions::default();
            return Some(vec![SelectItem::QualifiedWildcard(table, options)]);
        };
        let mut items = set.items();
        if marks {
            mark(&mut items, at, place);
        }
        Some(items)
    });
    if let Some(items) = items.collect::<Option<Vec<_>>>() {
        select.projection.splice(at..=at, items.concat());
    }
}

/// Notes the names of the sets' columns in a `*` that is written out when planning knows which
/// columns it has.
fn rename_in_star(select: &mut Select, sets: &[Set], marks: bool) {
    for (at, item) in select.projection.iter_mut().enumerate() {
        let SelectItem::Wildcard(options) = item else {
            continue;
        };
        let renamed = sets.iter().enumerate().filter(|(_, set)| !set.ordinality);
        let renamed = renamed.map(|(place, set)| {
            let name = match marks {
                true => of_set(VALUE, at, place),
                false => VALUE.to_owned(),
            };
            IdentWithAlias {
                ident: set.alias.clone(),
                alias: Ident::with_quote('"', name),
            }
        });
        options.opt_rename = Some(RenameSelectItem::Multiple(renamed.collect()));
    }
}

/// Marks the column of a set, for the set at a place in FROM and the item of SELECT at another.
fn mark(items: &mut [SelectItem], at: usize, place: usize) {
    if let Some(SelectItem::ExprWithAlias { alias, .. }) = items.first_mut() {
        alias.value = of_set(VALUE, at, place);
    }
}

fn all_keep_columns(select: &Select) -> bool {
    let mut joins = select.from.iter().flat_map(|from| &from.joins);
    joins.all(|join| keeps_columns(&join.join_operator))
}

/// Whether `*` has all columns of both sides.
fn keeps_columns(join: &JoinOperator) -> bool {
    match join {
        JoinOperator::CrossJoin(_) => true,
        JoinOperator::Join(constraint)
        | JoinOperator::Inner(constraint)
        | JoinOperator::Left(constraint)
        | JoinOperator::LeftOuter(constraint)
        | JoinOperator::Right(constraint)
        | JoinOperator::RightOuter(constraint)
        | JoinOperator::FullOuter(constraint) => matches!(constraint, JoinConstraint::On(_)),
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

/// Replaces `e.*`, and `*` where the set is the only relation, with the set's columns. Those beside
/// other relations are marked.
fn expand_wildcards(select: &mut Select, sets: &[Set], marks: bool) {
    let is_alone = factors(select).count() == 1;
    let mut all = Vec::with_capacity(select.projection.len());
    for (at, item) in select.projection.drain(..).enumerate() {
        let found = match &item {
            SelectItem::Wildcard(options) if is_alone && is_plain(options) => sets.first(),
            SelectItem::QualifiedWildcard(
                SelectItemQualifiedWildcardKind::ObjectName(table),
                options,
            ) if is_plain(options) => match table.0.as_slice() {
                [ObjectNamePart::Identifier(table)] => sets.iter().find(|set| set.is_named(table)),
                _ => None,
            },
            _ => None,
        };
        let Some(set) = found else {
            all.push(item);
            continue;
        };
        let mut items = set.items();
        if marks && !is_alone {
            mark(&mut items, at, 0);
        }
        all.append(&mut items);
    }
    select.projection = all;
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
            Expr::Identifier(name) if self.depth == 0 && folded(name) == VALUE => {
                self.only.clone()?
            }
            Expr::CompoundIdentifier(words) => match words.as_slice() {
                [table, column] if folded(column) == VALUE => {
                    let table = folded(table);
                    let mut aliases = self.aliases.iter();
                    aliases.find(|alias| folded(alias) == table)?.clone()
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

#[cfg(test)]
mod tests {
    use datafusion::sql::sqlparser::ast::Statement;
    use datafusion::sql::sqlparser::dialect::PostgreSqlDialect;
    use datafusion::sql::sqlparser::parser::Parser;

    use super::rewrite;
    use crate::names::MARK;

    fn rewritten(sql: &str, marks: bool) -> String {
        let mut statements = Parser::parse_sql(&PostgreSqlDialect {}, sql).unwrap();
        let Some(Statement::Query(query)) = statements.first_mut() else {
            panic!("{sql}");
        };
        rewrite(query, marks);
        query.to_string().replace(MARK, "#")
    }

    #[test]
    fn columns_of_sets_are_values() {
        let two = "FROM json_array_elements(a) AS e, json_array_elements(b) AS f";
        let one = "FROM t, json_array_elements(t.a) AS e";
        for (select, from, expected) in [
            ("*", two, "e.e AS \"value#0#0\", f.f AS \"value#0#1\""),
            (
                "e.*, f.*",
                two,
                "e.e AS \"value#0#0\", f.f AS \"value#1#0\"",
            ),
            ("*", one, "t.*, e.e AS \"value#0#1\""),
            ("value", one, "e.e AS \"value\""),
        ] {
            let sql = format!("SELECT {select} {from}");
            assert_eq!(rewritten(&sql, true), format!("SELECT {expected} {from}"));
        }
        // A table that is made of the columns keeps their names.
        let sql = format!("SELECT * {one}");
        let expected = format!("SELECT t.*, e.e AS \"value\" {one}");
        assert_eq!(rewritten(&sql, false), expected);
        let sql = format!("SELECT * {two}");
        assert_eq!(rewritten(&sql, false), sql);
    }
}
