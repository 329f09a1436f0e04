//! Comments on PostgreSQL's own objects: `obj_description`, from the rows of `pg_description`.
//!
//! Coscan's own objects have no comments.

use std::collections::HashMap;
use std::sync::Arc;

use datafusion::arrow::array::AsArray;
use datafusion::arrow::datatypes::Int32Type;
use datafusion::arrow::record_batch::RecordBatch;

use super::Known;
use super::Take::{Number, Text};
use super::function::{Function, Give, Optional, text};
use crate::catalog::model::fixed_oid;

/// For each object's oid: the oid of the `pg_catalog` table that lists the object, and the
/// comment.
pub(super) type Comments = HashMap<i32, Vec<(i32, String)>>;

pub(super) fn functions(known: &Known) -> Vec<Function> {
    let (shipped, read) = (Arc::clone(&known.shipped), Arc::clone(&known.read));
    let function = Function::new("obj_description", &[Number, Text], Give::Text, move |row| {
        let comments = read.comments.get_or_init(|| of(&shipped.descriptions));
        let all = row.oid(0).and_then(|oid| comments.get(&oid));
        let table = row.text(1).map(fixed_oid);
        let found = all.into_iter().flatten().find(|(listed, _)| {
            // Without a table, any object with this oid will do, as in PostgreSQL.
            table.is_none_or(|table| table == Some(*listed))
        });
        Ok(text(found.map(|(_, comment)| comment.as_str())))
    });
    vec![function.optional(Optional::Last(1))]
}

fn of(descriptions: &RecordBatch) -> Comments {
    let numbers = |name: &str| {
        let column = descriptions.column_by_name(name)?;
        column.as_primitive_opt::<Int32Type>()
    };
    let texts = descriptions.column_by_name("description");
    let texts = texts.and_then(|column| column.as_string_opt::<i32>());
    let mut comments = Comments::new();
    if let (Some(objects), Some(tables), Some(columns), Some(texts)) = (
        numbers("objoid"),
        numbers("classoid"),
        numbers("objsubid"),
        texts,
    ) {
        for row in (0..descriptions.num_rows()).filter(|row| columns.value(*row) == 0) {
            let comment = (tables.value(row), texts.value(row).to_owned());
            comments
                .entry(objects.value(row))
                .or_default()
                .push(comment);
        }
    }
    comments
}
