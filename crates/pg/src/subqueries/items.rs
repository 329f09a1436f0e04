//! LATERAL items of FROM: subqueries that are evaluated for each row to their left.

use std::sync::Arc;

use datafusion::common::JoinType;
use datafusion::error::Result;
use datafusion::logical_expr::LogicalPlan;
use datafusion::logical_expr::logical_plan::Join;

use super::evaluated::{Prepared, aggregated, prepare};
use super::in_place::{placed, placed_or_null};
use super::plans::{Names, column_exprs, filter, join, join_conditions, project_as, substitute};
use super::pulled::Asked;
use super::{Around, unsupported};

/// A join whose right side depends on its left side.
pub(super) fn lateral_join(given: Join, names: &mut Names) -> Result<LogicalPlan> {
    let whole = match given.join_type {
        JoinType::Inner => true,
        JoinType::Left => false,
        _ => return Err(unsupported("LATERAL in this kind of join")),
    };
    let conditions = join_conditions(&given);
    let of_left = column_exprs(given.left.schema());
    let own_schema = Arc::clone(given.right.schema());
    let always = conditions
        .iter()
        .all(|on| *on == datafusion::logical_expr::lit(true));
    let found = match whole {
        true => placed(&given.right, &given.left, names)?,
        false if always => placed_or_null(&given.right, &given.left, names)?,
        false => None,
    };
    if let Some((plan, outputs)) = found {
        let on = conditions
            .into_iter()
            .map(|condition| substitute(condition, &own_schema, &outputs));
        let plan = filter(on.collect::<Result<_>>()?, plan)?;
        let values = of_left.into_iter().chain(outputs).collect();
        return project_as(values, &given.schema, vec![], plan);
    }
    let mut around = Around::of(given.left);
    if (whole || always)
        && let Some(values) = aggregated(&mut around, &given.right, false, names)?
    {
        let values = of_left.into_iter().chain(values).collect::<Vec<_>>();
        let plan = project_as(values, &given.schema, vec![], around.plan)?;
        return filter(if always { vec![] } else { conditions }, plan);
    }
    let Prepared {
        plan,
        outputs,
        conditions: mut on,
    } = prepare(&mut around, &given.right, Asked::Rows, names)?;
    for condition in conditions {
        // Only the columns of the right side were renamed.
        on.push(substitute(condition, &own_schema, &outputs)?);
    }
    let values = of_left.into_iter().chain(outputs).collect();
    let plan = join(around.plan, plan, given.join_type, on)?;
    project_as(values, &given.schema, vec![], plan)
}
