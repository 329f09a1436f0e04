//! `U&'d!0061ta' UESCAPE '!'`: a string with another escape character.
//!
//! sqlparser reads `U&'…'` with backslash as the escape character and does not keep the original
//! text. A string with a backslash before UESCAPE is therefore refused; the width of its token
//! reveals one.

use datafusion::sql::sqlparser::parser::ParserError;
use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan};

use super::words::{is_space, is_word};
use crate::functions::unescaped;

/// # Errors
/// An invalid escape, or a string with a backslash.
pub(in crate::dialect) fn replace(tokens: &mut Vec<TokenWithSpan>) -> Result<(), ParserError> {
    let mut at = 0;
    while at + 1 < tokens.len() {
        at += 1;
        if !is_word(&tokens[at], "uescape") {
            continue;
        }
        let is_token = |at: &usize| !is_space(&tokens[*at]);
        let (Some(before), Some(next)) = (
            (0..at).rfind(is_token),
            (at + 1..tokens.len()).find(is_token),
        ) else {
            continue;
        };
        let (Token::UnicodeStringLiteral(text), Token::SingleQuotedString(escape)) =
            (&tokens[before].token, &tokens[next].token)
        else {
            continue;
        };
        let escape = escape_of(escape)?;
        if !is_plain(&tokens[before], text) {
            let message = "a backslash or a new line in a string with UESCAPE is not supported";
            return Err(ParserError::ParserError(message.to_owned()));
        }
        let text = unescaped(text, escape);
        let text = text.map_err(|error| ParserError::ParserError(error.message().to_owned()))?;
        tokens[before].token = Token::SingleQuotedString(text);
        tokens.drain(before + 1..=next);
        at = before;
    }
    Ok(())
}

fn escape_of(text: &str) -> Result<char, ParserError> {
    let mut letters = text.chars();
    match (letters.next(), letters.next()) {
        (Some(escape), None)
            if !escape.is_ascii_hexdigit()
                && !escape.is_whitespace()
                && !['+', '\'', '"'].contains(&escape) =>
        {
            Ok(escape)
        }
        _ => {
            let message = "invalid Unicode escape character";
            Err(ParserError::ParserError(message.to_owned()))
        }
    }
}

/// Whether the statement contains the string literally, apart from doubled quotes.
fn is_plain(token: &TokenWithSpan, text: &str) -> bool {
    let (start, end) = (token.span.start, token.span.end);
    let quotes = text.matches('\'').count();
    let width = "U&''".len() + text.chars().count() + quotes;
    start.line == end.line && end.column == start.column + width as u64
}
