//! Predicates that DataFusion's optimizer takes for others.
//!
//! - `d IN (0, …)` over floats: a list is looked up by the bits of its values, and -0 has other
//!   bits
//!   than 0, to which it is equal. Where a list has a zero, 0 is added to the value: that turns -0
//!   into 0 and nothing else.
//! - `2 = x`: `simplify_predicates` takes it and `x = 2` for two conditions that exclude each
//!   other,
//!   and `5 < x` for one that `x >= 5` implies. The column comes first.
//! - `(SELECT …) > 0` above an aggregate without GROUP BY: a condition without columns is pushed
//!   below the aggregate, which then is one over no rows and not none. The condition moves to the
//!   other side of a cross join.

use datafusion::arrow::datatypes::DataType;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode, TreeNodeRecursion};
use datafusion::config::ConfigOptions;
use datafusion::error::Result;
use datafusion::logical_expr::expr::InList;
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::utils::{conjunction, split_conjunction_owned};
use datafusion::logical_expr::{BinaryExpr, Expr, LogicalPlan, LogicalPlanBuilder, lit};
use datafusion::optimizer::AnalyzerRule;
use datafusion::scalar::ScalarValue;

/// Writes such predicates in a way that the optimizer keeps. It runs last, over coerced types.
#[derive(Debug, Default)]
pub(crate) struct Predicates;

impl AnalyzerRule for Predicates {
    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> Result<LogicalPlan> {
        plan.transform_up_with_subqueries(|node| {
            let node = above_aggregate(node)?;
            let names = NamePreserver::new(&node);
            node.map_expressions(|expr| {
                let name = names.save(&expr);
                let expr = expr.transform_up(|part| Ok(column_first(part)))?;
                let expr =
                    expr.transform_data(|expr| expr.transform_up(|part| Ok(with_zeros(part))))?;
                Ok(expr.update_data(|expr| name.restore(expr)))
            })
        })
        .data()
    }

    fn name(&self) -> &'static str {
        "keep_predicates"
    }
}

/// `column op constant` for `constant op column`.
fn column_first(expr: Expr) -> Transformed<Expr> {
    match expr {
        Expr::BinaryExpr(BinaryExpr { left, op, right })
            if matches!(left.as_ref(), Expr::Literal(..) | Expr::Cast(_))
                && !left.any_column_refs()
                && right.any_column_refs() =>
        {
            match op.swap() {
                Some(swapped) if op.supports_propagation() => {
                    Transformed::yes(Expr::BinaryExpr(BinaryExpr::new(right, swapped, left)))
                }
                _ => Transformed::no(Expr::BinaryExpr(BinaryExpr::new(left, op, right))),
            }
        }
        other => Transformed::no(other),
    }
}

/// Moves conditions without columns away from aggregates without GROUP BY.
fn above_aggregate(node: LogicalPlan) -> Result<LogicalPlan> {
    let LogicalPlan::Filter(given) = node else {
        return Ok(node);
    };
    let is_constant = |part: &Expr| {
        let mut computed = false;
        let _ = part.apply(|part| {
            computed |= matches!(part, Expr::ScalarSubquery(_));
            Ok(TreeNodeRecursion::Continue)
        });
        computed && !part.any_column_refs()
    };
    let parts = split_conjunction_owned(given.predicate.clone()).into_iter();
    let (constant, others): (Vec<Expr>, Vec<Expr>) = parts.partition(is_constant);
    let Some(condition) = conjunction(constant) else {
        return Ok(LogicalPlan::Filter(given));
    };
    let mut whole = false;
    given.input.apply(|below| {
        whole |= matches!(below, LogicalPlan::Aggregate(all) if all.group_expr.is_empty());
        Ok(TreeNodeRecursion::Continue)
    })?;
    if !whole {
        return Ok(LogicalPlan::Filter(given));
    }
    let columns: Vec<Expr> = given.input.schema().iter().map(Expr::from).collect();
    let one_row = LogicalPlanBuilder::empty(true)
        .project(vec![lit(true).alias("__holds")])?
        .filter(condition)?
        .build()?;
    let mut plan = LogicalPlanBuilder::new_from_arc(given.input);
    if let Some(others) = conjunction(others) {
        plan = plan.filter(others)?;
    }
    plan.cross_join(one_row)?.project(columns)?.build()
}

fn with_zeros(expr: Expr) -> Transformed<Expr> {
    let Expr::InList(mut given) = expr else {
        return Transformed::no(expr);
    };
    let Some(zero) = given.list.iter().find_map(zero) else {
        return Transformed::no(Expr::InList(given));
    };
    for item in &mut given.list {
        if self::zero(item).is_some() {
            *item = zero.clone();
        }
    }
    let InList {
        expr,
        list,
        negated,
    } = given;
    let expr = Box::new(*expr + zero);
    Transformed::yes(Expr::InList(InList {
        expr,
        list,
        negated,
    }))
}

/// 0 in the type of a literal that is 0 or -0.
fn zero(expr: &Expr) -> Option<Expr> {
    match expr {
        Expr::Literal(ScalarValue::Float64(Some(value)), _) if *value == 0.0 => Some(lit(0.0_f64)),
        Expr::Literal(ScalarValue::Float32(Some(value)), _) if *value == 0.0 => Some(lit(0.0_f32)),
        Expr::Cast(cast) => {
            let float = cast.field.data_type();
            match (cast.expr.as_ref(), float) {
                (Expr::Literal(value, _), DataType::Float32 | DataType::Float64) => {
                    zero(&Expr::Literal(value.cast_to(float).ok()?, None))
                }
                _ => None,
            }
        }
        _ => None,
    }
}
