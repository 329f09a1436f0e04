//! Which columns does COPY write into a file of DataFusion's formats?
//!
//! The columns get PostgreSQL's names, without the marks by which the dialect makes them unique.
//! JSON has no types for times and bytes, so COPY writes PostgreSQL's texts of them. (Arrow's JSON
//! writer writes the text of its error in place of an infinite date.)
//!
//! Not here: text, CSV and binary as PostgreSQL writes them (`coscan-server`'s `copy_file.rs`).

use std::collections::HashSet;
use std::sync::Arc;

use arrow::datatypes::DataType;
use coscan_pg::PgError;
use coscan_pg::casts::CAST;
use coscan_pg::dialect::on_the_wire;
use datafusion::common::{Column, internal_datafusion_err};
use datafusion::error::Result;
use datafusion::execution::SessionState;
use datafusion::logical_expr::dml::CopyTo;
use datafusion::logical_expr::{Expr, LogicalPlanBuilder, lit};

/// The formats in which columns have unique names.
const FORMATS: [&str; 4] = ["arrow", "csv", JSON, "parquet"];
const JSON: &str = "json";

/// Gives the columns of a COPY their names and, for JSON, their texts.
///
/// # Errors
/// 42701 if two columns have one name.
pub(crate) fn with_postgres_columns(state: &SessionState, mut copy: CopyTo) -> Result<CopyTo> {
    let format = copy.file_type.get_ext();
    if !FORMATS.contains(&format.as_str()) {
        return Ok(copy);
    }
    let mut names = HashSet::new();
    let mut columns = vec![];
    let mut differs = false;
    for (table, field) in copy.input.schema().iter() {
        let name = on_the_wire(field.name());
        if !names.insert(name) {
            let text = format!("column \"{name}\" specified more than once");
            return Err(PgError::new("42701", text).into());
        }
        let column = Expr::Column(Column::from((table, field)));
        let value = match field.data_type() {
            _ if format != JSON => None,
            DataType::Timestamp(..) => Some(iso(state, column.clone())?),
            DataType::List(element) if has_no_json(element.data_type()) => {
                Some(call(state, CAST, vec![column.clone(), lit("text[]")])?)
            }
            held if has_no_json(held) => {
                Some(call(state, CAST, vec![column.clone(), lit("text")])?)
            }
            _ => None,
        };
        differs |= value.is_some() || name != field.name();
        columns.push(value.unwrap_or(column).alias(name));
    }
    if differs {
        let input = Arc::unwrap_or_clone(copy.input);
        let input = LogicalPlanBuilder::from(input).project(columns)?;
        copy.input = Arc::new(input.build()?);
    }
    Ok(copy)
}

fn has_no_json(held: &DataType) -> bool {
    match held {
        DataType::List(element) => has_no_json(element.data_type()),
        held => held.is_temporal() || held.is_binary(),
    }
}

/// A timestamp as text with a `T` between date and time, as in PostgreSQL's JSON.
fn iso(state: &SessionState, timestamp: Expr) -> Result<Expr> {
    let json = call(state, "to_json", vec![timestamp])?;
    let text = call(state, CAST, vec![json, lit("text")])?;
    call(state, "btrim", vec![text, lit("\"")])
}

fn call(state: &SessionState, name: &str, arguments: Vec<Expr>) -> Result<Expr> {
    let function = state.scalar_functions().get(name);
    let function = function.ok_or_else(|| internal_datafusion_err!("there is no {name}()"))?;
    Ok(function.call(arguments))
}
