//! Forms of INSERT, UPDATE and TRUNCATE that DataFusion plans when they are written otherwise.
//!
//! | from | to |
//! |---|---|
//! | `WITH q AS (…) INSERT INTO t SELECT …` | `INSERT INTO t WITH q AS (…) SELECT …` |
//! | `UPDATE t SET (a, b) = (1, 2)`, `= ROW(1, 2)` | `UPDATE t SET a = 1, b = 2` |
//! | `UPDATE t SET a = 1, a = 2` | an error |
//! | `TRUNCATE ONLY t RESTART IDENTITY CASCADE` | `TRUNCATE t` |
//!
//! No table has others that inherit from it or refer to its keys, or a sequence of its own.
//! Not here: forms that need to know the table's columns (the engine's `statement/changes.rs`).

use std::collections::HashSet;

use datafusion::sql::sqlparser::ast::{
    Assignment, AssignmentTarget, SetExpr, Statement, Update, With,
};

use super::ast::{call, text};
use super::column_names::folded;
use super::rows::fields;
use crate::functions::FAIL;

pub(super) fn rewrite(statement: &mut Statement) {
    if let Statement::Query(query) = statement
        && let SetExpr::Insert(Statement::Insert(insert)) = query.body.as_mut()
    {
        if let (Some(with), Some(source)) = (query.with.take(), &mut insert.source) {
            source.with = Some(merged(with, source.with.take()));
        }
        *statement = Statement::Insert(insert.clone());
    }
    match statement {
        Statement::Update(update) => single_columns(update),
        Statement::Truncate(truncate) => {
            truncate.identity = None;
            truncate.cascade = None;
            for target in &mut truncate.table_names {
                target.only = false;
            }
        }
        Statement::Query(query) => {
            if let SetExpr::Update(Statement::Update(update)) = query.body.as_mut() {
                single_columns(update);
            }
        }
        _ => {}
    }
}

/// The queries of an inner WITH behind those of the outer one, which they may name.
pub(super) fn merged(mut outer: With, inner: Option<With>) -> With {
    if let Some(inner) = inner {
        outer.recursive |= inner.recursive;
        outer.cte_tables.extend(inner.cte_tables);
    }
    outer
}

fn single_columns(update: &mut Update) {
    let assignments = std::mem::take(&mut update.assignments);
    for Assignment { target, value } in assignments {
        match (target, fields(&value)) {
            (AssignmentTarget::Tuple(columns), Some(values)) if columns.len() == values.len() => {
                let pairs = columns.into_iter().zip(values);
                update
                    .assignments
                    .extend(pairs.map(|(column, value)| Assignment {
                        target: AssignmentTarget::ColumnName(column),
                        value,
                    }));
            }
            (target, _) => update.assignments.push(Assignment { target, value }),
        }
    }
    let mut known = HashSet::new();
    for Assignment { target, value } in &mut update.assignments {
        let AssignmentTarget::ColumnName(column) = target else {
            continue;
        };
        let last = column.0.last().and_then(|part| part.as_ident());
        if let Some(name) = last.map(folded)
            && !known.insert(name.clone())
        {
            let message = format!("multiple assignments to same column \"{name}\"");
            *value = call(FAIL, vec![text("42601"), text(&message)]);
        }
    }
}
