//! How is the text of one statement parsed as PostgreSQL's SQL?
//!
//! The text is first parsed as PostgreSQL's, with the rewrites that make DataFusion plan what
//! PostgreSQL means (`coscan_pg::dialect`). Statements that PostgreSQL does not know, or that mean
//! something else there (`CREATE EXTERNAL TABLE`, `COPY … STORED AS`), are parsed in DataFusion's
//! own dialect, except for the query of a COPY.

use coscan_pg::PgError;
use coscan_pg::dialect::{Grammar, parse_postgres, rewrite};
use datafusion::error::{DataFusionError, Result};
use datafusion::sql::parser::{
    CopyToSource, CopyToStatement, DFParserBuilder, Statement as DfStatement,
};
use datafusion::sql::sqlparser::ast::{CopySource, CopyTarget, Query, Statement};
use datafusion::sql::sqlparser::dialect::GenericDialect;
use datafusion::sql::sqlparser::parser::{Parser, ParserError};

use super::parse::{keep_types, parse_statement, shape_datafusion, shape_statement};
use super::split::StatementText;

/// How errors begin that PostgreSQL's dialect itself finds. The generic dialect would read the same
/// text in another way.
const REFUSED: &[&str] = &[
    "syntax error at or near",
    "trailing junk after numeric literal at or near",
    "a cast of the character of ESCAPE",
    "invalid Unicode escape character",
    "a backslash or a new line in a string with UESCAPE",
];

/// Parses one statement: usually into one syntax tree, into none for a text of comments.
///
/// The trees are built where there is enough stack for them, and are returned only if they fit on
/// any stack.
///
/// # Errors
/// 42601 if the text is not SQL, 54001 if it is nested too deeply, and
/// [`StatementError`](super::StatementError).
pub fn parse_postgresql(statement: StatementText<'_>) -> Result<Vec<DfStatement>> {
    // Chains of operators are balanced before expressions are rewritten.
    let large = statement.size.is_large();
    parse_statement(statement, |sql| read(sql, large))?
}

fn read(sql: &str, large: bool) -> Result<Vec<DfStatement>> {
    match read_postgres(sql, large)? {
        Ok(statements) if !statements.iter().any(is_foreign) => {
            let shaped = statements.into_iter().map(|mut statement| {
                shape_statement(&mut statement)?;
                Ok(copy_without_options(statement))
            });
            shaped.collect()
        }
        Ok(_) => read_datafusion(sql, large),
        Err(ParserError::RecursionLimitExceeded) => Err(too_deep()),
        // The generic dialect would take `SELECT 'a' 'b'` for a label. Only DataFusion's statements
        // have OPTIONS ('key' 'value').
        Err(ParserError::ParserError(text)) if is_refused(&text) => {
            match read_datafusion(sql, large) {
                Ok(statements) if statements.iter().all(has_options) => Ok(statements),
                _ => Err(PgError::new("42601", text).into()),
            }
        }
        Err(error) => {
            if let Some(renaming) = as_alter_table(sql) {
                return read(&renaming, large);
            }
            // The generic dialect is a superset of PostgreSQL's. If it cannot parse the text
            // either, the client gets PostgreSQL's error.
            match read_datafusion(sql, large) {
                Ok(statements) => Ok(statements),
                Err(_) => Err(PgError::new("42601", message(error)).into()),
            }
        }
    }
}

fn is_refused(error: &str) -> bool {
    REFUSED.iter().any(|words| error.starts_with(*words))
}

/// Whether a statement is one of DataFusion's with OPTIONS.
fn has_options(statement: &DfStatement) -> bool {
    match statement {
        DfStatement::CopyTo(_) | DfStatement::CreateExternalTable(_) => true,
        DfStatement::Explain(explain) => has_options(&explain.statement),
        _ => false,
    }
}

/// The inner result is that of the parser.
fn read_postgres(
    sql: &str,
    large: bool,
) -> Result<std::result::Result<Vec<Statement>, ParserError>> {
    if large {
        read_large(sql)
    } else {
        Ok(parse_postgres(sql))
    }
}

/// Parses a large statement. The inner result is that of the parser.
fn read_large(sql: &str) -> Result<std::result::Result<Vec<Statement>, ParserError>> {
    let mut statements = match Parser::parse_sql(&Grammar::new(), sql) {
        Ok(statements) => statements,
        Err(error) => return Ok(Err(error)),
    };
    for statement in &mut statements {
        shape_statement(statement)?;
        rewrite(statement);
    }
    Ok(Ok(statements))
}

fn read_datafusion(sql: &str, large: bool) -> Result<Vec<DfStatement>> {
    let dialect = GenericDialect {};
    let mut parser = DFParserBuilder::new(sql).with_dialect(&dialect).build()?;
    let mut statements: Vec<_> = parser.parse_statements()?.into();
    for statement in &mut statements {
        if let Some(query) = copied_query(statement) {
            let read = read_postgres(&query.to_string(), large)?;
            let read = read.map_err(|error| PgError::new("42601", message(error)))?;
            if let Some(Statement::Query(read)) = read.into_iter().next() {
                *query = read;
            }
        }
        shape_datafusion(statement)?;
        keep_types(statement);
    }
    Ok(statements)
}

fn copied_query(statement: &mut DfStatement) -> Option<&mut Box<Query>> {
    match statement {
        DfStatement::CopyTo(CopyToStatement {
            source: CopyToSource::Query(query),
            ..
        }) => Some(query),
        DfStatement::Explain(explain) => copied_query(&mut explain.statement),
        _ => None,
    }
}

/// The statement for DataFusion's planner: a COPY of a query to a file becomes DataFusion's COPY,
/// which takes the format from the file's name.
fn copy_without_options(statement: Statement) -> DfStatement {
    match statement {
        Statement::Copy {
            source: CopySource::Query(query),
            to: true,
            target: CopyTarget::File { filename },
            options,
            legacy_options,
            ..
        } if options.is_empty() && legacy_options.is_empty() => {
            let mut copy = DfStatement::CopyTo(CopyToStatement {
                source: CopyToSource::Query(query),
                target: filename,
                partitioned_by: vec![],
                stored_as: None,
                options: vec![],
            });
            keep_types(&mut copy);
            copy
        }
        other => DfStatement::Statement(Box::new(other)),
    }
}

/// Whether both grammars accept the statement, but DataFusion can only plan its own reading of it.
fn is_foreign(statement: &Statement) -> bool {
    match statement {
        Statement::Copy {
            source,
            to,
            target: CopyTarget::File { .. },
            options,
            legacy_options,
            ..
        } => {
            let is_plain = options.is_empty() && legacy_options.is_empty();
            !to || (is_plain && matches!(source, CopySource::Table { .. }))
        }
        Statement::Copy { target, .. } => !matches!(target, CopyTarget::Stdin | CopyTarget::Stdout),
        Statement::CreateTable(create) => create.external,
        Statement::Explain { statement, .. } => is_foreign(statement),
        _ => false,
    }
}

/// `ALTER VIEW … RENAME TO …` as ALTER TABLE, which also renames views and which the parser knows.
fn as_alter_table(sql: &str) -> Option<String> {
    let mut words = sql.split_ascii_whitespace();
    let mut is_next = |word: &str| {
        let next = words.next();
        next.is_some_and(|next| next.eq_ignore_ascii_case(word))
    };
    if !is_next("alter") || !is_next("view") {
        return None;
    }
    let at = sql.to_ascii_lowercase().find("view")?;
    let rest = sql.get(at + "view".len()..)?;
    let renames = rest.to_ascii_lowercase().contains("rename");
    renames.then(|| format!("ALTER TABLE{rest}"))
}

fn too_deep() -> DataFusionError {
    PgError::new("54001", "the statement is nested too deeply").into()
}

fn message(error: ParserError) -> String {
    match error {
        ParserError::TokenizerError(text) | ParserError::ParserError(text) => text,
        ParserError::RecursionLimitExceeded => "the statement is nested too deeply".to_owned(),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests: a failure should panic")]
mod tests {
    use super::*;

    #[test]
    fn what_postgresql_refuses_is_read_in_no_other_dialect() {
        for sql in [
            "SELECT 0x1F",
            "SELECT 'a' 'b'",
            "SELECT 'a' LIKE 'b' ESCAPE 'x'::bpchar",
            "SELECT U&'d!0061' UESCAPE '+'",
        ] {
            let refused = read(sql, false).unwrap_err();
            let code = PgError::of(&refused).map(PgError::code);
            assert_eq!(code, Some("42601"), "{sql}");
        }
    }
}
