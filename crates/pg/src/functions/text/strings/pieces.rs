//! Functions that extract, remove or replace parts of strings and bytes.

use std::borrow::Cow;

use crate::PgError;
use crate::functions::scalar::Take::{Bytes, Int, Text};
use crate::functions::scalar::{Form, Function, Give, Row, TextBody, Value};
use crate::functions::text::count;
use datafusion::error::Result;

pub(in crate::functions::text) fn functions() -> Vec<Function> {
    vec![
        Function::new(
            "left",
            vec![Form::text(&[Text, Int], |row| {
                let (text, count) = (row.text(0), row.int(1));
                Ok(slice(text, 0, Some(kept(text, count))).into())
            })],
        ),
        Function::new(
            "right",
            vec![Form::text(&[Text, Int], |row| {
                let (text, count) = (row.text(0), row.int(1));
                let skipped = length(text) - kept(text, count);
                Ok(slice(text, skipped, None).into())
            })],
        ),
        Function::new(
            "split_part",
            vec![Form::text(&[Text, Text, Int], split_part)],
        ),
        Function::new("substr", substring_forms()),
        Function::new("substring", substring_forms()),
        Function::new(
            "overlay",
            vec![
                Form::new(&[Text, Text, Int, Int], Give::Text, |row| {
                    let chars: Vec<char> = row.text(0).chars().collect();
                    let new: Vec<char> = row.text(1).chars().collect();
                    Ok(Value::Text(
                        overlay(&chars, &new, row)?.into_iter().collect(),
                    ))
                })
                .optional(1),
                Form::new(&[Bytes, Bytes, Int, Int], Give::Bytes, |row| {
                    Ok(Value::Bytes(overlay(row.bytes(0), row.bytes(1), row)?))
                })
                .optional(1),
            ],
        ),
        Function::new("strpos", position_forms()),
        Function::new("position", position_forms()),
        Function::new(
            "btrim",
            trim_forms(
                |row| trim(row, true, true),
                |row| trim_bytes(row, true, true),
            ),
        ),
        Function::new(
            "trim",
            trim_forms(
                |row| trim(row, true, true),
                |row| trim_bytes(row, true, true),
            ),
        ),
        Function::new(
            "ltrim",
            trim_forms(
                |row| trim(row, true, false),
                |row| trim_bytes(row, true, false),
            ),
        ),
        Function::new(
            "rtrim",
            trim_forms(
                |row| trim(row, false, true),
                |row| trim_bytes(row, false, true),
            ),
        ),
    ]
}

/// The number of characters kept of a text: `count`, or for a negative count all but `-count`.
fn kept(text: &str, count: i64) -> usize {
    let length = length(text);
    let asked = usize::try_from(count.unsigned_abs()).unwrap_or(usize::MAX);
    if count >= 0 {
        asked.min(length)
    } else {
        length.saturating_sub(asked)
    }
}

/// The number of characters in a text.
fn length(text: &str) -> usize {
    if text.is_ascii() {
        return text.len();
    }
    text.chars().count()
}

/// The characters from `start` (counted from 0) up to `end`.
fn slice(text: &str, start: usize, end: Option<usize>) -> &str {
    let end = end.map_or(usize::MAX, |end| end.max(start));
    if text.is_ascii() {
        return &text[start.min(text.len())..end.min(text.len())];
    }
    let places = || text.char_indices().map(|(at, _)| at);
    let first = places().nth(start).unwrap_or(text.len());
    let last = places().nth(end).unwrap_or(text.len());
    &text[first..last]
}

fn split_part<'a>(row: &Row<'a>) -> Result<Cow<'a, str>> {
    let (text, delimiter, field) = (row.text(0), row.text(1), row.int(2));
    if field == 0 {
        return Err(PgError::new("22023", "field position must not be zero").into());
    }
    let at = usize::try_from(field.unsigned_abs() - 1).unwrap_or(usize::MAX);
    let part = if delimiter.is_empty() {
        (at == 0).then_some(text)
    } else if field > 0 {
        text.split(delimiter).nth(at)
    } else {
        // From the front, because PostgreSQL finds overlapping delimiters from the front.
        let parts: Vec<&str> = text.split(delimiter).collect();
        parts.iter().rev().nth(at).copied()
    };
    Ok(part.unwrap_or_default().into())
}

fn substring_forms() -> Vec<Form> {
    vec![
        Form::text(&[Text, Int, Int], |row| {
            let (start, end) = range(row)?;
            Ok(slice(row.text(0), start, end).into())
        })
        .optional(1),
        Form::new(&[Bytes, Int, Int], Give::Bytes, |row| {
            let bytes = row.bytes(0);
            let (start, end) = range(row)?;
            let length = end.map_or(usize::MAX, |end| end.saturating_sub(start));
            let taken = bytes.iter().skip(start).take(length);
            Ok(Value::Bytes(taken.copied().collect()))
        })
        .optional(1),
        Form::new(
            &[Text, Text, Text],
            Give::Text,
            crate::functions::regex::substring,
        )
        .optional(1),
    ]
}

/// The range of characters to take, counted from 0.
fn range(row: &Row<'_>) -> Result<(usize, Option<usize>)> {
    let start = row.int(1);
    let end = match row.int_opt(2) {
        None => None,
        Some(length) if length < 0 => {
            return Err(PgError::new("22011", "negative substring length not allowed").into());
        }
        Some(length) => Some(start.saturating_add(length)),
    };
    let place = |at: i64| usize::try_from(at - 1).unwrap_or(0);
    Ok((place(start.max(1)), end.map(|end| place(end.max(1)))))
}

fn overlay<T: Copy>(old: &[T], new: &[T], row: &Row<'_>) -> Result<Vec<T>> {
    let wrong = || PgError::new("22011", "negative substring length not allowed");
    let start = row.int(2);
    let length = row.int_opt(3);
    let length = length.unwrap_or_else(|| i64::try_from(new.len()).unwrap_or(i64::MAX));
    if start <= 0 {
        return Err(wrong().into());
    }
    let before = usize::try_from(start - 1).unwrap_or(usize::MAX);
    let after = usize::try_from(start.saturating_add(length) - 1).unwrap_or(0);
    let mut out = old[..before.min(old.len())].to_vec();
    out.extend_from_slice(new);
    out.extend_from_slice(&old[after.min(old.len())..]);
    Ok(out)
}

fn position_forms() -> Vec<Form> {
    vec![
        Form::new(&[Text, Text], Give::Int4, |row| {
            let (text, part) = (row.text(0), row.text(1));
            let found = text.find(part);
            Ok(count(found.map_or(0, |at| text[..at].chars().count() + 1)))
        }),
        Form::new(&[Bytes, Bytes], Give::Int4, |row| {
            let (bytes, part) = (row.bytes(0), row.bytes(1));
            if part.is_empty() {
                return Ok(Value::Int(1));
            }
            let found = bytes.windows(part.len()).position(|window| window == part);
            Ok(count(found.map_or(0, |at| at + 1)))
        }),
    ]
}

fn trim_forms(text: TextBody, bytes: crate::functions::scalar::Body) -> Vec<Form> {
    vec![
        Form::text(&[Text, Text], text).optional(1),
        Form::new(&[Bytes, Bytes], Give::Bytes, bytes),
    ]
}

fn trim<'a>(row: &Row<'a>, start: bool, end: bool) -> Result<Cow<'a, str>> {
    let set = if row.len() > 1 { row.text(1) } else { " " };
    let mut text = row.text(0);
    if start {
        text = text.trim_start_matches(|letter| set.contains(letter));
    }
    if end {
        text = text.trim_end_matches(|letter| set.contains(letter));
    }
    Ok(text.into())
}

fn trim_bytes(row: &Row<'_>, start: bool, end: bool) -> Result<Value> {
    let (mut bytes, set) = (row.bytes(0), row.bytes(1));
    while let Some((first, rest)) = bytes.split_first()
        && start
        && set.contains(first)
    {
        bytes = rest;
    }
    while let Some((last, rest)) = bytes.split_last()
        && end
        && set.contains(last)
    {
        bytes = rest;
    }
    Ok(Value::Bytes(bytes.to_vec()))
}
