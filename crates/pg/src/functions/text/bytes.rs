//! Bytes: lengths, single bytes and bits, encodings.

use super::count;
use crate::PgError;
use crate::functions::scalar::Take::{Bytes, Int, Text};
use crate::functions::scalar::{Form, Function, Give, Row, Value, marked_type};
use crate::values::{decode, encode};
use datafusion::error::Result;

pub(super) fn functions() -> Vec<Function> {
    vec![
        Function::new(
            "length",
            vec![
                Form::new(&[Text], Give::Int4, |row| {
                    Ok(count(row.text(0).chars().count()))
                }),
                Form::new(&[Bytes], Give::Int4, |row| Ok(count(row.bytes(0).len()))),
                Form::new(&[Bytes, Text], Give::Int4, |row| {
                    Ok(count(converted(row.bytes(0), row.text(1))?.chars().count()))
                }),
            ],
        ),
        Function::new(
            "byteacat",
            vec![Form::new(&[Bytes, Bytes], Give::Bytes, |row| {
                Ok(Value::Bytes([row.bytes(0), row.bytes(1)].concat()))
            })],
        ),
        Function::new(
            "octet_length",
            vec![
                Form::new(&[Text], Give::Int4, |row| Ok(count(octets(row)?))),
                Form::new(&[Bytes], Give::Int4, |row| Ok(count(row.bytes(0).len()))),
            ],
        ),
        Function::new(
            "bit_length",
            vec![
                Form::new(&[Text], Give::Int4, |row| Ok(count(row.text(0).len() * 8))),
                Form::new(&[Bytes], Give::Int4, |row| {
                    Ok(count(row.bytes(0).len() * 8))
                }),
            ],
        ),
        Function::new(
            "encode",
            vec![Form::new(&[Bytes, Text], Give::Text, |row| {
                Ok(Value::Text(encode(row.bytes(0), row.text(1))?))
            })],
        ),
        Function::new(
            "decode",
            vec![Form::new(&[Text, Text], Give::Bytes, |row| {
                Ok(Value::Bytes(decode(row.text(0), row.text(1))?))
            })],
        ),
        Function::new(
            "convert_from",
            vec![Form::new(&[Bytes, Text], Give::Text, |row| {
                Ok(Value::Text(converted(row.bytes(0), row.text(1))?))
            })],
        ),
        Function::new(
            "convert_to",
            vec![Form::new(&[Text, Text], Give::Bytes, |row| {
                converted(&[], row.text(1))?;
                Ok(Value::Bytes(row.text(0).as_bytes().to_vec()))
            })],
        ),
        Function::new(
            "get_byte",
            vec![Form::new(&[Bytes, Int], Give::Int4, |row| {
                let bytes = row.bytes(0);
                let at = place(row.int(1), bytes.len())?;
                Ok(Value::Int(i64::from(bytes[at])))
            })],
        ),
        Function::new(
            "set_byte",
            vec![Form::new(&[Bytes, Int, Int], Give::Bytes, |row| {
                let mut bytes = row.bytes(0).to_vec();
                let at = place(row.int(1), bytes.len())?;
                bytes[at] = row.int(2).to_le_bytes()[0];
                Ok(Value::Bytes(bytes))
            })],
        ),
        Function::new(
            "get_bit",
            vec![Form::new(&[Bytes, Int], Give::Int4, |row| {
                let bytes = row.bytes(0);
                let at = place(row.int(1), bytes.len() * 8)?;
                Ok(Value::Int(i64::from(bytes[at / 8] >> (at % 8) & 1)))
            })],
        ),
        Function::new(
            "set_bit",
            vec![Form::new(&[Bytes, Int, Int], Give::Bytes, set_bit)],
        ),
        Function::new(
            "bit_count",
            vec![Form::new(&[Bytes], Give::Int8, |row| {
                let ones: u32 = row.bytes(0).iter().map(|byte| byte.count_ones()).sum();
                Ok(Value::Int(i64::from(ones)))
            })],
        ),
    ]
}

/// The number of bytes in a text, including the padding of a `character(n)`.
fn octets(row: &Row<'_>) -> Result<usize> {
    if marked_type(row.field(0)) == Some("bpchar") {
        return Ok(row.shown(0)?.unwrap_or_default().len());
    }
    Ok(row.text(0).len())
}

fn place(at: i64, length: usize) -> Result<usize> {
    let found = usize::try_from(at).ok().filter(|at| *at < length);
    found.ok_or_else(|| {
        let last = i64::try_from(length).unwrap_or(i64::MAX) - 1;
        let message = format!("index {at} out of valid range, 0..{last}");
        PgError::new("2202E", message).into()
    })
}

fn set_bit(row: &Row<'_>) -> Result<Value> {
    let mut bytes = row.bytes(0).to_vec();
    let at = place(row.int(1), bytes.len() * 8)?;
    let mask = 1_u8 << (at % 8);
    match row.int(2) {
        0 => bytes[at / 8] &= !mask,
        1 => bytes[at / 8] |= mask,
        _ => return Err(PgError::new("22023", "new bit must be 0 or 1").into()),
    }
    Ok(Value::Bytes(bytes))
}

/// Decodes bytes in an encoding.
fn converted(bytes: &[u8], encoding: &str) -> Result<String> {
    let plain: String = encoding
        .chars()
        .filter(char::is_ascii_alphanumeric)
        .collect();
    match plain.to_ascii_lowercase().as_str() {
        "utf8" | "unicode" => {}
        "latin1" | "iso88591" => return Ok(bytes.iter().map(|byte| char::from(*byte)).collect()),
        _ => {
            let message = format!("encoding \"{encoding}\" is not supported");
            return Err(PgError::unsupported(message).into());
        }
    }
    match std::str::from_utf8(bytes) {
        Ok(text) if !text.contains('\0') => Ok(text.to_owned()),
        Ok(_) => Err(wrong_bytes(&[0])),
        Err(error) => {
            let rest = &bytes[error.valid_up_to()..];
            let length = match rest.first() {
                Some(0xC0..=0xDF) => 2,
                Some(0xE0..=0xEF) => 3,
                Some(0xF0..=0xF7) => 4,
                _ => 1,
            };
            Err(wrong_bytes(&rest[..length.min(rest.len())]))
        }
    }
}

fn wrong_bytes(bytes: &[u8]) -> datafusion::error::DataFusionError {
    let shown: Vec<_> = bytes.iter().map(|byte| format!("0x{byte:02x}")).collect();
    let message = format!(
        "invalid byte sequence for encoding \"UTF8\": {}",
        shown.join(" ")
    );
    PgError::new("22021", message).into()
}
