//! Which subtrees of one plan are equal, so that they run once?
//!
//! Aggregates with one key: a query in WITH that is named several times and whose mentions ask the
//! same of it, or a view. All places read one list of their rows (`crate::once`), whatever the
//! order in which they are read. (Two packets of one run cannot do that: where one must wait for
//! the other, a join of both would wait for itself.)
//! Refused: other subtrees. Lists keep their rows until the query ends; joins and sorts have as
//! many rows as what they read, and to keep these may cost more than to make them.
//! I9 holds: a subtree without a key is computed wherever it stands.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::sync::Arc;

use coscan_core::operators::OperatorKind;

use super::node::Noted;
use crate::once::Shared;
use crate::operators::OperatorKey;

/// What EXPLAIN shows of them.
pub(super) const NAME: &str = "equal subtrees";

/// The equal subtrees of a plan.
#[derive(Default)]
pub(super) struct Equal {
    found: RefCell<BTreeMap<OperatorKey, Found>>,
}

#[derive(Default)]
struct Found {
    places: usize,
    /// Once one place is planned.
    shared: Option<Arc<Shared>>,
}

impl Equal {
    /// Those of a plan. What is below an equal subtree counts once. `key` gives the key of a node
    /// that is worth sharing.
    pub(super) fn of(plan: &Noted, key: &impl Fn(&Noted) -> Option<OperatorKey>) -> Self {
        let mut found = BTreeMap::new();
        count(plan, key, &mut found);
        found.retain(|_, found| found.places > 1);
        Self {
            found: RefCell::new(found),
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.found.borrow().is_empty()
    }

    /// Whether subtrees with this key are equal.
    pub(super) fn has(&self, key: &OperatorKey) -> bool {
        self.found.borrow().contains_key(key)
    }

    /// The plan of equal subtrees, if one of them has been planned.
    pub(super) fn planned(&self, key: &OperatorKey) -> Option<Arc<Shared>> {
        self.found.borrow().get(key)?.shared.clone()
    }

    pub(super) fn plan(&self, key: OperatorKey, shared: &Arc<Shared>) {
        let mut found = self.found.borrow_mut();
        found.entry(key).or_default().shared = Some(Arc::clone(shared));
    }
}

/// Whether the rows of a node are few beside those that it reads.
pub(super) fn condenses(noted: &Noted) -> bool {
    matches!(
        noted.kind,
        Some(OperatorKind::Aggregate | OperatorKind::SingleAggregate)
    )
}

fn count(
    noted: &Noted,
    key: &impl Fn(&Noted) -> Option<OperatorKey>,
    found: &mut BTreeMap<OperatorKey, Found>,
) {
    if let Some(key) = key(noted) {
        let found = found.entry(key).or_default();
        found.places += 1;
        if found.places > 1 {
            return;
        }
    }
    for child in &noted.children {
        count(child, key, found);
    }
}
