//! `~`, `~*`, `!~`, `!~*` and SIMILAR TO as functions.

use datafusion::error::Result;

use super::Regex;
use crate::functions::scalar::Take::Text;
use crate::functions::scalar::{Form, Function, Give, Row, Value};

/// `text ~ pattern`.
pub(crate) const MATCHES: &str = "textregexeq";
/// `text ~* pattern`.
pub(crate) const MATCHES_ANY_CASE: &str = "texticregexeq";
/// `text !~ pattern`.
pub(crate) const DIFFERS: &str = "textregexne";
/// `text !~* pattern`.
pub(crate) const DIFFERS_ANY_CASE: &str = "texticregexne";

pub(super) fn functions() -> Vec<Function> {
    let function =
        |name: &str, body| Function::new(name, vec![Form::new(&[Text, Text], Give::Bool, body)]);
    vec![
        function(MATCHES, |row| answer(row, "", false)),
        function(MATCHES_ANY_CASE, |row| answer(row, "i", false)),
        function(DIFFERS, |row| answer(row, "", true)),
        function(DIFFERS_ANY_CASE, |row| answer(row, "i", true)),
    ]
}

fn answer(row: &Row<'_>, flags: &str, negated: bool) -> Result<Value> {
    let regex = Regex::cached(row.text(1), flags)?;
    Ok(Value::Bool(regex.is_match(row.text(0)) != negated))
}
