//! Checks the numbers of rows that a subquery computes for LIMIT and OFFSET.

use crate::PgError;
use crate::functions::scalar::Take::Int;
use crate::functions::scalar::{Form, Function, Give, Value};

/// `pg_limit(n)`: n, or error 2201W.
pub(crate) const LIMIT_ROWS: &str = "pg_limit";
/// `pg_offset(n)`: n, or error 2201X.
pub(crate) const OFFSET_ROWS: &str = "pg_offset";

pub(super) fn functions() -> Vec<Function> {
    vec![
        Function::new(
            LIMIT_ROWS,
            vec![Form::new(&[Int], Give::Int8, |row| match row.int(0) {
                rows if rows < 0 => Err(PgError::new("2201W", "LIMIT must not be negative").into()),
                rows => Ok(Value::Int(rows)),
            })],
        ),
        Function::new(
            OFFSET_ROWS,
            vec![Form::new(&[Int], Give::Int8, |row| match row.int(0) {
                rows if rows < 0 => {
                    Err(PgError::new("2201X", "OFFSET must not be negative").into())
                }
                rows => Ok(Value::Int(rows)),
            })],
        ),
    ]
}
