//! Writes arrays and rows.
//!
//! A list of lists is one array of several dimensions. If the lists differ in length, it has a
//! text format but no binary one. A map is an array of rows with a key and a value.

use std::fmt;
use std::sync::Arc;

use bytes::{BufMut, BytesMut};
use datafusion::arrow::array::{Array, ArrayRef, AsArray};
use datafusion::arrow::datatypes::{DataType, FieldRef};
use datafusion::error::Result;

use super::cell::{CellWriter, field_writer, with_length};
use super::types::pg_type;

/// The range of a row's elements in the values of the list.
type Range = Box<dyn Fn(usize) -> (usize, usize) + Send + Sync>;

/// One dimension of an array.
struct Level {
    range: Range,
    is_null: Box<dyn Fn(usize) -> bool + Send + Sync>,
}

/// The writer for arrays; `None` if `array` is not a list.
pub(super) fn arrays(array: &ArrayRef, binary: bool) -> Result<Option<CellWriter>> {
    let mut levels = vec![];
    let (mut values, mut element) = (array.clone(), None);
    while let Some((range, inner, field)) = list(&values) {
        let nulls = values.logical_nulls();
        let is_null = move |row| nulls.as_ref().is_some_and(|nulls| nulls.is_null(row));
        levels.push(Level {
            range,
            is_null: Box::new(is_null),
        });
        (values, element) = (inner, Some(field));
    }
    let Some(element) = element else {
        return Ok(None);
    };
    let oid = pg_type(&element).oid();
    let write = field_writer(&element, &values, binary)?;
    let nulls = values.logical_nulls();
    let is_null = move |row| nulls.as_ref().is_some_and(|nulls| nulls.is_null(row));
    if binary {
        return Ok(Some(Box::new(move |row, out| {
            put_binary(&levels, row, oid, &is_null, &write, out)
        })));
    }
    Ok(Some(Box::new(move |row, out| {
        let (first, deeper) = levels.split_first().ok_or(fmt::Error)?;
        if leaves(first, deeper, row) == 0 {
            out.put_slice(b"{}");
            return Ok(());
        }
        put_text(first, deeper, row, &is_null, &write, out)
    })))
}

fn leaves(level: &Level, deeper: &[Level], row: usize) -> usize {
    let (start, end) = (level.range)(row);
    match deeper.split_first() {
        None => end - start,
        Some((next, deeper)) => (start..end)
            .map(|row| usize::from((next.is_null)(row)) + leaves(next, deeper, row))
            .sum(),
    }
}

fn put_text(
    level: &Level,
    deeper: &[Level],
    row: usize,
    is_null: &dyn Fn(usize) -> bool,
    write: &CellWriter,
    out: &mut BytesMut,
) -> fmt::Result {
    let (start, end) = (level.range)(row);
    let mut element = BytesMut::new();
    out.put_u8(b'{');
    for row in start..end {
        if row > start {
            out.put_u8(b',');
        }
        if let Some((next, deeper)) = deeper.split_first() {
            if (next.is_null)(row) {
                out.put_slice(b"NULL");
            } else {
                put_text(next, deeper, row, is_null, write, out)?;
            }
        } else if is_null(row) {
            out.put_slice(b"NULL");
        } else {
            element.clear();
            write(row, &mut element)?;
            put_element(&element, out);
        }
    }
    out.put_u8(b'}');
    Ok(())
}

fn put_binary(
    levels: &[Level],
    row: usize,
    oid: u32,
    is_null: &dyn Fn(usize) -> bool,
    write: &CellWriter,
    out: &mut BytesMut,
) -> fmt::Result {
    // The rows of each level, from the outermost inward; all lists of a level have the same
    // length.
    let mut rows = vec![row];
    let mut dimensions = vec![];
    for (at, level) in levels.iter().enumerate() {
        if at > 0 && rows.iter().any(|row| (level.is_null)(*row)) {
            return Err(fmt::Error);
        }
        let ranges: Vec<_> = rows.iter().map(|row| (level.range)(*row)).collect();
        let length = ranges.first().map_or(0, |(start, end)| end - start);
        if ranges.iter().any(|(start, end)| end - start != length) {
            return Err(fmt::Error);
        }
        dimensions.push(i32::try_from(length).map_err(|_| fmt::Error)?);
        rows = ranges
            .into_iter()
            .flat_map(|(start, end)| start..end)
            .collect();
    }
    if rows.is_empty() {
        dimensions.clear();
    }
    out.put_i32(i32::try_from(dimensions.len()).map_err(|_| fmt::Error)?);
    out.put_i32(i32::from(rows.iter().any(|row| is_null(*row))));
    out.put_u32(oid);
    for length in dimensions {
        out.put_i32(length);
        out.put_i32(1);
    }
    for row in rows {
        if is_null(row) {
            out.put_i32(-1);
        } else {
            with_length(out, |out| write(row, out))?;
        }
    }
    Ok(())
}

/// The function that finds a list's elements, the elements, and their field.
fn list(array: &ArrayRef) -> Option<(Range, ArrayRef, FieldRef)> {
    Some(match array.data_type() {
        DataType::List(element) => {
            let list = array.as_list::<i32>().clone();
            let (values, element) = (list.values().clone(), element.clone());
            let range = move |row| {
                let offsets = list.value_offsets();
                let at = |row: usize| index(i64::from(offsets[row]));
                (at(row), at(row + 1))
            };
            (Box::new(range), values, element)
        }
        DataType::LargeList(element) => {
            let list = array.as_list::<i64>().clone();
            let (values, element) = (list.values().clone(), element.clone());
            let range = move |row| {
                let offsets = list.value_offsets();
                (index(offsets[row]), index(offsets[row + 1]))
            };
            (Box::new(range), values, element)
        }
        DataType::Map(entry, _) => {
            let map = array.as_map().clone();
            let (entries, entry) = (Arc::new(map.entries().clone()), entry.clone());
            let range = move |row| {
                let offsets = map.value_offsets();
                let at = |row: usize| index(i64::from(offsets[row]));
                (at(row), at(row + 1))
            };
            (Box::new(range), entries, entry)
        }
        DataType::FixedSizeList(element, width) => {
            let list = array.as_fixed_size_list().clone();
            let (values, element) = (list.values().clone(), element.clone());
            let width = index((*width).into());
            let range = move |row| {
                let start = index(list.value_offset(row).into());
                (start, start + width)
            };
            (Box::new(range), values, element)
        }
        _ => return None,
    })
}

/// Offsets of a valid array are not negative.
fn index(offset: i64) -> usize {
    usize::try_from(offset).unwrap_or(0)
}

/// Writes an array element as text, quoted where necessary.
fn put_element(element: &[u8], out: &mut BytesMut) {
    let special = |byte: &u8| matches!(byte, b'{' | b'}' | b',' | b'"' | b'\\') || is_space(*byte);
    if !element.is_empty() && !element.eq_ignore_ascii_case(b"null") && !element.iter().any(special)
    {
        return out.put_slice(element);
    }
    out.put_u8(b'"');
    for byte in element {
        if matches!(byte, b'"' | b'\\') {
            out.put_u8(b'\\');
        }
        out.put_u8(*byte);
    }
    out.put_u8(b'"');
}

fn is_space(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t'..=b'\r')
}

/// The writer for rows: `(1,a)`.
pub(super) fn rows(array: &ArrayRef, binary: bool) -> Result<CellWriter> {
    let columns = array.as_struct();
    let mut fields = vec![];
    for (field, column) in columns.fields().iter().zip(columns.columns()) {
        let write = field_writer(field, column, binary)?;
        let nulls = column.logical_nulls();
        fields.push((pg_type(field).oid(), nulls, write));
    }
    Ok(Box::new(move |row, out| {
        if binary {
            out.put_i32(i32::try_from(fields.len()).map_err(|_| fmt::Error)?);
        } else {
            out.put_u8(b'(');
        }
        let mut text = BytesMut::new();
        for (at, (oid, nulls, write)) in fields.iter().enumerate() {
            let is_null = nulls.as_ref().is_some_and(|nulls| nulls.is_null(row));
            if binary {
                out.put_u32(*oid);
                if is_null {
                    out.put_i32(-1);
                } else {
                    with_length(out, |out| write(row, out))?;
                }
                continue;
            }
            if at > 0 {
                out.put_u8(b',');
            }
            if !is_null {
                text.clear();
                write(row, &mut text)?;
                put_field(&text, out);
            }
        }
        if !binary {
            out.put_u8(b')');
        }
        Ok(())
    }))
}

/// Writes a field of a row as text, quoted where necessary.
fn put_field(field: &[u8], out: &mut BytesMut) {
    let special = |byte: &u8| matches!(byte, b'(' | b')' | b',' | b'"' | b'\\') || is_space(*byte);
    if !field.is_empty() && !field.iter().any(special) {
        return out.put_slice(field);
    }
    out.put_u8(b'"');
    for byte in field {
        if matches!(byte, b'"' | b'\\') {
            out.put_u8(*byte);
        }
        out.put_u8(*byte);
    }
    out.put_u8(b'"');
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn elements_are_quoted_where_needed() {
        for (element, quoted) in [
            ("a", "a"),
            ("", "\"\""),
            ("NULL", "\"NULL\""),
            ("a b", "\"a b\""),
            ("\"", "\"\\\"\""),
        ] {
            let mut out = BytesMut::new();
            put_element(element.as_bytes(), &mut out);
            assert_eq!(&out[..], quoted.as_bytes());
        }
    }
}
