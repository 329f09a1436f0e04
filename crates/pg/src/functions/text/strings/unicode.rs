//! Unicode escapes, `unistr`, and the name of the encoding.

use datafusion::error::Result;

use crate::PgError;
use crate::functions::scalar::Take::Text;
use crate::functions::scalar::{Form, Function, Give, Value};

pub(in crate::functions::text) fn functions() -> Vec<Function> {
    vec![Function::new(
        "unistr",
        vec![Form::new(&[Text], Give::Text, |row| {
            Ok(Value::Text(unescaped(row.text(0), '\\')?))
        })],
    )]
}

/// Replaces the escapes in a text with their characters. If the escape character is a backslash,
/// `u` or `U` may follow it, as in `unistr`.
pub(crate) fn unescaped(text: &str, escape: char) -> Result<String, PgError> {
    let wrong = || PgError::new("42601", "invalid Unicode escape");
    let unpaired = || PgError::new("42601", "invalid Unicode surrogate pair");
    let mut out = String::with_capacity(text.len());
    let mut first: Option<u32> = None;
    let mut rest = text;
    while let Some(at) = rest.chars().next() {
        if at != escape {
            if first.is_some() {
                return Err(unpaired());
            }
            out.push(at);
            rest = &rest[at.len_utf8()..];
            continue;
        }
        let after = &rest[escape.len_utf8()..];
        if let Some(plain) = after.strip_prefix(escape) {
            if first.is_some() {
                return Err(unpaired());
            }
            out.push(escape);
            rest = plain;
            continue;
        }
        let (digits, length) = match after.chars().next() {
            Some('+') => (&after[1..], 6),
            Some('u') if escape == '\\' => (&after[1..], 4),
            Some('U') if escape == '\\' => (&after[1..], 8),
            _ => (after, 4),
        };
        let hex = digits.get(..length).ok_or_else(wrong)?;
        if !hex.chars().all(|digit| digit.is_ascii_hexdigit()) {
            return Err(wrong());
        }
        let code = u32::from_str_radix(hex, 16).map_err(|_| wrong())?;
        rest = &digits[length..];
        match (first.take(), code) {
            (None, 0xD800..=0xDBFF) => first = Some(code),
            (Some(high), 0xDC00..=0xDFFF) => {
                let pair = 0x10000 + ((high - 0xD800) << 10) + (code - 0xDC00);
                out.push(char::from_u32(pair).ok_or_else(unpaired)?);
            }
            (None, 0) => return Err(PgError::new("42601", "invalid Unicode code point")),
            (None, code) if !(0xDC00..=0xDFFF).contains(&code) => {
                let message = format!("invalid Unicode code point: {code:04X}");
                let found = char::from_u32(code).ok_or_else(|| PgError::new("42601", message));
                out.push(found?);
            }
            _ => return Err(unpaired()),
        }
    }
    if first.is_some() {
        return Err(unpaired());
    }
    Ok(out)
}
