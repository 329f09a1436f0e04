//! UUIDs that COPY writes to a Parquet or Arrow file: sixteen bytes, which every reader takes for
//! what they are. In queries they are text (`planners/file_types.rs`).

use std::sync::Arc;

use datafusion::arrow::datatypes::Field;
use datafusion::common::Column;
use datafusion::common::metadata::FieldMetadata;
use datafusion::config::ConfigOptions;
use datafusion::error::Result;
use datafusion::logical_expr::dml::CopyTo;
use datafusion::logical_expr::{Expr, LogicalPlan, LogicalPlanBuilder};
use datafusion::optimizer::AnalyzerRule;

use crate::casts::Target;
use crate::functions::text::as_bytes;

/// See the file's header.
#[derive(Debug, Default)]
pub(crate) struct CopiedUuids;

impl AnalyzerRule for CopiedUuids {
    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> Result<LogicalPlan> {
        match plan {
            LogicalPlan::Copy(copy) if has_types(&copy) => Ok(LogicalPlan::Copy(written(copy)?)),
            other => Ok(other),
        }
    }

    fn name(&self) -> &'static str {
        "copied_uuids"
    }
}

/// Whether the file's format knows what sixteen bytes are.
fn has_types(copy: &CopyTo) -> bool {
    matches!(copy.file_type.get_ext().as_str(), "parquet" | "arrow")
}

fn written(copy: CopyTo) -> Result<CopyTo> {
    let schema = copy.input.schema();
    let is_uuid = |field: &Field| {
        field.data_type().is_string()
            && Target::of_field(field) == Some(Target::Uuid)
            && !copy.partition_by.contains(field.name())
    };
    if !schema.fields().iter().any(|field| is_uuid(field)) {
        return Ok(copy);
    }
    let columns = schema.iter().map(|(qualifier, field)| {
        let column = Expr::Column(Column::from((qualifier, field)));
        if !is_uuid(field) {
            return column;
        }
        let marked = [("ARROW:extension:name".to_owned(), "arrow.uuid".to_owned())];
        let metadata = FieldMetadata::new(marked.into());
        as_bytes(column).alias_with_metadata(field.name(), Some(metadata))
    });
    let columns: Vec<Expr> = columns.collect();
    let input = LogicalPlanBuilder::from(LogicalPlan::clone(&copy.input));
    let input = input.project(columns)?.build()?;
    Ok(CopyTo {
        input: Arc::new(input),
        ..copy
    })
}
