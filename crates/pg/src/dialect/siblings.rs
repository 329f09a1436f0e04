//! Which relations of its FROM does a function see?
//!
//! | from | to |
//! |---|---|
//! | `t, LATERAL (SELECT unnest(a))` | `t, LATERAL (SELECT unnest(a) SETTINGS t = NULL)` |
//!
//! A column's name means a column of a relation to the left, if one has it, and otherwise one of
//! an outer query. For DataFusion (55.2, `create_relation_subquery`) the two are one schema, in
//! which a name that both have is ambiguous. Only planning knows the columns, so the names of the
//! relations are kept in a clause that PostgreSQL lacks; `relations/nearest.rs` takes it.
//!
//! Not here: clauses of LATERAL items that have a FROM, and the columns of joins with USING.

use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    Ident, Query, Select, SetExpr, Setting, Statement, TableFactor, TableWithJoins, VisitorMut,
};

use super::ast::{each_branch, null};
use super::expressions::ROWS_OF;
use super::names::folded;
use crate::visits::Walk;

pub(super) fn rewrite(statement: &mut Statement) {
    let _ = statement.walk(&mut Siblings);
}

struct Siblings;

impl VisitorMut for Siblings {
    type Break = ();

    fn pre_visit_select(&mut self, select: &mut Select) -> ControlFlow<()> {
        let mut left = vec![];
        for item in &mut select.from {
            in_item(item, &mut left);
        }
        ControlFlow::Continue(())
    }
}

fn in_item(item: &mut TableWithJoins, left: &mut Vec<Ident>) {
    in_factor(&mut item.relation, left);
    for join in &mut item.joins {
        in_factor(&mut join.relation, left);
    }
}

fn in_factor(factor: &mut TableFactor, left: &mut Vec<Ident>) {
    if let TableFactor::NestedJoin {
        table_with_joins,
        alias,
    } = factor
    {
        let mut within = left.clone();
        in_item(table_with_joins, &mut within);
        match alias {
            Some(alias) => left.push(quoted(&alias.name)),
            None => *left = within,
        }
        return;
    }
    if let TableFactor::Derived {
        lateral: true,
        subquery,
        ..
    } = factor
        && !left.is_empty()
    {
        in_lateral(subquery, left);
    }
    left.extend(name(factor));
}

/// Keeps the names in a LATERAL item without a FROM, as the dialect makes it of functions, and in
/// the functions that are the first relations of another item. Later ones have siblings of their
/// own, whose names replace these.
fn in_lateral(query: &mut Query, left: &[Ident]) {
    let mut is_function = false;
    each_branch(&mut query.body, &mut |branch| {
        if let SetExpr::Select(select) = branch {
            match select.from.first_mut() {
                Some(item) => in_item(item, &mut left.to_vec()),
                None => is_function = true,
            }
        }
    });
    if is_function {
        let names = left.iter().map(|name| Setting {
            key: name.clone(),
            value: null(),
        });
        query.settings = Some(names.collect());
    }
}

/// The qualifier of a relation's columns.
fn name(factor: &TableFactor) -> Option<Ident> {
    match factor {
        TableFactor::Table {
            alias: None, name, ..
        } => name.0.last()?.as_ident().map(quoted),
        TableFactor::Table { alias, .. }
        | TableFactor::Derived { alias, .. }
        | TableFactor::Function { alias, .. }
        | TableFactor::UNNEST { alias, .. } => alias.as_ref().map(|alias| quoted(&alias.name)),
        _ => None,
    }
}

fn quoted(name: &Ident) -> Ident {
    let name = folded(name);
    Ident::with_quote('"', name.strip_prefix(ROWS_OF).unwrap_or(&name))
}
