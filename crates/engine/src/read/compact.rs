//! In which form is a column decoded and kept?
//!
//! Idea: decoded arrays take most of the memory, and allocating memory is expensive. So a column
//! is kept in the narrowest form that holds it. Integers, dates and decimals take, batch by batch,
//! the fewest bytes that the batch's values need, whatever type the file declares. Strings whose
//! pages all refer to a dictionary are kept as references into it, as short as the dictionary
//! allows. Two batches of a column may therefore have arrays of different types: code that works
//! on arrays looks at the type of each array, never at the column's. A plan expects the types of
//! DataFusion's reader; rows are widened to these when they leave a scan, after filters.
//! Comparisons run in the given width (`integers.rs`), and a conjunct over one column of
//! references is evaluated once per value of the dictionary instead of once per row.
//! Not here: how batches are narrowed (coscan-storage, `parquet/narrow.rs`), arithmetic on narrow
//! decimals (`fragment/`).
//! I1: `widen` of a column in its compact form equals the column decoded to the plan's type.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, BooleanArray};
use arrow::buffer::BooleanBuffer;
use arrow::compute::{cast, take};
use arrow::datatypes::{ArrowNativeType, DataType, Field, FieldRef};
use coscan_storage::pool::{ColumnRequest, TableFile};
use datafusion::error::Result;
use datafusion::logical_expr::Operator;
use parquet::basic::{ConvertedType, Encoding, LogicalType, Type as Physical};
use parquet::file::metadata::ColumnChunkMetaData;
use parquet::schema::types::Type;

use super::integers::{Integers, each_width, is_whole, tested};

/// Decimals of at most this many digits fit 64 bits.
const DIGITS_OF_64_BITS: u8 = 18;

/// A conjunct is evaluated per value of a dictionary if there are at least this many rows per
/// value.
const ROWS_PER_VALUE: usize = 4;

/// Per leaf of the file: whether it is text whose pages all refer to dictionaries.
pub(crate) fn refer_to_dictionaries(file: &TableFile) -> Vec<bool> {
    let metadata = file.metadata();
    let descriptor = metadata.file_metadata().schema_descr();
    let groups = metadata.row_groups();
    let refers = |leaf| {
        descriptor.column(leaf).physical_type() == Physical::BYTE_ARRAY
            && !groups.is_empty()
            && groups.iter().all(|g| refers_to_dictionary(g.column(leaf)))
    };
    (0..descriptor.num_columns()).map(refers).collect()
}

/// How a column of the file is decoded. `field` is the column as the plan expects it, `refers` is
/// [`refer_to_dictionaries`] of the file.
pub(crate) fn compact(field: &FieldRef, file: &TableFile, refers: &[bool]) -> ColumnRequest {
    let exact = ColumnRequest::exact(Arc::clone(field));
    let metadata = file.metadata();
    let descriptor = metadata.file_metadata().schema_descr();
    let roots = descriptor.root_schema().get_fields();
    let root = file.column(field.name()).and_then(|at| roots.get(at));
    let Some(root) = root.filter(|root| root.is_primitive()) else {
        return exact;
    };
    let decoded = match field.data_type() {
        DataType::Decimal128(precision, scale) if is_decimal_64(root, *precision, *scale) => {
            DataType::Decimal64(*precision, *scale)
        }
        wanted @ DataType::Decimal128(..) => wanted.clone(),
        wanted if is_whole(wanted) => wanted.clone(),
        DataType::Utf8View | DataType::Utf8 if is_text(root) => {
            let leaf = (0..descriptor.num_columns())
                .find(|leaf| descriptor.get_column_root(*leaf).name() == root.name());
            if !leaf.is_some_and(|leaf| refers[leaf]) {
                return exact;
            }
            DataType::Dictionary(Box::new(DataType::Int32), Box::new(DataType::Utf8))
        }
        _ => return exact,
    };
    ColumnRequest {
        field: Arc::new(Field::clone(field).with_data_type(decoded)),
        narrow: true,
        ..exact
    }
}

fn is_decimal_64(root: &Type, precision: u8, scale: i8) -> bool {
    matches!(root.get_physical_type(), Physical::INT32 | Physical::INT64)
        && root.get_precision() == i32::from(precision)
        && root.get_scale() == i32::from(scale)
        && precision <= DIGITS_OF_64_BITS
}

fn is_text(root: &Type) -> bool {
    let info = root.get_basic_info();
    root.get_physical_type() == Physical::BYTE_ARRAY
        && (matches!(info.logical_type_ref(), Some(LogicalType::String))
            || info.logical_type_ref().is_none() && info.converted_type() == ConvertedType::UTF8)
}

/// Whether all data pages contain references. A writer that does not state its pages' encodings
/// may have changed from references to plain values within the column.
fn refers_to_dictionary(column: &ColumnChunkMetaData) -> bool {
    column.dictionary_page_offset().is_some()
        && column.page_encoding_stats_mask().is_some_and(|mask| {
            mask.is_only(Encoding::PLAIN_DICTIONARY) || mask.is_only(Encoding::RLE_DICTIONARY)
        })
}

/// The array in the type that the plan expects; the same array if it has that type.
///
/// # Errors
/// If the array cannot be cast to that type: a bug.
pub(crate) fn widen(array: &ArrayRef, wanted: &DataType) -> Result<ArrayRef> {
    if array.data_type() == wanted {
        return Ok(Arc::clone(array));
    }
    if let Some(references) = array.as_any_dictionary_opt() {
        let values = references.values();
        // Here a cast row by row is less work. It is right only without NULL values, which arrow
        // ignores.
        if values.len() > references.len() && values.null_count() == 0 {
            return Ok(cast(array, wanted)?);
        }
        let values = cast(values, wanted)?;
        return Ok(take(&values, references.keys(), None)?);
    }
    let integers = Integers::of(array);
    match integers.and_then(|integers| integers.widen(array.nulls(), wanted)) {
        Some(wide) => Ok(wide),
        None => Ok(cast(array, wanted)?),
    }
}

/// The mask of a conjunct over one column, computed from its value for each string of the column's
/// dictionary; `None` if that does not pay.
///
/// # Errors
/// Errors of `of_values`.
pub(super) fn mask_by_value(
    array: &ArrayRef,
    wanted: &DataType,
    of_values: impl FnOnce(ArrayRef) -> Result<BooleanArray>,
) -> Result<Option<BooleanArray>> {
    let Some(references) = array.as_any_dictionary_opt() else {
        return Ok(None);
    };
    let Some(keys) = Integers::of(references.keys()) else {
        return Ok(None);
    };
    // A NULL row refers to no value of the dictionary, and may pass.
    let values = references.values();
    let few = values.len() * ROWS_PER_VALUE <= references.len();
    if !few || references.null_count() > 0 || values.null_count() > 0 {
        return Ok(None);
    }
    let of_values = of_values(cast(values, wanted)?)?;
    let passes: Vec<bool> = of_values.iter().map(|value| value == Some(true)).collect();
    let mut passing = (0i64..).zip(&passes).filter(|(_, passes)| **passes);
    let mask = match (passing.next(), passing.next()) {
        (None, _) => Some(BooleanBuffer::new_unset(references.len())),
        (Some((only, _)), None) => keys.compare(Operator::Eq, only),
        _ => None,
    };
    let mask = mask
        .unwrap_or_else(|| each_width!(&keys, keys => tested(keys, |key| passes[key.as_usize()])));
    Ok(Some(mask.into()))
}

#[cfg(test)]
mod tests {
    use arrow::array::{DictionaryArray, Int32Array, StringArray};
    use arrow::datatypes::Int32Type;
    use coscan_storage::narrowest;
    use datafusion::common::cast::as_string_view_array;
    use proptest::prelude::*;

    use super::*;

    /// References, some of them NULL; some values may be NULL, equal or unused.
    fn references() -> impl Strategy<Value = ArrayRef> {
        let value = prop::option::weighted(0.9, "[ab]{0,2}|[ab]{20,21}");
        let values = prop::collection::vec(value, 1..40);
        let keys = prop::collection::vec(
            prop::option::weighted(0.9, any::<prop::sample::Index>()),
            0..200,
        );
        (values, keys, any::<bool>()).prop_map(|(values, keys, nulls)| {
            let text = |v: &Option<String>| v.clone().or_else(|| (!nulls).then(String::new));
            let strings = StringArray::from_iter(values.iter().map(text));
            let key = |k: &Option<prop::sample::Index>| match k {
                Some(index) => Some(i32::try_from(index.index(values.len())).unwrap()),
                None => (!nulls).then_some(0),
            };
            let keys = Int32Array::from_iter(keys.iter().map(key));
            Arc::new(DictionaryArray::new(keys, Arc::new(strings))) as ArrayRef
        })
    }

    proptest! {
        #[test]
        fn widening_gives_the_referenced_values(array in references()) {
            let referred = array.as_dictionary::<Int32Type>().downcast_dict::<StringArray>().unwrap();
            let referred: Vec<Option<&str>> = referred.into_iter().collect();
            let array = narrowest(array.clone());
            let wide = widen(&array, &DataType::Utf8View).unwrap();
            let wide: Vec<Option<&str>> = as_string_view_array(&wide).unwrap().iter().collect();
            prop_assert_eq!(&wide, &referred);
            let wide = widen(&array, &DataType::Utf8).unwrap();
            let wide: Vec<Option<&str>> = wide.as_string::<i32>().iter().collect();
            prop_assert_eq!(&wide, &referred);
        }

        #[test]
        fn a_mask_by_value_is_the_mask_by_row(array in references()) {
            let short = |values: ArrayRef| -> Result<BooleanArray> {
                let short = |v: Option<&str>| v.map(|v| v.len() < 2);
                Ok(as_string_view_array(&values)?.iter().map(short).collect())
            };
            let array = narrowest(array);
            let by_value = mask_by_value(&array, &DataType::Utf8View, short).unwrap();
            let by_row = short(widen(&array, &DataType::Utf8View).unwrap()).unwrap();
            if let Some(by_value) = by_value {
                prop_assert_eq!(by_value, by_row);
            }
        }
    }
}
