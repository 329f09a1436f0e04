//! How do PostgreSQL's messages name a type that a statement names?

use datafusion::sql::sqlparser::ast::{ArrayElemTypeDef, DataType as SqlType, TimezoneInfo};

use super::Target;

/// A type as errors name it: `timestamp with time zone`.
#[must_use]
pub fn named_in_errors(sql: &SqlType) -> String {
    match Target::of_sql(sql) {
        Some(target) => target.name(),
        None => sql.to_string().to_lowercase(),
    }
}

/// A type as notices about functions name it: `pg_catalog.int4` for one that the grammar knows by a
/// word of its own, and others as they are written.
#[must_use]
pub fn named_in_notices(sql: &SqlType) -> String {
    if let SqlType::Array(ArrayElemTypeDef::SquareBracket(element, _)) = sql {
        return format!("{}[]", named_in_notices(element));
    }
    match Target::of_sql(sql) {
        Some(target) if is_of_grammar(sql) => format!("pg_catalog.{}", target.unmodified()),
        _ => sql.to_string().to_lowercase(),
    }
}

fn is_of_grammar(sql: &SqlType) -> bool {
    match sql {
        SqlType::Time(_, zone) | SqlType::Timestamp(_, zone) => *zone != TimezoneInfo::Tz,
        SqlType::SmallInt(_)
        | SqlType::Int(_)
        | SqlType::Integer(_)
        | SqlType::BigInt(_)
        | SqlType::Real
        | SqlType::Float(_)
        | SqlType::Double(_)
        | SqlType::DoublePrecision
        | SqlType::Numeric(_)
        | SqlType::Decimal(_)
        | SqlType::Dec(_)
        | SqlType::Boolean
        | SqlType::Char(_)
        | SqlType::Character(_)
        | SqlType::Varchar(_)
        | SqlType::CharVarying(_)
        | SqlType::CharacterVarying(_)
        | SqlType::Interval { .. } => true,
        _ => false,
    }
}
