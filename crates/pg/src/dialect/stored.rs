//! Statements that store rows: INSERT, CREATE TABLE AS, COPY to a file.
//!
//! What they read from a table of files keeps the file's times, so that they are stored as they
//! were (`planners/file_types.rs`).

use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    CopySource, CopyTarget, Expr, Ident, Query, Statement, TableFactor, VisitMut, VisitorMut,
};

use super::ast::call;
use crate::functions::text::UUID_BYTES;

/// A uuid as a file's column holds it.
#[must_use]
pub fn uuid_in_file(uuid: Expr) -> Expr {
    call(UUID_BYTES, vec![uuid])
}

/// Marks a table whose columns stay as they are stored. (DataFusion ignores partitions.)
pub(crate) const AS_STORED: &str = "__as_stored";

/// Marks the tables that a statement reads to store their rows.
pub fn keep_stored_types(statement: &mut Statement) {
    match statement {
        Statement::Insert(insert) => {
            if let Some(source) = &mut insert.source {
                as_stored(source);
            }
        }
        Statement::CreateTable(create) => {
            if let Some(query) = &mut create.query {
                as_stored(query);
            }
        }
        Statement::Copy {
            source: CopySource::Query(query),
            target: CopyTarget::File { .. },
            ..
        } => as_stored(query),
        _ => {}
    }
}

/// Marks the tables that a query reads: they have the types of their files.
pub fn as_stored(query: &mut Query) {
    let _ = query.visit(&mut Mark);
}

struct Mark;

impl VisitorMut for Mark {
    type Break = ();

    fn pre_visit_table_factor(&mut self, factor: &mut TableFactor) -> ControlFlow<()> {
        if let TableFactor::Table {
            args: None,
            partitions,
            ..
        } = factor
        {
            partitions.push(Ident::new(AS_STORED));
        }
        ControlFlow::Continue(())
    }
}
