//! The tokens of a text, each with its place and its clause.

use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::tokenizer::{Token, Tokenizer};

use super::{character, from};
use crate::dialect::Grammar;

/// The clauses of a query in the order in which PostgreSQL reads them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Clause {
    From,
    Select,
    Where,
    Having,
    Order,
    Group,
    /// Those that come after the others.
    Last,
}

/// A token that is no space and no comment.
struct Placed {
    token: Token,
    line: usize,
    column: usize,
    /// The clause of the query, or part of one, that the innermost parentheses hold.
    inner: Option<Clause>,
    /// The clause of the outermost query.
    outer: Option<Clause>,
    /// In how many parentheses it stands.
    depth: usize,
}

/// The tokens of a statement.
pub(super) struct Tokens<'a> {
    sql: &'a str,
    all: Vec<Placed>,
}

impl<'a> Tokens<'a> {
    /// `None` if the text cannot be cut into tokens.
    pub(super) fn of(sql: &'a str) -> Option<Self> {
        let dialect = Grammar::new();
        let cut = Tokenizer::new(&dialect, sql)
            .tokenize_with_location()
            .ok()?;
        let mut tokens = Self { sql, all: vec![] };
        let mut clauses: Vec<Option<Clause>> = vec![None];
        for token in cut {
            if matches!(token.token, Token::Whitespace(_) | Token::EOF) {
                continue;
            }
            if token.token == Token::RParen && clauses.len() > 1 {
                clauses.pop();
            }
            let begun = tokens.begins(&token.token, clauses.last().copied().flatten());
            if let (Some(clause), Some(last)) = (begun, clauses.last_mut()) {
                *last = Some(clause);
            }
            let is_open = token.token == Token::LParen;
            tokens.all.push(Placed {
                token: token.token,
                line: usize::try_from(token.span.start.line).ok()?,
                column: usize::try_from(token.span.start.column).ok()?,
                inner: clauses.last().copied().flatten(),
                outer: clauses.iter().copied().flatten().next(),
                depth: clauses.len() - 1,
            });
            if is_open {
                clauses.push(None);
            }
        }
        Some(tokens)
    }

    /// The clause that a token begins after those that are there; `now` is the one that it ends.
    fn begins(&self, token: &Token, now: Option<Clause>) -> Option<Clause> {
        let before = self.all.len().checked_sub(1).map(|last| self.keyword(last));
        let keyword = keyword(token);
        if keyword == Keyword::SELECT {
            return Some(Clause::Select);
        }
        if keyword == Keyword::FROM && before == Some(Keyword::DELETE) {
            return Some(Clause::From);
        }
        // In other parentheses these words are parts of a call: `extract(year FROM x)`.
        now?;
        let is_part = matches!(
            (before, keyword),
            (Some(Keyword::DISTINCT), Keyword::FROM) | (Some(Keyword::WITHIN), Keyword::GROUP)
        );
        if is_part {
            return None;
        }
        match keyword {
            Keyword::FROM => Some(Clause::From),
            Keyword::WHERE => Some(Clause::Where),
            Keyword::HAVING => Some(Clause::Having),
            Keyword::ORDER => Some(Clause::Order),
            Keyword::GROUP => Some(Clause::Group),
            Keyword::LIMIT | Keyword::OFFSET | Keyword::FETCH | Keyword::WINDOW => {
                Some(Clause::Last)
            }
            _ => None,
        }
    }

    pub(super) fn len(&self) -> usize {
        self.all.len()
    }

    pub(super) fn token(&self, index: usize) -> Option<&Token> {
        self.all.get(index).map(|placed| &placed.token)
    }

    /// The token before another one.
    pub(super) fn before(&self, index: usize) -> Option<&Token> {
        self.token(index.checked_sub(1)?)
    }

    /// The keyword that a token is, if it is one.
    pub(super) fn keyword(&self, index: usize) -> Keyword {
        self.token(index).map_or(Keyword::NoKeyword, keyword)
    }

    /// The keyword that stands so many tokens before another one.
    pub(super) fn keyword_before(&self, index: usize, steps: usize) -> Keyword {
        match index.checked_sub(steps) {
            Some(before) => self.keyword(before),
            None => Keyword::NoKeyword,
        }
    }

    pub(super) fn has(&self, keyword: Keyword) -> bool {
        self.count(keyword) > 0
    }

    pub(super) fn count(&self, keyword: Keyword) -> usize {
        let all = 0..self.len();
        all.filter(|index| self.keyword(*index) == keyword).count()
    }

    pub(super) fn is_name(&self, index: usize, name: &str) -> bool {
        self.name(index).is_some_and(|found| found == name)
    }

    /// A name, folded as PostgreSQL folds it.
    pub(super) fn name(&self, index: usize) -> Option<String> {
        match self.token(index)? {
            Token::Word(word) if word.quote_style.is_some() => Some(word.value.clone()),
            Token::Word(word) => Some(word.value.to_lowercase()),
            _ => None,
        }
    }

    /// Whether a token stands directly in this clause, not in parentheses within it.
    pub(super) fn is_in(&self, index: usize, clause: Clause) -> bool {
        let placed = self.all.get(index);
        placed.is_some_and(|placed| placed.inner == Some(clause))
    }

    /// The clause of the outermost query in which a token stands.
    pub(super) fn outer(&self, index: usize) -> Option<Clause> {
        self.all.get(index)?.outer
    }

    /// Whether a token stands in no parentheses.
    pub(super) fn is_outside(&self, index: usize) -> bool {
        self.all.get(index).is_some_and(|placed| placed.depth == 0)
    }

    /// The number of the token's first character in the text.
    pub(super) fn character(&self, index: usize) -> Option<usize> {
        let placed = self.all.get(index)?;
        let at = character(self.sql, placed.line, placed.column)?;
        let found = from(self.sql, at)?;
        let is_there = match &placed.token {
            // Also written `!=`.
            Token::Neq => found.starts_with(['<', '!']),
            token => found.starts_with(&token.to_string()),
        };
        is_there.then_some(at)
    }
}

fn keyword(token: &Token) -> Keyword {
    match token {
        Token::Word(word) => word.keyword,
        _ => Keyword::NoKeyword,
    }
}
