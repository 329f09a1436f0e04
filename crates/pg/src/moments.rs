//! When did the current statement and its transaction begin?
//!
//! `now()` and related functions, and the words `now` and `today` in a text, refer to the start of
//! the transaction; `statement_timestamp()` refers to the start of the statement. A caller with
//! transactions puts [`Moments`] into the extensions of the session's options and updates them.
//! Without them each statement is a transaction of its own.

use std::any::Any;
use std::hash::{Hash, Hasher};
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use datafusion::common::config::{ConfigEntry, ConfigExtension, ExtensionOptions};
use datafusion::common::config_err;
use datafusion::config::ConfigOptions;
use datafusion::error::Result;

/// Microseconds since 1970.
pub(crate) fn now() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |since| {
        i64::try_from(since.as_micros()).unwrap_or(i64::MAX)
    })
}

/// When the current statement and transaction began, in microseconds since 1970. Copies of the
/// options share it, and it is not a setting.
#[derive(Clone, Debug, Default)]
pub struct Moments(Arc<Inner>);

#[derive(Debug, Default)]
struct Inner {
    statement: AtomicI64,
    transaction: AtomicI64,
}

/// The value outside of a transaction.
const NONE: i64 = 0;

impl Moments {
    /// Notes the start of a statement, and of a transaction if there is none.
    pub fn begin_statement(&self) {
        self.0.statement.store(now(), Ordering::Relaxed);
        self.begin_transaction();
    }

    /// Notes that a transaction began with the current statement, if there is none.
    pub fn begin_transaction(&self) {
        if self.transaction().is_none() {
            let statement = self.0.statement.load(Ordering::Relaxed);
            self.0.transaction.store(statement, Ordering::Relaxed);
        }
    }

    /// Notes the end of the transaction.
    pub fn end_transaction(&self) {
        self.0.transaction.store(NONE, Ordering::Relaxed);
    }

    /// When the last statement began, in microseconds since 1970.
    #[must_use]
    pub fn last_statement_us(&self) -> i64 {
        self.0.statement.load(Ordering::Relaxed)
    }

    /// Those of a statement in a transaction that began at this time, in microseconds since 1970,
    /// on another node.
    #[must_use]
    pub fn of_transaction(began_us: i64) -> Self {
        let began = || AtomicI64::new(began_us);
        Self(Arc::new(Inner {
            statement: began(),
            transaction: began(),
        }))
    }

    /// When the current transaction began, in microseconds since 1970; `None` outside of one.
    #[must_use]
    pub fn transaction(&self) -> Option<i64> {
        let began = self.0.transaction.load(Ordering::Relaxed);
        (began != NONE).then_some(began)
    }

    /// When the last statement of the current transaction began; `None` outside of one.
    pub(crate) fn statement(&self) -> Option<i64> {
        self.transaction().map(|_| self.last_statement_us())
    }

    /// Those of a session with these options, if it has any.
    #[must_use]
    pub fn of(options: &ConfigOptions) -> Option<&Self> {
        options.extensions.get::<Self>()
    }
}

/// Moments are always equal, so that functions that hold them compare as equal.
impl PartialEq for Moments {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl Eq for Moments {}

impl Hash for Moments {
    fn hash<H: Hasher>(&self, _: &mut H) {}
}

impl ConfigExtension for Moments {
    const PREFIX: &'static str = "coscan_moments";
}

impl ExtensionOptions for Moments {
    fn as_any(&self) -> &dyn Any {
        self
    }

    fn as_any_mut(&mut self) -> &mut dyn Any {
        self
    }

    fn cloned(&self) -> Box<dyn ExtensionOptions> {
        Box::new(self.clone())
    }

    fn set(&mut self, key: &str, _: &str) -> Result<()> {
        config_err!("no setting: {key:?}")
    }

    fn entries(&self) -> Vec<ConfigEntry> {
        vec![]
    }
}
