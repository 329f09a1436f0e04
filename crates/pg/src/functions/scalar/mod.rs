//! Scalar functions, written for one row: which arguments does a function take, what does it
//! return, and how does it treat NULLs?
//!
//! A function has several forms, because `PostgreSQL` overloads names. The first form that accepts
//! the given types is called; if there is none, the statement fails with 42883. A strict form
//! returns NULL for a NULL argument without being called.

mod column;
mod function;
mod untyped;
mod value;

pub(crate) use column::Row;
pub(crate) use function::{Body, Form, Function, TextBody};
pub(crate) use untyped::{of_any_digits, untyped_arrays};
pub(crate) use value::{Give, Value};

use datafusion::arrow::datatypes::{DataType, Field};

use crate::casts::PG_TYPE;
use crate::output::pg_type;

/// The type of an argument.
#[expect(
    dead_code,
    reason = "the enum is complete, although some variants are unused"
)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Take {
    Text,
    /// `smallint` to `bigint`.
    Int,
    Bytes,
    Bool,
    Float,
    /// `json` or `jsonb`, or a text that is parsed as one.
    Json,
    /// `jsonb`, or a text that is parsed as one.
    Jsonb,
    List,
    Any,
}

/// A field of a type that Arrow lacks: `json`, `jsonb`, `uuid`, `bpchar`, …
#[must_use]
pub fn typed_field(name: &str, data_type: DataType, pg_type: &str) -> Field {
    let metadata = [(PG_TYPE.to_owned(), pg_type.to_owned())];
    Field::new(name, data_type, true).with_metadata(metadata.into())
}

/// The type in a field's metadata, without its modifier.
#[must_use]
pub fn marked_type(field: &Field) -> Option<&str> {
    let named = field.metadata().get(PG_TYPE)?;
    named.split('(').next()
}

pub(crate) fn is_text(data_type: &DataType) -> bool {
    match data_type {
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => true,
        DataType::Dictionary(_, values) => is_text(values),
        _ => false,
    }
}

pub(crate) fn is_bytes(data_type: &DataType) -> bool {
    match data_type {
        DataType::Binary | DataType::LargeBinary | DataType::BinaryView => true,
        DataType::FixedSizeBinary(_) => true,
        DataType::Dictionary(_, values) => is_bytes(values),
        _ => false,
    }
}

/// `PostgreSQL`'s name for the type of a field in error messages.
pub(crate) fn type_name(field: &Field) -> String {
    let pg_type = pg_type(field);
    let name = pg_type.name();
    let (element, array) = match name.strip_prefix('_') {
        Some(element) => (element, "[]"),
        None => (name, ""),
    };
    let long = match element {
        "bool" => "boolean",
        "int2" => "smallint",
        "int4" => "integer",
        "int8" => "bigint",
        "float4" => "real",
        "float8" => "double precision",
        "timestamp" => "timestamp without time zone",
        "timestamptz" => "timestamp with time zone",
        "time" => "time without time zone",
        "varchar" => "character varying",
        "bpchar" => "character",
        other => other,
    };
    format!("{long}{array}")
}
