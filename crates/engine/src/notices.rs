//! What does a statement say beside its answer: that it found nothing to do, or did more than it
//! was asked?
//!
//! Idea: a list that is an extension of the session's configuration. Whoever opens the session adds
//! it there and takes from it when a statement has ended, also with an error; without the list
//! nothing is said. A server sends what it takes as `NoticeResponse`. Words and SQLSTATEs are
//! PostgreSQL's.
//! Not here: which of them a client wants (the server's `client_min_messages`).
//! A statement that is run again may say a thing twice, which is harmless.
//! Bounds: [`NOTICES_MAX`] wait; later ones are dropped.

use datafusion::prelude::SessionConfig;
use parking_lot::Mutex;

/// The most notices that wait: a DROP may name thousands of tables that do not exist.
const NOTICES_MAX: usize = 1_000;
/// PostgreSQL lists so many dropped objects.
const LISTED_MAX: usize = 100;
/// Success: the SQLSTATE of notices without one of their own.
const SUCCESS: &str = "00000";

/// How much a notice matters, the least first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// The statement did what it says.
    Notice,
    /// The statement is probably a mistake.
    Warning,
}

/// What a statement says beside its answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Notice {
    /// How much it matters.
    pub severity: Severity,
    /// The SQLSTATE.
    pub code: &'static str,
    /// One line.
    pub message: String,
    /// More lines, if there is more to say.
    pub detail: Option<String>,
}

impl Notice {
    /// A warning.
    #[must_use]
    pub fn warning(code: &'static str, message: impl Into<String>) -> Self {
        Self {
            severity: Severity::Warning,
            code,
            message: message.into(),
            detail: None,
        }
    }

    fn plain(code: &'static str, message: String) -> Self {
        Self {
            severity: Severity::Notice,
            code,
            message,
            detail: None,
        }
    }

    /// IF NOT EXISTS has found a table, a view or an index of this name.
    pub(crate) fn relation_exists(name: &str) -> Self {
        let message = format!("relation \"{name}\" already exists, skipping");
        Self::plain("42P07", message)
    }

    /// IF NOT EXISTS has found a schema of this name.
    pub(crate) fn schema_exists(name: &str) -> Self {
        let message = format!("schema \"{name}\" already exists, skipping");
        Self::plain("42P06", message)
    }

    /// IF EXISTS has found nothing of this kind and name.
    pub(crate) fn missing(what: &str, name: &str) -> Self {
        let message = format!("{what} \"{name}\" does not exist, skipping");
        Self::plain(SUCCESS, message)
    }

    /// IF NOT EXISTS has found a column of this name.
    pub(crate) fn column_exists(column: &str, table: &str) -> Self {
        let message =
            format!("column \"{column}\" of relation \"{table}\" already exists, skipping");
        Self::plain("42701", message)
    }

    /// IF EXISTS has found no column of this name.
    pub(crate) fn column_missing(column: &str, table: &str) -> Self {
        let message =
            format!("column \"{column}\" of relation \"{table}\" does not exist, skipping");
        Self::plain(SUCCESS, message)
    }

    /// IF EXISTS has found no function of this name and these types.
    pub(crate) fn missing_function(signature: &str) -> Self {
        let message = format!("function {signature} does not exist, skipping");
        Self::plain(SUCCESS, message)
    }

    /// CASCADE has dropped these views, too; `None` if there are none.
    pub(crate) fn cascades(views: &[&str]) -> Option<Self> {
        let said = |view: &&str| format!("drop cascades to view {view}");
        if let [view] = views {
            return Some(Self::plain(SUCCESS, said(view)));
        }
        let mut lines: Vec<String> = views.iter().take(LISTED_MAX).map(said).collect();
        lines.first()?;
        let (count, listed) = (views.len(), lines.len());
        if listed < count {
            let rest = count - listed;
            lines.push(format!(
                "and {rest} other objects (see server log for list)"
            ));
        }
        let message = format!("drop cascades to {count} other objects");
        Some(Self {
            detail: Some(lines.join("\n")),
            ..Self::plain(SUCCESS, message)
        })
    }
}

/// A session's notices that are still to be sent. They are an extension of its configuration.
#[derive(Debug, Default)]
pub struct Notices(Mutex<Vec<Notice>>);

impl Notices {
    /// Adds a notice.
    pub fn add(&self, notice: Notice) {
        let mut waiting = self.0.lock();
        if waiting.len() < NOTICES_MAX {
            waiting.push(notice);
        }
    }

    /// Takes all of them, in the order in which they came.
    #[must_use]
    pub fn take(&self) -> Vec<Notice> {
        std::mem::take(&mut *self.0.lock())
    }

    /// Adds a notice if somebody takes the notices of this session.
    pub(crate) fn say(config: &SessionConfig, notice: impl FnOnce() -> Notice) {
        if let Some(notices) = config.get_extension::<Self>() {
            notices.add(notice());
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests: a failure should panic")]
mod tests {
    use super::*;

    #[test]
    fn dropped_views_are_named_as_in_postgresql() {
        assert_eq!(Notice::cascades(&[]), None);
        let one = Notice::cascades(&["v"]).unwrap();
        assert_eq!(
            (one.message.as_str(), one.detail),
            ("drop cascades to view v", None)
        );
        let two = Notice::cascades(&["v", "w"]).unwrap();
        assert_eq!(two.message, "drop cascades to 2 other objects");
        let lines = "drop cascades to view v\ndrop cascades to view w";
        assert_eq!(two.detail.as_deref(), Some(lines));
        let many = Notice::cascades(&["v"; LISTED_MAX + 3]).unwrap();
        let detail = many.detail.unwrap();
        assert_eq!(detail.lines().count(), LISTED_MAX + 1);
        assert!(detail.ends_with("\nand 3 other objects (see server log for list)"));
    }

    #[test]
    fn notices_are_bounded_and_taken_once() {
        let notices = Notices::default();
        for number in 0..=NOTICES_MAX {
            notices.add(Notice::missing("table", &number.to_string()));
        }
        let taken = notices.take();
        assert_eq!(taken.len(), NOTICES_MAX);
        assert_eq!(taken[1].message, "table \"1\" does not exist, skipping");
        assert!(notices.take().is_empty());
    }
}
