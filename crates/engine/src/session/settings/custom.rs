//! The client's own settings: `SET my.x = 'y'`.
//!
//! A dotted name whose first part is no prefix of the session's configuration belongs to the
//! client. Such a setting has no effect. The board keeps the value, because queries read it
//! (`current_setting`).
//! Bounds: [`CUSTOM_BYTES_MAX`].

use coscan_pg::PgError;
use datafusion::common::config::ConfigOptions;
use datafusion::prelude::SessionContext;

use super::SessionSettings;
use super::known::unknown;

/// The most bytes for the names and values of one session's own settings together.
pub(super) const CUSTOM_BYTES_MAX: usize = 1 << 16;

/// Whether clients may use the name for a setting of their own.
pub(super) fn is_custom(context: &SessionContext, name: &str) -> bool {
    let state = context.state_ref();
    let state = state.read();
    let is_taken = |prefix: &str| has_prefix(state.config_options(), prefix);
    name.split_once('.')
        .is_some_and(|(prefix, _)| !is_taken(prefix))
        && name.split('.').all(is_word)
}

fn has_prefix(options: &ConfigOptions, prefix: &str) -> bool {
    prefix == "datafusion" || options.extensions.iter().any(|(known, _)| known == prefix)
}

fn is_word(part: &str) -> bool {
    let mut characters = part.chars();
    let first = characters.next();
    first.is_some_and(|c| c.is_alphabetic() || c == '_')
        && characters.all(|c| c.is_alphanumeric() || c == '_' || c == '$')
}

impl SessionSettings {
    pub(super) fn set_custom(&self, name: &str, value: &str) -> Result<(), PgError> {
        if self.board.set_custom(name, value) {
            Ok(())
        } else {
            let text = format!("settings of a client's own take at most {CUSTOM_BYTES_MAX} bytes");
            Err(PgError::new("53400", text))
        }
    }

    pub(super) fn custom(&self, name: &str) -> Result<String, PgError> {
        self.board.custom(name).ok_or_else(|| unknown(name))
    }
}
