//! Which changes are refused before they are planned?
//!
//! Forms that DataFusion ignores, and those that it refuses without PostgreSQL's code.

use datafusion::error::Result;
use datafusion::execution::SessionState;
use datafusion::logical_expr::TableType;
use datafusion::sql::sqlparser::ast::{
    AssignmentTarget, ColumnOption, CreateTable, Statement, TableConstraint, TruncateTableTarget,
    Update,
};

use super::given::kind_of;
use super::refuse;
use super::tables::{last_of, named, table_of};

/// Refuses forms that DataFusion ignores, and gives those that it refuses PostgreSQL's code.
///
/// # Errors
/// 0A000.
pub(super) fn check_supported(statement: &Statement) -> Result<()> {
    let returning = match statement {
        Statement::Insert(insert) if insert.on.is_some() => {
            return refuse("0A000", "INSERT … ON CONFLICT is not supported");
        }
        Statement::Insert(insert) => &insert.returning,
        Statement::Update(update) => &update.returning,
        Statement::Delete(delete) => &delete.returning,
        Statement::Merge(_) => return refuse("0A000", "MERGE is not supported"),
        Statement::CreateTable(create) => return check_columns(create),
        _ => &None,
    };
    match returning {
        Some(_) => refuse("0A000", "RETURNING is not supported"),
        None => Ok(()),
    }
}

fn check_columns(create: &CreateTable) -> Result<()> {
    let options = create.columns.iter().flat_map(|column| &column.options);
    for option in options {
        match option.option {
            ColumnOption::ForeignKey(_) => {
                return refuse("0A000", "foreign keys are not supported");
            }
            ColumnOption::Generated {
                generation_expr: Some(_),
                ..
            }
            | ColumnOption::Identity(_) => {
                return refuse("0A000", "generated columns are not supported");
            }
            _ => {}
        }
    }
    let mut constraints = create.constraints.iter();
    if constraints.any(|constraint| matches!(constraint, TableConstraint::ForeignKey(_))) {
        return refuse("0A000", "foreign keys are not supported");
    }
    Ok(())
}

/// Refuses to empty a view, and to restart sequences.
pub(super) async fn check_truncated(
    state: &SessionState,
    targets: &[TruncateTableTarget],
    restarts: bool,
) -> Result<()> {
    for TruncateTableTarget { name, .. } in targets {
        let Some((_, table)) = table_of(state, name).await? else {
            continue;
        };
        if table.table_type() == TableType::View {
            let told = format!("\"{}\" is not a table", last_of(state, name));
            return refuse("42809", &told);
        }
        let schema = table.schema();
        let mut names = schema.fields().iter().map(|field| field.name());
        if restarts && names.any(|column| kind_of(table.as_ref(), column).is_some()) {
            let told = "RESTART IDENTITY of a table with a sequence is not supported";
            return refuse("0A000", told);
        }
    }
    Ok(())
}

/// Refuses assignments whose column is qualified by its table.
///
/// # Errors
/// 42703.
pub(super) fn check_assignments(state: &SessionState, update: &Update) -> Result<()> {
    for assignment in &update.assignments {
        let columns = match &assignment.target {
            AssignmentTarget::ColumnName(column) => std::slice::from_ref(column),
            AssignmentTarget::Tuple(columns) => columns.as_slice(),
        };
        for column in columns {
            if let [first, _, ..] = column.0.as_slice() {
                let table = named(&update.table).map(|(name, _)| last_of(state, &name))?;
                let told = format!("column \"{first}\" of relation \"{table}\" does not exist");
                return refuse("42703", &told);
            }
        }
    }
    Ok(())
}
