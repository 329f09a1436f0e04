//! Which queries in WITH are computed once, though the statement names them more than once?
//!
//! PostgreSQL computes a query that is named twice or calls a volatile function once. DataFusion
//! puts the query in the place of each name, so that `random()` gives each its own rows. A query of
//! both kinds is refused (0A000).
//! Not here: queries whose rows depend on the order of their input, as of LIMIT among equal keys.

use std::collections::HashSet;
use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    Expr, ObjectName, Query, VisitorMut, visit_expressions, visit_relations,
};

use super::ast::{last_word, template};
use super::column_names::folded;

const FUNCTIONS: [&str; 5] = [
    "clock_timestamp",
    "gen_random_uuid",
    "random",
    "timeofday",
    "uuid_generate_v4",
];

/// A query that cannot be planned, with the reason.
const REFUSED: &str = "SELECT pg_fail('0A000', 'a query in WITH that calls volatile functions and \
                       is named more than once is not supported')";

/// See the file's header.
pub(super) struct VolatileQueries;

impl VisitorMut for VolatileQueries {
    type Break = ();

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<()> {
        let mut volatile = HashSet::new();
        let mut refused = vec![];
        for (at, relation) in query
            .with
            .iter()
            .flat_map(|with| &with.cte_tables)
            .enumerate()
        {
            let name = folded(&relation.alias.name);
            let mut names_one = false;
            let mut own = 0;
            each_relation(&relation.query, |other| {
                names_one |= volatile.contains(&other);
                own += usize::from(other == name);
            });
            if !names_one && !calls_volatile(&relation.query) {
                continue;
            }
            let mut mentions = 0;
            each_relation(query, |other| mentions += usize::from(other == name));
            if mentions - own > 1 {
                refused.push(at);
            }
            volatile.insert(name);
        }
        let relations = query.with.iter_mut().flat_map(|with| &mut with.cte_tables);
        for (at, relation) in relations.enumerate() {
            if refused.contains(&at)
                && let Some(query) = template(REFUSED)
            {
                *relation.query = query;
            }
        }
        ControlFlow::Continue(())
    }
}

/// The relations that a query names by one word.
fn each_relation(query: &Query, mut each: impl FnMut(String)) {
    let _ = visit_relations(query, |ObjectName(words)| {
        if let [word] = words.as_slice()
            && let Some(word) = word.as_ident()
        {
            each(folded(word));
        }
        ControlFlow::<()>::Continue(())
    });
}

fn calls_volatile(query: &Query) -> bool {
    let found = visit_expressions(query, |expr| match expr {
        Expr::Function(function)
            if last_word(&function.name).is_some_and(|name| FUNCTIONS.contains(&name.as_str())) =>
        {
            ControlFlow::Break(())
        }
        _ => ControlFlow::Continue(()),
    });
    found.is_break()
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests: a failure should panic")]
mod tests {
    use crate::dialect::parse_postgres;

    #[test]
    fn volatile_queries_named_twice_are_refused() {
        let refused = |sql: &str| {
            let statements = parse_postgres(sql).unwrap();
            statements[0].to_string().contains("pg_fail")
        };
        for sql in [
            "WITH s AS (SELECT random() r FROM a) SELECT 1 FROM s x JOIN s y ON x.r = y.r",
            "WITH s AS MATERIALIZED (SELECT gen_random_uuid() u FROM a) \
             SELECT u FROM s UNION SELECT u FROM s",
            "WITH s AS (SELECT id FROM a ORDER BY random() LIMIT 5) \
             SELECT (SELECT max(id) FROM s), (SELECT min(id) FROM s)",
            "WITH s AS (SELECT random() r), t AS (SELECT r FROM s) SELECT 1 FROM t, t u",
        ] {
            assert!(refused(sql), "{sql}");
        }
        for sql in [
            "WITH s AS (SELECT random() r) SELECT r FROM s",
            "WITH s AS (SELECT now() n) SELECT 1 FROM s, s t",
            "WITH s AS (SELECT random() r), t AS (SELECT 1 a) SELECT 1 FROM s, t, t u",
        ] {
            assert!(!refused(sql), "{sql}");
        }
    }
}
