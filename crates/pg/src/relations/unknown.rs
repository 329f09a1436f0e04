//! Which type does a column have that only contains untyped NULLs?
//!
//! In PostgreSQL it is text, both for a table made from a query and for a subquery. DataFusion
//! gives it a type of its own that holds no other values.

use std::sync::Arc;

use datafusion::arrow::datatypes::DataType;
use datafusion::common::Column;
use datafusion::error::Result;
use datafusion::logical_expr::{Expr, LogicalPlan, Projection, cast};

/// Casts untyped columns, and elements of arrays, to text.
///
/// # Errors
/// DataFusion's error for an inconsistent plan.
pub fn unknown_as_text(query: LogicalPlan) -> Result<LogicalPlan> {
    let schema = Arc::clone(query.schema());
    if !schema
        .fields()
        .iter()
        .any(|field| text(field.data_type()).is_some())
    {
        return Ok(query);
    }
    let columns = schema.iter().map(|(qualifier, field)| {
        let column = Expr::Column(Column::from((qualifier, field)));
        match text(field.data_type()) {
            Some(text) => cast(column, text).alias_qualified(qualifier.cloned(), field.name()),
            None => column,
        }
    });
    let columns = columns.collect();
    let query = Arc::new(query);
    Ok(LogicalPlan::Projection(Projection::try_new(
        columns, query,
    )?))
}

fn text(unknown: &DataType) -> Option<DataType> {
    match unknown {
        DataType::Null => Some(DataType::Utf8),
        DataType::List(element) => {
            let text = text(element.data_type())?;
            let element = element.as_ref().clone().with_data_type(text);
            Some(DataType::List(Arc::new(element)))
        }
        _ => None,
    }
}
