//! Functions about the session: its user, database, schemas and settings.

use std::sync::Arc;

use coscan::TEMPORARY_SCHEMA;
use coscan::session_settings::{Board, VERSION, entry_text};
use datafusion::config::ConfigOptions;
use datafusion::error::DataFusionError;

use super::Known;
use super::Take::{Bool, Text};
use super::function::{Function, Give, Optional, Row, boolean, text};

pub(super) fn functions(known: &Known) -> Vec<Function> {
    let constant = |name, value: String| {
        Function::new(name, &[], Give::Text, move |_: &Row<'_>| {
            Ok(text(Some(value.clone())))
        })
    };
    let (reading, pid) = (known.board.clone(), known.pid);
    vec![
        constant("current_database", known.model.shown.clone()),
        constant("session_user", known.model.user.clone()),
        constant("version", VERSION.to_owned()),
        constant("pg_client_encoding", "UTF8".to_owned()),
        constant("getdatabaseencoding", "UTF8".to_owned()),
        Function::new("pg_backend_pid", &[], Give::Number, move |_| {
            Ok(datafusion::scalar::ScalarValue::Int64(Some(i64::from(pid))))
        }),
        Function::new("pg_is_in_recovery", &[], Give::Bool, |_| {
            Ok(boolean(Some(false)))
        }),
        Function::new("current_schema", &[], Give::Text, |row| {
            Ok(text(search_path(row.options, false).into_iter().next()))
        }),
        Function::new("current_schemas", &[Bool], Give::Texts, |row| {
            Ok(super::texts(&search_path(
                row.options,
                row.bool(0) == Some(true),
            )))
        }),
        Function::new("current_setting", &[Text, Bool], Give::Text, move |row| {
            current_setting(&reading, row)
        })
        .optional(Optional::Last(1)),
        set_config(&known.board, known.board.turn()),
    ]
}

/// `set_config`, bound to the turn in which its statement is planned (the engine's
/// `session/settings/board.rs`).
fn set_config(board: &Arc<Board>, turn: u64) -> Function {
    let (writing, planned) = (Arc::clone(board), Arc::clone(board));
    Function::new("set_config", &[Text, Text, Bool], Give::Text, move |row| {
        // NULL counts as the empty text, the default of most settings.
        let value = row.text(1).unwrap_or_default();
        let Some(name) = row.text(0) else {
            return Ok(text(Some(value)));
        };
        if !name.contains('.') && writing.value(name).is_none() {
            return Err(unknown(name));
        }
        if !writing.request(turn, name, value, row.bool(2) == Some(true)) {
            let message = "set_config() was asked for too much in one statement";
            return Err(DataFusionError::ResourcesExhausted(message.to_owned()));
        }
        Ok(text(Some(value)))
    })
    .volatile()
    .bound_by(move || {
        let now = planned.turn();
        (now != turn).then(|| set_config(&planned, now))
    })
}

fn current_setting(
    board: &Board,
    row: &Row<'_>,
) -> datafusion::error::Result<datafusion::scalar::ScalarValue> {
    let Some(name) = row.text(0) else {
        return Ok(text(None::<String>));
    };
    let found = if name.contains('.') {
        board.custom(name).or_else(|| entry_text(row.options, name))
    } else {
        board.value(name)
    };
    if found.is_none() && row.bool(1) != Some(true) {
        return Err(unknown(name));
    }
    Ok(text(found))
}

fn unknown(name: &str) -> DataFusionError {
    let message = format!("unrecognized configuration parameter \"{name}\"");
    DataFusionError::Configuration(message)
}

/// The schemas that are searched for an unqualified name.
pub(super) fn search_path(options: &ConfigOptions, implicit: bool) -> Vec<String> {
    let implicit = implicit.then(|| "pg_catalog".to_owned());
    let own = &options.catalog.default_schema;
    let own = (own != TEMPORARY_SCHEMA).then(|| own.clone());
    implicit.into_iter().chain(own).collect()
}

#[cfg(test)]
mod tests {
    use coscan::session_settings::Published;
    use datafusion::physical_plan::{ExecutionPlan, collect};
    use datafusion::prelude::SessionContext;

    use super::*;

    async fn planned(session: &SessionContext) -> Arc<dyn ExecutionPlan> {
        let sql = "SELECT set_config('work_mem', '1GB', false)";
        let rows = session.sql(sql).await.unwrap();
        rows.create_physical_plan().await.unwrap()
    }

    /// B1: the statement fails while a part of it still runs on another thread.
    #[tokio::test]
    async fn a_request_after_the_failure_is_ignored() {
        let (session, board) = (SessionContext::new(), Arc::new(Board::default()));
        board.publish(vec![Published {
            name: "work_mem",
            ..Published::default()
        }]);
        session.register_udf(set_config(&board, board.turn()).into_udf());
        let late = planned(&session).await;
        board.end_turn();
        collect(late, session.task_ctx()).await.unwrap();
        assert!(board.take_requests().is_empty());
        // The request of the next statement counts.
        collect(planned(&session).await, session.task_ctx())
            .await
            .unwrap();
        assert_eq!(board.take_requests()["work_mem"].value, "1GB");
    }
}
