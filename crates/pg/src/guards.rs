//! `x <> 0 AND 2 / x > 1`: expressions that may fail are evaluated only for rows that need them.
//!
//! PostgreSQL evaluates AND and OR from the left and stops once the result is known; DataFusion
//! evaluates both sides for all rows, and turns a CASE of booleans into AND. Here the side that
//! may fail becomes a CASE of numbers, which DataFusion evaluates only for the rows that reach it.
//! In a filter, conditions that may fail are evaluated for rows that pass the others. The rule
//! runs after the others, which combine conditions. Arguments of an aggregate with FILTER are not
//! computed for rows that it excludes. A function that takes or releases an advisory lock is
//! treated as one that may fail: a lock of a row that is dropped would stay.
//! Not here: arguments of other aggregates.
//!
//! U1: a guarded condition keeps its value, except that it may be false where the filter drops the
//! row anyway.

use datafusion::arrow::datatypes::DataType;
use datafusion::common::DFSchema;
use datafusion::common::tree_node::Transformed;
use datafusion::error::Result;
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::utils::{conjunction, merge_schema, split_conjunction_owned};
use datafusion::logical_expr::{
    BinaryExpr, Case, Cast, Expr, ExprSchemable, LogicalPlan, Operator, lit, when,
};
use datafusion::optimizer::optimizer::ApplyOrder;
use datafusion::optimizer::{OptimizerConfig, OptimizerRule};
use datafusion::scalar::ScalarValue;

use crate::casts::CAST;
use crate::functions::json::PAIR;
use crate::functions::some_value;
use crate::operators::chains::INTEGERS;
use crate::trees::{PlanTree, Tree};

/// See the file's header.
#[derive(Debug)]
pub(crate) struct Guards;

impl OptimizerRule for Guards {
    fn name(&self) -> &'static str {
        "coscan_guards"
    }

    fn apply_order(&self) -> Option<ApplyOrder> {
        Some(ApplyOrder::BottomUp)
    }

    fn rewrite(
        &self,
        mut node: LogicalPlan,
        _: &dyn OptimizerConfig,
    ) -> Result<Transformed<LogicalPlan>> {
        match &mut node {
            LogicalPlan::Filter(filter) if may_fail(&filter.predicate) => {
                let all = split_conjunction_owned(filter.predicate.clone());
                let Some(guarded) = filtered(all)?.and_then(conjunction) else {
                    return Ok(Transformed::no(node));
                };
                filter.predicate = guarded;
                Ok(Transformed::yes(node))
            }
            LogicalPlan::TableScan(scan) if scan.filters.iter().any(may_fail) => {
                let Some(guarded) = filtered(scan.filters.clone())? else {
                    return Ok(Transformed::no(node));
                };
                scan.filters = guarded;
                Ok(Transformed::yes(node))
            }
            _ => {
                let names = NamePreserver::new(&node);
                node.change_expressions(|expr| {
                    if !may_fail(&expr) {
                        return Ok(Transformed::no(expr));
                    }
                    let name = names.save(&expr);
                    let guarded = expr.change_up(stepped)?;
                    Ok(guarded.update_data(|expr| name.restore(expr)))
                })
            }
        }
    }
}

/// Guards the arguments of aggregates with FILTER. It runs before the other rules, which compute
/// an expression once that two aggregates have.
#[derive(Debug)]
pub(crate) struct FilteredCalls;

impl OptimizerRule for FilteredCalls {
    fn name(&self) -> &'static str {
        "coscan_filtered_calls"
    }

    fn apply_order(&self) -> Option<ApplyOrder> {
        Some(ApplyOrder::BottomUp)
    }

    fn rewrite(
        &self,
        node: LogicalPlan,
        _: &dyn OptimizerConfig,
    ) -> Result<Transformed<LogicalPlan>> {
        if !matches!(node, LogicalPlan::Aggregate(_) | LogicalPlan::Window(_)) {
            return Ok(Transformed::no(node));
        }
        let names = NamePreserver::new(&node);
        let schema = merge_schema(&node.inputs());
        node.change_expressions(|expr| {
            if !may_fail(&expr) {
                return Ok(Transformed::no(expr));
            }
            let name = names.save(&expr);
            let guarded = expr.change_up(|expr| called(expr, &schema))?;
            Ok(guarded.update_data(|expr| name.restore(expr)))
        })
    }
}

/// The conditions of a filter, with those that may fail at the end; `None` if nothing changes.
fn filtered(all: Vec<Expr>) -> Result<Option<Vec<Expr>>> {
    let mut changed = false;
    let mut safe = vec![];
    let mut unsafe_ones = vec![];
    for condition in all {
        let stepped = condition.change_up(stepped)?;
        changed |= stepped.transformed;
        if may_fail(&stepped.data) && !is_guarded(&stepped.data) {
            unsafe_ones.push(stepped.data);
        } else {
            safe.push(stepped.data);
        }
    }
    let plain = safe.iter().filter(|one| !may_fail(one)).cloned();
    if let Some(before) = conjunction(plain) {
        changed |= !unsafe_ones.is_empty();
        let guarded = unsafe_ones
            .into_iter()
            .map(|one| number(before.clone(), one, false));
        safe.extend(guarded);
    } else {
        safe.extend(unsafe_ones);
    }
    Ok(changed.then_some(safe))
}

/// Guards AND and OR whose right side may fail.
fn stepped(expr: Expr) -> Result<Transformed<Expr>> {
    let Expr::BinaryExpr(BinaryExpr { left, op, right }) = expr else {
        return Ok(Transformed::no(expr));
    };
    let decided = match op {
        Operator::And => Expr::IsFalse(left.clone()),
        Operator::Or => Expr::IsTrue(left.clone()),
        _ => {
            return Ok(Transformed::no(Expr::BinaryExpr(BinaryExpr::new(
                left, op, right,
            ))));
        }
    };
    if !may_fail(&right) || is_guarded(&right) || may_fail(&left) {
        return Ok(Transformed::no(Expr::BinaryExpr(BinaryExpr::new(
            left, op, right,
        ))));
    }
    let right = number(decided, *right, true);
    let guarded = BinaryExpr::new(left, op, Box::new(right));
    Ok(Transformed::yes(Expr::BinaryExpr(guarded)))
}

/// An aggregate whose arguments are computed for rows that pass its FILTER only, if they may fail.
fn called(expr: Expr, schema: &DFSchema) -> Result<Transformed<Expr>> {
    if !matches!(expr, Expr::AggregateFunction(_) | Expr::WindowFunction(_)) {
        return Ok(Transformed::no(expr));
    }
    let mut guarded = expr.clone();
    let (args, filter) = match &mut guarded {
        Expr::AggregateFunction(call) => (&mut call.params.args, &call.params.filter),
        Expr::WindowFunction(call) => (&mut call.params.args, &call.params.filter),
        _ => return Ok(Transformed::no(expr)),
    };
    let Some(filter) = filter else {
        return Ok(Transformed::no(expr));
    };
    let mut is_changed = false;
    for arg in args {
        let is_guarded = matches!(
            arg,
            Expr::Case(case) if case.when_then_expr.first().is_some_and(|(on, _)| on == filter)
        );
        if may_fail(arg) && !is_guarded {
            is_changed = true;
            let is_nullable = arg.nullable(schema)?;
            let held = arg.get_type(schema)?;
            let value = std::mem::replace(arg, lit(true));
            let mut case = when(filter.as_ref().clone(), value);
            // What cannot be NULL stays so: the type of an array of it says that.
            *arg = match some_value(&held) {
                Ok(other) if !is_nullable => case.otherwise(Expr::Literal(other, None))?,
                _ => case.end()?,
            };
        }
    }
    is_changed &= guarded.get_type(schema)? == expr.get_type(schema)?;
    Ok(match is_changed {
        true => Transformed::yes(guarded),
        false => Transformed::no(expr),
    })
}

/// `condition` where `when` is true, or is not true if `negated`; elsewhere false.
fn number(when: Expr, condition: Expr, negated: bool) -> Expr {
    let value = Expr::Cast(Cast::new(Box::new(condition), DataType::Int8));
    let (then, other) = if negated {
        (lit(0_i8), value)
    } else {
        (value, lit(0_i8))
    };
    let case = Case::new(
        None,
        vec![(Box::new(when), Box::new(then))],
        Some(Box::new(other)),
    );
    Expr::Case(case).eq(lit(1_i8))
}

fn is_guarded(expr: &Expr) -> bool {
    let Expr::BinaryExpr(BinaryExpr { left, op, right }) = expr else {
        return false;
    };
    let is_number = |value: &Expr| matches!(value, Expr::Literal(ScalarValue::Int8(_), _));
    matches!((left.as_ref(), op), (Expr::Case(_), Operator::Eq)) && is_number(right)
}

/// Whether an expression contains a division by a possible zero, a cast that may reject a text, a
/// sum or product that may overflow, a function that is not defined for all numbers, a comparison
/// of rows that are not of one type, or an advisory lock.
fn may_fail(expr: &Expr) -> bool {
    let found = expr.has(|inner| {
        let Expr::ScalarFunction(call) = inner else {
            return Ok(false);
        };
        let is_constant = |at: usize| matches!(call.args.get(at), Some(Expr::Literal(..)));
        Ok(match call.func.name() {
            "pg_divide" | "mod" | "div" => !is_constant(1),
            PAIR => !is_constant(0),
            INTEGERS => true,
            CAST | "sqrt" | "ln" | "log" | "log10" | "abs" | "factorial" | "pg_negate" => {
                !is_constant(0)
            }
            "power" | "pg_power" | "pg_int_add" | "pg_int_subtract" | "pg_int_multiply"
            | "pg_add" | "pg_subtract" | "pg_multiply" => !is_constant(0) || !is_constant(1),
            name => {
                let begins = ["pg_rows_", "pg_try_advisory_", "pg_advisory_unlock"];
                begins.iter().any(|begin| name.starts_with(begin))
            }
        })
    });
    found.unwrap_or(false)
}
