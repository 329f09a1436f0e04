//! `format()`: a text with placeholders `%[position$][-][width]type`. Types are `s` (a value), `I`
//! (an identifier) and `L` (a literal); `%%` is a percent sign.
//!
//! G1 (`growing.rs`) holds without a memory check: a placeholder writes its value as it is, or at
//! most twice as long in quotes. All placeholders together pad by at most [`PADDING_MAX`] and
//! repeat at most [`REPEATED_MAX`] bytes.

use std::collections::HashSet;
use std::iter::Peekable;
use std::str::Chars;

use datafusion::error::{DataFusionError, Result};

use super::strings::{identifier, literal};
use crate::PgError;

/// The most blanks by which all placeholders of one text pad together.
const PADDING_MAX: usize = 1 << 10;

/// The most bytes of values that one text repeats in later placeholders.
const REPEATED_MAX: usize = 4 << 10;

/// A placeholder.
struct Place {
    /// The number of its argument, from 1; `None` for the next one.
    position: Option<usize>,
    to_the_left: bool,
    width: Width,
    kind: char,
}

enum Width {
    None,
    Given(usize),
    /// The width is an argument: the one with this number, or the next one.
    Argument(Option<usize>),
}

pub(super) fn formatted(
    template: &str,
    given: impl Fn(usize) -> Result<Option<Option<String>>>,
) -> Result<String> {
    let value = |at: usize| given(at)?.ok_or_else(|| wrong("too few arguments for format()"));
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
                let asked = value(at)?.unwrap_or_default();
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
        let shown = written(place.kind, value(at)?)?;
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

/// Parses a placeholder after its percent sign.
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

/// Formats a value according to its placeholder's type.
fn written(kind: char, value: Option<String>) -> Result<String> {
    match (kind, value) {
        ('s', value) => Ok(value.unwrap_or_default()),
        ('L', None) => Ok("NULL".to_owned()),
        ('L', Some(value)) => Ok(literal(&value)),
        ('I', None) => {
            let message = "null values cannot be formatted as an SQL identifier";
            Err(PgError::new("22004", message).into())
        }
        ('I', Some(name)) => Ok(identifier(&name)),
        (kind, _) => {
            let message = format!("unrecognized format() type specifier \"{kind}\"");
            Err(wrong(&message))
        }
    }
}

fn wrong(message: &str) -> DataFusionError {
    PgError::new("22023", message).into()
}
