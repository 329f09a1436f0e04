//! Strings as sequences of characters: length, case, padding, replacement.

use crate::PgError;
use crate::functions::scalar::Take::{Int, Text};
use crate::functions::scalar::{Form, Function, Give, Row, Value};
use crate::functions::text::{check_length, count};
use datafusion::error::Result;

pub(in crate::functions::text) fn functions() -> Vec<Function> {
    vec![
        Function::new(
            "reverse",
            vec![Form::new(&[Text], Give::Text, |row| {
                Ok(Value::Text(row.text(0).chars().rev().collect()))
            })],
        ),
        Function::new(
            "initcap",
            vec![Form::new(&[Text], Give::Text, |row| {
                Ok(Value::Text(initcap(row.text(0))))
            })],
        ),
        Function::new(
            "upper",
            vec![Form::text(&[Text], |row| {
                let text = row.text(0);
                if text.is_ascii() {
                    return Ok(text.to_ascii_uppercase().into());
                }
                Ok(text.chars().map(upper).collect())
            })],
        ),
        Function::new(
            "lower",
            vec![Form::text(&[Text], |row| {
                let text = row.text(0);
                if text.is_ascii() {
                    return Ok(text.to_ascii_lowercase().into());
                }
                Ok(text.chars().map(lower).collect())
            })],
        ),
        Function::new(
            "repeat",
            vec![Form::new(&[Text, Int], Give::Text, |row| {
                let times = usize::try_from(row.int(1)).unwrap_or(0);
                check_length(row.text(0).len().saturating_mul(times))?;
                Ok(Value::Text(row.text(0).repeat(times)))
            })],
        ),
        Function::new(
            "replace",
            vec![Form::text(&[Text, Text, Text], |row| {
                let (text, from) = (row.text(0), row.text(1));
                if from.is_empty() || !text.contains(from) {
                    return Ok(text.into());
                }
                Ok(text.replace(from, row.text(2)).into())
            })],
        ),
        Function::new(
            "translate",
            vec![Form::new(&[Text, Text, Text], Give::Text, |row| {
                Ok(Value::Text(translate(
                    row.text(0),
                    row.text(1),
                    row.text(2),
                )))
            })],
        ),
        Function::new("lpad", vec![padding(|row| pad(row, true))]),
        Function::new("rpad", vec![padding(|row| pad(row, false))]),
        Function::new(
            "ascii",
            vec![Form::new(&[Text], Give::Int4, |row| {
                let first = row.text(0).chars().next();
                Ok(Value::Int(
                    first.map_or(0, |first| i64::from(u32::from(first))),
                ))
            })],
        ),
        Function::new(
            "chr",
            vec![Form::new(&[Int], Give::Text, |row| chr(row.int(0)))],
        ),
        Function::new(
            "to_hex",
            vec![Form::new(&[Int], Give::Text, |row| {
                use datafusion::arrow::datatypes::DataType;
                let wide = matches!(row.field(0).data_type(), DataType::Int64 | DataType::UInt64);
                let value = row.int(0);
                let digits = if wide {
                    format!("{value:x}")
                } else {
                    format!("{:x}", low(value))
                };
                Ok(Value::Text(digits))
            })],
        ),
        Function::new("char_length", vec![characters()]),
        Function::new("character_length", vec![characters()]),
    ]
}

/// Narrows an `integer` that is held as 64 bits.
fn low(value: i64) -> i32 {
    i32::try_from(value).unwrap_or(0)
}

fn characters() -> Form {
    Form::new(&[Text], Give::Int4, |row| {
        Ok(count(row.text(0).chars().count()))
    })
}

fn padding(body: crate::functions::scalar::Body) -> Form {
    Form::new(&[Text, Int, Text], Give::Text, body).optional(1)
}

/// The upper case of a letter. PostgreSQL maps one to one, so letters that become several (`ß`)
/// are left as they are.
fn upper(letter: char) -> char {
    let mut mapped = letter.to_uppercase();
    match (mapped.next(), mapped.next()) {
        (Some(one), None) => one,
        _ => letter,
    }
}

fn lower(letter: char) -> char {
    let mut mapped = letter.to_lowercase();
    match (mapped.next(), mapped.next()) {
        (Some(one), None) => one,
        _ => letter,
    }
}

fn initcap(text: &str) -> String {
    let mut inside = false;
    let mapped = text.chars().map(|letter| {
        let shown = if inside { lower(letter) } else { upper(letter) };
        inside = letter.is_alphanumeric();
        shown
    });
    mapped.collect()
}

fn translate(text: &str, from: &str, to: &str) -> String {
    let to: Vec<char> = to.chars().collect();
    let mapped = text.chars().filter_map(|letter| {
        match from.chars().position(|candidate| candidate == letter) {
            Some(at) => to.get(at).copied(),
            None => Some(letter),
        }
    });
    mapped.collect()
}

fn pad(row: &Row<'_>, left: bool) -> Result<Value> {
    let text = row.text(0);
    let fill: Vec<char> = if row.len() > 2 {
        row.text(2).chars().collect()
    } else {
        vec![' ']
    };
    let length = usize::try_from(row.int(1)).unwrap_or(0);
    let given = text.chars().count();
    if given >= length {
        return Ok(Value::Text(text.chars().take(length).collect()));
    }
    if fill.is_empty() {
        return Ok(Value::Text(text.to_owned()));
    }
    let missing = length - given;
    // A character has at most four bytes.
    check_length(length.saturating_mul(4))?;
    let padding: String = fill.iter().cycle().take(missing).collect();
    Ok(Value::Text(if left {
        padding + text
    } else {
        text.to_owned() + &padding
    }))
}

fn chr(code: i64) -> Result<Value> {
    if code < 0 {
        return Err(PgError::new("22023", "character number must be positive").into());
    }
    if code == 0 {
        return Err(PgError::new("54000", "null character not permitted").into());
    }
    if code > 0x0010_FFFF {
        let message = format!("requested character too large for encoding: {code}");
        return Err(PgError::new("54000", message).into());
    }
    let found = u32::try_from(code).ok().and_then(char::from_u32);
    let found = found.ok_or_else(|| {
        let message = format!("requested character not valid for encoding: {code}");
        PgError::new("54000", message)
    })?;
    Ok(Value::Text(found.to_string()))
}
