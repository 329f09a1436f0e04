//! Parses and writes values of `PostgreSQL` types that Arrow holds as text or bytes.

mod bytea;
mod json;
mod json_number;
mod json_path;
mod uuid;

pub(crate) use bytea::{bytea_from_text, decode, encode};
pub(crate) use json::{Json, Parts, quoted as json_quoted};
pub(crate) use json_path::{
    Arithmetic, Compare, Item as PathItem, JsonPath, LEVEL_LAST, Method, Sign, Step,
};
pub(crate) use uuid::{uuid_bytes, uuid_from_text, uuid_text};
