//! `SELECT … FROM dept WHERE EXISTS (SELECT 1 FROM emp WHERE emp.dept = dept.id)`: what is `dept`?
//!
//! For PostgreSQL the first word of `dept.id` is a table, of the nearest query that has one of this
//! name. DataFusion looks for a column `dept` first, of which `id` would be a field. So a table
//! that a subquery names, and that has the name of a column, gets a name that no column has.

use std::collections::HashSet;
use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    Expr, Ident, ObjectName, Query, Select, SelectItem, SelectItemQualifiedWildcardKind, SetExpr,
    Statement, TableAlias, TableFactor, VisitMut, VisitorMut,
};

use super::column_names::folded;
use crate::names::MARK;

pub(super) fn rewrite(statement: &mut Statement) {
    let mut found = Scopes::default();
    let _ = statement.visit(&mut found);
    let (renamed, columns) = (found.outer, found.columns);
    let renamed: HashSet<_> = renamed
        .into_iter()
        .filter(|(_, table)| columns.contains(table))
        .collect();
    if !renamed.is_empty() {
        let mut scopes = Scopes {
            renamed,
            ..Scopes::default()
        };
        let _ = statement.visit(&mut scopes);
    }
}

/// The queries around an expression, and the names of their tables.
#[derive(Default)]
struct Scopes {
    /// The queries so far.
    queries: usize,
    /// Each by its number.
    open: Vec<(usize, HashSet<String>)>,
    /// Tables that are named in subqueries of their query.
    outer: HashSet<(usize, String)>,
    /// The last words of columns.
    columns: HashSet<String>,
    /// The tables that get another name.
    renamed: HashSet<(usize, String)>,
}

impl Scopes {
    /// The query whose table an expression means by a word.
    fn query_of(&self, table: &str) -> Option<usize> {
        let mut queries = self.open.iter().rev();
        queries
            .find(|(_, tables)| tables.contains(table))
            .map(|(query, _)| *query)
    }

    fn is_renamed(&self, query: usize, table: &Ident) -> bool {
        self.renamed.contains(&(query, folded(table)))
    }
}

impl VisitorMut for Scopes {
    type Break = ();

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<()> {
        let number = self.queries;
        self.queries += 1;
        let mut tables = HashSet::new();
        of_selects(&mut query.body, &mut |select| {
            for factor in factors(select) {
                let Some(name) = name(factor) else {
                    continue;
                };
                if self.is_renamed(number, &name) {
                    rename(factor, &name);
                }
                tables.insert(folded(&name));
            }
            for factor in factors(select) {
                self.columns.extend(named_columns(factor));
            }
            for item in &mut select.projection {
                if let SelectItem::QualifiedWildcard(
                    SelectItemQualifiedWildcardKind::ObjectName(of),
                    _,
                ) = item
                    && let [table] = of.0.as_slice()
                    && let Some(table) = table.as_ident()
                    && self.is_renamed(number, table)
                {
                    *of = ObjectName::from(vec![unlike(table)]);
                }
            }
        });
        self.open.push((number, tables));
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, _: &mut Query) -> ControlFlow<()> {
        self.open.pop();
        ControlFlow::Continue(())
    }

    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        match expr {
            Expr::Identifier(column) => {
                self.columns.insert(folded(column));
            }
            Expr::CompoundIdentifier(words) => {
                self.columns.extend(words.last().map(folded));
                if let [table, _] = words.as_mut_slice()
                    && let Some(query) = self.query_of(&folded(table))
                {
                    if self.is_renamed(query, table) {
                        *table = unlike(table);
                    } else if self.open.last().is_some_and(|(inner, _)| *inner != query) {
                        self.outer.insert((query, folded(table)));
                    }
                }
            }
            _ => {}
        }
        ControlFlow::Continue(())
    }
}

/// The name that no column has.
fn unlike(table: &Ident) -> Ident {
    Ident::with_quote('"', format!("{}{MARK}", folded(table)))
}

fn of_selects(body: &mut SetExpr, each: &mut impl FnMut(&mut Select)) {
    match body {
        SetExpr::Select(select) => each(select),
        SetExpr::SetOperation { left, right, .. } => {
            of_selects(left, each);
            of_selects(right, each);
        }
        _ => {}
    }
}

fn factors(select: &mut Select) -> impl Iterator<Item = &mut TableFactor> {
    select.from.iter_mut().flat_map(|item| {
        let joined = item.joins.iter_mut().map(|join| &mut join.relation);
        std::iter::once(&mut item.relation).chain(joined)
    })
}

fn name(factor: &TableFactor) -> Option<Ident> {
    match factor {
        TableFactor::Table {
            alias: None, name, ..
        } => name.0.last()?.as_ident().cloned(),
        TableFactor::Table { alias, .. } | TableFactor::Derived { alias, .. } => {
            Some(alias.as_ref()?.name.clone())
        }
        _ => None,
    }
}

/// The columns to which an alias gives names.
fn named_columns(factor: &TableFactor) -> impl Iterator<Item = String> {
    let alias = match factor {
        TableFactor::Table { alias, .. }
        | TableFactor::Derived { alias, .. }
        | TableFactor::Function { alias, .. }
        | TableFactor::UNNEST { alias, .. } => alias.as_ref(),
        _ => None,
    };
    let columns = alias.into_iter().flat_map(|alias| &alias.columns);
    columns.map(|column| folded(&column.name))
}

fn rename(factor: &mut TableFactor, name: &Ident) {
    let (TableFactor::Table { alias, .. } | TableFactor::Derived { alias, .. }) = factor else {
        return;
    };
    match alias {
        Some(alias) => alias.name = unlike(name),
        None => {
            *alias = Some(TableAlias {
                explicit: true,
                name: unlike(name),
                columns: vec![],
                at: None,
            });
        }
    }
}
