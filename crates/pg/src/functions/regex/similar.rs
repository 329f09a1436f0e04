//! Translates SQL's regular expressions (SIMILAR TO) into `PostgreSQL`'s, after
//! `similar_escape_internal` in its `regexp.c`.

use crate::PgError;

/// The regular expression of a pattern. With an empty escape nothing is escaped.
pub(super) fn translated(pattern: &str, escape: &str) -> Result<String, PgError> {
    let mut letters = escape.chars();
    let escape = letters.next();
    if letters.next().is_some() {
        return Err(PgError::new("22019", "invalid escape string"));
    }
    let mut out = "^(?:".to_owned();
    let (mut escaped, mut in_class, mut quotes) = (false, false, 0);
    for letter in pattern.chars() {
        if escaped {
            escaped = false;
            if letter == '"' && !in_class {
                out.push_str(match quotes {
                    0 => "){1,1}?(",
                    1 => "){1,1}(?:",
                    _ => {
                        let message = "SQL regular expression may not contain more than two \
                                       escape-double-quote separators";
                        return Err(PgError::new("2200C", message));
                    }
                });
                quotes += 1;
            } else {
                out.push('\\');
                out.push(letter);
            }
        } else if Some(letter) == escape {
            escaped = true;
        } else if in_class {
            if letter == '\\' {
                out.push('\\');
            }
            out.push(letter);
            in_class = letter != ']';
        } else {
            match letter {
                '[' => {
                    in_class = true;
                    out.push('[');
                }
                '%' => out.push_str(".*"),
                '_' => out.push('.'),
                '(' => out.push_str("(?:"),
                '\\' | '.' | '^' | '$' => {
                    out.push('\\');
                    out.push(letter);
                }
                other => out.push(other),
            }
        }
    }
    out.push_str(")$");
    Ok(out)
}
