//! Aggregates in WHERE, which DataFusion's planner refuses. They can only belong to an outer
//! query, so each becomes a subquery of its own (`subqueries/outer_aggregates.rs`).

use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{Expr, Select, Visitor};

use crate::dialect::ast::{is_aggregate, null, selected};
use crate::dialect::own_exprs::OwnExprs;
use crate::visits::{Look, Walk};

pub(super) fn rewrite(select: &mut Select) {
    if let Some(condition) = &mut select.selection {
        let _ = condition.walk(&mut OwnExprs::new(|expr| {
            if let Expr::Function(call) = &*expr
                && call.over.is_none()
                && is_aggregate(call)
                && expr.look(&mut Columns).is_break()
            {
                let call = std::mem::replace(expr, null());
                *expr = selected(call);
            }
        }));
    }
}

/// Stops at the first column.
struct Columns;

impl Visitor for Columns {
    type Break = ();

    fn pre_visit_expr(&mut self, expr: &Expr) -> ControlFlow<()> {
        match expr {
            Expr::Identifier(_) | Expr::CompoundIdentifier(_) => ControlFlow::Break(()),
            _ => ControlFlow::Continue(()),
        }
    }
}
