//! Which conditions can be decided before any row is read?
//!
//! | condition | is |
//! |---|---|
//! | `WHERE NULL AND …`, `WHERE 1 > 2 AND …` | false |
//! | `x > ALL (SELECT … WHERE false)` | true |
//! | `x = ANY (SELECT … WHERE NULL)`, also IN and EXISTS | false |
//! | `(SELECT … WHERE false)` | NULL |
//!
//! The conditions beside a decided one are not evaluated, as in PostgreSQL. DataFusion would
//! detect such cases only after subqueries have become joins, of which both sides are computed.
//! Errors in constants beside them are still raised (`constants/mod.rs`), except in subqueries that
//! are not evaluated.

use std::sync::Arc;

use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNodeRecursion};
use datafusion::config::ConfigOptions;
use datafusion::error::Result;
use datafusion::logical_expr::expr::SetQuantifier;
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::logical_plan::Distinct;
use datafusion::logical_expr::utils::split_conjunction;
use datafusion::logical_expr::{Expr, LogicalPlan, lit};
use datafusion::optimizer::AnalyzerRule;
use datafusion::scalar::ScalarValue;

use crate::constants;
use crate::trees::{PlanTree, Tree};

/// See the file's header. It runs after types are coerced, and before subqueries become joins.
#[derive(Debug)]
pub(crate) struct Decided;

impl AnalyzerRule for Decided {
    fn name(&self) -> &'static str {
        "coscan_decided"
    }

    fn analyze(&self, plan: LogicalPlan, config: &ConfigOptions) -> Result<LogicalPlan> {
        let mut found = false;
        plan.each_with_subqueries(|node| {
            found |= match node {
                LogicalPlan::Filter(given) => split_conjunction(&given.predicate)
                    .into_iter()
                    .any(is_constant),
                _ => false,
            };
            Ok(match found {
                true => TreeNodeRecursion::Stop,
                false => TreeNodeRecursion::Continue,
            })
        })?;
        if !found {
            return Ok(plan);
        }
        let config = Arc::new(config.clone());
        let decided = plan.change_up_with_subqueries(|mut node| {
            if let LogicalPlan::Filter(given) = &mut node
                && fails(&given.predicate, &config)?
            {
                given.predicate = lit(false);
                return Ok(Transformed::yes(node));
            }
            let names = NamePreserver::new(&node);
            node.change_expressions(|expr| {
                let name = names.save(&expr);
                let expr = expr.change_up(|part| of_no_rows(part, &config))?;
                Ok(expr.update_data(|expr| name.restore(expr)))
            })
        });
        decided.data()
    }
}

/// Whether a condition of the conjunction is constant and not true.
///
/// # Errors
/// If so, the error of a constant in the other conditions.
fn fails(predicate: &Expr, config: &Arc<ConfigOptions>) -> Result<bool> {
    let conditions = split_conjunction(predicate);
    let is_false = |condition: &&Expr| {
        let value = constants::value_of(condition, config);
        value.is_some_and(|value| value.is_null() || value == ScalarValue::Boolean(Some(false)))
    };
    let mut constant = conditions.iter().filter(|condition| is_constant(condition));
    if !constant.any(is_false) {
        return Ok(false);
    }
    // Conditions after a false one are not evaluated.
    let no = Some(ScalarValue::Boolean(Some(false)));
    let is_no =
        |condition: &Expr| is_constant(condition) && constants::value_of(condition, config) == no;
    let mut others = conditions
        .into_iter()
        .take_while(|condition| !is_no(condition));
    others.try_for_each(|other| match asks(other) {
        true => Ok(()),
        false => constants::check_expr(other, config),
    })?;
    Ok(true)
}

/// Whether a condition contains neither columns nor subqueries, so that it may be constant.
fn is_constant(condition: &Expr) -> bool {
    !condition.any_column_refs() && !asks(condition)
}

/// Whether an expression contains a subquery.
fn asks(expr: &Expr) -> bool {
    let found = expr.has(|part| {
        Ok(matches!(
            part,
            Expr::Exists(_)
                | Expr::InSubquery(_)
                | Expr::SetComparison(_)
                | Expr::ScalarSubquery(_)
        ))
    });
    found.unwrap_or(true)
}

/// The value of an expression whose subquery has no rows.
fn of_no_rows(expr: Expr, config: &Arc<ConfigOptions>) -> Result<Transformed<Expr>> {
    let value = match &expr {
        Expr::Exists(given) if is_empty(&given.subquery.subquery) => lit(given.negated),
        Expr::InSubquery(given) if is_empty(&given.subquery.subquery) => lit(given.negated),
        Expr::SetComparison(given) if is_empty(&given.subquery.subquery) => {
            lit(given.quantifier == SetQuantifier::All)
        }
        Expr::ScalarSubquery(given) if is_empty(&given.subquery) => {
            let held = given.subquery.schema().field(0).data_type();
            Expr::Literal(ScalarValue::try_from(held)?, None)
        }
        _ => return Ok(Transformed::no(expr)),
    };
    constants::check_expr(&expr, config)?;
    Ok(Transformed::yes(value))
}

/// Whether the form of a plan shows that it has no rows.
fn is_empty(plan: &LogicalPlan) -> bool {
    match plan {
        LogicalPlan::Filter(given) => given.predicate == lit(false) || is_empty(&given.input),
        LogicalPlan::Projection(given) => is_empty(&given.input),
        LogicalPlan::SubqueryAlias(given) => is_empty(&given.input),
        LogicalPlan::Sort(given) => is_empty(&given.input),
        LogicalPlan::Limit(given) => is_empty(&given.input),
        LogicalPlan::Distinct(Distinct::All(input)) => is_empty(input),
        _ => false,
    }
}
