//! What is said of a float that is out of range?

use crate::error::PgError;

pub(crate) fn float_overflow() -> PgError {
    PgError::new("22003", "value out of range: overflow")
}

pub(crate) fn float_underflow() -> PgError {
    PgError::new("22003", "value out of range: underflow")
}
