//! When did the statement at hand begin, and its transaction?
//!
//! `now()` and its siblings, and the words `now` and `today` in a text, are the moment at which the
//! transaction began; `statement_timestamp()` is that of the statement. Whoever has transactions
//! puts [`Moments`] into the extensions of the session's options and keeps them up to date. Without
//! them each statement is a transaction of its own.

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

/// When the statement and the transaction at hand began, in microseconds since 1970. Copies of the
/// options share it; it is no setting.
#[derive(Clone, Debug, Default)]
pub struct Moments(Arc<Inner>);

#[derive(Debug, Default)]
struct Inner {
    statement: AtomicI64,
    transaction: AtomicI64,
}

/// Outside of a transaction.
const NONE: i64 = 0;

impl Moments {
    /// A statement begins, and with it a transaction, if there is none.
    pub fn begin_statement(&self) {
        self.0.statement.store(now(), Ordering::Relaxed);
        self.begin_transaction();
    }

    /// A transaction begins, if there is none, at the moment at which the statement did.
    pub fn begin_transaction(&self) {
        if self.transaction().is_none() {
            let statement = self.0.statement.load(Ordering::Relaxed);
            self.0.transaction.store(statement, Ordering::Relaxed);
        }
    }

    /// The transaction ends.
    pub fn end_transaction(&self) {
        self.0.transaction.store(NONE, Ordering::Relaxed);
    }

    /// When the last statement began, in microseconds since 1970.
    #[must_use]
    pub fn last_statement_us(&self) -> i64 {
        self.0.statement.load(Ordering::Relaxed)
    }

    /// In a transaction, when it began.
    pub(crate) fn transaction(&self) -> Option<i64> {
        let began = self.0.transaction.load(Ordering::Relaxed);
        (began != NONE).then_some(began)
    }

    /// In a transaction, when its last statement began.
    pub(crate) fn statement(&self) -> Option<i64> {
        self.transaction().map(|_| self.last_statement_us())
    }

    pub(crate) fn of(options: &ConfigOptions) -> Option<&Self> {
        options.extensions.get::<Self>()
    }
}

/// Functions that know them are the same function at any moment.
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
