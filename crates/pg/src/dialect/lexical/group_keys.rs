//! `CUBE ((a)::date, b)`: elements that begin with a bracket and continue after it.
//!
//! sqlparser takes the bracket that opens an element for one around several keys. Such an element
//! is put in brackets of its own.

use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan};

pub(super) fn bracket(tokens: &mut Vec<TokenWithSpan>) {
    // Backwards, so that insertions do not move tokens that are still to be visited.
    for at in (0..tokens.len()).rev() {
        let Token::Word(word) = &tokens[at].token else {
            continue;
        };
        if !matches!(word.keyword, Keyword::CUBE | Keyword::ROLLUP) {
            continue;
        }
        let open = (at + 1..tokens.len()).find(|next| !is_space(&tokens[*next].token));
        let Some(open) = open.filter(|open| tokens[*open].token == Token::LParen) else {
            continue;
        };
        for (first, last) in elements(tokens, open).into_iter().rev() {
            if tokens[first].token == Token::LParen && closing(tokens, first) != Some(last) {
                let (before, after) = (tokens[first].span, tokens[last].span);
                tokens.insert(last + 1, TokenWithSpan::new(Token::RParen, after));
                tokens.insert(first, TokenWithSpan::new(Token::LParen, before));
            }
        }
    }
}

fn is_space(token: &Token) -> bool {
    matches!(token, Token::Whitespace(_))
}

/// The first and the last token of each element of a list in brackets.
fn elements(tokens: &[TokenWithSpan], open: usize) -> Vec<(usize, usize)> {
    let mut found = vec![];
    let (mut depth, mut first, mut last) = (0_usize, None, open);
    for (at, token) in tokens.iter().enumerate().skip(open + 1) {
        match &token.token {
            token if is_space(token) => continue,
            Token::RParen | Token::Comma if depth == 0 => {
                found.extend(first.take().map(|first| (first, last)));
                if token.token == Token::RParen {
                    return found;
                }
                continue;
            }
            Token::LParen => depth += 1,
            Token::RParen => depth -= 1,
            _ => {}
        }
        first.get_or_insert(at);
        last = at;
    }
    vec![]
}

/// The bracket that closes the one at `open`.
fn closing(tokens: &[TokenWithSpan], open: usize) -> Option<usize> {
    let mut depth = 0_usize;
    for (at, token) in tokens.iter().enumerate().skip(open) {
        match token.token {
            Token::LParen => depth += 1,
            Token::RParen if depth == 1 => return Some(at),
            Token::RParen => depth -= 1,
            _ => {}
        }
    }
    None
}
