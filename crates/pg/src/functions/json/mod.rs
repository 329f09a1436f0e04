//! `json` and `jsonb`: chapter 9.16 of `PostgreSQL`'s manual.

mod build;
mod change;
mod compare;
mod elements;
mod expand;
mod get;
mod key;
mod path;
mod record;
mod write;

pub(crate) use build::{COLLECT, ELEMENT, JOIN, PAIR, PAIRS};
pub(crate) use elements::jsonb_elements;
pub(crate) use key::{jsonb_extreme, jsonb_key, jsonb_keys};
pub(crate) use path::read as read_path;
pub(crate) use record::{ARRAY, MEMBER, MEMBERS, RAW, TEXT};

use datafusion::logical_expr::ScalarUDF;

pub(super) fn functions() -> Vec<ScalarUDF> {
    [
        build::functions(),
        change::functions(),
        compare::functions(),
        elements::functions(),
        expand::functions(),
        get::functions(),
        key::functions(),
        path::functions(),
        record::functions(),
    ]
    .into_iter()
    .flatten()
    .map(super::scalar::Function::udf)
    .collect()
}

/// The two types, which are part of the functions' names.
const TYPES: [&str; 2] = ["json", "jsonb"];

use super::arrays::text_elements;
use super::scalar::{Row, Value};
use crate::values::Json;
use datafusion::error::Result;

/// A path: an array of texts, or the text of such an array.
fn path(row: &Row<'_>, argument: usize) -> Result<Vec<Option<String>>> {
    text_elements(row, argument)
}

/// A text of the given type.
fn given(text: String, pg_type: &str) -> Result<Value> {
    Ok(Value::Text(match pg_type {
        "jsonb" => Json::parse(&text)?.normal().to_string(),
        _ => text,
    }))
}
