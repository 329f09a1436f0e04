//! Values of any type as JSON.

use std::fmt::Write;

use bytes::BytesMut;
use datafusion::arrow::array::{Array, ArrayRef, AsArray, StructArray};
use datafusion::arrow::datatypes::{DataType, Field};
use datafusion::common::internal_err;
use datafusion::error::{DataFusionError, Result};

use crate::functions::scalar::{Row, marked_type};
use crate::names::on_the_wire;
use crate::output::field_writer;
use crate::values::json_quoted;

/// An argument as JSON.
pub(super) fn argument(row: &Row<'_>, argument: usize) -> Result<String> {
    if row.is_null(argument) {
        return Ok("null".to_owned());
    }
    let (array, at) = row.array(argument);
    let mut out = String::new();
    write(array, at, row.field(argument), ",", &mut out)?;
    Ok(out)
}

/// Writes a value. `between` separates the members and elements of the outermost level.
pub(super) fn write(
    array: &ArrayRef,
    at: usize,
    field: &Field,
    between: &str,
    out: &mut String,
) -> Result<()> {
    if array.logical_nulls().is_some_and(|nulls| nulls.is_null(at)) {
        out.push_str("null");
        return Ok(());
    }
    match array.data_type() {
        DataType::List(element) => {
            return list(&array.as_list::<i32>().value(at), element, between, out);
        }
        DataType::LargeList(element) => {
            return list(&array.as_list::<i64>().value(at), element, between, out);
        }
        DataType::FixedSizeList(element, _) => {
            return list(&array.as_fixed_size_list().value(at), element, between, out);
        }
        DataType::Map(entry, _) => {
            return map(&array.as_map().value(at), entry, between, out);
        }
        DataType::Struct(fields) => {
            let columns = array.as_struct();
            out.push('{');
            for (place, (field, column)) in fields.iter().zip(columns.columns()).enumerate() {
                out.push_str(if place > 0 { between } else { "" });
                let _ = write!(out, "{}:", json_quoted(on_the_wire(field.name())));
                write(column, at, field, ",", out)?;
            }
            out.push('}');
            return Ok(());
        }
        _ => {}
    }
    let text = shown(array, at, field)?;
    match array.data_type() {
        DataType::Boolean => out.push_str(if text == "t" { "true" } else { "false" }),
        _ if matches!(marked_type(field), Some("json" | "jsonb")) => out.push_str(&text),
        numeric if numeric.is_numeric() && text.bytes().any(|byte| byte.is_ascii_digit()) => {
            out.push_str(&text);
        }
        DataType::Timestamp(_, zone) => {
            out.push_str(&json_quoted(&moment(&text, zone.is_some())));
        }
        _ => out.push_str(&json_quoted(&text)),
    }
    Ok(())
}

/// A timestamp in ISO 8601 format.
fn moment(text: &str, has_zone: bool) -> String {
    let mut text = text.replacen(' ', "T", 1);
    let sign = text.rfind(['+', '-']);
    if has_zone && sign.is_some_and(|sign| text.len() - sign == 3) {
        text.push_str(":00");
    }
    text
}

fn list(values: &ArrayRef, element: &Field, between: &str, out: &mut String) -> Result<()> {
    out.push('[');
    for at in 0..values.len() {
        out.push_str(if at > 0 { between } else { "" });
        write(values, at, element, ",", out)?;
    }
    out.push(']');
    Ok(())
}

/// The entries of a map, as an object.
fn map(entries: &StructArray, entry: &Field, between: &str, out: &mut String) -> Result<()> {
    let (DataType::Struct(fields), [keys, values]) = (entry.data_type(), entries.columns()) else {
        return internal_err!("unexpected map entry {entry}");
    };
    out.push('{');
    for at in 0..entries.len() {
        out.push_str(if at > 0 { between } else { "" });
        let _ = write!(out, "{}:", json_quoted(&shown(keys, at, &fields[0])?));
        write(values, at, &fields[1], ",", out)?;
    }
    out.push('}');
    Ok(())
}

fn shown(array: &ArrayRef, at: usize, field: &Field) -> Result<String> {
    let mut out = BytesMut::new();
    let write = field_writer(field, &array.slice(at, 1), false)?;
    write(0, &mut out).map_err(|error| DataFusionError::External(error.into()))?;
    Ok(String::from_utf8_lossy(&out).into_owned())
}

/// The text of a value as an object's key.
pub(super) fn key(row: &Row<'_>, argument: usize) -> Result<Option<String>> {
    if row.is_null(argument) {
        return Ok(None);
    }
    let (array, at) = row.array(argument);
    let text = shown(array, at, row.field(argument))?;
    Ok(Some(match array.data_type() {
        DataType::Boolean if text == "t" => "true".to_owned(),
        DataType::Boolean => "false".to_owned(),
        DataType::Timestamp(_, zone) => moment(&text, zone.is_some()),
        _ => text,
    }))
}
