//! Predicates that DataFusion's optimizer mistakes for others.
//!
//! - `d IN (0, …)` over floats: a list is searched by the bits of its values, and -0 has other
//!   bits than the equal 0. If a list contains a zero, 0 is added to the value, which turns -0
//!   into 0 and changes nothing else.
//! - `5 IN (nullif(x, 4), 1)`: a CASE in a list with a constant is taken for a constant. A list
//!   with columns becomes a chain of comparisons.
//! - `x IN (1, 2) AND x NOT IN (3, NULL)`: two lists for the same value are merged, ignoring NULL.
//!   All but the first get a different expression for the value.
//! - `2 = x`: `simplify_predicates` takes `2 = x` and `x = 2` for conditions that exclude each
//!   other, and `5 < x` for one that `x >= 5` implies. The column is put first, also if the other
//!   side is a constant expression (`1 + 1 = x`).

use datafusion::arrow::datatypes::DataType;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNodeRecursion};
use datafusion::config::ConfigOptions;
use datafusion::error::Result;
use datafusion::logical_expr::expr::InList;
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::{BinaryExpr, Expr, LogicalPlan, Operator, lit};
use datafusion::optimizer::AnalyzerRule;
use datafusion::scalar::ScalarValue;

use crate::functions::as_it_is;
use crate::parts::has_part;
use crate::trees::{PlanTree, Tree};

/// Rewrites such predicates so that the optimizer keeps their meaning. Runs last, over coerced
/// types.
#[derive(Debug, Default)]
pub(crate) struct Predicates;

impl AnalyzerRule for Predicates {
    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> Result<LogicalPlan> {
        plan.change_up_with_subqueries(|node| {
            if !has_part(&node, concerns) {
                return Ok(Transformed::no(node));
            }
            let names = NamePreserver::new(&node);
            node.change_expressions(|expr| {
                let name = names.save(&expr);
                let expr = expr.change_up(|part| Ok(column_first(part)))?;
                let expr =
                    expr.transform_data(|expr| expr.change_up(|part| Ok(with_zeros(part))))?;
                let expr = expr
                    .transform_data(|expr| expr.change_up(|part| Ok(compared_one_by_one(part))))?;
                let expr = expr.transform_data(|expr| expr.change_up(apart))?;
                Ok(expr.update_data(|expr| name.restore(expr)))
            })
        })
        .data()
    }

    fn name(&self) -> &'static str {
        "keep_predicates"
    }
}

/// Whether the rule may change a part of an expression: a list, or a comparison that may begin with
/// a constant.
fn concerns(part: &Expr) -> bool {
    match part {
        Expr::InList(_) => true,
        Expr::BinaryExpr(BinaryExpr { left, op, .. }) => {
            swapped(*op).is_some() && !matches!(left.as_ref(), Expr::Column(_))
        }
        _ => false,
    }
}

/// The operator of a comparison whose sides are exchanged.
fn swapped(op: Operator) -> Option<Operator> {
    op.swap().filter(|_| op.supports_propagation())
}

/// Whether an expression will be folded: it has no columns, of this query or an outer one.
fn is_constant(expr: &Expr) -> bool {
    let names_something = expr.has(|part| {
        let is_subquery = matches!(
            part,
            Expr::ScalarSubquery(_) | Expr::InSubquery(_) | Expr::Exists(_)
        );
        Ok(is_subquery || matches!(part, Expr::Column(_) | Expr::OuterReferenceColumn(..)))
    });
    matches!(names_something, Ok(false))
}

/// Turns `constant op column` into `column op constant`.
fn column_first(expr: Expr) -> Transformed<Expr> {
    let Expr::BinaryExpr(BinaryExpr { left, op, right }) = expr else {
        return Transformed::no(expr);
    };
    // Only the sides of comparisons are searched, so that a long chain is not searched at every
    // link.
    match swapped(op) {
        Some(swapped) if is_constant(&left) && right.any_column_refs() => {
            Transformed::yes(Expr::BinaryExpr(BinaryExpr::new(right, swapped, left)))
        }
        _ => Transformed::no(Expr::BinaryExpr(BinaryExpr::new(left, op, right))),
    }
}

/// Of several lists for one value in a conjunction, all but the first get an opaque value.
fn apart(expr: Expr) -> Result<Transformed<Expr>> {
    let Expr::BinaryExpr(BinaryExpr { left, op, right }) = expr else {
        return Ok(Transformed::no(expr));
    };
    let right = right.change_down(|part| {
        Ok(match &part {
            Expr::BinaryExpr(chain) if chain.op == op => Transformed::no(part),
            _ if list_of(&part).is_some() && meets(&left, op, &part) => {
                Transformed::new(hidden(part), true, TreeNodeRecursion::Jump)
            }
            _ => Transformed::new(part, false, TreeNodeRecursion::Jump),
        })
    })?;
    Ok(right.update_data(|right| Expr::BinaryExpr(BinaryExpr::new(left, op, Box::new(right)))))
}

/// Whether a list would be merged with one in a chain of AND or OR. (The union of lists is right.)
fn meets(chain: &Expr, op: Operator, list: &Expr) -> bool {
    match chain {
        Expr::BinaryExpr(inner) if inner.op == op => {
            meets(&inner.left, op, list) || meets(&inner.right, op, list)
        }
        other => match (list_of(other), list_of(list)) {
            (Some((one, negated)), Some((other, other_negated))) => {
                let united = match op {
                    Operator::And => negated && other_negated,
                    Operator::Or => !negated && !other_negated,
                    _ => true,
                };
                one == other && !united
            }
            _ => false,
        },
    }
}

/// The value that is looked up in a list, and whether the lookup is negated.
fn list_of(expr: &Expr) -> Option<(&Expr, bool)> {
    match expr {
        Expr::InList(given) => Some((&given.expr, given.negated)),
        Expr::Not(inner) => list_of(inner).map(|(value, negated)| (value, !negated)),
        _ => None,
    }
}

fn hidden(list: Expr) -> Expr {
    match list {
        Expr::InList(given) => Expr::InList(InList {
            expr: Box::new(as_it_is(*given.expr)),
            ..given
        }),
        Expr::Not(inner) => Expr::Not(Box::new(hidden(*inner))),
        other => other,
    }
}

/// Turns a list whose values differ from row to row into a chain of comparisons.
fn compared_one_by_one(expr: Expr) -> Transformed<Expr> {
    match &expr {
        Expr::InList(given)
            if given.list.iter().any(Expr::any_column_refs) && !given.expr.is_volatile() =>
        {
            let value = given.expr.as_ref();
            let each = given.list.iter().cloned();
            let chain = if given.negated {
                each.map(|one| value.clone().not_eq(one)).reduce(Expr::and)
            } else {
                each.map(|one| value.clone().eq(one)).reduce(Expr::or)
            };
            chain.map_or_else(|| Transformed::no(expr), Transformed::yes)
        }
        _ => Transformed::no(expr),
    }
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

/// 0 in the type of a literal 0 or -0.
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
