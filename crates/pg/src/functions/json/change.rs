//! Functions that change `jsonb` values: `||`, `-`, `#-`, `jsonb_set`, `jsonb_insert`; and the
//! normal form of their text.

use std::fmt::Write;

use datafusion::error::Result;

use super::compare::read;
use super::{TYPES, path};
use crate::PgError;
use crate::functions::scalar::Take::{Any, Bool, Int, Json as JsonText, Jsonb, Text};
use crate::functions::scalar::{Form, Function, Give, Row, Value};
use crate::values::{Json, Parts, json_quoted};

const JSONB: Give = Give::Marked("jsonb");

pub(super) fn functions() -> Vec<Function> {
    let mut all = vec![
        Function::new(
            "jsonb_concat",
            vec![Form::new(&[Jsonb, Jsonb], JSONB, |row| {
                shown(concatenated(read(row, 0)?, read(row, 1)?))
            })],
        ),
        Function::new(
            "jsonb_delete",
            vec![
                Form::new(&[Jsonb, Text], JSONB, |row| {
                    shown(without(read(row, 0)?, &[row.text(1)])?)
                }),
                Form::new(&[Jsonb, Int], JSONB, |row| {
                    shown(without_index(read(row, 0)?, row.int(1))?)
                }),
                Form::new(&[Jsonb, Any], JSONB, |row| {
                    let keys = path(row, 1)?;
                    let keys: Vec<&str> = keys.iter().flatten().map(String::as_str).collect();
                    shown(without(read(row, 0)?, &keys)?)
                }),
            ],
        ),
        Function::new(
            "jsonb_delete_path",
            vec![Form::new(&[Jsonb, Any], JSONB, |row| {
                changed(row, &Change::Delete)
            })],
        ),
        Function::new(
            "jsonb_set",
            vec![
                Form::new(&[Jsonb, Any, Jsonb, Bool], JSONB, |row| {
                    let create = row.len() < 4 || row.bool(3);
                    changed(row, &Change::Set(read(row, 2)?, create))
                })
                .optional(1),
            ],
        ),
        Function::new(
            "jsonb_set_lax",
            vec![
                Form::new(&[Jsonb, Any, Jsonb, Bool, Text], JSONB, set_lax)
                    .optional(2)
                    .called(),
            ],
        ),
        Function::new(
            "jsonb_insert",
            vec![
                Form::new(&[Jsonb, Any, Jsonb, Bool], JSONB, |row| {
                    changed(row, &Change::Insert(read(row, 2)?, row.bool(3)))
                })
                .optional(1),
            ],
        ),
        Function::new(
            "jsonb_pretty",
            vec![Form::new(&[JsonText], Give::Text, |row| {
                let mut out = String::new();
                pretty(&read(row, 0)?, 0, &mut out);
                Ok(Value::Text(out))
            })],
        ),
    ];
    for pg_type in TYPES {
        let form = if pg_type == "jsonb" {
            Form::new(&[JsonText], JSONB, |row| shown(stripped(read(row, 0)?)))
        } else {
            Form::new(&[JsonText], Give::Marked("json"), |row| {
                Ok(Value::Text(stripped_text(row.text(0))?))
            })
        };
        all.push(Function::new(&format!("{pg_type}_strip_nulls"), vec![form]));
    }
    all
}

fn shown(value: Json) -> Result<Value> {
    Ok(Value::Text(value.normal().to_string()))
}

fn wrong(message: &str) -> datafusion::error::DataFusionError {
    PgError::new("22023", message).into()
}

fn concatenated(left: Json, right: Json) -> Json {
    match (left, right) {
        (Json::Object(mut left), Json::Object(right)) => {
            left.extend(right);
            Json::Object(left)
        }
        (left, right) => {
            let list = |value| match value {
                Json::Array(elements) => elements,
                other => vec![other],
            };
            let mut all = list(left);
            all.extend(list(right));
            Json::Array(all)
        }
    }
}

fn without(value: Json, keys: &[&str]) -> Result<Json> {
    Ok(match value {
        Json::Object(mut members) => {
            members.retain(|(key, _)| !keys.contains(&key.as_str()));
            Json::Object(members)
        }
        Json::Array(mut elements) => {
            elements.retain(
                |element| !matches!(element, Json::Text(text) if keys.contains(&text.as_str())),
            );
            Json::Array(elements)
        }
        _ => return Err(wrong("cannot delete from scalar")),
    })
}

/// The position at an index; a negative index counts from the end.
fn place(index: i64, length: usize) -> Option<usize> {
    let length = i64::try_from(length).ok()?;
    let at = if index < 0 { index + length } else { index };
    usize::try_from(at).ok().filter(|_| at < length)
}

fn without_index(value: Json, index: i64) -> Result<Json> {
    match value {
        Json::Array(mut elements) => {
            if let Some(at) = place(index, elements.len()) {
                elements.remove(at);
            }
            Ok(Json::Array(elements))
        }
        Json::Object(_) => Err(wrong("cannot delete from object using integer index")),
        _ => Err(wrong("cannot delete from scalar")),
    }
}

/// The change at the end of a path.
enum Change {
    Delete,
    /// Sets a value; if true, also where there is none yet.
    Set(Json, bool),
    /// Inserts an element before the existing one, or after it if true.
    Insert(Json, bool),
}

fn changed(row: &Row<'_>, change: &Change) -> Result<Value> {
    let value = read(row, 0)?;
    let path = path(row, 1)?;
    if !matches!(value, Json::Array(_) | Json::Object(_)) {
        return Err(wrong(match change {
            Change::Delete => "cannot delete path in scalar",
            _ => "cannot set path in scalar",
        }));
    }
    let empty = match &value {
        Json::Array(elements) => elements.is_empty(),
        Json::Object(members) => members.is_empty(),
        _ => false,
    };
    let unchanged = empty && matches!(change, Change::Delete | Change::Set(_, false));
    if path.is_empty() || unchanged {
        return shown(value);
    }
    shown(at_path(value, &path, 0, change)?)
}

/// `jsonb_set_lax`, whose last argument determines the effect of a NULL as the new value.
fn set_lax(row: &Row<'_>) -> Result<Value> {
    let is_null = |at: usize| at < row.len() && row.is_null(at);
    if is_null(0) || is_null(1) || is_null(3) {
        return Ok(Value::Null);
    }
    if is_null(4) {
        let message = "null_value_treatment must be \"delete_key\", \"return_target\", \
                       \"use_json_null\", or \"raise_exception\"";
        return Err(wrong(message));
    }
    let create = row.len() < 4 || row.bool(3);
    if !row.is_null(2) {
        return changed(row, &Change::Set(read(row, 2)?, create));
    }
    match row.text_opt(4).unwrap_or("use_json_null") {
        "raise_exception" => Err(PgError::new("22004", "JSON value must not be null").into()),
        "use_json_null" => changed(row, &Change::Set(Json::Null, create)),
        "delete_key" => changed(row, &Change::Delete),
        "return_target" => shown(read(row, 0)?),
        _ => {
            let message = "null_value_treatment must be \"delete_key\", \"return_target\", \
                           \"use_json_null\", or \"raise_exception\"";
            Err(wrong(message))
        }
    }
}

fn at_path(value: Json, path: &[Option<String>], level: usize, change: &Change) -> Result<Json> {
    let Some(Some(step)) = path.get(level) else {
        let message = format!("path element at position {} is null", level + 1);
        return Err(PgError::new("22004", message).into());
    };
    let last = level + 1 == path.len();
    match value {
        Json::Object(mut members) => {
            let found = members.iter().position(|(key, _)| key == step);
            match (found, last, change) {
                (Some(at), false, _) => {
                    let (_, inner) = &mut members[at];
                    let old = std::mem::replace(inner, Json::Null);
                    *inner = at_path(old, path, level + 1, change)?;
                }
                (Some(at), true, Change::Delete) => {
                    members.remove(at);
                }
                (Some(at), true, Change::Set(new, _)) => members[at].1 = new.clone(),
                (Some(_), true, Change::Insert(..)) => {
                    return Err(wrong("cannot replace existing key"));
                }
                (None, true, Change::Set(new, true) | Change::Insert(new, _)) => {
                    members.push((step.clone(), new.clone()));
                }
                (None, ..) => {}
            }
            Ok(Json::Object(members))
        }
        Json::Array(elements) => in_array(elements, step, path, level, change),
        scalar => Ok(scalar),
    }
}

fn in_array(
    mut elements: Vec<Json>,
    step: &str,
    path: &[Option<String>],
    level: usize,
    change: &Change,
) -> Result<Json> {
    let index: i32 = step.trim_start().parse().map_err(|_| {
        let message = format!(
            "path element at position {} is not an integer: \"{step}\"",
            level + 1
        );
        PgError::new("22P02", message)
    })?;
    let index = i64::from(index);
    let last = level + 1 == path.len();
    match (place(index, elements.len()), last, change) {
        (Some(at), false, _) => {
            let old = std::mem::replace(&mut elements[at], Json::Null);
            elements[at] = at_path(old, path, level + 1, change)?;
        }
        (Some(at), true, Change::Delete) => {
            elements.remove(at);
        }
        (Some(at), true, Change::Set(new, _)) => elements[at] = new.clone(),
        (Some(at), true, Change::Insert(new, after)) => {
            elements.insert(at + usize::from(*after), new.clone());
        }
        (None, true, Change::Set(new, true) | Change::Insert(new, _)) => {
            let at = if index < 0 { 0 } else { elements.len() };
            elements.insert(at, new.clone());
        }
        (None, ..) => {}
    }
    Ok(Json::Array(elements))
}

fn stripped(value: Json) -> Json {
    match value {
        Json::Object(members) => {
            let kept = members
                .into_iter()
                .filter(|(_, value)| *value != Json::Null);
            Json::Object(kept.map(|(key, value)| (key, stripped(value))).collect())
        }
        Json::Array(elements) => Json::Array(elements.into_iter().map(stripped).collect()),
        other => other,
    }
}

fn stripped_text(text: &str) -> Result<String> {
    Ok(match Json::parts(text)? {
        Parts::Object(members) => {
            let kept = members.into_iter().filter(|(_, value)| value != "null");
            let kept = kept.map(|(key, value)| {
                Ok(format!("{}:{}", json_quoted(&key), stripped_text(&value)?))
            });
            format!("{{{}}}", kept.collect::<Result<Vec<_>>>()?.join(","))
        }
        Parts::Array(elements) => {
            let elements = elements.iter().map(|element| stripped_text(element));
            format!("[{}]", elements.collect::<Result<Vec<_>>>()?.join(","))
        }
        Parts::Scalar(_) => text.trim().to_owned(),
    })
}

fn pretty(value: &Json, depth: usize, out: &mut String) {
    let indent = |depth: usize| " ".repeat(4 * depth);
    match value {
        Json::Object(members) => {
            out.push('{');
            for (at, (key, value)) in members.iter().enumerate() {
                out.push_str(if at > 0 { ",\n" } else { "\n" });
                let _ = write!(out, "{}{}: ", indent(depth + 1), json_quoted(key));
                pretty(value, depth + 1, out);
            }
            let _ = write!(out, "\n{}}}", indent(depth));
        }
        Json::Array(elements) => {
            out.push('[');
            for (at, element) in elements.iter().enumerate() {
                out.push_str(if at > 0 { ",\n" } else { "\n" });
                out.push_str(&indent(depth + 1));
                pretty(element, depth + 1, out);
            }
            let _ = write!(out, "\n{}]", indent(depth));
        }
        scalar => {
            let _ = write!(out, "{scalar}");
        }
    }
}
