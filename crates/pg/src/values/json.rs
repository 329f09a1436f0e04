//! `json` and `jsonb`: parsing, and the normal form of `jsonb`.
//!
//! Both are held as text. A `json` is the original text; a `jsonb` is in normal form: keys sorted
//! by length, then by bytes, only the last of duplicate keys, one blank after `:` and `,`.

use std::cmp::Ordering;
use std::fmt::{self, Write};

use super::json_number;
use crate::PgError;

/// The maximum nesting depth of arrays and objects.
const DEPTH_MAX: usize = 1000;

/// A value, with numbers as written.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Json {
    Null,
    Bool(bool),
    Number(String),
    Text(String),
    Array(Vec<Json>),
    /// The members in the order of the text.
    Object(Vec<(String, Json)>),
    /// A value of a `json`, as written.
    #[expect(dead_code, reason = "matched, but never constructed")]
    Raw(String),
}

impl Json {
    /// Parses a text.
    pub(crate) fn parse(text: &str) -> Result<Self, PgError> {
        let mut reader = Reader::new(text);
        let value = reader.value(0)?;
        reader.end()?;
        Ok(value)
    }

    /// Checks a text, which need not be valid for `jsonb`.
    pub(crate) fn check(text: &str) -> Result<(), PgError> {
        let mut reader = Reader::new(text);
        reader.keeps_escapes = true;
        reader.value(0)?;
        reader.end()
    }

    /// The members or elements of a text's outermost value, each as written; or the scalar.
    pub(crate) fn parts(text: &str) -> Result<Parts, PgError> {
        let mut reader = Reader::new(text);
        reader.skip();
        match reader.peek() {
            Some('{') => {
                let mut members = vec![];
                reader.members(|reader, key| {
                    members.push((key, reader.spelled()?));
                    Ok(())
                })?;
                Ok(Parts::Object(members))
            }
            Some('[') => {
                let mut elements = vec![];
                reader.elements(|reader| {
                    elements.push(reader.spelled()?);
                    Ok(())
                })?;
                Ok(Parts::Array(elements))
            }
            _ => Ok(Parts::Scalar(reader.value(0)?)),
        }
    }

    /// The value in the normal form of `jsonb`.
    pub(crate) fn normal(self) -> Self {
        match self {
            Self::Number(number) => {
                let normal = json_number::normal(&number);
                Self::Number(normal.unwrap_or(number))
            }
            Self::Array(elements) => Self::Array(elements.into_iter().map(Self::normal).collect()),
            Self::Object(members) => {
                let mut kept: Vec<(String, Self)> = Vec::with_capacity(members.len());
                for (key, value) in members {
                    let value = value.normal();
                    match kept.iter_mut().find(|(known, _)| *known == key) {
                        Some((_, old)) => *old = value,
                        None => kept.push((key, value)),
                    }
                }
                kept.sort_by(|(left, _), (right, _)| key_order(left, right));
                Self::Object(kept)
            }
            other => other,
        }
    }

    /// The result of `jsonb_typeof`.
    pub(crate) fn kind(&self) -> &'static str {
        match self {
            Self::Null => "null",
            Self::Bool(_) => "boolean",
            Self::Number(_) => "number",
            Self::Text(_) => "string",
            Self::Array(_) => "array",
            Self::Object(_) | Self::Raw(_) => "object",
        }
    }

    /// Whether a value contains another (`@>`) below the outermost level.
    pub(crate) fn contains(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Object(members), Self::Object(wanted)) => wanted.iter().all(|(key, wanted)| {
                let found = members.iter().find(|(known, _)| known == key);
                found.is_some_and(|(_, value)| value.contains(wanted))
            }),
            (Self::Array(elements), Self::Array(wanted)) => wanted
                .iter()
                .all(|wanted| elements.iter().any(|element| element.contains(wanted))),
            (left, right) => left.order(right) == Ordering::Equal,
        }
    }

    /// `PostgreSQL`'s order: object, array, boolean, number, string, null. The array or object
    /// with fewer elements is less.
    pub(crate) fn order(&self, other: &Self) -> Ordering {
        match (self, other) {
            (Self::Bool(left), Self::Bool(right)) => left.cmp(right),
            (Self::Number(left), Self::Number(right)) => json_number::compare(left, right),
            (Self::Text(left), Self::Text(right)) => left.cmp(right),
            (Self::Array(left), Self::Array(right)) => {
                left.len().cmp(&right.len()).then_with(|| {
                    let mut pairs = left.iter().zip(right);
                    let found = pairs.find_map(|(left, right)| {
                        let order = left.order(right);
                        (order != Ordering::Equal).then_some(order)
                    });
                    found.unwrap_or(Ordering::Equal)
                })
            }
            (Self::Object(left), Self::Object(right)) => {
                left.len().cmp(&right.len()).then_with(|| {
                    let mut pairs = left.iter().zip(right);
                    let found = pairs.find_map(|((left_key, left), (right_key, right))| {
                        let order = left_key.cmp(right_key).then_with(|| left.order(right));
                        (order != Ordering::Equal).then_some(order)
                    });
                    found.unwrap_or(Ordering::Equal)
                })
            }
            (left, right) => left.rank().cmp(&right.rank()),
        }
    }

    fn rank(&self) -> u8 {
        match self {
            Self::Null => 0,
            Self::Text(_) => 1,
            Self::Number(_) => 2,
            Self::Bool(_) => 3,
            Self::Array(_) => 4,
            Self::Object(_) | Self::Raw(_) => 5,
        }
    }
}

/// The result of [`Json::parts`].
pub(crate) enum Parts {
    Object(Vec<(String, String)>),
    Array(Vec<String>),
    Scalar(Json),
}

fn key_order(left: &str, right: &str) -> Ordering {
    left.len().cmp(&right.len()).then_with(|| left.cmp(right))
}

/// The text of a `jsonb`.
impl fmt::Display for Json {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Null => out.write_str("null"),
            Self::Bool(value) => write!(out, "{value}"),
            Self::Number(text) | Self::Raw(text) => out.write_str(text),
            Self::Text(text) => out.write_str(&quoted(text)),
            Self::Array(elements) => {
                out.write_char('[')?;
                for (at, element) in elements.iter().enumerate() {
                    out.write_str(if at > 0 { ", " } else { "" })?;
                    write!(out, "{element}")?;
                }
                out.write_char(']')
            }
            Self::Object(members) => {
                out.write_char('{')?;
                for (at, (key, value)) in members.iter().enumerate() {
                    out.write_str(if at > 0 { ", " } else { "" })?;
                    write!(out, "{}: {value}", quoted(key))?;
                }
                out.write_char('}')
            }
        }
    }
}

/// The JSON string for a text.
pub(crate) fn quoted(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    out.push('"');
    for letter in text.chars() {
        match letter {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\u{8}' => out.push_str("\\b"),
            '\u{c}' => out.push_str("\\f"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            control if control < ' ' => {
                let _ = write!(out, "\\u{:04x}", u32::from(control));
            }
            plain => out.push(plain),
        }
    }
    out.push('"');
    out
}

fn wrong() -> PgError {
    PgError::new("22P02", "invalid input syntax for type json")
}

struct Reader<'a> {
    text: &'a str,
    at: usize,
    /// Whether `\u0000` is accepted, as in `json`.
    keeps_escapes: bool,
}

impl<'a> Reader<'a> {
    fn new(text: &'a str) -> Self {
        Self {
            text,
            at: 0,
            keeps_escapes: false,
        }
    }

    fn rest(&self) -> &'a str {
        &self.text[self.at..]
    }

    fn peek(&self) -> Option<char> {
        self.rest().chars().next()
    }

    fn skip(&mut self) {
        let rest = self.rest();
        let trimmed = rest.trim_start_matches([' ', '\t', '\n', '\r']);
        self.at += rest.len() - trimmed.len();
    }

    fn eat(&mut self, wanted: char) -> bool {
        let found = self.rest().starts_with(wanted);
        self.at += usize::from(found);
        found
    }

    fn expect(&mut self, wanted: char) -> Result<(), PgError> {
        if self.eat(wanted) {
            Ok(())
        } else {
            Err(wrong())
        }
    }

    fn end(&mut self) -> Result<(), PgError> {
        self.skip();
        if self.at == self.text.len() {
            Ok(())
        } else {
            Err(wrong())
        }
    }

    fn value(&mut self, depth: usize) -> Result<Json, PgError> {
        if depth > DEPTH_MAX {
            return Err(PgError::new("54001", "stack depth limit exceeded"));
        }
        self.skip();
        match self.peek().ok_or_else(wrong)? {
            '{' => {
                let mut members = vec![];
                self.members(|reader, key| {
                    members.push((key, reader.value(depth + 1)?));
                    Ok(())
                })?;
                Ok(Json::Object(members))
            }
            '[' => {
                let mut elements = vec![];
                self.elements(|reader| {
                    elements.push(reader.value(depth + 1)?);
                    Ok(())
                })?;
                Ok(Json::Array(elements))
            }
            '"' => Ok(Json::Text(self.string()?)),
            '-' | '0'..='9' => Ok(Json::Number(self.number()?)),
            _ => self.word(),
        }
    }

    /// Parses an object; `member` parses each value.
    fn members(
        &mut self,
        mut member: impl FnMut(&mut Self, String) -> Result<(), PgError>,
    ) -> Result<(), PgError> {
        self.expect('{')?;
        self.skip();
        if self.eat('}') {
            return Ok(());
        }
        loop {
            self.skip();
            let key = self.string()?;
            self.skip();
            self.expect(':')?;
            self.skip();
            member(self, key)?;
            self.skip();
            if self.eat('}') {
                return Ok(());
            }
            self.expect(',')?;
        }
    }

    fn elements(
        &mut self,
        mut element: impl FnMut(&mut Self) -> Result<(), PgError>,
    ) -> Result<(), PgError> {
        self.expect('[')?;
        self.skip();
        if self.eat(']') {
            return Ok(());
        }
        loop {
            self.skip();
            element(self)?;
            self.skip();
            if self.eat(']') {
                return Ok(());
            }
            self.expect(',')?;
        }
    }

    fn spelled(&mut self) -> Result<String, PgError> {
        let start = self.at;
        self.value(0)?;
        Ok(self.text[start..self.at].to_owned())
    }

    fn word(&mut self) -> Result<Json, PgError> {
        let words = [
            ("null", Json::Null),
            ("true", Json::Bool(true)),
            ("false", Json::Bool(false)),
        ];
        for (word, value) in words {
            if let Some(behind) = self.rest().strip_prefix(word)
                && !behind.starts_with(|next: char| next.is_alphanumeric() || next == '_')
            {
                self.at += word.len();
                return Ok(value);
            }
        }
        Err(wrong())
    }

    fn digits(&mut self) -> Result<(), PgError> {
        let start = self.at;
        while self.peek().is_some_and(|digit| digit.is_ascii_digit()) {
            self.at += 1;
        }
        if self.at > start {
            Ok(())
        } else {
            Err(wrong())
        }
    }

    fn number(&mut self) -> Result<String, PgError> {
        let start = self.at;
        self.eat('-');
        if !self.eat('0') {
            self.digits()?;
        }
        if self.eat('.') {
            self.digits()?;
        }
        if self.eat('e') || self.eat('E') {
            let _ = self.eat('+') || self.eat('-');
            self.digits()?;
        }
        if self
            .peek()
            .is_some_and(|next| next.is_alphanumeric() || next == '_')
        {
            return Err(wrong());
        }
        Ok(self.text[start..self.at].to_owned())
    }

    fn string(&mut self) -> Result<String, PgError> {
        self.expect('"')?;
        let mut out = String::new();
        let mut high: Option<u32> = None;
        loop {
            let letter = self.peek().ok_or_else(wrong)?;
            self.at += letter.len_utf8();
            if letter != '\\' && high.is_some() {
                return Err(wrong());
            }
            match letter {
                '"' => return Ok(out),
                '\\' => {
                    let escape = self.peek().ok_or_else(wrong)?;
                    self.at += escape.len_utf8();
                    if escape != 'u' && high.is_some() {
                        return Err(wrong());
                    }
                    match escape {
                        'u' => self.unicode(&mut out, &mut high)?,
                        'b' => out.push('\u{8}'),
                        'f' => out.push('\u{c}'),
                        'n' => out.push('\n'),
                        'r' => out.push('\r'),
                        't' => out.push('\t'),
                        '"' | '\\' | '/' => out.push(escape),
                        _ => return Err(wrong()),
                    }
                }
                control if control < ' ' => return Err(wrong()),
                plain => out.push(plain),
            }
        }
    }

    fn unicode(&mut self, out: &mut String, high: &mut Option<u32>) -> Result<(), PgError> {
        let digits = self.rest().get(..4).ok_or_else(wrong)?;
        if !digits.bytes().all(|digit| digit.is_ascii_hexdigit()) {
            return Err(wrong());
        }
        let code = u32::from_str_radix(digits, 16).map_err(|_| wrong())?;
        self.at += 4;
        match (high.take(), code) {
            (None, 0xD800..=0xDBFF) => *high = Some(code),
            (Some(first), 0xDC00..=0xDFFF) => {
                let pair = 0x10000 + ((first - 0xD800) << 10) + (code - 0xDC00);
                out.push(char::from_u32(pair).ok_or_else(wrong)?);
            }
            (Some(_), _) => return Err(wrong()),
            (None, 0) if !self.keeps_escapes => {
                return Err(PgError::new("22P05", "unsupported Unicode escape sequence"));
            }
            (None, code) => out.push(char::from_u32(code).ok_or_else(wrong)?),
        }
        Ok(())
    }
}
