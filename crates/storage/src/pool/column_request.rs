//! Which arrays of a column does a consumer want, and which requests do the same arrays serve?

use arrow::datatypes::{DataType, FieldRef};

/// A column to decode.
#[derive(Clone, Debug)]
pub struct ColumnRequest {
    /// The root column's name in the file.
    pub name: String,
    /// The arrow field to decode to.
    pub field: FieldRef,
    /// Whole batches come in as few bytes as the values of each need ([`crate::narrowest`]), so
    /// their types may differ. What is picked has the field's type.
    pub narrow: bool,
}

/// What arrays are asked for: equal for requests that the same arrays serve.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct ArrayKey {
    pub(crate) name: String,
    data_type: DataType,
    narrow: bool,
}

impl ColumnRequest {
    /// A column as arrays of the field's very type.
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
