//! A JSON value as rows: each of these gives an array, which the dialect unnests.

use datafusion::error::Result;

use super::TYPES;
use super::get::unquoted;
use crate::PgError;
use crate::functions::scalar::Take::Json as JsonText;
use crate::functions::scalar::{Form, Function, Give, Value};
use crate::values::{Json, Parts};

pub(super) fn functions() -> Vec<Function> {
    let mut all = vec![];
    for pg_type in TYPES {
        let mut add = |name: &str, gives, body| {
            let name = format!("{}_array", name.replace("json", pg_type));
            all.push(Function::new(
                &name,
                vec![Form::new(&[JsonText], gives, body)],
            ));
        };
        add("json_each", Give::Pairs(pg_type), |row| {
            let members = members(row.text(0))?.into_iter();
            Ok(Value::Pairs(
                members.map(|(key, value)| (key, Some(value))).collect(),
            ))
        });
        add("json_each_text", Give::Pairs("text"), |row| {
            let members = members(row.text(0))?.into_iter();
            let members = members.map(|(key, value)| Ok((key, unquoted(&value)?)));
            Ok(Value::Pairs(members.collect::<Result<_>>()?))
        });
        add("json_array_elements", Give::Marks(pg_type), |row| {
            Ok(Value::Texts(
                elements(row.text(0))?.into_iter().map(Some).collect(),
            ))
        });
        add("json_array_elements_text", Give::Texts, |row| {
            let elements = elements(row.text(0))?;
            let elements = elements.iter().map(|element| unquoted(element));
            Ok(Value::Texts(elements.collect::<Result<_>>()?))
        });
        add("json_object_keys", Give::Texts, |row| {
            let message = match Json::parts(row.text(0))? {
                Parts::Object(members) => {
                    let keys = members.into_iter().map(|(key, _)| Some(key));
                    return Ok(Value::Texts(keys.collect()));
                }
                Parts::Array(_) => "cannot call json_object_keys on an array",
                Parts::Scalar(_) => "cannot call json_object_keys on a scalar",
            };
            Err(PgError::new("22023", message).into())
        });
    }
    all
}

fn members(text: &str) -> Result<Vec<(String, String)>> {
    let message = match Json::parts(text)? {
        Parts::Object(members) => return Ok(members),
        Parts::Array(_) => "cannot deconstruct an array as an object",
        Parts::Scalar(_) => "cannot deconstruct a scalar",
    };
    Err(PgError::new("22023", message).into())
}

fn elements(text: &str) -> Result<Vec<String>> {
    let message = match Json::parts(text)? {
        Parts::Array(elements) => return Ok(elements),
        Parts::Object(_) => "cannot extract elements from an object",
        Parts::Scalar(_) => "cannot extract elements from a scalar",
    };
    Err(PgError::new("22023", message).into())
}
