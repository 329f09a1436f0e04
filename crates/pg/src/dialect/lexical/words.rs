//! Words among tokens.

use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan};

/// A word that is not quoted, in lower case.
pub(in crate::dialect) fn word(token: &TokenWithSpan) -> Option<String> {
    match &token.token {
        Token::Word(word) if word.quote_style.is_none() => Some(word.value.to_lowercase()),
        _ => None,
    }
}

/// Whether a token is this word, not quoted.
pub(in crate::dialect) fn is_word(token: &TokenWithSpan, expected: &str) -> bool {
    match &token.token {
        Token::Word(word) => {
            word.quote_style.is_none() && word.value.eq_ignore_ascii_case(expected)
        }
        _ => false,
    }
}

pub(super) fn is_space(token: &TokenWithSpan) -> bool {
    matches!(token.token, Token::Whitespace(_))
}
