//! The kind of a parameter: PostgreSQL's type, and for numerics the digits of the value at hand.

use datafusion::arrow::datatypes::DataType;
use datafusion::scalar::ScalarValue;
use datafusion::sql::sqlparser::ast::{
    ArrayElemTypeDef, CastKind, DataType as SqlType, ExactNumberInfo, Expr, TimezoneInfo,
};
use postgres_types::Type;

use crate::array_types::element_of;

/// What a parameter is planned as, in SQL. Two values of one kind fit the same plan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Kind(pub(super) SqlType);

impl Kind {
    /// Arrow's name of the type, if SQL's means another one, or others in some sessions.
    pub(super) fn arrow(&self) -> Option<&'static str> {
        match &self.0 {
            SqlType::Timestamp(_, TimezoneInfo::WithTimeZone) => {
                Some("Timestamp(Microsecond, Some(\"UTC\"))")
            }
            SqlType::Time(..) => Some("Time64(Microsecond)"),
            SqlType::Array(ArrayElemTypeDef::SquareBracket(element, _)) => match element.as_ref() {
                SqlType::Timestamp(_, TimezoneInfo::WithTimeZone) => {
                    Some("List(Timestamp(Microsecond, Some(\"UTC\")))")
                }
                SqlType::Time(..) => Some("List(Time64(Microsecond))"),
                _ => None,
            },
            _ => None,
        }
    }
}

/// A kind before there is a value: numerics have some digits, which the value's replace.
#[must_use]
pub fn nominal(pg_type: &Type) -> Kind {
    Kind(sql_type(pg_type, NOMINAL))
}

/// The kinds of values of these types.
#[must_use]
pub fn kinds(types: &[Type], values: &[ScalarValue]) -> Vec<Kind> {
    let pairs = types.iter().zip(values);
    pairs
        .map(|(pg_type, value)| Kind(sql_type(pg_type, digits(&value.data_type()))))
        .collect()
}

/// `CAST(expr AS type)`, for a type without digits.
#[must_use]
pub fn cast_to(expr: Expr, pg_type: &Type) -> Expr {
    Expr::Cast {
        kind: CastKind::Cast,
        expr: Box::new(expr),
        data_type: sql_type(pg_type, NOMINAL),
        array: false,
        format: None,
    }
}

/// PostgreSQL's name of a type, as in its error messages.
#[must_use]
pub fn sql_name(pg_type: &Type) -> String {
    if let Some(element) = element_of(pg_type) {
        return format!("{}[]", sql_name(&element));
    }
    let name = match *pg_type {
        Type::BOOL => "boolean",
        Type::INT2 => "smallint",
        Type::INT4 => "integer",
        Type::INT8 => "bigint",
        Type::FLOAT4 => "real",
        Type::FLOAT8 => "double precision",
        Type::VARCHAR => "character varying",
        Type::BPCHAR => "character",
        Type::TIME => "time without time zone",
        Type::TIMETZ => "time with time zone",
        Type::TIMESTAMP => "timestamp without time zone",
        Type::TIMESTAMPTZ => "timestamp with time zone",
        ref other => other.name(),
    };
    name.to_owned()
}

/// The digits that numerics without a value are planned with.
const NOMINAL: (u8, i8) = (38, 10);
/// A NULL has no digits. It must not widen what it is combined with.
const NULL: (u8, i8) = (1, 0);

fn digits(data_type: &DataType) -> (u8, i8) {
    match data_type {
        DataType::Decimal128(precision, scale) | DataType::Decimal256(precision, scale) => {
            (*precision, *scale)
        }
        DataType::List(element) => digits(element.data_type()),
        _ => NULL,
    }
}

fn sql_type(pg_type: &Type, (precision, scale): (u8, i8)) -> SqlType {
    if let Some(element) = element_of(pg_type) {
        let element = Box::new(sql_type(&element, (precision, scale)));
        return SqlType::Array(ArrayElemTypeDef::SquareBracket(element, None));
    }
    match *pg_type {
        Type::BOOL => SqlType::Boolean,
        Type::INT2 => SqlType::SmallInt(None),
        Type::INT4 => SqlType::Integer(None),
        // An oid is unsigned and has 32 bits.
        Type::INT8 | Type::OID => SqlType::BigInt(None),
        Type::FLOAT4 => SqlType::Real,
        Type::FLOAT8 => SqlType::DoublePrecision,
        Type::NUMERIC => SqlType::Numeric(ExactNumberInfo::PrecisionAndScale(
            precision.into(),
            scale.into(),
        )),
        Type::DATE => SqlType::Date,
        Type::TIME => SqlType::Time(None, TimezoneInfo::None),
        Type::TIMESTAMP => SqlType::Timestamp(Some(MICROSECONDS), TimezoneInfo::None),
        Type::TIMESTAMPTZ => SqlType::Timestamp(Some(MICROSECONDS), TimezoneInfo::WithTimeZone),
        Type::INTERVAL => SqlType::Interval {
            fields: None,
            precision: None,
        },
        Type::BYTEA => SqlType::Bytea,
        _ => SqlType::Text,
    }
}

const MICROSECONDS: u64 = 6;
