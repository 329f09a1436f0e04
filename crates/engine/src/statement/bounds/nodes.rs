//! How deep and how large is a plan when everything that it names is written out?
//!
//! Depth adds up along the path from the root to a leaf, because the optimizer merges projections
//! by putting the expressions of one into those of the other. A view over a view over a view, each
//! with a long expression, is as deep as all of them together. A common table expression that is
//! named twice counts twice: plans share nodes, but the optimizer does not.
//!
//! The walk runs on a large stack and never goes deeper than the limits.

use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion, TreeNodeVisitor};
use datafusion::error::Result;
use datafusion::logical_expr::{Expr, LogicalPlan};

use super::limits::{EXPRESSIONS_MAX, NODES_MAX, OPERATORS_MAX};
use crate::statement::error::StatementError;

/// Refuses a plan that is too deep or too large.
///
/// # Errors
/// [`StatementError::TooDeep`], [`StatementError::TooManyNodes`].
pub(in crate::statement) fn check_plan(plan: &LogicalPlan) -> Result<()> {
    Walk { nodes: 0 }.plan(plan, Depth::default())
}

struct Walk {
    nodes: usize,
}

/// The levels above a node, by kind.
#[derive(Clone, Copy, Default)]
struct Depth {
    operators: usize,
    expressions: usize,
}

impl Walk {
    fn plan(&mut self, plan: &LogicalPlan, above: Depth) -> Result<()> {
        self.nodes += 1;
        if self.nodes > NODES_MAX {
            return Err(StatementError::TooManyNodes { max: NODES_MAX }.into());
        }
        let operators = above.operators + 1;
        limit("operators", operators, OPERATORS_MAX)?;
        let mut here = Expressions {
            walk: self,
            above: Depth { operators, ..above },
            depth: above.expressions,
            deepest: above.expressions,
        };
        plan.apply_expressions(|expr| expr.visit(&mut here))?;
        let below = Depth {
            operators,
            expressions: here.deepest,
        };
        for input in plan.inputs() {
            self.plan(input, below)?;
        }
        Ok(())
    }
}

/// The visit of one operator's expressions.
struct Expressions<'a> {
    walk: &'a mut Walk,
    above: Depth,
    depth: usize,
    deepest: usize,
}

impl<'n> TreeNodeVisitor<'n> for Expressions<'_> {
    type Node = Expr;

    fn f_down(&mut self, expr: &'n Expr) -> Result<TreeNodeRecursion> {
        // A column or a literal adds no level.
        if !matches!(expr, Expr::Column(_) | Expr::Literal(..)) {
            self.depth += 1;
            limit("expressions", self.depth, EXPRESSIONS_MAX)?;
        }
        self.deepest = self.deepest.max(self.depth);
        let subquery = match expr {
            Expr::ScalarSubquery(subquery) => Some(subquery),
            Expr::Exists(exists) => Some(&exists.subquery),
            Expr::InSubquery(within) => Some(&within.subquery),
            Expr::SetComparison(comparison) => Some(&comparison.subquery),
            _ => None,
        };
        if let Some(subquery) = subquery {
            let above = Depth {
                expressions: self.depth,
                ..self.above
            };
            self.walk.plan(&subquery.subquery, above)?;
        }
        Ok(TreeNodeRecursion::Continue)
    }

    fn f_up(&mut self, expr: &'n Expr) -> Result<TreeNodeRecursion> {
        if !matches!(expr, Expr::Column(_) | Expr::Literal(..)) {
            self.depth -= 1;
        }
        Ok(TreeNodeRecursion::Continue)
    }
}

fn limit(what: &'static str, depth: usize, max: usize) -> Result<()> {
    if depth > max {
        return Err(StatementError::TooDeep { what, max }.into());
    }
    Ok(())
}
