//! `WITH s AS (…) SELECT … FROM (WITH s AS (…) SELECT … FROM s) q, s`: which query is `s`?
//!
//! A query in WITH hides one of the same name around it. DataFusion refuses that (55.2,
//! `plan_with_clause`), so the inner one gets a name of its own here, and each relation that means
//! it keeps the written name as an alias.

use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    Ident, Query, Statement, TableAlias, TableFactor, VisitorMut,
};

use super::column_names::folded;
use super::mentions::only_word;
use crate::names::MARK;
use crate::visits::Walk;

pub(in crate::dialect) fn rewrite(statement: &mut Statement) {
    let _ = statement.walk(&mut HiddenNames::default());
}

#[derive(Default)]
struct HiddenNames {
    /// The names in WITH of each query around.
    around: Vec<Vec<String>>,
    /// The number of names that were replaced.
    count: usize,
}

impl VisitorMut for HiddenNames {
    type Break = ();

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<()> {
        let with = query.with.iter().flat_map(|with| &with.cte_tables);
        self.around
            .push(with.map(|cte| folded(&cte.alias.name)).collect());
        ControlFlow::Continue(())
    }

    /// The inner queries have been rewritten: what they call by a hidden name means this query's.
    fn post_visit_query(&mut self, query: &mut Query) -> ControlFlow<()> {
        let own = self.around.pop().unwrap_or_default();
        for (at, name) in own.iter().enumerate() {
            let is_hiding = self.around.iter().flatten().any(|outer| outer == name);
            // Two queries of one name in one WITH stay, for DataFusion to refuse them.
            if is_hiding && own.iter().filter(|other| *other == name).count() == 1 {
                self.count += 1;
                let to = format!("{name}{MARK}{}", self.count);
                let from = name.clone();
                rename(query, at, Renamed { from, to });
            }
        }
        ControlFlow::Continue(())
    }
}

/// Renames a query in WITH, and the relations that mean it: in the queries behind it and in the
/// query with the WITH; if the WITH is RECURSIVE, in all its queries.
fn rename(query: &mut Query, at: usize, mut renamed: Renamed) {
    let Some(mut with) = query.with.take() else {
        return;
    };
    let _ = query.walk(&mut renamed);
    let first = if with.recursive { 0 } else { at + 1 };
    for cte in with.cte_tables.iter_mut().skip(first) {
        let _ = cte.query.walk(&mut renamed);
    }
    if let Some(cte) = with.cte_tables.get_mut(at) {
        cte.alias.name = Ident::with_quote('"', renamed.to);
    }
    query.with = Some(with);
}

struct Renamed {
    from: String,
    to: String,
}

impl VisitorMut for Renamed {
    type Break = ();

    fn pre_visit_table_factor(&mut self, factor: &mut TableFactor) -> ControlFlow<()> {
        if let TableFactor::Table {
            name,
            args: None,
            alias,
            ..
        } = factor
            && only_word(name).as_ref() == Some(&self.from)
        {
            let written = std::mem::replace(name, Ident::with_quote('"', &self.to).into());
            let written = written.0.into_iter().next_back();
            let written = written.and_then(|part| part.as_ident().cloned());
            if let (None, Some(name)) = (&alias, written) {
                *alias = Some(TableAlias {
                    explicit: true,
                    name,
                    columns: vec![],
                    at: None,
                });
            }
        }
        ControlFlow::Continue(())
    }
}

#[cfg(test)]
mod tests {
    use datafusion::sql::sqlparser::dialect::PostgreSqlDialect;
    use datafusion::sql::sqlparser::parser::Parser;

    use super::{MARK, rewrite};

    #[test]
    fn inner_names_hide_outer_ones() {
        for (sql, expected) in [
            (
                "SELECT * FROM (WITH s AS (SELECT 2) SELECT * FROM s) AS q, s",
                "SELECT * FROM (WITH \"s#1\" AS (SELECT 2) SELECT * FROM \"s#1\" AS s) AS q, s",
            ),
            (
                "SELECT * FROM (WITH s AS (SELECT * FROM s), t AS (SELECT * FROM s AS x) SELECT * FROM t) AS q",
                "SELECT * FROM (WITH \"s#1\" AS (SELECT * FROM s), t AS (SELECT * FROM \"s#1\" AS x) SELECT * FROM t) AS q",
            ),
        ] {
            let sql = format!("WITH s AS (SELECT 1) {sql}");
            let mut statements = Parser::parse_sql(&PostgreSqlDialect {}, &sql).unwrap();
            rewrite(&mut statements[0]);
            let shown = statements[0].to_string().replace(MARK, "#");
            assert_eq!(shown, format!("WITH s AS (SELECT 1) {expected}"));
        }
    }
}
