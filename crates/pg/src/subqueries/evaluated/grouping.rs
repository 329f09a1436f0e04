//! GROUPING SETS in a correlated subquery, split into one aggregate per set.
//!
//! Each outer row has groups of its own, and the set without keys has one row per outer row.
//! `domain.rs` handles aggregates with plain keys in that way, so the sets become a UNION ALL of
//! such aggregates.

use std::sync::Arc;

use datafusion::common::{DFSchema, ScalarValue};
use datafusion::error::Result;
use datafusion::logical_expr::expr::GroupingSet;
use datafusion::logical_expr::logical_plan::{Aggregate, Union};
use datafusion::logical_expr::utils::grouping_set_to_exprlist;
use datafusion::logical_expr::{Expr, LogicalPlan, LogicalPlanBuilder};

use crate::subqueries::plans::{column_exprs, project_as};

/// The most sets that are split: those of a CUBE over six keys.
const SETS_MAX: usize = 64;

/// An equivalent union; `None` if there are too many sets.
pub(super) fn apart(given: &Aggregate) -> Result<Option<Union>> {
    let [Expr::GroupingSet(sets)] = given.group_expr.as_slice() else {
        return Ok(None);
    };
    let keys = grouping_set_to_exprlist(&given.group_expr)?;
    let keys: Vec<Expr> = keys.into_iter().cloned().collect();
    let Some(sets) = listed(sets) else {
        return Ok(None);
    };
    let branches = sets.into_iter().map(|set| branch(given, &keys, &set));
    let branches: Result<Vec<Arc<LogicalPlan>>> = branches.collect();
    Ok(Some(Union::try_new(branches?)?))
}

fn listed(sets: &GroupingSet) -> Option<Vec<Vec<Expr>>> {
    let sets: Vec<Vec<Expr>> = match sets {
        GroupingSet::Rollup(keys) => (0..=keys.len())
            .rev()
            .map(|length| keys[..length].to_vec())
            .collect(),
        GroupingSet::Cube(keys) if keys.len() <= SETS_MAX.ilog2() as usize => (0..1 << keys.len())
            .map(|chosen: usize| {
                let keys = keys.iter().enumerate();
                let keys = keys.filter(|(at, _)| chosen & (1 << at) == 0);
                keys.map(|(_, key)| key.clone()).collect()
            })
            .collect(),
        GroupingSet::Cube(_) => return None,
        GroupingSet::GroupingSets(sets) => sets.clone(),
    };
    (sets.len() <= SETS_MAX).then_some(sets)
}

/// The groups of one set, with the columns of the whole aggregate: keys, id of the set, values.
fn branch(given: &Aggregate, keys: &[Expr], set: &[Expr]) -> Result<Arc<LogicalPlan>> {
    let schema: &DFSchema = &given.schema;
    let mut own: Vec<Expr> = vec![];
    for key in set {
        if !own.contains(key) {
            own.push(key.clone());
        }
    }
    let count = own.len();
    let groups = if own.is_empty() && given.aggr_expr.is_empty() {
        // One group, even if there are no rows.
        LogicalPlanBuilder::empty(true).build()?
    } else {
        let (input, values) = (Arc::clone(&given.input), given.aggr_expr.clone());
        LogicalPlan::Aggregate(Aggregate::try_new(input, own.clone(), values)?)
    };
    let found = column_exprs(groups.schema());
    // The first key has the highest bit; a bit is set if the key is not in the set.
    let mut number: u64 = 0;
    let mut columns = vec![];
    for (at, key) in keys.iter().enumerate() {
        number <<= 1;
        columns.push(match own.iter().position(|known| known == key) {
            Some(place) => found[place].clone(),
            None => {
                number |= 1;
                let missing = ScalarValue::try_from(schema.field(at).data_type())?;
                Expr::Literal(missing, None)
            }
        });
    }
    let number = ScalarValue::UInt64(Some(number)).cast_to(schema.field(keys.len()).data_type())?;
    columns.push(Expr::Literal(number, None));
    columns.extend_from_slice(&found[count..]);
    Ok(Arc::new(project_as(columns, schema, vec![], groups)?))
}
