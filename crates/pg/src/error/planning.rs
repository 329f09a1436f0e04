//! Translates DataFusion's planning errors to PostgreSQL's messages.
//!
//! Each has PostgreSQL's SQLSTATE. An unknown text gets the general code of its class.

use super::PgError;
use super::types::{said_type, said_types};

/// Translates a one-line planning error.
pub(super) fn said(text: &str) -> Option<PgError> {
    let parts = [
        fixed,
        of_names,
        of_types,
        of_assignments,
        of_frames,
        of_numbers,
    ];
    parts.iter().find_map(|part| part(text))
}

/// Messages without variable parts.
fn fixed(text: &str) -> Option<PgError> {
    let (_, code, message) = SENTENCES.iter().find(|(part, ..)| text.contains(part))?;
    Some(PgError::new(code, *message))
}

/// A part of DataFusion's text, PostgreSQL's SQLSTATE, and its message.
const SENTENCES: [(&str, &str, &str); 15] = [
    (
        "Inconsistent data length across values list",
        "42601",
        "VALUES lists must all be the same length",
    ),
    (
        "Aggregate functions are not allowed in the WHERE clause",
        "42803",
        "aggregate functions are not allowed in WHERE",
    ),
    (
        "Aggregate function calls cannot be nested",
        "42803",
        "aggregate function calls cannot be nested",
    ),
    (
        "SELECT DISTINCT ON expressions must match initial ORDER BY expressions",
        "42P10",
        "SELECT DISTINCT ON expressions must match initial ORDER BY expressions",
    ),
    (
        "For SELECT DISTINCT, ORDER BY expressions",
        "42P10",
        "for SELECT DISTINCT, ORDER BY expressions must appear in select list",
    ),
    (
        "Too many columns! The subquery should only return one column",
        "42601",
        "subquery must return only one column",
    ),
    (
        "SELECT * with no tables specified is not valid",
        "42601",
        "SELECT * with no tables specified is not valid",
    ),
    (
        "Step cannot be zero",
        "22023",
        "step size cannot equal zero",
    ),
    (
        "WITHIN GROUP is only supported for ordered-set aggregate functions",
        "42809",
        "WITHIN GROUP is only supported for ordered-set aggregate functions",
    ),
    (
        "RANGE requires exactly one ORDER BY column",
        "42P20",
        "RANGE with offset PRECEDING/FOLLOWING requires exactly one ORDER BY column",
    ),
    (
        "GROUPS requires an ORDER BY clause",
        "42P20",
        "GROUPS mode requires an ORDER BY clause",
    ),
    (
        "start bound cannot be UNBOUNDED FOLLOWING",
        "42P20",
        "frame start cannot be UNBOUNDED FOLLOWING",
    ),
    (
        "end bound cannot be UNBOUNDED PRECEDING",
        "42P20",
        "frame end cannot be UNBOUNDED PRECEDING",
    ),
    // Constants that are negative once they are folded.
    ("LIMIT must be >= 0", "2201W", "LIMIT must not be negative"),
    ("OFFSET must be >=0", "2201X", "OFFSET must not be negative"),
];

/// Missing and duplicate names.
fn of_names(text: &str) -> Option<PgError> {
    if let Some(name) = between(text, "table '", "' not found") {
        let message = format!("relation \"{}\" does not exist", shortened(name));
        return Some(PgError::new("42P01", message));
    }
    if let Some(name) = between(text, "Invalid function '", "'")
        .or_else(|| between(text, "able function '", "' not found"))
    {
        if WINDOW_FUNCTIONS.contains(&name) {
            let message = format!("window function {name} requires an OVER clause");
            return Some(PgError::new("42809", message));
        }
        return Some(PgError::undefined_function(&format!("function {name}")));
    }
    if let Some(name) = text.strip_prefix("Invalid qualifier ") {
        return Some(PgError::missing_table(name));
    }
    if text.contains("must appear in the GROUP BY clause") || text.contains("in the SELECT list") {
        let name = between(text, "column \"", "\"")?;
        let message = format!(
            "column \"{name}\" must appear in the GROUP BY clause or be used in an aggregate function"
        );
        return Some(PgError::new("42803", message));
    }
    if text.starts_with("WITH query name ") {
        return Some(PgError::new("42712", text));
    }
    let name = between(text, "Unsupported compound identifier '", "'")?;
    let message = format!("improper qualified name (too many dotted names): {name}");
    Some(PgError::new("42601", message))
}

/// Functions that DataFusion does not find without OVER.
pub(crate) const WINDOW_FUNCTIONS: [&str; 8] = [
    "cume_dist",
    "dense_rank",
    "lag",
    "lead",
    "ntile",
    "percent_rank",
    "rank",
    "row_number",
];

/// Types for which there is no operator or function.
fn of_types(text: &str) -> Option<PgError> {
    let no_operator = |name: &str, left: &str, right: &str| {
        let (left, right) = (said_type(left), said_type(right));
        let message = format!("operator does not exist: {left} {name} {right}");
        PgError::new("42883", message)
    };
    let not_boolean = |of: &str, given: &str| {
        let given = said_type(given);
        let message = format!("argument of {of} must be type boolean, not type {given}");
        PgError::new("42804", message)
    };
    if let Some((function, given)) = between(text, "argument types '", "'.").and_then(|signature| {
        let (function, given) = signature.split_once('(')?;
        Some((function, given.strip_suffix(')')?))
    }) {
        if function == "array_element" {
            let given = said_types(given);
            let given = given.split(", ").next().unwrap_or(&given);
            let message =
                format!("cannot subscript type {given} because it does not support subscripting");
            return Some(PgError::new("42804", message));
        }
        let given = said_types(given);
        return Some(PgError::undefined_function(&format!(
            "function {function}({given})"
        )));
    }
    if let Some(rest) = text.strip_prefix("Cannot infer common argument type for ") {
        if let Some(rest) = rest.strip_prefix("logical boolean operation ") {
            let (op, (left, right)) = ["AND", "OR"]
                .iter()
                .find_map(|op| Some((op, rest.split_once(&format!(" {op} "))?)))?;
            let given = if left == "Boolean" { right } else { left };
            return Some(not_boolean(op, given));
        }
        let (_, rest) = rest.split_once("operation ")?;
        let (left, op, right) = OPERATORS.iter().find_map(|op| {
            rest.split_once(op)
                .map(|(left, right)| (left, op.trim(), right))
        })?;
        let op = if op == "!=" { "<>" } else { op };
        return Some(no_operator(op, left, right));
    }
    if let Some(given) =
        text.strip_prefix("Unary operator 'NOT' requires a boolean expression, got ")
    {
        return Some(not_boolean("NOT", given));
    }
    if let Some((clause, given)) = text
        .strip_prefix("Expected ")
        .and_then(|rest| rest.split_once(" to be an integer or null, but got "))
    {
        let given = said_type(given);
        let message = format!("argument of {clause} must be type bigint, not type {given}");
        return Some(PgError::new("42804", message));
    }
    if let Some(given) = text.strip_prefix("Join condition must be boolean type, but got ") {
        return Some(not_boolean("JOIN/ON", given));
    }
    if let Some((first, rest)) = text
        .strip_prefix("Incompatible inputs for Union: Previous inputs were of type ")
        .and_then(|rest| rest.split_once(", but got incompatible type "))
    {
        let (other, _) = rest.split_once(" on column ")?;
        let (first, other) = (said_type(first), said_type(other));
        let message = format!("UNION types {first} and {other} cannot be matched");
        return Some(PgError::new("42804", message));
    }
    if let Some((left, rest)) = text
        .strip_prefix("expr type ")
        .and_then(|rest| rest.split_once(" can't cast to "))
    {
        return Some(no_operator("=", left, rest.split_once(" in ")?.0));
    }
    if text.starts_with("Cannot create filter with non-boolean predicate") {
        let (_, given) = text.rsplit_once("' returning ")?;
        return Some(not_boolean("WHERE", given));
    }
    if let Some(rest) = text.strip_prefix("There isn't a common type to coerce ") {
        let (left, rest) = rest.split_once(" and ")?;
        let (right, like) = rest.split_once(" in ")?;
        let like = if like.starts_with("ILIKE") {
            "~~*"
        } else {
            "~~"
        };
        return Some(no_operator(like, left, right));
    }
    let rest = text.strip_prefix("Can not find compatible types to compare ")?;
    let (left, list) = rest.split_once(" with [")?;
    let right = list.strip_suffix(']')?;
    let other = right.split(", ").find(|right| *right != left)?;
    Some(no_operator("=", left, other))
}

/// Values that a column of INSERT or UPDATE cannot hold. The text does not name the column.
fn of_assignments(text: &str) -> Option<PgError> {
    let rest = text.strip_prefix("Cannot automatically convert ")?;
    let (given, wanted) = rest.split_once(" to ")?;
    let (given, wanted) = (said_type(given), said_type(wanted));
    let message = format!("column is of type {wanted} but expression is of type {given}");
    Some(PgError::new("42804", message))
}

/// Frames whose bounds are in the wrong order, whatever their offsets.
fn of_frames(text: &str) -> Option<PgError> {
    let bounds = text.strip_prefix("Invalid window frame: start bound (")?;
    let (start, end) = bounds.split_once(") cannot be larger than end bound (")?;
    let is_following = start.ends_with("FOLLOWING") && !end.contains("FOLLOWING");
    let from = match start {
        "CURRENT ROW" => "current row",
        _ if is_following => "following row",
        _ => return None,
    };
    let message = format!("frame starting from {from} cannot have preceding rows");
    Some(PgError::new("42P20", message))
}

const OPERATORS: [&str; 8] = [
    " = ",
    " != ",
    " <= ",
    " >= ",
    " < ",
    " > ",
    " IS DISTINCT FROM ",
    " || ",
];

/// Positions and numbers of columns.
fn of_numbers(text: &str) -> Option<PgError> {
    let outside = |clause: &str, place: &str| {
        let message = format!("{clause} position {place} is not in select list");
        PgError::new("42P10", message)
    };
    if let Some(place) = between(text, "Order by column out of bounds, specified: ", ",") {
        return Some(outside("ORDER BY", place));
    }
    if let Some(place) = between(
        text,
        "Cannot find column with position ",
        " in SELECT clause",
    ) {
        return Some(outside("GROUP BY", place));
    }
    if let Some((op, _)) = text.split_once(" queries have different number of columns") {
        let op = op.split(' ').next().unwrap_or(op);
        let message = format!("each {op} query must have the same number of columns");
        return Some(PgError::new("42601", message));
    }
    let (there, rest) = text
        .strip_prefix("Source table contains ")?
        .split_once(" columns but only ")?;
    let named = rest.strip_suffix(" names given as column alias")?;
    let message = format!("table has {there} columns available but {named} columns specified");
    Some(PgError::new("42P10", message))
}

/// The last part of a qualified name, or the whole name if it has a user's schema.
fn shortened(name: &str) -> &str {
    const PLACES: [&str; 5] = [
        "datafusion.public.",
        "datafusion.pg_temp.",
        "datafusion.",
        "public.",
        "pg_temp.",
    ];
    PLACES
        .iter()
        .find_map(|prefix| name.strip_prefix(prefix))
        .unwrap_or(name)
}

fn between<'a>(text: &'a str, before: &str, after: &str) -> Option<&'a str> {
    let (_, rest) = text.split_once(before)?;
    Some(rest.split_once(after)?.0)
}
