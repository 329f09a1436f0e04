//! Gives every input of a UNION the union's column names.
//!
//! If only one input can have rows, DataFusion replaces the union with it and selects the union's
//! columns by name: `(SELECT 'a' AS x WHERE false) UNION ALL SELECT DISTINCT u FROM t` failed,
//! because `t` has no `x`. Planning renames inputs that are projections; this rule renames the
//! others. Delete it once `PropagateEmptyRelation` (DataFusion 55.2) selects by position.

use std::sync::Arc;

use datafusion::common::tree_node::{Transformed, TransformedResult};
use datafusion::config::ConfigOptions;
use datafusion::error::Result;
use datafusion::logical_expr::{Expr, LogicalPlan, Projection, Union};
use datafusion::optimizer::AnalyzerRule;

use crate::trees::PlanTree;

/// See the file's header.
#[derive(Debug, Default)]
pub(crate) struct UnionNames;

impl AnalyzerRule for UnionNames {
    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> Result<LogicalPlan> {
        plan.change_up_with_subqueries(|node| match node {
            LogicalPlan::Union(union) => named(union),
            other => Ok(Transformed::no(other)),
        })
        .data()
    }

    fn name(&self) -> &'static str {
        "union_names"
    }
}

fn named(mut union: Union) -> Result<Transformed<LogicalPlan>> {
    let mut is_renamed = false;
    for input in &mut union.inputs {
        let mut columns: Vec<Expr> = input.schema().iter().map(Expr::from).collect();
        let names = union.schema.fields().iter().map(|field| field.name());
        let mut is_other = false;
        for (column, name) in columns.iter_mut().zip(names) {
            if let Expr::Column(given) = column
                && given.name != *name
            {
                is_other = true;
                *column = column.clone().alias(name);
            }
        }
        if is_other {
            is_renamed = true;
            let renamed = Projection::try_new(columns, Arc::clone(input))?;
            *input = Arc::new(LogicalPlan::Projection(renamed));
        }
    }
    let union = LogicalPlan::Union(union);
    Ok(Transformed::new_transformed(union, is_renamed))
}
