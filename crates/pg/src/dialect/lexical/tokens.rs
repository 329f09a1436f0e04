//! Before parsing, replaces PostgreSQL's keywords that sqlparser does not read with equivalents.

use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::parser::ParserError;
use datafusion::sql::sqlparser::tokenizer::{
    Span, Token, TokenWithSpan, Tokenizer, Whitespace, Word,
};

use super::{create_as, exclusion, group_keys, phrases, reserved};
use crate::dialect::Grammar;
use crate::names::MARK;

/// Whether a name in COPY's FORCE QUOTE list stands for every column.
#[must_use]
pub fn is_every_column(name: &str) -> bool {
    name.chars().eq([MARK])
}

/// # Errors
/// A hexadecimal number: PostgreSQL 15 does not support them, and sqlparser would read it as
/// bytes. A text as a label (`1 AS 'x'`).
pub(in crate::dialect) fn replace(tokens: &mut Vec<TokenWithSpan>) -> Result<(), ParserError> {
    reserved::release(tokens);
    split_operators(tokens);
    complete_trims(tokens);
    similar_substrings(tokens);
    whole_rows(tokens);
    exclusion::mark(tokens);
    group_keys::bracket(tokens);
    without_deferrable(tokens);
    bracket_values(tokens);
    create_as::rewrite(tokens);
    phrases::replace(tokens)?;
    refuse_text_labels(tokens)?;
    let mut after_between = false;
    for token in tokens.iter_mut() {
        match &token.token {
            Token::Whitespace(_) => continue,
            Token::HexStringLiteral(digits) if is_hex_number(digits, token.span) => {
                let message = "trailing junk after numeric literal at or near";
                return Err(ParserError::ParserError(format!(
                    "{message} \"0x{digits}\""
                )));
            }
            word if is_word(word, Keyword::ABORT) => {
                token.token = Token::make_keyword("ROLLBACK");
            }
            // An operator that PostgreSQL does not have; `literals.rs` looks for it.
            Token::Word(word) if after_between && word.value.eq_ignore_ascii_case("symmetric") => {
                token.token = Token::DoubleExclamationMark;
            }
            _ => {}
        }
        after_between = is_word(&token.token, Keyword::BETWEEN);
    }
    let first = tokens.iter().find(|token| !is_space(&token.token));
    if first.is_some_and(|first| is_word(&first.token, Keyword::COPY)) {
        name_headers(tokens);
        quote_every_column(tokens);
    }
    Ok(())
}

/// # Errors
/// `AS 'x'` outside of COPY and CREATE, in which such a text is no label.
fn refuse_text_labels(tokens: &[TokenWithSpan]) -> Result<(), ParserError> {
    let (mut begins, mut after_as, mut is_query) = (true, false, true);
    for token in tokens.iter().map(|token| &token.token) {
        match token {
            Token::Whitespace(_) => continue,
            Token::SingleQuotedString(text) if after_as && is_query => {
                let message = format!("syntax error at or near \"'{text}'\"");
                return Err(ParserError::ParserError(message));
            }
            first if begins => {
                is_query = !is_word(first, Keyword::COPY) && !is_word(first, Keyword::CREATE);
            }
            _ => {}
        }
        begins = *token == Token::SemiColon;
        after_as = is_word(token, Keyword::AS);
    }
    Ok(())
}

/// Whether the literal is written `0x1F` and not `x'1F'`.
fn is_hex_number(digits: &str, span: Span) -> bool {
    let width = span.end.column.saturating_sub(span.start.column);
    span.start.line == span.end.line && width == digits.chars().count() as u64 + 2
}

/// An operator of several characters ends with `+` or `-` only if it contains a character that no
/// operator of standard SQL has: `a>-2` is `a > -2`.
fn split_operators(tokens: &mut Vec<TokenWithSpan>) {
    for at in (0..tokens.len()).rev() {
        let Token::CustomBinaryOperator(operator) = &tokens[at].token else {
            continue;
        };
        if operator.contains(|part| "~!@#%^&|`?".contains(part)) {
            continue;
        }
        let kept = operator.trim_end_matches(['+', '-']);
        let kept = if kept.is_empty() {
            &operator[..1]
        } else {
            kept
        };
        if kept.len() == operator.len() {
            continue;
        }
        let signs = operator[kept.len()..].chars().map(|sign| match sign {
            '+' => Token::Plus,
            _ => Token::Minus,
        });
        let Ok(first) = Tokenizer::new(&Grammar::new(), kept).tokenize() else {
            continue;
        };
        let span = tokens[at].span;
        let parts = first.into_iter().chain(signs);
        let parts: Vec<_> = parts.map(|token| TokenWithSpan { token, span }).collect();
        tokens.splice(at..=at, parts);
    }
}

/// The positions of tokens that are not white space.
fn written(tokens: &[TokenWithSpan]) -> Vec<usize> {
    (0..tokens.len())
        .filter(|at| !is_space(&tokens[*at].token))
        .collect()
}

/// `(t).*` and `(t.*)` become `t.*` in a list of columns, and `t.*::text` becomes `(t.*)::text`;
/// beside an operator `t.*` becomes `t`.
fn whole_rows(tokens: &mut Vec<TokenWithSpan>) {
    let written = written(tokens);
    let at = |place: usize| written.get(place).map(|at| &tokens[*at].token);
    let is_operator = |token: Option<&Token>| {
        use Token::{Eq, Gt, GtEq, Lt, LtEq, Neq};
        matches!(token, Some(Eq | Neq | Lt | Gt | LtEq | GtEq))
    };
    let ends_item = |token: Option<&Token>| match token {
        None | Some(Token::Comma | Token::RParen | Token::SemiColon) => true,
        Some(word) => is_word(word, Keyword::FROM),
    };
    let mut dropped = vec![];
    let mut bracketed = vec![];
    for place in 0..written.len() {
        let before = place.checked_sub(1).and_then(at);
        let begins = before.is_some_and(|before| {
            *before == Token::Comma
                || is_word(before, Keyword::SELECT)
                || is_word(before, Keyword::DISTINCT)
        });
        match [0, 1, 2, 3, 4].map(|next| at(place + next)) {
            [
                Some(Token::LParen),
                Some(Token::Word(_)),
                Some(Token::RParen),
                Some(Token::Period),
                Some(Token::Mul),
            ] if begins => dropped.extend([written[place], written[place + 2]]),
            [
                Some(Token::LParen),
                Some(Token::Word(_)),
                Some(Token::Period),
                Some(Token::Mul),
                Some(Token::RParen),
            ] if begins && ends_item(at(place + 5)) => {
                dropped.extend([written[place], written[place + 4]]);
            }
            [
                Some(Token::Word(_)),
                Some(Token::Period),
                Some(Token::Mul),
                Some(Token::DoubleColon),
                _,
            ] if before != Some(&Token::Period) => {
                bracketed.push((written[place], written[place + 2]));
            }
            [
                Some(Token::Word(_)),
                Some(Token::Period),
                Some(Token::Mul),
                next,
                _,
            ] if is_operator(next)
                || next.is_some_and(|next| is_word(next, Keyword::IS))
                || is_operator(before)
                || before.is_some_and(|before| is_word(before, Keyword::FROM)) =>
            {
                dropped.extend([written[place + 1], written[place + 2]]);
            }
            _ => {}
        }
    }
    for at in dropped {
        tokens[at].token = Token::Whitespace(Whitespace::Space);
    }
    // Backwards, because a bracket moves the tokens after it.
    for (first, last) in bracketed.into_iter().rev() {
        let span = tokens[first].span;
        let bracket = |token| TokenWithSpan { token, span };
        tokens.insert(last + 1, bracket(Token::RParen));
        tokens.insert(first, bracket(Token::LParen));
    }
}

/// `BEGIN READ ONLY, NOT DEFERRABLE` becomes `BEGIN READ ONLY`: no transaction waits for a
/// snapshot.
fn without_deferrable(tokens: &mut [TokenWithSpan]) {
    let written = written(tokens);
    let begins = written.first().is_some_and(|first| {
        let first = &tokens[*first].token;
        [Keyword::BEGIN, Keyword::START, Keyword::SET]
            .iter()
            .any(|begin| is_word(first, *begin))
    });
    if !begins {
        return;
    }
    for (place, at) in written.iter().enumerate() {
        if !is_word(&tokens[*at].token, Keyword::DEFERRABLE) {
            continue;
        }
        let is = |place: usize, such: &dyn Fn(&Token) -> bool| {
            written
                .get(place)
                .is_some_and(|at| such(&tokens[*at].token))
        };
        let is_comma = |token: &Token| *token == Token::Comma;
        let is_not = |token: &Token| is_word(token, Keyword::NOT);
        let negated = usize::from(is(place.wrapping_sub(1), &is_not));
        let first = place - negated;
        let last = place + usize::from(is(place + 1, &is_comma));
        let comma = last == place && is(first.wrapping_sub(1), &is_comma);
        for dropped in first - usize::from(comma)..=last {
            tokens[written[dropped]].token = Token::Whitespace(Whitespace::Space);
        }
    }
}

/// `x = ANY (VALUES (1), (2))`: sqlparser expects an expression in the brackets, so VALUES gets
/// brackets of its own and becomes a subquery.
fn bracket_values(tokens: &mut Vec<TokenWithSpan>) {
    let written = written(tokens);
    let kinds = [Keyword::ANY, Keyword::SOME, Keyword::ALL];
    let mut brackets = vec![];
    for (place, at) in written.windows(3).enumerate() {
        let [kind, open, values] = [at[0], at[1], at[2]].map(|at| &tokens[at].token);
        if !kinds.iter().any(|keyword| is_word(kind, *keyword))
            || *open != Token::LParen
            || !is_word(values, Keyword::VALUES)
        {
            continue;
        }
        let mut depth = 0_usize;
        let end = written[place + 1..].iter().find(|at| {
            match tokens[**at].token {
                Token::LParen => depth += 1,
                Token::RParen => depth -= 1,
                _ => {}
            }
            depth == 0
        });
        brackets.extend(end.map(|end| [(at[1], Token::LParen), (*end, Token::RParen)]));
    }
    let mut brackets: Vec<_> = brackets.into_iter().flatten().collect();
    brackets.sort_by_key(|(at, _)| *at);
    for (at, token) in brackets.into_iter().rev() {
        let span = tokens[at].span;
        tokens.insert(at, TokenWithSpan { token, span });
    }
}

/// `trim(leading from x)` trims blanks, so it becomes `trim(leading ' ' from x)`.
fn complete_trims(tokens: &mut Vec<TokenWithSpan>) {
    let sides = [Keyword::BOTH, Keyword::LEADING, Keyword::TRAILING];
    for at in written(tokens).windows(2).rev() {
        let [side, from] = [at[0], at[1]].map(|at| &tokens[at].token);
        if sides.iter().any(|keyword| is_word(side, *keyword)) && is_word(from, Keyword::FROM) {
            let span = tokens[at[1]].span;
            let token = Token::SingleQuotedString(" ".to_owned());
            let blank = Token::Whitespace(Whitespace::Space);
            let inserted = [token, blank].map(|token| TokenWithSpan { token, span });
            tokens.splice(at[1]..at[1], inserted);
        }
    }
}

/// `substring(x similar p escape e)` becomes the older `substring(x from p for e)`.
fn similar_substrings(tokens: &mut [TokenWithSpan]) {
    let written = written(tokens);
    let mut inside = None;
    let mut depth = 0_usize;
    for (place, at) in written.iter().enumerate() {
        match &tokens[*at].token {
            Token::LParen => {
                depth += 1;
                let before = place
                    .checked_sub(1)
                    .map(|before| &tokens[written[before]].token);
                if before.is_some_and(|word| is_word(word, Keyword::SUBSTRING)) {
                    inside = Some((depth, false));
                }
            }
            Token::RParen => {
                if inside.is_some_and(|(begun, _)| begun == depth) {
                    inside = None;
                }
                depth = depth.saturating_sub(1);
            }
            word if is_word(word, Keyword::SIMILAR) => {
                let next = written.get(place + 1).map(|next| &tokens[*next].token);
                let compares = next.is_some_and(|next| is_word(next, Keyword::TO));
                if let Some((begun, false)) = inside
                    && begun == depth
                    && !compares
                {
                    inside = Some((begun, true));
                    tokens[*at].token = Token::make_keyword("FROM");
                }
            }
            word if is_word(word, Keyword::ESCAPE) && inside == Some((depth, true)) => {
                tokens[*at].token = Token::make_keyword("FOR");
            }
            _ => {}
        }
    }
}

/// `HEADER on` behind COPY's target becomes `HEADER TRUE`: sqlparser reads no other words there.
fn name_headers(tokens: &mut [TokenWithSpan]) {
    let written = written(tokens);
    let mut depth = 0_usize;
    let mut has_target = false;
    for at in written.windows(2) {
        let [word, value] = [at[0], at[1]].map(|at| &tokens[at].token);
        match word {
            Token::LParen => depth += 1,
            Token::RParen => depth = depth.saturating_sub(1),
            Token::SemiColon => return,
            word if depth == 0 && is_word(word, Keyword::TO) => has_target = true,
            word if depth == 1 && has_target && is_word(word, Keyword::HEADER) => {
                if let Some(choice) = choice(value) {
                    tokens[at[1]].token = Token::make_keyword(choice);
                }
            }
            _ => {}
        }
    }
}

/// The keyword for the value of an option that is on or off.
fn choice(value: &Token) -> Option<&'static str> {
    let text = match value {
        Token::Word(word) => &word.value,
        Token::SingleQuotedString(text) | Token::Number(text, _) => text,
        _ => return None,
    };
    match text.to_ascii_lowercase().as_str() {
        "on" | "true" | "1" => Some("TRUE"),
        "off" | "false" | "0" => Some("FALSE"),
        _ => None,
    }
}

/// `FORCE_QUOTE *` and `FORCE QUOTE *` after `TO STDOUT`: the star becomes a column name that no
/// table has. The query before TO may contain a star of its own, as multiplication.
fn quote_every_column(tokens: &mut Vec<TokenWithSpan>) {
    let mut depth = 0;
    let target = tokens.iter().position(|token| {
        match token.token {
            Token::LParen => depth += 1,
            Token::RParen => depth -= 1,
            _ => {}
        }
        depth == 0 && is_word(&token.token, Keyword::STDOUT)
    });
    let Some(target) = target else {
        return;
    };
    let written: Vec<usize> = (target..tokens.len())
        .filter(|at| !is_space(&tokens[*at].token))
        .collect();
    // Backwards, because a replacement moves the tokens after it.
    for at in written.windows(3).rev() {
        let [before, quote, star] = [at[0], at[1], at[2]].map(|at| &tokens[at].token);
        if *star != Token::Mul {
            continue;
        }
        let star = at[2];
        let every = Token::Word(Word {
            value: MARK.to_string(),
            quote_style: Some('"'),
            keyword: Keyword::NoKeyword,
        });
        if is_word(before, Keyword::FORCE) && is_word(quote, Keyword::QUOTE) {
            tokens[star].token = every;
        } else if is_word(quote, Keyword::FORCE_QUOTE) {
            let span = tokens[star].span;
            let list = [Token::LParen, every, Token::RParen];
            let list = list.map(|token| TokenWithSpan { token, span });
            tokens.splice(star..=star, list);
        }
    }
}

fn is_word(token: &Token, keyword: Keyword) -> bool {
    matches!(token, Token::Word(word) if word.keyword == keyword && word.quote_style.is_none())
}

fn is_space(token: &Token) -> bool {
    matches!(token, Token::Whitespace(_))
}
