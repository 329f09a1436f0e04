//! Undeclared parameters get the types that PostgreSQL infers.
//!
//! `tests/parameters.tsv` contains statements, with their `pg_prepared_statements.parameter_types`
//! in PostgreSQL 15, or the error. A third column contains Coscan's answer where it differs on
//! purpose. `COSCAN_PARAMETERS=PATH` runs a file of the same form from elsewhere.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::BTreeMap;

use datafusion::error::{DataFusionError, Result};
use datafusion::execution::{SessionState, SessionStateBuilder};
use datafusion::prelude::{SessionConfig, SessionContext};
use datafusion::sql::parser::Statement;

use coscan_pg::dialect::{parse_postgres, with_queries, written_parameters};
use coscan_pg::parameters::{Kind, plan_typed, sql_name, write_kinds};

async fn types(state: &SessionState, sql: &str) -> Result<String> {
    let mut statements = parse_postgres(sql).parsed()?;
    let statement = statements.remove(0);
    let planner = |kinds| {
        let mut statement = statement.clone();
        write_kinds(&mut statement, &kinds);
        state.statement_to_plan(Statement::Statement(Box::new(statement)))
    };
    let queries = &with_queries(&statement);
    let aside = |kinds: BTreeMap<usize, Kind>| async move {
        let mut plans = vec![];
        for mut query in queries.iter().cloned() {
            write_kinds(&mut query, &kinds);
            let query = Statement::Statement(Box::new(query));
            plans.extend(state.statement_to_plan(query).await);
        }
        plans
    };
    let typed = plan_typed(&[], &written_parameters(sql), planner, aside).await?;
    let names: Vec<String> = typed.types.iter().map(sql_name).collect();
    Ok(names.join(", "))
}

#[tokio::test]
async fn parameters_have_postgresqls_types() {
    let config = SessionConfig::new().with_target_partitions(1);
    let builder = SessionStateBuilder::new()
        .with_config(config)
        .with_default_features();
    let context = SessionContext::new_with_state(coscan_pg::install(builder).build());
    let table = "CREATE TABLE t (i2 smallint, i4 int, i8 bigint, d numeric(10,2), f4 real, f8 double, \
                 s text, b boolean, day date, ts timestamp)";
    context.sql(table).await.unwrap().collect().await.unwrap();
    let mut differences = vec![];
    let file = std::env::var("COSCAN_PARAMETERS");
    let file = file.unwrap_or_else(|_| "tests/parameters.tsv".to_owned());
    for line in std::fs::read_to_string(file)
        .unwrap()
        .lines()
        .filter(|line| !line.starts_with('#'))
    {
        let parts: Vec<&str> = line.split('\t').collect();
        let (sql, postgresqls) = (parts[0], parts[1]);
        let expected = parts.get(2).copied().unwrap_or(postgresqls);
        let found = match types(&context.state(), sql).await {
            Ok(types) => types,
            Err(error) => match coscan_pg::PgError::of(&error) {
                Some(said) => format!("ERROR:  {said}"),
                None => format!("unlike PostgreSQL's: {}", error.strip_backtrace()),
            },
        };
        if found != expected {
            differences.push(format!(
                "{sql}\n    expected: {expected}\n    found:    {found}"
            ));
        }
    }
    assert!(differences.is_empty(), "{}", differences.join("\n"));
}

/// Converts a parser's error as DataFusion does.
trait Parsed<T> {
    fn parsed(self) -> Result<T>;
}

impl<T> Parsed<T> for std::result::Result<T, datafusion::sql::sqlparser::parser::ParserError> {
    fn parsed(self) -> Result<T> {
        self.map_err(|error| DataFusionError::SQL(Box::new(error), None))
    }
}
