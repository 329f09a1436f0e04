//! Which pieces does a text of SQL consist of? The scan finds them one by one and keeps none.
//!
//! The parser's tokenizer makes 100 bytes of every semicolon and space before the number of tokens
//! is known. This scan reads the same text, keeps nothing, and finds enough to cut the text into
//! statements and to bound the cost of parsing them.
//!
//! Not here: names, keywords, operators of several characters. Each character of an operator is a
//! piece, so there are never fewer pieces than tokens. Quotes and comments are those of the
//! generic dialect: PostgreSQL's, and backticks. A test compares the scan with the tokenizer on
//! random texts, by the places of semicolons and by the numbers of pieces.
//! Bounds: linear time, no memory. Comments nest `COMMENTS_MAX` deep, because the tokenizer calls
//! itself for the contents of a comment.

use super::error::StatementError;

/// One piece of a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Piece {
    pub(super) kind: Kind,
    /// The bytes between which it lies.
    pub(super) start: usize,
    pub(super) end: usize,
}

/// The kind of a piece.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// One character of white space.
    Space,
    Comment,
    Semicolon,
    Comma,
    /// `(`, `[` or `{`.
    Open,
    Close,
    /// A number, a string, or a parameter.
    Literal,
    /// A name or keyword, quoted or not.
    Word,
    /// One character of an operator.
    Symbol,
}

/// Reads a text from its beginning to its end.
pub(super) struct Scan<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> Scan<'a> {
    pub(super) fn new(text: &'a str) -> Self {
        Self { text, at: 0 }
    }

    /// The next piece; `None` at the end.
    ///
    /// # Errors
    /// [`StatementError::Unended`] for a quote or comment that does not end; the rest cannot be
    /// read.
    pub(super) fn next(&mut self) -> Result<Option<Piece>, StatementError> {
        let start = self.at;
        let Some(first) = self.peek(0) else {
            return Ok(None);
        };
        let kind = match first {
            b' ' | b'\t' | b'\n' | b'\r' => self.one(Kind::Space),
            b';' => self.one(Kind::Semicolon),
            b',' => self.one(Kind::Comma),
            b'(' | b'[' | b'{' => self.one(Kind::Open),
            b')' | b']' | b'}' => self.one(Kind::Close),
            b'-' if self.peek(1) == Some(b'-') => {
                self.skip_until(|byte| byte == b'\n');
                self.at = (self.at + 1).min(self.text.len());
                Kind::Comment
            }
            b'/' if self.peek(1) == Some(b'*') => self.comment()?,
            // `//` is an operator of the generic dialect, so no comment begins within it.
            b'/' if self.peek(1) == Some(b'/') => {
                self.at += 1;
                self.one(Kind::Symbol)
            }
            b'\'' => self.quoted(b'\'', false, Kind::Literal)?,
            b'"' | b'`' => self.quoted(first, false, Kind::Word)?,
            b'$' => self.dollar()?,
            b'0'..=b'9' => self.number(),
            b'.' if self.peek(1).is_some_and(|byte| byte.is_ascii_digit()) => self.number(),
            _ if is_word_start(first) => self.word(first)?,
            _ => self.one(Kind::Symbol),
        };
        Ok(Some(Piece {
            kind,
            start,
            end: self.at,
        }))
    }

    fn peek(&self, ahead: usize) -> Option<u8> {
        self.text.as_bytes().get(self.at + ahead).copied()
    }

    fn one(&mut self, kind: Kind) -> Kind {
        self.at += 1;
        kind
    }

    fn skip_until(&mut self, end: impl Fn(u8) -> bool) {
        let rest = &self.text.as_bytes()[self.at..];
        self.at += rest
            .iter()
            .position(|byte| end(*byte))
            .unwrap_or(rest.len());
    }

    fn unended(&self, what: &'static str, start: usize) -> StatementError {
        let before = &self.text[..start];
        let line = before.bytes().filter(|byte| *byte == b'\n').count() + 1;
        let column = before.chars().rev().take_while(|c| *c != '\n').count() + 1;
        StatementError::Unended { what, line, column }
    }

    /// Reads from a quote to the quote that ends it. A doubled quote does not end it; with
    /// `escapes`, a quote after a backslash does not either.
    fn quoted(&mut self, quote: u8, escapes: bool, kind: Kind) -> Result<Kind, StatementError> {
        let start = self.at;
        self.at += 1;
        loop {
            self.skip_until(|byte| byte == quote || (escapes && byte == b'\\'));
            match self.peek(0) {
                None => return Err(self.unended("a quote", start)),
                Some(b'\\') if escapes => self.at = (self.at + 2).min(self.text.len()),
                Some(_) if self.peek(1) == Some(quote) => self.at += 2,
                Some(_) => {
                    self.at += 1;
                    return Ok(kind);
                }
            }
        }
    }

    /// `q'[…]'`: reads to the closing bracket and the quote after it.
    fn delimited(&mut self) -> Result<Kind, StatementError> {
        let start = self.at;
        let rest = &self.text[self.at + 1..];
        let Some(open) = rest.chars().next().filter(|c| !" \t\r\n".contains(*c)) else {
            return Err(self.unended("a quote", start));
        };
        let close = match open {
            '[' => ']',
            '{' => '}',
            '<' => '>',
            '(' => ')',
            other => other,
        };
        let inner = &rest[open.len_utf8()..];
        let mut end = [0; 5];
        let close_bytes = close.encode_utf8(&mut end[..4]).len();
        end[close_bytes] = b'\'';
        let end = &end[..=close_bytes];
        match inner.as_bytes().windows(end.len()).position(|w| w == end) {
            Some(place) => {
                self.at += 1 + open.len_utf8() + place + end.len();
                Ok(Kind::Literal)
            }
            None => Err(self.unended("a quote", start)),
        }
    }

    /// `r'…'`, `r'''…'''`: no escapes; the long form has no doubled quotes either.
    fn raw(&mut self, quote: u8) -> Result<Kind, StatementError> {
        if self.peek(1) != Some(quote) || self.peek(2) != Some(quote) {
            // Two quotes are an empty string, not a doubled quote.
            if self.peek(1) == Some(quote) {
                self.at += 2;
                return Ok(Kind::Literal);
            }
            return self.quoted(quote, false, Kind::Literal);
        }
        let start = self.at;
        let rest = &self.text.as_bytes()[self.at + 3..];
        match rest.windows(3).position(|w| w == [quote; 3]) {
            Some(place) => {
                self.at += 6 + place;
                Ok(Kind::Literal)
            }
            None => Err(self.unended("a quote", start)),
        }
    }

    /// `$1`, `$name`, `$$…$$` or `$tag$…$tag$`.
    fn dollar(&mut self) -> Result<Kind, StatementError> {
        let start = self.at;
        let rest = &self.text[start + 1..];
        let tag = rest
            .find(|c: char| !c.is_alphanumeric() && c != '_')
            .unwrap_or(rest.len());
        self.at = start + 1 + tag;
        if self.peek(0) != Some(b'$') {
            return Ok(Kind::Literal);
        }
        let mark = &self.text[start..=self.at];
        let body = &self.text[self.at + 1..];
        match body.find(mark) {
            Some(place) => {
                self.at += 1 + place + mark.len();
                Ok(Kind::Literal)
            }
            None => Err(self.unended("a dollar quote", start)),
        }
    }

    fn number(&mut self) -> Kind {
        if self.peek(0) == Some(b'0') && self.peek(1) == Some(b'x') {
            self.at += 2;
            self.skip_until(|byte| !byte.is_ascii_hexdigit());
            return Kind::Literal;
        }
        self.skip_until(|byte| !byte.is_ascii_digit());
        if self.peek(0) == Some(b'.') && self.peek(1) != Some(b'_') {
            self.at += 1;
            self.skip_until(|byte| !byte.is_ascii_digit());
        }
        if matches!(self.peek(0), Some(b'e' | b'E')) {
            let sign = usize::from(matches!(self.peek(1), Some(b'+' | b'-')));
            if self
                .peek(1 + sign)
                .is_some_and(|byte| byte.is_ascii_digit())
            {
                self.at += 1 + sign;
                self.skip_until(|byte| !byte.is_ascii_digit());
            }
        }
        Kind::Literal
    }

    /// A word, or a string after a letter that says how the string is written.
    fn word(&mut self, first: u8) -> Result<Kind, StatementError> {
        match (first.to_ascii_lowercase(), self.peek(1), self.peek(2)) {
            (b'e' | b'x', Some(b'\''), _) => {
                self.at += 1;
                return self.quoted(b'\'', true, Kind::Literal);
            }
            (b'n', Some(b'\''), _) | (b'b', Some(b'\'' | b'"'), _) => {
                self.at += 1;
                let quote = self.peek(0).unwrap_or(b'\'');
                return self.quoted(quote, false, Kind::Literal);
            }
            (b'r', Some(quote @ (b'\'' | b'"')), _) => {
                self.at += 1;
                return self.raw(quote);
            }
            (b'u', Some(b'&'), Some(b'\'')) => {
                self.at += 2;
                return self.quoted(b'\'', false, Kind::Literal);
            }
            (b'q', Some(b'\''), _) => {
                self.at += 1;
                return self.delimited();
            }
            (b'n', Some(b'q' | b'Q'), Some(b'\'')) => {
                self.at += 2;
                return self.delimited();
            }
            _ => {}
        }
        self.at += 1;
        self.skip_until(|byte| !is_word_part(byte));
        Ok(Kind::Word)
    }

    /// A comment, with the comments within it.
    fn comment(&mut self) -> Result<Kind, StatementError> {
        let start = self.at;
        self.at += 2;
        let mut depth = 1;
        while depth > 0 {
            self.skip_until(|byte| matches!(byte, b'/' | b'*'));
            match (self.peek(0), self.peek(1)) {
                (None, _) => return Err(self.unended("a comment", start)),
                (Some(b'/'), Some(b'*')) => {
                    self.at += 2;
                    depth += 1;
                }
                (Some(b'*'), Some(b'/')) => {
                    self.at += 2;
                    depth -= 1;
                }
                _ => self.at += 1,
            }
            if depth > COMMENTS_MAX {
                return Err(StatementError::CommentsNested { max: COMMENTS_MAX });
            }
        }
        Ok(Kind::Comment)
    }
}

fn is_word_start(byte: u8) -> bool {
    byte.is_ascii_alphabetic() || matches!(byte, b'_' | b'@' | b'#') || !byte.is_ascii()
}

fn is_word_part(byte: u8) -> bool {
    is_word_start(byte) || byte.is_ascii_digit() || byte == b'$'
}

/// The deepest allowed nesting of comments; real texts nest a few.
const COMMENTS_MAX: usize = 32;

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests: a failure should panic")]
mod tests {
    use datafusion::sql::sqlparser::dialect::GenericDialect;
    use datafusion::sql::sqlparser::tokenizer::{Location, Token, Tokenizer};
    use proptest::prelude::*;

    use super::*;

    fn pieces(text: &str) -> Result<Vec<Piece>, StatementError> {
        let mut scan = Scan::new(text);
        let mut pieces = Vec::new();
        while let Some(piece) = scan.next()? {
            pieces.push(piece);
        }
        Ok(pieces)
    }

    /// The places of the semicolons that the tokenizer finds, in bytes, and its number of tokens.
    fn semicolons(text: &str) -> Option<(Vec<usize>, usize)> {
        let tokens = Tokenizer::new(&GenericDialect {}, text)
            .tokenize_with_location()
            .ok()?;
        let mut places = text.char_indices();
        let (mut line, mut column) = (1, 1);
        let mut offset = |place: Location| loop {
            if (line, column) >= (place.line, place.column) {
                return places.offset();
            }
            match places.next() {
                Some((_, '\n')) => (line, column) = (line + 1, 1),
                Some(_) => column += 1,
                None => return text.len(),
            }
        };
        let count = tokens.len();
        let found = tokens
            .iter()
            .filter(|token| token.token == Token::SemiColon);
        Some((found.map(|token| offset(token.span.start)).collect(), count))
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(4_000))]
        #[test]
        fn the_scan_finds_what_the_tokenizer_finds(parts in prop::collection::vec(prop::sample::select(vec![
            "'", "\"", "`", "$", "$$", "$a$", "--", "/*", "*/", "*", ";", ";", "\n", " ", "a", "e", "E'", "x'", "n'",
            "nq'<", ">'", "q'[", "]'", "\\", "\\'", "1", ".5", "1e5", "2.", ",", "(", ")", "r'", "R\"", "b'", "ä", "-", "/",
            "::", "''", "1e+", "0x1f", "_",
        ]), 0..24)) {
            let text = parts.concat();
            let (scanned, tokenized) = (pieces(&text), semicolons(&text));
            let Some((semicolons, tokens)) = tokenized else {
                return Ok(());
            };
            let scanned = scanned.unwrap_or_else(|error| panic!("{text:?}: {error}"));
            let seen: Vec<_> = scanned
                .iter()
                .filter(|piece| piece.kind == Kind::Semicolon)
                .map(|piece| piece.start)
                .collect();
            prop_assert_eq!(&seen, &semicolons, "{:?}", text);
            prop_assert!(scanned.len() >= tokens, "{text:?}: {} < {tokens}", scanned.len());
        }
    }

    #[test]
    fn an_unended_piece_is_reported_with_its_place() {
        let error = pieces("SELECT 1,\n  'ä").unwrap_err();
        assert_eq!(
            error.to_string(),
            "a quote that begins at line 2, column 3 does not end"
        );
        let nested = "/*".repeat(COMMENTS_MAX + 1);
        assert!(matches!(
            pieces(&nested),
            Err(StatementError::CommentsNested { .. })
        ));
    }
}
