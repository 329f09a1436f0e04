//! `EXCLUDE` of a window's frame, which sqlparser does not read.
//!
//! | from | to |
//! |---|---|
//! | `(… ROWS … EXCLUDE NO OTHERS)` | `(… ROWS …)` |
//! | `(… ROWS … EXCLUDE TIES)` | `(… PARTITION BY 'mark', … ROWS …)` |
//!
//! The mark is a constant, so it splits no partition; `windows/` finds it in the plan. Delete this
//! module once sqlparser reads EXCLUDE and DataFusion plans it.

use datafusion::sql::sqlparser::ast::{Expr, WindowSpec};
use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan, Whitespace};

use super::words::{is_space, is_word, word};
use crate::dialect::ast::literal_text;

/// The rows that are excluded from a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Excluded {
    CurrentRow,
    /// The current row and its peers.
    Group,
    /// The peers of the current row.
    Ties,
}

impl Excluded {
    const ALL: [Self; 3] = [Self::CurrentRow, Self::Group, Self::Ties];

    /// The constant that marks a window. It begins with a control character, so no client's text
    /// equals it.
    fn mark(self) -> &'static str {
        match self {
            Self::CurrentRow => "\u{1f}exclude current row",
            Self::Group => "\u{1f}exclude group",
            Self::Ties => "\u{1f}exclude ties",
        }
    }

    pub(crate) fn of_mark(text: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|one| one.mark() == text)
    }
}

/// Replaces EXCLUDE with marks.
pub(in crate::dialect) fn mark(tokens: &mut Vec<TokenWithSpan>) {
    let mut at = tokens.len();
    while let Some(found) = tokens[..at]
        .iter()
        .rposition(|token| is_word(token, "exclude"))
    {
        at = found;
        if let Some((excluded, end)) = excluded(tokens, at)
            && let Some(place) = place(tokens, at)
        {
            tokens.drain(at..end);
            if let Some(excluded) = excluded {
                insert(tokens, &place, excluded);
            }
        }
    }
}

/// Whether an expression of PARTITION BY is a mark.
pub(in crate::dialect) fn is_mark(expr: &Expr) -> bool {
    literal_text(expr).is_some_and(|text| Excluded::of_mark(text).is_some())
}

/// What EXCLUDE at a token excludes, and the position after its words; `None` if it does not end
/// a window.
fn excluded(tokens: &[TokenWithSpan], at: usize) -> Option<(Option<Excluded>, usize)> {
    let mut next = (at + 1..tokens.len()).filter(|at| !is_space(&tokens[*at]));
    let first = next.next()?;
    let (excluded, second) = match word(&tokens[first])?.as_str() {
        "group" => (Some(Excluded::Group), None),
        "ties" => (Some(Excluded::Ties), None),
        "current" => (Some(Excluded::CurrentRow), Some("row")),
        "no" => (None, Some("others")),
        _ => return None,
    };
    if let Some(second) = second
        && !is_word(&tokens[next.next()?], second)
    {
        return None;
    }
    let end = next.next()?;
    (tokens[end].token == Token::RParen).then_some((excluded, end))
}

/// Where in a window its mark goes.
enum Place {
    /// After `PARTITION BY`.
    First(usize),
    /// Before `ORDER BY` or the frame.
    Before(usize),
}

/// The place for the mark in the window that ends at a token; `None` if the window has no frame.
fn place(tokens: &[TokenWithSpan], end: usize) -> Option<Place> {
    let mut depth = 0_usize;
    let (mut framed, mut place) = (false, None);
    for at in (0..end).rev() {
        match &tokens[at].token {
            Token::RParen => depth += 1,
            Token::LParen if depth == 0 => return place.filter(|_| framed),
            Token::LParen => depth -= 1,
            _ if depth > 0 => {}
            _ => match word(&tokens[at]).as_deref() {
                Some("rows" | "range" | "groups") => {
                    framed = true;
                    place = Some(Place::Before(at));
                }
                Some("order") => place = Some(Place::Before(at)),
                Some("partition") => {
                    let by = (at..end).find(|at| is_word(&tokens[*at], "by"))?;
                    place = Some(Place::First(by + 1));
                }
                _ => {}
            },
        }
    }
    None
}

fn insert(tokens: &mut Vec<TokenWithSpan>, place: &Place, excluded: Excluded) {
    let blank = || Token::Whitespace(Whitespace::Space);
    let mark = Token::SingleQuotedString(excluded.mark().to_owned());
    // DataFusion drops a constant that is not in brackets.
    let mark = [Token::LParen, mark, Token::RParen];
    let mut added = vec![];
    let at = match place {
        Place::First(at) => {
            added.extend(mark);
            added.push(Token::Comma);
            *at
        }
        Place::Before(at) => {
            let [partition, by] = ["PARTITION", "BY"].map(Token::make_keyword);
            added.extend([partition, blank(), by]);
            added.extend(mark);
            added.push(blank());
            *at
        }
    };
    let span = tokens[at].span;
    let added = added.into_iter().map(|token| TokenWithSpan { token, span });
    tokens.splice(at..at, added);
}

/// The marks of a window.
pub(in crate::dialect) fn marks(window: &WindowSpec) -> impl Iterator<Item = &Expr> {
    window.partition_by.iter().filter(|expr| is_mark(expr))
}
