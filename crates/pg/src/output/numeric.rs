//! Decimals in PostgreSQL's two formats.

use std::fmt::Write;

use bytes::{BufMut, BytesMut};

/// Writes a decimal (`-12.50`) as a binary numeric: groups of four digits around the decimal
/// point.
///
/// `text` has an optional sign, digits, and optionally a point with digits after it.
pub(super) fn put_numeric(text: &str, out: &mut BytesMut) {
    let (negative, digits) = match text.strip_prefix('-') {
        Some(digits) => (true, digits),
        None => (false, text),
    };
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    let whole = whole.trim_start_matches('0').as_bytes();
    let fraction = fraction.as_bytes();

    let mut groups = Vec::with_capacity(whole.len() / 4 + fraction.len() / 4 + 2);
    let (head, rest) = whole.split_at(whole.len() % 4);
    if !head.is_empty() {
        groups.push(group(head));
    }
    groups.extend(rest.chunks(4).map(group));
    let mut weight = groups.len().cast_signed() - 1;
    groups.extend(fraction.chunks(4).map(|chunk| {
        let missing = u32::try_from(4 - chunk.len()).unwrap_or(0);
        group(chunk) * 10_i16.pow(missing)
    }));

    let leading = groups.iter().take_while(|group| **group == 0).count();
    groups.drain(..leading);
    weight -= leading.cast_signed();
    while groups.last() == Some(&0) {
        groups.pop();
    }
    if groups.is_empty() {
        weight = 0;
    }
    // There are at most 76 digits on either side (Decimal256), so all of this fits.
    let short = |n: isize| i16::try_from(n).unwrap_or(i16::MAX);
    out.put_i16(short(groups.len().cast_signed()));
    out.put_i16(short(weight));
    out.put_u16(if negative && !groups.is_empty() {
        0x4000
    } else {
        0
    });
    out.put_i16(short(fraction.len().cast_signed()));
    for group in groups {
        out.put_i16(group);
    }
}

fn group(digits: &[u8]) -> i16 {
    digits
        .iter()
        .fold(0, |sum, digit| sum * 10 + i16::from(digit - b'0'))
}

/// Reads a binary numeric as text. `None` if it is malformed, infinite or not a number.
#[must_use]
pub fn numeric_text(mut raw: &[u8]) -> Option<String> {
    use bytes::Buf;
    if raw.len() < 8 {
        return None;
    }
    let count = usize::try_from(raw.get_i16()).ok()?;
    let weight = i32::from(raw.get_i16());
    let negative = match raw.get_u16() {
        0 => false,
        0x4000 => true,
        _ => return None,
    };
    let scale = usize::try_from(raw.get_i16()).ok()?;
    if raw.len() != count * 2 {
        return None;
    }
    let groups: Vec<i16> = (0..count).map(|_| raw.get_i16()).collect();
    if groups.iter().any(|group| !(0..10_000).contains(group)) {
        return None;
    }
    let at = |position: i32| {
        usize::try_from(position)
            .ok()
            .and_then(|p| groups.get(p))
            .copied()
            .unwrap_or(0)
    };
    let mut text = String::from(if negative { "-" } else { "" });
    if weight < 0 {
        text.push('0');
    }
    for position in 0..=weight {
        let _ = match position {
            0 => write!(text, "{}", at(0)),
            position => write!(text, "{:04}", at(position)),
        };
    }
    if scale > 0 {
        let mut fraction = String::new();
        let mut position = weight + 1;
        // Groups before the first one sent are zero.
        if weight < -1 {
            position = 0;
            fraction.push_str(&"0000".repeat(weight.unsigned_abs() as usize - 1));
        }
        while fraction.len() < scale {
            let _ = write!(fraction, "{:04}", at(position));
            position += 1;
        }
        fraction.truncate(scale);
        text.push('.');
        text.push_str(&fraction);
    }
    Some(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numerics_survive_the_round_trip() {
        for text in [
            "0",
            "0.00",
            "1",
            "-1",
            "12.50",
            "10000",
            "-10000.0001",
            "0.0001",
            "0.00001234",
            "9999.9999",
            "123456789012345678901234567890.12345678",
            "0.000000000000000000001",
            "100000000",
        ] {
            let mut out = BytesMut::new();
            put_numeric(text, &mut out);
            assert_eq!(numeric_text(&out).as_deref(), Some(text));
        }
    }
}
