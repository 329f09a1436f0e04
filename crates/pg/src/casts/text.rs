//! Casts to text, bytea, uuid, json and jsonpath, and from text to arrays.

use std::sync::Arc;

use datafusion::arrow::array::{Array, ArrayRef, AsArray, BinaryArray, ListArray, StringArray};
use datafusion::arrow::buffer::{NullBuffer, OffsetBuffer};
use datafusion::arrow::datatypes::{DataType, Field};
use datafusion::error::Result;

use super::{Context, Target, arrow_cast, cast_array};
use crate::PgError;
use crate::dialect::elements;
use crate::functions::json::read_path;
use crate::functions::scalar::{is_bytes, is_text, marked_type};
use crate::output::{in_style, in_zone, texts};
use crate::values::{Json, bytea_from_text, uuid_from_text};

/// The maximum length of a name in bytes.
const NAME_BYTES_MAX: usize = 63;

/// Casts to text, char(n), varchar(n), name, bytea, uuid, json, jsonb or jsonpath, or from text to
/// an array, with values of the Arrow type `held`.
pub(super) fn cast(
    array: &ArrayRef,
    from: &Field,
    to: &Target,
    held: &DataType,
    context: &Context,
) -> Result<ArrayRef> {
    match to {
        Target::Bytea if is_bytes(from.data_type()) => return arrow_cast(array, held),
        Target::Bytea => {
            let texts = strings(array)?;
            let bytes = texts
                .iter()
                .map(|text| text.map(bytea_from_text).transpose());
            let bytes = bytes.collect::<Result<Vec<_>, _>>()?;
            let bytes: BinaryArray = bytes.iter().map(Option::as_deref).collect();
            return Ok(Arc::new(bytes));
        }
        Target::Array(element) => return array_from_text(array, element, held, context),
        _ => {}
    }
    let texts = if is_text(from.data_type()) {
        strings(array)?
    } else {
        let shown = in_style(&in_zone(array, &context.zone)?, context.style)?;
        printed_field(&shown, from)?.as_string::<i32>().clone()
    };
    let from_json = matches!(marked_type(from), Some("json" | "jsonb"));
    // Only `char(n)` keeps trailing blanks from padding.
    let padded = marked_type(from) == Some("bpchar") && *to != Target::Bpchar(None);
    let changed = |text: &str| -> Result<String> {
        let text = if padded && *to != Target::Bpchar(None) {
            text.trim_end_matches(' ')
        } else {
            text
        };
        Ok(match to {
            Target::Varchar(Some(length)) => text.chars().take(*length as usize).collect(),
            Target::Bpchar(Some(length)) => {
                let cut: String = text.chars().take(*length as usize).collect();
                let missing = (*length as usize).saturating_sub(cut.chars().count());
                cut + &" ".repeat(missing)
            }
            Target::Name => {
                let mut end = text.len().min(NAME_BYTES_MAX);
                while !text.is_char_boundary(end) {
                    end -= 1;
                }
                text[..end].to_owned()
            }
            Target::Uuid => uuid_from_text(text.trim())?,
            Target::Json => {
                if !from_json {
                    Json::check(text)?;
                }
                text.to_owned()
            }
            Target::Jsonb => Json::parse(text)?.normal().to_string(),
            Target::JsonPath => read_path(text)?.to_string(),
            _ => text.to_owned(),
        })
    };
    let as_given = match to {
        Target::Bpchar(None) => true,
        Target::Text | Target::Varchar(None) => !padded,
        _ => false,
    };
    if as_given {
        return arrow_cast(&(Arc::new(texts) as ArrayRef), held);
    }
    let texts = texts.iter().map(|text| text.map(changed).transpose());
    let texts: StringArray = texts.collect::<Result<Vec<_>>>()?.into();
    arrow_cast(&(Arc::new(texts) as ArrayRef), held)
}

fn strings(array: &ArrayRef) -> Result<StringArray> {
    Ok(arrow_cast(array, &DataType::Utf8)?
        .as_string::<i32>()
        .clone())
}

/// Parses texts of one-dimensional arrays. (The dialect parses literals, of any dimensions.)
fn array_from_text(
    array: &ArrayRef,
    element: &Target,
    held: &DataType,
    context: &Context,
) -> Result<ArrayRef> {
    let texts = strings(array)?;
    let mut found: Vec<Option<String>> = vec![];
    let mut lengths = Vec::with_capacity(texts.len());
    for text in &texts {
        let before = found.len();
        if let Some(text) = text {
            found.extend(elements(text).ok_or_else(|| malformed(text))?);
        }
        lengths.push(found.len() - before);
    }
    let values: ArrayRef = Arc::new(StringArray::from(found));
    let field = Field::new_list_field(DataType::Utf8, true);
    let values = cast_array(&values, &field, element, context)?;
    let DataType::List(field) = held else {
        return Err(malformed("").into());
    };
    Ok(Arc::new(ListArray::try_new(
        Arc::clone(field),
        OffsetBuffer::from_lengths(lengths),
        arrow_cast(&values, field.data_type())?,
        texts
            .nulls()
            .map(|nulls| NullBuffer::new(nulls.inner().clone())),
    )?))
}

fn malformed(text: &str) -> PgError {
    PgError::new("22P02", format!("malformed array literal: \"{text}\""))
}

/// The output format of each value, except that the cast of a boolean gives a word and not a
/// letter.
fn printed_field(array: &ArrayRef, from: &Field) -> Result<ArrayRef> {
    if array.data_type() == &DataType::Boolean {
        return arrow_cast(array, &DataType::Utf8);
    }
    Ok(Arc::new(texts(from, array)?))
}
