//! The order of `jsonb`, by keys that sort like the values.
//!
//! `pg_jsonb_key(j)` computes such a key, or for an array the array of keys. Operations that
//! compare, group, sort or join values use the keys (`comparisons/sort_keys.rs`).
//!
//! A key begins with the kind of the whole value, since an empty array is less than a scalar and a
//! scalar less than any other array. Each part begins with its kind: null, string, number,
//! boolean, array, object. Numbers are written as sign, exponent and digits; arrays and objects
//! begin with their length. (Keys are texts because DataFusion does not support windows over
//! bytes.)

use std::cmp::Ordering;
use std::fmt::Write;
use std::sync::{Arc, LazyLock};

use datafusion::arrow::array::{Array, ArrayRef, AsArray, StringArray};
use datafusion::arrow::datatypes::DataType;
use datafusion::error::Result;
use datafusion::logical_expr::{Expr, ScalarUDF};
use datafusion::scalar::ScalarValue;

use crate::PgError;
use crate::functions::scalar::Take::{Jsonb, List};
use crate::functions::scalar::{Form, Function, Give, Row, Value};
use crate::values::Json;

const KEY: &str = "pg_jsonb_key";
const GREATEST: &str = "pg_jsonb_greatest";
const LEAST: &str = "pg_jsonb_least";

static KEY_UDF: LazyLock<Arc<ScalarUDF>> = LazyLock::new(|| Arc::new(key_function().udf()));
static GREATEST_UDF: LazyLock<Arc<ScalarUDF>> = LazyLock::new(|| Arc::new(greatest().udf()));
static LEAST_UDF: LazyLock<Arc<ScalarUDF>> = LazyLock::new(|| Arc::new(least().udf()));

/// The key of a value. An untyped NULL stays: the function would take it for an array.
pub(crate) fn jsonb_key(value: Expr) -> Expr {
    if matches!(value, Expr::Literal(ScalarValue::Null, _)) {
        return value;
    }
    KEY_UDF.call(vec![value])
}

/// The keys of a column of values.
pub(crate) fn jsonb_keys(values: &StringArray) -> Result<ArrayRef> {
    let keys = values.iter().map(|text| text.map(key).transpose());
    let keys = keys.collect::<Result<StringArray, PgError>>()?;
    Ok(Arc::new(keys))
}

/// `greatest(…)` or `least(…)` of values.
pub(crate) fn jsonb_extreme(is_greatest: bool, values: Vec<Expr>) -> Expr {
    let extreme = if is_greatest {
        &GREATEST_UDF
    } else {
        &LEAST_UDF
    };
    extreme.call(values)
}

pub(super) fn functions() -> Vec<Function> {
    vec![key_function(), greatest(), least()]
}

fn greatest() -> Function {
    let form = Form::new(&[Jsonb], Give::Marked("jsonb"), |row| {
        extreme_of(row, Ordering::Greater)
    });
    Function::new(GREATEST, vec![form.repeated().called()])
}

fn least() -> Function {
    let form = Form::new(&[Jsonb], Give::Marked("jsonb"), |row| {
        extreme_of(row, Ordering::Less)
    });
    Function::new(LEAST, vec![form.repeated().called()])
}

fn key_function() -> Function {
    Function::new(
        KEY,
        vec![
            Form::new(&[List], Give::Texts, keys),
            Form::new(&[Jsonb], Give::Text, |row| {
                Ok(Value::Text(key(row.text(0))?))
            }),
        ],
    )
}

/// The elements of an array of texts, the first argument.
pub(super) fn texts(row: &Row<'_>) -> Result<Vec<Option<String>>> {
    let (array, at) = row.array(0);
    let Some(list) = array.as_list_opt::<i32>() else {
        return Ok(vec![]);
    };
    let elements = list.value(at);
    Ok(match elements.data_type() {
        DataType::Utf8 => {
            let texts = elements.as_string::<i32>().iter();
            texts.map(|text| text.map(str::to_owned)).collect()
        }
        DataType::Utf8View => {
            let texts = elements.as_string_view().iter();
            texts.map(|text| text.map(str::to_owned)).collect()
        }
        DataType::Null => vec![None; elements.len()],
        _ => {
            let message = "arrays of jsonb of several dimensions are not compared";
            return Err(PgError::unsupported(message).into());
        }
    })
}

fn keys(row: &Row<'_>) -> Result<Value> {
    let keys = texts(row)?.into_iter();
    let keys = keys.map(|text| text.as_deref().map(key).transpose());
    Ok(Value::Texts(keys.collect::<Result<_, _>>()?))
}

/// `greatest` or `least` of the arguments that are not NULL.
fn extreme_of(row: &Row<'_>, wanted: Ordering) -> Result<Value> {
    let mut best: Option<(String, &str)> = None;
    for text in (0..row.len()).filter_map(|at| row.text_opt(at)) {
        let key = key(text)?;
        if best
            .as_ref()
            .is_none_or(|(known, _)| key.cmp(known) == wanted)
        {
            best = Some((key, text));
        }
    }
    Ok(best.map(|(_, text)| text.to_owned()).into())
}

/// The key of a `jsonb`.
pub(super) fn key(text: &str) -> Result<String, PgError> {
    let value = Json::parse(text)?.normal();
    let mut out = String::from(match &value {
        Json::Array(elements) if elements.is_empty() => 'a',
        Json::Array(_) => 'c',
        Json::Object(_) | Json::Raw(_) => 'd',
        _ => 'b',
    });
    write(&value, &mut out);
    Ok(out)
}

fn write(value: &Json, out: &mut String) {
    match value {
        Json::Null => out.push('0'),
        Json::Text(text) => {
            out.push('1');
            write_text(text, out);
        }
        Json::Number(number) => {
            out.push('2');
            write_number(number, out);
        }
        Json::Bool(value) => out.push_str(if *value { "3t" } else { "3f" }),
        Json::Array(elements) => {
            out.push('4');
            write_length(elements.len(), out);
            for element in elements {
                write(element, out);
            }
        }
        Json::Object(members) => {
            out.push('5');
            write_length(members.len(), out);
            for (key, value) in members {
                write_text(key, out);
                write(value, out);
            }
        }
        Json::Raw(text) => write_text(text, out),
    }
}

/// A zero byte ends the text: a `jsonb` contains none.
fn write_text(text: &str, out: &mut String) {
    out.push_str(text);
    out.push('\0');
}

fn write_length(length: usize, out: &mut String) {
    let _ = write!(out, "{length:08x}");
}

/// Writes a number, which has no exponent.
fn write_number(number: &str, out: &mut String) {
    let (is_negative, plain) = match number.strip_prefix('-') {
        Some(plain) => (true, plain),
        None => (false, number),
    };
    let (whole, fraction) = plain.split_once('.').unwrap_or((plain, ""));
    let digits = [whole, fraction].concat();
    let trimmed = digits.trim_start_matches('0');
    if trimmed.is_empty() {
        out.push('1');
        return;
    }
    // The number of digits before the point; negative for small fractions.
    let leading = digits.len() - trimmed.len();
    let exponent =
        i64::try_from(whole.len()).unwrap_or(i64::MAX) - i64::try_from(leading).unwrap_or(i64::MAX);
    let places = exponent.cast_unsigned() ^ (1 << 63);
    let size = format!("{places:016x}{}\0", trimmed.trim_end_matches('0'));
    if is_negative {
        out.push('0');
        let opposite = |byte: u8| char::from(i8::MAX.cast_unsigned() - byte);
        out.extend(size.bytes().map(opposite));
    } else {
        out.push('2');
        out.push_str(&size);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_sort_like_values() {
        let ascending = [
            "[]",
            "null",
            "\"\"",
            "\"a\"",
            "\"ab\"",
            "\"b\"",
            "-100",
            "-99.99",
            "-0.01",
            "0",
            "0.001",
            "0.01",
            "1",
            "1.5",
            "9",
            "10",
            "1e30",
            "false",
            "true",
            "[null]",
            "[1]",
            "[[]]",
            "[{}]",
            "[1, 2]",
            "{}",
            "{\"a\": 1}",
            "{\"a\": []}",
            "{\"aa\": 0}",
            "{\"b\": 0}",
            "{\"a\": 1, \"b\": 1}",
        ];
        for pair in ascending.windows(2) {
            assert!(key(pair[0]).unwrap() < key(pair[1]).unwrap(), "{pair:?}");
        }
        for (left, right) in [
            ("1", "1.0"),
            ("{\"b\":1,\"a\":2}", "{\"a\":2.0,\"b\":1}"),
            ("-0", "0"),
        ] {
            assert_eq!(key(left).unwrap(), key(right).unwrap());
        }
    }
}
