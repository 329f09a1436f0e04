//! Which SQLSTATEs have come from other nodes?
//!
//! An error's code is a constant of the program, and so is that of a node of the same version. A
//! text that arrives is none, so it is kept for good.
//! Bounds: [`CODES_MAX`].

use std::collections::BTreeSet;

use parking_lot::Mutex;

/// More than PostgreSQL has.
const CODES_MAX: usize = 512;
const LENGTH: usize = 5;

/// The SQLSTATE as a constant; `None` if it is not one, or too many came.
pub(super) fn known(code: &str) -> Option<&'static str> {
    static KNOWN: Mutex<BTreeSet<&'static str>> = Mutex::new(BTreeSet::new());
    let is_code = |byte: u8| byte.is_ascii_digit() || byte.is_ascii_uppercase();
    if code.len() != LENGTH || !code.bytes().all(is_code) {
        return None;
    }
    let mut known = KNOWN.lock();
    if let Some(known) = known.get(code) {
        return Some(known);
    }
    if known.len() >= CODES_MAX {
        return None;
    }
    let kept: &'static str = Box::leak(code.into());
    known.insert(kept);
    Some(kept)
}

#[cfg(test)]
mod tests {
    use super::super::PgError;

    #[test]
    fn an_error_arrives_as_it_was_sent() {
        let error = PgError::new("22012", "division by zero");
        assert_eq!(PgError::sent(&error.to_sent()), Some(error));
        for other in ["", "22012", "2201 x", "22o12 x", "External error: x"] {
            assert_eq!(PgError::sent(other), None);
        }
    }
}
