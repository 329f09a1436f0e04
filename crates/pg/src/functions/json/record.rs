//! The members of JSON objects as columns: `json_to_record`, `json_to_recordset`.
//!
//! The dialect calls `json_member(value, name, kind)` for each column and casts the result; the
//! kind determines how the member is written for the column's type.

use datafusion::error::{DataFusionError, Result};

use super::TYPES;
use super::get::unquoted;
use crate::PgError;
use crate::functions::scalar::Take::{Json as JsonText, Jsonb, Text};
use crate::functions::scalar::{Body, Form, Function, Give, Row, Take, Value};
use crate::values::{Json, Parts};

/// The suffix of `jsonb_member(object, name, kind)`, after the type's name.
pub(crate) const MEMBER: &str = "_member";
/// The suffix of the function that returns a member of each object in an array.
pub(crate) const MEMBERS: &str = "_members";
/// The JSON text of a member.
pub(crate) const RAW: &str = "raw";
/// A member as the text of an array, `{…}`.
pub(crate) const ARRAY: &str = "array";
/// A member as text; a string without quotes.
pub(crate) const TEXT: &str = "text";

pub(super) fn functions() -> Vec<Function> {
    let mut all = vec![];
    for pg_type in TYPES {
        let takes: &[Take] = if pg_type == "jsonb" {
            &[Jsonb, Text, Text]
        } else {
            &[JsonText, Text, Text]
        };
        let mut add = |name: &str, gives, body: Body| {
            let form = Form::new(takes, gives, body);
            all.push(Function::new(&format!("{pg_type}{name}"), vec![form]));
        };
        add(MEMBER, Give::Text, |row| {
            let kind = match Json::parts(row.text(0))? {
                Parts::Object(members) => return Ok(member(members, row)?.into()),
                Parts::Array(_) => "an array",
                Parts::Scalar(_) => "a scalar",
            };
            Err(wrong(format!("cannot call populate_composite on {kind}")))
        });
        add(MEMBERS, Give::Texts, |row| {
            let found = elements(row)?
                .into_iter()
                .map(|members| member(members, row));
            Ok(Value::Texts(found.collect::<Result<_>>()?))
        });
    }
    all
}

fn wrong(message: String) -> DataFusionError {
    PgError::new("22023", message).into()
}

type Members = Vec<(String, String)>;

fn elements(row: &Row<'_>) -> Result<Vec<Members>> {
    let pg_type = row.function().trim_end_matches(MEMBERS);
    let function = format!("{pg_type}_to_recordset");
    let kind = match Json::parts(row.text(0))? {
        Parts::Array(elements) => {
            let objects = elements.iter().map(|element| match Json::parts(element)? {
                Parts::Object(members) => Ok(members),
                _ => {
                    let message = format!("argument of {function} must be an array of objects");
                    Err(wrong(message))
                }
            });
            return objects.collect();
        }
        _ if pg_type == "jsonb" => "a non-array",
        Parts::Object(_) => "an object",
        Parts::Scalar(_) => "a scalar",
    };
    Err(wrong(format!("cannot call {function} on {kind}")))
}

/// The last member with the name.
fn member(members: Members, row: &Row<'_>) -> Result<Option<String>> {
    let mut members = members.into_iter().rev();
    let found = members.find(|(key, _)| key == row.text(1));
    let Some((_, value)) = found.filter(|(_, value)| value != "null") else {
        return Ok(None);
    };
    match row.text(2) {
        RAW => Ok(Some(value)),
        ARRAY => Ok(Some(array(&value)?)),
        _ => unquoted(&value),
    }
}

/// The text of an array, `{…}`, with quoted elements.
fn array(value: &str) -> Result<String> {
    match Json::parts(value)? {
        Parts::Array(elements) => {
            let elements = elements.iter().map(|element| match Json::parts(element)? {
                Parts::Array(_) => array(element),
                _ => Ok(match unquoted(element)? {
                    Some(text) => quoted(&text),
                    None => "NULL".to_owned(),
                }),
            });
            let elements = elements.collect::<Result<Vec<_>>>()?;
            Ok(format!("{{{}}}", elements.join(",")))
        }
        Parts::Scalar(Json::Text(text)) => Ok(text),
        _ => Err(PgError::new("22P02", "expected JSON array").into()),
    }
}

fn quoted(text: &str) -> String {
    let escaped = text.replace('\\', "\\\\").replace('"', "\\\"");
    format!("\"{escaped}\"")
}
