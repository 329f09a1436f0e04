//! Columns of a UNION that are dates in one branch and timestamps in another, or numerics and
//! floats.
//!
//! DataFusion unites times as timestamps of nanoseconds, which end in the year 2262, and ignores
//! the session's zone; numerics and floats as numerics of 15 digits behind the point. This rule
//! runs before its coercion and gives the branches PostgreSQL's common type: timestamptz, or
//! timestamp; a float.

use std::sync::Arc;

use datafusion::common::Column;
use datafusion::common::tree_node::Transformed;
use datafusion::config::ConfigOptions;
use datafusion::error::Result;
use datafusion::logical_expr::{Expr, LogicalPlan, Projection, Union};
use datafusion::optimizer::AnalyzerRule;

use crate::common_type::Common;

/// See the file's header.
#[derive(Debug)]
pub(crate) struct UnionTypes;

impl AnalyzerRule for UnionTypes {
    fn name(&self) -> &'static str {
        "union_types"
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
    let target = |at: usize| {
        let fields = union.inputs.iter().map(|input| input.schema().field(at));
        Common::of(
            &fields
                .map(|field| field.data_type().clone())
                .collect::<Vec<_>>(),
        )
    };
    let targets: Vec<Option<Common>> = (0..columns).map(target).collect();
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

fn branch(input: Arc<LogicalPlan>, targets: &[Option<Common>]) -> Result<Arc<LogicalPlan>> {
    let schema = Arc::clone(input.schema());
    let columns = schema
        .iter()
        .zip(targets)
        .map(|((qualifier, field), target)| {
            let column = Expr::Column(Column::from((qualifier, field)));
            match target {
                Some(common) if !common.is(field.data_type()) => {
                    let cast = common.cast(column, field.data_type());
                    cast.alias_qualified(qualifier.cloned(), field.name())
                }
                _ => column,
            }
        });
    let projection = Projection::try_new(columns.collect(), input)?;
    Ok(Arc::new(LogicalPlan::Projection(projection)))
}
