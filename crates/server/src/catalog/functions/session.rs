//! Functions about the session: its user, database and schemas.
//!
//! Not here: those about its settings (`coscan::session_settings`).

use coscan::TEMPORARY_SCHEMA;
use coscan::session_settings::VERSION;
use datafusion::config::ConfigOptions;

use super::Known;
use super::Take::Bool;
use super::function::{Function, Give, Row, boolean, text};

pub(super) fn functions(known: &Known) -> Vec<Function> {
    let constant = |name, value: String| {
        Function::new(name, &[], Give::Text, move |_: &Row<'_>| {
            Ok(text(Some(value.clone())))
        })
    };
    let pid = known.pid;
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
    ]
}

/// The schemas that are searched for an unqualified name.
pub(super) fn search_path(options: &ConfigOptions, implicit: bool) -> Vec<String> {
    let implicit = implicit.then(|| "pg_catalog".to_owned());
    let own = &options.catalog.default_schema;
    let own = (own != TEMPORARY_SCHEMA).then(|| own.clone());
    implicit.into_iter().chain(own).collect()
}
