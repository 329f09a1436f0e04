//! Which statements are about indexes, and what do they ask for?
//!
//! DataFusion plans `CREATE INDEX` but cannot run it, refuses `DROP INDEX`, and does not know the
//! other statements. So before DataFusion sees such a statement, it becomes a query of one of
//! Coscan's table functions (`functions.rs`), whose result is the result of the statement.

use datafusion::error::{DataFusionError, Result};
use datafusion::sql::sqlparser::ast::{
    CreateIndex, Expr, Ident, ObjectName, ObjectNamePart, ObjectType, Statement,
};
use datafusion::sql::sqlparser::dialect::PostgreSqlDialect;
use datafusion::sql::sqlparser::parser::{Parser, ParserError};
use datafusion::sql::sqlparser::tokenizer::{Token, Tokenizer};

use crate::statement::{StatementText, first_words, parse_statement};

const DIALECT: PostgreSqlDialect = PostgreSqlDialect {};

/// A statement about indexes, with the query that runs it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IndexStatement {
    /// The query that runs the statement.
    pub query: String,
    /// The command tag for the client, as in PostgreSQL; `None` if the result has rows.
    pub tag: Option<&'static str>,
}

/// Reads a statement about indexes; `None` if the text is another statement.
///
/// | statement | |
/// |---|---|
/// | `CREATE INDEX [IF NOT EXISTS] name ON table (column)` | builds an index |
/// | `REFRESH INDEX name` | builds it again, over the table's current files |
/// | `DROP INDEX [IF EXISTS] name` | removes it |
/// | `SHOW INDEXES` | `SELECT * FROM coscan.indexes` |
///
/// # Errors
/// `Plan` for UNIQUE, which is not supported, and for several statements
/// ([`split_statements`](crate::split_statements) separates them).
pub fn index_statement(sql: &str) -> Result<Option<IndexStatement>> {
    // The first two words rule out most statements; only the others are tokenized.
    let [first, second] = first_words(sql).map(str::to_ascii_uppercase);
    let words = (first.as_str(), second.as_str());
    if !FIRST_WORDS.contains(&words) {
        return Ok(None);
    }
    let Ok(statement) = StatementText::whole(sql) else {
        return Ok(None);
    };
    parse_statement(statement, about_index)?
}

fn about_index(sql: &str) -> Result<Option<IndexStatement>> {
    // If the text cannot be tokenized, DataFusion's parser reports the error.
    let Ok(mut tokens) = Tokenizer::new(&DIALECT, sql).tokenize() else {
        return Ok(None);
    };
    tokens.retain(|token| !matches!(token, Token::Whitespace(_)));
    while tokens.last() == Some(&Token::SemiColon) {
        tokens.pop();
    }
    let word = |at: usize| match tokens.get(at) {
        Some(Token::Word(word)) if word.quote_style.is_none() => word.value.to_ascii_uppercase(),
        _ => String::new(),
    };
    match (word(0).as_str(), word(1).as_str()) {
        ("SHOW", "INDEXES" | "INDEX" | "INDICES") if tokens.len() == 2 => {
            Ok(Some(IndexStatement {
                query: "SELECT * FROM coscan.indexes".to_owned(),
                tag: None,
            }))
        }
        ("REFRESH", "INDEX") => refresh(tokens.split_off(2)).map(Some),
        ("CREATE", "INDEX" | "UNIQUE") | ("DROP", "INDEX") => parsed(tokens),
        _ => Ok(None),
    }
}

const FIRST_WORDS: &[(&str, &str)] = &[
    ("SHOW", "INDEXES"),
    ("SHOW", "INDEX"),
    ("SHOW", "INDICES"),
    ("REFRESH", "INDEX"),
    ("CREATE", "INDEX"),
    ("CREATE", "UNIQUE"),
    ("DROP", "INDEX"),
];

/// `REFRESH INDEX`, which the parser does not know.
fn refresh(name: Vec<Token>) -> Result<IndexStatement> {
    let mut parser = Parser::new(&DIALECT).with_tokens(name);
    let name = parser.parse_object_name(false).map_err(syntax)?;
    parser.expect_token(&Token::EOF).map_err(syntax)?;
    let query = call("coscan_refresh_index", &[&last(&name)]);
    let tag = Some("REFRESH INDEX");
    Ok(IndexStatement { query, tag })
}

fn parsed(tokens: Vec<Token>) -> Result<Option<IndexStatement>> {
    let mut parser = Parser::new(&DIALECT).with_tokens(tokens);
    let mut statements = parser.parse_statements().map_err(syntax)?;
    if statements.len() != 1 {
        return refused("one statement at a time");
    }
    let (query, tag) = match statements.remove(0) {
        Statement::CreateIndex(create) => (creation(&create)?, "CREATE INDEX"),
        Statement::Drop {
            object_type: ObjectType::Index,
            if_exists,
            names,
            ..
        } => {
            let [name] = names.as_slice() else {
                return refused("one index at a time");
            };
            let query = call("coscan_drop_index", &[&last(name), truth(if_exists)]);
            (query, "DROP INDEX")
        }
        _ => return Ok(None),
    };
    let tag = Some(tag);
    Ok(Some(IndexStatement { query, tag }))
}

/// The call for CREATE INDEX. A feature that indexes of tables of files do not have is named in a
/// fifth argument, because for a table in memory it does not matter.
fn creation(create: &CreateIndex) -> Result<String> {
    if create.unique {
        return refused("unique indexes: an index here serves reading only");
    }
    let name = create.name.as_ref().map(last);
    let columns = create.columns.iter().map(|column| &column.column.expr);
    let columns = columns.map(|column| match column {
        Expr::Identifier(column) => Some(folded(column)),
        _ => None,
    });
    let columns: Option<Vec<String>> = columns.collect();
    let refusal = match &columns {
        _ if name.is_none() => "an index without a name: CREATE INDEX name ON table (column)",
        _ if create.predicate.is_some() || !create.include.is_empty() => {
            "indexes with WHERE or INCLUDE"
        }
        None => "indexes on expressions",
        Some(columns) if columns.len() != 1 => "indexes on several columns",
        Some(_) => "",
    };
    let name = name.unwrap_or_default();
    let table = create.table_name.to_string();
    let exists = truth(create.if_not_exists);
    let columns = columns.unwrap_or_default().join(",");
    let mut arguments = vec![name.as_str(), table.as_str(), columns.as_str(), exists];
    if !refusal.is_empty() {
        arguments.push(refusal);
    }
    Ok(call("coscan_create_index", &arguments))
}

fn call(function: &str, arguments: &[&str]) -> String {
    let arguments: Vec<String> = arguments
        .iter()
        .map(|a| format!("'{}'", a.replace('\'', "''")))
        .collect();
    format!("SELECT * FROM {function}({})", arguments.join(", "))
}

/// A name without quotes is folded to lower case, as everywhere in SQL.
fn folded(name: &Ident) -> String {
    match name.quote_style {
        Some(_) => name.value.clone(),
        None => name.value.to_ascii_lowercase(),
    }
}

/// The last part of a name: `public.i` is `i`.
fn last(name: &ObjectName) -> String {
    let last = name.0.last().and_then(ObjectNamePart::as_ident);
    last.map_or_else(|| name.to_string(), folded)
}

fn truth(value: bool) -> &'static str {
    if value { "true" } else { "false" }
}

fn syntax(error: ParserError) -> DataFusionError {
    DataFusionError::SQL(Box::new(error), None)
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
                "REFRESH  INDEX \"Foo. bar\"",
                "coscan_refresh_index('Foo. bar')",
            ),
            (
                "-- again\nREFRESH /* it */ INDEX public.foo;;",
                "coscan_refresh_index('foo')",
            ),
            (
                "/* ; */ CREATE INDEX \"a.b\" ON t (c)",
                "coscan_create_index('a.b', 't', 'c', 'false')",
            ),
            (
                "create index i on t (a, b)",
                "coscan_create_index('i', 't', 'a,b', 'false', 'indexes on several columns')",
            ),
            (
                "create index i on t (a + 1)",
                "coscan_create_index('i', 't', '', 'false', 'indexes on expressions')",
            ),
        ];
        for (sql, expected) in cases {
            let found = index_statement(sql).unwrap().unwrap();
            assert_eq!(found.query, format!("SELECT * FROM {expected}"), "{sql}");
            let verb = expected.split('_').nth(1).unwrap().to_ascii_uppercase();
            assert_eq!(found.tag, Some(format!("{verb} INDEX").as_str()), "{sql}");
        }
        let show = index_statement(" show  indexes ; ").unwrap().unwrap();
        assert_eq!(show.query, "SELECT * FROM coscan.indexes");
        assert_eq!(show.tag, None);
    }

    #[test]
    fn other_statements_are_left_alone() {
        for sql in [
            "select 1",
            "drop table t",
            "show tables",
            "create table t (a int)",
            "create index_table",
            "select 'create index i on t (a)'",
            "show indexes of t",
            "create index 'open",
            "",
        ] {
            assert_eq!(index_statement(sql).unwrap(), None, "{sql}");
        }
    }

    #[test]
    fn unsupported_features_are_refused() {
        for sql in [
            "create unique index i on t (a)",
            "create index i on",
            "create index i on t (a); select 1",
            "refresh index",
            "refresh index i; select 1",
            "refresh index i j",
            "drop index i, j",
        ] {
            assert!(index_statement(sql).is_err(), "{sql}");
        }
    }
}
