//! When do two floats form the same group or row, or match as keys of an order or a join?
//!
//! In PostgreSQL -0 equals 0, all NaN are equal, and NaN comes last. DataFusion 55.2 groups, orders
//! and joins floats by their bits. So the keys of groups, distinct arguments, windows, ORDER BY and
//! joins that are floats, or arrays of floats, are wrapped in `float_key`
//! (`numbers/aggregation/float_key.rs`), which maps equal floats to the same value. A group still
//! shows one of its own values. The rule runs last, when IN, EXISTS, DISTINCT, INTERSECT and `a.f =
//! b.f` have become joins and groups.
//!
//! Inside arrays NULL is the largest element. DataFusion places such elements like the NULLs of
//! the key, so an order of arrays puts NULLs last (first, if it descends), and an additional key
//! before it places the NULL arrays.
//!
//! `count(DISTINCT x)` of arrays and rows counts bytes (`list_key.rs`).
//!
//! Not here: comparisons outside of keys.

use std::sync::Arc;

use datafusion::common::tree_node::Transformed;
use datafusion::common::{Column, DFSchema};
use datafusion::error::Result;
use datafusion::functions_aggregate::min_max::min_udaf;
use datafusion::logical_expr::expr::Sort;
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::utils::{grouping_set_to_exprlist, merge_schema};
use datafusion::logical_expr::{
    Aggregate, Expr, ExprSchemable, GroupingSet, Join, LogicalPlan, Projection,
};
use datafusion::optimizer::optimizer::ApplyOrder;
use datafusion::optimizer::{OptimizerConfig, OptimizerRule};

use super::list_key;
use crate::numbers::{float_key as key, float_of_key, is_float_key as is_key, shown_float};
use crate::trees::{PlanTree, Tree};

/// See the file's header.
#[derive(Debug)]
pub(crate) struct FloatKeys;

impl OptimizerRule for FloatKeys {
    fn name(&self) -> &'static str {
        "coscan_float_keys"
    }

    fn apply_order(&self) -> Option<ApplyOrder> {
        Some(ApplyOrder::BottomUp)
    }

    fn rewrite(
        &self,
        node: LogicalPlan,
        _: &dyn OptimizerConfig,
    ) -> Result<Transformed<LogicalPlan>> {
        match node {
            LogicalPlan::Join(join) => joined(join),
            LogicalPlan::Sort(mut sort) => {
                let schema = Arc::clone(sort.input.schema());
                let changed = order_by(&mut sort.expr, &schema);
                Ok(Transformed::new_transformed(
                    LogicalPlan::Sort(sort),
                    changed,
                ))
            }
            LogicalPlan::Aggregate(_) | LogicalPlan::Window(_) => {
                let schema = merge_schema(&node.inputs());
                let names = NamePreserver::new(&node);
                let node = node.change_expressions(|expr| {
                    let name = names.save(&expr);
                    let keyed = expr.change_up(|expr| keyed(expr, &schema))?;
                    Ok(keyed.update_data(|expr| name.restore(expr)))
                })?;
                node.transform_data(|node| match node {
                    LogicalPlan::Aggregate(aggregate) => Ok(match grouped(&aggregate)? {
                        Some(plan) => Transformed::yes(plan),
                        None => Transformed::no(LogicalPlan::Aggregate(aggregate)),
                    }),
                    node => Ok(Transformed::no(node)),
                })
            }
            node => Ok(Transformed::no(node)),
        }
    }
}

/// Converts the expressions of an order to keys.
fn order_by(sorts: &mut Vec<Sort>, schema: &DFSchema) -> bool {
    let mut changed = false;
    let mut at = 0;
    while let Some(sort) = sorts.get_mut(at) {
        if is_key(&sort.expr, schema) {
            sort.expr = key(std::mem::take(&mut sort.expr));
            changed = true;
        }
        // The option would also move NULLs inside of arrays, so another key places the NULL
        // arrays.
        let is_list = sort.expr.get_type(schema).is_ok_and(|of| of.is_list());
        if is_list && sort.asc == sort.nulls_first {
            sort.nulls_first = !sort.asc;
            let nulls_first = sort.asc;
            let nulls = sort.expr.clone().is_null().sort(!nulls_first, false);
            sorts.insert(at, nulls);
            changed = true;
            at += 1;
        }
        at += 1;
    }
    changed
}

/// Converts distinct arguments, and the keys by which windows are partitioned and ordered.
fn keyed(expr: Expr, schema: &DFSchema) -> Result<Transformed<Expr>> {
    let mut changed = false;
    let mut make = |exprs: &mut Vec<Expr>| {
        for expr in exprs {
            if is_key(expr, schema) {
                *expr = key(std::mem::take(expr));
                changed = true;
            }
        }
    };
    let expr = match expr {
        Expr::AggregateFunction(mut call) => {
            if call.params.distinct {
                make(&mut call.params.args);
                if call.func.name() == "count" {
                    let args = call.params.args.iter_mut();
                    for nested in args.filter(|arg| list_key::is_nested(arg, schema)) {
                        *nested = list_key::list_key(std::mem::take(nested));
                        changed = true;
                    }
                }
            }
            // The sort key of an ordered-set aggregate is also its argument.
            if !call.func.supports_within_group_clause() {
                changed |= order_by(&mut call.params.order_by, schema);
            }
            Expr::AggregateFunction(call)
        }
        Expr::WindowFunction(mut window) => {
            make(&mut window.params.partition_by);
            changed |= order_by(&mut window.params.order_by, schema);
            Expr::WindowFunction(window)
        }
        other => other,
    };
    Ok(Transformed::new_transformed(expr, changed))
}

/// An aggregate grouped by keys; `None` if it does not group by floats.
fn grouped(aggregate: &Aggregate) -> Result<Option<LogicalPlan>> {
    let schema = aggregate.input.schema();
    let mut changed = false;
    let mut keys = |expr: &Expr| -> Expr {
        let inner = match expr {
            Expr::Alias(alias) => alias.expr.as_ref(),
            other => other,
        };
        if !is_key(inner, schema) {
            return expr.clone();
        }
        changed = true;
        key(inner.clone())
    };
    let mut list = |exprs: &[Expr]| -> Vec<Expr> { exprs.iter().map(&mut keys).collect() };
    let mut group = Vec::with_capacity(aggregate.group_expr.len());
    for expr in &aggregate.group_expr {
        group.push(match expr {
            Expr::GroupingSet(GroupingSet::Rollup(exprs)) => {
                Expr::GroupingSet(GroupingSet::Rollup(list(exprs)))
            }
            Expr::GroupingSet(GroupingSet::Cube(exprs)) => {
                Expr::GroupingSet(GroupingSet::Cube(list(exprs)))
            }
            Expr::GroupingSet(GroupingSet::GroupingSets(sets)) => {
                let sets = sets.iter().map(|exprs| list(exprs)).collect();
                Expr::GroupingSet(GroupingSet::GroupingSets(sets))
            }
            other => list(std::slice::from_ref(other)).swap_remove(0),
        });
    }
    if !changed {
        return Ok(None);
    }
    let mut functions = aggregate.aggr_expr.clone();
    // All values in a group of zeros are equal, so DataFusion's min returns the first one it
    // finds.
    let mut least = Vec::new();
    for (at, key) in grouping_set_to_exprlist(&group)?.into_iter().enumerate() {
        if let Some(float) = float_of_key(key, schema) {
            let name = format!("__least_{}", functions.len());
            functions.push(min_udaf().call(vec![float.clone()]).alias(&name));
            least.push((at, Expr::Column(Column::from_name(name))));
        }
    }
    let below = Aggregate::try_new(Arc::clone(&aggregate.input), group, functions)?;
    let output = aggregate.schema.iter().zip(below.schema.iter()).enumerate();
    let output = output.map(|(at, ((relation, field), own))| {
        let column = Column::from(own);
        let is_same = column.relation.as_ref() == relation && column.name == *field.name();
        let shown = match least.iter().find(|(group, _)| *group == at) {
            Some((_, least)) => shown_float(Expr::Column(column), least.clone()),
            None if is_same => return Expr::Column(column),
            None => Expr::Column(column),
        };
        shown.alias_qualified(relation.cloned(), field.name())
    });
    let output = output.collect();
    let above = Projection::try_new(output, Arc::new(LogicalPlan::Aggregate(below)))?;
    Ok(Some(LogicalPlan::Projection(above)))
}

/// Converts the keys of a join.
fn joined(mut join: Join) -> Result<Transformed<LogicalPlan>> {
    let mut changed = false;
    for (left, right) in &mut join.on {
        if is_key(left, join.left.schema()) && is_key(right, join.right.schema()) {
            *left = key(std::mem::take(left));
            *right = key(std::mem::take(right));
            changed = true;
        }
        let (of_left, of_right) = (join.left.schema(), join.right.schema());
        if let Some(bytes) = list_key::bytes_of(left, right, of_left, of_right) {
            (*left, *right) = bytes;
            changed = true;
        }
    }
    Ok(Transformed::new_transformed(
        LogicalPlan::Join(join),
        changed,
    ))
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "tests: a failure should panic")]
mod tests {
    use datafusion::arrow::array::{ArrayRef, Float64Array, Int64Array, RecordBatch};
    use datafusion::arrow::util::pretty::pretty_format_batches;
    use datafusion::execution::SessionStateBuilder;
    use datafusion::prelude::SessionContext;

    use super::*;

    #[tokio::test]
    async fn equal_floats_have_one_key() {
        let builder = SessionStateBuilder::new().with_default_features();
        let context = SessionContext::new_with_state(crate::install(builder).build());
        let floats = [0.0, -0.0, f64::NAN, -f64::NAN, 1.0];
        for (name, floats) in [("t", &floats[..]), ("u", &[-0.0, f64::NAN, 7.0])] {
            let numbers = 0..i64::try_from(floats.len()).unwrap();
            let batch = RecordBatch::try_from_iter([
                (
                    "f",
                    Arc::new(Float64Array::from(floats.to_vec())) as ArrayRef,
                ),
                ("n", Arc::new(Int64Array::from_iter_values(numbers))),
            ]);
            context.register_batch(name, batch.unwrap()).unwrap();
        }
        for (sql, expected) in [
            (
                "SELECT count(*) FROM (SELECT f FROM t GROUP BY f) AS s",
                "3",
            ),
            ("SELECT count(*) FROM (SELECT DISTINCT f FROM t) AS s", "3"),
            ("SELECT count(DISTINCT f) FROM t", "3"),
            (
                "SELECT max(c) FROM (SELECT f, count(*) AS c FROM t GROUP BY ROLLUP (f)) AS s",
                "5",
            ),
            (
                "SELECT count(*) FROM (SELECT f + 1 AS g FROM t GROUP BY f + 1) AS s",
                "3",
            ),
            (
                "SELECT max(r) FROM (SELECT row_number() OVER (PARTITION BY f) AS r FROM t) AS s",
                "2",
            ),
            ("SELECT count(*) FROM t JOIN u ON t.f = u.f", "4"),
            ("SELECT count(*) FROM t JOIN u USING (f)", "4"),
            ("SELECT count(*) FROM t, u WHERE t.f = u.f", "4"),
            ("SELECT count(*) FROM t WHERE f IN (SELECT f FROM u)", "4"),
            (
                "SELECT count(*) FROM t WHERE f NOT IN (SELECT f FROM u)",
                "1",
            ),
            (
                "SELECT count(*) FROM t WHERE EXISTS (SELECT 1 FROM u WHERE u.f = t.f)",
                "4",
            ),
            (
                "SELECT count(*) FROM t WHERE t.f = (SELECT max(u.f) FROM u WHERE u.f = t.f)",
                "4",
            ),
            (
                "SELECT count(*) FROM (SELECT f FROM t INTERSECT SELECT f FROM u) AS s",
                "2",
            ),
            (
                "SELECT count(*) FROM (SELECT f FROM t EXCEPT SELECT f FROM u) AS s",
                "1",
            ),
            (
                "SELECT count(*) FROM (SELECT f FROM t UNION SELECT f FROM u) AS s",
                "4",
            ),
        ] {
            let found = context.sql(sql).await.unwrap().collect().await.unwrap();
            let text = pretty_format_batches(&found).unwrap().to_string();
            let value = text.lines().nth(3).unwrap().replace(['|', ' '], "");
            assert_eq!(value, expected, "{sql}");
        }
    }
}
