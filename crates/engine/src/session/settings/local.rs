//! Settings that last until the end of a transaction, and settings that functions change.
//!
//! SET LOCAL saves the old value of a setting before it changes it, and the end of the transaction
//! restores it, whether it commits or rolls back. The statements of one message, or of the messages
//! up to a Sync, are a transaction. Outside of one SET LOCAL does nothing.
//! A plain SET in the transaction lasts.

use std::collections::BTreeMap;

use datafusion::error::Result;
use datafusion::prelude::SessionContext;

use super::custom::is_custom;
use super::known::find;
use super::options::{entry, is_of_environment};
use super::{Report, SessionSettings, modes};

/// The old value of each setting; `None` for the default.
pub(super) type Local = BTreeMap<String, Option<String>>;

impl SessionSettings {
    /// Carries out the `set_config()` requests of the statement that has just run. It is in a
    /// transaction, which keeps its modes if their defaults change.
    ///
    /// # Errors
    /// As [`SessionSettings::set`].
    pub async fn grant(&mut self, context: &SessionContext) -> Result<Vec<Report>> {
        self.keep_modes(context)?;
        let mut reports = Vec::new();
        for (name, request) in self.board.take_requests() {
            if request.local || modes::default_of(&name).is_some() {
                self.remember(context, &name)?;
            } else {
                self.forget(&name);
            }
            reports.extend(self.set(context, &name, &request.value).await?);
        }
        Ok(reports)
    }

    /// Whether the statement that has just run left requests.
    #[must_use]
    pub fn has_requests(&self) -> bool {
        self.board.has_requests()
    }

    /// Drops the requests of an abandoned statement.
    pub fn drop_requests(&self) {
        drop(self.board.take_requests());
    }

    /// Drops the requests of a failed statement, including those it leaves later: parts of it may
    /// still run.
    pub fn end_turn(&self) {
        self.board.end_turn();
    }

    /// Saves a setting's value for [`SessionSettings::end_transaction`] to restore.
    pub(super) fn remember(&mut self, context: &SessionContext, name: &str) -> Result<()> {
        let now = if is_custom(context, name) {
            self.board.custom(name)
        } else if is_of_environment(name) {
            self.environment.get(name).cloned()
        } else if name.contains('.') {
            entry(context.state_ref().read().config_options(), name)?
        } else {
            self.changed.get(find(name)?.name).cloned()
        };
        self.local.entry(name.to_owned()).or_insert(now);
        Ok(())
    }

    /// Drops the saved value of a setting, so that a new value lasts.
    pub(super) fn forget(&mut self, name: &str) {
        self.local.remove(name);
    }

    /// Restores all settings that SET LOCAL changed, even if one of them fails.
    ///
    /// # Errors
    /// As [`SessionSettings::set`].
    pub async fn end_transaction(&mut self, context: &SessionContext) -> Result<Vec<Report>> {
        let mut reports = Vec::new();
        let mut failure = None;
        for (name, value) in std::mem::take(&mut self.local) {
            let restored = match value {
                Some(value) => self.set(context, &name, &value).await,
                None => self.reset(context, &name).await,
            };
            match restored {
                Ok(report) => reports.extend(report),
                Err(error) => failure = Some(error),
            }
        }
        match failure {
            Some(failure) => Err(failure),
            None => Ok(reports),
        }
    }
}
