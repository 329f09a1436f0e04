//! Saved settings: those at the start of a transaction, for ROLLBACK, and those after the startup
//! message, for RESET.
//!
//! Not here: SET LOCAL, which COMMIT undoes too (`local.rs`). Settings that apply to all sessions
//! (C2) are not restored, just as PostgreSQL does not undo ALTER SYSTEM.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use datafusion::common::config::{ConfigEntry, ConfigOptions};
use datafusion::prelude::SessionContext;

use super::local::Local;
use super::modes::{ISOLATION, READ_ONLY};
use super::{CHECKSUMS, MEMORY, Settings, entries, restore};
use crate::failure::Failure;
use crate::net::Keepalive;

/// One connection's settings at some time.
#[derive(Clone, Debug, Default)]
pub(crate) struct SavedSettings {
    pub(super) changed: BTreeMap<&'static str, String>,
    pub(super) timeouts: BTreeMap<&'static str, Duration>,
    pub(super) keepalive: Keepalive,
    pub(super) local: Local,
    pub(super) custom: BTreeMap<String, String>,
    pub(super) options: Arc<ConfigOptions>,
}

impl Settings {
    /// Makes the present values, which include the startup message, those that RESET restores.
    pub(crate) fn have_started(&mut self, session: &SessionContext) {
        self.initial = self.saved(session);
        self.publish(session);
    }

    /// Resets all settings but the modes of the current transaction, if they are
    /// [kept](Settings::keep_modes). Returns the changes to report to the client.
    pub(crate) async fn reset_all(
        &mut self,
        session: &SessionContext,
    ) -> Result<Vec<(&'static str, String)>, Failure> {
        let mut wanted = self.initial.clone();
        for mode in [READ_ONLY, ISOLATION] {
            if let Some(value) = self.changed.get(mode) {
                wanted.changed.insert(mode, value.clone());
            }
            if let Some(before) = self.local.get(mode) {
                wanted.local.insert(mode.to_owned(), before.clone());
            }
        }
        self.bring_back(session, wanted).await
    }

    pub(crate) fn saved(&self, session: &SessionContext) -> SavedSettings {
        let state = session.state_ref();
        let options = Arc::clone(state.read().config().options());
        SavedSettings {
            changed: self.changed.clone(),
            timeouts: self.timeouts.clone(),
            keepalive: self.keepalive,
            local: self.local.clone(),
            custom: self.board.all_custom(),
            options,
        }
    }

    /// Restores saved settings, all that it can even if one of them fails. Returns the changes to
    /// report to the client.
    pub(crate) async fn bring_back(
        &mut self,
        session: &SessionContext,
        saved: SavedSettings,
    ) -> Result<Vec<(&'static str, String)>, Failure> {
        let before = self.reports(session);
        self.changed = saved.changed;
        self.timeouts = saved.timeouts;
        self.keepalive = saved.keepalive;
        self.local = saved.local;
        self.board.put_back_custom(saved.custom);
        let restored = restore_all(session, &saved.options).await;
        self.publish(session);
        restored?;
        let mut now = self.reports(session);
        now.retain(|report| !before.contains(report));
        Ok(now)
    }
}

/// Sets the session's options to the values in `wanted`.
async fn restore_all(session: &SessionContext, wanted: &Arc<ConfigOptions>) -> Result<(), Failure> {
    let state = session.state();
    if Arc::ptr_eq(state.config().options(), wanted) {
        return Ok(());
    }
    let now = entries(state.config().options());
    let now: BTreeMap<_, _> = now
        .into_iter()
        .map(|entry| (entry.key, entry.value))
        .collect();
    let mut outcome = Ok(());
    for ConfigEntry { key, value, .. } in entries(wanted) {
        if key != MEMORY && key != CHECKSUMS && now.get(&key) != Some(&value) {
            outcome = outcome.and(restore(session, &key, value).await);
        }
    }
    outcome
}
