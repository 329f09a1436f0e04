//! The PostgreSQL type with which an Arrow field is announced.

use arrow_pg::datatypes::{PG_CHAR_KEY, PG_OID_ALIAS_KEY, pg_type_for_alias_kind};
use datafusion::arrow::datatypes::{DataType, Field};
use postgres_types::Type;

use crate::array_types::array_of;
use crate::casts::extension;
use crate::marked_type;
use crate::numbers::arithmetic::has_many_scales;

/// The type of a field. It is named in the field's metadata if the field is of `pg_catalog`, or if
/// Arrow lacks the type.
#[must_use]
pub fn pg_type(field: &Field) -> Type {
    if let Some(marked) = marked(field) {
        return marked;
    }
    match field.data_type() {
        DataType::Int32 => field
            .metadata()
            .get(PG_OID_ALIAS_KEY)
            .and_then(|kind| pg_type_for_alias_kind(kind))
            .unwrap_or(Type::INT4),
        DataType::Utf8 if field.metadata().contains_key(PG_CHAR_KEY) => Type::CHAR,
        DataType::Struct(_) => Type::RECORD,
        other => scalar_type(other)
            .or_else(|| list_type(other))
            .unwrap_or(Type::TEXT),
    }
}

/// The type in a field's metadata, if Arrow lacks it.
fn marked(field: &Field) -> Option<Type> {
    match extension(field) {
        Some("arrow.uuid") => return Some(Type::UUID),
        Some("arrow.json") => return Some(Type::JSON),
        _ => {}
    }
    Some(match marked_type(field)? {
        "json" => Type::JSON,
        "jsonb" => Type::JSONB,
        "jsonpath" => Type::JSONPATH,
        "uuid" => Type::UUID,
        "bpchar" => Type::BPCHAR,
        "varchar" => Type::VARCHAR,
        "name" => Type::NAME,
        "char" => Type::CHAR,
        _ => return None,
    })
}

/// `None` for nested types.
pub(crate) fn scalar_type(data_type: &DataType) -> Option<Type> {
    Some(match data_type {
        DataType::Boolean => Type::BOOL,
        DataType::Int8 | DataType::UInt8 | DataType::Int16 => Type::INT2,
        DataType::UInt16 | DataType::Int32 => Type::INT4,
        DataType::UInt32 | DataType::Int64 => Type::INT8,
        DataType::UInt64
        | DataType::Decimal32(..)
        | DataType::Decimal64(..)
        | DataType::Decimal128(..)
        | DataType::Decimal256(..) => Type::NUMERIC,
        DataType::Float16 | DataType::Float32 => Type::FLOAT4,
        DataType::Float64 => Type::FLOAT8,
        DataType::Date32 | DataType::Date64 => Type::DATE,
        DataType::Time32(_) | DataType::Time64(_) => Type::TIME,
        DataType::Timestamp(_, None) => Type::TIMESTAMP,
        DataType::Timestamp(_, Some(_)) => Type::TIMESTAMPTZ,
        DataType::Interval(_) | DataType::Duration(_) => Type::INTERVAL,
        // PostgreSQL also announces a bare NULL as text.
        DataType::Null | DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => Type::TEXT,
        DataType::Binary
        | DataType::LargeBinary
        | DataType::BinaryView
        | DataType::FixedSizeBinary(_) => Type::BYTEA,
        DataType::Dictionary(_, values) => return scalar_type(values),
        DataType::RunEndEncoded(_, values) => return scalar_type(values.data_type()),
        _ => return None,
    })
}

/// The array type of a list. A list of lists is an array of two dimensions, and a map is an array
/// of rows.
fn list_type(data_type: &DataType) -> Option<Type> {
    let element = match data_type {
        DataType::List(element) | DataType::LargeList(element) | DataType::Map(element, _) => {
            element
        }
        DataType::FixedSizeList(element, _) => element,
        _ => return None,
    };
    if let Some(array) = list_type(element.data_type()) {
        return Some(array);
    }
    Some(array_of(&pg_type(element)).unwrap_or(Type::TEXT_ARRAY))
}

/// `pg_type.typlen`: the width in bytes, or -1 if it varies.
#[must_use]
pub fn size(pg_type: &Type) -> i16 {
    match *pg_type {
        Type::BOOL | Type::CHAR => 1,
        Type::INT2 => 2,
        Type::INT4 | Type::FLOAT4 | Type::DATE | Type::OID => 4,
        Type::INT8 | Type::FLOAT8 | Type::TIME | Type::TIMESTAMP | Type::TIMESTAMPTZ => 8,
        Type::INTERVAL | Type::UUID => 16,
        Type::NAME => 64,
        _ => -1,
    }
}

/// `pg_attribute.atttypmod`: the precision and scale of a numeric, from which drivers take the
/// scale.
#[must_use]
pub fn modifier(data_type: &DataType) -> i32 {
    // Such a column has no declared scale.
    if has_many_scales(data_type) {
        return -1;
    }
    let (precision, scale) = match data_type {
        DataType::Decimal32(precision, scale)
        | DataType::Decimal64(precision, scale)
        | DataType::Decimal128(precision, scale)
        | DataType::Decimal256(precision, scale) => (*precision, *scale),
        DataType::Dictionary(_, values) => return modifier(values),
        _ => return -1,
    };
    if scale < 0 {
        -1
    } else {
        ((i32::from(precision) << 16) | i32::from(scale)) + 4
    }
}
