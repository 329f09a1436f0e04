//! Settings that last until the end of a transaction, and settings that functions change.
//!
//! SET LOCAL saves the old value of a setting before it changes it, and the end of the transaction
//! restores it, whether it commits or rolls back. The statements of one message, or of the messages
//! up to a Sync, are a transaction. Outside of one SET LOCAL does nothing.
//! A plain SET in the transaction lasts.

use std::collections::BTreeMap;

use datafusion::prelude::SessionContext;

use super::custom::is_custom;
use super::{Settings, entry, find, modes};
use crate::failure::Failure;

/// The old value of each setting; `None` for the default.
pub(super) type Local = BTreeMap<String, Option<String>>;

impl Settings {
    /// Carries out the `set_config()` requests of the statement that has just run. It is in a
    /// transaction.
    pub(crate) async fn grant(
        &mut self,
        session: &SessionContext,
    ) -> Result<Vec<(&'static str, String)>, Failure> {
        let mut reports = Vec::new();
        for (name, request) in self.board.take_requests() {
            if request.local || modes::default_of(&name).is_some() {
                self.remember(session, &name)?;
            } else {
                self.forget(&name);
            }
            reports.extend(self.set(session, &name, &request.value).await?);
        }
        Ok(reports)
    }

    /// Whether the statement that has just run left requests.
    pub(crate) fn has_requests(&self) -> bool {
        self.board.has_requests()
    }

    /// Drops the requests of an abandoned statement.
    pub(crate) fn drop_requests(&self) {
        self.board.take_requests();
    }

    /// Drops the requests of a failed statement, including those it leaves later: parts of it may
    /// still run.
    pub(crate) fn end_turn(&self) {
        self.board.end_turn();
    }

    /// Saves a setting's value for [`Settings::end_transaction`] to restore.
    pub(super) fn remember(&mut self, session: &SessionContext, name: &str) -> Result<(), Failure> {
        let now = if is_custom(session, name) {
            self.board.custom(name)
        } else if name.contains('.') {
            entry(session.state().config().options(), name)?
        } else {
            self.changed.get(find(name)?.name).cloned()
        };
        self.local.entry(name.to_owned()).or_insert(now);
        Ok(())
    }

    /// Drops the saved value of a setting, so that a new value lasts.
    pub(crate) fn forget(&mut self, name: &str) {
        self.local.remove(name);
    }

    /// Restores all settings that SET LOCAL changed, even if one of them fails.
    pub(crate) async fn end_transaction(
        &mut self,
        session: &SessionContext,
    ) -> Result<Vec<(&'static str, String)>, Failure> {
        let mut reports = Vec::new();
        let mut failure = None;
        for (name, value) in std::mem::take(&mut self.local) {
            let restored = match value {
                Some(value) => self.set(session, &name, &value).await,
                None => self.reset(session, &name).await,
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
