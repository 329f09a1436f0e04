//! How is an option of the session's configuration read and set, as text?
//!
//! `datafusion.runtime.*` are options of the environment in which the session's queries run. SET
//! gives the session an environment of its own, outside of what all sessions share. Idea: an
//! environment cannot give back one option, so RESET and ROLLBACK return to the one with which the
//! session began, and set what is to stay once more.
//! Not here: which session may set it (`rights/settings.rs`).

use std::collections::BTreeMap;
use std::sync::Arc;

use coscan_pg::PgError;
use datafusion::common::config::{ConfigEntry, ConfigOptions};
use datafusion::error::Result;
use datafusion::execution::SessionStateBuilder;
use datafusion::execution::runtime_env::RuntimeEnv;
use datafusion::logical_expr::{LogicalPlan, ResetVariable, SetVariable, Statement};
use datafusion::prelude::SessionContext;

use super::SessionSettings;
use super::known::unknown;
use crate::error::is_denied;
use crate::session_names::execute;

pub(super) const TIME_ZONE: &str = "datafusion.execution.time_zone";
pub(super) const DEFAULT_SCHEMA: &str = "datafusion.catalog.default_schema";
pub(super) const MEMORY: &str = "coscan.memory";
/// Applies to all sessions, like [`MEMORY`].
pub(super) const CHECKSUMS: &str = "coscan.checksums";

/// The prefix of the options of the environment.
const ENVIRONMENT: &str = "datafusion.runtime.";
/// Is in the names of the options of DataFusion's caches.
const CACHE: &str = "_cache_";
/// Names a folder of the server.
const FOLDER: &str = "datafusion.runtime.temp_directory";

/// Whether an option is one of the environment.
pub(super) fn is_of_environment(name: &str) -> bool {
    name.starts_with(ENVIRONMENT)
}

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

impl SessionSettings {
    /// The options of the environment, without values that the session may not see.
    pub(super) fn of_environment(&self, context: &SessionContext) -> Vec<ConfigEntry> {
        let mut entries = context.runtime_env().config_entries();
        if !self.may_name_files() {
            entries.retain(|entry| entry.key != FOLDER);
        }
        entries
    }

    /// An option of the environment, as [`entry`].
    ///
    /// # Errors
    /// 42704 if there is no such option.
    pub(super) fn environment_entry(
        &self,
        context: &SessionContext,
        name: &str,
    ) -> Result<Option<String>, PgError> {
        let mut entries = self.of_environment(context).into_iter();
        let entry = entries.find(|entry| entry.key == name);
        entry.map(|entry| entry.value).ok_or_else(|| unknown(name))
    }

    /// SET of an option of the environment.
    ///
    /// # Errors
    /// As [`configure`]; 42704 if there is no such option.
    pub(super) async fn set_environment(
        &mut self,
        context: &SessionContext,
        name: &str,
        value: &str,
    ) -> Result<()> {
        let before = self.environment_entry(context, name)?;
        configure(context, name, value).await?;
        if let Some(before) = before
            && name.contains(CACHE)
        {
            self.first_caches.entry(name.to_owned()).or_insert(before);
        }
        self.environment.insert(name.to_owned(), value.to_owned());
        Ok(())
    }

    /// RESET of an option of the environment.
    ///
    /// # Errors
    /// As [`SessionSettings::set_environment`].
    pub(super) async fn reset_environment(
        &mut self,
        context: &SessionContext,
        name: &str,
    ) -> Result<()> {
        self.environment_entry(context, name)?;
        let mut wanted = self.environment.clone();
        match self.initial.environment.get(name) {
            Some(value) => wanted.insert(name.to_owned(), value.clone()),
            None => wanted.remove(name),
        };
        self.restore_environment(context, wanted).await
    }

    /// Gives the session the environment with which it began, but for these options.
    ///
    /// # Errors
    /// As [`configure`].
    pub(super) async fn restore_environment(
        &mut self,
        context: &SessionContext,
        wanted: BTreeMap<String, String>,
    ) -> Result<()> {
        if self.environment == wanted {
            return Ok(());
        }
        put_environment(context, &self.first_environment);
        // Environments share their caches, whose limits SET has changed for all of them.
        for (name, value) in &self.first_caches {
            configure(context, name, value).await?;
        }
        for (name, value) in &wanted {
            configure(context, name, value).await?;
        }
        self.environment = wanted;
        Ok(())
    }
}

/// Has the session's queries run in this environment, as DataFusion's SET does.
fn put_environment(context: &SessionContext, environment: &Arc<RuntimeEnv>) {
    let state = context.state_ref();
    let mut state = state.write();
    *state = SessionStateBuilder::from(state.clone())
        .with_runtime_env(Arc::clone(environment))
        .build();
}
