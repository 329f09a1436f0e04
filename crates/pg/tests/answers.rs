//! Statements give PostgreSQL's answers: each file of `tests/answers` is a table of statements and
//! the output of PostgreSQL 15 (rows separated by `; `, columns by ` | `, NULL as `NULL`, an error
//! as `error SQLSTATE message`). A line with `setup`, a tab and a statement creates a table for
//! the statements below it.
//!
//! They run on plain DataFusion with [`coscan_pg::install`], without the engine.
//! `COSCAN_ANSWERS=all` prints every difference instead of failing at the first file;
//! `COSCAN_ANSWERS=PATH` runs a file of the same form from elsewhere.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::fmt::Write;
use std::path::{Path, PathBuf};

use bytes::BytesMut;
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::{SessionState, SessionStateBuilder};
use datafusion::prelude::{SessionConfig, SessionContext};
use datafusion::sql::parser::Statement;

fn context() -> SessionContext {
    let config = SessionConfig::new().with_target_partitions(2);
    let builder = SessionStateBuilder::new()
        .with_config(config)
        .with_default_features();
    SessionContext::new_with_state(coscan_pg::install(builder).build())
}

async fn plan(state: &SessionState, sql: &str) -> Result<datafusion::logical_expr::LogicalPlan> {
    let mut statements = coscan_pg::dialect::parse_postgres(sql)
        .map_err(|error| DataFusionError::SQL(Box::new(error), None))?;
    let statement = statements.pop().filter(|_| statements.is_empty());
    let statement = statement.ok_or_else(|| DataFusionError::Plan("one statement".to_owned()))?;
    state
        .statement_to_plan(Statement::Statement(Box::new(statement)))
        .await
}

/// The answer that a client sees for a statement.
async fn answer(context: &SessionContext, sql: &str) -> Result<String> {
    let plan = plan(&context.state(), sql).await?;
    let batches = context.execute_logical_plan(plan).await?.collect().await?;
    let mut rows = vec![];
    for batch in batches {
        let cells = batch
            .columns()
            .iter()
            .map(|column| coscan_pg::output::cell_writer(column, false))
            .collect::<Result<Vec<_>>>()?;
        for row in 0..batch.num_rows() {
            let mut line = String::new();
            for (at, (column, cell)) in batch.columns().iter().zip(&cells).enumerate() {
                let between = if at == 0 { "" } else { " | " };
                let mut out = BytesMut::new();
                let nulls = column.logical_nulls();
                if nulls.is_some_and(|nulls| nulls.is_null(row)) {
                    out.extend_from_slice(b"NULL");
                } else {
                    cell(row, &mut out).map_err(|error| DataFusionError::External(error.into()))?;
                }
                let _ = write!(line, "{between}{}", String::from_utf8_lossy(&out));
            }
            rows.push(line);
        }
    }
    Ok(rows.join("; "))
}

fn shown(result: Result<String>) -> String {
    match result {
        Ok(rows) => rows,
        Err(error) => {
            let said = coscan_pg::translate(&error, &|_| None);
            format!("error {} {}", said.code(), said.message())
        }
    }
}

/// Removes trailing zeros after the decimal point, in which numerics may differ.
fn comparable(answer: &str) -> String {
    let mut out = String::new();
    let mut word = String::new();
    for character in answer.chars().chain([' ']) {
        if character.is_ascii_digit() || character == '.' {
            word.push(character);
            continue;
        }
        let is_number = word.matches('.').count() == 1;
        let trimmed = word.trim_end_matches('0').trim_end_matches('.');
        out.push_str(if is_number { trimmed } else { &word });
        out.push(character);
        word.clear();
    }
    out.trim_end().to_owned()
}

async fn differences(file: &Path) -> Vec<String> {
    let text = std::fs::read_to_string(file).unwrap();
    let mut found = vec![];
    let shared = context();
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        let parts: Vec<&str> = line.split('\t').collect();
        let ([sql, expected] | [_, sql, expected]) = parts[..] else {
            panic!("{}: {line:?} does not have two columns", file.display());
        };
        if sql == "statement" {
            continue;
        }
        if sql == "setup" {
            answer(&shared, expected).await.unwrap();
            continue;
        }
        let given = shown(answer(&shared, sql).await);
        if comparable(&given) != comparable(expected) {
            found.push(format!(
                "{sql}\n    PostgreSQL: {expected}\n    Coscan:     {given}"
            ));
        }
    }
    found
}

#[tokio::test(flavor = "multi_thread")]
async fn statements_give_postgresqls_answers() {
    let wish = std::env::var("COSCAN_ANSWERS").unwrap_or_default();
    let folder = Path::new("tests/answers");
    let mut files: Vec<PathBuf> = if wish.is_empty() || wish == "all" {
        let entries = std::fs::read_dir(folder).unwrap();
        entries.map(|entry| entry.unwrap().path()).collect()
    } else {
        vec![PathBuf::from(wish)]
    };
    files.sort();
    assert!(!files.is_empty());
    let mut all = vec![];
    for file in &files {
        let found = differences(file).await;
        println!("{}: {} differences", file.display(), found.len());
        all.extend(found);
    }
    assert!(all.is_empty(), "{}\n{} differ", all.join("\n"), all.len());
}
