//! The kind of a parameter: its PostgreSQL type, and for numerics the digits of the current value.

use datafusion::arrow::datatypes::DataType;
use datafusion::scalar::ScalarValue;
use datafusion::sql::sqlparser::ast::Expr;
use postgres_types::Type;

use crate::array_types::element_of;
use crate::casts::{CAST, Target};
use crate::dialect::ast::{call, text};

/// The type with which a parameter is planned. Values of the same kind fit the same plan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Kind(Target);

impl Kind {
    /// Casts `expr` to this kind.
    pub(super) fn cast(&self, expr: Expr) -> Expr {
        call(CAST, vec![expr, text(&self.0.to_string())])
    }

    pub(super) fn bigint() -> Self {
        Self(Target::Int8)
    }

    /// Whether values of this kind may have digits behind the point.
    pub(super) fn is_fractional(&self) -> bool {
        matches!(
            self.0,
            Target::Float4 | Target::Float8 | Target::Numeric(_) | Target::NumericOf(..)
        )
    }
}

/// The kind before there is a value: numerics have nominal digits, which the value replaces.
#[must_use]
pub fn nominal(pg_type: &Type) -> Kind {
    Kind(target(pg_type, NOMINAL))
}

/// The kinds of values with these types.
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

/// Casts `expr` to a type without a modifier, in the form of the dialect's casts.
#[must_use]
pub fn cast_to(expr: Expr, pg_type: &Type) -> Expr {
    let target = match target(pg_type, NOMINAL) {
        Target::NumericOf(..) => Target::Numeric(None),
        other => other,
    };
    Kind(target).cast(expr)
}

/// PostgreSQL's name of a type in error messages.
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

/// The precision and scale with which numerics without a value are planned.
const NOMINAL: (u8, i8) = (38, 10);
/// NULL has no digits, and must not widen the values with which it is combined.
const NULL: (u8, i8) = (1, 0);

/// A target with the number of dimensions of a value's array.
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

/// The type with which a parameter is planned while its type is inferred.
pub(super) fn open_target(pg_type: &Type) -> Target {
    target(pg_type, NOMINAL)
}

/// Whether a client may declare a parameter of this type.
pub(super) fn is_supported(pg_type: &Type) -> bool {
    match element_of(pg_type) {
        Some(element) => is_supported(&element),
        None => AS_TEXT.contains(pg_type) || target(pg_type, NOMINAL) != Target::Text,
    }
}

/// Types whose values are handled as the text that the client sends: bit strings, and the names of
/// objects that drivers look up in the catalog.
const AS_TEXT: &[Type] = &[
    Type::TEXT,
    Type::UNKNOWN,
    Type::CHAR,
    Type::CSTRING,
    Type::VOID,
    Type::XML,
    Type::BIT,
    Type::VARBIT,
    Type::REGCLASS,
    Type::REGTYPE,
    Type::REGPROC,
    Type::REGPROCEDURE,
    Type::REGOPER,
    Type::REGOPERATOR,
    Type::REGNAMESPACE,
    Type::REGROLE,
    Type::REGCOLLATION,
    Type::REGCONFIG,
    Type::REGDICTIONARY,
];

/// The cast target for values of a type; text for a type that Coscan lacks.
pub(super) fn target(pg_type: &Type, (precision, scale): (u8, i8)) -> Target {
    if let Some(element) = element_of(pg_type) {
        return Target::Array(Box::new(target(&element, (precision, scale))));
    }
    match *pg_type {
        Type::BOOL => Target::Bool,
        Type::INT2 => Target::Int2,
        Type::INT4 => Target::Int4,
        // An oid has 32 bits and is unsigned.
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
