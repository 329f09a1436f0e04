//! Columns of a UNION that are dates in one branch and timestamps in another.
//!
//! DataFusion unites them as timestamps of nanoseconds, which end in the year 2262, and ignores the
//! session's zone. This rule runs before its coercion and gives the branches PostgreSQL's common
//! type: timestamptz, or timestamp.

use std::sync::Arc;

use datafusion::common::Column;
use datafusion::common::tree_node::Transformed;
use datafusion::config::ConfigOptions;
use datafusion::error::Result;
use datafusion::logical_expr::{Expr, LogicalPlan, Projection, Union};
use datafusion::optimizer::AnalyzerRule;

use crate::functions::time::{Kind, value_of};

/// See the file's header.
#[derive(Debug)]
pub(crate) struct UnionTimes;

impl AnalyzerRule for UnionTimes {
    fn name(&self) -> &'static str {
        "union_times"
    }

    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> Result<LogicalPlan> {
        let analyzed = plan.transform_up_with_subqueries(|plan| match plan {
            LogicalPlan::Union(union) => widened(union),
            other => Ok(Transformed::no(other)),
        })?;
        Ok(analyzed.data)
    }
}

fn widened(union: Union) -> Result<Transformed<LogicalPlan>> {
    let columns = union.schema.fields().len();
    let targets: Vec<Option<Kind>> = (0..columns).map(|at| common(&union, at)).collect();
    if targets.iter().all(Option::is_none) {
        return Ok(Transformed::no(LogicalPlan::Union(union)));
    }
    let inputs = union
        .inputs
        .into_iter()
        .map(|input| branch(input, &targets))
        .collect::<Result<Vec<_>>>()?;
    let union = Union::try_new_with_loose_types(inputs)?;
    Ok(Transformed::yes(LogicalPlan::Union(union)))
}

/// The type that the branches' column gets; `None` if it is left alone.
fn common(union: &Union, at: usize) -> Option<Kind> {
    let mut found: Option<Kind> = None;
    let mut differs = false;
    for input in &union.inputs {
        let data_type = input.schema().fields().get(at)?.data_type();
        if data_type.is_null() {
            continue;
        }
        let kind = Kind::of(data_type)?;
        if !matches!(kind, Kind::Date | Kind::Timestamp | Kind::Timestamptz) {
            return None;
        }
        found = Some(match (found, kind) {
            (None, kind) => kind,
            (Some(before), kind) if before == kind => kind,
            (Some(before), kind) => {
                differs = true;
                if [before, kind].contains(&Kind::Timestamptz) {
                    Kind::Timestamptz
                } else {
                    Kind::Timestamp
                }
            }
        });
    }
    found.filter(|_| differs)
}

fn branch(input: Arc<LogicalPlan>, targets: &[Option<Kind>]) -> Result<Arc<LogicalPlan>> {
    let schema = Arc::clone(input.schema());
    let columns = schema
        .iter()
        .zip(targets)
        .map(|((qualifier, field), target)| {
            let column = Expr::Column(Column::from((qualifier, field)));
            match target {
                Some(kind) if Kind::of(field.data_type()) != Some(*kind) => {
                    value_of(column, *kind).alias_qualified(qualifier.cloned(), field.name())
                }
                _ => column,
            }
        });
    let projection = Projection::try_new(columns.collect(), input)?;
    Ok(Arc::new(LogicalPlan::Projection(projection)))
}
