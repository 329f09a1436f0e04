//! `bytea`: its text format, and the encodings of `encode()` and `decode()`.

use crate::PgError;

/// Parses `\x6162`, or text with octal escapes (`a\\b\101`).
pub(crate) fn bytea_from_text(text: &str) -> Result<Vec<u8>, PgError> {
    match text.strip_prefix("\\x") {
        Some(digits) => from_hex(digits),
        None => from_escapes(text),
    }
}

fn invalid(message: impl Into<String>) -> PgError {
    PgError::new("22023", message)
}

fn from_hex(digits: &str) -> Result<Vec<u8>, PgError> {
    let mut bytes = Vec::with_capacity(digits.len() / 2);
    let mut high = None;
    for character in digits.chars() {
        if high.is_none() && matches!(character, ' ' | '\n' | '\t' | '\r') {
            continue;
        }
        let digit = character
            .to_digit(16)
            .ok_or_else(|| invalid(format!("invalid hexadecimal digit: \"{character}\"")))?;
        match high.take() {
            None => high = Some(digit),
            Some(high) => bytes.push(u8::try_from(high * 16 + digit).unwrap_or(0)),
        }
    }
    if high.is_some() {
        return Err(invalid("invalid hexadecimal data: odd number of digits"));
    }
    Ok(bytes)
}

fn from_escapes(text: &str) -> Result<Vec<u8>, PgError> {
    let wrong = || PgError::new("22P02", "invalid input syntax for type bytea");
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        if byte != b'\\' {
            bytes.push(byte);
            continue;
        }
        let first = rest.next().ok_or_else(wrong)?;
        if first == b'\\' {
            bytes.push(first);
            continue;
        }
        let mut value = 0;
        for (at, digit) in [Some(first), rest.next(), rest.next()]
            .into_iter()
            .enumerate()
        {
            let digit = digit.filter(|digit| (b'0'..=b'7').contains(digit));
            let digit = u32::from(digit.ok_or_else(wrong)? - b'0');
            if at == 0 && digit > 3 {
                return Err(wrong());
            }
            value = value * 8 + digit;
        }
        bytes.push(u8::try_from(value).map_err(|_| wrong())?);
    }
    Ok(bytes)
}

/// `encode(bytes, format)`.
pub(crate) fn encode(bytes: &[u8], format: &str) -> Result<String, PgError> {
    match format.to_ascii_lowercase().as_str() {
        "hex" => Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect()),
        "base64" => Ok(base64(bytes)),
        "escape" => {
            let mut out = String::with_capacity(bytes.len());
            for byte in bytes {
                match byte {
                    b'\\' => out.push_str("\\\\"),
                    0 | 128.. => out.push_str(&format!("\\{byte:03o}")),
                    plain => out.push(char::from(*plain)),
                }
            }
            Ok(out)
        }
        _ => Err(invalid(format!("unrecognized encoding: \"{format}\""))),
    }
}

/// `decode(text, format)`.
pub(crate) fn decode(text: &str, format: &str) -> Result<Vec<u8>, PgError> {
    match format.to_ascii_lowercase().as_str() {
        "hex" => from_hex(text),
        "base64" => from_base64(text),
        "escape" => from_escapes(text),
        _ => Err(invalid(format!("unrecognized encoding: \"{format}\""))),
    }
}

const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
/// The line length of MIME.
const LINE: usize = 76;

fn base64(bytes: &[u8]) -> String {
    let mut out = String::with_capacity(bytes.len() * 4 / 3 + 4);
    let mut line = 0;
    for group in bytes.chunks(3) {
        if line >= LINE {
            out.push('\n');
            line = 0;
        }
        let at = |index: usize| u32::from(group.get(index).copied().unwrap_or(0));
        let bits = (at(0) << 16) | (at(1) << 8) | at(2);
        for digit in 0..4 {
            if digit > group.len() {
                out.push('=');
            } else {
                let index = (bits >> (18 - 6 * digit)) & 63;
                out.push(char::from(DIGITS[index as usize]));
            }
        }
        line += 4;
    }
    out
}

fn from_base64(text: &str) -> Result<Vec<u8>, PgError> {
    let mut bytes = Vec::with_capacity(text.len() * 3 / 4);
    let (mut bits, mut position, mut end) = (0_u32, 0, 0);
    for character in text.chars() {
        if matches!(character, ' ' | '\t' | '\n' | '\r') {
            continue;
        }
        let digit = if character == '=' {
            if end == 0 {
                end = match position {
                    2 => 1,
                    3 => 2,
                    _ => {
                        let message = "unexpected \"=\" while decoding base64 sequence";
                        return Err(invalid(message));
                    }
                };
            }
            0
        } else {
            let found = DIGITS
                .iter()
                .position(|digit| char::from(*digit) == character);
            let digit = found.filter(|_| end == 0).ok_or_else(|| {
                let message =
                    format!("invalid symbol \"{character}\" found while decoding base64 sequence");
                invalid(message)
            })?;
            u32::try_from(digit).unwrap_or(0)
        };
        bits = (bits << 6) | digit;
        position += 1;
        if position == 4 {
            let [_, first, second, third] = bits.to_be_bytes();
            bytes.push(first);
            if end == 0 || end > 1 {
                bytes.push(second);
            }
            if end == 0 {
                bytes.push(third);
            }
            (bits, position) = (0, 0);
        }
    }
    if position != 0 {
        return Err(invalid("invalid base64 end sequence"));
    }
    Ok(bytes)
}
