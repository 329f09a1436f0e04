//! Which Arrow type holds a column that SQL declares (`CREATE TABLE t (a timestamp)`)?
//!
//! Types of time count microseconds, as PostgreSQL's do: DataFusion's own are nanoseconds, which
//! end
//! in the year 2262. The catalogue's types are those of datafusion-pg-catalog.

use std::sync::Arc;

use datafusion::arrow::datatypes::{DataType, FieldRef};
use datafusion::error::Result;
use datafusion::logical_expr::planner::TypePlanner;
use datafusion::sql::sqlparser::ast::DataType as SqlType;
use datafusion_pg_catalog::pg_catalog::oid_type_planner::PgOidTypePlanner;

use crate::casts::Target;

/// Plans the types that SQL names.
#[derive(Debug)]
pub(crate) struct Types;

impl TypePlanner for Types {
    fn plan_type_field(&self, sql: &SqlType) -> Result<Option<FieldRef>> {
        match Target::of_sql(sql) {
            Some(
                target @ (Target::Date
                | Target::Time(_)
                | Target::Timestamp(_)
                | Target::Timestamptz(_)
                | Target::Interval(..)),
            ) => {
                let held = target.arrow(&DataType::Null);
                Ok(Some(Arc::new(target.field("", held, true))))
            }
            _ => PgOidTypePlanner.plan_type_field(sql),
        }
    }
}
