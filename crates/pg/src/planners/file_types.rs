//! Converts columns of files whose Arrow types PostgreSQL lacks, where FROM names a table.
//!
//! | a file's column | the table's column |
//! |---|---|
//! | UUID: sixteen bytes | `uuid`, held as text |
//! | JSON: text | `json` |
//! | a time of day in seconds, milliseconds or nanoseconds | `time`, in microseconds |
//!
//! So operators, functions and common types need not support them. Statements that store rows read
//! times unchanged (`dialect/stored.rs`), and store a uuid in the form of the column or file.
//!
//! The name may also be one of a view or of a query in WITH, whose sets repeat keys
//! (`relations/marked_sets.rs`).

use datafusion::arrow::datatypes::{DataType, Field, TimeUnit};
use datafusion::common::Column;
use datafusion::config::ConfigOptions;
use datafusion::error::Result;
use datafusion::logical_expr::planner::{
    PlannedRelation, RelationPlanner, RelationPlannerContext, RelationPlanning,
};
use datafusion::logical_expr::{Expr, LogicalPlanBuilder};
use datafusion::sql::sqlparser::ast::{Ident, TableFactor};

use crate::casts::{Target, cast_expr, extension};
use crate::dialect::AS_STORED;
use crate::functions::marked_like;
use crate::functions::scalar::is_text;
use crate::relations::without_repeated_keys;

/// See the file's header.
#[derive(Debug)]
pub(crate) struct FileTypes;

impl RelationPlanner for FileTypes {
    fn plan_relation(
        &self,
        mut relation: TableFactor,
        context: &mut dyn RelationPlannerContext,
    ) -> Result<RelationPlanning> {
        let TableFactor::Table {
            args: None,
            partitions,
            ..
        } = &mut relation
        else {
            return Ok(RelationPlanning::Original(Box::new(relation)));
        };
        if partitions.iter().any(|mark| mark.value == PLANNED) {
            return Ok(RelationPlanning::Original(Box::new(relation)));
        }
        let is_stored = partitions.iter().any(|mark| mark.value == AS_STORED);
        let meant = |field: &Field| meant(field, is_stored);
        partitions.push(Ident::new(PLANNED));
        let plan = without_repeated_keys(context.plan(relation)?)?;
        if !plan
            .schema()
            .fields()
            .iter()
            .any(|field| meant(field).is_some())
        {
            let planned = PlannedRelation::new(plan, None);
            return Ok(RelationPlanning::Planned(Box::new(planned)));
        }
        let config = context.context_provider().options();
        let columns = plan.schema().iter().map(|(qualifier, field)| {
            let column = Expr::Column(Column::from((qualifier, field)));
            match meant(field) {
                Some(target) => meant_as(column, field, &target, config)
                    .alias_qualified(qualifier.cloned(), field.name()),
                None => column,
            }
        });
        let columns: Vec<Expr> = columns.collect();
        let plan = LogicalPlanBuilder::from(plan).project(columns)?.build()?;
        let planned = PlannedRelation::new(plan, None);
        Ok(RelationPlanning::Planned(Box::new(planned)))
    }
}

/// Converts a column to its type. Text that a file marks as JSON is not parsed.
fn meant_as(column: Expr, field: &Field, target: &Target, config: &ConfigOptions) -> Expr {
    match target {
        Target::Json => marked_like(column, &target.field("", field.data_type().clone(), true)),
        _ => cast_expr(column, target, config),
    }
}

/// Marks a table that is planned without conversion.
const PLANNED: &str = "__planned";

/// The PostgreSQL type of a column. `is_stored`: the statement stores rows.
fn meant(field: &Field, is_stored: bool) -> Option<Target> {
    match field.data_type() {
        DataType::FixedSizeBinary(16) => {
            Target::of_field(field).filter(|target| *target == Target::Uuid)
        }
        held if is_text(held) && extension(field) == Some("arrow.json") => Some(Target::Json),
        DataType::Time32(_) | DataType::Time64(TimeUnit::Nanosecond) if !is_stored => {
            Some(Target::Time(None))
        }
        _ => None,
    }
}
