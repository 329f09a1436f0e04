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

/// A part of a statement in parentheses or brackets, or the statement itself.
#[derive(Clone, Copy, Debug, Default)]
struct Level {
    /// The clause of the query that it holds, if it holds one.
    clause: Option<Clause>,
    /// The token that opens it.
    opened: Option<usize>,
}

/// A token that is no space and no comment.
struct Placed {
    token: Token,
    line: usize,
    column: usize,
    /// The innermost level in which it stands.
    level: Level,
    /// The clause of the outermost query.
    outer: Option<Clause>,
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
        let mut around: Vec<Level> = vec![];
        let mut level = Level::default();
        for token in cut {
            let (token, start) = (token.token, token.span.start);
            if matches!(token, Token::Whitespace(_) | Token::EOF) {
                continue;
            }
            if matches!(token, Token::RParen | Token::RBracket) {
                level = around.pop().unwrap_or(level);
            }
            level.clause = tokens.begun(&token, level).or(level.clause);
            let opens = matches!(token, Token::LParen | Token::LBracket);
            let outer = around.iter().chain([&level]).find_map(|level| level.clause);
            tokens.all.push(Placed {
                token,
                line: usize::try_from(start.line).ok()?,
                column: usize::try_from(start.column).ok()?,
                level,
                outer,
            });
            if opens {
                around.push(level);
                level = Level {
                    clause: None,
                    opened: Some(tokens.len() - 1),
                };
            }
        }
        Some(tokens)
    }

    /// The clause that a token begins after those that are there.
    fn begun(&self, token: &Token, level: Level) -> Option<Clause> {
        let before = self.all.last().map(|last| keyword(&last.token));
        let keyword = keyword(token);
        let is_part = matches!(
            (before, keyword),
            (Some(Keyword::DISTINCT), Keyword::FROM) | (Some(Keyword::WITHIN), Keyword::GROUP)
        );
        if is_part {
            return None;
        }
        if keyword == Keyword::SELECT {
            return Some(Clause::Select);
        }
        // DELETE and UPDATE begin without a clause.
        let is_statement = level.opened.is_none() || before == Some(Keyword::DELETE);
        if keyword == Keyword::FROM && is_statement {
            return Some(Clause::From);
        }
        // In other parentheses these words are parts of a call: `extract(year FROM x)`.
        level.clause?;
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
        placed.is_some_and(|placed| placed.level.clause == Some(clause))
    }

    /// The clause of the outermost query in which a token stands.
    pub(super) fn outer(&self, index: usize) -> Option<Clause> {
        self.all.get(index)?.outer
    }

    /// The parenthesis or bracket that opens the innermost level in which a token stands.
    pub(super) fn opened(&self, index: usize) -> Option<usize> {
        self.all.get(index)?.level.opened
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
