//! Which of sqlparser's keywords may be names?
//!
//! PostgreSQL's keywords decide (`pg_get_keywords()` of PostgreSQL 15). sqlparser's own lists hold
//! words of all databases: of those, only words that PostgreSQL reserves are no names here.
//!
//! Not here: labels of columns after AS, which may be any word. Where this grammar refuses a query,
//! the engine reads it in DataFusion's dialect, without PostgreSQL's meaning, unless the error is
//! worded as a syntax error. So reserved words that sqlparser takes for the name of a relation
//! (`FROM t user`) are refused in the syntax tree.

use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{Statement, TableFactor, Visitor};
use datafusion::sql::sqlparser::keywords::{Keyword, RESERVED_FOR_TABLE_ALIAS};
use datafusion::sql::sqlparser::parser::ParserError;
use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan};

use super::words::is_space;
use crate::visits::Look;

/// Whether a word may be the label of a column without AS.
pub(super) fn may_label(keyword: Keyword) -> bool {
    !NO_LABELS.contains(&keyword)
}

/// Whether a word that is no operator labels a column only after AS, although PostgreSQL does not
/// reserve it. It cannot stand behind an expression.
pub(super) fn labels_after_as(keyword: Keyword) -> bool {
    ONLY_AFTER_AS.contains(&keyword)
}

/// Whether a word may be the alias of a table without AS, before this token. A word that begins a
/// clause in sqlparser does so before a name, a number or a bracket: `UPDATE t SET a = 1`.
pub(super) fn may_name_table(keyword: Keyword, next: &Token) -> bool {
    if !RESERVED_FOR_TABLE_ALIAS.contains(&keyword) {
        return true;
    }
    let begins_clause = match next {
        Token::Word(next) => !is_reserved(next.keyword),
        next => matches!(next, Token::LParen | Token::Number(..)),
    };
    !is_reserved(keyword) && !begins_clause
}

fn is_reserved(keyword: Keyword) -> bool {
    RESERVED.contains(&keyword) || TYPES_AND_FUNCTIONS.contains(&keyword)
}

/// # Errors
/// An alias of a relation that is a reserved word.
pub(in crate::dialect) fn refuse_names(statement: &Statement) -> Result<(), ParserError> {
    match statement.look(&mut Names) {
        ControlFlow::Continue(()) => Ok(()),
        ControlFlow::Break(word) => {
            let message = format!("syntax error at or near \"{word}\"");
            Err(ParserError::ParserError(message))
        }
    }
}

struct Names;

impl Visitor for Names {
    type Break = String;

    fn pre_visit_table_factor(&mut self, factor: &TableFactor) -> ControlFlow<String> {
        let (TableFactor::Table { alias, .. }
        | TableFactor::Derived { alias, .. }
        | TableFactor::Function { alias, .. }
        | TableFactor::UNNEST { alias, .. }
        | TableFactor::NestedJoin { alias, .. }) = factor
        else {
            return ControlFlow::Continue(());
        };
        let Some(alias) = alias else {
            return ControlFlow::Continue(());
        };
        let name = &alias.name;
        match Token::make_word(&name.value, name.quote_style) {
            Token::Word(word) if is_reserved(word.keyword) => ControlFlow::Break(word.value),
            _ => ControlFlow::Continue(()),
        }
    }
}

/// Turns words into plain names that sqlparser would read as operators and clauses of other
/// databases, as functions although no bracket follows, or as operators although no operand
/// follows (`SELECT count(*) like FROM t`).
pub(super) fn release(tokens: &mut [TokenWithSpan]) {
    let (mut opens, mut ends_item) = (false, true);
    for token in tokens.iter_mut().rev() {
        if is_space(token) {
            continue;
        }
        if let Token::Word(word) = &mut token.token
            && (OF_OTHERS.contains(&word.keyword)
                || (!opens && BEFORE_BRACKETS.contains(&word.keyword))
                || (ends_item && BEFORE_OPERANDS.contains(&word.keyword)))
        {
            word.keyword = Keyword::NoKeyword;
        }
        opens = token.token == Token::LParen;
        ends_item = match &token.token {
            Token::Word(word) => word.keyword == Keyword::FROM,
            other => matches!(other, Token::Comma | Token::RParen | Token::SemiColon),
        };
    }
}

/// Words that have a meaning only before a bracket.
const BEFORE_BRACKETS: &[Keyword] = &[Keyword::CUBE, Keyword::ROLLUP, Keyword::TRIM];

/// Words that are operators before an operand, and labels of columns elsewhere.
const BEFORE_OPERANDS: &[Keyword] = &[
    Keyword::COLLATE,
    Keyword::ILIKE,
    Keyword::LIKE,
    Keyword::SIMILAR,
];

/// Words that are operators or clauses of other databases wherever they stand.
const OF_OTHERS: &[Keyword] = &[
    Keyword::DIV,
    Keyword::MEMBER,
    Keyword::REGEXP,
    Keyword::RLIKE,
    Keyword::TOP,
    Keyword::XOR,
];

/// PostgreSQL's reserved words that sqlparser knows.
const RESERVED: &[Keyword] = &[
    Keyword::ALL,
    Keyword::ANALYZE,
    Keyword::AND,
    Keyword::ANY,
    Keyword::ARRAY,
    Keyword::AS,
    Keyword::ASC,
    Keyword::ASYMMETRIC,
    Keyword::BOTH,
    Keyword::CASE,
    Keyword::CAST,
    Keyword::CHECK,
    Keyword::COLLATE,
    Keyword::COLUMN,
    Keyword::CONSTRAINT,
    Keyword::CREATE,
    Keyword::CURRENT_CATALOG,
    Keyword::CURRENT_DATE,
    Keyword::CURRENT_ROLE,
    Keyword::CURRENT_TIME,
    Keyword::CURRENT_TIMESTAMP,
    Keyword::CURRENT_USER,
    Keyword::DEFAULT,
    Keyword::DEFERRABLE,
    Keyword::DESC,
    Keyword::DISTINCT,
    Keyword::DO,
    Keyword::ELSE,
    Keyword::END,
    Keyword::EXCEPT,
    Keyword::FALSE,
    Keyword::FETCH,
    Keyword::FOR,
    Keyword::FOREIGN,
    Keyword::FROM,
    Keyword::GRANT,
    Keyword::GROUP,
    Keyword::HAVING,
    Keyword::IN,
    Keyword::INITIALLY,
    Keyword::INTERSECT,
    Keyword::INTO,
    Keyword::LATERAL,
    Keyword::LEADING,
    Keyword::LIMIT,
    Keyword::LOCALTIME,
    Keyword::LOCALTIMESTAMP,
    Keyword::NOT,
    Keyword::NULL,
    Keyword::OFFSET,
    Keyword::ON,
    Keyword::ONLY,
    Keyword::OR,
    Keyword::ORDER,
    Keyword::PLACING,
    Keyword::PRIMARY,
    Keyword::REFERENCES,
    Keyword::RETURNING,
    Keyword::SELECT,
    Keyword::SESSION_USER,
    Keyword::SOME,
    Keyword::SYMMETRIC,
    Keyword::TABLE,
    Keyword::THEN,
    Keyword::TO,
    Keyword::TRAILING,
    Keyword::TRUE,
    Keyword::UNION,
    Keyword::UNIQUE,
    Keyword::USER,
    Keyword::USING,
    Keyword::VARIADIC,
    Keyword::WHEN,
    Keyword::WHERE,
    Keyword::WINDOW,
    Keyword::WITH,
];

/// The words that may only name a type or a function.
const TYPES_AND_FUNCTIONS: &[Keyword] = &[
    Keyword::AUTHORIZATION,
    Keyword::BINARY,
    Keyword::COLLATION,
    Keyword::CONCURRENTLY,
    Keyword::CROSS,
    Keyword::CURRENT_SCHEMA,
    Keyword::FREEZE,
    Keyword::FULL,
    Keyword::ILIKE,
    Keyword::INNER,
    Keyword::IS,
    Keyword::JOIN,
    Keyword::LEFT,
    Keyword::LIKE,
    Keyword::NATURAL,
    Keyword::NOTNULL,
    Keyword::OUTER,
    Keyword::OVERLAPS,
    Keyword::RIGHT,
    Keyword::SIMILAR,
    Keyword::TABLESAMPLE,
    Keyword::VERBOSE,
];

/// The reserved words that label a column only after AS.
const NO_LABELS: &[Keyword] = &[
    Keyword::ARRAY,
    Keyword::AS,
    Keyword::CREATE,
    Keyword::EXCEPT,
    Keyword::FETCH,
    Keyword::FOR,
    Keyword::FROM,
    Keyword::GRANT,
    Keyword::GROUP,
    Keyword::HAVING,
    Keyword::INTERSECT,
    Keyword::INTO,
    Keyword::LIMIT,
    Keyword::OFFSET,
    Keyword::ON,
    Keyword::ORDER,
    Keyword::RETURNING,
    Keyword::TO,
    Keyword::UNION,
    Keyword::WHERE,
    Keyword::WINDOW,
    Keyword::WITH,
];

/// The words that are names elsewhere, but label a column only after AS.
const ONLY_AFTER_AS: &[Keyword] = &[
    Keyword::CHAR,
    Keyword::CHARACTER,
    Keyword::DAY,
    Keyword::FILTER,
    Keyword::HOUR,
    Keyword::MINUTE,
    Keyword::MONTH,
    Keyword::OVER,
    Keyword::PRECISION,
    Keyword::SECOND,
    Keyword::VARYING,
    Keyword::WITHIN,
    Keyword::WITHOUT,
    Keyword::YEAR,
];
