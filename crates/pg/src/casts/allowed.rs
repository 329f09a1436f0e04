//! Which casts does PostgreSQL have?
//!
//! From `pg_cast`, and the rules that are not listed there: every type casts to and from text by
//! its text format, and arrays cast if their elements do.

use datafusion::arrow::datatypes::{DataType, Field};
use datafusion::error::Result;

use super::Target;
use crate::error::PgError;

/// # Errors
/// 42846, if PostgreSQL has no such cast.
pub(super) fn check(from: &Field, to: &Target) -> Result<()> {
    if from.data_type().is_null() {
        return Ok(());
    }
    // Types that PostgreSQL does not have are left to Arrow.
    let Some(source) = Target::of_field(from) else {
        return Ok(());
    };
    if exists(&source, to) || matches!(from.data_type(), DataType::UInt64) {
        return Ok(());
    }
    let message = format!("cannot cast type {} to {}", source.name(), to.name());
    Err(PgError::new("42846", message).into())
}

fn exists(from: &Target, to: &Target) -> bool {
    use Target::{
        Array, Bool, Bytea, Date, Int4, Interval, Json, Jsonb, Time, Timestamp, Timestamptz,
    };
    if from.is_text() || to.is_text() {
        return true;
    }
    if let (Array(from), Array(to)) = (from, to) {
        return exists(from, to);
    }
    if *from == Jsonb {
        return to.is_number() || matches!(to, Bool | Json | Jsonb);
    }
    let listed = matches!(
        (from, to),
        (Int4, Bool)
            | (Bool, Int4 | Bool)
            | (Date, Date | Timestamp(_) | Timestamptz(_))
            | (
                Timestamp(_) | Timestamptz(_),
                Date | Time(_) | Timestamp(_) | Timestamptz(_)
            )
            | (Time(_) | Interval(..), Time(_) | Interval(..))
            | (Json, Json | Jsonb)
            | (Bytea, Bytea)
            | (Target::JsonPath, Target::JsonPath)
            | (Target::Uuid, Target::Uuid)
    );
    listed || (from.is_number() && to.is_number())
}
