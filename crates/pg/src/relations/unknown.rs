//! Which type has a column of which nothing but NULL is known?
//!
//! In PostgreSQL it is text, in what is made of a query as in a subquery. DataFusion has a type of
//! its own for it, of which no other value can be stored.

use std::sync::Arc;

use datafusion::arrow::datatypes::DataType;
use datafusion::common::Column;
use datafusion::error::Result;
use datafusion::logical_expr::{Expr, LogicalPlan, Projection, cast};

/// The query with text in the place of columns, and elements of arrays, without a type.
///
/// # Errors
/// DataFusion's, for a plan that contradicts itself.
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
