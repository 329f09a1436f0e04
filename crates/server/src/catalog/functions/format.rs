//! `format()`: text with places for values, `%[position$][-][width]type` each. Types are `s` (a
//! value), `I` (an identifier), `L` (a literal); `%%` is a percent sign.
//!
//! G1 (`growing.rs`) holds without a check of the memory: a place writes its value as it is, or at
//! most twice as long in quotes, pads it within [`PADDING_MAX`], and repeats values within
//! [`REPEATED_MAX`].

use std::collections::HashSet;
use std::iter::Peekable;
use std::str::Chars;

use bytes::BytesMut;
use datafusion::error::{DataFusionError, Result};
use datafusion::scalar::ScalarValue;
use datafusion::sql::sqlparser::keywords::{
    ALL_KEYWORDS, ALL_KEYWORDS_INDEX, RESERVED_FOR_COLUMN_ALIAS, RESERVED_FOR_TABLE_ALIAS,
};

use super::Take::{Any, Text};
use super::function::{Function, Give, Optional, quoted, text};
use super::quote_literal;
use coscan_pg::output::cell_writer;

/// The most blanks that all places of one text pad with together.
const PADDING_MAX: usize = 1 << 10;

/// The most bytes that all places of one text write of values that a place before has written.
const REPEATED_MAX: usize = 4 << 10;

pub(super) fn functions() -> Vec<Function> {
    let format = Function::new("format", &[Text, Any], Give::Text, |row| {
        let Some(template) = row.text(0) else {
            return Ok(text(None::<String>));
        };
        let value = |at| {
            if at < row.len() {
                row.value(at)
            } else {
                Err(wrong("too few arguments for format()"))
            }
        };
        Ok(text(Some(formatted(template, value)?)))
    });
    vec![format.optional(Optional::Repeated)]
}

/// A place for a value.
struct Place {
    /// The number of the argument, from 1; `None` for the next one.
    position: Option<usize>,
    to_the_left: bool,
    width: Width,
    kind: char,
}

enum Width {
    None,
    Given(usize),
    /// An argument gives the width: the one of this number, or the next one.
    Argument(Option<usize>),
}

fn formatted(template: &str, value: impl Fn(usize) -> Result<ScalarValue>) -> Result<String> {
    let mut out = String::with_capacity(template.len());
    let (mut next, mut padding, mut repeated) = (1, 0, 0);
    let mut seen = HashSet::new();
    let mut rest = template.chars().peekable();
    while let Some(character) = rest.next() {
        if character != '%' || rest.next_if_eq(&'%').is_some() {
            out.push(character);
            continue;
        }
        let place = place(&mut rest)?;
        let (mut width, mut to_the_left) = (0, place.to_the_left);
        match place.width {
            Width::None => {}
            Width::Given(given) => width = given,
            Width::Argument(position) => {
                let at = position.unwrap_or(next);
                next = at + 1;
                let asked = shown(&value(at)?)?.unwrap_or_default();
                let asked: i64 = match asked.as_str() {
                    "" => 0,
                    digits => digits.parse().map_err(|_| wrong("a width is an integer"))?,
                };
                to_the_left |= asked < 0;
                width = usize::try_from(asked.unsigned_abs()).unwrap_or(usize::MAX);
            }
        }
        let at = place.position.unwrap_or(next);
        next = at + 1;
        let shown = written(place.kind, shown(&value(at)?)?)?;
        if !seen.insert(at) {
            repeated += shown.len();
            if repeated > REPEATED_MAX {
                let message = format!("format() repeats at most {REPEATED_MAX} bytes");
                return Err(wrong(&message));
            }
        }
        let blanks = width.saturating_sub(shown.chars().count());
        padding += blanks.min(PADDING_MAX + 1);
        if padding > PADDING_MAX {
            let message = format!("format() pads with at most {PADDING_MAX} blanks");
            return Err(wrong(&message));
        }
        let blanks = " ".repeat(blanks);
        let (before, after) = if to_the_left {
            ("", blanks.as_str())
        } else {
            (blanks.as_str(), "")
        };
        out.extend([before, &shown, after]);
    }
    Ok(out)
}

/// Reads a place, from behind its percent sign.
fn place(rest: &mut Peekable<Chars<'_>>) -> Result<Place> {
    let mut place = Place {
        position: None,
        to_the_left: false,
        width: Width::None,
        kind: ' ',
    };
    let first = number(rest)?;
    if first.is_some() && rest.next_if_eq(&'$').is_some() {
        place.position = position(first)?;
    } else if let Some(width) = first {
        place.width = Width::Given(width);
    }
    if first.is_none() || place.position.is_some() {
        while rest.next_if_eq(&'-').is_some() {
            place.to_the_left = true;
        }
        if rest.next_if_eq(&'*').is_some() {
            let argument = number(rest)?;
            if argument.is_some() && rest.next_if_eq(&'$').is_none() {
                return Err(wrong("width argument position must be ended by \"$\""));
            }
            place.width = Width::Argument(position(argument)?);
        } else if let Some(width) = number(rest)? {
            place.width = Width::Given(width);
        }
    }
    let kind = rest.next();
    place.kind = kind.ok_or_else(|| wrong("unterminated format() type specifier"))?;
    Ok(place)
}

fn position(number: Option<usize>) -> Result<Option<usize>> {
    if number == Some(0) {
        let message = "format specifies argument 0, but arguments are numbered from 1";
        return Err(wrong(message));
    }
    Ok(number)
}

fn number(rest: &mut Peekable<Chars<'_>>) -> Result<Option<usize>> {
    let mut number = None;
    while let Some(digit) = rest.peek().and_then(|digit| digit.to_digit(10)) {
        rest.next();
        let longer = number.unwrap_or(0_u32).checked_mul(10);
        let longer = longer.and_then(|longer| longer.checked_add(digit));
        number = Some(longer.ok_or_else(|| wrong("number is out of range"))?);
    }
    Ok(number.map(|number| number as usize))
}

/// A value as the wire shows it; `None` for NULL.
fn shown(value: &ScalarValue) -> Result<Option<String>> {
    if value.is_null() {
        return Ok(None);
    }
    let unprintable = || wrong("a value cannot be written as text");
    let write = cell_writer(&value.to_array()?, false)
        .map_err(|failure| DataFusionError::External(Box::new(failure)))?;
    let mut out = BytesMut::new();
    write(0, &mut out).map_err(|_| unprintable())?;
    let text = String::from_utf8(out.to_vec()).map_err(|_| unprintable())?;
    Ok(Some(text))
}

/// Formats a value by the type letter of its place.
fn written(kind: char, value: Option<String>) -> Result<String> {
    match (kind, value) {
        ('s', value) => Ok(value.unwrap_or_default()),
        ('L', None) => Ok("NULL".to_owned()),
        ('L', Some(value)) => Ok(quote_literal(&value)),
        ('I', None) => Err(wrong(
            "null values cannot be formatted as an SQL identifier",
        )),
        ('I', Some(name)) if is_reserved(&name) => Ok(format!("\"{name}\"")),
        ('I', Some(name)) => Ok(quoted(&name)),
        (kind, _) => {
            let message = format!("unrecognized format() type specifier \"{kind}\"");
            Err(wrong(&message))
        }
    }
}

fn is_reserved(name: &str) -> bool {
    let found = ALL_KEYWORDS.binary_search(&name.to_uppercase().as_str());
    found.is_ok_and(|at| {
        let keyword = ALL_KEYWORDS_INDEX[at];
        RESERVED_FOR_COLUMN_ALIAS.contains(&keyword) || RESERVED_FOR_TABLE_ALIAS.contains(&keyword)
    }) && quoted(name) == name
}

fn wrong(message: &str) -> DataFusionError {
    DataFusionError::Execution(message.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_is_repeated_a_little_and_not_without_bound() {
        let long = "x".repeat(REPEATED_MAX / 2);
        let value = |_: usize| Ok(ScalarValue::from(long.as_str()));
        let thrice = formatted("%1$s%1$s%1$s", value).unwrap();
        assert_eq!(thrice.len(), 3 * long.len());
        let error = formatted("%1$s%1$s%1$s%1$s", value).unwrap_err();
        assert!(error.to_string().contains("repeats at most"), "{error}");
        assert!(formatted("%s%s%s%s", value).is_ok(), "four values");
    }

    #[test]
    fn templates() {
        let values = [
            ScalarValue::from("format"),
            ScalarValue::from("it's"),
            ScalarValue::from("a \"Name\""),
            ScalarValue::from(-7_i32),
            ScalarValue::from(true),
            ScalarValue::Utf8(None),
            ScalarValue::from("from"),
        ];
        let of = |template: &str| {
            let value = |at: usize| {
                let value = values.get(at).cloned();
                value.ok_or_else(|| wrong("too few arguments for format()"))
            };
            formatted(template, value).map_err(|error| error.to_string())
        };
        for (template, expected) in [
            ("100 %% of %s", "100 % of it's"),
            ("%L, %I, %s", "'it''s', \"a \"\"Name\"\"\", -7"),
            ("%4$s %s %3$s %s", "t  -7 t"),
            ("[%6s] [%-6s]", "[  it's] [a \"Name\"]"),
            ("[%2$-12s|%1$6s]", "[a \"Name\"    |  it's]"),
            ("[%*3$s] [%1$*3$s]", "[t      ] [it's   ]"),
            ("%4$s%5$s%5$L", "tNULL"),
            ("%6$I", "\"from\""),
            ("no places", "no places"),
        ] {
            assert_eq!(of(template).as_deref(), Ok(expected), "{template}");
        }
        for (template, wanted) in [
            ("%s%s%s%s%s%s%s", "too few"),
            ("%5$I", "null values"),
            ("%0$s", "numbered from 1"),
            ("%d", "\"d\""),
            ("%", "unterminated"),
            ("%-", "unterminated"),
            ("%*2s", "\"$\""),
            ("%99999999999s", "out of range"),
            ("%1000s%1000s", "at most 1024 blanks"),
        ] {
            let error = of(template).unwrap_err();
            assert!(error.contains(wanted), "{template}: {error}");
        }
    }
}
