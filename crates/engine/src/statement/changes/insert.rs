//! INSERT: which columns do its values belong to, and in which form do files hold them?
//!
//! Not here: what DEFAULT stands for (`defaults.rs`).

use arrow::datatypes::{DataType, Schema};
use coscan_pg::casts::Target;
use coscan_pg::dialect::uuid_in_file;
use datafusion::error::Result;
use datafusion::execution::SessionState;
use datafusion::sql::parser::Statement as DfStatement;
use datafusion::sql::sqlparser::ast::{
    Expr, Ident, Insert, ObjectName, Query, SelectItem, SetExpr, Statement, TableFactor,
    TableObject, TableWithJoins,
};

use super::by_query::template;
use super::defaults::{default_row, give_defaults};
use super::given::{check_given, leave_out_sequences, without_sequences};
use super::refuse;
use super::tables::{last_of, table_of};

/// The error for an INSERT for which no column is left.
const NOTHING_LEFT: &str = "DEFAULT VALUES for a table of sequences only is not supported";

/// Names an INSERT's columns, and replaces DEFAULT by its value.
pub(super) async fn complete(state: &SessionState, insert: &mut Insert) -> Result<()> {
    let TableObject::TableName(name) = &insert.table else {
        return Ok(());
    };
    // No clause can use the alias: neither ON CONFLICT nor RETURNING is supported.
    insert.table_alias = None;
    let Some((_, table)) = table_of(state, name).await? else {
        return Ok(());
    };
    let schema = table.schema();
    let names = schema
        .fields()
        .iter()
        .map(|field| Ident::with_quote('"', field.name()));
    let names: Vec<ObjectName> = names.map(ObjectName::from).collect();
    let Some(source) = &mut insert.source else {
        // DEFAULT VALUES.
        if insert.assignments.is_empty() && !names.is_empty() {
            let given = without_sequences(state, table.as_ref(), &names);
            if given.is_empty() {
                return refuse("0A000", NOTHING_LEFT);
            }
            insert.source = Some(Box::new(default_row(state, table.as_ref(), &given)?));
            insert.columns = given;
        }
        return Ok(());
    };
    leave_out_sequences(state, table.as_ref(), &names, &mut insert.columns, source);
    let columns = match insert.columns.as_slice() {
        [] => names.as_slice(),
        given => given,
    };
    give_defaults(state, table.as_ref(), columns, source)?;
    let given = match source.body.as_ref() {
        SetExpr::Values(values) => values.rows.first().map(|row| row.content.len()),
        _ if insert.columns.is_empty() => {
            let query = Statement::Query(source.clone());
            let plan = state.statement_to_plan(DfStatement::Statement(Box::new(query)));
            Some(plan.await?.schema().fields().len())
        }
        _ => None,
    };
    if let Some(given) = given {
        fit_columns(&mut insert.columns, &names, given)?;
    }
    let columns = if insert.columns.is_empty() {
        &names
    } else {
        &insert.columns
    };
    check_given(state, table.as_ref(), columns)?;
    let uuids: Vec<bool> = columns
        .iter()
        .map(|column| is_file_uuid(&schema, &last_of(state, column)))
        .collect();
    if uuids.contains(&true) {
        as_bytes(source, &uuids)?;
    }
    Ok(())
}

/// Checks that an INSERT has as many columns as values are given; if it names no columns, names
/// the first of them.
fn fit_columns(columns: &mut Vec<ObjectName>, names: &[ObjectName], given: usize) -> Result<()> {
    let known = if columns.is_empty() {
        names.len()
    } else {
        columns.len()
    };
    if given > known {
        return refuse("42601", "INSERT has more expressions than target columns");
    }
    if columns.is_empty() && given < known {
        *columns = names[..given].to_vec();
    } else if given < known {
        return refuse("42601", "INSERT has more target columns than expressions");
    }
    Ok(())
}

/// Whether a column holds a uuid as Parquet files do, in sixteen bytes.
fn is_file_uuid(schema: &Schema, column: &str) -> bool {
    let field = schema.field_with_name(column);
    field.is_ok_and(|field| {
        *field.data_type() == DataType::FixedSizeBinary(16)
            && Target::of_field(field) == Some(Target::Uuid)
    })
}

/// Converts text of the columns marked in `uuids` to the bytes of a uuid.
fn as_bytes(source: &mut Box<Query>, uuids: &[bool]) -> Result<()> {
    if let SetExpr::Values(values) = source.body.as_mut() {
        for row in &mut values.rows {
            for (value, _) in row
                .content
                .iter_mut()
                .zip(uuids)
                .filter(|(_, is_uuid)| **is_uuid)
            {
                *value = uuid_in_file(value.clone());
            }
        }
        return Ok(());
    }
    let names = (0..uuids.len()).map(|at| format!("c{at}"));
    let names: Vec<String> = names.collect();
    let text = format!("SELECT * FROM (SELECT 1) AS source ({})", names.join(", "));
    let mut query = template(&text)?;
    if let SetExpr::Select(select) = query.body.as_mut() {
        let items = names.iter().zip(uuids).map(|(name, is_uuid)| {
            let column = Expr::Identifier(Ident::new(name));
            SelectItem::UnnamedExpr(if *is_uuid {
                uuid_in_file(column)
            } else {
                column
            })
        });
        select.projection = items.collect();
        if let Some(TableWithJoins {
            relation: TableFactor::Derived { subquery, .. },
            ..
        }) = select.from.first_mut()
        {
            std::mem::swap(subquery, source);
        }
    }
    **source = query;
    Ok(())
}
