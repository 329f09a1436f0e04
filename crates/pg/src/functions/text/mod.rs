//! Strings and bytes: chapters 9.4 and 9.5 of `PostgreSQL`'s manual.

mod bytes;
mod compose;
mod fits;
mod format;
mod hash;
mod of_padded;
mod random_uuid;
mod strings;
mod uuid;

use datafusion::logical_expr::ScalarUDF;

pub(crate) use compose::FORMAT_ARRAY;
pub(crate) use fits::fits;
pub(crate) use of_padded::OfPadded;
pub(super) use random_uuid::gen_random_uuid;
pub(crate) use uuid::{UUID_BYTES, as_bytes};

use crate::PgError;
pub(crate) use strings::{IS_NORMALIZED, unescaped};

pub(super) fn functions() -> Vec<ScalarUDF> {
    [
        bytes::functions(),
        compose::functions(),
        hash::functions(),
        strings::normal::functions(),
        strings::pieces::functions(),
        strings::plain::functions(),
        strings::quote::functions(),
        strings::unicode::functions(),
        uuid::functions(),
    ]
    .into_iter()
    .flatten()
    .map(super::scalar::Function::udf)
    .collect()
}

/// The length of a `PostgreSQL` text or bytea is below this.
const VALUE_BYTES_MAX: usize = 0x3fff_ffff;

/// Error 54000 if a value of this length would be created.
fn check_length(bytes: usize) -> Result<usize, PgError> {
    if bytes > VALUE_BYTES_MAX {
        return Err(PgError::new("54000", "requested length too large"));
    }
    Ok(bytes)
}

/// A length as an integer result.
fn count(length: usize) -> super::scalar::Value {
    super::scalar::Value::Int(i64::try_from(length).unwrap_or(i64::MAX))
}
