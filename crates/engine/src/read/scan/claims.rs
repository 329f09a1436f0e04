//! Which worker processes a chunk for an execution?
//!
//! A query counts the rows of a chunk once. Either one of its streams processes the chunk, or a
//! chunk job that another query began. Each such worker claims the chunk first; a worker whose
//! claim fails leaves the chunk alone.
//! I5: for an execution, exactly one of the workers that claim a chunk processes it.

use parking_lot::Mutex;

/// The chunks that a worker has claimed, for one execution.
pub(crate) struct Claims {
    claimed: Mutex<Vec<bool>>,
}

impl Claims {
    /// A state in which none of `chunks` chunks is claimed.
    pub(crate) fn new(chunks: usize) -> Self {
        Self {
            claimed: Mutex::new(vec![false; chunks]),
        }
    }

    /// Claims a chunk; false if it is already claimed.
    pub(crate) fn claim(&self, chunk: usize) -> bool {
        self.claimed
            .lock()
            .get_mut(chunk)
            .is_some_and(|claimed| !std::mem::replace(claimed, true))
    }

    /// Whether the chunk is claimed.
    pub(crate) fn is_claimed(&self, chunk: usize) -> bool {
        self.claimed.lock().get(chunk).copied().unwrap_or(true)
    }

    /// Gives back a claimed chunk of which no row was counted.
    pub(crate) fn give_back(&self, chunk: usize) {
        if let Some(claimed) = self.claimed.lock().get_mut(chunk) {
            *claimed = false;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_chunk_is_claimed_once() {
        let claims = Claims::new(2);
        assert!(claims.claim(1));
        assert!(!claims.claim(1));
        assert!(claims.is_claimed(1) && !claims.is_claimed(0));
        claims.give_back(1);
        assert!(claims.claim(1));
        assert!(
            !claims.claim(2),
            "a chunk that does not exist cannot be claimed"
        );
    }
}
