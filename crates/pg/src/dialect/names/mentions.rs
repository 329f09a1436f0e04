//! `WITH s AS (SELECT random() AS r) SELECT … FROM s x, s y`: how often is `s` computed?
//!
//! PostgreSQL computes a query in WITH once if it is named more than once. DataFusion replaces
//! each mention with the query's plan. Here such mentions are marked, and planning
//! (`relations/mentions.rs`) computes those once whose plans give other rows each time. A mention
//! in a recursive query would be computed in each of its rounds.
//!
//! A name that means another relation in an inner query is marked, too. That changes no rows: a
//! table is stable, and a view has a plan of its own at each mention.

use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    Cte, Ident, ObjectName, Query, TableFactor, VisitorMut, With,
};

use super::column_names::folded;
use crate::visits::{Walk, visit_relations};

/// The mark of a mention: its only partition has this name.
const SEVERAL: &str = "several\u{1f}";

/// Marks the mentions in a statement or in a query.
pub(crate) fn mark_mentions(part: &mut impl Walk) {
    let _ = part.walk(&mut Queries);
}

/// Whether a relation with these partitions is a mention.
pub(crate) fn is_marked(partitions: &[Ident]) -> bool {
    matches!(partitions, [only] if only.value == SEVERAL)
}

/// Removes the mark. Returns whether there was one.
pub(crate) fn take_mark(partitions: &mut Vec<Ident>) -> bool {
    let is_marked = is_marked(partitions);
    if is_marked {
        partitions.clear();
    }
    is_marked
}

struct Queries;

impl VisitorMut for Queries {
    type Break = ();

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<()> {
        let names = match &query.with {
            Some(with) => several(with, query),
            None => vec![],
        };
        if names.is_empty() {
            return ControlFlow::Continue(());
        }
        query.walk(&mut Mentions { names })
    }
}

/// The queries of a WITH that would be computed more than once.
fn several(with: &With, query: &Query) -> Vec<String> {
    let own = |cte: &Cte| mentions(&cte.query, &folded(&cte.alias.name));
    let in_rounds = |name: &str, of: &Cte| {
        let mut others = with.cte_tables.iter().filter(|other| *other != of);
        others.any(|other| with.recursive && own(other) > 0 && mentions(&other.query, name) > 0)
    };
    let named = with.cte_tables.iter().filter_map(|cte| {
        let name = folded(&cte.alias.name);
        (mentions(query, &name) > own(cte) + 1 || in_rounds(&name, cte)).then_some(name)
    });
    named.collect()
}

/// The number of times that a query names a relation.
pub(in crate::dialect) fn mentions(query: &Query, name: &str) -> usize {
    let mut count = 0;
    let _ = visit_relations(query, |relation| {
        count += usize::from(only_word(relation).as_deref() == Some(name));
        ControlFlow::<()>::Continue(())
    });
    count
}

pub(super) fn only_word(name: &ObjectName) -> Option<String> {
    match name.0.as_slice() {
        [only] => only.as_ident().map(folded),
        _ => None,
    }
}

/// Marks the mentions of queries.
struct Mentions {
    names: Vec<String>,
}

impl VisitorMut for Mentions {
    type Break = ();

    fn pre_visit_table_factor(&mut self, factor: &mut TableFactor) -> ControlFlow<()> {
        if let TableFactor::Table {
            name,
            args: None,
            partitions,
            ..
        } = factor
            && only_word(name).is_some_and(|word| self.names.contains(&word))
        {
            *partitions = vec![Ident::with_quote('"', SEVERAL)];
        }
        ControlFlow::Continue(())
    }
}
