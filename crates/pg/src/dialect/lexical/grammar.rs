//! PostgreSQL's grammar, where `sqlparser` (0.62) deviates from it.
//!
//! | expression | `sqlparser` reads | PostgreSQL |
//! |---|---|---|
//! | `a IS DISTINCT FROM b AND c` | `a IS DISTINCT FROM (b AND c)` | `(a IS DISTINCT FROM b) AND c` |
//! | `- a ^ b` | `- (a ^ b)` | `(- a) ^ b` |
//! | `~ a + b`, also `@`, `\|/`, `\|\|/` | `(~ a) + b` | `~ (a + b)` |
//! | `a = b ~ c` | `(a = b) ~ c` | `a = (b ~ c)` |
//! | `NOT EXISTS (…) IS NULL` | `(NOT EXISTS (…)) IS NULL` | `NOT (EXISTS (…) IS NULL)` |
//! | `a < b < c` | `(a < b) < c` | an error |
//! | `((SELECT …) UNION (SELECT …))` | an error | a subquery |
//! | `a IN ((SELECT …), b)` | an error | a list |
//! | `a::text COLLATE "C"` | an error | `(a::text) COLLATE "C"` |
//! | `SELECT a match` | an operator MATCH | the label `match`; `reserved.rs` has the other names |
//! | `SELECT a day` | a label | an error |
//!
//! Whatever `sqlparser` fixes can be removed here.

use std::any::TypeId;

use datafusion::sql::sqlparser::ast::{BinaryOperator, Expr, ObjectName, UnaryOperator};
use datafusion::sql::sqlparser::dialect::{Dialect, PostgreSqlDialect, Precedence};
use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::parser::{Parser, ParserError};
use datafusion::sql::sqlparser::tokenizer::Token;

use super::reserved;

/// The dialect with which statements are parsed.
#[derive(Debug, Default)]
pub struct Grammar(PostgreSqlDialect);

impl Grammar {
    /// Creates the dialect.
    #[must_use]
    pub const fn new() -> Self {
        Self(PostgreSqlDialect {})
    }
}

/// The expression with a collation. The same collation given twice is kept once.
fn collated(expr: &Expr, collation: ObjectName) -> Expr {
    let expr = match expr {
        Expr::Collate {
            expr,
            collation: known,
        } if *known == collation => expr.clone(),
        other => Box::new(other.clone()),
    };
    Expr::Collate { expr, collation }
}

fn is_comparison(op: &BinaryOperator) -> bool {
    use BinaryOperator::{Eq, Gt, GtEq, Lt, LtEq, NotEq};
    matches!(op, Eq | NotEq | Lt | LtEq | Gt | GtEq)
}

/// The token, if it is a comparison operator.
fn comparison(token: &Token) -> Option<&Token> {
    use Token::{Eq, Gt, GtEq, Lt, LtEq, Neq};
    matches!(token, Eq | Neq | Lt | LtEq | Gt | GtEq).then_some(token)
}

/// The token after a pair of brackets that opens after `skipped` tokens; `None` if no bracket
/// opens there.
fn behind_brackets(parser: &Parser, skipped: usize) -> Option<Token> {
    let tokens = (0..).map(|at| parser.peek_nth_token_no_skip(at).token);
    let mut tokens = tokens
        .filter(|token| !matches!(token, Token::Whitespace(_)))
        .skip(skipped);
    let mut depth = 0;
    for token in tokens.by_ref() {
        match token {
            Token::LParen => depth += 1,
            Token::RParen => depth -= 1,
            Token::EOF => return None,
            _ => {}
        }
        if depth <= 0 {
            break;
        }
    }
    if depth == 0 { tokens.next() } else { None }
}

/// Whether a bracket opens a set operation whose first operand is in brackets.
fn opens_set_operation(parser: &Parser) -> bool {
    use Keyword::{EXCEPT, INTERSECT, UNION};
    let behind = behind_brackets(parser, 1);
    matches!(behind, Some(Token::Word(word)) if matches!(word.keyword, UNION | EXCEPT | INTERSECT))
}

/// A list after IN whose first value begins with a bracket, which looks like a subquery.
fn list_behind_in(parser: &mut Parser, expr: &Expr) -> Option<Result<Expr, ParserError>> {
    const NOT_IN: [Keyword; 2] = [Keyword::NOT, Keyword::IN];
    let is_word = |at, keyword| matches!(parser.peek_nth_token_ref(at).token, Token::Word(ref word) if word.keyword == keyword);
    let negated = is_word(0, Keyword::NOT);
    let at = usize::from(negated);
    let opens = |at| parser.peek_nth_token_ref(at).token == Token::LParen;
    if !is_word(at, Keyword::IN) || !opens(at + 1) || !opens(at + 2) {
        return None;
    }
    // After its closing bracket a query continues with one of these keywords, or ends.
    use Keyword::{EXCEPT, FETCH, FOR, INTERSECT, LIMIT, OFFSET, ORDER, UNION};
    let goes_on = [UNION, EXCEPT, INTERSECT, ORDER, LIMIT, OFFSET, FETCH, FOR];
    let is_query = match behind_brackets(parser, at + 2) {
        Some(Token::Word(word)) => goes_on.contains(&word.keyword),
        behind => matches!(behind, None | Some(Token::RParen)),
    };
    if is_query {
        return None;
    }
    let words = if negated { &NOT_IN[..] } else { &NOT_IN[1..] };
    let _ = parser.parse_keywords(words);
    parser.next_token();
    let list = parser.parse_comma_separated(Parser::parse_expr);
    Some(list.and_then(|list| {
        parser.expect_token(&Token::RParen)?;
        let expr = Box::new(expr.clone());
        Ok(Expr::InList {
            expr,
            list,
            negated,
        })
    }))
}

impl Dialect for Grammar {
    fn parse_prefix(&self, parser: &mut Parser) -> Option<Result<Expr, ParserError>> {
        if parser.peek_token_ref().token == Token::LParen && opens_set_operation(parser) {
            parser.next_token();
            let query = parser.parse_query().and_then(|query| {
                parser.expect_token(&Token::RParen)?;
                Ok(Expr::Subquery(query))
            });
            return Some(query);
        }
        let (op, precedence) = match &parser.peek_token_ref().token {
            // Binds tighter than `^`.
            Token::Minus => (UnaryOperator::Minus, Precedence::AtTz),
            Token::Plus => (UnaryOperator::Plus, Precedence::AtTz),
            Token::Tilde => (UnaryOperator::BitwiseNot, Precedence::PgOther),
            Token::AtSign => (UnaryOperator::PGAbs, Precedence::PgOther),
            Token::PGSquareRoot => (UnaryOperator::PGSquareRoot, Precedence::PgOther),
            Token::PGCubeRoot => (UnaryOperator::PGCubeRoot, Precedence::PgOther),
            Token::Word(word) if word.keyword == Keyword::NOT => {
                (UnaryOperator::Not, Precedence::UnaryNot)
            }
            _ => return self.0.parse_prefix(parser),
        };
        parser.next_token();
        let operand = parser.parse_subexpr(self.prec_value(precedence));
        Some(operand.map(|expr| Expr::UnaryOp {
            op,
            expr: Box::new(expr),
        }))
    }

    fn parse_infix(
        &self,
        parser: &mut Parser,
        expr: &Expr,
        precedence: u8,
    ) -> Option<Result<Expr, ParserError>> {
        const DISTINCT: [Keyword; 3] = [Keyword::IS, Keyword::DISTINCT, Keyword::FROM];
        const NOT_DISTINCT: [Keyword; 4] =
            [Keyword::IS, Keyword::NOT, Keyword::DISTINCT, Keyword::FROM];
        if parser.parse_keyword(Keyword::COLLATE) {
            let collation = parser.parse_object_name(false);
            return Some(collation.map(|collation| collated(expr, collation)));
        }
        if let Some(list) = list_behind_in(parser, expr) {
            return Some(list);
        }
        // Comparisons do not associate.
        if let Expr::BinaryOp { op, .. } = expr
            && is_comparison(op)
            && let Some(next) = comparison(&parser.peek_token_ref().token)
        {
            let message = format!("syntax error at or near \"{next}\"");
            return Some(Err(ParserError::ParserError(message)));
        }
        // Like every form of IS, IS DISTINCT FROM does not associate; a chain would also be copied
        // for each of its parts.
        if matches!(expr, Expr::IsDistinctFrom(..) | Expr::IsNotDistinctFrom(..))
            && parser.peek_keyword(Keyword::IS)
        {
            let message = "syntax error at or near \"IS\"".to_owned();
            return Some(Err(ParserError::ParserError(message)));
        }
        let make = if parser.parse_keywords(&DISTINCT) {
            Expr::IsDistinctFrom
        } else if parser.parse_keywords(&NOT_DISTINCT) {
            Expr::IsNotDistinctFrom
        } else {
            return self.0.parse_infix(parser, expr, precedence);
        };
        let right = parser.parse_subexpr(precedence);
        Some(right.map(|right| make(Box::new(expr.clone()), Box::new(right))))
    }

    fn get_next_precedence(&self, parser: &Parser) -> Option<Result<u8, ParserError>> {
        match &parser.peek_token_ref().token {
            Token::Tilde
            | Token::TildeAsterisk
            | Token::ExclamationMarkTilde
            | Token::ExclamationMarkTildeAsterisk
            | Token::DoubleTilde
            | Token::DoubleTildeAsterisk
            | Token::ExclamationMarkDoubleTilde
            | Token::ExclamationMarkDoubleTildeAsterisk => {
                Some(Ok(self.prec_value(Precedence::PgOther)))
            }
            // No operator, and one only before a bracket.
            Token::Word(word) if word.keyword == Keyword::MATCH => Some(Ok(self.prec_unknown())),
            Token::Word(word)
                if word.keyword == Keyword::OPERATOR
                    && parser.peek_nth_token_ref(1).token != Token::LParen =>
            {
                Some(Ok(self.prec_unknown()))
            }
            Token::Word(word) if reserved::labels_after_as(word.keyword) => {
                let message = format!("syntax error at or near \"{word}\"");
                Some(Err(ParserError::ParserError(message)))
            }
            _ => self.0.get_next_precedence(parser),
        }
    }

    fn is_column_alias(&self, keyword: &Keyword, _: &mut Parser) -> bool {
        reserved::may_label(*keyword)
    }

    fn is_table_alias(&self, keyword: &Keyword, parser: &mut Parser) -> bool {
        reserved::may_name_table(*keyword, &parser.peek_token_ref().token)
    }

    // The rest is delegated to `PostgreSqlDialect`.

    fn dialect(&self) -> TypeId {
        self.0.dialect()
    }

    fn identifier_quote_style(&self, identifier: &str) -> Option<char> {
        self.0.identifier_quote_style(identifier)
    }

    fn is_delimited_identifier_start(&self, ch: char) -> bool {
        self.0.is_delimited_identifier_start(ch)
    }

    fn is_identifier_start(&self, ch: char) -> bool {
        self.0.is_identifier_start(ch)
    }

    fn is_identifier_part(&self, ch: char) -> bool {
        self.0.is_identifier_part(ch)
    }

    fn supports_unicode_string_literal(&self) -> bool {
        self.0.supports_unicode_string_literal()
    }

    fn is_reserved_for_identifier(&self, kw: Keyword) -> bool {
        self.0.is_reserved_for_identifier(kw)
    }

    fn is_custom_operator_part(&self, ch: char) -> bool {
        self.0.is_custom_operator_part(ch)
    }

    fn supports_filter_during_aggregation(&self) -> bool {
        self.0.supports_filter_during_aggregation()
    }

    fn supports_group_by_expr(&self) -> bool {
        self.0.supports_group_by_expr()
    }

    fn prec_value(&self, prec: Precedence) -> u8 {
        self.0.prec_value(prec)
    }

    fn allow_extract_custom(&self) -> bool {
        self.0.allow_extract_custom()
    }

    fn allow_extract_single_quotes(&self) -> bool {
        self.0.allow_extract_single_quotes()
    }

    fn supports_create_index_with_clause(&self) -> bool {
        self.0.supports_create_index_with_clause()
    }

    fn supports_explain_with_utility_options(&self) -> bool {
        self.0.supports_explain_with_utility_options()
    }

    fn supports_listen_notify(&self) -> bool {
        self.0.supports_listen_notify()
    }

    fn supports_factorial_operator(&self) -> bool {
        self.0.supports_factorial_operator()
    }

    fn supports_bitwise_shift_operators(&self) -> bool {
        self.0.supports_bitwise_shift_operators()
    }

    fn supports_comment_on(&self) -> bool {
        self.0.supports_comment_on()
    }

    fn supports_load_extension(&self) -> bool {
        self.0.supports_load_extension()
    }

    fn supports_named_fn_args_with_colon_operator(&self) -> bool {
        self.0.supports_named_fn_args_with_colon_operator()
    }

    fn supports_named_fn_args_with_expr_name(&self) -> bool {
        self.0.supports_named_fn_args_with_expr_name()
    }

    fn supports_empty_projections(&self) -> bool {
        self.0.supports_empty_projections()
    }

    fn supports_nested_comments(&self) -> bool {
        self.0.supports_nested_comments()
    }

    fn supports_string_escape_constant(&self) -> bool {
        self.0.supports_string_escape_constant()
    }

    fn supports_numeric_literal_underscores(&self) -> bool {
        self.0.supports_numeric_literal_underscores()
    }

    fn supports_array_typedef_with_brackets(&self) -> bool {
        self.0.supports_array_typedef_with_brackets()
    }

    fn supports_geometric_types(&self) -> bool {
        self.0.supports_geometric_types()
    }

    fn supports_set_names(&self) -> bool {
        self.0.supports_set_names()
    }

    fn supports_alter_column_type_using(&self) -> bool {
        self.0.supports_alter_column_type_using()
    }

    fn supports_notnull_operator(&self) -> bool {
        self.0.supports_notnull_operator()
    }

    fn supports_interval_options(&self) -> bool {
        self.0.supports_interval_options()
    }

    fn supports_insert_table_alias(&self) -> bool {
        self.0.supports_insert_table_alias()
    }

    fn supports_create_table_like_parenthesized(&self) -> bool {
        self.0.supports_create_table_like_parenthesized()
    }

    fn supports_select_wildcard_with_alias(&self) -> bool {
        self.0.supports_select_wildcard_with_alias()
    }

    fn supports_comma_separated_trim(&self) -> bool {
        self.0.supports_comma_separated_trim()
    }

    fn supports_xml_expressions(&self) -> bool {
        self.0.supports_xml_expressions()
    }

    fn supports_comment_optimizer_hint(&self) -> bool {
        self.0.supports_comment_optimizer_hint()
    }
}
