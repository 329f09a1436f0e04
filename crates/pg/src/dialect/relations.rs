//! VALUES and set operations become subqueries in FROM, where `relations/` types them.
//!
//! | from | to |
//! |---|---|
//! | `VALUES (1), (2.5)` | `SELECT * FROM (VALUES (1), (2.5))` |
//! | `a UNION b ORDER BY 1` | `SELECT * FROM (a UNION b) ORDER BY 1` |
//! | `WITH RECURSIVE t AS (a UNION b)` | `… (SELECT * FROM (a) AS first UNION SELECT * FROM (b) AS later)` |
//! | `… t AS (WITH q AS (…) a UNION b)` | `… (SELECT * FROM (WITH q AS (…) a) AS first UNION …)` |
//! | `WITH t AS (SELECT unnest(a) …)` | `… (SELECT * FROM (SELECT unnest(a) …) AS sets)` |
//!
//! Not here: INSERT, whose VALUES get the types of the table's columns.

use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    Cte, Expr, Ident, Query, SelectItem, SetExpr, SetOperator, Statement, TableAlias, TableFactor,
    VisitorMut,
};

use super::ast::{call, last_word, template, text};
use crate::functions::FAIL;
use crate::visits::{Walk, visit_expressions, visit_relations};

/// The alias of the first term of a recursive query. No statement can use this name.
pub(crate) const FIRST_TERM: &str = "first\u{1f}";
/// The prefix of the second term's alias; the query's name follows.
pub(crate) const LATER_TERM: &str = "later\u{1f}";
/// The alias of a query that unnests arrays in its select list.
const SETS: &str = "sets\u{1f}";

pub(super) fn rewrite(statement: &mut Statement) {
    if let Statement::Insert(insert) = statement
        && let Some(source) = &mut insert.source
        && let SetExpr::Values(values) = source.body.as_mut()
    {
        let _ = values.walk(&mut Relations);
        return;
    }
    let _ = statement.walk(&mut Relations);
}

/// A query that consists of a body only.
#[must_use]
pub fn query_of(body: SetExpr) -> Query {
    Query {
        with: None,
        body: Box::new(body),
        order_by: None,
        limit_clause: None,
        fetch: None,
        locks: vec![],
        for_clause: None,
        settings: None,
        format_clause: None,
        pipe_operators: vec![],
    }
}

struct Relations;

impl VisitorMut for Relations {
    type Break = ();

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<()> {
        if let Some(with) = &mut query.with {
            if with.recursive {
                with.cte_tables.iter_mut().for_each(mark_first);
            }
            let queries = with.cte_tables.iter_mut().map(|cte| cte.query.as_mut());
            queries.for_each(sets_in_relation);
        }
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, query: &mut Query) -> ControlFlow<()> {
        let is_relation = match query.body.as_ref() {
            SetExpr::Values(_) => true,
            SetExpr::SetOperation { left, .. } => !is_first(left),
            _ => false,
        };
        if is_relation {
            select_from(&mut query.body, None);
        }
        ControlFlow::Continue(())
    }
}

/// Makes a relation of a query that unnests arrays in its select list, so that
/// `relations/marked_sets.rs` types the rows.
fn sets_in_relation(query: &mut Query) {
    let SetExpr::Select(select) = query.body.as_ref() else {
        return;
    };
    let sets = visit_expressions(&select.projection, |expr| match expr {
        Expr::Function(function) if last_word(&function.name).as_deref() == Some("unnest") => {
            ControlFlow::Break(())
        }
        _ => ControlFlow::Continue(()),
    });
    if sets.is_continue() {
        return;
    }
    let Some(whole) = template("SELECT 1") else {
        return;
    };
    let inner = std::mem::replace(query, whole);
    *query.body = SetExpr::Query(Box::new(inner));
    select_from(&mut query.body, Some(SETS));
}

/// Marks the two terms of a query that names itself in the second.
fn mark_first(cte: &mut Cte) {
    // DataFusion would drop these clauses.
    let clause = match &*cte.query {
        query if query.order_by.is_some() => Some("ORDER BY"),
        query if query.limit_clause.is_some() || query.fetch.is_some() => Some("LIMIT"),
        _ => None,
    };
    let SetExpr::SetOperation {
        op: SetOperator::Union,
        left,
        right,
        ..
    } = cte.query.body.as_mut()
    else {
        return;
    };
    let own = cte.alias.name.value.as_str();
    let names_itself = visit_relations(right.as_ref(), |name| {
        match last_word(name).is_some_and(|name| name.eq_ignore_ascii_case(own)) {
            true => ControlFlow::Break(()),
            false => ControlFlow::Continue(()),
        }
    });
    if names_itself.is_break() {
        if let Some(clause) = clause {
            let message = format!("{clause} in a recursive query is not implemented");
            let fails = call(FAIL, vec![text("0A000"), text(&message)]);
            if let SetExpr::Select(select) = left.as_mut() {
                select.projection.insert(0, SelectItem::UnnamedExpr(fails));
            }
        }
        select_from(left, Some(FIRST_TERM));
        let name = match cte.alias.name.quote_style {
            Some(_) => own.to_owned(),
            None => own.to_lowercase(),
        };
        select_from(right, Some(&format!("{LATER_TERM}{name}")));
        // DataFusion plans the terms by themselves, without the queries in WITH around them.
        if let Some(with) = cte.query.with.take() {
            for term in [left, right] {
                if let Some(term) = source(term) {
                    term.with = Some(with.clone());
                }
            }
        }
    }
}

/// The subquery in FROM of a term.
fn source(term: &mut SetExpr) -> Option<&mut Query> {
    let SetExpr::Select(select) = term else {
        return None;
    };
    match &mut select.from.first_mut()?.relation {
        TableFactor::Derived { subquery, .. } => Some(subquery),
        _ => None,
    }
}

fn is_first(body: &SetExpr) -> bool {
    let SetExpr::Select(select) = body else {
        return false;
    };
    select.from.iter().any(|item| match &item.relation {
        TableFactor::Derived { alias, .. } => alias
            .as_ref()
            .is_some_and(|alias| alias.name.value == FIRST_TERM),
        _ => false,
    })
}

/// Replaces `body` with `SELECT * FROM (body) AS alias`.
fn select_from(body: &mut SetExpr, alias: Option<&str>) {
    let Some(all) = template("SELECT * FROM (SELECT 1)") else {
        return;
    };
    let inner = std::mem::replace(body, *all.body);
    if let SetExpr::Select(select) = body
        && let Some(item) = select.from.first_mut()
        && let TableFactor::Derived {
            subquery,
            alias: given,
            ..
        } = &mut item.relation
    {
        **subquery = query_of(inner);
        *given = alias.map(|name| TableAlias {
            explicit: true,
            name: Ident::with_quote('"', name),
            columns: vec![],
            at: None,
        });
    }
}
