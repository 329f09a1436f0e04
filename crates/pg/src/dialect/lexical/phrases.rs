//! Phrases that sqlparser does not read, replaced by equivalent ones that it reads.
//!
//! | from | to |
//! |---|---|
//! | `FETCH FIRST (n) ROWS ONLY` | `LIMIT (n)` |
//! | `x ISNULL` | `x IS NULL` |
//! | `TABLE t` | `SELECT * FROM t` |
//! | `FROM ONLY t`, `FROM ONLY (t)` | `FROM t`: no table has others that inherit from it |
//! | `LIKE p ESCAPE '!'::text`, `ESCAPE ('!')` | `LIKE p ESCAPE '!'` |
//! | `U&'!0061' UESCAPE '!'` | `'a'` (`uescape.rs`) |
//! | `LIKE p ESCAPE e` | `LIKE like_escape(p, e)` |
//! | `FOR NO KEY UPDATE`, `FOR KEY SHARE` | `FOR UPDATE`, `FOR SHARE`: no row is locked |
//! | `FOR UPDATE LIMIT n` | `LIMIT n FOR UPDATE` |
//! | `IDENTITY (START WITH 1 INCREMENT BY 2)` | `IDENTITY (INCREMENT BY 2 START WITH 1)` |
//! | `SELECT exists FROM t` | `SELECT "exists" FROM t` |
//! | `f(a, VARIADIC b)` | `f(a, pg_variadic(b))` (`expressions/variadic.rs`) |
//! | `SELECT (VALUES (1))` | `SELECT (SELECT * FROM (VALUES (1)))` |
//! | `RANGE '1 day'::interval PRECEDING` | `RANGE '1 day' PRECEDING` |
//! | `(json_each(j)).*` | `(json_each(j)).key, (json_each(j)).value` |
//! | `interval(2) '1.239 s'` | `'1.239 s'::interval(2)`: sqlparser drops the digits |
//! | `'a'` and, on the next line, `'b'` | `'ab'`; on the same line, an error |

use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::parser::ParserError;
use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan, Whitespace};

use super::uescape;
use super::words::{is_space, is_word, word};

/// # Errors
/// A cast of the ESCAPE character to a type other than text; a string behind another literal.
pub(in crate::dialect) fn replace(tokens: &mut Vec<TokenWithSpan>) -> Result<(), ParserError> {
    uescape::replace(tokens)?;
    join_strings(tokens)?;
    uncast_offsets(tokens);
    let mut at = 0;
    while at < tokens.len() {
        if !PHRASES.iter().any(|phrase| is_word(&tokens[at], phrase)) {
            at += 1;
            continue;
        }
        let next = followers(tokens, at);
        let before = tokens[..at].iter().rfind(|token| !is_space(token));
        let replaced = match word(&tokens[at]).as_deref() {
            Some("fetch") => fetch(tokens, at, &next),
            Some("isnull") if !is_named(before) => Some((at + 1, words("IS NULL"))),
            Some("table")
                if (begins_query(before) || is_inserted(&tokens[..at]))
                    && next.first().is_some_and(|at| is_name(&tokens[*at])) =>
            {
                Some((at + 1, words("SELECT * FROM")))
            }
            Some("only") if begins_table(before) => only(tokens, at, &next),
            Some("escape") => escape(tokens, &next)?,
            Some("like" | "ilike") => escaped(tokens, at),
            Some("exists") if is_column(tokens, before, &next) => {
                let name = Token::make_word("exists", Some('"'));
                Some((at + 1, vec![name]))
            }
            Some("values") => values(tokens, at),
            Some("for") => limit_first(tokens, at, &next).or_else(|| key_lock(tokens, &next)),
            Some("identity") if before.is_some_and(|before| is_word(before, "as")) => {
                in_order(tokens, at, &next)
            }
            Some("variadic") => variadic(tokens, at, before),
            Some("interval") => digits_behind(tokens, &next),
            Some("json_each" | "json_each_text" | "jsonb_each" | "jsonb_each_text") => {
                every_member(tokens, at, before, &next)
            }
            _ => None,
        };
        if let Some((end, with)) = replaced {
            let span = tokens[at].span;
            let with = with.into_iter().map(|token| TokenWithSpan { token, span });
            tokens.splice(at..end, with);
        }
        at += 1;
    }
    Ok(())
}

/// The function that stands for VARIADIC before an argument.
pub(in crate::dialect) const VARIADIC: &str = "pg_variadic";

/// The words that begin phrases.
const PHRASES: [&str; 17] = [
    "fetch",
    "isnull",
    "table",
    "only",
    "escape",
    "like",
    "ilike",
    "exists",
    "values",
    "for",
    "identity",
    "variadic",
    "interval",
    "json_each",
    "json_each_text",
    "jsonb_each",
    "jsonb_each_text",
];

/// The position after a phrase, and the tokens that replace it.
type Replacement = Option<(usize, Vec<Token>)>;

/// The number of tokens in which a phrase is searched.
const PHRASE_MAX: usize = 6;

/// The positions of the next tokens that are not white space.
fn followers(tokens: &[TokenWithSpan], at: usize) -> Vec<usize> {
    let next = (at + 1..tokens.len()).filter(|at| !is_space(&tokens[*at]));
    next.take(PHRASE_MAX).collect()
}

/// `FETCH FIRST … ROWS ONLY`, and the brackets around the number of `WITH TIES`.
fn fetch(tokens: &[TokenWithSpan], at: usize, next: &[usize]) -> Replacement {
    let side = *next.first()?;
    matches!(word(&tokens[side]).as_deref(), Some("first" | "next")).then_some(())?;
    let count = *next.get(1)?;
    let behind = match &tokens[count].token {
        Token::LParen => closing(tokens, count)? + 1,
        Token::Word(_) => count,
        _ => count + 1,
    };
    let rest: Vec<usize> = followers(tokens, behind.checked_sub(1)?);
    let said: Vec<_> = rest.iter().map(|at| word(&tokens[*at])).collect();
    let said: Vec<&str> = said.iter().map_while(|word| word.as_deref()).collect();
    let inner = tokens[count..behind]
        .iter()
        .map(|token| token.token.clone());
    let mut with = vec![];
    match said[..] {
        ["row" | "rows", "only", ..] => {
            with.extend(words("LIMIT"));
            with.extend(inner);
            if behind == count {
                with.push(Token::Number("1".to_owned(), false));
            }
            Some((rest[1] + 1, with))
        }
        ["row" | "rows", "with", "ties", ..] if tokens[count].token == Token::LParen => {
            let value: Vec<Token> = inner
                .filter(|token| !matches!(token, Token::Whitespace(_)))
                .collect();
            let [_, value, _] = <[Token; 3]>::try_from(value).ok()?;
            with.extend(words("FETCH FIRST"));
            with.push(value);
            Some((behind, with))
        }
        _ => None,
    }
    .filter(|_| at < side)
}

/// The row locks that allow others to read or write keys.
fn key_lock(tokens: &[TokenWithSpan], next: &[usize]) -> Replacement {
    let said: Vec<_> = next.iter().map(|at| word(&tokens[*at])).collect();
    let said: Vec<&str> = said.iter().map_while(|word| word.as_deref()).collect();
    match said[..] {
        ["no", "key", "update", ..] => Some((next[2] + 1, words("FOR UPDATE"))),
        ["key", "share", ..] => Some((next[1] + 1, words("FOR SHARE"))),
        _ => None,
    }
}

/// The options of a sequence, in the order in which sqlparser reads them.
const SEQUENCE_OPTIONS: [&str; 6] = [
    "increment",
    "minvalue",
    "maxvalue",
    "start",
    "cache",
    "cycle",
];

/// The options of an identity in sqlparser's order.
fn in_order(tokens: &[TokenWithSpan], at: usize, next: &[usize]) -> Replacement {
    let open = *next.first()?;
    (tokens[open].token == Token::LParen).then_some(())?;
    let close = closing(tokens, open)?;
    // Each option with its place; that of NO is the place of the word behind it.
    let mut options: Vec<(Option<usize>, Vec<Token>)> = vec![];
    for token in &tokens[open + 1..close] {
        let said = word(token);
        let place = SEQUENCE_OPTIONS
            .iter()
            .position(|option| said.as_deref() == Some(*option));
        let is_behind_no = options.last().is_some_and(|(known, _)| known.is_none());
        if !is_behind_no && (place.is_some() || said.as_deref() == Some("no")) {
            options.push((place, vec![]));
        }
        match options.last_mut() {
            Some((known, option)) => {
                *known = known.or(place);
                option.push(token.token.clone());
            }
            None if is_space(token) => {}
            None => return None,
        }
    }
    options.sort_by_key(|(place, _)| *place);
    let space = Token::Whitespace(Whitespace::Space);
    let mut with = vec![tokens[at].token.clone(), Token::LParen];
    for (_, option) in options {
        with.extend(option);
        with.push(space.clone());
    }
    with.push(Token::RParen);
    Some((close + 1, with))
}

/// FOR UPDATE after the LIMIT, OFFSET or FETCH that follows it.
fn limit_first(tokens: &[TokenWithSpan], at: usize, next: &[usize]) -> Replacement {
    let lock = word(&tokens[*next.first()?])?;
    matches!(lock.as_str(), "update" | "share" | "no" | "key").then_some(())?;
    let (mut depth, mut limit, mut end) = (0, None, tokens.len());
    for (place, token) in tokens.iter().enumerate().skip(at) {
        match &token.token {
            Token::LParen => depth += 1,
            Token::RParen | Token::SemiColon if depth == 0 => {
                end = place;
                break;
            }
            Token::RParen => depth -= 1,
            _ => {}
        }
        let is_limit = ["limit", "offset", "fetch"]
            .iter()
            .any(|begin| is_word(token, begin));
        if depth == 0 && is_limit {
            limit = limit.or(Some(place));
        }
    }
    let limit = limit?;
    let space = || std::iter::once(Token::Whitespace(Whitespace::Space));
    let all = |tokens: &[TokenWithSpan]| -> Vec<Token> {
        let tokens = tokens.iter();
        tokens.map(|token| token.token.clone()).collect()
    };
    // The first token is none that begins a phrase: those behind it are still looked at.
    let with = space().chain(all(&tokens[limit..end]));
    let with = with.chain(space()).chain(all(&tokens[at..limit]));
    Some((end, with.collect()))
}

/// ONLY before a table, whose name may be in brackets.
fn only(tokens: &[TokenWithSpan], at: usize, next: &[usize]) -> Replacement {
    let first = *next.first()?;
    match tokens[first].token {
        Token::LParen => {
            let close = closing(tokens, first)?;
            let inner = &tokens[first + 1..close];
            let is_table = |token: &TokenWithSpan| {
                is_name(token) || is_space(token) || token.token == Token::Period
            };
            let name = inner.iter().map(|token| token.token.clone()).collect();
            inner.iter().all(is_table).then_some((close + 1, name))
        }
        _ if is_name(&tokens[first]) => Some((at + 1, vec![])),
        _ => None,
    }
}

/// The ESCAPE character without brackets and cast.
fn escape(tokens: &[TokenWithSpan], next: &[usize]) -> Result<Replacement, ParserError> {
    let Some(first) = next.first().copied() else {
        return Ok(None);
    };
    let plain = |at: usize| matches!(tokens[at].token, Token::SingleQuotedString(_));
    let (text, end) = if plain(first) {
        (first, first + 1)
    } else {
        match next[..] {
            [open, text, close, ..]
                if tokens[open].token == Token::LParen
                    && plain(text)
                    && tokens[close].token == Token::RParen =>
            {
                (text, close + 1)
            }
            _ => return Ok(None),
        }
    };
    let mut with = words("ESCAPE");
    with.push(tokens[text].token.clone());
    let cast = followers(tokens, end - 1);
    let [colons, of, ..] = cast[..] else {
        return Ok(Some((end, with)));
    };
    if tokens[colons].token != Token::DoubleColon {
        return Ok(Some((end, with)));
    }
    match word(&tokens[of]).as_deref() {
        Some("text" | "varchar") => Ok(Some((of + 1, with))),
        _ => {
            let message = "a cast of the character of ESCAPE is not supported";
            Err(ParserError::ParserError(message.to_owned()))
        }
    }
}

/// A pattern with an ESCAPE expression; sqlparser reads only a literal there.
fn escaped(tokens: &[TokenWithSpan], like: usize) -> Replacement {
    let mut depth = 0_usize;
    let mut rest = tokens.iter().enumerate().skip(like + 1);
    let (at, _) = rest.find(|(_, token)| {
        match token.token {
            Token::LParen => depth += 1,
            Token::RParen => depth = depth.saturating_sub(1),
            _ => {}
        }
        depth == 0 && is_word(token, "escape")
    })?;
    let pattern = &tokens[like + 1..at];
    let is_other = |token: &TokenWithSpan| {
        token.token == Token::SemiColon
            || word(token).is_some_and(|word| BETWEEN_CONDITIONS.contains(&word.as_str()))
    };
    if pattern.iter().any(is_other) || leaves(pattern) {
        return None;
    }
    let first = *followers(tokens, at).first()?;
    let end = match &tokens[first].token {
        Token::Word(_) => name_end(tokens, first)?,
        Token::LParen => closing(tokens, first)? + 1,
        _ => return None,
    };
    let inner = |tokens: &[TokenWithSpan]| -> Vec<Token> {
        tokens.iter().map(|token| token.token.clone()).collect()
    };
    let mut with = inner(&tokens[like..=like]);
    with.push(Token::Whitespace(Whitespace::Space));
    with.push(Token::make_word("like_escape", None));
    with.push(Token::LParen);
    with.extend(inner(pattern));
    with.push(Token::Comma);
    with.extend(inner(&tokens[first..end]));
    with.push(Token::RParen);
    Some((end, with))
}

/// Words that end a pattern unless they are inside its brackets.
const BETWEEN_CONDITIONS: [&str; 12] = [
    "and", "or", "when", "then", "else", "end", "from", "where", "group", "order", "like", "ilike",
];

/// Whether the tokens close the brackets, or end the list item, in which they begin.
fn leaves(tokens: &[TokenWithSpan]) -> bool {
    let mut depth = 0_usize;
    tokens.iter().any(|token| match token.token {
        Token::LParen => {
            depth += 1;
            false
        }
        Token::RParen if depth == 0 => true,
        Token::RParen => {
            depth -= 1;
            false
        }
        Token::Comma => depth == 0,
        _ => false,
    })
}

/// The position after a qualified name and its arguments.
fn name_end(tokens: &[TokenWithSpan], first: usize) -> Option<usize> {
    let mut last = first;
    loop {
        match followers(tokens, last)[..] {
            [period, name, ..]
                if tokens[period].token == Token::Period
                    && matches!(tokens[name].token, Token::Word(_)) =>
            {
                last = name;
            }
            [open, ..] if tokens[open].token == Token::LParen => {
                return Some(closing(tokens, open)? + 1);
            }
            _ => return Some(last + 1),
        }
    }
}

/// Whether EXISTS is a column name.
fn is_column(tokens: &[TokenWithSpan], before: Option<&TokenWithSpan>, next: &[usize]) -> bool {
    let opens = next
        .first()
        .is_some_and(|next| tokens[*next].token == Token::LParen);
    let of_if = before
        .and_then(word)
        .is_some_and(|word| matches!(word.as_str(), "if" | "not"));
    !opens && !of_if
}

/// VALUES in brackets used as an expression, which sqlparser takes for a function.
fn values(tokens: &[TokenWithSpan], at: usize) -> Replacement {
    let mut before = (0..at).rev().filter(|at| !is_space(&tokens[*at]));
    let open = before
        .next()
        .filter(|open| tokens[*open].token == Token::LParen)?;
    let around = &tokens[before.next()?];
    let in_expression = match &around.token {
        Token::Comma
        | Token::LParen
        | Token::Eq
        | Token::Neq
        | Token::Lt
        | Token::Gt
        | Token::LtEq
        | Token::GtEq
        | Token::Plus
        | Token::Minus
        | Token::Mul
        | Token::Div
        | Token::StringConcat => true,
        _ => word(around).is_some_and(|word| BEFORE_VALUES.contains(&word.as_str())),
    };
    if !in_expression {
        return None;
    }
    let close = closing(tokens, open)?;
    let mut with = words("SELECT * FROM");
    with.push(Token::LParen);
    with.extend(tokens[at..close].iter().map(|token| token.token.clone()));
    with.push(Token::RParen);
    Some((close, with))
}

/// VARIADIC before the last argument of a call.
fn variadic(tokens: &[TokenWithSpan], at: usize, before: Option<&TokenWithSpan>) -> Replacement {
    let begins = before.is_some_and(|before| matches!(before.token, Token::LParen | Token::Comma));
    begins.then_some(())?;
    let mut depth = 0_usize;
    let mut rest = tokens.iter().enumerate().skip(at + 1);
    let (close, _) = rest.find(|(_, token)| {
        let is_end = depth == 0 && token.token == Token::RParen;
        match token.token {
            Token::LParen => depth += 1,
            Token::RParen => depth = depth.saturating_sub(1),
            _ => {}
        }
        is_end
    })?;
    let mut with = vec![Token::make_word(VARIADIC, None), Token::LParen];
    with.extend(
        tokens[at + 1..close]
            .iter()
            .map(|token| token.token.clone()),
    );
    with.push(Token::RParen);
    Some((close, with))
}

/// Words that are followed by an expression.
const BEFORE_VALUES: [&str; 12] = [
    "select", "distinct", "where", "and", "or", "not", "case", "when", "then", "else", "by",
    "having",
];

/// Strings that are separated only by white space with a newline are one string. sqlparser takes
/// the second of two literals on one line for a label.
///
/// # Errors
/// A string behind another string on the same line, or behind a number.
fn join_strings(tokens: &mut Vec<TokenWithSpan>) -> Result<(), ParserError> {
    for at in (0..tokens.len()).rev() {
        let joins = matches!(
            tokens[at].token,
            Token::SingleQuotedString(_)
                | Token::EscapedStringLiteral(_)
                | Token::NationalStringLiteral(_)
                | Token::UnicodeStringLiteral(_)
        );
        if !joins && !matches!(tokens[at].token, Token::Number(..)) {
            continue;
        }
        let Some(next) = followers(tokens, at).first().copied() else {
            continue;
        };
        let between = &tokens[at + 1..next];
        let has_line = between.iter().any(|token| {
            matches!(
                token.token,
                Token::Whitespace(Whitespace::Newline | Whitespace::SingleLineComment { .. })
            )
        });
        let has_block = between.iter().any(|token| {
            matches!(
                token.token,
                Token::Whitespace(Whitespace::MultiLineComment(_))
            )
        });
        let Token::SingleQuotedString(second) = &tokens[next].token else {
            continue;
        };
        if !joins || !has_line || has_block {
            let second = second.replace('\'', "''");
            let message = format!("syntax error at or near \"'{second}'\"");
            return Err(ParserError::ParserError(message));
        }
        let second = second.clone();
        if let Token::SingleQuotedString(first)
        | Token::EscapedStringLiteral(first)
        | Token::NationalStringLiteral(first)
        | Token::UnicodeStringLiteral(first) = &mut tokens[at].token
        {
            first.push_str(&second);
        }
        tokens.drain(at + 1..=next);
    }
    Ok(())
}

/// An interval whose digits stand before its text.
fn digits_behind(tokens: &[TokenWithSpan], next: &[usize]) -> Replacement {
    let [open, digits, close, text, ..] = next[..] else {
        return None;
    };
    let is_phrase = tokens[open].token == Token::LParen
        && matches!(tokens[digits].token, Token::Number(..))
        && tokens[close].token == Token::RParen
        && matches!(tokens[text].token, Token::SingleQuotedString(_));
    is_phrase.then(|| {
        let mut with = vec![tokens[text].token.clone(), Token::DoubleColon];
        with.extend(words("INTERVAL"));
        with.extend([open, digits, close].map(|at| tokens[at].token.clone()));
        (text + 1, with)
    })
}

/// The columns of a call whose rows are pairs, in brackets and with a star behind it.
fn every_member(
    tokens: &[TokenWithSpan],
    at: usize,
    before: Option<&TokenWithSpan>,
    next: &[usize],
) -> Replacement {
    let is = |at: usize, token: &Token| tokens[at].token == *token;
    let open = next
        .first()
        .copied()
        .filter(|open| is(*open, &Token::LParen))?;
    before.filter(|before| before.token == Token::LParen)?;
    let close = closing(tokens, open)?;
    let [bracket, period, star, ..] = followers(tokens, close)[..] else {
        return None;
    };
    let is_whole =
        is(bracket, &Token::RParen) && is(period, &Token::Period) && is(star, &Token::Mul);
    is_whole.then(|| {
        let call = || tokens[at..=close].iter().map(|token| token.token.clone());
        let column = |name| [Token::RParen, Token::Period, Token::make_word(name, None)];
        let mut with: Vec<Token> = call().chain(column("key")).collect();
        with.extend([Token::Comma, Token::LParen]);
        with.extend(call().chain(column("value")));
        (star + 1, with)
    })
}

/// Removes the cast from a frame's offset: sqlparser reads a string there as an interval.
fn uncast_offsets(tokens: &mut Vec<TokenWithSpan>) {
    for at in (0..tokens.len()).rev() {
        if !matches!(tokens[at].token, Token::SingleQuotedString(_)) {
            continue;
        }
        let [colons, of, side, ..] = followers(tokens, at)[..] else {
            continue;
        };
        let is_offset = matches!(
            word(&tokens[side]).as_deref(),
            Some("preceding" | "following")
        );
        let before = tokens[..at].iter().rfind(|token| !is_space(token));
        let is_bound = before.and_then(word).is_some_and(|before| {
            matches!(
                before.as_str(),
                "range" | "rows" | "groups" | "between" | "and"
            )
        });
        if is_offset
            && is_bound
            && tokens[colons].token == Token::DoubleColon
            && is_word(&tokens[of], "interval")
        {
            tokens.drain(at + 1..=of);
        }
    }
}

/// The position of the bracket that closes the one at `open`.
fn closing(tokens: &[TokenWithSpan], open: usize) -> Option<usize> {
    let mut depth = 0_usize;
    let mut rest = tokens.iter().enumerate().skip(open);
    rest.find_map(|(at, token)| {
        match token.token {
            Token::LParen => depth += 1,
            Token::RParen => depth -= 1,
            _ => {}
        }
        (depth == 0).then_some(at)
    })
}

/// Whether the next token is a name after AS or after a qualifier.
fn is_named(before: Option<&TokenWithSpan>) -> bool {
    before.is_none_or(|token| {
        token.token == Token::Period || word(token).is_some_and(|word| word == "as")
    })
}

/// Whether a query may begin here.
fn begins_query(before: Option<&TokenWithSpan>) -> bool {
    let Some(before) = before else {
        return true;
    };
    let after = [
        "union",
        "all",
        "except",
        "intersect",
        "as",
        "explain",
        "analyze",
        "verbose",
    ];
    matches!(
        before.token,
        Token::LParen | Token::RParen | Token::SemiColon
    ) || word(before).is_some_and(|word| after.contains(&word.as_str()))
}

/// Whether the tokens end with `INSERT INTO` and a table's name.
fn is_inserted(tokens: &[TokenWithSpan]) -> bool {
    let mut before = tokens.iter().rev().filter(|token| !is_space(token));
    let mut has_name = false;
    for token in before.by_ref() {
        match &token.token {
            _ if is_word(token, "into") => break,
            Token::Word(_) => has_name = true,
            Token::Period => {}
            _ => return false,
        }
    }
    has_name && before.next().is_some_and(|token| is_word(token, "insert"))
}

/// Whether a table may begin here.
fn begins_table(before: Option<&TokenWithSpan>) -> bool {
    let after = ["from", "join", "update", "table"];
    before.is_some_and(|before| {
        before.token == Token::Comma
            || word(before).is_some_and(|word| after.contains(&word.as_str()))
    })
}

pub(in crate::dialect) fn words(phrase: &str) -> Vec<Token> {
    let mut made = vec![];
    for word in phrase.split(' ') {
        made.push(match word {
            "*" => Token::Mul,
            word => Token::make_keyword(word),
        });
        made.push(Token::Whitespace(Whitespace::Space));
    }
    made
}

fn is_name(token: &TokenWithSpan) -> bool {
    use Keyword::{AS, FETCH, FROM, GROUP, HAVING, LIMIT, OFFSET, ORDER, SELECT, UNION, WHERE};
    const CLAUSES: [Keyword; 11] = [
        AS, FETCH, FROM, GROUP, HAVING, LIMIT, OFFSET, ORDER, SELECT, UNION, WHERE,
    ];
    match &token.token {
        Token::Word(word) => word.quote_style.is_some() || !CLAUSES.contains(&word.keyword),
        _ => false,
    }
}
