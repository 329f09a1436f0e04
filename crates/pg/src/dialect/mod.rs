//! Rewrites PostgreSQL's SQL to SQL that DataFusion plans.
//!
//! Each pass rewrites one construct to an equivalent one wherever it occurs; no pass recognizes a
//! client's query by its text. The file named for a construct defines its meaning:
//!
//! | pass | from | to |
//! |---|---|---|
//! | `changes` | `WITH … INSERT`, `SET (a, b) = (1, 2)`, `TRUNCATE ONLY t CASCADE` | WITH inside, single assignments, `TRUNCATE t` |
//! | `names/` | columns and relations without a name, or of one name | names that DataFusion resolves as PostgreSQL does |
//! | `spelling` | `pg_catalog.f()`, `COLLATE`, `OPERATOR(…)` | plain names and operators |
//! | `json_calls` | `JSON_OBJECT('a' VALUE x RETURNING jsonb)` | `jsonb_build_object('a', x)` |
//! | `expressions/` | expressions in PostgreSQL's syntax | calls and operators that DataFusion plans |
//! | `samples` | `t TABLESAMPLE SYSTEM (10)` | a subquery with a condition |
//! | `queries/` | clauses of queries | the same with clauses that DataFusion plans |
//! | `catalog/oids` | `'t'::regclass`, `oid::regtype::text` | functions that look up the catalog |
//! | `catalog/hidden_columns` | `c.tableoid`, `c.xmin` of a table of `pg_catalog` | that table's oid, 1 |
//! | `catalog/procedures` | `p.oid = t.typreceive` | the oid of the function that the column names |
//! | `catalog/folding` | what the catalog's model can never hold (`catalog/facts.rs`) | `NULL`, `false`, no rows |
//! | `stored` | `INSERT … SELECT` | the same, of tables that are marked |
//! | `relations` | VALUES, UNION and its siblings, WITH RECURSIVE | subqueries in FROM |
//! | `siblings` | `t, unnest(a)` | the same, with the names to the left of a function |
//!
//! `lexical/` changes tokens before they are parsed; `parameters` finds `$1`; `ast` and `own_exprs`
//! make expressions for the passes.
//! D1: rows do not change: a pass replaces a construct only with an equivalent one.

pub(crate) mod ast;
mod catalog;
mod changes;
mod expressions;
mod json_calls;
mod lexical;
mod names;
mod own_exprs;
mod parameters;
mod queries;
mod relations;
mod samples;
mod siblings;
mod spelling;
mod stored;

use datafusion::sql::sqlparser::ast::Statement;
use datafusion::sql::sqlparser::parser::{Parser, ParserError};
use datafusion::sql::sqlparser::tokenizer::Tokenizer;

pub use crate::names::on_the_wire;
pub(crate) use ast::last_word;
pub use catalog::{EMPTY, FACTS, Fact, OidKind, TABLES, TYPE_NAMES, is_catalog_table};
pub use expressions::literals::with_types;
pub use expressions::{AS_ARRAY, elements};
pub(crate) use expressions::{
    DISTINCT, FIELD, NOT_DISTINCT, OR_EMPTY, ROWS_OF, SUBSCRIPTS, TEXT_OFFSET, WHOLE, nested,
    parameter_in, row_column,
};
pub(crate) use lexical::Excluded;
pub use lexical::{Grammar, is_every_column};
use names::mark_mentions;

use crate::visits::Walk;

pub(crate) use names::{folded, is_marked, take_mark};
pub use parameters::{Written, type_of, unread_queries, with_queries, written_parameters};
pub use queries::using::without_operators;
pub(crate) use queries::using::{
    EITHER, FIRST, Known, MERGED, SHARED, concerns, merges, rewrite as merged, table,
};
pub use relations::query_of;
pub(crate) use relations::{FIRST_TERM, LATER_TERM};
pub(crate) use stored::AS_STORED;
pub use stored::{as_stored, keep_stored_types, uuid_in_file};

/// Parses PostgreSQL's dialect and rewrites the statements of `sql`.
pub fn parse_postgres(sql: &str) -> Result<Vec<Statement>, ParserError> {
    let dialect = Grammar::new();
    let mut tokens = Tokenizer::new(&dialect, sql).tokenize_with_location()?;
    lexical::tokens::replace(&mut tokens)?;
    let mut statements = Parser::new(&dialect)
        .with_tokens_with_locations(tokens)
        .parse_statements()?;
    statements.iter().try_for_each(lexical::refuse_names)?;
    statements.iter_mut().for_each(rewrite);
    Ok(statements)
}

/// Rewrites a statement that was parsed elsewhere.
pub fn rewrite(statement: &mut Statement) {
    changes::rewrite(statement);
    // First, because names derive from the text that the client wrote.
    names::column_names::unique(statement);
    names::hidden_names::rewrite(statement);
    names::having::rewrite(statement);
    names::order_by::rewrite(statement);
    names::outer_names::rewrite(statement);
    names::table_names::rewrite(statement);
    let mut spelling = spelling::Spelling::default();
    let _ = statement.walk(&mut spelling);
    // Each pass walks over the whole tree. Those of rare forms are left out where there are none.
    if spelling.has_texts {
        let _ = statement.walk(&mut expressions::Conditions);
    }
    let _ = statement.walk(&mut expressions::Arrays);
    let _ = statement.walk(&mut catalog::Oids);
    if spelling.calls.order_groups {
        let _ = statement.walk(&mut expressions::Hypothetical);
    }
    if spelling.has_samples {
        let _ = statement.walk(&mut samples::Samples);
    }
    queries::rewrite(statement);
    if spelling.reads_catalog {
        let _ = statement.walk(&mut catalog::HiddenColumns);
        let _ = statement.walk(&mut catalog::Procedures);
        let _ = statement.walk(&mut catalog::Folding::default());
    }
    if spelling.calls.name_arguments {
        let _ = statement.walk(&mut expressions::NamedArguments);
    }
    if spelling.calls.spread_arrays {
        let _ = statement.walk(&mut expressions::Variadic);
    }
    let marks = matches!(statement, Statement::Query(_));
    let _ = statement.walk(&mut expressions::Sets::new(marks));
    expressions::whole_rows::rewrite(statement);
    let _ = statement.walk(&mut expressions::Rows);
    let _ = statement.walk(&mut expressions::Texts);
    // Last, because the other passes expect casts as the parser makes them.
    if !matches!(statement, Statement::Set(_)) {
        let _ = statement.walk(&mut expressions::Times);
    }
    expressions::literals::rewrite(statement);
    relations::rewrite(statement);
    siblings::rewrite(statement);
    mark_mentions(statement);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rewritten(sql: &str) -> String {
        let mut statements = parse_postgres(sql).unwrap();
        assert_eq!(statements.len(), 1, "{sql}");
        statements
            .remove(0)
            .to_string()
            .replace(crate::names::MARK, "#")
    }

    #[test]
    fn rewrites() {
        for (sql, expected) in [
            ("ABORT", "ROLLBACK"),
            ("SELECT 'a'\n  'b' AS a", "SELECT 'ab' AS a"),
            (
                "SELECT pg_catalog.version()",
                "SELECT version() AS \"version#0\"",
            ),
            (
                "SELECT 1, 1",
                "SELECT CAST(1 AS INT4(0)) AS \"?column?#0\", CAST(1 AS INT4(0)) AS \"?column?#1\"",
            ),
            (
                "SELECT id::int, count(*) FROM t",
                "SELECT pg_cast(id, 'int4') AS \"id#0\", count(*) AS \"count#1\" FROM t",
            ),
            ("SELECT 'a' COLLATE \"C\" AS a", "SELECT 'a' AS a"),
            (
                "SELECT a FROM t WHERE b AND 'yes'",
                "SELECT a FROM t WHERE b AND true",
            ),
            (
                "SELECT concat(VARIADIC a) AS a FROM t",
                "SELECT array_to_string(a, '') AS a FROM t",
            ),
            (
                "SELECT jsonb_set(a, b, c, create_if_missing => true) AS a FROM t",
                "SELECT jsonb_set(a, b, c, true) AS a FROM t",
            ),
            (
                "SELECT JSON_OBJECT(x VALUE y, 'k' : y RETURNING jsonb) AS a, json_object(x) AS b, \
                 JSON_ARRAY(x, y NULL ON NULL RETURNING jsonb) AS c FROM t",
                "SELECT jsonb_build_object(x, y, 'k', y) AS a, json_object(x) AS b, \
                 jsonb_build_array(x, y) AS c FROM t",
            ),
            (
                "SELECT '{1,NULL,\"a,b\"}'::text[] AS a",
                "SELECT pg_cast(ARRAY['1', NULL, 'a,b'], 'text[]') AS a",
            ),
            (
                "SELECT x = ANY($1) AS a FROM t",
                "SELECT pg_any('=', x, as_array($1, x)) AS a FROM t",
            ),
            (
                "SELECT (x, 1) < (y, $1) AS a, trim(leading from x) AS b, x LIKE 'a/%' ESCAPE '/' AS c",
                "SELECT ((x) < (y) OR ((x) = (y) AND ((CAST(1 AS INT4(0))) < ($1)))) AS a, \
                 ltrim(x, ' ') AS b, x LIKE 'a\\%' AS c",
            ),
            (
                "SELECT 'people'::regclass::oid AS a",
                "SELECT regclass_oid('people') AS a",
            ),
            (
                "SELECT pg_relation_size('people') AS a",
                "SELECT pg_relation_size(regclass_oid('people')) AS a",
            ),
            (
                "SELECT c.oid::pg_catalog.regclass::pg_catalog.text AS a FROM pg_class c",
                "SELECT regclass_name(c.oid) AS a FROM pg_catalog.pg_class c",
            ),
            (
                "SELECT typinput = 'pg_catalog.array_in'::regproc AS a FROM pg_type",
                "SELECT typinput = regproc_name('pg_catalog.array_in') AS a FROM pg_catalog.pg_type",
            ),
            (
                "SELECT a.tableoid, (SELECT 1 FROM pg_type t WHERE t.tableoid = a.tableoid) AS b \
                 FROM pg_proc a LEFT JOIN pg_type u ON u.tableoid = a.oid",
                "SELECT regclass_oid('pg_catalog.pg_proc') AS tableoid, (SELECT CAST(1 AS INT4(0)) \
                 FROM pg_catalog.pg_type t WHERE regclass_oid('pg_catalog.pg_type') = \
                 regclass_oid('pg_catalog.pg_proc')) AS b FROM pg_catalog.pg_proc \"a#\" \
                 LEFT JOIN pg_catalog.pg_type u ON u.tableoid = \"a#\".oid",
            ),
            (
                "SELECT n.xmin, t.xmin AS a FROM pg_namespace n LEFT JOIN pg_type t ON t.oid = n.oid",
                "SELECT CAST(1 AS INT4(0)) AS xmin, t.xmin AS a FROM pg_catalog.pg_namespace n \
                 LEFT JOIN pg_catalog.pg_type t ON t.oid = n.oid",
            ),
            (
                "SELECT tableoid = 1255 AS a FROM pg_proc",
                "SELECT regclass_oid('pg_catalog.pg_proc') = CAST(1255 AS INT4(0)) AS a FROM pg_catalog.pg_proc",
            ),
            (
                "SELECT 1 AS a FROM pg_type t LEFT JOIN pg_proc p ON p.oid = t.typreceive",
                "SELECT CAST(1 AS INT4(0)) AS a FROM pg_catalog.pg_type t \
                 LEFT JOIN pg_catalog.pg_proc p ON p.oid = regproc_oid(t.typreceive)",
            ),
            (
                "SELECT ARRAY(SELECT x FROM t) AS a",
                "SELECT pg_or_empty((SELECT array_agg(x) FILTER (WHERE true) FROM t)) AS a",
            ),
            (
                "SELECT CASE WHEN t.typtype = 'd' THEN (SELECT 1 FROM t) END AS a FROM pg_type t",
                "SELECT NULL AS a FROM pg_catalog.pg_type t",
            ),
            (
                "SELECT -2 ^ 2 AS a, x::numeric(5,2) AS b, DATE '2024-01-01' AS c, -1e2 AS d \
                 FROM t GROUP BY 2 ORDER BY 1 LIMIT 3",
                "SELECT CAST(-2 AS INT4(0)) ^ CAST(2 AS INT4(0)) AS a, \
                 pg_cast(x, 'numeric(5,2)') AS b, pg_cast('2024-01-01', 'date') AS c, \
                 pg_cast('-1e2', 'numeric:3,0') AS d FROM t GROUP BY 2 ORDER BY 1 LIMIT 3",
            ),
            (
                "DELETE FROM t AS a USING u AS b WHERE EXISTS (SELECT x FROM t WHERE t.b = b.b)",
                "DELETE FROM t AS a USING u AS \"b#\" \
                 WHERE EXISTS (SELECT x FROM t WHERE t.b = \"b#\".b)",
            ),
            (
                "UPDATE t AS a SET b = a.b FROM u WHERE EXISTS (SELECT x FROM t WHERE u.a = a.a)",
                "UPDATE t AS \"a#\" SET b = \"a#\".b FROM u \
                 WHERE EXISTS (SELECT x FROM t WHERE u.a = \"a#\".a)",
            ),
            (
                "ALTER TABLE t ADD a character varying DEFAULT 1e2 NOT NULL",
                "ALTER TABLE t ADD a VARCHAR DEFAULT 100. NOT NULL",
            ),
            (
                "ALTER TABLE t ADD a bigint CHECK (a > 1e2)",
                "ALTER TABLE t ADD a BIGINT CHECK (a > pg_cast('1e2', 'numeric:3,0'))",
            ),
            (
                "SELECT s.a FROM t AS s, pg_sequence WHERE (SELECT 1 FROM u LIMIT 1) = 1",
                "SELECT s.a FROM t AS s, pg_catalog.pg_sequence WHERE false",
            ),
        ] {
            assert_eq!(rewritten(sql), expected, "{sql}");
        }
    }

    #[test]
    fn a_users_own_tables_are_left_alone() {
        // A user's table may have a name or columns like those of the catalog.
        let sql = "SELECT t.typtype = 'd' AS a FROM mine.pg_types t";
        assert_eq!(rewritten(sql), sql);
    }
}
