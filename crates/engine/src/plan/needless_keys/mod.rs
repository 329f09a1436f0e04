//! Which keys of GROUP BY, ORDER BY and windows say nothing that the others do not?
//!
//! A key that has one value in all rows (`WHERE year = 2000 GROUP BY year, item`) divides no group
//! and decides no order; neither does one that always equals an earlier key. DataFusion takes a
//! constant for an ordered column, and an aggregate for one whose input is ordered by it: it then
//! looks for the end of a group in each batch and compares the keys row by row, which is many times
//! slower than hashing them. So such keys are removed. A projection above the aggregate gives their
//! columns back.
//!
//! Not here: keys without columns, and keys computed from others, which DataFusion removes;
//! which values are equal (`equal.rs`).
//! NKEY-I2: an aggregate, a sort and a window's order that have a key keep one. Without any, an
//! aggregate has a row for no input, and a window's frame may count in other units.

mod equal;

use std::sync::Arc;

use datafusion::common::metadata::FieldMetadata;
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::common::{Column, DFSchema};
use datafusion::error::Result;
use datafusion::logical_expr::expr::{Sort as SortKey, WindowFunction};
use datafusion::logical_expr::{
    Aggregate, Expr, ExprSchemable, LogicalPlan, Projection, Sort, Window,
};
use datafusion::optimizer::{OptimizerConfig, OptimizerRule};
use datafusion::scalar::ScalarValue;

pub(super) use equal::unaliased;
use equal::{Equal, is_grouping_set};

/// Removes keys that say nothing.
#[derive(Debug)]
pub(crate) struct NeedlessKeys;

impl OptimizerRule for NeedlessKeys {
    fn name(&self) -> &'static str {
        "coscan_needless_keys"
    }

    fn rewrite(
        &self,
        plan: LogicalPlan,
        _: &dyn OptimizerConfig,
    ) -> Result<Transformed<LogicalPlan>> {
        // What is known of rows is worked out for keys only.
        if !has_keys(&plan)? {
            return Ok(Transformed::no(plan));
        }
        Ok(visit(plan)?.0)
    }
}

/// Whether the plan, or a subquery of it, has a node with keys.
fn has_keys(plan: &LogicalPlan) -> Result<bool> {
    use LogicalPlan::{Aggregate, Sort, Window};
    let mut found = false;
    plan.apply_with_subqueries(|node| {
        found |= matches!(node, Aggregate(_) | Sort(_) | Window(_));
        Ok(if found {
            TreeNodeRecursion::Stop
        } else {
            TreeNodeRecursion::Continue
        })
    })?;
    Ok(found)
}

/// The plan without such keys, and what is known of its rows.
fn visit(plan: LogicalPlan) -> Result<(Transformed<LogicalPlan>, Equal)> {
    let mut inputs = Vec::new();
    let below = plan.map_subqueries(|plan| Ok(visit(plan)?.0))?;
    let below = below.transform_sibling(|plan| {
        plan.map_children(|plan| {
            let (plan, known) = visit(plan)?;
            inputs.push(known);
            Ok(plan)
        })
    })?;
    let input = inputs.first().cloned().unwrap_or_default();
    let known = Equal::of(&below.data, inputs);
    let plan = below.transform_data(|plan| match plan {
        LogicalPlan::Aggregate(aggregate) => grouped(aggregate, &input),
        LogicalPlan::Sort(sort) => Ok(sorted(sort, &input)),
        LogicalPlan::Window(window) => windowed(window, &input),
        plan => Ok(Transformed::no(plan)),
    })?;
    Ok((plan, known))
}

/// An aggregate by the keys that divide groups, and a projection that adds the others.
fn grouped(aggregate: Aggregate, known: &Equal) -> Result<Transformed<LogicalPlan>> {
    let keys = &aggregate.group_expr;
    if is_grouping_set(keys) {
        return Ok(Transformed::no(LogicalPlan::Aggregate(aggregate)));
    }
    let schema = aggregate.input.schema();
    let all_say_nothing = keys.iter().all(|key| value(key, known, schema).is_some());
    let mut kept: Vec<(Expr, Expr)> = Vec::with_capacity(keys.len());
    let mut columns = Vec::with_capacity(aggregate.schema.fields().len());
    for (at, (qualifier, field)) in aggregate.schema.iter().enumerate() {
        let column = Expr::Column(Column::from((qualifier, field)));
        let Some(key) = keys.get(at) else {
            columns.push(column);
            continue;
        };
        let is_last = all_say_nothing && at + 1 == keys.len();
        let same = kept.iter().find(|(other, _)| known.are_same(key, other));
        let other = match (value(key, known, schema), same) {
            (Some(value), _) if !is_last => {
                let metadata = FieldMetadata::from(field.as_ref());
                let metadata = (!metadata.is_empty()).then_some(metadata);
                Some(Expr::Literal(value.clone(), metadata))
            }
            (None, Some((_, column))) => Some(column.clone()),
            _ => None,
        };
        columns.push(match other {
            Some(other) => other.alias_qualified(qualifier.cloned(), field.name()),
            None => {
                kept.push((key.clone(), column.clone()));
                column
            }
        });
    }
    if kept.len() == keys.len() {
        return Ok(Transformed::no(LogicalPlan::Aggregate(aggregate)));
    }
    let kept = kept.into_iter().map(|(key, _)| key).collect();
    let fewer = Aggregate::try_new(aggregate.input, kept, aggregate.aggr_expr)?;
    let fewer = Arc::new(LogicalPlan::Aggregate(fewer));
    let plan = LogicalPlan::Projection(Projection::try_new(columns, fewer)?);
    Ok(Transformed::yes(plan))
}

fn sorted(mut sort: Sort, known: &Equal) -> Transformed<LogicalPlan> {
    let kept = ordering(&sort.expr, &[], known, sort.input.schema());
    let changes = !kept.is_empty() && kept.len() < sort.expr.len();
    if changes {
        sort.expr = kept;
    }
    Transformed::new_transformed(LogicalPlan::Sort(sort), changes)
}

/// The functions of one node are in one order, and stay so: all of them lose the same keys.
fn windowed(window: Window, known: &Equal) -> Result<Transformed<LogicalPlan>> {
    let schema = window.input.schema();
    let fewer = window.window_expr.iter().map(|expr| {
        let Expr::WindowFunction(function) = unaliased(expr) else {
            return None;
        };
        let mut function = WindowFunction::clone(function);
        let params = &mut function.params;
        let keys = partition(&params.partition_by, known, schema);
        let order = ordering(&params.order_by, &keys, known, schema);
        if order.is_empty() && !params.order_by.is_empty() {
            return None;
        }
        let are_all = keys.len() == params.partition_by.len();
        if are_all && order.len() == params.order_by.len() {
            return None;
        }
        params.partition_by = keys;
        params.order_by = order;
        Some(Expr::from(function).alias(expr.schema_name().to_string()))
    });
    let Some(fewer) = fewer.collect() else {
        return Ok(Transformed::no(LogicalPlan::Window(window)));
    };
    let window = Window::try_new(fewer, Arc::clone(&window.input))?;
    Ok(Transformed::yes(LogicalPlan::Window(window)))
}

fn partition(keys: &[Expr], known: &Equal, schema: &DFSchema) -> Vec<Expr> {
    let mut kept: Vec<Expr> = Vec::with_capacity(keys.len());
    for key in keys {
        let is_same = kept.iter().any(|other| known.are_same(key, other));
        if !is_same && value(key, known, schema).is_none() {
            kept.push(key.clone());
        }
    }
    kept
}

/// The keys of an order that decide something among rows that are alike in `divided_by`.
fn ordering(
    keys: &[SortKey],
    divided_by: &[Expr],
    known: &Equal,
    schema: &DFSchema,
) -> Vec<SortKey> {
    let mut kept: Vec<SortKey> = Vec::with_capacity(keys.len());
    for key in keys {
        let mut earlier = divided_by.iter().chain(kept.iter().map(|key| &key.expr));
        let is_same = earlier.any(|other| known.are_same(&key.expr, other));
        if !is_same && value(&key.expr, known, schema).is_none() {
            kept.push(key.clone());
        }
    }
    kept
}

/// The value that a key has in all rows.
fn value<'a>(key: &'a Expr, known: &'a Equal, schema: &DFSchema) -> Option<&'a ScalarValue> {
    let value = known.value(key)?;
    (key.get_type(schema).ok()? == value.data_type()).then_some(value)
}
