//! Columns of a UNION that are dates in one branch and timestamps in another, or numerics and
//! floats.
//!
//! DataFusion unites times as timestamps of nanoseconds, which end in the year 2262, and ignores
//! the session's zone; numerics and floats as numerics of 15 digits behind the point. This rule
//! runs before its coercion and gives the branches PostgreSQL's common type: timestamptz, or
//! timestamp; a float.

use std::sync::Arc;

use datafusion::arrow::datatypes::DataType;
use datafusion::common::Column;
use datafusion::common::tree_node::Transformed;
use datafusion::config::ConfigOptions;
use datafusion::error::Result;
use datafusion::logical_expr::{Cast, Expr, LogicalPlan, Projection, Union};
use datafusion::optimizer::AnalyzerRule;

use crate::functions::time::{Kind, value_of};

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
    let target = |at| {
        let time = common_time(&union, at).map(Target::Time);
        time.or_else(|| common_float(&union, at).map(Target::Float))
    };
    let targets: Vec<Option<Target>> = (0..columns).map(target).collect();
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

/// The type that the branches' columns get.
#[derive(Clone)]
enum Target {
    Time(Kind),
    Float(DataType),
}

/// The type of floats beside numerics.
fn common_float(union: &Union, at: usize) -> Option<DataType> {
    let types = || {
        let fields = union
            .inputs
            .iter()
            .map(move |input| &input.schema().fields()[at]);
        fields.map(|field| field.data_type())
    };
    let is_decimal =
        |held: &DataType| matches!(held, DataType::Decimal128(..) | DataType::Decimal256(..));
    if !types().any(is_decimal) || !types().all(|held| held.is_numeric() || held.is_null()) {
        return None;
    }
    types().filter(|held| held.is_floating()).max().cloned()
}

/// The type of dates beside timestamps.
fn common_time(union: &Union, at: usize) -> Option<Kind> {
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

fn branch(input: Arc<LogicalPlan>, targets: &[Option<Target>]) -> Result<Arc<LogicalPlan>> {
    let schema = Arc::clone(input.schema());
    let columns = schema
        .iter()
        .zip(targets)
        .map(|((qualifier, field), target)| {
            let column = Expr::Column(Column::from((qualifier, field)));
            match target {
                Some(Target::Time(kind)) if Kind::of(field.data_type()) != Some(*kind) => {
                    value_of(column, *kind).alias_qualified(qualifier.cloned(), field.name())
                }
                Some(Target::Float(float)) if field.data_type() != float => {
                    let cast = Expr::Cast(Cast::new(Box::new(column), float.clone()));
                    cast.alias_qualified(qualifier.cloned(), field.name())
                }
                _ => column,
            }
        });
    let projection = Projection::try_new(columns.collect(), input)?;
    Ok(Arc::new(LogicalPlan::Projection(projection)))
}
