//! The client's own settings: `SET my.x = 'y'`.
//!
//! A dotted name whose first part is no prefix of the session's configuration belongs to the
//! client. Such a setting has no effect. The board keeps the value, because queries read it
//! (`current_setting`).

use datafusion::common::config::ConfigOptions;
use datafusion::prelude::SessionContext;

use super::{Settings, Shown, unknown};
use crate::failure::Failure;

/// The most bytes for the names and values of one connection's own settings together.
pub(super) const CUSTOM_BYTES_MAX: usize = 1 << 16;

/// Whether clients may use the name for a setting of their own.
pub(super) fn is_custom(session: &SessionContext, name: &str) -> bool {
    let state = session.state();
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

impl Settings {
    pub(super) fn set_custom(&self, name: &str, value: &str) -> Result<(), Failure> {
        if self.board.set_custom(name, value) {
            Ok(())
        } else {
            let text = format!("settings of a client's own take at most {CUSTOM_BYTES_MAX} bytes");
            Err(Failure::new("53400", text))
        }
    }

    pub(super) fn show_custom(&self, name: &str) -> Result<Vec<Shown>, Failure> {
        let value = self.board.custom(name).ok_or_else(|| unknown(name))?;
        Ok(vec![Shown {
            name: name.to_owned(),
            value: Some(value),
            description: "",
        }])
    }
}
