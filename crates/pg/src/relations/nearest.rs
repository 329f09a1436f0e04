//! Which column does a name mean in a function in FROM: one of a relation to the left, or one of an
//! outer query?
//!
//! A relation to the left takes precedence. `dialect/siblings.rs` names these relations; a name
//! that is a column of exactly one of them gets its qualifier here. Other names are left to
//! DataFusion.

use std::ops::ControlFlow;

use datafusion::common::DFSchema;
use datafusion::logical_expr::Expr as PlannedExpr;
use datafusion::logical_expr::planner::RelationPlannerContext;
use datafusion::sql::sqlparser::ast::{Expr, Ident, Query, SetExpr, VisitorMut};

use crate::visits::Walk;

/// Qualifies the names in the query of a function, and drops the names of its siblings.
pub(super) fn resolve(query: &mut Query, context: &mut dyn RelationPlannerContext) {
    let Some(siblings) = query.settings.take() else {
        return;
    };
    let SetExpr::Select(select) = query.body.as_mut() else {
        return;
    };
    let mut nearest = Nearest {
        siblings: siblings.into_iter().map(|sibling| sibling.key).collect(),
        queries: 0,
        context,
    };
    let _ = select.projection.walk(&mut nearest);
    let _ = select.selection.walk(&mut nearest);
}

struct Nearest<'a, 'b> {
    siblings: Vec<Ident>,
    /// The number of subqueries around the expression.
    queries: usize,
    context: &'a mut (dyn RelationPlannerContext + 'b),
}

impl Nearest<'_, '_> {
    /// The only sibling with a column of this name.
    fn sibling(&mut self, column: &Ident) -> Option<Ident> {
        let none = DFSchema::empty();
        let mut found = None;
        for sibling in &self.siblings {
            let name = Expr::CompoundIdentifier(vec![sibling.clone(), column.clone()]);
            let planned = self.context.sql_expr_to_logical_expr(name, &none);
            let Ok(PlannedExpr::OuterReferenceColumn(_, column)) = planned else {
                continue;
            };
            let of = column.relation.as_ref();
            let is_own = of.is_some_and(|relation| relation.table() == sibling.value.as_str());
            if is_own && found.replace(sibling.clone()).is_some() {
                return None;
            }
        }
        found
    }
}

impl VisitorMut for Nearest<'_, '_> {
    type Break = ();

    fn pre_visit_query(&mut self, _: &mut Query) -> ControlFlow<()> {
        self.queries += 1;
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, _: &mut Query) -> ControlFlow<()> {
        self.queries -= 1;
        ControlFlow::Continue(())
    }

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        if self.queries == 0
            && let Expr::Identifier(name) = expr
            && let Some(sibling) = self.sibling(name)
        {
            *expr = Expr::CompoundIdentifier(vec![sibling, name.clone()]);
        }
        ControlFlow::Continue(())
    }
}
