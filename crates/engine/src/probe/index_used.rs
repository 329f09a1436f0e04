//! Which of several candidate indexes did a scan use? EXPLAIN ANALYZE shows it.

use std::any::Any;
use std::fmt;
use std::sync::{Arc, OnceLock};

use datafusion::physical_plan::metrics::CustomMetricValue;

/// An index's name; empty until it is known, or if no index could be used. The aggregate of
/// several executions has the name of the first one.
#[derive(Debug, Default)]
pub(super) struct IndexUsed(OnceLock<String>);

impl IndexUsed {
    pub(super) fn set(&self, name: &str) {
        self.0.get_or_init(|| name.to_owned());
    }
}

impl fmt::Display for IndexUsed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0.get().map_or("", String::as_str))
    }
}

impl CustomMetricValue for IndexUsed {
    fn new_empty(&self) -> Arc<dyn CustomMetricValue> {
        Arc::new(Self::default())
    }

    fn aggregate(&self, other: Arc<dyn CustomMetricValue>) {
        if let Some(other) = other.as_any().downcast_ref::<Self>()
            && let Some(name) = other.0.get()
        {
            self.set(name);
        }
    }

    fn as_any(&self) -> &dyn Any {
        self
    }

    fn is_eq(&self, other: &Arc<dyn CustomMetricValue>) -> bool {
        let other = other.as_any().downcast_ref::<Self>();
        other.is_some_and(|other| self.0.get() == other.0.get())
    }
}
