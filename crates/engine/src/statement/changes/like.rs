//! CREATE TABLE (LIKE …): the empty table of another one's columns.

use std::sync::Arc;

use arrow::datatypes::{Fields, Schema};
use coscan_pg::{open_undeclared, unknown_as_text};
use datafusion::common::{Constraint, Constraints, DFSchema};
use datafusion::error::Result;
use datafusion::execution::SessionState;
use datafusion::logical_expr::{CreateMemoryTable, DdlStatement, EmptyRelation, LogicalPlan};
use datafusion::sql::planner::object_name_to_table_reference;
use datafusion::sql::sqlparser::ast::{CreateTable, CreateTableLike, CreateTableLikeDefaults};

use super::refuse;
use super::tables::{last_of, table_of};
use crate::statement::sequences::is_identity;

/// A table with the columns of another one. NOT NULL is always copied, keys are not.
pub(super) async fn table_like(
    state: &SessionState,
    create: &CreateTable,
    like: &CreateTableLike,
    temporary: bool,
) -> Result<LogicalPlan> {
    let Some((_, table)) = table_of(state, &like.name).await? else {
        let told = format!("relation \"{}\" does not exist", last_of(state, &like.name));
        return refuse("42P01", &told);
    };
    let (fields, is_view) = match table.get_logical_plan() {
        Some(view) => (
            unknown_as_text(open_undeclared(view.into_owned())?)?
                .schema()
                .fields()
                .clone(),
            true,
        ),
        None => (table.schema().fields().clone(), false),
    };
    let keys = table.constraints().into_iter().flat_map(|all| all.iter());
    let primary = keys.filter_map(|key| match key {
        Constraint::PrimaryKey(columns) => Some(columns.as_slice()),
        Constraint::Unique(_) => None,
    });
    let primary = primary.flatten().copied().collect::<Vec<_>>();
    let fields: Fields = fields
        .iter()
        .enumerate()
        .map(|(at, field)| {
            let is_nullable = is_view || (field.is_nullable() && !primary.contains(&at));
            field.as_ref().clone().with_nullable(is_nullable)
        })
        .collect();
    let mut column_defaults = vec![];
    if matches!(like.defaults, Some(CreateTableLikeDefaults::Including)) {
        for field in &fields {
            let default = table.get_column_default(field.name());
            // PostgreSQL copies an identity with INCLUDING IDENTITY only.
            let default = default.filter(|default| !is_identity(default));
            column_defaults.extend(default.map(|default| (field.name().clone(), default.clone())));
        }
    }
    let normalize = state.config_options().sql_parser.enable_ident_normalization;
    let columns = EmptyRelation {
        produce_one_row: false,
        schema: Arc::new(DFSchema::try_from(Schema::new(fields))?),
    };
    let create = CreateMemoryTable {
        name: object_name_to_table_reference(create.name.clone(), normalize)?,
        constraints: Constraints::default(),
        input: Arc::new(LogicalPlan::EmptyRelation(columns)),
        if_not_exists: create.if_not_exists,
        or_replace: create.or_replace,
        column_defaults,
        temporary,
    };
    Ok(LogicalPlan::Ddl(DdlStatement::CreateMemoryTable(create)))
}
