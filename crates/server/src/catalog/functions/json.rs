//! `json_build_object` and `json_build_array`, as text.

use std::fmt::Write;

use datafusion::error::{DataFusionError, Result};
use datafusion::scalar::ScalarValue;

use super::Take::Any;
use super::function::{Function, Give, Optional, text};

pub(super) fn functions() -> Vec<Function> {
    let object = |name| {
        Function::new(name, &[Any], Give::Text, |row| {
            if !row.len().is_multiple_of(2) {
                let message = "argument list must have even number of elements";
                return Err(DataFusionError::Plan(message.to_owned()));
            }
            let mut out = String::from("{");
            for pair in (0..row.len()).step_by(2) {
                let key = row.value(pair)?;
                if key.is_null() {
                    let message = format!("null value not allowed for object key {}", pair + 1);
                    return Err(DataFusionError::Execution(message));
                }
                let comma = if pair == 0 { "" } else { ", " };
                let _ = write!(
                    out,
                    "{comma}{} : {}",
                    quoted(&shown(&key)?),
                    value(&row.value(pair + 1)?)?
                );
            }
            out.push('}');
            Ok(text(Some(out)))
        })
        .optional(Optional::Repeated)
    };
    let array = |name| {
        Function::new(name, &[Any], Give::Text, |row| {
            let values = (0..row.len())
                .map(|index| value(&row.value(index)?))
                .collect::<Result<Vec<_>>>()?;
            Ok(text(Some(format!("[{}]", values.join(", ")))))
        })
        .optional(Optional::Repeated)
    };
    vec![
        object("json_build_object"),
        object("jsonb_build_object"),
        array("json_build_array"),
        array("jsonb_build_array"),
    ]
}

/// A value as JSON: numbers and truth values are themselves, lists are arrays, the rest is text.
fn value(scalar: &ScalarValue) -> Result<String> {
    if scalar.is_null() {
        return Ok("null".to_owned());
    }
    if let ScalarValue::List(list) = scalar {
        let elements = list.value(0);
        let elements = (0..elements.len())
            .map(|index| value(&ScalarValue::try_from_array(&elements, index)?))
            .collect::<Result<Vec<_>>>()?;
        return Ok(format!("[{}]", elements.join(", ")));
    }
    let data_type = scalar.data_type();
    let shown = shown(scalar)?;
    let finite = shown.starts_with(|c: char| c == '-' || c.is_ascii_digit())
        && !shown.to_lowercase().contains("inf");
    let bare = data_type == datafusion::arrow::datatypes::DataType::Boolean
        || data_type.is_numeric() && finite;
    Ok(if bare { shown } else { quoted(&shown) })
}

fn shown(scalar: &ScalarValue) -> Result<String> {
    let array = scalar.to_array()?;
    Ok(datafusion::arrow::util::display::array_value_to_string(
        &array, 0,
    )?)
}

fn quoted(text: &str) -> String {
    let mut out = String::from("\"");
    for character in text.chars() {
        match character {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            other if u32::from(other) < 0x20 => {
                let _ = write!(out, "\\u{:04x}", u32::from(other));
            }
            other => out.push(other),
        }
    }
    out.push('"');
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values() {
        for (scalar, json) in [
            (ScalarValue::from(1_i32), "1"),
            (ScalarValue::from(-1.5_f64), "-1.5"),
            (ScalarValue::from(f64::NAN), "\"NaN\""),
            (ScalarValue::from(true), "true"),
            (ScalarValue::from("a\"\n"), "\"a\\\"\\n\""),
            (ScalarValue::Utf8(None), "null"),
        ] {
            assert_eq!(value(&scalar).unwrap(), json);
        }
    }
}
