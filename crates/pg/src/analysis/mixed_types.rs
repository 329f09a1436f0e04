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
use datafusion::logical_expr::{Cast, Expr, ExprSchemable, LogicalPlan, LogicalPlanBuilder};
use datafusion::optimizer::AnalyzerRule;

use crate::functions::time::{Kind, value_of};

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

/// The type in which values are compared.
#[derive(Clone)]
enum Common {
    Time(Kind),
    Float(DataType),
}

impl Common {
    fn of(types: &[DataType]) -> Option<Self> {
        let known = || types.iter().filter(|held| !held.is_null());
        let is_decimal =
            |held: &DataType| matches!(held, DataType::Decimal128(..) | DataType::Decimal256(..));
        if known().any(is_decimal) && known().all(DataType::is_numeric) {
            // Two values are compared as doubles, more in their common type.
            let floats = known().filter(|held| held.is_floating()).max()?;
            let float = if types.len() > 2 {
                floats.clone()
            } else {
                DataType::Float64
            };
            return Some(Self::Float(float));
        }
        let kinds: Vec<Kind> = known().map(Kind::of).collect::<Option<_>>()?;
        let has = |kind| kinds.contains(&kind);
        let others =
            |kind: &Kind| !matches!(kind, Kind::Date | Kind::Timestamp | Kind::Timestamptz);
        if !has(Kind::Date) || kinds.iter().any(others) {
            return None;
        }
        if has(Kind::Timestamptz) {
            Some(Self::Time(Kind::Timestamptz))
        } else {
            has(Kind::Timestamp).then_some(Self::Time(Kind::Timestamp))
        }
    }

    fn cast(&self, expr: Expr, held: &DataType) -> Expr {
        match self {
            Self::Time(kind) if Kind::of(held) != Some(*kind) => value_of(expr, *kind),
            Self::Float(float) if held != float => {
                Expr::Cast(Cast::new(Box::new(expr), float.clone()))
            }
            _ => expr,
        }
    }
}

fn united(expr: Expr, schema: &DFSchema) -> Result<Transformed<Expr>> {
    match expr {
        Expr::InList(mut list) => {
            let mut all = vec![list.expr.get_type(schema)?];
            for value in &list.list {
                all.push(value.get_type(schema)?);
            }
            let Some(common) = Common::of(&all) else {
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
            let Some(common) = Common::of(&all) else {
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
