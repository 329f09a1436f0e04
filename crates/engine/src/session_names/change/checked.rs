//! Which query says whether the rows of an INSERT or UPDATE violate a CHECK constraint?
//!
//! Idea: the statement's own query computes a column for each check, after the columns that are
//! written and over the values that the table would store. So a condition means the same as in
//! SELECT, and what a volatile function has given is checked as it is stored.
//! Not here: who reads these columns (`../table.rs` of an INSERT, `apply.rs` of an UPDATE), and
//! what a check is (`../../statement/checks.rs`).

use std::sync::Arc;

use arrow::datatypes::{Field, Schema};
use datafusion::catalog::TableProvider;
use datafusion::common::metadata::FieldMetadata;
use datafusion::common::{Column, TableReference};
use datafusion::error::Result;
use datafusion::logical_expr::dml::DmlStatement;
use datafusion::logical_expr::{Expr, LogicalPlan, Projection};

use super::super::table::MemoryTable;

/// The name of the column that has the new values of the column of this index.
pub(super) fn new_name(column: usize) -> String {
    format!("new_{column}")
}

/// The rows of an INSERT with the columns of the checks; `None` if there is no check, or the rows
/// have the columns already.
pub(super) fn inserted(dml: &DmlStatement, table: &MemoryTable) -> Result<Option<LogicalPlan>> {
    let (schema, rows) = (table.schema(), dml.input.schema());
    if table.checks().is_empty() || rows.fields().len() != schema.fields().len() {
        return Ok(None);
    }
    let values = rows.columns().into_iter().zip(schema.fields());
    let values = values.map(|(column, field)| {
        let name = column.name.clone();
        marked(Expr::Column(column), name, field)
    });
    let rows = Projection::try_new(values.collect(), Arc::clone(&dml.input))?;
    let columns = rows.schema.columns().into_iter();
    let mut output: Vec<Expr> = columns.map(Expr::Column).collect();
    let checks = violations(table, &output)?;
    output.extend(checks);
    let rows = Projection::try_new(output, Arc::new(LogicalPlan::Projection(rows)))?;
    Ok(Some(LogicalPlan::Projection(rows)))
}

/// The rows of an UPDATE, `output` over `rows`, with the columns of the checks. `changed` are the
/// columns whose new values `output` has; `relation` qualifies the table's columns in `rows`.
pub(super) fn updated(
    mut output: Vec<Expr>,
    rows: LogicalPlan,
    changed: &[usize],
    table: &MemoryTable,
    relation: Option<&TableReference>,
) -> Result<Projection> {
    if table.checks().is_empty() {
        return Projection::try_new(output, Arc::new(rows));
    }
    let (schema, width) = (table.schema(), output.len());
    let place = width - changed.len();
    for (value, at) in output.iter_mut().skip(place).zip(changed) {
        *value = marked(value.clone().unalias(), new_name(*at), schema.field(*at));
    }
    let mut values = Vec::with_capacity(schema.fields().len());
    for (at, field) in schema.fields().iter().enumerate() {
        let name = if changed.contains(&at) {
            new_name(at)
        } else {
            let own = Expr::Column(Column::new(relation.cloned(), field.name()));
            let name = format!("old_{at}");
            output.push(own.alias(&name));
            name
        };
        values.push(Expr::Column(Column::new_unqualified(name)));
    }
    let rows = Projection::try_new(output, Arc::new(rows))?;
    let written = rows.schema.columns().into_iter().take(width);
    let mut output: Vec<Expr> = written.map(Expr::Column).collect();
    output.extend(violations(table, &values)?);
    Projection::try_new(output, Arc::new(LogicalPlan::Projection(rows)))
}

/// A value of a column of the table with the mark of the column's type, which NULL does not have:
/// a condition is typed by the marks of its columns.
fn marked(value: Expr, name: String, column: &Field) -> Expr {
    let marks = column.metadata();
    let marks = (!marks.is_empty()).then(|| FieldMetadata::from(marks));
    value.alias_with_metadata(name, marks)
}

/// A column for each check that says whether a row violates it. `values` has the value of each
/// column of the table.
fn violations(table: &MemoryTable, values: &[Expr]) -> Result<Vec<Expr>> {
    let schema = table.schema();
    let checks = table.checks().iter().enumerate();
    let violations = checks.map(|(number, check)| {
        let violated = check.violation(|column| Ok(values[schema.index_of(column)?].clone()))?;
        Ok(violated.alias(name_of(number, &schema)))
    });
    violations.collect()
}

/// The name of a check's column, different from those of the table.
fn name_of(number: usize, schema: &Schema) -> String {
    let mut name = format!("violates_{number}");
    while schema.column_with_name(&name).is_some() {
        name.push('_');
    }
    name
}
