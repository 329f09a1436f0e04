//! `uuid`: 32 hexadecimal digits, which `PostgreSQL` accepts in any case, in braces, and with a
//! hyphen after any group of four.

use crate::PgError;

/// The canonical text of a uuid.
pub(crate) fn uuid_from_text(text: &str) -> Result<String, PgError> {
    let wrong = || PgError::invalid_text("uuid", text);
    let inside = match text.strip_prefix('{') {
        Some(rest) => rest.strip_suffix('}').ok_or_else(wrong)?,
        None => text,
    };
    let mut digits = String::with_capacity(32);
    let mut rest = inside.chars().peekable();
    while let Some(character) = rest.next() {
        if !character.is_ascii_hexdigit() {
            return Err(wrong());
        }
        digits.push(character.to_ascii_lowercase());
        if digits.len().is_multiple_of(4) && digits.len() < 32 {
            rest.next_if_eq(&'-');
        }
    }
    if digits.len() != 32 {
        return Err(wrong());
    }
    Ok(hyphenated(&digits))
}

/// The sixteen bytes of a canonical text.
pub(crate) fn uuid_bytes(canonical: &str) -> [u8; 16] {
    let digits = canonical
        .bytes()
        .filter_map(|byte| char::from(byte).to_digit(16));
    digits
        .fold(0_u128, |all, digit| all << 4 | u128::from(digit))
        .to_be_bytes()
}

/// The text of the sixteen bytes of a uuid.
pub(crate) fn uuid_text(bytes: &[u8]) -> String {
    let digits: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    hyphenated(&digits)
}

fn hyphenated(digits: &str) -> String {
    let at = |from: usize, to: usize| digits.get(from..to).unwrap_or_default();
    let parts = [at(0, 8), at(8, 12), at(12, 16), at(16, 20), at(20, 32)];
    parts.join("-")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spellings() {
        let canonical = "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11";
        for text in [
            canonical,
            "A0EEBC99-9C0B-4EF8-BB6D-6BB9BD380A11",
            "{a0eebc999c0b4ef8bb6d6bb9bd380a11}",
            "a0ee-bc99-9c0b-4ef8-bb6d-6bb9-bd38-0a11",
        ] {
            assert_eq!(uuid_from_text(text).as_deref(), Ok(canonical));
        }
        for text in ["", "a0eebc99", "{a0eebc999c0b4ef8bb6d6bb9bd380a11", "g"] {
            assert!(uuid_from_text(text).is_err(), "{text}");
        }
    }
}
