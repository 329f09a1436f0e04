//! `~`, `~*`, `!~`, `!~*` and SIMILAR TO as functions.

use datafusion::arrow::datatypes::DataType;
use datafusion::error::Result;
use datafusion::logical_expr::simplify::SimplifyContext;
use datafusion::logical_expr::{Expr, ExprSchemable, Like};
use datafusion::scalar::ScalarValue;

use super::Regex;
use crate::functions::scalar::Take::Text;
use crate::functions::scalar::{Form, Function, Row, marked_type};

/// `text ~ pattern`.
pub(crate) const MATCHES: &str = "textregexeq";
/// `text ~* pattern`.
pub(crate) const MATCHES_ANY_CASE: &str = "texticregexeq";
/// `text !~ pattern`.
pub(crate) const DIFFERS: &str = "textregexne";
/// `text !~* pattern`.
pub(crate) const DIFFERS_ANY_CASE: &str = "texticregexne";

pub(super) fn functions() -> Vec<Function> {
    let function = |name: &str, body| Function::new(name, vec![Form::test(&[Text, Text], body)]);
    vec![
        function(MATCHES, |row| answer(row, "", false))
            .simplified(|args, info| like(args, info, false)),
        function(MATCHES_ANY_CASE, |row| answer(row, "i", false)),
        function(DIFFERS, |row| answer(row, "", true))
            .simplified(|args, info| like(args, info, true)),
        function(DIFFERS_ANY_CASE, |row| answer(row, "i", true)),
    ]
}

fn answer(row: &Row<'_>, flags: &str, negated: bool) -> Result<bool> {
    let regex = row.made_of(&[1], || Ok(Regex::cached(row.text(1), flags)?))?;
    // The trailing blanks of a `character(n)` take part in the match.
    Ok(regex.is_match(row.padded(0)) != negated)
}

/// Rewrites a pattern of plain characters to LIKE, which has dictionary and vectorized kernels.
fn like(args: &[Expr], info: &SimplifyContext, negated: bool) -> Result<Option<Expr>> {
    let [text, Expr::Literal(pattern, _)] = args else {
        return Ok(None);
    };
    let Some(pattern) = pattern.try_as_str().flatten().and_then(plain) else {
        return Ok(None);
    };
    let field = text.to_field(info.schema())?.1;
    let pattern = match field.data_type() {
        _ if marked_type(&field).is_some() => return Ok(None),
        DataType::Utf8 => ScalarValue::Utf8(Some(pattern)),
        DataType::Utf8View => ScalarValue::Utf8View(Some(pattern)),
        DataType::LargeUtf8 => ScalarValue::LargeUtf8(Some(pattern)),
        _ => return Ok(None),
    };
    let pattern = Box::new(Expr::Literal(pattern, None));
    let like = Like::new(negated, Box::new(text.clone()), pattern, None, false);
    Ok(Some(Expr::Like(like)))
}

/// The LIKE pattern for a regular expression of plain characters with optional anchors at its
/// ends.
fn plain(pattern: &str) -> Option<String> {
    let (start, rest) = match pattern.strip_prefix('^') {
        Some(rest) => ("", rest),
        None => ("%", pattern),
    };
    let (middle, end) = match rest.strip_suffix('$') {
        Some(middle) => (middle, ""),
        None => (rest, "%"),
    };
    let is_plain = |letter: char| letter.is_alphanumeric() || " -/:,;@#'\"=<>!&~".contains(letter);
    (!middle.is_empty() && middle.chars().all(is_plain)).then(|| format!("{start}{middle}{end}"))
}

#[cfg(test)]
mod tests {
    use super::plain;

    #[test]
    fn plain_patterns_become_like() {
        for (pattern, like) in [
            ("a b", Some("%a b%")),
            ("^a", Some("a%")),
            ("a$", Some("%a")),
            ("^a$", Some("a")),
            ("", None),
            ("^", None),
            ("^$", None),
            ("a.b", None),
            ("a%", None),
            ("a_", None),
            ("a\\d", None),
            ("a|b", None),
            ("^^a", None),
            ("(a)", None),
            ("a$$", None),
        ] {
            assert_eq!(plain(pattern).as_deref(), like, "{pattern}");
        }
    }
}
