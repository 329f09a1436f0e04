//! `SELECT … FROM dept WHERE EXISTS (SELECT 1 FROM emp WHERE emp.dept = dept.id)`: what is `dept`?
//!
//! For PostgreSQL the first word of `dept.id` is a table of the nearest query that has one of this
//! name. DataFusion first looks for a column `dept` with a field `id`. So a table that a subquery
//! names is renamed to a name that no column has, also one with an alias in UPDATE and DELETE.
//!
//! Not here: tables without an alias in UPDATE and DELETE, because DataFusion plans EXPLAIN DELETE
//! without the alias that they would get.

use std::collections::HashSet;
use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    Expr, FromTable, FunctionArg, FunctionArgExpr, FunctionArguments, Ident, ObjectName,
    ObjectNamePart, Query, Select, SelectItem, SelectItemQualifiedWildcardKind, SetExpr, Statement,
    TableAlias, TableFactor, TableWithJoins, UpdateTableFromKind, VisitorMut,
};

use super::column_names::folded;
use crate::names::MARK;
use crate::visits::Walk;

pub(in crate::dialect) fn rewrite(statement: &mut Statement) {
    let mut found = Scopes::default();
    let _ = statement.walk(&mut found);
    if !found.outer.is_empty() {
        let mut scopes = Scopes {
            renamed: found.outer,
            ..Scopes::default()
        };
        let _ = statement.walk(&mut scopes);
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

    /// Adds a table's name to those of its query, and renames the table if it was to be renamed.
    fn note(&self, query: usize, factor: &mut TableFactor, tables: &mut HashSet<String>) {
        let Some(name) = name(factor) else {
            return;
        };
        if self.is_renamed(query, &name) {
            rename(factor, &name);
        }
        tables.insert(folded(&name));
    }
}

impl VisitorMut for Scopes {
    type Break = ();

    fn pre_visit_statement(&mut self, statement: &mut Statement) -> ControlFlow<()> {
        if let Some(items) = of_change(statement) {
            let number = self.queries;
            self.queries += 1;
            let mut tables = HashSet::new();
            for factor in items.into_iter().flat_map(factors) {
                if has_alias(factor) {
                    self.note(number, factor, &mut tables);
                }
            }
            self.open.push((number, tables));
        }
        ControlFlow::Continue(())
    }

    fn post_visit_statement(&mut self, statement: &mut Statement) -> ControlFlow<()> {
        if of_change(statement).is_some() {
            self.open.pop();
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<()> {
        let number = self.queries;
        self.queries += 1;
        let mut tables = HashSet::new();
        of_selects(&mut query.body, &mut |select| {
            for factor in select.from.iter_mut().flat_map(factors) {
                self.note(number, factor, &mut tables);
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
            Expr::QualifiedWildcard(ObjectName(words), _) => {
                if let [ObjectNamePart::Identifier(table)] = words.as_mut_slice() {
                    self.follow(table);
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

/// The relations of an UPDATE or a DELETE; `None` for another statement.
fn of_change(statement: &mut Statement) -> Option<Vec<&mut TableWithJoins>> {
    match statement {
        Statement::Update(update) => {
            let mut items = vec![&mut update.table];
            if let Some(
                UpdateTableFromKind::BeforeSet(more) | UpdateTableFromKind::AfterSet(more),
            ) = &mut update.from
            {
                items.extend(more);
            }
            Some(items)
        }
        Statement::Delete(delete) => {
            let (FromTable::WithFromKeyword(from) | FromTable::WithoutKeyword(from)) =
                &mut delete.from;
            let using = delete.using.iter_mut().flatten();
            Some(from.iter_mut().chain(using).collect())
        }
        _ => None,
    }
}

fn factors(item: &mut TableWithJoins) -> impl Iterator<Item = &mut TableFactor> {
    let joined = item.joins.iter_mut().map(|join| &mut join.relation);
    std::iter::once(&mut item.relation).chain(joined)
}

fn has_alias(factor: &TableFactor) -> bool {
    matches!(
        factor,
        TableFactor::Table { alias: Some(_), .. } | TableFactor::Derived { alias: Some(_), .. }
    )
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
