//! The merged columns of joins with USING and NATURAL.
//!
//! DataFusion resolves the merged column wrongly: to the left side's column, which is NULL in rows
//! that only the right side has; in `*` to the column of the table whose name sorts first; and for
//! an unqualified name in a subquery to a column of the outer query. Here the joins get ON, an
//! unqualified merged column becomes the left side's, the right side's or a `coalesce` of both,
//! and `*` is written out: the merged columns, then those of each table.
//! <https://github.com/apache/datafusion/issues/22019>
//!
//! The value has the common type of both sides, which only planning knows. The operators [`EITHER`]
//! and [`FIRST`] between the two columns stand for it until then (`relations/merged.rs`), and
//! [`SHARED`] for the `=` of the join, so that types without a common one have PostgreSQL's error.
//!
//! The syntax does not always determine which table has a column: not for NATURAL, nor for USING
//! after other joins, nor where a subquery names a merged column or a column of its own. Such a
//! query becomes a relation that `relations/merged.rs` resolves, because planning has the columns.
//! Joins that remain are refused in the plan (`analysis/checks.rs`).

use std::collections::HashMap;
use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    BinaryOperator, Distinct, ExceptSelectItem, ExcludeSelectItem, Expr, GroupByExpr, Ident,
    JoinConstraint, JoinOperator, ObjectName, OrderBy, OrderByKind, Query, RenameSelectItem,
    Select, SelectItem, SelectItemQualifiedWildcardKind, SetExpr, TableFactor, TableWithJoins,
    VisitorMut, WildcardAdditionalOptions,
};

use crate::dialect::ast::{call, constraint, template, with_ands};
use crate::dialect::expressions::{DISTINCT, NOT_DISTINCT, ROWS_OF, row_column};
use crate::dialect::names::folded;
use crate::dialect::own_exprs::OwnExprs;
use crate::names::{DROPPED, MARK, without_marks};
use crate::visits::Walk;

/// The alias of a query whose joins depend on the columns of its tables. No statement can use it.
pub(crate) const MERGED: &str = "merged\u{1f}";

/// `a.k <either> b.k`: the merged column of an inner join, from the side that has the common type.
pub(crate) const EITHER: &str = "\u{1f}merged";
/// `a.k <first> b.k`: the merged column of an outer join that keeps the rows of `a`.
pub(crate) const FIRST: &str = "\u{1f}merged first";
/// `a.k <shared> b.k`: the condition of a join by a merged column.
pub(crate) const SHARED: &str = "\u{1f}shared";

/// The known columns of tables.
pub(crate) type Known = HashMap<String, Vec<String>>;

/// Returns the columns of a relation; `None` if they are not known.
pub(crate) type ColumnsOf<'a> = &'a mut dyn FnMut(&TableFactor) -> Option<Vec<String>>;

/// The columns of one item of FROM.
struct Columns {
    /// The merged columns with their values, in the order of `*`.
    merged: Vec<(Ident, Expr)>,
    /// The tables, each with those of its columns that are merged.
    tables: Vec<(Ident, Vec<Ident>)>,
    conditions: Vec<Option<Expr>>,
}

/// Whether a query has joins with USING or NATURAL.
pub(crate) fn concerns(select: &Select) -> bool {
    select.from.iter().any(merges)
}

/// Whether an item of FROM has joins with USING or NATURAL.
pub(crate) fn merges(item: &TableWithJoins) -> bool {
    item.joins.iter().any(|join| {
        let mut operator = join.join_operator.clone();
        matches!(
            constraint(&mut operator),
            Some(JoinConstraint::Using(_) | JoinConstraint::Natural)
        )
    })
}

fn is_concerned(body: &SetExpr) -> bool {
    matches!(body, SetExpr::Select(select) if concerns(select))
}

/// Turns a query that [`rewrite`] could not resolve into a relation. It keeps the order of its
/// result (`analysis/ordered_inputs.rs`).
pub(super) fn as_relation(query: &mut Query) {
    if !is_concerned(&query.body) {
        return;
    }
    let Some(mut outer) = template("SELECT * FROM (SELECT 1) AS q") else {
        return;
    };
    if let SetExpr::Select(select) = outer.body.as_mut()
        && let Some(from) = select.from.first_mut()
        && let TableFactor::Derived {
            subquery,
            alias: Some(alias),
            ..
        } = &mut from.relation
    {
        alias.name = Ident::with_quote('"', MERGED);
        outer.with = query.with.take();
        std::mem::swap(subquery.as_mut(), query);
        *query = outer;
    }
}

/// See [`as_relation`]; for a branch of a set operation.
pub(super) fn branch_as_relation(branch: &mut SetExpr) {
    // Looked at first, because nearly every query gets here and parsing the template takes time.
    if is_concerned(branch)
        && let Some(mut query) = template("SELECT 1")
    {
        std::mem::swap(query.body.as_mut(), branch);
        as_relation(&mut query);
        std::mem::swap(query.body.as_mut(), branch);
    }
}

/// Writes out the merged columns, if the columns of all tables are known. `of_factor` returns the
/// columns of a relation in a subquery.
pub(crate) fn rewrite(
    select: &mut Select,
    order_by: Option<&mut OrderBy>,
    known: &Known,
    of_factor: Option<ColumnsOf<'_>>,
) {
    if !concerns(select) {
        return;
    }
    let items = select.from.iter().map(|item| columns(item, known));
    let Some(items) = items.collect::<Option<Vec<_>>>() else {
        return;
    };
    let columns = items.iter().flat_map(|item| item.merged.iter().cloned());
    let merged = Merged {
        columns: columns.collect(),
    };
    match of_factor {
        None if is_named_below(select, &merged) => return,
        None => {}
        Some(of_factor) => name_below(select, &merged, of_factor),
    }
    for (item, found) in select.from.iter_mut().zip(&items) {
        for (join, condition) in item.joins.iter_mut().zip(&found.conditions) {
            if let (Some(condition), Some(on)) = (condition, constraint(&mut join.join_operator)) {
                *on = JoinConstraint::On(condition.clone());
            }
        }
    }
    write_out(select, &items);
    name_columns(select, &merged);
    let outputs = outputs(select);
    let mut own = OwnExprs::new(|expr| merged.replace(expr));
    let _ = select.projection.walk(&mut own);
    let _ = select.selection.walk(&mut own);
    if let GroupByExpr::Expressions(keys, _) = &mut select.group_by {
        let _ = keys.walk(&mut own);
    }
    let _ = select.having.walk(&mut own);
    for item in &mut select.from {
        for join in &mut item.joins {
            if let Some(JoinConstraint::On(on)) = constraint(&mut join.join_operator) {
                let _ = on.walk(&mut own);
            }
        }
    }
    let mut keys: Vec<&mut Expr> = vec![];
    if let Some(Distinct::On(on)) = &mut select.distinct {
        keys.extend(on);
    }
    if let Some(OrderByKind::Expressions(order)) = order_by.map(|by| &mut by.kind) {
        keys.extend(order.iter_mut().map(|key| &mut key.expr));
    }
    for key in keys {
        // A key that is a bare name refers to a column of the result.
        if !matches!(key, Expr::Identifier(name) if outputs.contains(&folded(name))) {
            let _ = key.walk(&mut own);
        }
    }
}

/// Merged columns keep their names. A table's own column of the same name is renamed if the result
/// would have the name twice.
fn name_columns(select: &mut Select, merged: &Merged) {
    let shows_all = select.projection.iter().any(|item| {
        matches!(
            item,
            SelectItem::QualifiedWildcard(..) | SelectItem::Wildcard(_)
        )
    });
    let names: Vec<Option<String>> = select.projection.iter().map(name_of).collect();
    for (position, item) in select.projection.iter_mut().enumerate() {
        let (expr, alias) = match &*item {
            SelectItem::UnnamedExpr(Expr::Identifier(name)) if merged.value(name).is_some() => {
                (Expr::Identifier(name.clone()), name.clone())
            }
            SelectItem::UnnamedExpr(Expr::CompoundIdentifier(words)) => match words.last() {
                Some(name) if merged.value(name).is_some() => {
                    let own = &names[position];
                    let is_taken =
                        shows_all || names.iter().filter(|name| *name == own).count() > 1;
                    let alias = if is_taken {
                        Ident::with_quote('"', format!("{}{MARK}{position}", folded(name)))
                    } else {
                        name.clone()
                    };
                    (Expr::CompoundIdentifier(words.clone()), alias)
                }
                _ => continue,
            },
            _ => continue,
        };
        *item = SelectItem::ExprWithAlias { expr, alias };
    }
}

/// The name of a result column, if it is a column's name.
fn name_of(item: &SelectItem) -> Option<String> {
    match item {
        SelectItem::UnnamedExpr(Expr::Identifier(name))
        | SelectItem::ExprWithAlias { alias: name, .. } => Some(folded(name)),
        SelectItem::UnnamedExpr(Expr::CompoundIdentifier(words)) => words.last().map(folded),
        _ => None,
    }
}

fn outputs(select: &Select) -> Vec<String> {
    select.projection.iter().filter_map(name_of).collect()
}

fn same(one: &Ident, other: &Ident) -> bool {
    folded(one) == folded(other)
}

/// The qualifier of a table's columns.
pub(crate) fn table(factor: &TableFactor) -> Option<Ident> {
    match factor {
        TableFactor::Table {
            alias: None, name, ..
        } => name.0.last()?.as_ident().cloned(),
        TableFactor::Derived {
            alias: Some(alias), ..
        } => {
            let name = &alias.name;
            Some(match name.value.strip_prefix(ROWS_OF) {
                Some(relation) => Ident::with_quote('"', relation),
                None => name.clone(),
            })
        }
        TableFactor::Table { alias, .. }
        | TableFactor::UNNEST { alias, .. }
        | TableFactor::Function { alias, .. } => Some(alias.as_ref()?.name.clone()),
        _ => None,
    }
}

/// The columns of an item; `None` if it is not known which table has a column.
fn columns(item: &TableWithJoins, known: &Known) -> Option<Columns> {
    let mut found = Columns {
        merged: vec![],
        tables: vec![(table(&item.relation)?, vec![])],
        conditions: vec![],
    };
    for join in &item.joins {
        let right = table(&join.relation)?;
        let mut operator = join.join_operator.clone();
        let names = match constraint(&mut operator) {
            Some(JoinConstraint::Using(names)) => {
                let names = names.iter().map(|name| name.0.first()?.as_ident().cloned());
                Some(names.collect::<Option<Vec<_>>>()?)
            }
            Some(JoinConstraint::Natural) => Some(found.shared(&right, known)?),
            _ => None,
        };
        let mut conditions = vec![];
        let mut dropped = vec![];
        let mut merged = vec![];
        for name in names.iter().flatten() {
            let column =
                |table: &Ident| Expr::CompoundIdentifier(vec![table.clone(), name.clone()]);
            let left = found.take(name, known)?;
            let condition = operation(left.clone(), SHARED, column(&right));
            conditions.push(Expr::Nested(Box::new(condition)));
            let value = merged_value(&operator, left, column(&right));
            merged.push((name.clone(), value));
            dropped.push(name.clone());
        }
        merged.append(&mut found.merged);
        found.merged = merged;
        found.tables.push((right, dropped));
        found.conditions.push(names.map(|_| with_ands(conditions)));
    }
    Some(found)
}

/// The value of a merged column.
fn merged_value(operator: &JoinOperator, left: Expr, right: Expr) -> Expr {
    use JoinOperator::{FullOuter, Inner, Join, Left, LeftOuter, Right, RightOuter};
    match operator {
        FullOuter(_) => call("coalesce", vec![left, right]),
        Right(_) | RightOuter(_) => operation(right, FIRST, left),
        Left(_) | LeftOuter(_) => operation(left, FIRST, right),
        Join(_) | Inner(_) => operation(left, EITHER, right),
        _ => left,
    }
}

/// An operator of this file between two columns.
fn operation(left: Expr, op: &str, right: Expr) -> Expr {
    Expr::BinaryOp {
        left: Box::new(left),
        op: BinaryOperator::Custom(op.to_owned()),
        right: Box::new(right),
    }
}

/// The text of a view as it is kept and shown: merged columns without the operators that stand for
/// their types, `=` and IS DISTINCT FROM in place of theirs, and names without marks.
#[must_use]
pub fn without_operators(text: &str) -> String {
    let mut plain = String::new();
    let mut rest = text;
    while let Some((before, behind)) = rest.split_once(" \u{1f}merged ") {
        plain.push_str(before);
        rest = behind_value(behind.strip_prefix("first ").unwrap_or(behind));
    }
    plain.push_str(rest);
    let plain = plain.replace(&format!(" {SHARED} "), " = ");
    let plain = plain.replace(&format!(" {DISTINCT} "), " IS DISTINCT FROM ");
    let plain = plain.replace(&format!(" {NOT_DISTINCT} "), " IS NOT DISTINCT FROM ");
    without_marks(plain.replace(DROPPED, ""))
}

/// The text behind a column's name, whose words may be quoted, or behind a `coalesce` of columns.
fn behind_value(text: &str) -> &str {
    let (mut is_quoted, mut depth) = (false, 0_usize);
    let end = text.find(|letter: char| {
        is_quoted ^= letter == '"';
        match letter {
            _ if is_quoted => false,
            '(' => {
                depth += 1;
                false
            }
            ')' if depth > 0 => {
                depth -= 1;
                false
            }
            _ => depth == 0 && !"\"._$".contains(letter) && !letter.is_alphanumeric(),
        }
    });
    end.map_or("", |end| &text[end..])
}

impl Columns {
    /// The columns that a table shows beside the merged ones.
    fn shown<'a>(
        &'a self,
        at: usize,
        known: &'a Known,
    ) -> Option<impl Iterator<Item = &'a String>> {
        let (table, merged) = &self.tables[at];
        let all = known.get(&folded(table))?.iter();
        Some(all.filter(move |name| !merged.iter().any(|merged| folded(merged) == **name)))
    }

    /// The column names that a table shares with the tables before it.
    fn shared(&self, right: &Ident, known: &Known) -> Option<Vec<Ident>> {
        let right = known.get(&folded(right))?;
        let mut names: Vec<String> = self.merged.iter().map(|(name, _)| folded(name)).collect();
        for at in 0..self.tables.len() {
            names.extend(self.shown(at, known)?.cloned());
        }
        names.retain(|name| right.contains(name));
        let names = names.into_iter().map(|name| Ident::with_quote('"', name));
        Some(names.collect())
    }

    /// Takes the value of a column that is merged with one of a further table.
    fn take(&mut self, name: &Ident, known: &Known) -> Option<Expr> {
        if let Some(at) = self.merged.iter().position(|(known, _)| same(known, name)) {
            return Some(self.merged.remove(at).1);
        }
        let having = match self.tables.len() {
            1 => vec![0],
            tables => {
                let mut having = vec![];
                for at in 0..tables {
                    if self.shown(at, known)?.any(|own| *own == folded(name)) {
                        having.push(at);
                    }
                }
                having
            }
        };
        let [at] = having[..] else {
            return None;
        };
        let (table, merged) = &mut self.tables[at];
        merged.push(name.clone());
        Some(Expr::CompoundIdentifier(vec![table.clone(), name.clone()]))
    }
}

/// Replaces `*` with the merged columns and those of each table.
fn write_out(select: &mut Select, items: &[Columns]) {
    let given = std::mem::take(&mut select.projection);
    for item in given {
        match item {
            SelectItem::Wildcard(options) => {
                for found in items {
                    select
                        .projection
                        .extend(found.merged.iter().map(|(name, value)| {
                            SelectItem::ExprWithAlias {
                                expr: value.clone(),
                                alias: name.clone(),
                            }
                        }));
                    let tables = found.tables.iter().map(|(table, merged)| {
                        let renamed = renamed(table, merged, &options);
                        renamed.unwrap_or_else(|| all_but(table, merged, &options))
                    });
                    select.projection.extend(tables);
                }
            }
            other => select.projection.push(other),
        }
    }
}

/// The column of a set, if `*` gives it another name than its table's
/// (`expressions/sets/values.rs`).
fn renamed(table: &Ident, merged: &[Ident], all: &WildcardAdditionalOptions) -> Option<SelectItem> {
    let Some(RenameSelectItem::Multiple(renamed)) = &all.opt_rename else {
        return None;
    };
    let mut renamed = renamed.iter().filter(|_| merged.is_empty());
    let column = renamed.find(|column| same(&column.ident, table))?;
    Some(SelectItem::ExprWithAlias {
        expr: Expr::CompoundIdentifier(vec![table.clone(), table.clone()]),
        alias: column.alias.clone(),
    })
}

fn all_but(table: &Ident, merged: &[Ident], all: &WildcardAdditionalOptions) -> SelectItem {
    // DataFusion takes the names after EXCEPT as they are written.
    let mut merged = merged.iter().map(|name| Ident {
        value: folded(name),
        ..name.clone()
    });
    let except = merged.next().map(|first_element| ExceptSelectItem {
        first_element,
        additional_elements: merged.collect(),
    });
    // The table's row (`row_column`) is not among its columns.
    let row = ObjectName::from(vec![Ident::with_quote('"', row_column(&folded(table)))]);
    let has_row = matches!(
        &all.opt_exclude,
        Some(ExcludeSelectItem::Multiple(excluded)) if excluded.contains(&row)
    );
    SelectItem::QualifiedWildcard(
        SelectItemQualifiedWildcardKind::ObjectName(ObjectName::from(vec![table.clone()])),
        WildcardAdditionalOptions {
            opt_except: except,
            opt_exclude: has_row.then_some(ExcludeSelectItem::Multiple(vec![row])),
            ..WildcardAdditionalOptions::default()
        },
    )
}

/// Replaces merged columns with their values.
struct Merged {
    columns: Vec<(Ident, Expr)>,
}

impl Merged {
    fn value(&self, name: &Ident) -> Option<&Expr> {
        let mut columns = self.columns.iter();
        columns
            .find(|(known, _)| same(known, name))
            .map(|(_, value)| value)
    }

    fn replace(&self, expr: &mut Expr) {
        if let Expr::Identifier(name) = &*expr
            && let Some(value) = self.value(name)
        {
            *expr = value.clone();
        }
    }
}

/// Whether a subquery may name a merged column.
fn is_named_below(select: &mut Select, merged: &Merged) -> bool {
    let mut found = false;
    let mut of_factor = |_: &TableFactor| Some(vec![]);
    let mut below = Below::new(&mut of_factor, |expr| {
        found |= matches!(expr, Expr::Identifier(name) if merged.value(name).is_some());
    });
    let _ = select.walk(&mut below);
    found
}

/// Replaces merged columns in subqueries.
fn name_below(select: &mut Select, merged: &Merged, of_factor: ColumnsOf<'_>) {
    let _ = select.walk(&mut Below::new(of_factor, |expr| merged.replace(expr)));
}

/// Changes the names in subqueries that none of the subqueries' own relations has.
struct Below<'a, F> {
    of_factor: ColumnsOf<'a>,
    change: F,
    /// The names that each surrounding query defines itself; `None` if they are not known.
    scopes: Vec<Option<Vec<String>>>,
}

impl<'a, F: FnMut(&mut Expr)> Below<'a, F> {
    fn new(of_factor: ColumnsOf<'a>, change: F) -> Self {
        Self {
            of_factor,
            change,
            scopes: vec![],
        }
    }

    /// The names of relations and outputs of a query.
    fn names(&mut self, body: &SetExpr, names: &mut Vec<String>) -> Option<()> {
        match body {
            SetExpr::Select(select) => {
                for item in &select.from {
                    let joined = item.joins.iter().map(|join| &join.relation);
                    for factor in std::iter::once(&item.relation).chain(joined) {
                        names.append(&mut (self.of_factor)(factor)?);
                    }
                }
                let aliases = select.projection.iter().filter_map(|item| match item {
                    SelectItem::ExprWithAlias { alias, .. } => Some(folded(alias)),
                    _ => None,
                });
                names.extend(aliases);
                Some(())
            }
            SetExpr::SetOperation { left, right, .. } => {
                self.names(left, names)?;
                self.names(right, names)
            }
            SetExpr::Query(query) => self.names(&query.body, names),
            SetExpr::Values(_) => Some(()),
            _ => None,
        }
    }
}

impl<F: FnMut(&mut Expr)> VisitorMut for Below<'_, F> {
    type Break = ();

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<()> {
        let mut names = vec![];
        let found = self.names(&query.body, &mut names);
        self.scopes.push(found.map(|()| names));
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, _: &mut Query) -> ControlFlow<()> {
        self.scopes.pop();
        ControlFlow::Continue(())
    }

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        let is_free = |name: &str| {
            let mut scopes = self.scopes.iter();
            scopes.all(|scope| matches!(scope, Some(names) if !names.iter().any(|own| own == name)))
        };
        if let Expr::Identifier(name) = &*expr
            && !self.scopes.is_empty()
            && is_free(&folded(name))
        {
            (self.change)(expr);
        }
        ControlFlow::Continue(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn views_are_kept_without_operators() {
        for (text, shown) in [
            ("SELECT a.k \u{1f}merged b.k AS k", "SELECT a.k AS k"),
            (
                "(a.k \u{1f}merged b.k \u{1f}merged first \"C \"\".x\".\"k 1\") + 1",
                "(a.k) + 1",
            ),
            ("a.k \u{1f}merged first b.k", "a.k"),
            (
                "(d.k \u{1f}merged first coalesce(a.k, b.\"(\") \u{1f}merged c.k) + 1",
                "(d.k) + 1",
            ),
            (
                "a JOIN b ON (a.k \u{1f}shared b.k) JOIN c ON (a.k \u{1f}merged b.k \u{1f}shared c.k)",
                "a JOIN b ON (a.k = b.k) JOIN c ON (a.k = c.k)",
            ),
            ("SELECT 1", "SELECT 1"),
            (
                "SELECT a \u{1f}distinct 'x', b \u{1f}not distinct 'y' AS c",
                "SELECT a IS DISTINCT FROM 'x', b IS NOT DISTINCT FROM 'y' AS c",
            ),
            (
                "WITH \"s\u{1f}1\" AS (SELECT 2 AS \"a\u{1f}0\") SELECT * FROM \"s\u{1f}1\" AS s",
                "WITH \"s\" AS (SELECT 2 AS \"a\") SELECT * FROM \"s\" AS s",
            ),
            (
                "SELECT \"__rank\u{1e}\", \"value\u{1f}0\u{1f}1\"",
                "SELECT \"__rank\", \"value\"",
            ),
        ] {
            assert_eq!(without_operators(text), shown);
        }
    }
}
