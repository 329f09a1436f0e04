//! PostgreSQL's functions about its catalog and session, for one connection.
//!
//! A function about objects that Coscan does not have answers as PostgreSQL does when there are
//! none: NULL for a comment, a default or a sequence. An unknown value (the size of a table) is
//! NULL too, never an invented number.

mod comments;
mod defaults;
mod format_type;
mod function;
mod oids;
mod privileges;
mod session;
mod signatures;
mod waiting;

use std::collections::HashMap;
use std::sync::{Arc, OnceLock};

use coscan::Notices;
use coscan::session_settings::Board;
use datafusion::arrow::datatypes::DataType;
use datafusion::prelude::SessionContext;
use datafusion::scalar::ScalarValue;

use self::comments::Comments;
use self::format_type::Types;
use self::function::{Function, Give, Optional, Row, Take, boolean, oid, text};
use self::signatures::Signature;
use super::model::Model;
use super::tables::Shipped;
use crate::advisory::Owner;

/// The data that the functions read.
#[derive(Clone)]
pub(super) struct Known {
    pub(super) model: Model,
    pub(super) shipped: Arc<Shipped>,
    pub(super) read: Arc<Read>,
    pub(super) board: Arc<Board>,
    pub(super) locks: Arc<Owner>,
    pub(super) notices: Arc<Notices>,
    /// The connection's process id.
    pub(super) pid: i32,
}

/// Data derived from the shipped tables when the first session asks, shared by all sessions.
#[derive(Default)]
pub(super) struct Read {
    types: OnceLock<Types>,
    procedures: OnceLock<HashMap<String, i32>>,
    signatures: OnceLock<HashMap<i32, Signature>>,
    comments: OnceLock<Comments>,
}

pub(super) fn register(session: &SessionContext, known: &Known) {
    let groups = [
        nothing(),
        plain(),
        oids::functions(known),
        comments::functions(known),
        privileges::functions(known),
        session::functions(known),
        waiting::functions(known),
    ];
    for function in groups.into_iter().flatten() {
        session.register_udf(function.into_udf());
    }
    for function in waiting::waiting(known) {
        session.register_udf(function);
    }
    coscan::session_settings::register_functions(session, &known.board);
}

use Take::{Bool, Number, NumberOrText, Text};

/// Functions about objects that Coscan does not have, and about sizes that it does not count.
fn nothing() -> Vec<Function> {
    let no_text = |name, takes, left| {
        Function::new(name, takes, Give::Text, |_: &Row<'_>| {
            Ok(text(None::<String>))
        })
        .optional(Optional::Last(left))
    };
    let no_number = |name, takes, left| {
        Function::new(name, takes, Give::Number, |_: &Row<'_>| {
            Ok(ScalarValue::Int64(None))
        })
        .optional(Optional::Last(left))
    };
    vec![
        no_text("shobj_description", &[Number, Text], 0),
        no_text("col_description", &[Number, Number], 0),
        no_text("pg_get_expr", &[Text, Number, Bool], 1),
        no_text("pg_get_serial_sequence", &[Text, Text], 0),
        no_text("pg_get_partkeydef", &[Number], 0),
        no_text("pg_get_partition_constraintdef", &[Number], 0),
        no_text("pg_get_indexdef", &[Number, Number, Bool], 2),
        no_text("pg_get_constraintdef", &[Number, Bool], 1),
        no_text("pg_get_triggerdef", &[Number, Bool], 1),
        no_text("pg_get_ruledef", &[Number, Bool], 1),
        no_text("pg_get_statisticsobjdef", &[Number], 0),
        no_text("pg_get_statisticsobjdef_columns", &[Number], 0),
        no_text("pg_get_functiondef", &[Number], 0),
        no_text("pg_get_function_sqlbody", &[Number], 0),
        no_number("pg_table_size", &[Number], 0),
        no_number("pg_relation_size", &[Number, Text], 1),
        no_number("pg_total_relation_size", &[Number], 0),
        no_number("pg_indexes_size", &[Number], 0),
        no_number("pg_database_size", &[NumberOrText], 0),
        no_number("pg_tablespace_size", &[NumberOrText], 0),
        no_number("pg_stat_get_numscans", &[Number], 0),
        no_number("txid_current", &[], 0),
    ]
}

/// Functions whose result depends on their arguments alone.
fn plain() -> Vec<Function> {
    vec![
        Function::new("pg_encoding_to_char", &[Number], Give::Text, |row| {
            Ok(text(
                row.number(0)
                    .map(|code| if code == 6 { "UTF8" } else { "" }),
            ))
        }),
        Function::new("pg_char_to_encoding", &[Text], Give::Number, |row| {
            let code = row.text(0).map(|name| {
                let utf8 = ["utf8", "utf-8", "unicode"].contains(&name.to_lowercase().as_str());
                if utf8 { 6 } else { -1 }
            });
            Ok(ScalarValue::Int64(code))
        }),
        // The tablespaces are PostgreSQL's own and have no location.
        Function::new("pg_tablespace_location", &[Number], Give::Text, |row| {
            Ok(text(row.number(0).map(|_| "")))
        }),
        Function::new("pg_size_pretty", &[Number], Give::Text, |row| {
            Ok(text(row.number(0).map(size_pretty)))
        }),
        Function::new("pg_relation_is_publishable", &[Number], Give::Bool, |row| {
            Ok(boolean(row.number(0).map(|_| false)))
        }),
        Function::new("pg_is_other_temp_schema", &[Number], Give::Bool, |row| {
            Ok(boolean(row.number(0).map(|_| false)))
        }),
        // Does nothing, like NOTIFY.
        Function::new("pg_notify", &[Text, Text], Give::Text, |_| {
            Ok(text(Some("")))
        }),
        // The catalog does not list the schema of temporary tables.
        Function::new("pg_my_temp_schema", &[], Give::Oid, |_| Ok(oid(Some(0)))),
    ]
}

/// Prints bytes in the smallest unit that gives a number below 10,240, or in the largest unit.
fn size_pretty(bytes: i64) -> String {
    const UNITS: &[&str] = &["bytes", "kB", "MB", "GB", "TB", "PB"];
    let (mut amount, mut unit) = (i128::from(bytes), 0);
    while amount.abs() >= 10 * 1024 && unit + 1 < UNITS.len() {
        // Rounds to the nearest number, halves away from zero.
        let half = if amount < 0 { -512 } else { 512 };
        amount = (amount + half) / 1024;
        unit += 1;
    }
    format!("{amount} {}", UNITS[unit])
}

/// A list of texts.
fn texts(values: &[String]) -> ScalarValue {
    let values: Vec<_> = values
        .iter()
        .map(|value| ScalarValue::from(value.as_str()))
        .collect();
    ScalarValue::List(ScalarValue::new_list(&values, &DataType::Utf8, true))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes() {
        assert_eq!(size_pretty(0), "0 bytes");
        assert_eq!(size_pretty(10_239), "10239 bytes");
        assert_eq!(size_pretty(10_240), "10 kB");
        assert_eq!(size_pretty(-20_000_000), "-19 MB");
    }
}
