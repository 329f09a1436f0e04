//! JSON values as rows: each function returns an array, which the dialect unnests.

use datafusion::error::{DataFusionError, Result};

use super::TYPES;
use super::get::unquoted;
use crate::PgError;
use crate::functions::scalar::{Form, Function, Give, Row, Take, Value};
use crate::values::{Json, Parts};

pub(super) fn functions() -> Vec<Function> {
    let mut all = vec![];
    for pg_type in TYPES {
        let mut add = |name: &str, gives, body| {
            let name = format!("{}_array", name.replace("json", pg_type));
            let takes: &[Take] = if pg_type == "jsonb" {
                &[Take::Jsonb]
            } else {
                &[Take::Json]
            };
            all.push(Function::new(&name, vec![Form::new(takes, gives, body)]));
        };
        add("json_each", Give::Pairs(pg_type), |row| {
            let members = members(row)?.into_iter();
            Ok(Value::Pairs(
                members.map(|(key, value)| (key, Some(value))).collect(),
            ))
        });
        add("json_each_text", Give::Pairs("text"), |row| {
            let members = members(row)?.into_iter();
            let members = members.map(|(key, value)| Ok((key, unquoted(&value)?)));
            Ok(Value::Pairs(members.collect::<Result<_>>()?))
        });
        // In FROM, the key and the value are separate columns.
        for each in ["json_each", "json_each_text"] {
            add(&format!("{each}_key_column"), Give::Texts, |row| {
                let members = members(row)?.into_iter();
                Ok(Value::Texts(members.map(|(key, _)| Some(key)).collect()))
            });
        }
        add("json_each_value_column", Give::Marks(pg_type), |row| {
            let members = members(row)?.into_iter();
            Ok(Value::Texts(
                members.map(|(_, value)| Some(value)).collect(),
            ))
        });
        add("json_each_text_value_column", Give::Texts, |row| {
            let members = members(row)?.into_iter();
            let values = members.map(|(_, value)| unquoted(&value));
            Ok(Value::Texts(values.collect::<Result<_>>()?))
        });
        add("json_array_elements", Give::Marks(pg_type), |row| {
            Ok(Value::Texts(elements(row)?.into_iter().map(Some).collect()))
        });
        add("json_array_elements_text", Give::Texts, |row| {
            let elements = elements(row)?;
            let elements = elements.iter().map(|element| unquoted(element));
            Ok(Value::Texts(elements.collect::<Result<_>>()?))
        });
        add("json_object_keys", Give::Texts, |row| {
            let kind = match Json::parts(row.text(0))? {
                Parts::Object(members) => {
                    let keys = members.into_iter().map(|(key, _)| Some(key));
                    return Ok(Value::Texts(keys.collect()));
                }
                Parts::Array(_) => "an array",
                Parts::Scalar(_) => "a scalar",
            };
            Err(refused(row, kind))
        });
    }
    all
}

fn refused(row: &Row<'_>, kind: &str) -> DataFusionError {
    let function = row.function().trim_end_matches("_array");
    let function = function.trim_end_matches("_key_column");
    let function = function.trim_end_matches("_value_column");
    PgError::new("22023", format!("cannot call {function} on {kind}")).into()
}

fn members(row: &Row<'_>) -> Result<Vec<(String, String)>> {
    let found = Json::parts(row.text(0))?;
    let message = match found {
        Parts::Object(members) => return Ok(members),
        _ if row.function().starts_with("jsonb") => return Err(refused(row, "a non-object")),
        Parts::Array(_) => "cannot deconstruct an array as an object",
        Parts::Scalar(_) => "cannot deconstruct a scalar",
    };
    Err(PgError::new("22023", message).into())
}

fn elements(row: &Row<'_>) -> Result<Vec<String>> {
    let binary = row.function().starts_with("jsonb");
    let message = match Json::parts(row.text(0))? {
        Parts::Array(elements) => return Ok(elements),
        Parts::Object(_) if binary => "cannot extract elements from an object",
        Parts::Scalar(_) if binary => "cannot extract elements from a scalar",
        Parts::Object(_) => return Err(refused(row, "a non-array")),
        Parts::Scalar(_) => return Err(refused(row, "a scalar")),
    };
    Err(PgError::new("22023", message).into())
}
