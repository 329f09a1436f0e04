//! Which Arrow type holds a column that SQL declares (`CREATE TABLE t (a timestamp)`)?
//!
//! DataFusion's own types differ: times are in nanoseconds, which end in the year 2262; `float`
//! has four bytes, `numeric` ten decimal places, and no type a length. The catalog's types are
//! those of datafusion-pg-catalog.

use std::sync::Arc;

use datafusion::arrow::datatypes::{DataType, FieldRef};
use datafusion::error::Result;
use datafusion::logical_expr::planner::TypePlanner;
use datafusion::sql::sqlparser::ast::DataType as SqlType;
use datafusion_pg_catalog::pg_catalog::oid_type_planner::PgOidTypePlanner;

use crate::casts::Target;

/// Plans the types named in SQL.
#[derive(Debug)]
pub(crate) struct Types;

impl TypePlanner for Types {
    fn plan_type_field(&self, sql: &SqlType) -> Result<Option<FieldRef>> {
        match Target::of_sql(sql) {
            // DataFusion's own text type is a view.
            None | Some(Target::Text | Target::Varchar(None) | Target::Name) => {
                PgOidTypePlanner.plan_type_field(sql)
            }
            Some(target) => {
                let held = target.arrow(&DataType::Utf8);
                Ok(Some(Arc::new(target.field("", held, true))))
            }
        }
    }
}
