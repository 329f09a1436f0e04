//! The methods of paths: `.type()`, `.size()`, `.double()`, …

use super::layout::offset;
use super::outcome::{Outcome, Stop, soft};
use super::steps::{At, Evaluation, List};
use crate::PgError;
use crate::numbers::numeric::Numeric;
use crate::values::{Json, Method, Step};

impl Method {
    /// Whether a lax path applies the method to the elements of an array.
    pub(super) fn is_of_elements(self) -> bool {
        !matches!(self, Self::Size | Self::Type)
    }
}

impl Evaluation<'_> {
    pub(super) fn method(
        &mut self,
        step: &Step,
        method: Method,
        at: At<'_>,
        current: At<'_>,
        found: List<'_>,
    ) -> Outcome<bool> {
        let value = match method {
            Method::Type => Json::Text(kind(at).to_owned()),
            Method::Size => match at {
                At::Json(Json::Array(elements)) => Json::Number(elements.len().to_string()),
                _ if self.is_lax() => Json::Number("1".to_owned()),
                _ => {
                    let message = "jsonpath item method .size() can only be applied to an array";
                    return soft("22039", message);
                }
            },
            Method::Abs | Method::Floor | Method::Ceiling => rounded(method, at)?,
            Method::Double => double(at)?,
            Method::KeyValue => return self.pairs(step, at, current, found),
        };
        self.next(step, At::Json(&value), current, found)
    }

    fn pairs(
        &mut self,
        step: &Step,
        at: At<'_>,
        current: At<'_>,
        mut found: List<'_>,
    ) -> Outcome<bool> {
        let At::Json(object @ Json::Object(members)) = at else {
            let message = "jsonpath item method .keyvalue() can only be applied to an object";
            return soft("2203C", message);
        };
        if members.is_empty() {
            return Ok(false);
        }
        if found.is_none() && step.next.is_none() {
            return Ok(true);
        }
        let Some(id) = offset(self.root, object) else {
            let message = "the id of .keyvalue() of such an object is not supported";
            return Err(Stop::Hard(PgError::unsupported(message)));
        };
        let mut has = false;
        for (key, value) in members {
            let pair = Json::Object(vec![
                ("id".to_owned(), Json::Number(id.to_string())),
                ("key".to_owned(), Json::Text(key.clone())),
                ("value".to_owned(), value.clone()),
            ]);
            has = self.next(step, At::Json(&pair), current, found.as_deref_mut())?;
            if has && found.is_none() {
                return Ok(true);
            }
        }
        Ok(has)
    }
}

fn kind(at: At<'_>) -> &'static str {
    match at {
        At::Json(value) => value.kind(),
        At::Moment(moment) => moment.kind(),
    }
}

fn rounded(method: Method, at: At<'_>) -> Outcome<Json> {
    let Some(number) = at.number() else {
        let name = method.name();
        let message =
            format!("jsonpath item method .{name}() can only be applied to a numeric value");
        return soft("22036", message);
    };
    let whole = number.truncated(0);
    let is_whole = number.compare(&whole).is_eq();
    let number = match method {
        Method::Abs if number.is_negative() => number.neg(),
        Method::Abs => number,
        Method::Floor if !is_whole && number.is_negative() => whole.sub(&Numeric::new(1, 0)),
        Method::Ceiling if !is_whole && !number.is_negative() => whole.add(&Numeric::new(1, 0)),
        _ => whole,
    };
    Ok(Json::Number(number.to_string()))
}

fn double(at: At<'_>) -> Outcome<Json> {
    let wrong = |of: &str, what: &str| {
        let message = format!("{of} argument of jsonpath item method .double() is {what}");
        soft("22036", message)
    };
    match at {
        At::Json(value @ Json::Number(number)) => {
            let float: f64 = number.parse().unwrap_or(f64::INFINITY);
            if float.is_finite() {
                return Ok(value.clone());
            }
            wrong("numeric", "out of range for type double precision")
        }
        At::Json(Json::Text(text)) => {
            let plain = text.trim_matches(|letter: char| letter.is_ascii_whitespace());
            let float = Numeric::parse(plain)
                .and_then(|number| Numeric::of_float(number.to_f64(), FLOAT_DIGITS));
            match float {
                Some(number) => Ok(Json::Number(number.to_string())),
                None => wrong(
                    "string",
                    "not a valid representation of a double precision number",
                ),
            }
        }
        _ => {
            let message =
                "jsonpath item method .double() can only be applied to a string or numeric value";
            soft("22036", message)
        }
    }
}

/// The number of digits with which a float becomes a numeric.
const FLOAT_DIGITS: usize = 15;
