//! Computes volatile expressions beside a set-returning function once for each of its rows.
//!
//! DataFusion computes everything of such a select list before it unnests, so that
//! `SELECT random(), generate_series(1, 20)` had one random number for all rows. Delete this rule
//! once the planner leaves them above (DataFusion 55.2, `try_process_unnest`).

use std::collections::HashMap;
use std::sync::Arc;

use datafusion::common::Column;
use datafusion::common::tree_node::{Transformed, TransformedResult};
use datafusion::config::ConfigOptions;
use datafusion::error::Result;
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::{Expr, LogicalPlan, Projection, Unnest};
use datafusion::optimizer::AnalyzerRule;

use crate::trees::{PlanTree, Tree};

/// See the file's header.
#[derive(Debug, Default)]
pub(crate) struct BesideSets;

impl AnalyzerRule for BesideSets {
    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> Result<LogicalPlan> {
        plan.change_up_with_subqueries(|node| match node {
            LogicalPlan::Projection(list) => above(list),
            other => Ok(Transformed::no(other)),
        })
        .data()
    }

    fn name(&self) -> &'static str {
        "beside_sets"
    }
}

/// A select list over unnested columns, with the volatile expressions of the projection below.
fn above(list: Projection) -> Result<Transformed<LogicalPlan>> {
    let LogicalPlan::Unnest(sets) = list.input.as_ref() else {
        return Ok(Transformed::no(LogicalPlan::Projection(list)));
    };
    let LogicalPlan::Projection(below) = sets.input.as_ref() else {
        return Ok(Transformed::no(LogicalPlan::Projection(list)));
    };
    let mut moved: HashMap<Column, Expr> = HashMap::new();
    let mut stays: Vec<Expr> = vec![];
    for (expr, field) in below.expr.iter().zip(below.schema.iter()) {
        let column = Column::from(field);
        if expr.is_volatile() && !sets.exec_columns.contains(&column) {
            moved.insert(column, expr.clone().unalias());
        } else {
            stays.push(expr.clone());
        }
    }
    if moved.is_empty() {
        return Ok(Transformed::no(LogicalPlan::Projection(list)));
    }
    // What the moved expressions read must pass the unnesting.
    for column in moved.values().flat_map(Expr::column_refs) {
        let column = Expr::Column(column.clone());
        if !stays.contains(&column) {
            stays.push(column);
        }
    }
    let below = Projection::try_new(stays, Arc::clone(&below.input))?;
    let below = Arc::new(LogicalPlan::Projection(below));
    let sets = Unnest::try_new(below, sets.exec_columns.clone(), sets.options.clone())?;
    let placed = |expr| match expr {
        Expr::Column(column) => match moved.get(&column) {
            Some(expr) => Transformed::yes(expr.clone()),
            None => Transformed::no(Expr::Column(column)),
        },
        other => Transformed::no(other),
    };
    let names = NamePreserver::new_for_projection();
    let exprs = list.expr.into_iter().map(|expr| {
        let name = names.save(&expr);
        let expr = expr.change_up(|expr| Ok(placed(expr))).data()?;
        Ok(name.restore(expr))
    });
    let exprs = exprs.collect::<Result<Vec<Expr>>>()?;
    let list = Projection::try_new(exprs, Arc::new(LogicalPlan::Unnest(sets)))?;
    Ok(Transformed::yes(LogicalPlan::Projection(list)))
}
