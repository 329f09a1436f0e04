//! Which statements are about settings, and which setting does each name?
//!
//! Not here: what they do to a session's settings (`mod.rs`).

use coscan_pg::PgError;
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::sql::parser::{ResetStatement, Statement as DfStatement};
use datafusion::sql::sqlparser::ast::{
    ContextModifier, Ident, ObjectName, ObjectNamePart, Reset, Set, Statement as SqlStatement,
};

use super::shown::show_schema;
use crate::notices::Notice;
use crate::running::SHOW;

/// The SQLSTATE of statements that need a transaction.
const OUTSIDE: &str = "25P01";

/// A statement about the session's settings.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SettingStatement {
    /// SET.
    Set(Box<Set>),
    /// RESET of the setting of this name; `None` for all settings.
    Reset(Option<String>),
    /// SHOW of the setting of this name, or of `all`.
    Show(String),
}

impl SettingStatement {
    /// What a parsed statement asks of the settings; `None` for a statement about something else.
    ///
    /// # Errors
    /// 42601 for RESET of words that are no setting.
    pub fn of(statement: &DfStatement) -> Result<Option<Self>, PgError> {
        Ok(match statement {
            DfStatement::Reset(ResetStatement::Variable(words)) => Some(reset_by_words(words)?),
            DfStatement::Statement(statement) => Self::of_sql(statement),
            _ => None,
        })
    }

    fn of_sql(statement: &SqlStatement) -> Option<Self> {
        Some(match statement {
            SqlStatement::Set(set) => Self::Set(Box::new(set.clone())),
            SqlStatement::ShowVariable { variable } => Self::Show(shown(variable)),
            SqlStatement::Reset(reset) => Self::Reset(match &reset.reset {
                Reset::ALL => None,
                Reset::ConfigurationParameter(name) => {
                    Some(name.to_string().to_lowercase().replace('"', ""))
                }
            }),
            _ => return None,
        })
    }

    /// Whether it changes settings, which ROLLBACK restores.
    #[must_use]
    pub fn changes(&self) -> bool {
        !matches!(self, Self::Show(_))
    }

    /// Whether it may be too late for the transaction's modes that it sets. PostgreSQL 15 lets
    /// RESET change them at any time.
    #[must_use]
    pub fn may_be_late(&self) -> bool {
        matches!(self, Self::Set(_))
    }

    /// The columns of its rows; `None` if it has none.
    #[must_use]
    pub fn schema(&self) -> Option<SchemaRef> {
        match self {
            Self::Show(name) => Some(show_schema(name)),
            Self::Set(_) | Self::Reset(_) => None,
        }
    }

    /// The tag of its answer.
    #[must_use]
    pub fn tag(&self) -> &'static str {
        match self {
            Self::Set(_) => "SET",
            Self::Reset(_) => "RESET",
            Self::Show(_) => SHOW,
        }
    }

    /// The warning outside of a transaction block, for a statement whose effect ends with its
    /// transaction.
    #[must_use]
    pub fn warning(&self) -> Option<Notice> {
        let Self::Set(set) = self else {
            return None;
        };
        let name = match &**set {
            Set::SingleAssignment {
                scope: Some(ContextModifier::Local),
                ..
            }
            | Set::SetTimeZone { local: true, .. } => "SET LOCAL",
            Set::SetTransaction { session: false, .. } => "SET TRANSACTION",
            _ => return None,
        };
        let told = format!("{name} can only be used in transaction blocks");
        Some(Notice::warning(OUTSIDE, told))
    }
}

/// The setting that SHOW names.
fn shown(variable: &[Ident]) -> String {
    let words = variable.iter().map(|word| word.value.to_lowercase());
    let words: Vec<String> = words.collect();
    match of_words(&words) {
        Some(name) => name.to_owned(),
        None => words.join("."),
    }
}

/// The setting that SHOW and RESET call by several words, which are in lower case.
fn of_words(words: &[String]) -> Option<&'static str> {
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    match words.as_slice() {
        ["time", "zone"] => Some("timezone"),
        ["transaction", "isolation", "level"] => Some("transaction_isolation"),
        ["session", "authorization"] => Some("session_authorization"),
        _ => None,
    }
}

/// RESET of several words. Only DataFusion's parser accepts them, as the parts of one name: a name
/// with dots is read by the other parser.
fn reset_by_words(name: &ObjectName) -> Result<SettingStatement, PgError> {
    let parts = name.0.iter().filter_map(ObjectNamePart::as_ident);
    let words: Vec<String> = parts.map(|part| part.value.to_lowercase()).collect();
    match (of_words(&words), words.as_slice()) {
        (Some(name), _) => Ok(SettingStatement::Reset(Some(name.to_owned()))),
        (None, [name]) => Ok(SettingStatement::Reset(Some(name.clone()))),
        (None, words) => {
            let last = words.last().map_or("RESET", String::as_str);
            let text = format!("syntax error at or near {last:?}");
            Err(PgError::new("42601", text))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::statement::{StatementText, parse_postgresql};

    fn of(sql: &str) -> Result<Option<SettingStatement>, PgError> {
        let parsed = parse_postgresql(StatementText::whole(sql).unwrap());
        let parsed = parsed.map_err(|error| coscan_pg::translate(&error, &|_| None))?;
        SettingStatement::of(&parsed[0])
    }

    #[test]
    fn a_setting_is_named_by_one_word_or_several() {
        let show = |name: &str| Ok(Some(SettingStatement::Show(name.to_owned())));
        let reset = |name: &str| Ok(Some(SettingStatement::Reset(Some(name.to_owned()))));
        assert_eq!(of("SHOW ALL"), show("all"));
        assert_eq!(of("SHOW TIME ZONE"), show("timezone"));
        assert_eq!(of("show DateStyle"), show("datestyle"));
        assert_eq!(of("SHOW coscan.policy"), show("coscan.policy"));
        assert_eq!(of("RESET ALL"), Ok(Some(SettingStatement::Reset(None))));
        for (words, setting) in [
            ("TIME ZONE", "timezone"),
            ("\"TimeZone\"", "timezone"),
            ("Transaction Isolation Level", "transaction_isolation"),
            ("SESSION AUTHORIZATION", "session_authorization"),
            ("Coscan.Policy", "coscan.policy"),
            ("my.time", "my.time"),
        ] {
            assert_eq!(of(&format!("RESET {words}")), reset(setting), "{words}");
        }
        for wrong in ["RESET foo bar", "RESET TIME ZONE now"] {
            assert_eq!(of(wrong).unwrap_err().code(), "42601", "{wrong}");
        }
        assert_eq!(of("SELECT 1"), Ok(None));
    }

    #[test]
    fn what_lasts_as_long_as_a_transaction_warns_outside_of_a_block() {
        for (sql, name) in [
            ("SET LOCAL work_mem = '1MB'", Some("SET LOCAL")),
            ("SET LOCAL TIME ZONE 'UTC'", Some("SET LOCAL")),
            ("SET TRANSACTION READ ONLY", Some("SET TRANSACTION")),
            ("SET work_mem = '1MB'", None),
            ("SET SESSION CHARACTERISTICS AS TRANSACTION READ ONLY", None),
            ("SHOW work_mem", None),
        ] {
            let warning = of(sql).unwrap().unwrap().warning();
            let said = name.map(|name| format!("{name} can only be used in transaction blocks"));
            assert_eq!(warning.map(|warning| warning.message), said, "{sql}");
        }
    }
}
