//! Statements that store rows: INSERT, CREATE TABLE AS, COPY to a file.
//!
//! A table of files that they read keeps the types of its files, so that values such as times are
//! stored unchanged (`file_types.rs`).

use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    CopySource, CopyTarget, Expr, Ident, Query, Statement, TableFactor, VisitorMut,
};

use super::ast::call;
use crate::functions::text::UUID_BYTES;
use crate::visits::Walk;

/// A uuid as the column of a file stores it.
#[must_use]
pub fn uuid_in_file(uuid: Expr) -> Expr {
    call(UUID_BYTES, vec![uuid])
}

/// Marks a table whose columns keep the types in which they are stored. (DataFusion ignores
/// partitions.)
pub(crate) const AS_STORED: &str = "__as_stored";

/// Marks the tables that a statement reads in order to store their rows.
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

/// Marks the tables that a query reads, so that they keep the types of their files.
pub fn as_stored(query: &mut Query) {
    let _ = query.walk(&mut Mark);
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
