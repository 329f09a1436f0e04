//! Plans the mentions of a query in WITH, which `dialect/names/mentions.rs` marks.
//!
//! | plan of the query | if mentions can share rows | otherwise |
//! |---|---|---|
//! | stable | planned at each mention | planned at each mention |
//! | unstable | [`Once`] | planned at each mention |
//! | volatile | [`Once`] | 0A000 |
//!
//! Mentions can share rows in sessions that support [`Once`] nodes ([`Mentions`]). Two kinds of
//! plan are nevertheless computed at each mention: those that refer to columns of queries around
//! the WITH, and those that scan the work table of a recursive query, which has other rows in each
//! round.
//! WQ1: no statement is answered from two computations of a volatile query in WITH.
//! Not here: the definition of unstable (`once/unstable.rs`).

use std::sync::Arc;

use datafusion::error::Result;
use datafusion::execution::SessionStateBuilder;
use datafusion::logical_expr::planner::{
    PlannedRelation, RelationPlanner, RelationPlannerContext, RelationPlanning,
};
use datafusion::logical_expr::{Extension, LogicalPlan, SubqueryAlias};
use datafusion::sql::sqlparser::ast::TableFactor;

use super::names::named;
use super::planned;
use crate::PgError;
use crate::dialect::{is_marked, last_word, take_mark};
use crate::once::{Once, is_unstable, is_volatile, scans_work_table};
use crate::subqueries::{UnnestSubqueries, is_correlated};

/// In a session whose query planner supports [`Once`] nodes, plans each mention of a query in WITH
/// whose rows may differ between computations as such a node, and so the relation around a
/// correlated subquery. Without this, volatile queries are refused.
pub fn compute_once(builder: &mut SessionStateBuilder) {
    // Must run before the planner that refuses them.
    let planners = builder.relation_planners().get_or_insert_default();
    planners.insert(0, Arc::new(Mentions));
    for rule in &mut builder.analyzer().get_or_insert_default().rules {
        if rule.name() == UnnestSubqueries::NAME {
            *rule = Arc::new(UnnestSubqueries {
                computes_once: true,
            });
        }
    }
}

/// See the file's header.
#[derive(Debug)]
struct Mentions;

impl RelationPlanner for Mentions {
    fn plan_relation(
        &self,
        mut relation: TableFactor,
        context: &mut dyn RelationPlannerContext,
    ) -> Result<RelationPlanning> {
        let TableFactor::Table {
            name,
            partitions,
            alias,
            ..
        } = &mut relation
        else {
            return Ok(RelationPlanning::Original(Box::new(relation)));
        };
        if !is_marked(partitions) {
            return Ok(RelationPlanning::Original(Box::new(relation)));
        }
        if alias
            .as_ref()
            .is_some_and(|alias| !alias.columns.is_empty())
        {
            // `named` plans the relation without its alias, which leads back here.
            return named(relation, context);
        }
        take_mark(partitions);
        let name = last_word(name).unwrap_or_default();
        let alias = alias.take();
        let plan = mention(&name, context.plan(relation)?)?;
        Ok(planned(PlannedRelation::new(plan, alias)))
    }
}

/// Plans a mention, given the plan that DataFusion would use.
fn mention(name: &str, plan: LogicalPlan) -> Result<LogicalPlan> {
    let query = match &plan {
        LogicalPlan::SubqueryAlias(alias) if is_unstable(&plan)? => alias,
        _ => return Ok(plan),
    };
    if is_correlated(&plan) || scans_work_table(&plan)? {
        check(name, &plan)?;
        return Ok(plan);
    }
    let node = Arc::new(Once::new(name, &query.input));
    let once = LogicalPlan::Extension(Extension { node });
    let alias = SubqueryAlias::try_new(Arc::new(once), query.alias.clone())?;
    Ok(LogicalPlan::SubqueryAlias(alias))
}

/// # Errors
/// 0A000 if `plan`, which the statement computes more than once, calls volatile functions.
pub(super) fn check(name: &str, plan: &LogicalPlan) -> Result<()> {
    if !is_volatile(plan)? {
        return Ok(());
    }
    let message =
        format!("WITH query \"{name}\" calls volatile functions and is named more than once");
    Err(PgError::new("0A000", message).into())
}
