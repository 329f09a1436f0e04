//! CREATE TABLE … AS in the forms that sqlparser does not read.
//!
//! | from | to |
//! |---|---|
//! | `CREATE TABLE t (a, b) AS q` | `CREATE TABLE t AS SELECT * FROM (q) AS t (a, b)` |
//! | `CREATE TABLE t AS q WITH DATA` | `CREATE TABLE t AS q` |
//! | `CREATE TABLE t AS q WITH NO DATA` | `CREATE TABLE t AS SELECT * FROM (q) AS t LIMIT 0` |
//!
//! Not here: columns with types, which PostgreSQL does not allow together with a query.

use std::ops::Range;

use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan};

use super::phrases::words;
use super::words::{is_space, is_word, word};

pub(in crate::dialect) fn rewrite(tokens: &mut Vec<TokenWithSpan>) {
    let Some(create) = CreateAs::of(tokens) else {
        return;
    };
    if create.columns.is_empty() && create.with_data {
        tokens.truncate(create.query.end);
        return;
    }
    let name = tokens[create.name].clone();
    let inserted = |tokens: Vec<Token>| {
        let span = name.span;
        let tokens = tokens.into_iter();
        tokens.map(move |token| TokenWithSpan { token, span })
    };
    let mut made = tokens[..create.columns.start].to_vec();
    made.extend_from_slice(&tokens[create.columns.end..create.query.start]);
    made.extend(inserted(words("SELECT * FROM")));
    made.extend(inserted(vec![Token::LParen]));
    made.extend_from_slice(&tokens[create.query.clone()]);
    made.extend(inserted(vec![Token::RParen]));
    made.extend(inserted(words("AS")));
    made.push(name.clone());
    made.extend_from_slice(&tokens[create.columns.clone()]);
    if !create.with_data {
        made.extend(inserted(words("LIMIT")));
        made.extend(inserted(vec![Token::Number("0".to_owned(), false)]));
    }
    *tokens = made;
}

/// The positions of the parts of CREATE TABLE … AS among the tokens.
struct CreateAs {
    /// The last part of the table's name.
    name: usize,
    /// The column names in their brackets; empty if there are none.
    columns: Range<usize>,
    query: Range<usize>,
    with_data: bool,
}

impl CreateAs {
    fn of(tokens: &[TokenWithSpan]) -> Option<Self> {
        let written = (0..tokens.len()).filter(|at| {
            let token = &tokens[*at];
            !is_space(token) && token.token != Token::SemiColon
        });
        let written: Vec<usize> = written.collect();
        let said = |place: usize| written.get(place).and_then(|at| word(&tokens[*at]));
        let is = |place: usize, such: &Token| {
            let at = written.get(place);
            at.is_some_and(|at| tokens[*at].token == *such)
        };
        let mut place = 1;
        (said(0)? == "create").then_some(())?;
        while KINDS.contains(&said(place)?.as_str()) {
            place += 1;
        }
        (said(place)? == "table").then_some(())?;
        place += 1;
        if said(place).as_deref() == Some("if") {
            place += 3;
        }
        while is(place + 1, &Token::Period) {
            place += 2;
        }
        let name = *written.get(place)?;
        let mut columns = name + 1..name + 1;
        let open = place + 1;
        if is(open, &Token::LParen) {
            let mut close = open + 2;
            while is(close, &Token::Comma) {
                close += 2;
            }
            let names = (open + 1..close).step_by(2);
            let mut names = names.filter_map(|name| written.get(name));
            let are_names = names.all(|at| matches!(tokens[*at].token, Token::Word(_)));
            (is(close, &Token::RParen) && are_names).then_some(())?;
            columns = written[open]..written[close] + 1;
            place = close;
        }
        // The clauses between the name and AS: ON COMMIT and storage parameters.
        let rest = &written[place + 1..];
        let before = rest.iter().position(|at| is_word(&tokens[*at], "as"))?;
        let mut query = written[place + 1 + before] + 1..*written.last()? + 1;
        let ends = |words: &[&str]| {
            let first = written.len().checked_sub(words.len())?;
            let mut places = (first..).zip(words);
            let all = places.all(|(place, word)| said(place).as_deref() == Some(*word));
            all.then(|| written[first])
        };
        let (with, without) = (ends(&["with", "data"]), ends(&["with", "no", "data"]));
        query.end = with.or(without).unwrap_or(query.end);
        (query.start < query.end).then_some(Self {
            name,
            columns,
            query,
            with_data: without.is_none(),
        })
    }
}

/// The keywords allowed between CREATE and TABLE.
const KINDS: [&str; 4] = ["local", "global", "temp", "temporary"];
