//! The expressions of one query, excluding those of its subqueries, where a name or a window may
//! mean something else.

use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{Expr, Query, VisitorMut};

/// Changes each expression, inner ones first.
pub(super) struct OwnExprs<F> {
    change: F,
    /// The number of subqueries around the expression.
    depth: usize,
}

impl<F: FnMut(&mut Expr)> OwnExprs<F> {
    pub(super) fn new(change: F) -> Self {
        Self { change, depth: 0 }
    }
}

impl<F: FnMut(&mut Expr)> VisitorMut for OwnExprs<F> {
    type Break = ();

    fn pre_visit_query(&mut self, _: &mut Query) -> ControlFlow<()> {
        self.depth += 1;
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, _: &mut Query) -> ControlFlow<()> {
        self.depth -= 1;
        ControlFlow::Continue(())
    }

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        if self.depth == 0 {
            (self.change)(expr);
        }
        ControlFlow::Continue(())
    }
}
