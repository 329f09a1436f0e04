//! Plans DROP FUNCTION of functions that do not exist, as those of scripts usually do not: no
//! statement creates one.
//!
//! DataFusion knows a function by its name, refuses names with a schema, and says nothing of those
//! that IF EXISTS skips. The plan here names them as PostgreSQL's notice does, one a line, and
//! drops none; `session_names/statements/execute.rs` says that they are skipped.
//! Not here: functions that exist, which DataFusion drops.

use std::sync::Arc;

use coscan_pg::PgError;
use coscan_pg::casts::{named_in_errors, named_in_notices};
use datafusion::common::DFSchema;
use datafusion::error::Result;
use datafusion::execution::SessionState;
use datafusion::logical_expr::{DdlStatement, DropFunction, LogicalPlan};
use datafusion::sql::sqlparser::ast::{
    ArgMode, DataType, DropFunction as Dropped, FunctionDesc, Ident, ObjectName,
};

/// `None` if one of the functions exists.
///
/// # Errors
/// 42883 without IF EXISTS.
pub(super) fn plan(state: &SessionState, drop: &Dropped) -> Result<Option<LogicalPlan>> {
    if drop.func_desc.iter().any(|one| exists(state, &one.name)) {
        return Ok(None);
    }
    if let Some(first) = drop.func_desc.first()
        && !drop.if_exists
    {
        return Err(missing(first).into());
    }
    let names = drop.func_desc.iter().map(|one| {
        let types = types(one, named_in_notices).join(",");
        format!("{}({types})", folded(&one.name))
    });
    let names: Vec<String> = names.collect();
    Ok(Some(LogicalPlan::Ddl(DdlStatement::DropFunction(
        DropFunction {
            name: names.join("\n"),
            if_exists: true,
            schema: Arc::new(DFSchema::empty()),
        },
    ))))
}

/// Whether a session has a function of this name, whatever its arguments.
fn exists(state: &SessionState, name: &ObjectName) -> bool {
    let name = folded(name);
    let name = name.strip_prefix("pg_catalog.").unwrap_or(&name);
    state.scalar_functions().contains_key(name)
        || state.aggregate_functions().contains_key(name)
        || state.window_functions().contains_key(name)
        || state.table_functions().contains_key(name)
}

fn missing(one: &FunctionDesc) -> PgError {
    let name = folded(&one.name);
    let message = match one.args {
        None => format!("could not find a function named \"{name}\""),
        Some(_) => {
            let types = types(one, named_in_errors).join(", ");
            format!("function {name}({types}) does not exist")
        }
    };
    PgError::new("42883", message)
}

/// The types of the arguments that a function takes.
fn types(one: &FunctionDesc, named: fn(&DataType) -> String) -> Vec<String> {
    let taken = one.args.iter().flatten();
    let taken = taken.filter(|argument| argument.mode != Some(ArgMode::Out));
    taken.map(|argument| named(&argument.data_type)).collect()
}

fn folded(name: &ObjectName) -> String {
    let words = name.0.iter().filter_map(|part| part.as_ident());
    let words = words.map(|word: &Ident| match word.quote_style {
        Some(_) => word.value.clone(),
        None => word.value.to_lowercase(),
    });
    words.collect::<Vec<_>>().join(".")
}
