//! Which tokens may an error mean?

use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::tokenizer::Token;

use super::sought::Sought;
use super::tokens::{Clause, Tokens};

/// Schemas that messages leave out.
const UNSAID: [&str; 2] = ["public", "pg_temp"];

/// Words of what PostgreSQL reads in another order: windows after all clauses, arguments of some
/// calls from right to left, the clauses of DELETE and UPDATE in an order of their own. VALUES is a
/// query beside that of SELECT.
const READ_OTHERWISE: [Keyword; 9] = [
    Keyword::OVER,
    Keyword::WINDOW,
    Keyword::FILTER,
    Keyword::WITHIN,
    Keyword::POSITION,
    Keyword::TRIM,
    Keyword::DELETE,
    Keyword::UPDATE,
    Keyword::VALUES,
];

/// Whether a token may be meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Use {
    Yes,
    No,
    /// If there is such a token, no place is certain.
    Unsure,
}

impl From<bool> for Use {
    fn from(is_meant: bool) -> Self {
        if is_meant { Self::Yes } else { Self::No }
    }
}

impl Tokens<'_> {
    /// The character at which what is sought begins.
    pub(super) fn place(&self, sought: &Sought<'_>) -> Option<usize> {
        let index = match *sought {
            Sought::Word(word) => self.only(|index| self.shows(index, word))?,
            Sought::Column { table: None, name } => self.first_column(name, false)?,
            Sought::Ambiguous(name) => self.first_column(name, true)?,
            Sought::Column {
                table: Some(table),
                name,
            } => self.first(|index| self.uses_qualified(index, table, name).into())?,
            Sought::Qualifier(table) => self.first(|index| self.uses_table(index, table).into())?,
            Sought::Relation(name) => {
                let parts: Vec<&str> = name.split('.').collect();
                let last = self.first(|index| self.uses_relation(index, &parts).into())?;
                self.begin_of_name(last)
            }
            Sought::Function(name) => {
                self.begin_of_name(self.only(|index| self.calls(index, name))?)
            }
            Sought::Operator(symbol) if self.may_be_unwritten(symbol) => return None,
            Sought::Operator(symbol) => self.only(|index| self.shows(index, symbol))?,
            Sought::Token { .. } | Sought::Unended { .. } | Sought::End => return None,
        };
        self.character(index)
    }

    /// The only token of which this holds.
    fn only(&self, holds: impl Fn(usize) -> bool) -> Option<usize> {
        let mut found = (0..self.len()).filter(|index| holds(*index));
        let only = found.next()?;
        found.next().is_none().then_some(only)
    }

    /// The token that PostgreSQL reads first of those that may be meant.
    fn first(&self, meant: impl Fn(usize) -> Use) -> Option<usize> {
        self.first_of(&self.all_meant(meant)?)
    }

    /// `None` if one of them is not certain.
    fn all_meant(&self, meant: impl Fn(usize) -> Use) -> Option<Vec<usize>> {
        let mut found = vec![];
        for index in 0..self.len() {
            match meant(index) {
                Use::Yes => found.push(index),
                Use::No => {}
                Use::Unsure => return None,
            }
        }
        Some(found)
    }

    fn first_of(&self, found: &[usize]) -> Option<usize> {
        if let [only] = found {
            return Some(*only);
        }
        let is_plain = self.count(Keyword::SELECT) == 1
            && !self.has_distinct_on()
            && !READ_OTHERWISE.iter().any(|word| self.has(*word));
        if !is_plain || found.iter().any(|index| self.outer(*index).is_none()) {
            return None;
        }
        let found = found.iter().copied();
        found.min_by_key(|index| self.outer(*index))
    }

    /// The use of a column without a table that is wrong. Of several, that need not be the first:
    /// each ON sees other relations, and ORDER BY and GROUP BY also see the query's own labels.
    fn first_column(&self, name: &str, is_ambiguous: bool) -> Option<usize> {
        let found = self.all_meant(|index| self.uses_column(index, name))?;
        let first = self.first_of(&found)?;
        if found.len() == 1 {
            return Some(first);
        }
        let is_certain = match self.outer(first)? {
            Clause::From => !is_ambiguous && !self.are_apart(&found),
            Clause::Order | Clause::Group => {
                let mut others = (0..self.len()).filter(|index| self.is_name(*index, name));
                others.all(|index| found.contains(&index))
            }
            _ => true,
        };
        is_certain.then_some(first)
    }

    /// Whether several tokens stand in a FROM that is a list, whose items see other relations.
    fn are_apart(&self, found: &[usize]) -> bool {
        let is_in_from = |index: &&usize| self.outer(**index) == Some(Clause::From);
        let parts = |index: usize| self.is(index, &Token::Comma) && self.is_in(index, Clause::From);
        found.iter().filter(is_in_from).count() > 1 && (0..self.len()).any(parts)
    }

    fn shows(&self, index: usize, text: &str) -> bool {
        self.token(index)
            .is_some_and(|token| token.to_string() == text)
    }

    fn is(&self, index: usize, token: &Token) -> bool {
        self.token(index) == Some(token)
    }

    /// Whether a token is a column's name without a table.
    fn uses_column(&self, index: usize, name: &str) -> Use {
        let next = self.token(index + 1);
        let other = [Token::Period, Token::LParen, Token::RArrow];
        if !self.is_name(index, name) || next.is_some_and(|next| other.contains(next)) {
            return Use::No;
        }
        if self.is_in_alias(index) || self.has_no_place(index) {
            return Use::No;
        }
        match self.before(index) {
            None
            | Some(
                Token::Period
                | Token::DoubleColon
                | Token::RBracket
                | Token::Number(..)
                | Token::SingleQuotedString(_)
                | Token::Placeholder(_),
            ) => Use::No,
            Some(Token::RParen) => self.after_parenthesis(),
            Some(Token::Comma) => (!self.is_in(index, Clause::From)).into(),
            Some(Token::LParen) if self.keyword_before(index, 2) == Keyword::USING => Use::Unsure,
            Some(Token::Word(_)) => self.after_word(index),
            Some(_) => Use::Yes,
        }
    }

    /// Whether a token stands where PostgreSQL reports columns without a place: in the list of COPY
    /// or of CREATE INDEX, in ALTER TABLE.
    fn has_no_place(&self, index: usize) -> bool {
        let is_index = self.keyword(0) == Keyword::CREATE
            && (self.keyword(1) == Keyword::INDEX || self.keyword(2) == Keyword::INDEX);
        let is_other = matches!(self.keyword(0), Keyword::COPY | Keyword::ALTER);
        (is_index || is_other) && self.outer(index).is_none()
    }

    /// Whether a name after a parenthesis is a column: it is a label, but not in
    /// `SELECT DISTINCT ON (a) b`.
    fn after_parenthesis(&self) -> Use {
        if self.has_distinct_on() {
            Use::Unsure
        } else {
            Use::No
        }
    }

    fn has_distinct_on(&self) -> bool {
        let is_one = |index: usize| {
            self.keyword(index) == Keyword::ON && self.keyword_before(index, 1) == Keyword::DISTINCT
        };
        (0..self.len()).any(is_one)
    }

    /// Whether a token names a column of a table's alias: `t AS x(a, b)`.
    fn is_in_alias(&self, index: usize) -> bool {
        let Some(open) = self.opened(index).filter(|open| *open >= 2) else {
            return false;
        };
        let is_after_table = match self.token(open - 2) {
            Some(Token::RParen) => true,
            Some(Token::Word(word)) => matches!(word.keyword, Keyword::AS | Keyword::NoKeyword),
            _ => false,
        };
        is_after_table
            && self.is(open, &Token::LParen)
            && self.is_in(open, Clause::From)
            && self.name(open - 1).is_some()
            && self.keyword(open - 1) == Keyword::NoKeyword
    }

    /// Whether a name after a word is a column.
    fn after_word(&self, index: usize) -> Use {
        match self.keyword_before(index, 1) {
            // A label, or what the statement names.
            Keyword::NoKeyword
            | Keyword::AS
            | Keyword::JOIN
            | Keyword::INTO
            | Keyword::UPDATE
            | Keyword::TABLE
            | Keyword::VIEW
            | Keyword::ONLY
            | Keyword::USING
            | Keyword::WITH
            | Keyword::PREPARE
            | Keyword::DECLARE => Use::No,
            Keyword::FROM if self.keyword_before(index, 2) == Keyword::DISTINCT => Use::Yes,
            Keyword::FROM if self.is_in(index, Clause::From) => Use::No,
            Keyword::FROM
            | Keyword::SELECT
            | Keyword::DISTINCT
            | Keyword::ALL
            | Keyword::WHERE
            | Keyword::AND
            | Keyword::OR
            | Keyword::NOT
            | Keyword::ON
            | Keyword::BY
            | Keyword::HAVING
            | Keyword::WHEN
            | Keyword::THEN
            | Keyword::ELSE
            | Keyword::CASE
            | Keyword::BETWEEN
            | Keyword::LIKE
            | Keyword::ILIKE
            | Keyword::TO
            | Keyword::IN
            | Keyword::SET
            | Keyword::LIMIT
            | Keyword::OFFSET
            | Keyword::RETURNING => Use::Yes,
            // A word that is a keyword elsewhere, such as `id`.
            _ if self.begins_value(index - 1) => Use::No,
            _ => Use::Unsure,
        }
    }

    /// Whether a word begins an item of a list or goes on with a column's name.
    fn begins_value(&self, word: usize) -> bool {
        let is_listed = matches!(self.before(word), Some(Token::Comma | Token::Period));
        is_listed || self.keyword_before(word, 1) == Keyword::SELECT
    }

    /// Whether a token is the table of this column.
    fn uses_qualified(&self, index: usize, table: &str, name: &str) -> bool {
        let after = self.token(index + 3);
        self.is_name(index + 2, name)
            && self.uses_table(index, table)
            && !matches!(after, Some(Token::Period | Token::LParen))
    }

    /// Whether a token is a table that qualifies a column.
    fn uses_table(&self, index: usize, table: &str) -> bool {
        let is_schema = self.is_relation(index) || self.is(index + 3, &Token::LParen);
        let is_part = matches!(self.before(index), Some(Token::Period | Token::DoubleColon));
        self.is_name(index, table)
            && self.is(index + 1, &Token::Period)
            && !is_schema
            && !is_part
            && self.keyword_before(index, 1) != Keyword::AS
    }

    /// Whether a token is the last part of this relation's name.
    fn uses_relation(&self, index: usize, parts: &[&str]) -> bool {
        if self.is(index + 1, &Token::Period) {
            return false;
        }
        let begin = self.begin_of_name(index);
        let is_call = self.is(index + 1, &Token::LParen);
        if !self.is_relation(begin) || (is_call && self.keyword_before(begin, 1) != Keyword::INTO) {
            return false;
        }
        let named: Vec<String> = (begin..=index)
            .step_by(2)
            .filter_map(|part| self.name(part))
            .collect();
        let Some(unsaid) = named.len().checked_sub(parts.len()) else {
            return false;
        };
        let (unsaid, said) = named.split_at(unsaid);
        said == parts
            && unsaid
                .last()
                .is_none_or(|schema| UNSAID.contains(&schema.as_str()))
    }

    /// Whether a relation's name begins at a token.
    fn is_relation(&self, index: usize) -> bool {
        let is_from = self.is_in(index, Clause::From);
        let earlier = self.keyword_before(index, 2);
        match self.keyword_before(index, 1) {
            Keyword::JOIN | Keyword::INTO | Keyword::UPDATE | Keyword::USING => true,
            Keyword::FROM => is_from && earlier != Keyword::DISTINCT,
            Keyword::ONLY => is_from || earlier == Keyword::UPDATE,
            // As a query of its own, not as a word of ALTER TABLE.
            Keyword::TABLE => index == 1 || self.before(index - 1) == Some(&Token::LParen),
            _ => is_from && self.before(index) == Some(&Token::Comma),
        }
    }

    fn calls(&self, index: usize, function: &str) -> bool {
        let begin = self.begin_of_name(index);
        let is_defined = matches!(
            self.keyword_before(begin, 1),
            Keyword::INTO | Keyword::TABLE | Keyword::VIEW | Keyword::WITH | Keyword::AS
        );
        self.is_name(index, function) && self.is(index + 1, &Token::LParen) && !is_defined
    }

    /// The first part of the name whose last part this is.
    fn begin_of_name(&self, last: usize) -> usize {
        let mut begin = last;
        while begin >= 2
            && self.is(begin - 1, &Token::Period)
            && matches!(self.token(begin - 2), Some(Token::Word(_)))
        {
            begin -= 2;
        }
        begin
    }

    /// Whether something in the text is this operator by another name.
    fn may_be_unwritten(&self, symbol: &str) -> bool {
        let words: &[Keyword] = match symbol {
            "=" => &[
                Keyword::IN,
                Keyword::USING,
                Keyword::NATURAL,
                Keyword::CASE,
                Keyword::NULLIF,
                Keyword::DISTINCT,
            ],
            "<>" => &[Keyword::IN],
            "<=" | ">=" => &[Keyword::BETWEEN],
            _ => &[],
        };
        words.iter().any(|word| self.has(*word)) || self.may_compare_rows(symbol)
    }

    /// Whether something in the text compares rows by another operator, which is written out:
    /// `(a, b) <= (c, d)` compares `a < c`.
    fn may_compare_rows(&self, symbol: &str) -> bool {
        let signs = [Token::Lt, Token::Gt, Token::LtEq, Token::GtEq];
        let is_other = |token: &Token| signs.contains(token) && token.to_string() != symbol;
        let compares = |index: usize| {
            self.before(index) == Some(&Token::RParen) && self.token(index).is_some_and(is_other)
        };
        ["=", "<", ">"].contains(&symbol) && (0..self.len()).any(compares)
    }
}
