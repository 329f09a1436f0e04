//! How is one statement's text read as PostgreSQL reads it?
//!
//! Text is first read as PostgreSQL, with the rewrites that make DataFusion plan what PostgreSQL
//! means (`coscan_pg::dialect`). What PostgreSQL's grammar does not know, or means differently
//! (`CREATE EXTERNAL TABLE`, `COPY … STORED AS`), is then read in DataFusion's own dialect, but for
//! the query of a COPY.

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

/// Reads one statement: usually one syntax tree, none for a text of comments.
///
/// The trees are built where there is stack enough for them, and are returned only if they fit on
/// any stack.
///
/// # Errors
/// 42601 for what is no SQL, 54001 for what is nested too deeply, and
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
        Err(error) => {
            if let Some(renaming) = as_alter_table(sql) {
                return read(&renaming, large);
            }
            // The generic dialect is a superset; if it cannot read the text either, PostgreSQL's
            // complaint is the one that the client understands.
            match read_datafusion(sql, large) {
                Ok(statements) => Ok(statements),
                Err(_) => Err(PgError::new("42601", message(error)).into()),
            }
        }
    }
}

/// The inner result is the parser's.
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

/// Reads a large statement. The inner result is the parser's.
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

/// A statement as DataFusion takes it: COPY of a query to a file, whose name tells the format, is
/// DataFusion's.
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

/// Whether both grammars read the statement, but DataFusion can only plan its own reading.
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

/// `ALTER VIEW … RENAME TO …` as the ALTER TABLE that renames a view as well, which the parser
/// knows.
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
