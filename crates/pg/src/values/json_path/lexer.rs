//! The tokens of a path.

use crate::PgError;

/// A token.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Token {
    /// An unquoted name, or a keyword.
    Word(String),
    Text(String),
    Variable(String),
    Number(String),
    Sign(&'static str),
}

/// The operators and punctuation, longer ones first.
const SIGNS: [&str; 29] = [
    "&&", "||", "**", "<=", "==", "<>", "!=", ">=", "!", "<", ">", "?", "%", "$", ".", "[", "]",
    "{", "}", "(", ")", "@", "#", ",", "*", ":", "-", "+", "/",
];

pub(super) fn syntax_error(near: Option<&str>) -> PgError {
    let place = match near {
        Some(near) => format!("or near \"{near}\" of"),
        None => "end of".to_owned(),
    };
    PgError::new("42601", format!("syntax error at {place} jsonpath input"))
}

pub(super) fn tokens(text: &str) -> Result<Vec<Token>, PgError> {
    let mut lexer = Lexer { rest: text };
    let mut found = vec![];
    while let Some(token) = lexer.token()? {
        found.push(token);
    }
    Ok(found)
}

struct Lexer<'a> {
    rest: &'a str,
}

fn is_blank(letter: char) -> bool {
    matches!(letter, ' ' | '\t' | '\n' | '\r' | '\u{c}')
}

/// Whether a character may be part of a name.
fn is_other(letter: char) -> bool {
    !is_blank(letter) && !"?%$.[]{}()|&!=<>@#,*:-+/\\\"".contains(letter)
}

impl Lexer<'_> {
    fn token(&mut self) -> Result<Option<Token>, PgError> {
        loop {
            self.rest = self.rest.trim_start_matches(is_blank);
            let Some(comment) = self.rest.strip_prefix("/*") else {
                break;
            };
            let Some(end) = comment.find("*/") else {
                let message = "unexpected end of comment at end of jsonpath input";
                return Err(PgError::new("42601", message));
            };
            self.rest = &comment[end + 2..];
        }
        let Some(first) = self.rest.chars().next() else {
            return Ok(None);
        };
        if let Some(number) = self.number()? {
            return Ok(Some(Token::Number(number)));
        }
        if first == '"' {
            return Ok(Some(Token::Text(self.quoted()?)));
        }
        if let Some(behind) = self.rest.strip_prefix('$') {
            if behind.starts_with('"') {
                self.rest = behind;
                return Ok(Some(Token::Variable(self.quoted()?)));
            }
            if behind.starts_with(|letter| is_other(letter) || letter == '\\') {
                self.rest = behind;
                return Ok(Some(Token::Variable(self.word()?)));
            }
        }
        if is_other(first) || first == '\\' {
            return Ok(Some(Token::Word(self.word()?)));
        }
        for sign in SIGNS {
            if let Some(rest) = self.rest.strip_prefix(sign) {
                self.rest = rest;
                return Ok(Some(Token::Sign(if sign == "<>" { "!=" } else { sign })));
            }
        }
        Err(syntax_error(Some(&first.to_string())))
    }

    fn number(&mut self) -> Result<Option<String>, PgError> {
        let bytes = self.rest.as_bytes();
        let digits = |mut at: usize| {
            while bytes.get(at).is_some_and(u8::is_ascii_digit) {
                at += 1;
            }
            at
        };
        let whole = match bytes.first() {
            Some(b'0') => 1,
            Some(b'1'..=b'9') => digits(0),
            Some(b'.') if bytes.get(1).is_some_and(u8::is_ascii_digit) => 0,
            _ => return Ok(None),
        };
        let mut end = whole;
        if bytes.get(end) == Some(&b'.') {
            end = digits(end + 1);
        }
        if matches!(bytes.get(end), Some(b'e' | b'E')) {
            let sign = usize::from(matches!(bytes.get(end + 1), Some(b'+' | b'-')));
            let exponent = digits(end + 1 + sign);
            if exponent > end + 1 + sign {
                end = exponent;
            }
        }
        let behind = &self.rest[end..];
        if let Some(letter) = behind.chars().next().filter(|letter| is_other(*letter)) {
            let near = &self.rest[..end + letter.len_utf8()];
            let message = format!(
                "trailing junk after numeric literal at or near \"{near}\" of jsonpath input"
            );
            return Err(PgError::new("42601", message));
        }
        let number = self.rest[..end].to_owned();
        self.rest = behind;
        Ok(Some(number))
    }

    /// Reads an unquoted name, which may contain escapes.
    fn word(&mut self) -> Result<String, PgError> {
        let mut out = String::new();
        loop {
            match self.rest.chars().next() {
                Some('\\') => self.escape(&mut out)?,
                Some(letter) if is_other(letter) => {
                    out.push(letter);
                    self.rest = &self.rest[letter.len_utf8()..];
                }
                _ => return Ok(out),
            }
        }
    }

    fn quoted(&mut self) -> Result<String, PgError> {
        let mut out = String::new();
        self.rest = &self.rest[1..];
        loop {
            match self.rest.chars().next() {
                None => {
                    let message = "unexpected end of quoted string at end of jsonpath input";
                    return Err(PgError::new("42601", message));
                }
                Some('"') => {
                    self.rest = &self.rest[1..];
                    return Ok(out);
                }
                Some('\\') => self.escape(&mut out)?,
                Some(letter) => {
                    out.push(letter);
                    self.rest = &self.rest[letter.len_utf8()..];
                }
            }
        }
    }

    fn escape(&mut self, out: &mut String) -> Result<(), PgError> {
        let Some(letter) = self.rest.chars().nth(1) else {
            let message = "unexpected end after backslash at or near \"\\\" of jsonpath input";
            return Err(PgError::new("42601", message));
        };
        let behind = &self.rest[1 + letter.len_utf8()..];
        let (code, used) = match letter {
            'b' => (8, 0),
            'f' => (12, 0),
            'n' => (10, 0),
            'r' => (13, 0),
            't' => (9, 0),
            'v' => (11, 0),
            'x' => (hex(behind.get(..2), "hexadecimal character")?, 2),
            'u' => match behind.strip_prefix('{').and_then(|inner| inner.find('}')) {
                Some(length @ 1..=6) => (hex(behind.get(1..=length), "Unicode")?, length + 2),
                _ => (hex(behind.get(..4), "Unicode")?, 4),
            },
            plain => (u32::from(plain), 0),
        };
        self.rest = &behind[used..];
        match (char::from_u32(code), code) {
            (Some('\0'), _) => Err(PgError::new("22P05", "unsupported Unicode escape sequence")),
            (Some(letter), _) => {
                out.push(letter);
                Ok(())
            }
            (None, 0xD800..=0xDBFF) => {
                let low = self.rest.strip_prefix("\\u").and_then(|rest| rest.get(..4));
                let low = low.map(|low| hex(Some(low), "Unicode")).transpose()?;
                let pair = low.filter(|low| (0xDC00..=0xDFFF).contains(low));
                let pair = pair.map(|low| 0x10000 + ((code - 0xD800) << 10) + (low - 0xDC00));
                let Some(letter) = pair.and_then(char::from_u32) else {
                    return Err(PgError::new(
                        "22P02",
                        "invalid input syntax for type jsonpath",
                    ));
                };
                out.push(letter);
                self.rest = &self.rest[6..];
                Ok(())
            }
            _ => Err(PgError::new(
                "22P02",
                "invalid input syntax for type jsonpath",
            )),
        }
    }
}

fn hex(digits: Option<&str>, of: &str) -> Result<u32, PgError> {
    let digits = digits.filter(|text| text.bytes().all(|digit| digit.is_ascii_hexdigit()));
    digits
        .and_then(|digits| u32::from_str_radix(digits, 16).ok())
        .ok_or_else(|| {
            let message = format!("invalid {of} sequence at or near \"\\\" of jsonpath input");
            PgError::new("42601", message)
        })
}
