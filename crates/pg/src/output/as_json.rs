//! Returns structs and maps in a query's result as json.
//!
//! Clients that cannot read `PostgreSQL`'s rows can read json. Arrays of plain values are left as
//! they are.
//! Not here: the setting that requests it (`coscan.nested`), and how a value is written
//! (`functions/json/write.rs`).

use std::sync::Arc;

use datafusion::arrow::datatypes::DataType;
use datafusion::common::Column;
use datafusion::error::Result;
use datafusion::logical_expr::{Expr, LogicalPlan, LogicalPlanBuilder, ScalarUDF};

/// Converts a query's columns that contain a struct or a map to json by the function `to_json`.
/// Plans of other statements are returned unchanged.
///
/// # Errors
/// A valid plan causes none.
pub fn nested_as_json(plan: LogicalPlan, to_json: &Arc<ScalarUDF>) -> Result<LogicalPlan> {
    let fields = plan.schema().fields();
    if !is_query(&plan) || !fields.iter().any(|field| is_nested(field.data_type())) {
        return Ok(plan);
    }
    let columns = plan.schema().iter().map(|(relation, field)| {
        let column = Expr::Column(Column::from((relation, field)));
        if is_nested(field.data_type()) {
            let json = to_json.call(vec![column]);
            json.alias_qualified(relation.cloned(), field.name())
        } else {
            column
        }
    });
    let columns: Vec<Expr> = columns.collect();
    LogicalPlanBuilder::from(plan).project(columns)?.build()
}

fn is_query(plan: &LogicalPlan) -> bool {
    !matches!(
        plan,
        LogicalPlan::Ddl(_)
            | LogicalPlan::Dml(_)
            | LogicalPlan::Copy(_)
            | LogicalPlan::Statement(_)
            | LogicalPlan::Explain(_)
            | LogicalPlan::Analyze(_)
            | LogicalPlan::DescribeTable(_)
    )
}

/// Whether values of the type contain structs or maps.
fn is_nested(data_type: &DataType) -> bool {
    match data_type {
        DataType::Struct(_) | DataType::Map(..) => true,
        DataType::List(element)
        | DataType::LargeList(element)
        | DataType::FixedSizeList(element, _) => is_nested(element.data_type()),
        _ => false,
    }
}
