//! By which keys are values compared that Arrow compares differently from PostgreSQL?
//!
//! | value | key |
//! |---|---|
//! | interval | its length |
//! | `jsonb` | the text of `functions/json/key.rs` |
//! | `character(n)` | the text without its trailing blanks |
//! | float | the float, with one zero and one NaN |
//! | array of several dimensions | its elements, then the lengths of its dimensions |
//!
//! The keys of the values in arrays and rows stand in the same arrays and rows, which [`key_bytes`]
//! writes as bytes. The bytes sort in PostgreSQL's order, in which a NULL element or field is
//! greater than others; Arrow's sort places NULL elements like NULL arrays. Arrays of floats have
//! keys of their own (`comparisons/float_keys.rs`).

use std::sync::Arc;

use datafusion::arrow::array::{
    Array, ArrayRef, AsArray, BinaryArray, Int32Array, ListArray, StringArray, StructArray,
};
use datafusion::arrow::buffer::{NullBuffer, OffsetBuffer};
use datafusion::arrow::compute::SortOptions;
use datafusion::arrow::datatypes::{ArrowNativeType, DataType, Field, Fields, IntervalUnit};
use datafusion::arrow::row::{RowConverter, SortField};
use datafusion::common::internal_err;
use datafusion::error::Result;

use crate::casts::arrow_cast;
use crate::functions::json::jsonb_keys;
use crate::functions::scalar::{is_text, marked_type};
use crate::functions::time::operators::interval_keys;
use crate::numbers::float_keys;

/// Whether Arrow compares arrays or rows of this type differently from PostgreSQL.
pub(crate) fn needs_keys(held: &DataType) -> bool {
    match held {
        DataType::List(element) => has_key(element),
        DataType::Struct(fields) => fields
            .iter()
            .any(|field| is_float(field.data_type()) || has_key(field)),
        _ => false,
    }
}

/// Whether values of a field are compared by keys.
pub(crate) fn has_key(field: &Field) -> bool {
    match field.data_type() {
        DataType::Interval(IntervalUnit::MonthDayNano) => true,
        held if held.is_nested() => needs_keys(held),
        _ => named(field).is_some(),
    }
}

/// The type that a text has, if texts of the type are compared by keys.
fn named(field: &Field) -> Option<&str> {
    marked_type(field).filter(|name| ["jsonb", "bpchar"].contains(name))
}

/// Whether this is a type of arrays of floats. They have keys of their own as keys of groups, joins
/// and orders (`comparisons/float_keys.rs`).
pub(crate) fn has_floats(held: &DataType) -> bool {
    held.is_nested() && is_float(held)
}

fn is_float(held: &DataType) -> bool {
    match held {
        DataType::Float32 | DataType::Float64 => true,
        DataType::List(element) => is_float(element.data_type()),
        _ => false,
    }
}

/// Whether arrays or rows of two types have keys of one form. Others are compared without keys.
pub(crate) fn are_alike(one: &DataType, other: &DataType) -> bool {
    let are_fields_alike = |one: &Field, other: &Field| {
        named(one) == named(other) && are_alike(one.data_type(), other.data_type())
    };
    match (one, other) {
        (DataType::List(one), DataType::List(other)) => are_fields_alike(one, other),
        (DataType::Struct(one), DataType::Struct(other)) => {
            let mut pairs = one.iter().zip(other);
            one.len() == other.len() && pairs.all(|(one, other)| are_fields_alike(one, other))
        }
        (one, other) => one == other || (is_text(one) && is_text(other)),
    }
}

/// The bytes for the values of a field.
pub(crate) fn key_bytes(values: &ArrayRef, field: &Field) -> Result<BinaryArray> {
    if values.data_type().is_null() {
        return Ok(BinaryArray::new_null(values.len()));
    }
    let keys = keys(values, field)?;
    let nulls_last = SortOptions::new(false, false);
    let sorted = SortField::new_with_options(keys.data_type().clone(), nulls_last);
    let rows = RowConverter::new(vec![sorted])?.convert_columns(&[keys])?;
    let (offsets, bytes, _) = rows.try_into_binary()?.into_parts();
    let nulls = values.nulls().cloned();
    Ok(BinaryArray::try_new(offsets, bytes, nulls)?)
}

/// The keys of the values of a field.
fn keys(values: &ArrayRef, field: &Field) -> Result<ArrayRef> {
    Ok(match (values.data_type(), field.data_type()) {
        (DataType::List(_), DataType::List(element)) => of_lists(values.as_list(), element)?,
        (DataType::Struct(_), DataType::Struct(fields)) => of_rows(values.as_struct(), fields)?,
        (DataType::Interval(IntervalUnit::MonthDayNano), _) => interval_keys(values)?,
        (DataType::Float32 | DataType::Float64, _) => float_keys(values)?,
        _ => match named(field) {
            Some("jsonb") => jsonb_keys(&texts(values)?)?,
            Some(_) => trimmed(&texts(values)?),
            None => Arc::clone(values),
        },
    })
}

fn of_rows(rows: &StructArray, fields: &Fields) -> Result<ArrayRef> {
    let columns = rows.columns().iter().zip(fields);
    let columns = columns.map(|(column, field)| keys(column, field));
    row(columns.collect::<Result<_>>()?, rows.len(), rows.nulls())
}

/// Rows of columns whose names do not matter.
fn row(columns: Vec<ArrayRef>, rows: usize, nulls: Option<&NullBuffer>) -> Result<ArrayRef> {
    let fields = columns.iter().enumerate().map(|(at, column)| {
        let held = column.data_type().clone();
        Field::new(at.to_string(), held, true)
    });
    let (fields, nulls) = (fields.collect(), nulls.cloned());
    let row = StructArray::try_new_with_length(fields, columns, nulls, rows)?;
    Ok(Arc::new(row))
}

fn of_lists(lists: &ListArray, element: &Field) -> Result<ArrayRef> {
    match element.data_type() {
        DataType::List(_) => of_several_dimensions(lists, element),
        _ => listed(lists.values(), element, &bounds(lists), lists.nulls()),
    }
}

/// Where each list begins among the elements, and where the last one ends.
fn bounds(lists: &ListArray) -> Vec<usize> {
    let bounds = lists.value_offsets().iter();
    bounds.map(|at| at.as_usize()).collect()
}

/// Lists of the keys of elements.
fn listed(
    elements: &ArrayRef,
    element: &Field,
    bounds: &[usize],
    nulls: Option<&NullBuffer>,
) -> Result<ArrayRef> {
    let (first, last) = (bounds[0], bounds[bounds.len() - 1]);
    let keys = keys(&elements.slice(first, last - first), element)?;
    let offsets = OffsetBuffer::from_lengths(bounds.windows(2).map(|of| of[1] - of[0]));
    let field = Field::new_list_field(keys.data_type().clone(), true);
    let lists = ListArray::try_new(Arc::new(field), offsets, keys, nulls.cloned())?;
    Ok(Arc::new(lists))
}

/// PostgreSQL compares the elements of all dimensions first, so the key is a row of these and of
/// the length of each dimension.
fn of_several_dimensions(lists: &ListArray, element: &Field) -> Result<ArrayRef> {
    let mut of_outer = bounds(lists);
    let mut lengths = vec![numbers(of_outer.windows(2).map(|of| of[1] - of[0]))];
    let mut values = Arc::clone(lists.values());
    let mut element = element;
    while let DataType::List(inner) = element.data_type() {
        let Some(deeper) = values.as_list_opt::<i32>().cloned() else {
            return internal_err!("{} instead of arrays", values.data_type());
        };
        let of_deeper = bounds(&deeper);
        // The lists in a list have one length.
        lengths.push(numbers(of_outer.windows(2).map(|of| {
            let first = of[0];
            if first < of[1] {
                of_deeper[first + 1] - of_deeper[first]
            } else {
                0
            }
        })));
        of_outer = of_outer.into_iter().map(|at| of_deeper[at]).collect();
        values = Arc::clone(deeper.values());
        element = inner.as_ref();
    }
    let mut columns = vec![listed(&values, element, &of_outer, None)?];
    columns.append(&mut lengths);
    row(columns, lists.len(), lists.nulls())
}

fn numbers(lengths: impl Iterator<Item = usize>) -> ArrayRef {
    let lengths = lengths.map(|length| i32::try_from(length).unwrap_or(i32::MAX));
    Arc::new(Int32Array::from_iter_values(lengths))
}

fn texts(values: &ArrayRef) -> Result<StringArray> {
    let texts = arrow_cast(values, &DataType::Utf8)?;
    Ok(texts.as_string::<i32>().clone())
}

fn trimmed(texts: &StringArray) -> ArrayRef {
    let texts = texts.iter();
    let trimmed = texts.map(|text| text.map(|text| text.trim_end_matches(' ')));
    Arc::new(trimmed.collect::<StringArray>())
}
