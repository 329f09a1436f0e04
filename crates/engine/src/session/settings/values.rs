//! What does the text of a setting's value mean?
//!
//! Not here: which rule a setting has (`known.rs`), what a value changes (`mod.rs`).

use std::time::Duration;

use coscan_pg::PgError;
use datafusion::sql::sqlparser::ast::{Expr, Value};

use super::known::Known;

/// Linux's limits.
const KEEPALIVE_SECONDS_MAX: u32 = 32_767;
const KEEPALIVE_COUNT_MAX: u32 = 127;

/// The keepalive settings of a client's socket. A session without a client keeps them without
/// effect.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Keepalive {
    /// Seconds without a message until the first probe.
    pub idle_s: u32,
    /// Seconds between probes.
    pub interval_s: u32,
    /// Unanswered probes after which the client counts as gone.
    pub count: u32,
    /// How long sent bytes may wait for an answer; 0 leaves it to the system's limit on
    /// retransmissions.
    pub user_timeout_ms: u32,
}

impl Default for Keepalive {
    fn default() -> Self {
        Self {
            idle_s: 60,
            interval_s: 10,
            count: 6,
            user_timeout_ms: 0,
        }
    }
}

impl Keepalive {
    /// The field of the setting with this name; `None` if it is not one of these four.
    pub(super) fn setting(&mut self, name: &str) -> Option<&mut u32> {
        Some(match name {
            "tcp_keepalives_idle" => &mut self.idle_s,
            "tcp_keepalives_interval" => &mut self.interval_s,
            "tcp_keepalives_count" => &mut self.count,
            "tcp_user_timeout" => &mut self.user_timeout_ms,
            _ => return None,
        })
    }

    /// The number that a keepalive setting gets; 0 stands for its default.
    ///
    /// # Errors
    /// 22023.
    pub(super) fn number(name: &str, value: &str) -> Result<u32, PgError> {
        let of_seconds = || {
            let time = duration(value).filter(|time| time.subsec_nanos() == 0)?;
            u32::try_from(time.as_secs()).ok()
        };
        let of_ms = || u32::try_from(duration(value)?.as_millis()).ok();
        let (most, number) = match name {
            "tcp_user_timeout" => (u32::MAX, value.parse().ok().or_else(of_ms)),
            "tcp_keepalives_count" => (KEEPALIVE_COUNT_MAX, value.parse().ok()),
            _ => (
                KEEPALIVE_SECONDS_MAX,
                value.parse().ok().or_else(of_seconds),
            ),
        };
        let number = number.filter(|number| *number <= most);
        match number.ok_or_else(|| invalid(name, value))? {
            0 => {
                let mut defaults = Self::default();
                Ok(defaults.setting(name).copied().unwrap_or_default())
            }
            number => Ok(number),
        }
    }
}

/// The value that SET gives a setting; `None` for its default.
///
/// # Errors
/// 42601 for what is no value.
pub(super) fn given(values: &[Expr]) -> Result<Option<String>, PgError> {
    match values {
        [value] if is_default(value) => Ok(None),
        values => {
            let texts = values.iter().map(text).collect::<Result<Vec<_>, _>>()?;
            Ok(Some(texts.join(", ")))
        }
    }
}

fn is_default(value: &Expr) -> bool {
    let Expr::Identifier(word) = value else {
        return false;
    };
    let is = |text: &str| word.value.eq_ignore_ascii_case(text);
    word.quote_style.is_none() && (is("default") || is("local"))
}

/// The value of a setting as text: literals without their quotes, words folded.
fn text(value: &Expr) -> Result<String, PgError> {
    match value {
        Expr::Value(value) => match &value.value {
            Value::Number(digits, _) => Ok(digits.clone()),
            Value::Boolean(value) => Ok(value.to_string()),
            other => other
                .clone()
                .into_string()
                .ok_or_else(|| no_value(&other.to_string())),
        },
        Expr::Identifier(word) => Ok(match word.quote_style {
            Some(_) => word.value.clone(),
            None => word.value.to_ascii_lowercase(),
        }),
        Expr::CompoundIdentifier(_) | Expr::UnaryOp { .. } => {
            Ok(value.to_string().replace(' ', ""))
        }
        other => Err(no_value(&other.to_string())),
    }
}

fn no_value(text: &str) -> PgError {
    PgError::new("42601", format!("not a value for a setting: {text}"))
}

pub(super) fn invalid(name: &str, value: &str) -> PgError {
    let text = format!("invalid value for parameter {name:?}: {value:?}");
    PgError::new("22023", text)
}

/// The value of a Boolean setting.
///
/// # Errors
/// 22023.
pub(super) fn on_or_off(known: &Known, value: &str) -> Result<&'static str, PgError> {
    match boolean(value) {
        Some(true) => Ok("on"),
        Some(false) => Ok("off"),
        None => {
            let text = format!("parameter {:?} requires a Boolean value", known.name);
            Err(PgError::new("22023", text))
        }
    }
}

/// The value of a setting that has one of these.
///
/// # Errors
/// 22023.
pub(super) fn one_of(
    known: &Known,
    values: &[&'static str],
    value: &str,
) -> Result<&'static str, PgError> {
    let mut values = values.iter();
    let found = values.find(|one| one.eq_ignore_ascii_case(value));
    found.copied().ok_or_else(|| invalid(known.name, value))
}

/// Checks that a setting that never changes is given a word for its value.
///
/// # Errors
/// 22023.
pub(super) fn check_fixed(known: &Known, accepted: &[&str], value: &str) -> Result<(), PgError> {
    // asyncpg quotes its encoding.
    let wanted = value.trim_matches('\'').to_lowercase();
    if accepted.contains(&wanted.as_str()) {
        return Ok(());
    }
    let (name, default) = (known.name, known.default);
    let text = format!("{name} is always {default}: cannot be {value:?}");
    Err(PgError::new("22023", text))
}

/// Parses a boolean as PostgreSQL does: a prefix of a word is enough if it is unambiguous.
fn boolean(text: &str) -> Option<bool> {
    let text = text.to_ascii_lowercase();
    let begins = |words: [&str; 2]| words.iter().any(|word| word.starts_with(&text));
    match text.as_str() {
        "" | "o" => None,
        "on" | "1" => Some(true),
        "of" | "off" | "0" => Some(false),
        _ if begins(["true", "yes"]) => Some(true),
        _ if begins(["false", "no"]) => Some(false),
        _ => None,
    }
}

/// Parses a time as PostgreSQL does: a number of milliseconds, or a number with a unit.
#[must_use]
pub fn duration(text: &str) -> Option<Duration> {
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic() || c == ' ');
    let number: u64 = digits.parse().ok()?;
    let ms = match text[digits.len()..].trim() {
        "" | "ms" => number,
        "us" => number / 1000,
        "s" => number.checked_mul(1000)?,
        "min" => number.checked_mul(60_000)?,
        "h" => number.checked_mul(3_600_000)?,
        "d" => number.checked_mul(86_400_000)?,
        _ => return None,
    };
    (i32::try_from(ms).is_ok()).then(|| Duration::from_millis(ms))
}

/// A time as SHOW writes it.
pub(super) fn show_duration(duration: Duration) -> String {
    match duration.as_millis() {
        0 => "0".to_owned(),
        ms if ms.is_multiple_of(60_000) => format!("{}min", ms / 60_000),
        ms if ms.is_multiple_of(1000) => format!("{}s", ms / 1000),
        ms => format!("{ms}ms"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::session::settings::known::find;

    #[test]
    fn durations_parse_as_in_postgres() {
        assert_eq!(duration("250"), Some(Duration::from_millis(250)));
        assert_eq!(duration("2 min"), Some(Duration::from_secs(120)));
        assert_eq!(duration("-1"), None);
        assert_eq!(duration("9999999999999"), None);
        assert_eq!(show_duration(Duration::from_secs(5)), "5s");
    }

    #[test]
    fn a_prefix_of_a_boolean_is_enough_if_it_is_unambiguous() {
        for (text, expected) in [
            ("o", None),
            ("on", Some(true)),
            ("of", Some(false)),
            ("T", Some(true)),
            ("n", Some(false)),
            ("2", None),
            ("", None),
        ] {
            assert_eq!(boolean(text), expected, "{text}");
        }
    }

    #[test]
    fn keepalive_is_in_seconds_or_milliseconds() {
        let number = |name: &str, value: &str| Keepalive::number(name, value).ok();
        assert_eq!(number("tcp_keepalives_idle", "7"), Some(7));
        assert_eq!(number("tcp_keepalives_idle", "2min"), Some(120));
        assert_eq!(number("tcp_keepalives_idle", "1500ms"), None);
        assert_eq!(number("tcp_keepalives_idle", "0"), Some(60));
        assert_eq!(number("tcp_keepalives_count", "128"), None);
        assert_eq!(number("tcp_user_timeout", "2s"), Some(2000));
    }

    #[test]
    fn a_wrong_value_has_postgresqls_words() {
        let known = find("default_transaction_read_only").unwrap();
        let wrong = on_or_off(known, "perhaps").unwrap_err();
        let said = "parameter \"default_transaction_read_only\" requires a Boolean value";
        assert_eq!((wrong.code(), wrong.message()), ("22023", said));
        let known = find("client_min_messages").unwrap();
        assert_eq!(one_of(known, &["error"], "ERROR"), Ok("error"));
        let wrong = one_of(known, &["error"], "loud").unwrap_err();
        let said = "invalid value for parameter \"client_min_messages\": \"loud\"";
        assert_eq!((wrong.code(), wrong.message()), ("22023", said));
    }
}
