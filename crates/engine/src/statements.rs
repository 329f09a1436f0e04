//! Where does one statement end and the next begin?
//!
//! The text is cut at semicolons that DataFusion's tokenizer sees, so one in a string, a comment or a quoted name is no
//! end; and it is cut, not printed again, so an error still points into what the user wrote.

use datafusion::sql::sqlparser::dialect::GenericDialect;
use datafusion::sql::sqlparser::tokenizer::{Location, Token, Tokenizer, TokenizerError};

/// The statements of `text`, without their semicolons; empty ones are left out.
///
/// # Errors
/// If a string, a comment or a quoted name does not end.
pub fn split_statements(text: &str) -> Result<Vec<&str>, TokenizerError> {
    let tokens = Tokenizer::new(&GenericDialect {}, text).tokenize_with_location()?;
    let mut offsets = Offsets::new(text);
    let mut statements = Vec::new();
    let (mut start, mut empty) = (0, true);
    for token in tokens {
        match token.token {
            Token::SemiColon => {
                let end = offsets.of(token.span.start);
                if !empty {
                    statements.push(text[start..end].trim());
                }
                (start, empty) = (end + 1, true);
            }
            Token::Whitespace(_) | Token::EOF => {}
            _ => empty = false,
        }
    }
    if !empty {
        statements.push(text[start..].trim());
    }
    Ok(statements)
}

/// Byte offsets of ascending (line, column) places; both count from 1, columns in characters.
struct Offsets<'a> {
    chars: std::str::CharIndices<'a>,
    length: usize,
    line: u64,
    column: u64,
}

impl<'a> Offsets<'a> {
    fn new(text: &'a str) -> Self {
        Self {
            chars: text.char_indices(),
            length: text.len(),
            line: 1,
            column: 1,
        }
    }

    fn of(&mut self, place: Location) -> usize {
        loop {
            if (self.line, self.column) >= (place.line, place.column) {
                return self.chars.offset();
            }
            match self.chars.next() {
                Some((_, '\n')) => (self.line, self.column) = (self.line + 1, 1),
                Some(_) => self.column += 1,
                None => return self.length,
            }
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests: a failure should panic")]
mod tests {
    use super::*;

    #[test]
    fn only_semicolons_between_statements_count() {
        let text = "SELECT ';' AS \"a;b\"; -- no; comment\nSELECT 2 /* ; */ ;;\n ;SELECT 'ä;ö', 3";
        let statements = split_statements(text).unwrap();
        assert_eq!(
            statements,
            [
                "SELECT ';' AS \"a;b\"",
                "-- no; comment\nSELECT 2 /* ; */",
                "SELECT 'ä;ö', 3"
            ]
        );
        assert!(split_statements(" ; -- nothing\n ;").unwrap().is_empty());
        assert_eq!(
            split_statements("SELECT 'ü' ;SELECT 1").unwrap(),
            ["SELECT 'ü'", "SELECT 1"]
        );
    }

    #[test]
    fn an_open_string_is_an_error() {
        assert!(split_statements("SELECT 'oops").is_err());
    }
}
