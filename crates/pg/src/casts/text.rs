//! Casts to text, bytea, uuid, json, and from text to arrays.

use std::sync::Arc;

use bytes::BytesMut;
use datafusion::arrow::array::{Array, ArrayRef, StringBuilder};
use datafusion::arrow::datatypes::{DataType, Field};
use datafusion::error::{DataFusionError, Result};

use super::{Context, Target, arrow_cast};
use crate::output::cell_writer;

/// Casts to text, char(n), varchar(n), name, bytea, uuid, json or jsonb, or an array's text to the
/// array, held as `held`.
pub(super) fn cast(
    array: &ArrayRef,
    from: &Field,
    to: &Target,
    held: &DataType,
    _context: &Context,
) -> Result<ArrayRef> {
    match from.data_type() {
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => arrow_cast(array, held),
        _ if matches!(to, Target::Bytea | Target::Array(_)) => arrow_cast(array, held),
        _ => arrow_cast(&printed(array)?, held),
    }
}

/// Each value as PostgreSQL prints it. A boolean is cast as a word, though it is printed as a
/// letter.
pub(super) fn printed(array: &ArrayRef) -> Result<ArrayRef> {
    if array.data_type() == &DataType::Boolean {
        return arrow_cast(array, &DataType::Utf8);
    }
    let nulls = array.logical_nulls();
    let write = cell_writer(array, false)?;
    let mut texts = StringBuilder::with_capacity(array.len(), array.len() * 8);
    let mut cell = BytesMut::new();
    for row in 0..array.len() {
        if nulls.as_ref().is_some_and(|nulls| nulls.is_null(row)) {
            texts.append_null();
            continue;
        }
        cell.clear();
        write(row, &mut cell).map_err(|error| DataFusionError::External(error.into()))?;
        texts.append_value(String::from_utf8_lossy(&cell));
    }
    Ok(Arc::new(texts.finish()))
}
