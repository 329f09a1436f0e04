//! Removes functional dependencies that DataFusion wrongly extends to other columns, or to more
//! rows.
//!
//! Each row of `SELECT DISTINCT k` has its own `k`. After a join, `k` still determines the columns
//! of that subquery; but an aggregate or a DISTINCT above the join claims that `k` determines all
//! of its columns (55.2, `aggregate_functional_dependencies` of a dependency that is `Multi`).
//! A set that is unnested beside a unique `k` repeats it; but `k` still counts as unique (55.2,
//! `Unnest::try_new`), though neither its rows nor the elements are.
//!
//! Then groups and keys of ORDER BY are dropped, and joins are removed. This rule hides the
//! dependency: such an aggregate or set reads `k` as the result of a function. (A DISTINCT becomes
//! an aggregate, as it does later anyway, so that its key is known.) Delete this rule once
//! DataFusion records which columns and rows a dependency covers.
//!
//! DataFusion's planner adds columns that a key determines to its groups (GROUP BY), so relations
//! with such sets are planned [`without_keys`].

use std::sync::Arc;

use datafusion::common::tree_node::Transformed;
use datafusion::common::{Column, DFSchema, Dependency};
use datafusion::config::ConfigOptions;
use datafusion::error::Result;
use datafusion::logical_expr::{Aggregate, Distinct, Expr, LogicalPlan, Projection, SubqueryAlias};
use datafusion::optimizer::AnalyzerRule;

use crate::functions::without_key;
use crate::trees::PlanTree;

/// See the file's header. It runs last, when subqueries have become joins.
#[derive(Debug, Default)]
pub(crate) struct Dependencies;

impl AnalyzerRule for Dependencies {
    fn name(&self) -> &'static str {
        "functional_dependencies"
    }

    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> Result<LogicalPlan> {
        let mut changed = false;
        let checked = plan.change_up_with_subqueries(|mut node| {
            if let LogicalPlan::Distinct(Distinct::All(input)) = node {
                let groups = input
                    .schema()
                    .columns()
                    .into_iter()
                    .map(Expr::Column)
                    .collect();
                node = LogicalPlan::Aggregate(Aggregate::try_new(input, groups, vec![])?);
                changed = true;
            }
            let above = match &mut node {
                LogicalPlan::Aggregate(aggregate) => Some((&mut aggregate.input, false)),
                LogicalPlan::Unnest(sets) => Some((&mut sets.input, true)),
                _ => None,
            };
            if let Some((input, repeats)) = above
                && let Some(hidden) = hidden(input, repeats)?
            {
                *input = Arc::new(hidden);
                changed = true;
            }
            // Nodes above take functional dependencies from the schemas of their inputs.
            if changed {
                return node.recompute_schema().map(Transformed::yes);
            }
            Ok(Transformed::no(node))
        })?;
        Ok(checked.data)
    }
}

/// A relation whose select list has sets, without the dependencies from below them.
///
/// # Errors
/// DataFusion's error for an inconsistent plan.
pub(crate) fn without_keys(relation: LogicalPlan) -> Result<LogicalPlan> {
    if let LogicalPlan::SubqueryAlias(named) = relation {
        let input = without_keys(Arc::unwrap_or_clone(named.input))?;
        let named = SubqueryAlias::try_new(Arc::new(input), named.alias)?;
        return Ok(LogicalPlan::SubqueryAlias(named));
    }
    let relation = Arc::new(relation);
    let hidden = hidden(&relation, true)?;
    Ok(hidden.unwrap_or_else(|| Arc::unwrap_or_clone(relation)))
}

/// A relation with the same columns, without the dependencies that do not hold above it; `None` if
/// it has none to hide. See [`keys`] for `repeats`.
fn hidden(input: &Arc<LogicalPlan>, repeats: bool) -> Result<Option<LogicalPlan>> {
    let schema = input.schema();
    let keys = keys(schema, repeats);
    if keys.is_empty() {
        return Ok(None);
    }
    let columns = schema.iter().enumerate().map(|(place, (relation, field))| {
        let column = Expr::Column(Column::new(relation.cloned(), field.name()));
        if keys.contains(&place) {
            without_key(column).alias_qualified(relation.cloned(), field.name())
        } else {
            column
        }
    });
    let projection = Projection::try_new(columns.collect(), Arc::clone(input))?;
    Ok(Some(LogicalPlan::Projection(projection)))
}

/// The positions of columns that determine others; without those that are unique, unless the node
/// above `repeats` rows.
fn keys(schema: &DFSchema, repeats: bool) -> Vec<usize> {
    let all = schema.functional_dependencies().iter();
    let several = all.filter(|one| repeats || one.mode == Dependency::Multi);
    several
        .flat_map(|one| one.source_indices.iter().copied())
        .collect()
}
