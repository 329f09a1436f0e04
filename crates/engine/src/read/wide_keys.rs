//! Which keys does a dictionary column have?
//!
//! A writer chooses the shortest keys for the values of one file: pandas writes keys of 8 bits for
//! up to 127 categories. Several files may have more values together, and operators make one array
//! of the arrays of several batches, whose dictionaries arrow appends to each other. So a column
//! with keys of 8 or 16 bits has keys of 32 bits in the table, and is decoded to these: the length
//! of keys is a note in the file's metadata, and no property of its pages.
//! Not here: dictionaries inside lists and structs, which keep their keys; the keys of a batch in
//! memory (`compact.rs`).

use std::sync::Arc;

use arrow::datatypes::{DataType, Field, Schema, SchemaRef};

/// The type with keys of at least 32 bits, if it is a dictionary; otherwise the same type.
pub(crate) fn wide_keys(data_type: &DataType) -> DataType {
    use DataType as T;
    match data_type {
        T::Dictionary(key, value) if matches!(**key, T::Int8 | T::UInt8 | T::Int16 | T::UInt16) => {
            T::Dictionary(Box::new(T::Int32), value.clone())
        }
        other => other.clone(),
    }
}

/// The columns with the types of [`wide_keys`].
pub(super) fn with_wide_keys(schema: &SchemaRef) -> SchemaRef {
    let is_short = |field: &Arc<Field>| wide_keys(field.data_type()) != *field.data_type();
    if !schema.fields().iter().any(is_short) {
        return Arc::clone(schema);
    }
    let fields = schema.fields().iter().map(|field| {
        let wide = wide_keys(field.data_type());
        Arc::new(Field::clone(field).with_data_type(wide))
    });
    let fields: Vec<_> = fields.collect();
    Arc::new(Schema::new_with_metadata(fields, schema.metadata().clone()))
}

#[cfg(test)]
mod tests {
    use DataType as T;

    use super::*;

    fn dictionary(key: DataType, value: DataType) -> DataType {
        T::Dictionary(Box::new(key), Box::new(value))
    }

    #[test]
    fn short_keys_become_wide() {
        for short in [T::Int8, T::UInt8, T::Int16, T::UInt16] {
            for value in [T::Utf8, T::LargeUtf8, T::Int64] {
                let wide = wide_keys(&dictionary(short.clone(), value.clone()));
                assert_eq!(wide, dictionary(T::Int32, value));
            }
        }
        for same in [
            dictionary(T::Int32, T::Utf8),
            dictionary(T::UInt64, T::Utf8),
            T::Int8,
        ] {
            assert_eq!(wide_keys(&same), same);
        }
    }

    #[test]
    fn other_columns_and_metadata_stay() {
        let plain = Field::new("a", T::Int16, false);
        let short = Field::new("b", dictionary(T::Int8, T::Utf8), true);
        let schema = Schema::new(vec![plain.clone(), short.clone()]);
        let noted = schema.with_metadata([("key".to_owned(), "value".to_owned())].into());
        let wide = with_wide_keys(&Arc::new(noted.clone()));
        assert_eq!(*wide.field(0), plain);
        let expected = short.with_data_type(dictionary(T::Int32, T::Utf8));
        assert_eq!(*wide.field(1), expected);
        assert_eq!(wide.metadata(), noted.metadata());
    }
}
