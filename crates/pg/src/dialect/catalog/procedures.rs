//! Compares the functions named in columns of `pg_type` with oids: `p.oid = t.typreceive`.
//!
//! These columns hold function names as text (`Fact::Procedure`). A column that is compared with
//! an oid is replaced by the oid of the function that it names.

use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{BinaryOperator, Expr, Query, Select, SetExpr, VisitorMut};

use super::facts::Fact;
use super::oids::OidKind;
use super::scope::Scope;
use crate::dialect::ast::{call, null};
use crate::visits::Walk;

pub(in crate::dialect) struct Procedures;

impl VisitorMut for Procedures {
    type Break = ();

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<()> {
        in_body(&mut query.body);
        ControlFlow::Continue(())
    }
}

fn in_body(body: &mut SetExpr) {
    match body {
        SetExpr::Select(select) => in_select(select),
        SetExpr::SetOperation { left, right, .. } => {
            in_body(left);
            in_body(right);
        }
        _ => {}
    }
}

fn in_select(select: &mut Select) {
    let scope = Scope::of(select);
    let _ = select.walk(&mut Comparisons { scope: &scope });
}

struct Comparisons<'a> {
    scope: &'a Scope,
}

impl VisitorMut for Comparisons<'_> {
    type Break = ();

    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        if let Expr::BinaryOp { left, op, right } = expr
            && matches!(op, BinaryOperator::Eq | BinaryOperator::NotEq)
        {
            let names = |expr: &Expr| self.scope.fact_or_null(expr) == Some(Fact::Procedure);
            let named = if names(left) && is_oid_column(right) {
                left
            } else if names(right) && is_oid_column(left) {
                right
            } else {
                return ControlFlow::Continue(());
            };
            let name = std::mem::replace(&mut **named, null());
            **named = call(OidKind::Procedure.oid_function(), vec![name]);
        }
        ControlFlow::Continue(())
    }
}

/// Whether a column holds oids: in the catalog, the names of such columns end in `oid`.
fn is_oid_column(expr: &Expr) -> bool {
    let word = match expr {
        Expr::Nested(inner) => return is_oid_column(inner),
        Expr::Identifier(word) => word,
        Expr::CompoundIdentifier(words) => match words.last() {
            Some(word) => word,
            None => return false,
        },
        _ => return false,
    };
    word.value.to_lowercase().ends_with("oid")
}
