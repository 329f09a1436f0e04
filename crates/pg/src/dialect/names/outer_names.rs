//! Under which names are a relation's columns seen outside of it?
//!
//! Inside a subquery, a CTE, a view or a new table, columns may have marked names (`column_names`,
//! `order_by`). Outside, each column has its name without the mark; columns that share a name keep
//! the mark, so that no name refers to them.
//!
//! | from | to |
//! |---|---|
//! | `(SELECT count(*) AS "count#0" …) q` | `(SELECT …) q (count)` |
//! | `(SELECT a, b …) q (x)` | `(SELECT …) q (x, b)` |
//! | `CREATE TABLE t AS SELECT count(*) …` | `… AS SELECT * FROM (SELECT …) q (count)` |
//! | `(a JOIN b USING (k)) j` | `(SELECT * FROM a JOIN b USING (k)) j` |

use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    CreateTable, Expr, Ident, Query, Select, SelectItem, SetExpr, Statement, TableAlias,
    TableAliasColumnDef, TableFactor, TableWithJoins, ViewColumnDef, VisitorMut,
};

use super::column_names::{first_select, folded, is_wild};
use crate::dialect::ast::template;
use crate::names::{MARK, on_the_wire};
use crate::visits::Walk;

pub(in crate::dialect) fn rewrite(statement: &mut Statement) {
    let _ = statement.walk(&mut Relations::default());
    match statement {
        Statement::CreateTable(table) => new_table(table),
        Statement::CreateView(view) => {
            let known = view.columns.len();
            if let Some(names) = outer(&mut view.query, known) {
                let rest = names.into_iter().skip(known).map(|name| ViewColumnDef {
                    name,
                    data_type: None,
                    options: None,
                });
                view.columns.extend(rest);
            } else if is_mixed(&view.query, known) {
                let named = std::mem::take(&mut view.columns).into_iter();
                let mut named = named.map(|named| column(named.name)).collect();
                in_from(&mut view.query, Ident::new("q"), &mut named);
            }
        }
        _ => {}
    }
}

#[derive(Default)]
struct Relations {
    /// The number of queries around the relation.
    depth: usize,
}

impl VisitorMut for Relations {
    type Break = ();

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<()> {
        // The terms of a recursive query are not wrapped.
        let may_name_outer =
            self.depth > 0 && query.with.as_ref().is_some_and(|with| !with.recursive);
        self.depth += 1;
        let relations = query.with.iter_mut().flat_map(|with| &mut with.cte_tables);
        relations.for_each(|relation| {
            let (query, alias) = (&mut relation.query, &mut relation.alias);
            name(query, alias);
            let known = alias.columns.len();
            if is_mixed(query, known) || may_name_outer && known == 0 {
                in_from(query, alias.name.clone(), &mut alias.columns);
            }
        });
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, _: &mut Query) -> ControlFlow<()> {
        self.depth -= 1;
        ControlFlow::Continue(())
    }

    fn pre_visit_select(&mut self, select: &mut Select) -> ControlFlow<()> {
        if let Some(first) = select.from.first_mut() {
            join_as_query(&mut first.relation, true);
        }
        ControlFlow::Continue(())
    }

    fn pre_visit_table_factor(&mut self, factor: &mut TableFactor) -> ControlFlow<()> {
        join_as_query(factor, false);
        if let TableFactor::Derived {
            subquery,
            alias: Some(alias),
            ..
        } = factor
        {
            name(subquery, alias);
        }
        ControlFlow::Continue(())
    }
}

/// Makes a query of a join that has an alias: DataFusion shows both columns of USING. A join of
/// functions and LATERAL items stays, unless it is the first in FROM: in a query they would not see
/// the relations to their left. Its columns get their names in `relations/names.rs`.
fn join_as_query(factor: &mut TableFactor, is_first: bool) {
    let TableFactor::NestedJoin {
        table_with_joins,
        alias,
    } = factor
    else {
        return;
    };
    if alias.is_none() || !(is_first || is_alone(table_with_joins)) {
        return;
    }
    let Some(mut query) = template("SELECT * FROM q") else {
        return;
    };
    if let SetExpr::Select(select) = query.body.as_mut() {
        select.from = vec![TableWithJoins::clone(table_with_joins)];
    }
    *factor = TableFactor::Derived {
        lateral: false,
        alias: alias.take(),
        subquery: Box::new(query),
        sample: None,
    };
}

/// Whether a join consists of relations that see none outside of it.
fn is_alone(item: &TableWithJoins) -> bool {
    let joined = item.joins.iter().map(|join| &join.relation);
    std::iter::once(&item.relation)
        .chain(joined)
        .all(|factor| match factor {
            TableFactor::Table { args: None, .. } | TableFactor::Derived { lateral: false, .. } => {
                true
            }
            TableFactor::NestedJoin {
                table_with_joins, ..
            } => is_alone(table_with_joins),
            _ => false,
        })
}

/// Wraps a query of a WITH or of a view in a FROM, where planning resolves `*` and the columns of
/// outer queries (`relations/names.rs`).
fn in_from(query: &mut Query, name: Ident, columns: &mut Vec<TableAliasColumnDef>) {
    let Some(mut whole) = template("SELECT * FROM (SELECT 1) AS q") else {
        return;
    };
    if let SetExpr::Select(select) = whole.body.as_mut()
        && let Some(from) = select.from.first_mut()
        && let TableFactor::Derived {
            subquery,
            alias: Some(alias),
            ..
        } = &mut from.relation
    {
        alias.name = name;
        alias.columns = std::mem::take(columns);
        std::mem::swap(subquery.as_mut(), query);
        *query = whole;
    }
}

/// Whether `*` stands beside other columns, covers several relations, or gets other names.
fn is_mixed(query: &Query, named: usize) -> bool {
    let SetExpr::Select(select) = query.body.as_ref() else {
        return false;
    };
    let from = match select.from.as_slice() {
        [only] => only.joins.len(),
        several => several.len(),
    };
    is_wild(&query.body) && (named > 0 || from > 0 || select.projection.len() > 1)
}

fn name(query: &mut Query, alias: &mut TableAlias) {
    let known = alias.columns.len();
    if let Some(names) = outer(query, known) {
        alias
            .columns
            .extend(names.into_iter().skip(known).map(column));
    }
}

fn column(name: Ident) -> TableAliasColumnDef {
    TableAliasColumnDef {
        name,
        data_type: None,
    }
}

fn new_table(table: &mut CreateTable) {
    let Some(query) = &mut table.query else {
        return;
    };
    if let Some(names) = outer(query, 0)
        && let Some(mut whole) = template("SELECT * FROM (SELECT 1) AS __rows")
        && let SetExpr::Select(select) = whole.body.as_mut()
        && let Some(from) = select.from.first_mut()
        && let TableFactor::Derived {
            subquery,
            alias: Some(alias),
            ..
        } = &mut from.relation
    {
        alias.columns = names.into_iter().map(column).collect();
        std::mem::swap(subquery, query);
        **query = whole;
    }
}

/// The names outside, of which the first `known` are given; `None` if they equal those inside or
/// are not known.
fn outer(query: &mut Query, known: usize) -> Option<Vec<Ident>> {
    let select = first_select(&mut query.body)?;
    let marked = |item: &SelectItem| match item {
        SelectItem::ExprWithAlias { alias, .. } => alias.value.contains(MARK),
        _ => false,
    };
    let needed = known > 0 || select.projection.iter().any(marked);
    if !needed {
        return None;
    }
    let names = select.projection.iter().map(|item| match item {
        SelectItem::ExprWithAlias { alias, .. } => Some(on_the_wire(&folded(alias)).to_owned()),
        SelectItem::UnnamedExpr(Expr::Identifier(name)) => Some(folded(name)),
        SelectItem::UnnamedExpr(Expr::CompoundIdentifier(words)) => words.last().map(folded),
        _ => None,
    });
    let names: Vec<String> = names.collect::<Option<_>>()?;
    let unique = |(at, name): (usize, &String)| {
        let again = names.iter().filter(|other| *other == name).count() > 1;
        let name = if again {
            format!("{name}{MARK}{at}")
        } else {
            name.clone()
        };
        Ident::with_quote('"', name)
    };
    Some(names.iter().enumerate().map(unique).collect())
}
