//! Forms of INSERT and UPDATE that DataFusion plans when they are written otherwise.
//!
//! | from | to |
//! |---|---|
//! | `WITH q AS (…) INSERT INTO t SELECT …` | `INSERT INTO t WITH q AS (…) SELECT …` |
//! | `UPDATE t SET (a, b) = (1, 2)` | `UPDATE t SET a = 1, b = 2` |
//!
//! Not here: forms that need to know the table's columns (the engine's `statement/changes.rs`).

use datafusion::sql::sqlparser::ast::{
    Assignment, AssignmentTarget, Expr, SetExpr, Statement, Update, With,
};

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
        match (target, value) {
            (AssignmentTarget::Tuple(columns), Expr::Tuple(values))
                if columns.len() == values.len() =>
            {
                let pairs = columns.into_iter().zip(values);
                update
                    .assignments
                    .extend(pairs.map(|(column, value)| Assignment {
                        target: AssignmentTarget::ColumnName(column),
                        value,
                    }));
            }
            (target, value) => update.assignments.push(Assignment { target, value }),
        }
    }
}
