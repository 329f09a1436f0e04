//! How is an option of the session's configuration read and set, as text?
//!
//! Not here: which session may set it (`rights/settings.rs`).

use coscan_pg::PgError;
use datafusion::common::config::{ConfigEntry, ConfigOptions};
use datafusion::error::Result;
use datafusion::logical_expr::{LogicalPlan, ResetVariable, SetVariable, Statement};
use datafusion::prelude::SessionContext;

use super::known::unknown;
use crate::error::is_denied;
use crate::session_names::execute;

pub(super) const TIME_ZONE: &str = "datafusion.execution.time_zone";
pub(super) const DEFAULT_SCHEMA: &str = "datafusion.catalog.default_schema";
pub(super) const MEMORY: &str = "coscan.memory";
/// Applies to all sessions, like [`MEMORY`].
pub(super) const CHECKSUMS: &str = "coscan.checksums";

/// All options, each under the name that SET uses: an extension's keys may or may not have its
/// prefix.
pub(super) fn entries(options: &ConfigOptions) -> Vec<ConfigEntry> {
    let mut entries = options.entries();
    entries.retain(|entry| entry.key.starts_with("datafusion."));
    for (prefix, extension) in options.extensions.iter() {
        entries.extend(extension.entries().into_iter().map(|mut entry| {
            if !entry
                .key
                .strip_prefix(prefix)
                .is_some_and(|key| key.starts_with('.'))
            {
                entry.key = format!("{prefix}.{}", entry.key);
            }
            entry
        }));
    }
    entries
}

/// The value of an option; the inner `None` stands for an option without one.
///
/// # Errors
/// 42704 if there is no such option.
pub(super) fn entry(options: &ConfigOptions, name: &str) -> Result<Option<String>, PgError> {
    let entry = entries(options).into_iter().find(|entry| entry.key == name);
    entry.map(|entry| entry.value).ok_or_else(|| unknown(name))
}

/// The value of an option as text; `None` if there is no such option, or it has no value.
#[must_use]
pub fn entry_text(options: &ConfigOptions, name: &str) -> Option<String> {
    entry(options, &name.to_lowercase()).ok().flatten()
}

/// Sets an option of the session's configuration, and refreshes the functions that depend on it.
///
/// # Errors
/// [`Error::Denied`](crate::Error::Denied); the option's, with PostgreSQL's SQLSTATE.
pub(super) async fn configure(context: &SessionContext, name: &str, value: &str) -> Result<()> {
    let set = SetVariable {
        variable: name.to_owned(),
        value: value.to_owned(),
    };
    let plan = LogicalPlan::Statement(Statement::SetVariable(set));
    match execute(context, context.state(), plan).await {
        Ok(_) => Ok(()),
        Err(error) if is_denied(&error) => Err(error),
        Err(error) => {
            let text = error.strip_backtrace();
            Err(PgError::new(coscan_pg::configuration_code(&text), text).into())
        }
    }
}

/// Gives an option a value that it had.
///
/// # Errors
/// As [`configure`].
pub(super) async fn restore(
    context: &SessionContext,
    name: &str,
    value: Option<String>,
) -> Result<()> {
    if let Some(value) = value {
        return configure(context, name, &value).await;
    }
    // A SET, which takes text, could not restore an option that has no value.
    let reset = ResetVariable {
        variable: name.to_owned(),
    };
    let plan = LogicalPlan::Statement(Statement::ResetVariable(reset));
    context.execute_logical_plan(plan).await.map(drop)
}
