//! Does a stream belong to the first execution of a plan node?
//!
//! What a node shares it can share once: a second execution runs the plan as it is.

use std::sync::Arc;

use parking_lot::Mutex;

/// The first execution of a node, for as long as not all its partitions are open. The streams keep
/// it alive after that.
pub(super) struct FirstExecution<E>(Mutex<State<E>>);

enum State<E> {
    Not,
    /// Not all partitions are open yet.
    Partly(Arc<E>, Vec<bool>),
    Wholly,
}

impl<E> FirstExecution<E> {
    pub(super) fn new() -> Self {
        Self(Mutex::new(State::Not))
    }

    /// The execution of a stream that is being opened; `None` if it is not the first execution.
    pub(super) fn open(
        &self,
        partition: usize,
        partitions: usize,
        make: impl FnOnce() -> E,
    ) -> Option<Arc<E>> {
        let mut state = self.0.lock();
        if let State::Not = *state {
            *state = State::Partly(Arc::new(make()), vec![false; partitions]);
        }
        let State::Partly(execution, opened) = &mut *state else {
            return None;
        };
        let is_open = opened.get_mut(partition)?;
        if std::mem::replace(is_open, true) {
            return None;
        }
        let execution = Arc::clone(execution);
        if opened.iter().all(|opened| *opened) {
            *state = State::Wholly;
        }
        Some(execution)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_partition_is_opened_once() {
        let first = FirstExecution::new();
        let one = first.open(1, 2, || "made").unwrap();
        assert!(first.open(1, 2, || "again").is_none());
        assert!(Arc::ptr_eq(&one, &first.open(0, 2, || "again").unwrap()));
        assert!(first.open(0, 2, || "again").is_none());
        assert_eq!(
            Arc::strong_count(&one),
            1,
            "the streams keep it, not the node"
        );
    }
}
