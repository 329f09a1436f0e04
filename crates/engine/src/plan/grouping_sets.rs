//! How are several grouping sets computed without adding each row to a group of every set?
//!
//! Idea: the rows are aggregated once by all keys of the sets, and the sets' groups are made of
//! those groups: counts are added, sums are added, the minimum is that of the minima. DataFusion
//! adds each row to a group of every set, so that `ROLLUP (a, b, c, d)` over ten million rows
//! hashes fifty million keys. Where nearly each row has keys of its own, this costs one
//! pass more and a hash table (or its spill) of as many groups as DataFusion's has for that set.
//!
//! Not here: aggregates whose result over results is another one: of distinct values or in an
//! order, and sums of floats, whose digits depend on the order of additions.
//! GSET-I1: the plan's columns have the names and types of the aggregate that it replaces.

use std::sync::Arc;

use arrow::datatypes::DataType;
use datafusion::common::tree_node::Transformed;
use datafusion::common::{Column, DFSchema, ScalarValue};
use datafusion::error::Result;
use datafusion::functions_aggregate::sum::sum_udaf;
use datafusion::logical_expr::expr::{AggregateFunction, AggregateFunctionParams};
use datafusion::logical_expr::utils::grouping_set_to_exprlist;
use datafusion::logical_expr::{
    Aggregate, Expr, ExprSchemable, GroupingSet, LogicalPlan, Projection, cast, lit, when,
};
use datafusion::optimizer::optimizer::ApplyOrder;
use datafusion::optimizer::{OptimizerConfig, OptimizerRule};

use super::needless_keys::unaliased;

/// Aggregates by all keys of the grouping sets first.
#[derive(Debug)]
pub(crate) struct FinestGroups;

impl OptimizerRule for FinestGroups {
    fn name(&self) -> &'static str {
        "coscan_finest_groups"
    }

    fn apply_order(&self) -> Option<ApplyOrder> {
        Some(ApplyOrder::BottomUp)
    }

    fn rewrite(
        &self,
        plan: LogicalPlan,
        _: &dyn OptimizerConfig,
    ) -> Result<Transformed<LogicalPlan>> {
        let LogicalPlan::Aggregate(aggregate) = &plan else {
            return Ok(Transformed::no(plan));
        };
        Ok(match in_two_steps(aggregate)? {
            Some(two) => Transformed::yes(two),
            None => Transformed::no(plan),
        })
    }
}

fn in_two_steps(aggregate: &Aggregate) -> Result<Option<LogicalPlan>> {
    let [Expr::GroupingSet(sets)] = aggregate.group_expr.as_slice() else {
        return Ok(None);
    };
    let schema = aggregate.input.schema();
    if is_one_set(sets) || is_aggregated(&aggregate.input) {
        return Ok(None);
    }
    let mut again = Vec::with_capacity(aggregate.aggr_expr.len());
    for of_rows in &aggregate.aggr_expr {
        match Again::of(of_rows, schema)? {
            Some(of_groups) => again.push(of_groups),
            None => return Ok(None),
        }
    }
    let keys = grouping_set_to_exprlist(&aggregate.group_expr)?;
    let keys: Vec<Expr> = keys.into_iter().cloned().collect();
    let of_rows = aggregate.aggr_expr.clone();
    let finest = Aggregate::try_new(Arc::clone(&aggregate.input), keys.clone(), of_rows)?;
    let finest = LogicalPlan::Aggregate(finest);
    let column = |at: usize| Expr::Column(Column::from(finest.schema().qualified_field(at)));

    let key = |given: &Expr| {
        let at = keys.iter().position(|key| key == given);
        at.map_or_else(|| given.clone(), column)
    };
    let keys_of = |given: &Vec<Expr>| given.iter().map(key).collect();
    let sets = match sets {
        GroupingSet::Rollup(given) => GroupingSet::Rollup(keys_of(given)),
        GroupingSet::Cube(given) => GroupingSet::Cube(keys_of(given)),
        GroupingSet::GroupingSets(given) => {
            GroupingSet::GroupingSets(given.iter().map(keys_of).collect())
        }
    };
    let of_groups = again.iter().enumerate();
    let of_groups = of_groups.map(|(at, again)| again.call(column(keys.len() + at)));
    let of_groups = of_groups.collect();
    let sets = vec![Expr::GroupingSet(sets)];
    let groups = Aggregate::try_new(Arc::new(finest.clone()), sets, of_groups)?;

    let first = aggregate.schema.fields().len() - again.len();
    let named = aggregate.schema.iter().zip(groups.schema.iter());
    let named = named
        .enumerate()
        .map(|(at, ((qualifier, field), (of, found)))| {
            let column = Expr::Column(Column::from((of, found)));
            let value = match at.checked_sub(first) {
                Some(at) => again[at].result(column, field.data_type(), found.data_type())?,
                None if (of, found.name()) == (qualifier, field.name()) => return Ok(column),
                None => column,
            };
            Ok(value.alias_qualified(qualifier.cloned(), field.name()))
        });
    let named = named.collect::<Result<_>>()?;
    let groups = Arc::new(LogicalPlan::Aggregate(groups));
    let plan = Projection::try_new(named, groups)?;
    Ok(Some(LogicalPlan::Projection(plan)))
}

/// Whether there is nothing to share.
fn is_one_set(sets: &GroupingSet) -> bool {
    match sets {
        GroupingSet::Rollup(keys) | GroupingSet::Cube(keys) => keys.is_empty(),
        GroupingSet::GroupingSets(sets) => sets.len() < 2,
    }
}

/// Whether the rows are groups already. This also tells a plan that was rewritten before.
fn is_aggregated(plan: &LogicalPlan) -> bool {
    match plan {
        LogicalPlan::Aggregate(_) => true,
        LogicalPlan::Projection(projection) => is_aggregated(&projection.input),
        LogicalPlan::SubqueryAlias(alias) => is_aggregated(&alias.input),
        LogicalPlan::Filter(filter) => is_aggregated(&filter.input),
        _ => false,
    }
}

/// How an aggregate's results of the finest groups become those of larger groups.
enum Again {
    /// By adding them up. A set of no keys has a group without rows, which counts 0.
    Count,
    /// By the aggregate itself.
    Same(AggregateFunction),
}

impl Again {
    /// `None` if that is not possible.
    fn of(of_rows: &Expr, schema: &DFSchema) -> Result<Option<Self>> {
        let Expr::AggregateFunction(function) = unaliased(of_rows) else {
            return Ok(None);
        };
        let params = &function.params;
        if params.distinct || !params.order_by.is_empty() || params.null_treatment.is_some() {
            return Ok(None);
        }
        let given = params.args.first().map(|arg| arg.get_type(schema));
        let given = given.transpose()?.unwrap_or(DataType::Null);
        let is_same = match function.func.name() {
            "count" => return Ok(Some(Self::Count)),
            "sum" => given.is_integer() || given.is_decimal(),
            "min" | "max" | "bool_and" | "bool_or" | "bit_and" | "bit_or" => true,
            _ => false,
        };
        Ok((is_same && params.args.len() == 1).then(|| Self::Same(function.clone())))
    }

    fn call(&self, column: Expr) -> Expr {
        let params = AggregateFunctionParams {
            args: vec![column],
            distinct: false,
            filter: None,
            order_by: vec![],
            null_treatment: None,
        };
        let func = match self {
            Self::Count => sum_udaf(),
            Self::Same(function) => Arc::clone(&function.func),
        };
        Expr::AggregateFunction(AggregateFunction { func, params })
    }

    /// The value of `column`, of type `found`, as the aggregate of the rows has it. The sum of sums
    /// has a wider type, but its value fits the sum's type.
    fn result(&self, column: Expr, wanted: &DataType, found: &DataType) -> Result<Expr> {
        let value = match self {
            Self::Count => {
                let zero = lit(ScalarValue::new_zero(found)?);
                when(column.clone().is_null(), zero).otherwise(column)?
            }
            Self::Same(_) => column,
        };
        Ok(if found == wanted {
            value
        } else {
            cast(value, wanted.clone())
        })
    }
}
