//! Which table does a statement name, how does the catalog write its names, and what does an error
//! say of it?

use std::sync::Arc;

use coscan_pg::PgError;
use datafusion::catalog::TableProvider;
use datafusion::common::{SchemaError, TableReference};
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::SessionState;
use datafusion::sql::planner::object_name_to_table_reference;
use datafusion::sql::sqlparser::ast::{
    Assignment, AssignmentTarget, FromTable, Ident, ObjectName, SetExpr, Statement, TableFactor,
    TableWithJoins, UpdateTableFromKind,
};

use super::refuse;

/// The tables of an UPDATE or a DELETE that have no alias, whose columns its subqueries may name.
pub(super) fn changed_tables(state: &SessionState, statement: &Statement) -> Vec<String> {
    let mut items: Vec<&TableWithJoins> = vec![];
    match statement {
        Statement::Query(query) => {
            if let SetExpr::Update(change) | SetExpr::Delete(change) = query.body.as_ref() {
                return changed_tables(state, change);
            }
        }
        Statement::Update(update) => {
            items.push(&update.table);
            if let Some(
                UpdateTableFromKind::BeforeSet(more) | UpdateTableFromKind::AfterSet(more),
            ) = &update.from
            {
                items.extend(more);
            }
        }
        Statement::Delete(delete) => {
            let (FromTable::WithFromKeyword(from) | FromTable::WithoutKeyword(from)) = &delete.from;
            items.extend(from.iter().chain(delete.using.iter().flatten()));
        }
        _ => {}
    }
    let names = items.into_iter().filter_map(|item| match &item.relation {
        TableFactor::Table {
            name, alias: None, ..
        } => Some(last_of(state, name)),
        _ => None,
    });
    names.collect()
}

/// The error of a subquery that names an unknown column of a changed table. DataFusion only knows
/// that the subquery has no such table. (The dialect marks those of a SELECT and those with an
/// alias, by which the error is recognized.)
pub(super) fn of_known_table(error: DataFusionError, tables: &[String]) -> DataFusionError {
    let DataFusionError::SchemaError(schema, _) = error.find_root() else {
        return error;
    };
    if let SchemaError::FieldNotFound { field, .. } = schema.as_ref()
        && let Some(table) = field.relation.as_ref().map(TableReference::table)
        && tables.iter().any(|known| known.eq_ignore_ascii_case(table))
    {
        let message = format!("column {table}.{} does not exist", field.name);
        return PgError::new("42703", message).into();
    }
    error
}

pub(super) async fn table_of(
    state: &SessionState,
    name: &ObjectName,
) -> Result<Option<(TableReference, Arc<dyn TableProvider>)>> {
    let normalize = state.config_options().sql_parser.enable_ident_normalization;
    let reference = object_name_to_table_reference(name.clone(), normalize)?;
    let Ok(schema) = state.schema_for_ref(reference.clone()) else {
        return Ok(None);
    };
    let table = schema.table(reference.table()).await?;
    Ok(table.map(|table| (reference, table)))
}

/// The table that an UPDATE or DELETE changes.
///
/// # Errors
/// 42P01 if there is none.
pub(super) async fn target_of(
    state: &SessionState,
    factor: &TableFactor,
) -> Result<Arc<dyn TableProvider>> {
    let TableFactor::Table { name, .. } = factor else {
        return refuse("0A000", "only tables can be changed");
    };
    match table_of(state, name).await? {
        Some((_, table)) => Ok(table),
        None => refuse("42P01", &format!("relation \"{name}\" does not exist")),
    }
}

pub(super) fn has_alias(factor: &TableFactor) -> bool {
    matches!(factor, TableFactor::Table { alias: Some(_), .. })
}

/// The last part of a name as the catalog has it: in lower case, unless it is quoted.
pub(super) fn last_of(state: &SessionState, name: &ObjectName) -> String {
    let folds = state.config_options().sql_parser.enable_ident_normalization;
    let part = name.0.last().and_then(|part| part.as_ident());
    part.map_or_else(String::new, |word| match word.quote_style {
        None if folds => word.value.to_ascii_lowercase(),
        _ => word.value.clone(),
    })
}

/// The name of the changed table, and the name that qualifies its columns.
pub(super) fn named(target: &TableWithJoins) -> Result<(ObjectName, Ident)> {
    let TableFactor::Table { name, alias, .. } = &target.relation else {
        return refuse("0A000", "only tables can be changed");
    };
    let own = match alias {
        Some(alias) => alias.name.clone(),
        // Not folded: like the name, it is still to be read.
        None => match name.0.last().and_then(|part| part.as_ident()) {
            Some(last) => last.clone(),
            None => return refuse("0A000", "only tables can be changed"),
        },
    };
    Ok((name.clone(), own))
}

/// Writes the column of an assignment as its table has it. DataFusion takes it as written.
pub(super) fn fold_target(state: &SessionState, assignment: &mut Assignment) {
    if let AssignmentTarget::ColumnName(column) = &mut assignment.target {
        let name = last_of(state, column);
        *column = ObjectName::from(Ident::with_quote('"', name));
    }
}
