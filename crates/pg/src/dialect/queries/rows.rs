//! Rows compared with a subquery: `(a, b) = (SELECT …)`, `(a, b) IN (SELECT …)`, `< ANY`, `< ALL`.
//!
//! The comparison moves into the subquery, and its result becomes the only column: `(a, b) IN
//! (SELECT x, y …)` becomes `true IN (SELECT a = c0 AND b = c1 FROM (SELECT x, y …) r (c0, c1))`.
//! Three-valued logic is kept: IN is true if a comparison is, else NULL if one is NULL.

use datafusion::sql::sqlparser::ast::{
    BinaryOperator, Expr, Function, Ident, Query, SelectItem, SetExpr, TableAliasColumnDef,
    TableFactor, UnaryOperator,
};

use crate::dialect::ast::{arguments, boolean, last_word, null, template};

pub(super) fn rewrite(expr: &mut Expr) {
    match expr {
        Expr::BinaryOp { left, op, right } => {
            if let (Some(row), Expr::Subquery(query)) = (row(left), right.as_ref()) {
                if let Some(compared) = within(&row, op, query) {
                    *expr = Expr::Subquery(Box::new(compared));
                }
            } else if let (Expr::Subquery(query), Some(row)) = (left.as_ref(), row(right))
                && let Some(op) = turned(op)
                && let Some(compared) = within(&row, &op, query)
            {
                *expr = Expr::Subquery(Box::new(compared));
            }
        }
        Expr::InSubquery {
            expr: left,
            subquery,
            negated,
        } => {
            let Some(row) = row(left) else { return };
            let Some(compared) = within(&row, &BinaryOperator::Eq, subquery) else {
                return;
            };
            **left = boolean(true);
            **subquery = compared;
            if std::mem::take(negated) {
                let inner = Box::new(std::mem::replace(expr, null()));
                *expr = Expr::UnaryOp {
                    op: UnaryOperator::Not,
                    expr: Box::new(Expr::Nested(inner)),
                };
            }
        }
        Expr::AnyOp {
            left,
            compare_op,
            right,
            ..
        }
        | Expr::AllOp {
            left,
            compare_op,
            right,
        } => {
            if let (Some(row), Expr::Subquery(query)) = (row(left), right.as_mut())
                && let Some(compared) = within(&row, compare_op, query)
            {
                **left = boolean(true);
                *compare_op = BinaryOperator::Eq;
                **query = compared;
            }
        }
        _ => {}
    }
}

/// The fields of a row constructor.
fn row(expr: &Expr) -> Option<Vec<Expr>> {
    match expr {
        Expr::Nested(inner) => row(inner),
        Expr::Tuple(fields) => Some(fields.clone()),
        Expr::Function(call @ Function { name, .. }) if last_word(name)? == "row" => {
            Some(arguments(call)?.into_iter().cloned().collect())
        }
        _ => None,
    }
    .filter(|fields| fields.len() > 1)
}

fn turned(op: &BinaryOperator) -> Option<BinaryOperator> {
    Some(match op {
        BinaryOperator::Eq | BinaryOperator::NotEq => op.clone(),
        BinaryOperator::Lt => BinaryOperator::Gt,
        BinaryOperator::LtEq => BinaryOperator::GtEq,
        BinaryOperator::Gt => BinaryOperator::Lt,
        BinaryOperator::GtEq => BinaryOperator::LtEq,
        _ => return None,
    })
}

/// `SELECT row op (c0, c1) FROM (query) AS __rows (c0, c1)`.
fn within(row: &[Expr], op: &BinaryOperator, query: &Query) -> Option<Query> {
    let columns: Vec<Ident> = (0..row.len())
        .map(|index| Ident::with_quote('"', format!("__field_{index}")))
        .collect();
    let pairs: Vec<(Expr, Expr)> = row
        .iter()
        .cloned()
        .zip(columns.iter().cloned().map(Expr::Identifier))
        .collect();
    let compared = comparison(&pairs, op)?;
    let mut outer = template("SELECT true FROM (SELECT 1) AS __rows")?;
    let SetExpr::Select(select) = outer.body.as_mut() else {
        return None;
    };
    select.projection = vec![SelectItem::UnnamedExpr(compared)];
    if let TableFactor::Derived {
        subquery,
        alias: Some(alias),
        ..
    } = &mut select.from.first_mut()?.relation
    {
        **subquery = query.clone();
        let columns = columns.into_iter();
        alias.columns = columns
            .map(|name| TableAliasColumnDef {
                name,
                data_type: None,
            })
            .collect();
    }
    Some(outer)
}

/// The comparison of two rows, field by field from the left.
fn comparison(pairs: &[(Expr, Expr)], op: &BinaryOperator) -> Option<Expr> {
    let compare = |(left, right): &(Expr, Expr), op: BinaryOperator| {
        nested(Expr::BinaryOp {
            left: Box::new(left.clone()),
            op,
            right: Box::new(right.clone()),
        })
    };
    let both = |left: Expr, op: BinaryOperator, right: Expr| {
        nested(Expr::BinaryOp {
            left: Box::new(left),
            op,
            right: Box::new(right),
        })
    };
    let (first, rest) = pairs.split_first()?;
    let (Some(_), strict) = (rest.first(), strictly(op)) else {
        return Some(compare(first, op.clone()));
    };
    let rest = comparison(rest, op)?;
    Some(match op {
        BinaryOperator::Eq => both(compare(first, op.clone()), BinaryOperator::And, rest),
        BinaryOperator::NotEq => both(compare(first, op.clone()), BinaryOperator::Or, rest),
        _ => {
            let same = both(
                compare(first, BinaryOperator::Eq),
                BinaryOperator::And,
                rest,
            );
            both(compare(first, strict?), BinaryOperator::Or, same)
        }
    })
}

fn strictly(op: &BinaryOperator) -> Option<BinaryOperator> {
    match op {
        BinaryOperator::Lt | BinaryOperator::LtEq => Some(BinaryOperator::Lt),
        BinaryOperator::Gt | BinaryOperator::GtEq => Some(BinaryOperator::Gt),
        _ => None,
    }
}

fn nested(expr: Expr) -> Expr {
    Expr::Nested(Box::new(expr))
}
