//! The parameters in a statement's text, and the types that the text casts them to: `$1::oid[]`.
//!
//! They are read from the text because the plan loses information: DataFusion drops PostgreSQL's
//! name of a type (an oid is an `Int32`), and rewriting may drop an expression with a parameter
//! for which the client still sends a value.

use std::collections::BTreeMap;

use datafusion::sql::sqlparser::ast::{ArrayElemTypeDef, DataType, Statement, TimezoneInfo};
use datafusion::sql::sqlparser::parser::Parser;
use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan, Tokenizer};
use postgres_types::Type;

use super::ast::last_word;
use super::changes::merged;
use super::names::{folded, mentions};
use crate::array_types::array_of;
use crate::dialect::Grammar;

/// The parameters by number, each with its type if a cast gives one.
pub type Written = BTreeMap<usize, Option<Type>>;

/// The parameters of one statement.
pub fn written_parameters(sql: &str) -> Written {
    if !sql.contains('$') {
        return BTreeMap::new();
    }
    let tokens = Tokenizer::new(&Grammar::new(), sql).tokenize();
    let mut tokens = tokens.unwrap_or_default();
    tokens.retain(|token| !matches!(token, Token::Whitespace(_)));
    let mut found = BTreeMap::new();
    for (index, token) in tokens.iter().enumerate() {
        let Token::Placeholder(name) = token else {
            continue;
        };
        let Some(number) = name
            .strip_prefix('$')
            .and_then(|number| number.parse().ok())
        else {
            continue;
        };
        let said: &mut Option<Type> = found.entry(number).or_default();
        if said.is_none() {
            let rest = &tokens[index + 1..];
            let is_cast = match rest.first() {
                Some(Token::DoubleColon) => true,
                Some(Token::Word(word)) => word.value.eq_ignore_ascii_case("as"),
                _ => false,
            };
            let rest = rest
                .iter()
                .skip(1)
                .take(if is_cast { TYPE_TOKENS_MAX } else { 0 });
            let rest = rest.cloned().map(TokenWithSpan::wrap).collect::<Vec<_>>();
            let dialect = Grammar::new();
            let mut parser = Parser::new(&dialect).with_tokens_with_locations(rest);
            *said = parser.parse_data_type().ok().as_ref().and_then(type_of);
        }
    }
    found
}

/// The queries of a statement's WITH, as statements of their own, each with those that it may
/// name. A plan has no queries that the statement does not read, but all of them give types to
/// parameters.
#[must_use]
pub fn with_queries(statement: &Statement) -> Vec<Statement> {
    let Statement::Query(query) = statement else {
        return vec![];
    };
    let with = query.with.iter();
    let each = with.flat_map(|with| {
        with.cte_tables.iter().enumerate().map(|(at, cte)| {
            let mut named = with.clone();
            named.cte_tables.truncate(at);
            let mut query = cte.query.clone();
            let named = merged(named, query.with.take());
            query.with = (!named.cte_tables.is_empty()).then_some(named);
            Statement::Query(query)
        })
    });
    each.collect()
}

/// Those of [`with_queries`] that no query names, which are missing from the plan.
#[must_use]
pub fn unread_queries(statement: &Statement) -> Vec<Statement> {
    let Statement::Query(query) = statement else {
        return vec![];
    };
    let named = query.with.iter().flat_map(|with| &with.cte_tables);
    let is_unread = named.map(|cte| mentions(query, &folded(&cte.alias.name)) == 0);
    let all = with_queries(statement).into_iter().zip(is_unread);
    all.filter_map(|(query, is_unread)| is_unread.then_some(query))
        .collect()
}

/// The number of tokens in the longest supported type: `timestamp(3) with time zone[]`.
const TYPE_TOKENS_MAX: usize = 12;

/// The PostgreSQL type of a type name in SQL; `None` if it is not supported.
#[must_use]
pub fn type_of(data_type: &DataType) -> Option<Type> {
    Some(match data_type {
        DataType::Boolean | DataType::Bool => Type::BOOL,
        DataType::SmallInt(_) | DataType::Int2(_) => Type::INT2,
        DataType::Int(_) | DataType::Integer(_) | DataType::Int4(_) => Type::INT4,
        DataType::BigInt(_) | DataType::Int8(_) => Type::INT8,
        DataType::Real | DataType::Float4 => Type::FLOAT4,
        DataType::Double(_) | DataType::DoublePrecision | DataType::Float8 => Type::FLOAT8,
        DataType::Numeric(_) | DataType::Decimal(_) => Type::NUMERIC,
        DataType::Text => Type::TEXT,
        DataType::Varchar(_) | DataType::CharacterVarying(_) => Type::VARCHAR,
        DataType::Char(_) | DataType::Character(_) => Type::BPCHAR,
        DataType::Date => Type::DATE,
        DataType::Time(_, TimezoneInfo::None | TimezoneInfo::WithoutTimeZone) => Type::TIME,
        DataType::Interval { .. } => Type::INTERVAL,
        DataType::Uuid => Type::UUID,
        DataType::JSON => Type::JSON,
        DataType::JSONB => Type::JSONB,
        DataType::Timestamp(_, TimezoneInfo::WithTimeZone | TimezoneInfo::Tz) => Type::TIMESTAMPTZ,
        DataType::Timestamp(..) => Type::TIMESTAMP,
        DataType::Bytea => Type::BYTEA,
        DataType::Custom(name, arguments) if arguments.is_empty() => {
            match last_word(name)?.as_str() {
                "oid" => Type::OID,
                "int4" => Type::INT4,
                "int8" => Type::INT8,
                "int2" => Type::INT2,
                "text" => Type::TEXT,
                "varchar" => Type::VARCHAR,
                "bpchar" => Type::BPCHAR,
                "name" => Type::NAME,
                "bool" => Type::BOOL,
                "float8" => Type::FLOAT8,
                "float4" => Type::FLOAT4,
                "numeric" => Type::NUMERIC,
                _ => return None,
            }
        }
        DataType::Array(ArrayElemTypeDef::SquareBracket(element, _)) => {
            array_of(&type_of(element)?)?
        }
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_in_a_text() {
        let sql = "SELECT $1::oid[], CAST($2 AS REGCLASS), $4 + $3::\"pg_catalog\".\"int4\"::text, '$9', $4 AS a";
        let found = written_parameters(sql);
        let shown: Vec<_> = found
            .iter()
            .map(|(number, said)| (*number, said.as_ref().map(Type::name)))
            .collect();
        let expected = [(1, Some("_oid")), (2, None), (3, Some("int4")), (4, None)];
        assert_eq!(shown, expected);
    }
}
