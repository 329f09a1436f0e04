//! Saved settings: those at the start of a transaction, for ROLLBACK, and those with which the
//! session started, for RESET.
//!
//! Not here: SET LOCAL, which COMMIT undoes too (`local.rs`). Settings that apply to all sessions
//! (C2) are not restored, just as PostgreSQL does not undo ALTER SYSTEM.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use datafusion::common::config::{ConfigEntry, ConfigOptions};
use datafusion::error::Result;
use datafusion::prelude::SessionContext;

use super::local::Local;
use super::modes::{ISOLATION, READ_ONLY};
use super::options::{CHECKSUMS, MEMORY, entries, restore};
use super::values::Keepalive;
use super::{Report, SessionSettings};

/// One session's settings at some time.
#[derive(Clone, Debug)]
pub struct SavedSettings {
    pub(super) changed: BTreeMap<&'static str, String>,
    pub(super) timeouts: BTreeMap<&'static str, Duration>,
    pub(super) keepalive: Keepalive,
    pub(super) local: Local,
    pub(super) custom: BTreeMap<String, String>,
    pub(super) options: Arc<ConfigOptions>,
    pub(super) environment: BTreeMap<String, String>,
}

impl SavedSettings {
    /// Those of a session of which only the options are set.
    pub(super) fn of_options(options: Arc<ConfigOptions>) -> Self {
        Self {
            changed: BTreeMap::new(),
            timeouts: BTreeMap::new(),
            keepalive: Keepalive::default(),
            local: Local::new(),
            custom: BTreeMap::new(),
            options,
            environment: BTreeMap::new(),
        }
    }
}

impl SessionSettings {
    /// Makes the present values, such as those of a client's startup message, the ones that RESET
    /// restores, and publishes them.
    pub fn have_started(&mut self, context: &SessionContext) {
        self.initial = self.saved(context);
        self.publish(context);
    }

    /// RESET ALL: resets all settings but the modes of the current transaction, if it has set or
    /// kept them. Returns the changes to report to a client.
    ///
    /// # Errors
    /// As [`SessionSettings::bring_back`].
    pub async fn reset_all(&mut self, context: &SessionContext) -> Result<Vec<Report>> {
        let mut wanted = self.initial.clone();
        for mode in [READ_ONLY, ISOLATION] {
            if let Some(value) = self.changed.get(mode) {
                wanted.changed.insert(mode, value.clone());
            }
            if let Some(before) = self.local.get(mode) {
                wanted.local.insert(mode.to_owned(), before.clone());
            }
        }
        self.bring_back(context, wanted).await
    }

    /// The present settings, for [`SessionSettings::bring_back`].
    #[must_use]
    pub fn saved(&self, context: &SessionContext) -> SavedSettings {
        let options = Arc::clone(context.state_ref().read().config_options());
        SavedSettings {
            changed: self.changed.clone(),
            timeouts: self.timeouts.clone(),
            keepalive: self.keepalive,
            local: self.local.clone(),
            custom: self.board.all_custom(),
            options,
            environment: self.environment.clone(),
        }
    }

    /// Restores saved settings, all that it can even if one of them fails. Returns the changes to
    /// report to a client.
    ///
    /// # Errors
    /// If an option cannot have its old value.
    pub async fn bring_back(
        &mut self,
        context: &SessionContext,
        saved: SavedSettings,
    ) -> Result<Vec<Report>> {
        let before = self.reports(context);
        self.changed = saved.changed;
        self.timeouts = saved.timeouts;
        self.keepalive = saved.keepalive;
        self.local = saved.local;
        self.board.put_back_custom(saved.custom);
        let restored = restore_all(context, &saved.options).await;
        let environment = self.restore_environment(context, saved.environment);
        let restored = restored.and(environment.await);
        self.publish(context);
        restored?;
        let mut now = self.reports(context);
        now.retain(|report| !before.contains(report));
        Ok(now)
    }
}

/// Sets the session's options to the values in `wanted`.
async fn restore_all(context: &SessionContext, wanted: &Arc<ConfigOptions>) -> Result<()> {
    let now = Arc::clone(context.state_ref().read().config_options());
    if Arc::ptr_eq(&now, wanted) {
        return Ok(());
    }
    let now = entries(&now).into_iter();
    let now: BTreeMap<_, _> = now.map(|entry| (entry.key, entry.value)).collect();
    let mut outcome = Ok(());
    for ConfigEntry { key, value, .. } in entries(wanted) {
        if key != MEMORY && key != CHECKSUMS && now.get(&key) != Some(&value) {
            outcome = outcome.and(restore(context, &key, value).await);
        }
    }
    outcome
}
