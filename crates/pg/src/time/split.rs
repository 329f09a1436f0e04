//! Splits the text of a date, time or interval into its fields, as PostgreSQL does.

use super::words;

/// The kind of a field, by its characters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Number,
    Text,
    /// Digits or letters with `-`, `/` or `.` inside: a date, or the name of a zone.
    Date,
    /// Digits with a colon.
    Time,
    /// A sign and digits: an offset, or a signed number of an interval.
    Offset,
    /// A sign and letters: `-infinity`.
    Special,
}

/// A field, in lower case.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Field {
    pub(super) kind: Kind,
    pub(super) text: String,
}

/// The fields of a text; `None` if a character belongs to none.
pub(super) fn fields(text: &str) -> Option<Vec<Field>> {
    let mut at = Cursor {
        rest: text.as_bytes(),
    };
    let mut found = vec![];
    while let Some(byte) = at.peek() {
        if byte.is_ascii_whitespace() || byte == b'\x0b' {
            at.rest = &at.rest[1..];
            continue;
        }
        let mut text = String::new();
        let kind = if byte.is_ascii_digit() {
            number(&mut at, &mut text)
        } else if byte == b'.' {
            at.one(&mut text);
            at.take(&mut text, |byte| byte.is_ascii_digit());
            Kind::Number
        } else if byte.is_ascii_alphabetic() {
            letters(&mut at, &mut text)
        } else if byte == b'+' || byte == b'-' {
            signed(&mut at, &mut text)?
        } else if byte.is_ascii_punctuation() {
            at.rest = &at.rest[1..];
            continue;
        } else {
            return None;
        };
        if text.len() > FIELD_LENGTH_MAX || found.len() >= FIELDS_MAX {
            return None;
        }
        found.push(Field { kind, text });
    }
    Some(found)
}

fn number(at: &mut Cursor, text: &mut String) -> Kind {
    at.take(text, |byte| byte.is_ascii_digit());
    match at.peek() {
        Some(b':') => {
            at.take(text, |byte| {
                byte.is_ascii_digit() || byte == b':' || byte == b'.'
            });
            Kind::Time
        }
        Some(delimiter @ (b'-' | b'/' | b'.')) => {
            at.one(text);
            if !at.peek().is_some_and(|byte| byte.is_ascii_digit()) {
                at.take(text, |byte| {
                    byte.is_ascii_alphanumeric() || byte == delimiter
                });
                return Kind::Date;
            }
            at.take(text, |byte| byte.is_ascii_digit());
            if at.peek() == Some(delimiter) {
                at.take(text, |byte| byte.is_ascii_digit() || byte == delimiter);
                return Kind::Date;
            }
            if delimiter == b'.' {
                Kind::Number
            } else {
                Kind::Date
            }
        }
        _ => Kind::Number,
    }
}

fn letters(at: &mut Cursor, text: &mut String) -> Kind {
    at.take(text, |byte| byte.is_ascii_alphabetic());
    let is_date = match at.peek() {
        Some(b'-' | b'/' | b'.') => true,
        Some(byte) if byte == b'+' || byte.is_ascii_digit() => words::word(text).is_none(),
        _ => false,
    };
    if !is_date {
        return Kind::Text;
    }
    at.take(text, |byte| {
        byte.is_ascii_alphanumeric() || b"+-/_.:".contains(&byte)
    });
    Kind::Date
}

fn signed(at: &mut Cursor, text: &mut String) -> Option<Kind> {
    at.one(text);
    while at.peek().is_some_and(|byte| byte.is_ascii_whitespace()) {
        at.rest = &at.rest[1..];
    }
    let next = at.peek()?;
    if next.is_ascii_digit() {
        at.take(text, |byte| byte.is_ascii_digit() || b":.-".contains(&byte));
        return Some(Kind::Offset);
    }
    if next.is_ascii_alphabetic() {
        at.take(text, |byte| byte.is_ascii_alphabetic());
        return Some(Kind::Special);
    }
    None
}

struct Cursor<'a> {
    rest: &'a [u8],
}

impl Cursor<'_> {
    fn peek(&self) -> Option<u8> {
        self.rest.first().copied()
    }

    fn one(&mut self, text: &mut String) {
        if let Some((byte, rest)) = self.rest.split_first() {
            text.push(char::from(byte.to_ascii_lowercase()));
            self.rest = rest;
        }
    }

    fn take(&mut self, text: &mut String, wanted: impl Fn(u8) -> bool) {
        while self.peek().is_some_and(&wanted) {
            self.one(text);
        }
    }
}

/// PostgreSQL's limits.
const FIELDS_MAX: usize = 25;
const FIELD_LENGTH_MAX: usize = 128;
