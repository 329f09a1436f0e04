//! IN and BETWEEN over values of types that DataFusion unites otherwise than PostgreSQL.
//!
//! | beside | DataFusion | here |
//! |---|---|---|
//! | dates, timestamps | timestamps of nanoseconds, which end in 2262 | timestamps, timestamptz |
//! | floats, numerics | numerics of 15 digits behind the point | floats |
//!
//! The rule runs before DataFusion's coercion. Not here: UNION (`union_types.rs`), comparisons by
//! operators, which have PostgreSQL's types already.

use std::sync::Arc;

use datafusion::arrow::datatypes::DataType;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::common::{Column, DFSchema};
use datafusion::config::ConfigOptions;
use datafusion::error::Result;
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::utils::merge_schema;
use datafusion::logical_expr::{Expr, ExprSchemable, LogicalPlan, LogicalPlanBuilder};
use datafusion::optimizer::AnalyzerRule;

use crate::common_type::Common;

/// See the file's header.
#[derive(Debug)]
pub(crate) struct MixedTypes;

impl AnalyzerRule for MixedTypes {
    fn name(&self) -> &'static str {
        "mixed_types"
    }

    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> Result<LogicalPlan> {
        plan.transform_up_with_subqueries(|node| {
            let schema = merge_schema(&node.inputs());
            let names = NamePreserver::new(&node);
            node.map_expressions(|expr| {
                let name = names.save(&expr);
                let united = expr.transform_up(|part| united(part, &schema))?;
                Ok(united.update_data(|expr| name.restore(expr)))
            })
        })
        .data()
    }
}

/// The type in which values are compared: two as the operator does, which has none of `real` beside
/// a numeric; more in their common type.
fn compared(types: &[DataType]) -> Option<Common> {
    match Common::of(types)? {
        Common::Float(_) if types.len() == 2 => Some(Common::Float(DataType::Float64)),
        common => Some(common),
    }
}

fn united(expr: Expr, schema: &DFSchema) -> Result<Transformed<Expr>> {
    match expr {
        Expr::InList(mut list) => {
            let mut all = vec![list.expr.get_type(schema)?];
            for value in &list.list {
                all.push(value.get_type(schema)?);
            }
            let Some(common) = compared(&all) else {
                return Ok(Transformed::no(Expr::InList(list)));
            };
            *list.expr = common.cast(std::mem::take(&mut list.expr), &all[0]);
            for (value, held) in list.list.iter_mut().zip(&all[1..]) {
                *value = common.cast(std::mem::take(value), held);
            }
            Ok(Transformed::yes(Expr::InList(list)))
        }
        Expr::Between(mut between) => {
            let parts = [&between.expr, &between.low, &between.high];
            let all = parts.map(|part| part.get_type(schema));
            let [value, low, high] = all;
            let all = [value?, low?, high?];
            // Each border is compared for itself.
            let Some(common) = Common::of(&all).filter(|common| matches!(common, Common::Time(_)))
            else {
                return Ok(Transformed::no(Expr::Between(between)));
            };
            *between.expr = common.cast(std::mem::take(&mut between.expr), &all[0]);
            *between.low = common.cast(std::mem::take(&mut between.low), &all[1]);
            *between.high = common.cast(std::mem::take(&mut between.high), &all[2]);
            Ok(Transformed::yes(Expr::Between(between)))
        }
        Expr::InSubquery(mut given) => {
            let plan = &given.subquery.subquery;
            let Some((qualifier, field)) = plan.schema().iter().next() else {
                return Ok(Transformed::no(Expr::InSubquery(given)));
            };
            let all = [given.expr.get_type(schema)?, field.data_type().clone()];
            let Some(common) = compared(&all) else {
                return Ok(Transformed::no(Expr::InSubquery(given)));
            };
            let column = Expr::Column(Column::from((qualifier, field)));
            let cast = common.cast(column, &all[1]).alias(field.name());
            let plan = LogicalPlanBuilder::new_from_arc(Arc::clone(plan)).project([cast])?;
            given.subquery.subquery = Arc::new(plan.build()?);
            *given.expr = common.cast(std::mem::take(&mut given.expr), &all[0]);
            Ok(Transformed::yes(Expr::InSubquery(given)))
        }
        other => Ok(Transformed::no(other)),
    }
}
