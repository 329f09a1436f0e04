//! How is one statement's text read as PostgreSQL reads it?
//!
//! Text is first read as PostgreSQL, with the rewrites that make DataFusion plan what PostgreSQL
//! means (`coscan_pg::dialect`). What PostgreSQL's grammar does not know, or means differently
//! (`CREATE EXTERNAL TABLE`, `COPY … TO` a file), is then read in DataFusion's own dialect.

use coscan_pg::PgError;
use coscan_pg::dialect::{Grammar, parse_postgres, rewrite};
use datafusion::error::{DataFusionError, Result};
use datafusion::sql::parser::{DFParserBuilder, Statement as DfStatement};
use datafusion::sql::sqlparser::ast::{CopyTarget, Statement};
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
    let parsed = if large {
        read_large(sql)?
    } else {
        parse_postgres(sql)
    };
    match parsed {
        Ok(statements) if !statements.iter().any(is_foreign) => {
            let shaped = statements.into_iter().map(|mut statement| {
                shape_statement(&mut statement)?;
                Ok(DfStatement::Statement(Box::new(statement)))
            });
            shaped.collect()
        }
        Ok(_) => read_datafusion(sql),
        Err(ParserError::RecursionLimitExceeded) => Err(too_deep()),
        Err(error) => {
            if let Some(renaming) = as_alter_table(sql) {
                return read(&renaming, large);
            }
            // The generic dialect is a superset; if it cannot read the text either, PostgreSQL's
            // complaint is the one that the client understands.
            match read_datafusion(sql) {
                Ok(statements) => Ok(statements),
                Err(_) => Err(PgError::new("42601", message(error)).into()),
            }
        }
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

fn read_datafusion(sql: &str) -> Result<Vec<DfStatement>> {
    let dialect = GenericDialect {};
    let mut parser = DFParserBuilder::new(sql).with_dialect(&dialect).build()?;
    let mut statements: Vec<_> = parser.parse_statements()?.into();
    for statement in &mut statements {
        shape_datafusion(statement)?;
        keep_types(statement);
    }
    Ok(statements)
}

/// Whether both grammars read the statement, but DataFusion can only plan its own reading.
fn is_foreign(statement: &Statement) -> bool {
    match statement {
        // To a file without options only DataFusion's reading makes sense.
        Statement::Copy {
            to,
            target: CopyTarget::File { .. },
            options,
            legacy_options,
            ..
        } => !to || (options.is_empty() && legacy_options.is_empty()),
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
