//! How is a row written in LATIN1, and why is it not written at all?
//!
//! A row of `COPY … ENCODING 'LATIN1'` is written in UTF-8, and then each of its characters becomes
//! a byte.
//! Not here: other encodings, which are refused; COPY in binary, whose texts stay in UTF-8 as in
//! PostgreSQL.

use bytes::{BufMut, BytesMut};
use coscan_pg::PgError;

/// Why a row cannot be written.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Unwritten {
    /// A value cannot be encoded, or the row is too long.
    Row,
    /// LATIN1 lacks this character.
    Character(char),
}

impl From<std::fmt::Error> for Unwritten {
    fn from(_: std::fmt::Error) -> Self {
        Self::Row
    }
}

impl Unwritten {
    /// The error for this row of a batch.
    pub(crate) fn error(&self, row: usize) -> PgError {
        let Self::Character(character) = self else {
            return PgError::new("54000", format!("row {row} of a batch cannot be encoded"));
        };
        let mut bytes = [0; 4];
        let bytes = character.encode_utf8(&mut bytes).bytes();
        let bytes: Vec<String> = bytes.map(|byte| format!("0x{byte:02x}")).collect();
        let message = format!(
            "character with byte sequence {} in encoding \"UTF8\" has no equivalent in encoding \
             \"LATIN1\"",
            bytes.join(" ")
        );
        PgError::new("22P05", message)
    }
}

/// Whether a name is one of LATIN1 and not of UTF8; `None` for other encodings.
pub(super) fn is_latin1(encoding: &str) -> Option<bool> {
    let letters = encoding.chars().filter(char::is_ascii_alphanumeric);
    let name: String = letters.collect();
    match name.to_ascii_lowercase().as_str() {
        "utf8" | "unicode" => Some(false),
        "latin1" | "iso88591" => Some(true),
        _ => None,
    }
}

/// Converts what was written from `start` on.
pub(super) fn convert(out: &mut BytesMut, start: usize) -> Result<(), Unwritten> {
    let written = out[start..].to_vec();
    let text = std::str::from_utf8(&written).map_err(|_| Unwritten::Row)?;
    out.truncate(start);
    for character in text.chars() {
        let byte = u8::try_from(character).map_err(|_| Unwritten::Character(character))?;
        out.put_u8(byte);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_encodings() {
        for name in ["LATIN1", "latin-1", "ISO-8859-1", "iso_8859_1"] {
            assert_eq!(is_latin1(name), Some(true), "{name}");
        }
        for name in ["UTF8", "utf-8", "unicode"] {
            assert_eq!(is_latin1(name), Some(false), "{name}");
        }
        assert_eq!(is_latin1("latin2"), None);
    }

    #[test]
    fn characters_become_bytes() {
        let mut out = BytesMut::from("ü,é\n".as_bytes());
        assert_eq!(convert(&mut out, 3), Ok(()));
        assert_eq!(&out[..], [0xc3, 0xbc, b',', 0xe9, b'\n']);
        assert_eq!(convert(&mut BytesMut::new(), 0), Ok(()));
    }

    #[test]
    fn characters_that_latin1_lacks() {
        let mut out = BytesMut::from("é€".as_bytes());
        let error = convert(&mut out, 0).unwrap_err();
        assert_eq!(error, Unwritten::Character('€'));
        let said = error.error(0);
        let message = "character with byte sequence 0xe2 0x82 0xac in encoding \"UTF8\" has no \
                       equivalent in encoding \"LATIN1\"";
        assert_eq!((said.code(), said.message()), ("22P05", message));
    }
}
