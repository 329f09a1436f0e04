//! From SQL text to the action of a connection: settings, transactions and cursors are the
//! connection's own; everything else is a plan for DataFusion.
//!
//! Text is first read as PostgreSQL, with the rewrites that clients' queries need (`dialect`). What
//! PostgreSQL's grammar does not know, or means differently (`CREATE EXTERNAL TABLE`, `COPY … TO` a
//! file), is then read in DataFusion's own dialect.

use coscan::{IndexStatement, StatementText};
use datafusion::sql::parser::{DFParserBuilder, ResetStatement, Statement as DfStatement};
use datafusion::sql::sqlparser::ast::{
    CloseCursor, DeclareType, DiscardObject, FetchDirection, Reset, Set, ShowCreateObject,
    Statement as SqlStatement, Value, ValueWithSpan,
};
use datafusion::sql::sqlparser::dialect::{GenericDialect, PostgreSqlDialect};
use datafusion::sql::sqlparser::parser::{Parser, ParserError};

use crate::copy::{CopyFormat, copy_to_file, copy_to_stdout, is_datafusion_s};
use crate::failure::Failure;
use crate::show_create::show_create;
use coscan_pg::dialect::{parse_postgres, rewrite};

/// What to do for one statement.
#[derive(Debug, Clone)]
pub(crate) enum Action {
    /// DataFusion plans and runs it.
    Plan(Box<DfStatement>),
    /// A query that is run for its effect on an index, and the tag to answer with instead of its
    /// rows.
    Index {
        query: Box<DfStatement>,
        tag: &'static str,
    },
    /// A query whose rows are copied out.
    Copy {
        query: Box<DfStatement>,
        format: CopyFormat,
    },
    Begin,
    Commit,
    Rollback,
    /// ROLLBACK TO a savepoint: revives a failed transaction.
    RollbackTo,
    /// Savepoints and UNLISTEN: accepted, because there is nothing to undo or to stop. Holds the
    /// tag to answer with.
    Savepoint(&'static str),
    Set(Box<Set>),
    /// The setting's name; `all` for every one.
    Show(String),
    /// The setting's name; `None` for every one.
    Reset(Option<String>),
    Declare {
        name: String,
        hold: bool,
        query: Box<DfStatement>,
    },
    /// `rows`: how many, `None` for all.
    Fetch {
        name: String,
        rows: Option<usize>,
    },
    /// The cursor's name; `None` for every one.
    Close(Option<String>),
    /// The prepared statement's name; `None` for every one.
    Deallocate(Option<String>),
    /// DISCARD. Neither ALL nor TEMP: a part of the session that Coscan does not have.
    Discard {
        all: bool,
        temp: bool,
    },
}

impl Action {
    /// The tag to answer with instead of a query's rows.
    pub(crate) fn tag(&self) -> Option<&'static str> {
        match self {
            Self::Index { tag, .. } => Some(tag),
            _ => None,
        }
    }

    /// The format of a COPY, if the rows are copied out.
    pub(crate) fn copy_format(&self) -> Option<&CopyFormat> {
        match self {
            Self::Copy { format, .. } => Some(format),
            _ => None,
        }
    }
}

/// Reads one statement of a text; `None` for a text of comments only.
///
/// The statement's syntax trees are built where there is stack enough for them, and are returned
/// only if they fit on any stack.
pub(crate) fn parse(statement: StatementText<'_>) -> Result<Option<Action>, Failure> {
    let (query, tag) = match coscan::index_statement(statement.text)? {
        Some(IndexStatement { query, tag }) => (Some(query), tag),
        None => (None, None),
    };
    let large = statement.size.is_large();
    let mut actions = match &query {
        Some(query) => parse_sql(query, false)?,
        None => coscan::parse_statement(statement, |sql| parse_sql(sql, large))??,
    };
    if actions.len() > 1 {
        return Err(Failure::syntax("this reads as several statements"));
    }
    Ok(match (actions.pop(), tag) {
        (Some(Action::Plan(query)), Some(tag)) => Some(Action::Index { query, tag }),
        (action, _) => action,
    })
}

/// `large`: chains of operators are balanced before expressions are rewritten.
fn parse_sql(sql: &str, large: bool) -> Result<Vec<Action>, Failure> {
    let parsed = if large {
        parse_large(sql)?
    } else {
        parse_postgres(sql)
    };
    match parsed {
        Ok(statements) if !statements.iter().any(is_foreign) => {
            statements.into_iter().map(shaped).collect()
        }
        Ok(_) => parse_datafusion(sql)?
            .into_iter()
            .map(action_datafusion)
            .collect(),
        Err(ParserError::RecursionLimitExceeded) => Err(too_deep()),
        // The generic dialect is a superset; if it cannot read the text either, PostgreSQL's
        // complaint is the one that the client understands.
        Err(error) => match parse_datafusion(sql) {
            Ok(statements) => statements.into_iter().map(action_datafusion).collect(),
            Err(_) => Err(Failure::syntax(syntax_message(&error))),
        },
    }
}

/// Reads a large statement. The inner result is the parser's.
fn parse_large(sql: &str) -> Result<Result<Vec<SqlStatement>, ParserError>, Failure> {
    let mut statements = match Parser::parse_sql(&PostgreSqlDialect {}, sql) {
        Ok(statements) => statements,
        Err(error) => return Ok(Err(error)),
    };
    for statement in &mut statements {
        coscan::shape_statement(statement)?;
        rewrite(statement);
    }
    Ok(Ok(statements))
}

fn shaped(mut statement: SqlStatement) -> Result<Action, Failure> {
    coscan::shape_statement(&mut statement)?;
    action(statement)
}

fn parse_datafusion(sql: &str) -> Result<Vec<DfStatement>, Failure> {
    let dialect = GenericDialect {};
    let mut parser = DFParserBuilder::new(sql).with_dialect(&dialect).build()?;
    Ok(parser.parse_statements()?.into())
}

/// Whether both grammars read the statement, but DataFusion can only plan its own reading.
fn is_foreign(statement: &SqlStatement) -> bool {
    match statement {
        SqlStatement::Copy { .. } => is_datafusion_s(statement),
        SqlStatement::CreateTable(create) => create.external,
        SqlStatement::Explain { statement, .. } => is_foreign(statement),
        _ => false,
    }
}

fn too_deep() -> Failure {
    Failure::new("54001", "the statement is nested too deeply")
}

fn syntax_message(error: &ParserError) -> String {
    match error {
        ParserError::TokenizerError(text) | ParserError::ParserError(text) => text.clone(),
        ParserError::RecursionLimitExceeded => "the statement is nested too deeply".to_owned(),
    }
}

fn action_datafusion(mut statement: DfStatement) -> Result<Action, Failure> {
    coscan::shape_datafusion(&mut statement)?;
    match statement {
        DfStatement::Statement(statement) => action(*statement),
        DfStatement::Reset(ResetStatement::Variable(name)) => {
            Ok(Action::Reset(Some(name.to_string().to_lowercase())))
        }
        other => Ok(Action::Plan(Box::new(other))),
    }
}

fn action(statement: SqlStatement) -> Result<Action, Failure> {
    if let Some((query, format)) = copy_to_stdout(&statement)? {
        let query = Box::new(query);
        return Ok(Action::Copy { query, format });
    }
    if let Some(copy) = copy_to_file(&statement)? {
        return Ok(Action::Plan(Box::new(copy)));
    }
    Ok(match statement {
        SqlStatement::StartTransaction { .. } => Action::Begin,
        SqlStatement::Commit { .. } => Action::Commit,
        SqlStatement::Rollback {
            savepoint: None, ..
        } => Action::Rollback,
        SqlStatement::Rollback { .. } => Action::RollbackTo,
        SqlStatement::Savepoint { .. } => Action::Savepoint("SAVEPOINT"),
        SqlStatement::ReleaseSavepoint { .. } => Action::Savepoint("RELEASE"),
        SqlStatement::UNLISTEN { .. } => Action::Savepoint("UNLISTEN"),
        SqlStatement::Set(set) => Action::Set(Box::new(set)),
        SqlStatement::ShowVariable { variable } => {
            let words: Vec<_> = variable
                .iter()
                .map(|word| word.value.to_lowercase())
                .collect();
            Action::Show(
                match words.iter().map(String::as_str).collect::<Vec<_>>()[..] {
                    ["time", "zone"] => "timezone".to_owned(),
                    ["transaction", "isolation", "level"] => "transaction_isolation".to_owned(),
                    ["session", "authorization"] => "session_authorization".to_owned(),
                    _ => words.join("."),
                },
            )
        }
        SqlStatement::ShowCreate {
            obj_type: ShowCreateObject::Table,
            obj_name,
        } => Action::Plan(show_create(&obj_name)?),
        SqlStatement::Reset(reset) => Action::Reset(match reset.reset {
            Reset::ALL => None,
            Reset::ConfigurationParameter(name) => Some(name.to_string().to_lowercase()),
        }),
        SqlStatement::Declare { mut stmts } => {
            let declare = stmts.pop().filter(|_| stmts.is_empty());
            let declare = declare.filter(|d| d.declare_type == Some(DeclareType::Cursor));
            match declare.map(|d| (d.names.into_iter().next(), d.hold, d.scroll, d.for_query)) {
                Some((_, _, Some(true), _)) => {
                    return Err(Failure::unsupported("cursors only move forward"));
                }
                Some((Some(name), hold, _, Some(query))) => Action::Declare {
                    name: name.value,
                    hold: hold == Some(true),
                    query: Box::new(DfStatement::Statement(Box::new(SqlStatement::Query(query)))),
                },
                _ => return Err(Failure::syntax("DECLARE needs a cursor's name and query")),
            }
        }
        SqlStatement::Fetch {
            name, direction, ..
        } => Action::Fetch {
            name: name.value,
            rows: fetch_count(&direction)?,
        },
        SqlStatement::Close { cursor } => Action::Close(match cursor {
            CloseCursor::All => None,
            CloseCursor::Specific { name } => Some(name.value),
        }),
        SqlStatement::Deallocate { name, .. } => {
            let all = name.quote_style.is_none() && name.value.eq_ignore_ascii_case("all");
            Action::Deallocate((!all).then_some(name.value))
        }
        SqlStatement::Discard { object_type } => Action::Discard {
            all: object_type == DiscardObject::ALL,
            temp: object_type == DiscardObject::TEMP,
        },
        // What a session makes is its own and ends with it, so every table is temporary. DataFusion
        // refuses the word.
        SqlStatement::CreateTable(mut create) => {
            create.temporary = false;
            Action::Plan(Box::new(DfStatement::Statement(Box::new(
                SqlStatement::CreateTable(create),
            ))))
        }
        other => Action::Plan(Box::new(DfStatement::Statement(Box::new(other)))),
    })
}

fn fetch_count(direction: &FetchDirection) -> Result<Option<usize>, Failure> {
    let count = |limit: &ValueWithSpan| match &limit.value {
        Value::Number(digits, _) => digits
            .parse()
            .map(Some)
            .map_err(|_| Failure::new("22003", format!("cannot fetch {digits} rows"))),
        other => Err(Failure::syntax(format!("cannot fetch {other} rows"))),
    };
    match direction {
        FetchDirection::Next | FetchDirection::Forward { limit: None } => Ok(Some(1)),
        FetchDirection::Count { limit } | FetchDirection::Forward { limit: Some(limit) } => {
            count(limit)
        }
        FetchDirection::All | FetchDirection::ForwardAll => Ok(None),
        _ => Err(Failure::unsupported("cursors only move forward")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(sql: &str) -> Result<Vec<Action>, Failure> {
        coscan::statement_texts(sql)
            .filter_map(|statement| match statement {
                Ok(statement) => parse(statement).transpose(),
                Err(error) => Some(Err(error.into())),
            })
            .collect()
    }

    fn one(sql: &str) -> Action {
        let mut actions = all(sql).unwrap();
        assert_eq!(actions.len(), 1, "{sql}");
        actions.remove(0)
    }

    #[test]
    fn comments_and_semicolons_are_nothing() {
        assert!(all(" ; -- nothing\n ;").unwrap().is_empty());
    }

    #[test]
    fn datafusions_own_statements_are_read_as_such() {
        let external = one("CREATE EXTERNAL TABLE t STORED AS PARQUET LOCATION '/x'");
        assert!(
            matches!(&external, Action::Plan(s) if matches!(**s, DfStatement::CreateExternalTable(_)))
        );
        let copy = one("COPY t TO '/x.parquet'");
        assert!(matches!(&copy, Action::Plan(s) if matches!(**s, DfStatement::CopyTo(_))));
    }

    #[test]
    fn statements_about_indexes_stand_among_others() {
        let text = "BEGIN; create index i on t (a) ;SELECT ';'; SHOW INDEXES; -- done\nrefresh index i; \
                    CREATE EXTERNAL TABLE u STORED AS PARQUET LOCATION '/x'; DROP INDEX i";
        let actions = all(text).unwrap();
        let shown: Vec<&str> = actions
            .iter()
            .map(|action| match action {
                Action::Index { tag, .. } => tag,
                Action::Plan(statement) => match statement.as_ref() {
                    DfStatement::CreateExternalTable(_) => "external table",
                    _ => "plan",
                },
                Action::Begin => "BEGIN",
                _ => "?",
            })
            .collect();
        let expected = [
            "BEGIN",
            "CREATE INDEX",
            "plan",
            "plan",
            "REFRESH INDEX",
            "external table",
            "DROP INDEX",
        ];
        assert_eq!(shown, expected);
        for wrong in [
            "DROP INDEX i; SELEC 1",
            "DROP INDEX i; SELECT 'open",
            "SELECT 1; CREATE INDEX i ON t (a, b)",
        ] {
            assert!(all(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn the_connections_own_statements() {
        assert!(matches!(one("BEGIN"), Action::Begin));
        assert!(matches!(one("END"), Action::Commit));
        assert!(matches!(one("ABORT"), Action::Rollback));
        assert!(matches!(one("SHOW TIME ZONE"), Action::Show(n) if n == "timezone"));
        assert!(
            matches!(one("SHOW datafusion.execution.batch_size"), Action::Show(n) if n == "datafusion.execution.batch_size")
        );
        assert!(matches!(one("RESET ALL"), Action::Reset(None)));
        assert!(
            matches!(one("reset Coscan.Policy"), Action::Reset(Some(n)) if n == "coscan.policy")
        );
        assert!(matches!(
            one("FETCH 10 FROM c"),
            Action::Fetch { rows: Some(10), .. }
        ));
        assert!(matches!(
            one("FETCH FORWARD ALL IN c"),
            Action::Fetch { rows: None, .. }
        ));
        assert!(matches!(
            one("DECLARE c CURSOR WITH HOLD FOR SELECT 1"),
            Action::Declare { hold: true, .. }
        ));
        assert!(matches!(one("DEALLOCATE ALL"), Action::Deallocate(None)));
        assert!(matches!(
            one("DISCARD ALL"),
            Action::Discard { all: true, .. }
        ));
    }

    #[test]
    fn a_syntax_error_says_so() {
        let failure = all("SELEC 1").unwrap_err();
        assert!(failure.to_string().contains("42601"), "{failure}");
    }
}
