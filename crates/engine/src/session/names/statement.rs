//! Which statements are about the session's prepared statements?
//!
//! Not here: which of them has a name (`prepared_names.rs`).

use coscan_pg::dialect::type_of;
use coscan_pg::{PgError, Type};
use datafusion::sql::parser::Statement as DfStatement;
use datafusion::sql::sqlparser::ast::{
    DataType, Expr, Ident, ObjectName, Statement as SqlStatement,
};

/// A statement about the session's prepared statements.
#[derive(Clone, Debug)]
pub enum NamesStatement {
    /// PREPARE.
    Prepare {
        /// Of the prepared statement.
        name: String,
        /// Of its first parameters.
        types: Vec<DataType>,
        /// What is prepared.
        query: Box<DfStatement>,
    },
    /// EXECUTE.
    Execute {
        /// Of the prepared statement.
        name: String,
        /// The values of its parameters.
        arguments: Vec<Expr>,
    },
    /// DEALLOCATE of the statement of this name; `None` for all of them.
    Deallocate(Option<String>),
}

impl NamesStatement {
    /// What a parsed statement asks of the prepared statements; `None` for a statement about
    /// something else.
    ///
    /// # Errors
    /// 42601 for PREPARE of a statement that it cannot prepare.
    pub fn of(statement: &SqlStatement) -> Result<Option<Self>, PgError> {
        Ok(Some(match statement {
            SqlStatement::Prepare {
                name,
                data_types,
                statement,
            } => Self::Prepare {
                name: folded(name),
                types: data_types.clone(),
                query: Box::new(preparable(statement)?),
            },
            SqlStatement::Execute {
                name: Some(name),
                parameters,
                immediate: false,
                ..
            } => Self::Execute {
                name: last_of(name),
                arguments: parameters.clone(),
            },
            SqlStatement::Deallocate { name, .. } => {
                let all = name.quote_style.is_none() && name.value.eq_ignore_ascii_case("all");
                Self::Deallocate((!all).then(|| folded(name)))
            }
            _ => return Ok(None),
        }))
    }
}

/// What PREPARE prepares.
fn preparable(statement: &SqlStatement) -> Result<DfStatement, PgError> {
    match statement {
        SqlStatement::Query(_)
        | SqlStatement::Insert(_)
        | SqlStatement::Update(_)
        | SqlStatement::Delete(_)
        | SqlStatement::Merge { .. } => Ok(DfStatement::Statement(Box::new(statement.clone()))),
        _ => Err(PgError::new("42601", "PREPARE needs a query")),
    }
}

/// The types that PREPARE gives the first parameters.
///
/// # Errors
/// 42704 for a type that does not exist.
pub fn declared_types(types: &[DataType]) -> Result<Vec<Option<Type>>, PgError> {
    let types = types.iter().map(|data_type| match type_of(data_type) {
        Some(pg_type) => Ok(Some(pg_type)),
        None => {
            let told = format!("type \"{data_type}\" does not exist");
            Err(PgError::new("42704", told))
        }
    });
    types.collect()
}

/// A name as PostgreSQL reads it.
pub(in crate::session) fn folded(name: &Ident) -> String {
    match name.quote_style {
        Some(_) => name.value.clone(),
        None => name.value.to_lowercase(),
    }
}

/// The last part of a name.
fn last_of(name: &ObjectName) -> String {
    let part = name.0.last().and_then(|part| part.as_ident());
    part.map(folded).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use datafusion::sql::sqlparser::dialect::PostgreSqlDialect;
    use datafusion::sql::sqlparser::parser::Parser;

    use super::*;

    fn of(sql: &str) -> Result<Option<NamesStatement>, PgError> {
        let parsed = Parser::parse_sql(&PostgreSqlDialect {}, sql).unwrap();
        NamesStatement::of(&parsed[0])
    }

    #[test]
    fn statements_about_prepared_statements_are_recognised() {
        let prepare = of("PREPARE Ab (int, text) AS SELECT $1, $2").unwrap();
        let Some(NamesStatement::Prepare { name, types, .. }) = prepare else {
            panic!("{prepare:?}");
        };
        assert_eq!(name, "ab");
        let types = declared_types(&types).unwrap();
        assert_eq!(types, [Some(Type::INT4), Some(Type::TEXT)]);
        let execute = of("EXECUTE \"Ab\" (1, 'x')").unwrap();
        let Some(NamesStatement::Execute { name, arguments }) = execute else {
            panic!("{execute:?}");
        };
        assert_eq!((name.as_str(), arguments.len()), ("Ab", 2));
        for (sql, expected) in [
            ("DEALLOCATE ALL", None),
            ("DEALLOCATE PREPARE a", Some("a")),
            ("DEALLOCATE \"all\"", Some("all")),
        ] {
            let Some(NamesStatement::Deallocate(name)) = of(sql).unwrap() else {
                panic!("{sql}");
            };
            assert_eq!(name.as_deref(), expected, "{sql}");
        }
        assert!(of("SELECT 1").unwrap().is_none());
    }

    #[test]
    fn what_cannot_be_prepared_is_a_syntax_error() {
        let refused = of("PREPARE a AS SHOW work_mem").unwrap_err();
        assert_eq!(refused.code(), "42601");
        let unknown = of("PREPARE a (nonsense) AS SELECT $1").unwrap();
        let Some(NamesStatement::Prepare { types, .. }) = unknown else {
            panic!("{unknown:?}");
        };
        assert_eq!(declared_types(&types).unwrap_err().code(), "42704");
    }
}
