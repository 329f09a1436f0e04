//! Which statements are about indexes, and what they ask for.
//!
//! DataFusion plans `CREATE INDEX` but runs it nowhere, refuses `DROP INDEX`, and does not know the others. So such a statement is
//! turned into a query of a table function of ours (`functions.rs`) before DataFusion sees it; what the function returns is what
//! the statement returns.

use datafusion::error::{DataFusionError, Result};
use datafusion::sql::sqlparser::ast::{Expr, ObjectType, Statement};
use datafusion::sql::sqlparser::dialect::PostgreSqlDialect;
use datafusion::sql::sqlparser::parser::Parser;

/// A statement about indexes, as the query that carries it out; `None` for any other statement.
///
/// | statement | |
/// |---|---|
/// | `CREATE INDEX [IF NOT EXISTS] name ON table (column)` | builds an index |
/// | `REFRESH INDEX name` | builds it again, over the table's files as they are now |
/// | `DROP INDEX [IF EXISTS] name` | removes it |
/// | `SHOW INDEXES` | `SELECT * FROM coscan.indexes` |
///
/// # Errors
/// `Plan` for one that asks for what there is not: several columns, UNIQUE, a partial index.
pub fn index_statement(sql: &str) -> Result<Option<String>> {
    let words: Vec<String> = sql
        .trim()
        .trim_end_matches(';')
        .split_whitespace()
        .take(4)
        .map(str::to_ascii_uppercase)
        .collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    match words.as_slice() {
        ["SHOW", "INDEXES" | "INDEX" | "INDICES"] => {
            Ok(Some("SELECT * FROM coscan.indexes".to_owned()))
        }
        ["REFRESH", "INDEX", ..] => {
            // As written, with its quotes.
            let text = sql.trim().trim_end_matches(';');
            let rest = text
                .split_once(char::is_whitespace)
                .map_or("", |(_, rest)| rest);
            let name = rest.trim_start().split_once(char::is_whitespace);
            let name = plain(name.map_or("", |(_, name)| name).trim());
            Ok(Some(call("coscan_refresh_index", &[&name])))
        }
        ["CREATE", "INDEX" | "UNIQUE", ..] | ["DROP", "INDEX", ..] => parsed(sql),
        _ => Ok(None),
    }
}

fn parsed(sql: &str) -> Result<Option<String>> {
    let mut statements = Parser::parse_sql(&PostgreSqlDialect {}, sql)
        .map_err(|error| DataFusionError::SQL(Box::new(error), None))?;
    if statements.len() != 1 {
        return refused("one statement at a time");
    }
    match statements.remove(0) {
        Statement::CreateIndex(create) => {
            let Some(name) = &create.name else {
                return refused("CREATE INDEX needs a name: CREATE INDEX name ON table (column)");
            };
            if create.unique {
                return refused("unique indexes: an index here serves reading only");
            }
            if create.predicate.is_some() || !create.include.is_empty() {
                return refused("indexes with WHERE or INCLUDE");
            }
            let [column] = create.columns.as_slice() else {
                return refused("indexes on several columns");
            };
            let Expr::Identifier(column) = &column.column.expr else {
                return refused("indexes on expressions");
            };
            let column = folded(&column.value, column.quote_style.is_some());
            let exists = if create.if_not_exists {
                "true"
            } else {
                "false"
            };
            Ok(Some(call(
                "coscan_create_index",
                &[
                    &plain(&name.to_string()),
                    &create.table_name.to_string(),
                    &column,
                    exists,
                ],
            )))
        }
        Statement::Drop {
            object_type: ObjectType::Index,
            if_exists,
            names,
            ..
        } => {
            let [name] = names.as_slice() else {
                return refused("one index at a time");
            };
            let exists = if if_exists { "true" } else { "false" };
            Ok(Some(call(
                "coscan_drop_index",
                &[&plain(&name.to_string()), exists],
            )))
        }
        _ => Ok(None),
    }
}

fn call(function: &str, arguments: &[&str]) -> String {
    let arguments: Vec<String> = arguments
        .iter()
        .map(|a| format!("'{}'", a.replace('\'', "''")))
        .collect();
    format!("SELECT * FROM {function}({})", arguments.join(", "))
}

/// Names without quotes are in lower case, as everywhere in SQL.
fn folded(name: &str, quoted: bool) -> String {
    if quoted {
        name.to_owned()
    } else {
        name.to_ascii_lowercase()
    }
}

/// The last part of a name: `public.i` is `i`.
fn plain(name: &str) -> String {
    unquoted(name.rsplit('.').next().unwrap_or(name))
}

fn unquoted(name: &str) -> String {
    match name
        .strip_prefix('"')
        .and_then(|name| name.strip_suffix('"'))
    {
        Some(quoted) => quoted.replace("\"\"", "\""),
        None => name.to_ascii_lowercase(),
    }
}

fn refused<T>(what: &str) -> Result<T> {
    Err(DataFusionError::Plan(format!("not supported: {what}")))
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests: a failure should panic")]
mod tests {
    use super::*;

    #[test]
    fn statements_about_indexes_become_calls() {
        let cases = [
            (
                "create index I on T (C)",
                "coscan_create_index('i', 'T', 'c', 'false')",
            ),
            (
                "CREATE INDEX IF NOT EXISTS \"I x\" ON s.t (\"C\");",
                "coscan_create_index('I x', 's.t', 'C', 'true')",
            ),
            (
                "drop index if exists public.i",
                "coscan_drop_index('i', 'true')",
            ),
            ("DROP INDEX \"i'\"", "coscan_drop_index('i''', 'false')"),
            ("refresh index Foo;", "coscan_refresh_index('foo')"),
            (
                "REFRESH  INDEX \"Foo bar\"",
                "coscan_refresh_index('Foo bar')",
            ),
        ];
        for (sql, expected) in cases {
            let query = index_statement(sql).unwrap();
            assert_eq!(query, Some(format!("SELECT * FROM {expected}")), "{sql}");
        }
        let show = index_statement(" show  indexes ; ").unwrap().unwrap();
        assert_eq!(show, "SELECT * FROM coscan.indexes");
    }

    #[test]
    fn other_statements_are_left_alone() {
        for sql in [
            "select 1",
            "drop table t",
            "show tables",
            "create table t (a int)",
            "",
        ] {
            assert_eq!(index_statement(sql).unwrap(), None, "{sql}");
        }
    }

    #[test]
    fn what_there_is_not_is_refused() {
        for sql in [
            "create index i on t (a, b)",
            "create unique index i on t (a)",
            "create index i on t (a + 1)",
            "create index i on t (a) where a > 0",
            "create index on t (a)",
            "create index i on",
        ] {
            assert!(index_statement(sql).is_err(), "{sql}");
        }
    }
}
