//! Which arrays of a column does a consumer want, and which requests can share arrays?
//!
//! Not here: decoding (`decoded.rs`), narrowing (`parquet/narrow.rs`).

use arrow::datatypes::{DataType, FieldRef};

/// A column to decode.
#[derive(Clone, Debug)]
pub struct ColumnRequest {
    /// The root column's name in the file.
    pub name: String,
    /// The arrow field to decode to.
    pub field: FieldRef,
    /// Each whole batch comes in the narrowest type that holds its values ([`crate::narrowest`]),
    /// so batches may differ in type. Picked rows have the field's type.
    pub narrow: bool,
}

/// Identifies arrays: two requests with equal keys share them.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct ArrayKey {
    pub(crate) name: String,
    data_type: DataType,
    narrow: bool,
}

impl ColumnRequest {
    /// A request for arrays of exactly the field's type.
    #[must_use]
    pub fn exact(field: FieldRef) -> Self {
        Self {
            name: field.name().clone(),
            field,
            narrow: false,
        }
    }

    pub(crate) fn key(&self) -> ArrayKey {
        ArrayKey {
            name: self.name.clone(),
            data_type: self.field.data_type().clone(),
            narrow: self.narrow,
        }
    }
}
