//! Translates the texts of DataFusion's and Arrow's errors to PostgreSQL's messages.

use super::types::said_cast;
use super::{PgError, planning};
use crate::resolve::is_type;

/// Whether the context of an error is only the name of a planner rule.
pub(super) fn names_a_rule(context: &str) -> bool {
    context.contains("rule '") || context == "type_coercion"
}

/// Translates a planning error.
pub(super) fn plan(text: &str) -> PgError {
    let text = first_line(text);
    if let Some(said) = planning::said(text) {
        return said;
    }
    let has = |part: &str| text.contains(part);
    let code = if has("does not exist") {
        // Messages of our own functions.
        if has("relation ") {
            "42P01"
        } else if has("schema ") {
            "3F000"
        } else if has("function ") || has("operator ") {
            "42883"
        } else {
            "42704"
        }
    } else if has("No function matches") {
        "42883"
    } else if has("already exists") {
        "42P07"
    } else if has("Cannot infer common") || has("Cannot coerce") || has("cannot be cast") {
        "42804"
    } else if has("Unsupported") {
        "0A000"
    } else if has("arguments but received") {
        "42883"
    } else {
        "42000"
    };
    PgError::new(code, text)
}

/// Translates an error about an unsupported feature.
pub(super) fn not_implemented(text: &str) -> PgError {
    let text = first_line(text);
    // sqlparser writes the types it knows in capitals, and the others as the client did.
    let is_plain = |name: &String| {
        name.bytes()
            .all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"_.".contains(&byte))
    };
    let unknown = text.strip_prefix("Unsupported SQL type ");
    let unknown = unknown.map(str::to_ascii_lowercase);
    if let Some(name) = unknown.filter(is_plain)
        && !name.rsplit('.').next().is_some_and(is_type)
    {
        return PgError::new("42704", format!("type \"{name}\" does not exist"));
    }
    PgError::unsupported(text)
}

/// Translates an error raised during execution.
pub(super) fn execution(text: &str) -> PgError {
    let text = first_line(text);
    let has = |part: &str| text.contains(part);
    if let Some(name) = text
        .strip_prefix("Table '")
        .and_then(|rest| rest.strip_suffix("' doesn't exist."))
    {
        return PgError::new("42P01", format!("table \"{name}\" does not exist"));
    }
    if has("more than one row") {
        let message = "more than one row returned by a subquery used as an expression";
        return PgError::new("21000", message);
    }
    let code = if has("already exists") {
        "42P07"
    } else if has("doesn't exist") || has("does not exist") {
        "42P01"
    } else if has("malformed array literal") {
        "22P02"
    } else if has("no valid cast exists") {
        // VALUES in an INSERT.
        "42804"
    } else {
        "22000"
    };
    PgError::new(code, text)
}

/// Translates an error of a cast or of a parser of values.
pub(super) fn cast(text: &str) -> PgError {
    let text = first_line(text);
    if let Some((value, rest)) = text
        .strip_prefix("Cannot cast string '")
        .and_then(|rest| rest.rsplit_once("' to value of "))
    {
        let name = rest.trim_end_matches(" type");
        return PgError::invalid_text(said_cast(name), value);
    }
    if let Some((_, name)) = text
        .strip_prefix("Can't cast value ")
        .and_then(|rest| rest.rsplit_once(" to type "))
    {
        return PgError::out_of_range(said_cast(name));
    }
    if text.contains("verflow") {
        return PgError::new("22003", text);
    }
    PgError::new("22P02", text)
}

/// Translates an arithmetic overflow: `Overflow happened on: 2147483647 + 1`.
pub(super) fn overflow(text: &str) -> PgError {
    let Some(result) = text.strip_prefix("Overflow happened on: ").and_then(result) else {
        return PgError::new("22003", first_line(text));
    };
    // The type is the widest one that the result overflows.
    PgError::out_of_range(match result {
        Some(result) if i32::try_from(result).is_ok() => "smallint",
        Some(result) if i64::try_from(result).is_ok() => "integer",
        Some(result) if result.unsigned_abs() <= BIGINT_PRODUCT_MAX => "bigint",
        _ => return PgError::new("22003", "value overflows numeric format"),
    })
}

/// The exact result of `a + b`, `a - b`, `a * b` or `- a`; the inner `None` if it exceeds 128
/// bits.
fn result(operation: &str) -> Option<Option<i128>> {
    let parts: Vec<&str> = operation.split(' ').collect();
    let number = |text: &str| text.parse::<i128>().ok();
    Some(match parts[..] {
        ["-", value] => number(value)?.checked_neg(),
        [left, "+", right] => number(left)?.checked_add(number(right)?),
        [left, "-", right] => number(left)?.checked_sub(number(right)?),
        [left, "*", right] => number(left)?.checked_mul(number(right)?),
        _ => return None,
    })
}

/// The largest absolute value of a product of two 64-bit integers.
const BIGINT_PRODUCT_MAX: u128 = 1 << 126;

/// The SQLSTATE of an error about a setting: `undefined_object` for an unknown name, or
/// `invalid_parameter_value` for an invalid value.
#[must_use]
pub fn configuration(text: &str) -> &'static str {
    let unknown = ["not found", "Could not find", "unrecognized"];
    if unknown.iter().any(|words| text.contains(words)) {
        "42704"
    } else {
        "22023"
    }
}

/// Whether a text is the operating system's message about a full disk.
pub(super) fn says_disk_full(text: &str) -> bool {
    text.contains("No space left on device") || text.contains("os error 28")
}

fn first_line(text: &str) -> &str {
    text.lines().next().unwrap_or(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn code_and_text(error: &PgError) -> (&str, &str) {
        (error.code(), error.message())
    }

    #[test]
    fn names_of_relations() {
        let error = plan("table 'datafusion.public.nowhere' not found");
        let expected = ("42P01", "relation \"nowhere\" does not exist");
        assert_eq!(code_and_text(&error), expected);
    }

    #[test]
    fn overflow_names_the_type() {
        for (text, message) in [
            ("32767 + 1", "smallint out of range"),
            ("2147483647 + 1", "integer out of range"),
            ("- -2147483648", "integer out of range"),
            ("9223372036854775807 * 2", "bigint out of range"),
        ] {
            let error = overflow(&format!("Overflow happened on: {text}"));
            assert_eq!(code_and_text(&error), ("22003", message), "{text}");
        }
    }

    #[test]
    fn unknown_functions_are_errors() {
        let error = plan("Invalid function 'foo'.\nDid you mean 'for'?");
        assert_eq!(
            code_and_text(&error),
            ("42883", "function foo does not exist")
        );
    }
}
