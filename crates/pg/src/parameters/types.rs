//! The kind of a parameter: PostgreSQL's type, and for numerics the digits of the value at hand.

use datafusion::arrow::datatypes::DataType;
use datafusion::scalar::ScalarValue;
use datafusion::sql::sqlparser::ast::Expr;
use postgres_types::Type;

use crate::array_types::element_of;
use crate::casts::{CAST, Target};
use crate::dialect::ast::{call, text};

/// What a parameter is planned as. Two values of one kind fit the same plan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Kind(Target);

impl Kind {
    /// `expr` as an expression of this kind.
    pub(super) fn cast(&self, expr: Expr) -> Expr {
        call(CAST, vec![expr, text(&self.0.to_string())])
    }
}

/// A kind before there is a value: numerics have some digits, which the value's replace.
#[must_use]
pub fn nominal(pg_type: &Type) -> Kind {
    Kind(target(pg_type, NOMINAL))
}

/// The kinds of values of these types.
#[must_use]
pub fn kinds(types: &[Type], values: &[ScalarValue]) -> Vec<Kind> {
    let pairs = types.iter().zip(values);
    pairs
        .map(|(pg_type, value)| {
            let held = value.data_type();
            Kind(nested(target(pg_type, digits(&held)), &held))
        })
        .collect()
}

/// `expr` cast to a type without a modifier, as the dialect writes casts.
#[must_use]
pub fn cast_to(expr: Expr, pg_type: &Type) -> Expr {
    let target = match target(pg_type, NOMINAL) {
        Target::NumericOf(..) => Target::Numeric(None),
        other => other,
    };
    Kind(target).cast(expr)
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

/// A target with the dimensions of a value's array.
fn nested(target: Target, held: &DataType) -> Target {
    match (target, held) {
        (Target::Array(element), DataType::List(inner)) => {
            let element = match inner.data_type() {
                below @ DataType::List(_) => nested(Target::Array(element), below),
                _ => *element,
            };
            Target::Array(Box::new(element))
        }
        (target, _) => target,
    }
}

fn digits(data_type: &DataType) -> (u8, i8) {
    match data_type {
        DataType::Decimal128(precision, scale) | DataType::Decimal256(precision, scale) => {
            (*precision, *scale)
        }
        DataType::List(element) => digits(element.data_type()),
        _ => NULL,
    }
}

/// What a parameter is planned as while its type is looked for.
pub(super) fn open_target(pg_type: &Type) -> Target {
    target(pg_type, NOMINAL)
}

/// What values of a type are cast to; text for a type that Coscan does not have.
pub(super) fn target(pg_type: &Type, (precision, scale): (u8, i8)) -> Target {
    if let Some(element) = element_of(pg_type) {
        return Target::Array(Box::new(target(&element, (precision, scale))));
    }
    match *pg_type {
        Type::BOOL => Target::Bool,
        Type::INT2 => Target::Int2,
        Type::INT4 => Target::Int4,
        // An oid is unsigned and has 32 bits.
        Type::INT8 | Type::OID => Target::Int8,
        Type::FLOAT4 => Target::Float4,
        Type::FLOAT8 => Target::Float8,
        Type::NUMERIC => Target::NumericOf(precision, scale),
        Type::VARCHAR => Target::Varchar(None),
        Type::BPCHAR => Target::Bpchar(None),
        Type::NAME => Target::Name,
        Type::BYTEA => Target::Bytea,
        Type::DATE => Target::Date,
        Type::TIME => Target::Time(None),
        Type::TIMESTAMP => Target::Timestamp(None),
        Type::TIMESTAMPTZ => Target::Timestamptz(None),
        Type::INTERVAL => Target::Interval(None, None),
        Type::UUID => Target::Uuid,
        Type::JSON => Target::Json,
        Type::JSONB => Target::Jsonb,
        Type::JSONPATH => Target::JsonPath,
        _ => Target::Text,
    }
}
