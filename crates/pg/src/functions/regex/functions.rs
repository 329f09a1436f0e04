//! `regexp_*`, and `substring` with a pattern.

use datafusion::error::Result;

use super::{Found, Regex};
use crate::PgError;
use crate::functions::scalar::Take::{Int, Text};
use crate::functions::scalar::{Form, Function, Give, Row, Value};

/// `regexp_matches`, as an array of arrays.
pub(crate) const MATCHES: &str = "regexp_matches_array";

pub(super) fn functions() -> Vec<Function> {
    vec![
        Function::new(
            "regexp_match",
            vec![
                Form::new(&[Text, Text, Text], Give::Texts, |row| {
                    let regex = local(row, "regexp_match", 2, Some("regexp_matches"))?;
                    let text = row.text(0);
                    let found = regex.find(text, 0);
                    Ok(found.map_or(Value::Null, |found| Value::Texts(groups(text, &found))))
                })
                .optional(1),
            ],
        ),
        Function::new(
            MATCHES,
            vec![
                Form::new(&[Text, Text, Text], Give::Lists, |row| {
                    let (text, regex) = (row.text(0), Regex::cached(row.text(1), row.text(2))?);
                    let found = if regex.global {
                        regex.find_all(text, 0)
                    } else {
                        regex.find(text, 0).into_iter().collect()
                    };
                    let lists = found.iter().map(|found| groups(text, found));
                    Ok(Value::Lists(lists.collect()))
                })
                .optional(1),
            ],
        ),
        Function::new(
            "regexp_replace",
            vec![
                Form::new(&[Text, Text, Text, Text], Give::Text, |row| {
                    let flags = row.text(3);
                    if let Some(first) = flags.chars().next()
                        && first.is_ascii_digit()
                    {
                        let message = format!("invalid regular expression option: \"{first}\"");
                        return Err(PgError::new("22023", message).into());
                    }
                    let regex = row.made_of(&[1, 3], || Ok(Regex::cached(row.text(1), flags)?))?;
                    let which = usize::from(!regex.global);
                    Ok(Value::Text(replaced(&regex, row, 0, which)))
                })
                .optional(1),
                Form::new(&[Text, Text, Text, Int, Int, Text], Give::Text, |row| {
                    let regex = Regex::cached(row.text(1), row.text(5))?;
                    let start = start(row, 3)?;
                    let which = if row.len() > 4 {
                        let which = row.int(4);
                        usize::try_from(which).map_err(|_| parameter("n", which))?
                    } else {
                        usize::from(!regex.global)
                    };
                    Ok(Value::Text(replaced(&regex, row, start, which)))
                })
                .optional(2),
            ],
        ),
        Function::new(
            "regexp_split_to_array",
            vec![
                Form::new(&[Text, Text, Text], Give::Texts, |row| {
                    split(row, "regexp_split_to_array")
                })
                .optional(1),
            ],
        ),
        Function::new(
            "regexp_split_to_table_array",
            vec![
                Form::new(&[Text, Text, Text], Give::Texts, |row| {
                    split(row, "regexp_split_to_table")
                })
                .optional(1),
            ],
        ),
        Function::new(
            "regexp_count",
            vec![
                Form::new(&[Text, Text, Int, Text], Give::Int4, |row| {
                    let start = start(row, 2)?;
                    let regex = local(row, "regexp_count", 3, None)?;
                    let found = regex.find_all(row.text(0), start).len();
                    Ok(Value::Int(i64::try_from(found).unwrap_or(i64::MAX)))
                })
                .optional(2),
            ],
        ),
        Function::new(
            "regexp_like",
            vec![
                Form::new(&[Text, Text, Text], Give::Bool, |row| {
                    let regex = local(row, "regexp_like", 2, None)?;
                    Ok(Value::Bool(regex.is_match(row.text(0))))
                })
                .optional(1),
            ],
        ),
        Function::new(
            "regexp_substr",
            vec![
                Form::new(&[Text, Text, Int, Int, Text, Int], Give::Text, |row| {
                    let found = nth(row, "regexp_substr", 4, 5)?;
                    Ok(found
                        .map(|(from, to)| row.text(0)[from..to].to_owned())
                        .into())
                })
                .optional(4),
            ],
        ),
        Function::new(
            "regexp_instr",
            vec![
                Form::new(&[Text, Text, Int, Int, Int, Text, Int], Give::Int4, |row| {
                    let end = row.int(4);
                    if row.len() > 4 && end != 0 && end != 1 {
                        return Err(parameter("endoption", end).into());
                    }
                    let found = nth(row, "regexp_instr", 5, 6)?;
                    let place = found.map_or(0, |(from, to)| {
                        let byte = if end == 1 { to } else { from };
                        row.text(0)[..byte].chars().count() + 1
                    });
                    Ok(Value::Int(i64::try_from(place).unwrap_or(i64::MAX)))
                })
                .optional(5),
            ],
        ),
        Function::new(
            "similar_to_escape",
            vec![
                Form::new(&[Text, Text], Give::Text, |row| {
                    let escape = if row.len() > 1 { row.text(1) } else { "\\" };
                    Ok(Value::Text(super::similar::translated(
                        row.text(0),
                        escape,
                    )?))
                })
                .optional(1),
            ],
        ),
    ]
}

fn parameter(name: &str, value: i64) -> PgError {
    PgError::new(
        "22023",
        format!("invalid value for parameter \"{name}\": {value}"),
    )
}

/// The regular expression of a function that does not support the flag `g`.
fn local(
    row: &Row<'_>,
    function: &str,
    flags: usize,
    _instead: Option<&str>,
) -> Result<std::rc::Rc<Regex>> {
    let letters = if row.len() > flags {
        row.text(flags)
    } else {
        ""
    };
    let regex = row.made_of(&[1, flags], || Ok(Regex::cached(row.text(1), letters)?))?;
    if regex.global {
        let message = format!("{function}() does not support the \"global\" option");
        return Err(PgError::new("22023", message).into());
    }
    Ok(regex)
}

/// The byte offset at which a search starts, from a character position counted from 1.
fn start(row: &Row<'_>, argument: usize) -> Result<usize> {
    if row.len() <= argument {
        return Ok(0);
    }
    let start = row.int(argument);
    let skipped = usize::try_from(start - 1).map_err(|_| parameter("start", start))?;
    let text = row.text(0);
    let found = text.char_indices().nth(skipped);
    Ok(found.map_or(
        text.len() + usize::from(skipped > text.chars().count()),
        |(at, _)| at,
    ))
}

/// The groups of a match, or the whole match if there are none.
fn groups(text: &str, found: &Found) -> Vec<Option<String>> {
    let shown = |group: &Option<(usize, usize)>| group.map(|(from, to)| text[from..to].to_owned());
    match found.len() {
        1 => found.iter().map(shown).collect(),
        _ => found.iter().skip(1).map(shown).collect(),
    }
}

/// Replaces match number `which` in the text, or all matches for 0.
fn replaced(regex: &Regex, row: &Row<'_>, start: usize, which: usize) -> String {
    let (text, replacement) = (row.text(0), row.text(2));
    let found = match which {
        1 if start <= text.len() => regex.find(text, start).into_iter().collect(),
        _ => regex.find_all(text, start),
    };
    let mut out = String::with_capacity(text.len());
    let mut copied = 0;
    for (at, groups) in found.iter().enumerate() {
        if which != 0 && at + 1 != which {
            continue;
        }
        let Some((from, to)) = groups[0] else {
            continue;
        };
        out.push_str(&text[copied..from]);
        insert(replacement, text, groups, &mut out);
        copied = to;
    }
    out.push_str(&text[copied..]);
    out
}

/// Writes a replacement: `\1` to `\9` insert groups, `\&` the match.
fn insert(replacement: &str, text: &str, groups: &Found, out: &mut String) {
    let mut rest = replacement.chars().peekable();
    while let Some(letter) = rest.next() {
        if letter != '\\' {
            out.push(letter);
            continue;
        }
        let group = match rest.peek() {
            Some('&') => Some(0),
            Some(digit @ '1'..='9') => digit.to_digit(10).map(|digit| digit as usize),
            Some('\\') => None,
            _ => {
                out.push('\\');
                continue;
            }
        };
        rest.next();
        match group {
            None => out.push('\\'),
            Some(group) => {
                if let Some((from, to)) = groups.get(group).copied().flatten() {
                    out.push_str(&text[from..to]);
                }
            }
        }
    }
}

fn split(row: &Row<'_>, function: &str) -> Result<Value> {
    let regex = local(row, function, 2, None)?;
    let text = row.text(0);
    let mut parts = vec![];
    let mut from = 0;
    for groups in regex.find_all(text, 0) {
        let Some((start, end)) = groups[0] else {
            continue;
        };
        // An empty match at the end, or directly after the previous match, separates nothing.
        if start == end && (start == text.len() || start == from) {
            continue;
        }
        parts.push(Some(text[from..start].to_owned()));
        from = end;
    }
    parts.push(Some(text[from..].to_owned()));
    Ok(Value::Texts(parts))
}

/// The byte range of a group in match number n.
fn nth(
    row: &Row<'_>,
    function: &str,
    flags: usize,
    subexpression: usize,
) -> Result<Option<(usize, usize)>> {
    let start = start(row, 2)?;
    let which = if row.len() > 3 { row.int(3) } else { 1 };
    if which <= 0 {
        return Err(parameter("n", which).into());
    }
    let group = row.int(subexpression);
    if group < 0 {
        return Err(parameter("subexpr", group).into());
    }
    let regex = local(row, function, flags, None)?;
    let group = usize::try_from(group).unwrap_or(usize::MAX);
    // In a pattern without groups, group 1 is the whole match.
    let group = if regex.groups == 0 && group == 1 {
        0
    } else {
        group
    };
    if group > regex.groups {
        return Ok(None);
    }
    let found = regex.find_all(row.text(0), start);
    let at = usize::try_from(which - 1).unwrap_or(usize::MAX);
    Ok(found.get(at).and_then(|groups| groups[group]))
}

/// `substring(text from pattern)`, and `substring(text from pattern for escape)`.
pub(crate) fn substring(row: &Row<'_>) -> Result<Value> {
    let text = row.text(0);
    let regex = if row.len() > 2 {
        Regex::cached(&super::similar::translated(row.text(1), row.text(2))?, "")?
    } else {
        row.made_of(&[1], || Ok(Regex::cached(row.text(1), "")?))?
    };
    let found = regex.find(text, 0);
    let part = found.and_then(|groups| groups[usize::from(groups.len() > 1)]);
    Ok(part.map(|(from, to)| text[from..to].to_owned()).into())
}
