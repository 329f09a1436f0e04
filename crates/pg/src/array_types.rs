//! Which PostgreSQL array type belongs to an element type, and vice versa?

use postgres_types::Type;

/// The array type of an element type; `None` if it is not listed here.
#[must_use]
pub fn array_of(element: &Type) -> Option<Type> {
    ARRAYS
        .iter()
        .find(|(found, _)| found == element)
        .map(|(_, array)| array.clone())
}

/// The element type of an array type; `None` if it is not listed here.
#[must_use]
pub fn element_of(array: &Type) -> Option<Type> {
    ARRAYS
        .iter()
        .find(|(_, found)| found == array)
        .map(|(element, _)| element.clone())
}

const ARRAYS: &[(Type, Type)] = &[
    (Type::BOOL, Type::BOOL_ARRAY),
    (Type::INT2, Type::INT2_ARRAY),
    (Type::INT4, Type::INT4_ARRAY),
    (Type::INT8, Type::INT8_ARRAY),
    (Type::NUMERIC, Type::NUMERIC_ARRAY),
    (Type::FLOAT4, Type::FLOAT4_ARRAY),
    (Type::FLOAT8, Type::FLOAT8_ARRAY),
    (Type::DATE, Type::DATE_ARRAY),
    (Type::TIME, Type::TIME_ARRAY),
    (Type::TIMESTAMP, Type::TIMESTAMP_ARRAY),
    (Type::TIMESTAMPTZ, Type::TIMESTAMPTZ_ARRAY),
    (Type::INTERVAL, Type::INTERVAL_ARRAY),
    (Type::BYTEA, Type::BYTEA_ARRAY),
    (Type::TEXT, Type::TEXT_ARRAY),
    (Type::VARCHAR, Type::VARCHAR_ARRAY),
    (Type::BPCHAR, Type::BPCHAR_ARRAY),
    (Type::NAME, Type::NAME_ARRAY),
    (Type::OID, Type::OID_ARRAY),
    (Type::CHAR, Type::CHAR_ARRAY),
    (Type::UUID, Type::UUID_ARRAY),
    (Type::JSON, Type::JSON_ARRAY),
    (Type::JSONB, Type::JSONB_ARRAY),
    (Type::RECORD, Type::RECORD_ARRAY),
];
