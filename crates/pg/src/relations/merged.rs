//! Joins with USING and NATURAL whose merged columns are not known from the syntax
//! (`dialect/queries/using.rs`).

use datafusion::error::Result;
use datafusion::logical_expr::LogicalPlan;
use datafusion::logical_expr::planner::RelationPlannerContext;
use datafusion::sql::sqlparser::ast::{Query, SetExpr, TableFactor};

use super::derived;
use crate::PgError;
use crate::dialect::{Known, concerns, folded, merged, on_the_wire, table};

/// Plans a query over such joins. Its tables are planned first, for their columns.
pub(super) fn with_merged(
    mut query: Query,
    context: &mut dyn RelationPlannerContext,
) -> Result<LogicalPlan> {
    if let SetExpr::Select(select) = query.body.as_mut() {
        let mut known = Known::new();
        for item in &select.from {
            let joined = item.joins.iter().map(|join| &join.relation);
            for factor in std::iter::once(&item.relation).chain(joined) {
                let is_lateral = matches!(factor, TableFactor::Derived { lateral: true, .. });
                if let Some(name) = table(factor).filter(|_| !is_lateral) {
                    let plan = context.plan(factor.clone())?;
                    let columns = plan.schema().fields().iter();
                    known.insert(folded(&name), columns.map(|it| it.name().clone()).collect());
                }
            }
        }
        let mut of_factor = |factor: &TableFactor| {
            let plan = context.plan(factor.clone()).ok()?;
            let columns = plan.schema().fields().iter();
            Some(
                columns
                    .map(|it| on_the_wire(it.name()).to_owned())
                    .collect(),
            )
        };
        merged(
            select,
            query.order_by.as_mut(),
            &known,
            Some(&mut of_factor),
        );
        if concerns(select) {
            let message = "these joins with USING or NATURAL are not supported";
            return Err(PgError::unsupported(message).into());
        }
    }
    context.plan(derived(query))
}
