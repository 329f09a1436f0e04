//! Which arrays of a column does a consumer want, and which requests do the same arrays serve?

use arrow::datatypes::{DataType, FieldRef};

/// A column to decode.
#[derive(Clone, Debug)]
pub struct ColumnRequest {
    /// The root column's name in the file.
    pub name: String,
    /// The arrow field to decode to.
    pub field: FieldRef,
    /// Each whole batch comes in as few bytes per value as its values need ([`crate::narrowest`]),
    /// so the types of batches may differ. Picked rows have the field's type.
    pub narrow: bool,
}

/// Which arrays are asked for: equal for requests that the same arrays serve.
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
