//! Quoting: `quote_ident`, `quote_literal`, `quote_nullable`, `parse_ident`.

use datafusion::error::Result;

use crate::PgError;
use crate::functions::scalar::Take::{Any, Bool, Text};
use crate::functions::scalar::{Form, Function, Give, Row, Value};
use crate::operators::padded::is_padded;

pub(in crate::functions::text) fn functions() -> Vec<Function> {
    vec![
        Function::new(
            "quote_ident",
            vec![Form::new(&[Text], Give::Text, |row| {
                Ok(Value::Text(identifier(row.text(0))))
            })],
        ),
        Function::new(
            "quote_literal",
            vec![Form::new(&[Any], Give::Text, |row| {
                Ok(cast_text(row)?.map(|text| literal(&text)).into())
            })],
        ),
        Function::new(
            "quote_nullable",
            vec![
                Form::new(&[Any], Give::Text, |row| {
                    let quoted = cast_text(row)?.map(|text| literal(&text));
                    Ok(Value::Text(quoted.unwrap_or_else(|| "NULL".to_owned())))
                })
                .called(),
            ],
        ),
        Function::new(
            "parse_ident",
            vec![
                Form::new(&[Text, Bool], Give::Texts, |row| {
                    let strict = row.len() < 2 || row.bool(1);
                    parsed(row.text(0), strict)
                })
                .optional(1),
            ],
        ),
    ]
}

/// A value as its cast to text: booleans become words, and `character(n)` loses its padding.
fn cast_text(row: &Row<'_>) -> Result<Option<String>> {
    if is_padded(row.field(0)) {
        return Ok(row.text_opt(0).map(str::to_owned));
    }
    let shown = row.shown(0)?;
    if *row.field(0).data_type() == datafusion::arrow::datatypes::DataType::Boolean {
        let word = |letter: String| if letter == "t" { "true" } else { "false" }.to_owned();
        return Ok(shown.map(word));
    }
    Ok(shown)
}

/// A text as a literal, with `E` if it contains backslashes.
pub(in crate::functions::text) fn literal(text: &str) -> String {
    let doubled = text.replace('\'', "''");
    if text.contains('\\') {
        return format!("E'{}'", doubled.replace('\\', "\\\\"));
    }
    format!("'{doubled}'")
}

/// A name, quoted if `PostgreSQL` would read it differently without quotes.
pub(in crate::functions::text) fn identifier(name: &str) -> String {
    let mut rest = name.chars();
    let begins = rest
        .next()
        .is_some_and(|first| first.is_ascii_lowercase() || first == '_');
    let plain =
        |letter: char| letter.is_ascii_lowercase() || letter.is_ascii_digit() || letter == '_';
    if begins && rest.all(plain) && !NOT_UNRESERVED.contains(&name) {
        return name.to_owned();
    }
    format!("\"{}\"", name.replace('"', "\"\""))
}

fn parsed(text: &str, strict: bool) -> Result<Value> {
    let wrong = || {
        let message = format!("string is not a valid identifier: \"{text}\"");
        PgError::new("22023", message)
    };
    let mut names = vec![];
    let mut rest = text.trim_start();
    loop {
        if let Some(quoted) = rest.strip_prefix('"') {
            let mut name = String::new();
            let mut at = quoted.char_indices().peekable();
            let end = loop {
                match at.next().ok_or_else(wrong)? {
                    (_, '"') if at.next_if(|(_, next)| *next == '"').is_some() => name.push('"'),
                    (end, '"') => break end,
                    (_, letter) => name.push(letter),
                }
            };
            if name.is_empty() {
                return Err(wrong().into());
            }
            names.push(Some(name));
            rest = &quoted[end + 1..];
        } else {
            let is_part = |at: usize, letter: char| {
                letter.is_alphabetic()
                    || letter == '_'
                    || (at > 0 && (letter.is_ascii_digit() || letter == '$'))
            };
            let end = rest
                .char_indices()
                .find(|(at, letter)| !is_part(*at, *letter));
            let end = end.map_or(rest.len(), |(at, _)| at);
            if end == 0 {
                return Err(wrong().into());
            }
            names.push(Some(rest[..end].to_lowercase()));
            rest = &rest[end..];
        }
        rest = rest.trim_start();
        match rest.strip_prefix('.') {
            Some(after) => rest = after.trim_start(),
            None if rest.is_empty() || !strict => return Ok(Value::Texts(names)),
            None => return Err(wrong().into()),
        }
    }
}

/// The keywords of `PostgreSQL` 15 that are not unreserved (`pg_get_keywords()`).
const NOT_UNRESERVED: &[&str] = &[
    "all",
    "analyse",
    "analyze",
    "and",
    "any",
    "array",
    "as",
    "asc",
    "asymmetric",
    "authorization",
    "between",
    "bigint",
    "binary",
    "bit",
    "boolean",
    "both",
    "case",
    "cast",
    "char",
    "character",
    "check",
    "coalesce",
    "collate",
    "collation",
    "column",
    "concurrently",
    "constraint",
    "create",
    "cross",
    "current_catalog",
    "current_date",
    "current_role",
    "current_schema",
    "current_time",
    "current_timestamp",
    "current_user",
    "dec",
    "decimal",
    "default",
    "deferrable",
    "desc",
    "distinct",
    "do",
    "else",
    "end",
    "except",
    "exists",
    "extract",
    "false",
    "fetch",
    "float",
    "for",
    "foreign",
    "freeze",
    "from",
    "full",
    "grant",
    "greatest",
    "group",
    "grouping",
    "having",
    "ilike",
    "in",
    "initially",
    "inner",
    "inout",
    "int",
    "integer",
    "intersect",
    "interval",
    "into",
    "is",
    "isnull",
    "join",
    "lateral",
    "leading",
    "least",
    "left",
    "like",
    "limit",
    "localtime",
    "localtimestamp",
    "national",
    "natural",
    "nchar",
    "none",
    "normalize",
    "not",
    "notnull",
    "null",
    "nullif",
    "numeric",
    "offset",
    "on",
    "only",
    "or",
    "order",
    "out",
    "outer",
    "overlaps",
    "overlay",
    "placing",
    "position",
    "precision",
    "primary",
    "real",
    "references",
    "returning",
    "right",
    "row",
    "select",
    "session_user",
    "setof",
    "similar",
    "smallint",
    "some",
    "substring",
    "symmetric",
    "table",
    "tablesample",
    "then",
    "time",
    "timestamp",
    "to",
    "trailing",
    "treat",
    "trim",
    "true",
    "union",
    "unique",
    "user",
    "using",
    "values",
    "varchar",
    "variadic",
    "verbose",
    "when",
    "where",
    "window",
    "with",
    "xmlattributes",
    "xmlconcat",
    "xmlelement",
    "xmlexists",
    "xmlforest",
    "xmlnamespaces",
    "xmlparse",
    "xmlpi",
    "xmlroot",
    "xmlserialize",
    "xmltable",
];
