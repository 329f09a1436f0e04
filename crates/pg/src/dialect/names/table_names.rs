//! `SELECT … FROM dept WHERE EXISTS (SELECT 1 FROM emp WHERE emp.dept = dept.id)`: what is `dept`?
//!
//! For PostgreSQL the first word of `dept.id` is a table of the nearest query that has one of this
//! name. DataFusion first looks for a column `dept` with a field `id`. So a table that a subquery
//! names is renamed to a name that no column has.

use std::collections::HashSet;
use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    Expr, FunctionArg, FunctionArgExpr, FunctionArguments, Ident, ObjectName, ObjectNamePart,
    Query, Select, SelectItem, SelectItemQualifiedWildcardKind, SetExpr, Statement, TableAlias,
    TableFactor, VisitMut, VisitorMut,
};

use super::column_names::folded;
use crate::names::MARK;

pub(in crate::dialect) fn rewrite(statement: &mut Statement) {
    let mut found = Scopes::default();
    let _ = statement.visit(&mut found);
    if !found.outer.is_empty() {
        let mut scopes = Scopes {
            renamed: found.outer,
            ..Scopes::default()
        };
        let _ = statement.visit(&mut scopes);
    }
}

/// The queries around an expression, and the names of their tables.
#[derive(Default)]
struct Scopes {
    /// The number of queries visited so far.
    queries: usize,
    /// The open queries by number, with the names of their tables.
    open: Vec<(usize, HashSet<String>)>,
    /// Tables that are named in a subquery of their query.
    outer: HashSet<(usize, String)>,
    /// The tables that are renamed.
    renamed: HashSet<(usize, String)>,
}

impl Scopes {
    /// The query whose table a qualifier refers to.
    fn query_of(&self, table: &str) -> Option<usize> {
        let mut queries = self.open.iter().rev();
        queries
            .find(|(_, tables)| tables.contains(table))
            .map(|(query, _)| *query)
    }

    /// Renames a qualifier if its table was renamed.
    fn follow(&mut self, table: &mut Ident) {
        let Some(query) = self.query_of(&folded(table)) else {
            return;
        };
        if self.is_renamed(query, table) {
            *table = unlike(table);
        } else if self.open.last().is_some_and(|(inner, _)| *inner != query) {
            self.outer.insert((query, folded(table)));
        }
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
            Expr::Function(call) => {
                if let FunctionArguments::List(given) = &mut call.args {
                    let whole = given.args.iter_mut().filter_map(all_columns_of);
                    whole.for_each(|table| self.follow(table));
                }
            }
            Expr::CompoundIdentifier(words) => {
                if let [schema, table, _] = words.as_slice()
                    && self.query_of(&folded(schema)).is_none()
                    && let Some(query) = self.query_of(&folded(table))
                    && self.is_renamed(query, table)
                {
                    words.remove(0);
                }
                if let [table, _] = words.as_mut_slice() {
                    self.follow(table);
                }
            }
            _ => {}
        }
        ControlFlow::Continue(())
    }
}

/// A name that no column has.
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

/// The table of an argument `t.*`.
fn all_columns_of(argument: &mut FunctionArg) -> Option<&mut Ident> {
    let (FunctionArg::Unnamed(given) | FunctionArg::Named { arg: given, .. }) = argument else {
        return None;
    };
    match given {
        FunctionArgExpr::QualifiedWildcard(ObjectName(words)) => match words.as_mut_slice() {
            [ObjectNamePart::Identifier(table)] => Some(table),
            _ => None,
        },
        _ => None,
    }
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
