//! LIKE with patterns that DataFusion's LIKE refuses or treats differently.

use datafusion::error::Result;

use crate::PgError;
use crate::functions::scalar::Take::Text;
use crate::functions::scalar::{Body, Form, Function, Give, Row, Value};

/// `pg_like(text, pattern)`, with a backslash as the escape character.
pub(crate) const LIKE: &str = "pg_like";
/// `pg_ilike(text, pattern)`, the same for ILIKE.
pub(crate) const ILIKE: &str = "pg_ilike";

pub(super) fn functions() -> Vec<Function> {
    let function = |name: &str, body: Body| {
        let form = Form::new(&[Text, Text], Give::Bool, body);
        Function::new(name, vec![form])
    };
    vec![
        // The operators have versions for `character(n)`, whose trailing blanks take part in the
        // match. The functions take texts.
        function(LIKE, |row| answer(row.padded(0), row, false)),
        function(ILIKE, |row| answer(row.padded(0), row, true)),
        function("like", |row| answer(row.text(0), row, false)),
        function("notlike", |row| {
            let is_like = like(row.text(0), row.text(1), false)?;
            Ok(Value::Bool(!is_like))
        }),
        Function::new(
            "like_escape",
            vec![Form::new(&[Text, Text], Give::Text, |row| {
                Ok(Value::Text(escaped(row.text(0), row.text(1))?))
            })],
        ),
    ]
}

fn answer(text: &str, row: &Row<'_>, ignore_case: bool) -> Result<Value> {
    Ok(Value::Bool(like(text, row.text(1), ignore_case)?))
}

/// Whether a text matches a LIKE pattern that escapes with backslashes.
pub(crate) fn like(text: &str, pattern: &str, ignore_case: bool) -> Result<bool> {
    if ignore_case {
        let (text, pattern) = (text.to_lowercase(), pattern.to_lowercase());
        return like(&text, &pattern, false);
    }
    let text: Vec<char> = text.chars().collect();
    let pattern: Vec<char> = pattern.chars().collect();
    let (mut at, mut place) = (0, 0);
    // The position after the last percent sign, and the character at which its match is tried
    // next.
    let mut retry: Option<(usize, usize)> = None;
    loop {
        let matched = match pattern.get(place) {
            Some('%') => {
                retry = Some((place + 1, at));
                place += 1;
                continue;
            }
            Some('_') if at < text.len() => Some(place + 1),
            Some('\\') if at < text.len() || place + 1 == pattern.len() => {
                let Some(escaped) = pattern.get(place + 1) else {
                    if at >= text.len() {
                        return Ok(false);
                    }
                    let message = "LIKE pattern must not end with escape character";
                    return Err(PgError::new("22025", message).into());
                };
                (text[at] == *escaped).then_some(place + 2)
            }
            Some(letter) if at < text.len() && text[at] == *letter => Some(place + 1),
            None if at == text.len() => return Ok(true),
            _ => None,
        };
        if let Some(next) = matched {
            (at, place) = (at + 1, next);
            continue;
        }
        match retry {
            Some((behind, from)) if from < text.len() => {
                retry = Some((behind, from + 1));
                (at, place) = (from + 1, behind);
            }
            _ => return Ok(false),
        }
    }
}

/// Rewrites a pattern to escape with a backslash instead of `escape`. If `escape` is empty,
/// nothing is escaped.
pub(crate) fn escaped(pattern: &str, escape: &str) -> Result<String, PgError> {
    let mut letters = escape.chars();
    let escape = letters.next();
    if letters.next().is_some() {
        return Err(PgError::new("22025", "invalid escape string"));
    }
    if escape == Some('\\') {
        return Ok(pattern.to_owned());
    }
    let mut out = String::with_capacity(pattern.len());
    let mut behind_escape = false;
    for letter in pattern.chars() {
        if Some(letter) == escape && !behind_escape {
            out.push('\\');
            behind_escape = true;
        } else if letter == '\\' {
            out.push('\\');
            if !behind_escape {
                out.push('\\');
            }
            behind_escape = false;
        } else {
            out.push(letter);
            behind_escape = false;
        }
    }
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns() {
        for (text, pattern, expected) in [
            ("abc", "a%", true),
            ("abc", "%b%", true),
            ("abc", "_b_", true),
            ("abc", "_b", false),
            ("a%c", "a\\%c", true),
            ("abc", "a\\%c", false),
            ("", "%", true),
            ("", "", true),
            ("aXbXc", "%X_", true),
            ("b", "a\\", false),
        ] {
            assert_eq!(
                like(text, pattern, false).unwrap(),
                expected,
                "{text} {pattern}"
            );
        }
        assert!(like("ab", "a\\", false).is_err());
    }

    #[test]
    fn escapes() {
        assert_eq!(escaped("a/%b%//", "/").unwrap(), "a\\%b%\\/");
        assert_eq!(escaped("a\\%", "/").unwrap(), "a\\\\%");
        assert_eq!(escaped("a/\\_", "/").unwrap(), "a\\\\_");
        assert_eq!(escaped("/%", "").unwrap(), "/%");
        assert!(escaped("a", "xx").is_err());
    }
}
