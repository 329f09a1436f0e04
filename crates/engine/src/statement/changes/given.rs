//! Which columns may an INSERT or UPDATE give values that have a sequence?
//!
//! No SQL names the function that gives a sequence's numbers (`sequences.rs`), so where a statement
//! says DEFAULT for such a column, the column is left out, as if it had not been named.
//! Not here: other defaults (`defaults.rs`).

use coscan_pg::PgError;
use datafusion::catalog::TableProvider;
use datafusion::error::Result;
use datafusion::execution::SessionState;
use datafusion::sql::sqlparser::ast::{
    Assignment, AssignmentTarget, Expr, ObjectName, Query, SetExpr,
};

use super::tables::last_of;
use crate::statement::sequences::{Kind, NextNumber, sequence_of};

/// The kind of a column that has a sequence.
pub(super) fn kind_of(table: &dyn TableProvider, column: &str) -> Option<Kind> {
    let default = table.get_column_default(column)?;
    sequence_of(default).map(NextNumber::kind)
}

/// The columns of which no sequence gives the values.
pub(super) fn without_sequences(
    state: &SessionState,
    table: &dyn TableProvider,
    columns: &[ObjectName],
) -> Vec<ObjectName> {
    let others = columns.iter();
    let others = others.filter(|column| kind_of(table, &last_of(state, column)).is_none());
    others.cloned().collect()
}

/// Leaves out the columns for which all rows of VALUES have DEFAULT, and of which a sequence gives
/// the values. If that would be all, an INSERT of another column's default says the same.
pub(super) fn leave_out_sequences(
    state: &SessionState,
    table: &dyn TableProvider,
    names: &[ObjectName],
    columns: &mut Vec<ObjectName>,
    source: &mut Query,
) {
    // Beside these, PostgreSQL has no DEFAULT in VALUES, and they may name the columns by number.
    if source.order_by.is_some() || source.limit_clause.is_some() || source.fetch.is_some() {
        return;
    }
    let SetExpr::Values(values) = source.body.as_mut() else {
        return;
    };
    let width = values.rows.first().map_or(0, |row| row.content.len());
    let given = if columns.is_empty() {
        names.get(..width).unwrap_or_default()
    } else {
        columns.as_slice()
    };
    let mut rows = values.rows.iter();
    if given.is_empty() || rows.any(|row| row.content.len() != given.len()) {
        return;
    }
    let is_left_out = |at: usize| {
        let mut rows = values.rows.iter();
        kind_of(table, &last_of(state, &given[at])).is_some()
            && rows.all(|row| is_default(&row.content[at]))
    };
    let kept: Vec<usize> = (0..given.len()).filter(|at| !is_left_out(*at)).collect();
    if kept.len() == given.len() {
        return;
    }
    let mut left: Vec<ObjectName> = kept.iter().map(|at| given[*at].clone()).collect();
    let others = without_sequences(state, table, names);
    for row in &mut values.rows {
        let cells = std::mem::take(&mut row.content).into_iter().enumerate();
        let cells = cells.filter(|(at, _)| kept.contains(at) || (kept.is_empty() && *at == 0));
        row.content = cells.map(|(_, cell)| cell).collect();
    }
    if kept.is_empty() {
        // Without another column the sequence's own stays, which `default_of` refuses.
        left.push(others.first().unwrap_or(&given[0]).clone());
    }
    *columns = left;
}

/// Refuses values for an identity that is GENERATED ALWAYS.
pub(super) fn check_given(
    state: &SessionState,
    table: &dyn TableProvider,
    columns: &[ObjectName],
) -> Result<()> {
    for column in columns {
        let column = last_of(state, column);
        if kind_of(table, &column) == Some(Kind::Always) {
            let told = format!("cannot insert a non-DEFAULT value into column \"{column}\"");
            return Err(PgError::new("428C9", told).into());
        }
    }
    Ok(())
}

/// Refuses to assign a value to an identity that is GENERATED ALWAYS.
pub(super) fn check_assigned(
    state: &SessionState,
    assignment: &Assignment,
    table: &dyn TableProvider,
) -> Result<()> {
    if let AssignmentTarget::ColumnName(column) = &assignment.target {
        let column = last_of(state, column);
        if kind_of(table, &column) == Some(Kind::Always) && !is_default(&assignment.value) {
            let told = format!("column \"{column}\" can only be updated to DEFAULT");
            return Err(PgError::new("428C9", told).into());
        }
    }
    Ok(())
}

/// Whether a value is the word DEFAULT.
pub(super) fn is_default(value: &Expr) -> bool {
    matches!(value, Expr::Identifier(word)
        if word.quote_style.is_none() && word.value.eq_ignore_ascii_case("default"))
}
