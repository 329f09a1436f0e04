//! Translates DataFusion's errors to PostgreSQL's SQLSTATEs and messages.
//!
//! Drivers act on the SQLSTATE (retry, reconnect, choose an exception class). Where DataFusion's
//! error is only a text, the text determines the code (`wording.rs`); if the wording changes, the
//! code becomes the general one of its class, never a wrong one.

use std::error::Error;

use datafusion::arrow::error::ArrowError;
use datafusion::common::{Column, SchemaError};
use datafusion::error::DataFusionError;
use datafusion::sql::sqlparser::parser::ParserError;

use super::{PgError, wording};
use crate::names::{is_marked, on_the_wire};

/// Translates an error. `foreign` returns the SQLSTATE of errors unknown to this crate: those of
/// the engine.
#[must_use]
pub fn translate(error: &DataFusionError, foreign: &Foreign<'_>) -> PgError {
    if let Some(ours) = PgError::of(error) {
        return ours.clone();
    }
    match error {
        DataFusionError::Context(text, inner) if wording::names_a_rule(text) => {
            translate(inner, foreign)
        }
        DataFusionError::Diagnostic(_, inner) => translate(inner, foreign),
        DataFusionError::Shared(inner) => translate(inner, foreign),
        DataFusionError::Collection(errors) => several(errors, foreign),
        DataFusionError::SchemaError(schema, _) => schema_error(schema),
        DataFusionError::Plan(text) => wording::plan(text),
        DataFusionError::Execution(text) => wording::execution(text),
        DataFusionError::NotImplemented(text) => wording::not_implemented(text),
        DataFusionError::ArrowError(arrow, _) => arrow_error(arrow, foreign),
        DataFusionError::External(inner) => external(inner.as_ref(), foreign),
        other => PgError::new(code(other, foreign), message(other)),
    }
}

/// Returns the SQLSTATE of an error, if known.
pub type Foreign<'a> = dyn Fn(&(dyn Error + 'static)) -> Option<&'static str> + 'a;

fn several(errors: &[DataFusionError], foreign: &Foreign<'_>) -> PgError {
    let mut said = errors.iter().map(|error| translate(error, foreign));
    let Some(first) = said.next() else {
        return PgError::new(INTERNAL, "an error without a reason");
    };
    let mut message = first.message.clone();
    for other in said.filter(|other| *other != first) {
        message = format!("{message}; {}", other.message);
    }
    PgError::new(first.code, message)
}

fn schema_error(error: &SchemaError) -> PgError {
    let shown = |column: &Column| match &column.relation {
        Some(table) => {
            let (table, name) = (on_the_wire(table.table()), on_the_wire(&column.name));
            format!("column {table}.{name}")
        }
        None => format!("column \"{}\"", on_the_wire(&column.name)),
    };
    match error {
        SchemaError::FieldNotFound {
            field,
            valid_fields,
        } => {
            // Columns with the same name have a mark after it (`relations/names.rs`).
            let of_name =
                |known: &&Column| is_marked(&known.name) && on_the_wire(&known.name) == field.name;
            if valid_fields.iter().filter(of_name).count() > 1 {
                let message = format!("column reference \"{}\" is ambiguous", field.name);
                return PgError::new("42702", message);
            }
            let of = |column: &Column| column.relation.clone();
            match of(field) {
                Some(table)
                    if !is_marked(table.table())
                        && !valid_fields.is_empty()
                        && valid_fields
                            .iter()
                            .all(|valid| of(valid).as_ref() != Some(&table)) =>
                {
                    PgError::missing_table(table.table())
                }
                _ => PgError::new("42703", format!("{} does not exist", shown(field))),
            }
        }
        SchemaError::AmbiguousReference { field } => {
            let message = format!("column reference \"{}\" is ambiguous", field.name);
            PgError::new("42702", message)
        }
        SchemaError::DuplicateQualifiedField { qualifier, .. } => {
            let message = format!(
                "table name \"{}\" specified more than once",
                qualifier.table()
            );
            PgError::new("42712", message)
        }
        SchemaError::DuplicateUnqualifiedField { name } => {
            let message = format!("column \"{name}\" specified more than once");
            PgError::new("42701", message)
        }
    }
}

fn external(error: &(dyn Error + 'static), foreign: &Foreign<'_>) -> PgError {
    if let Some(code) = foreign(error) {
        return PgError::new(code, with_causes(error));
    }
    if let Some(inner) = error.downcast_ref::<DataFusionError>() {
        return translate(inner, foreign);
    }
    if let Some(inner) = error.downcast_ref::<ArrowError>() {
        return arrow_error(inner, foreign);
    }
    let code = if is_full_disk(error) {
        DISK_FULL
    } else {
        "58000"
    };
    PgError::new(code, with_causes(error))
}

fn arrow_error(error: &ArrowError, foreign: &Foreign<'_>) -> PgError {
    match error {
        ArrowError::DivideByZero => PgError::division_by_zero(),
        ArrowError::ArithmeticOverflow(text) => wording::overflow(text),
        ArrowError::CastError(text) | ArrowError::ParseError(text) => wording::cast(text),
        ArrowError::ComputeError(text) => wording::execution(text),
        ArrowError::ExternalError(inner) => external(inner.as_ref(), foreign),
        ArrowError::NotYetImplemented(text) => PgError::new("0A000", text.clone()),
        ArrowError::MemoryError(_) => PgError::new(OUT_OF_MEMORY, error.to_string()),
        ArrowError::ParquetError(_) => PgError::new("XX001", error.to_string()),
        ArrowError::IoError(..) if is_full_disk(error) => {
            PgError::new(DISK_FULL, error.to_string())
        }
        ArrowError::IoError(..) => PgError::new("58030", error.to_string()),
        _ => PgError::new("22000", error.to_string()),
    }
}

fn code(error: &DataFusionError, foreign: &Foreign<'_>) -> &'static str {
    match error {
        DataFusionError::SQL(parser, _) => match parser.as_ref() {
            ParserError::RecursionLimitExceeded => "54001",
            _ => "42601",
        },
        DataFusionError::Configuration(text) => wording::configuration(text),
        // If an operator spills to a full disk, the error is one of exhausted resources.
        DataFusionError::ResourcesExhausted(text) if wording::says_disk_full(text) => DISK_FULL,
        DataFusionError::ResourcesExhausted(_) => OUT_OF_MEMORY,
        DataFusionError::ParquetError(_) => "XX001",
        DataFusionError::IoError(error) if is_full_disk(error) => DISK_FULL,
        DataFusionError::IoError(_) => "58030",
        DataFusionError::ObjectStore(store) if store.to_string().contains("not found") => "58P01",
        DataFusionError::ObjectStore(store) if is_full_disk(store.as_ref()) => DISK_FULL,
        DataFusionError::ObjectStore(_) => "58030",
        DataFusionError::Context(_, inner) => translate(inner, foreign).code,
        _ => INTERNAL,
    }
}

/// The innermost message, in one line, without DataFusion's backtrace.
fn message(error: &DataFusionError) -> String {
    match error {
        DataFusionError::SQL(parser, _) => parser
            .to_string()
            .trim_start_matches("sql parser error: ")
            .to_owned(),
        other => other.strip_backtrace(),
    }
}

/// An error and its sources, each added if it says more than its parent.
fn with_causes(error: &(dyn Error + 'static)) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    for _ in 0..CAUSES_MAX {
        let Some(cause) = source else { break };
        let said = cause.to_string();
        if !text.contains(&said) {
            text = format!("{text}: {said}");
        }
        source = cause.source();
    }
    text
}

/// Whether a full disk caused an error.
fn is_full_disk(error: &(dyn Error + 'static)) -> bool {
    let mut at = Some(error);
    for _ in 0..CAUSES_MAX {
        let Some(error) = at else { return false };
        let full = error
            .downcast_ref::<std::io::Error>()
            .is_some_and(|error| error.kind() == std::io::ErrorKind::StorageFull);
        if full || wording::says_disk_full(&error.to_string()) {
            return true;
        }
        at = error.source();
    }
    false
}

/// Out of memory.
const OUT_OF_MEMORY: &str = "53200";
const DISK_FULL: &str = "53100";
const INTERNAL: &str = "XX000";
/// The maximum number of causes in a message; longer chains add nothing.
const CAUSES_MAX: usize = 8;

#[cfg(test)]
mod tests {
    use super::*;

    fn said(error: &DataFusionError) -> (&'static str, String) {
        let said = translate(error, &|_| None);
        (said.code, said.message)
    }

    #[test]
    fn the_failed_rule_is_not_shown() {
        let arrow =
            ArrowError::CastError("Cannot cast string 'abc' to value of Int32 type".to_owned());
        let inner = DataFusionError::ArrowError(Box::new(arrow), None);
        let rule = "Optimizer rule 'simplify_expressions' failed".to_owned();
        let wrapped = DataFusionError::Context(rule, Box::new(inner));
        let message = "invalid input syntax for type integer: \"abc\"".to_owned();
        assert_eq!(said(&wrapped), ("22P02", message));
    }

    #[test]
    fn the_context_of_a_file_is_kept() {
        let inner = DataFusionError::Execution("no such page".to_owned());
        let wrapped = DataFusionError::Context("file x.parquet".to_owned(), Box::new(inner));
        assert!(said(&wrapped).1.contains("x.parquet"));
    }

    #[test]
    fn a_value_that_a_column_cannot_hold_has_the_wrong_type() {
        let text = "Cannot automatically convert Date32 to List(Int32)".to_owned();
        let message = "column is of type integer[] but expression is of type date".to_owned();
        assert_eq!(said(&DataFusionError::Plan(text)), ("42804", message));
    }

    #[test]
    fn a_full_disk_is_recognized_by_its_kind() {
        let full = std::io::Error::from(std::io::ErrorKind::StorageFull);
        assert_eq!(said(&DataFusionError::IoError(full)).0, "53100");
    }
}
