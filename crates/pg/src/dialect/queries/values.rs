//! VALUES with subqueries become a union of SELECTs in the same order, because DataFusion
//! evaluates VALUES before their subqueries have run.

use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    Expr, Ident, Query, SelectItem, SetExpr, SetOperator, SetQuantifier, TableFactor,
};

use crate::dialect::ast::{number, template};
use crate::visits::visit_expressions;

/// VALUES with more rows are refused, because each row becomes a SELECT.
const ROWS_MAX: usize = 200;

pub(super) fn rewrite(query: &mut Query) -> Option<()> {
    let SetExpr::Values(values) = query.body.as_mut() else {
        return None;
    };
    let mut fields = values.rows.iter().flat_map(|row| &row.content);
    if values.rows.len() > ROWS_MAX || !fields.any(has_query) {
        return None;
    }
    let width = values.rows.first()?.content.len();
    let names = (1..=width).map(|at| Ident::new(format!("column{at}")));
    let names: Vec<Ident> = names.collect();
    let mut whole = template("SELECT 1 FROM (SELECT 1) AS __values ORDER BY __row")?;
    let mut union: Option<SetExpr> = None;
    for (at, row) in std::mem::take(&mut values.rows).into_iter().enumerate() {
        let mut one = template("SELECT 1")?;
        let SetExpr::Select(select) = one.body.as_mut() else {
            return None;
        };
        let fields = names.iter().cloned().zip(row.content);
        let fields = fields.chain([(Ident::new("__row"), number(at))]);
        let items = fields.map(|(alias, expr)| SelectItem::ExprWithAlias { expr, alias });
        select.projection = items.collect();
        union = Some(match union {
            None => *one.body,
            Some(left) => SetExpr::SetOperation {
                op: SetOperator::Union,
                set_quantifier: SetQuantifier::All,
                left: Box::new(left),
                right: one.body,
            },
        });
    }
    let SetExpr::Select(select) = whole.body.as_mut() else {
        return None;
    };
    let items = names.into_iter().map(Expr::Identifier);
    select.projection = items.map(SelectItem::UnnamedExpr).collect();
    let TableFactor::Derived { subquery, .. } = &mut select.from.first_mut()?.relation else {
        return None;
    };
    *subquery.body = union?;
    query.body = whole.body;
    if query.order_by.is_none() {
        query.order_by = whole.order_by;
    }
    Some(())
}

fn has_query(expr: &Expr) -> bool {
    let found = visit_expressions(expr, |inner| match inner {
        Expr::Subquery(_) | Expr::Exists { .. } | Expr::InSubquery { .. } => ControlFlow::Break(()),
        _ => ControlFlow::Continue(()),
    });
    found.is_break()
}
