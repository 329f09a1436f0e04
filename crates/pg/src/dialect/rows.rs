//! Rows: `(a, b)` and `ROW(a, b)`.
//!
//! | from | to |
//! |---|---|
//! | `(a, b) = (c, d)` | `a = c AND b = d` |
//! | `(a, b) < (c, d)` | `a < c OR (a = c AND b < d)` |
//! | `(a, b) IN ((c, d), …)` | `(a = c AND b = d) OR …` |
//! | `(a, b) IS NULL` | `a IS NULL AND b IS NULL` |
//! | `SELECT (a, b)` | `SELECT row(a, b)` |
//! | `SELECT t FROM (SELECT 1 AS a) t` | `SELECT named_row('a', t.a) …` |

use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    BinaryOperator, Expr, Function, Ident, Select, SelectItem, SetExpr, TableFactor, UnaryOperator,
    VisitMut, VisitorMut,
};

use crate::functions::NAMED_ROW;

use super::ast::{arguments, boolean, call, item_expr_mut, last_word, null, text};

pub(super) struct Rows;

impl VisitorMut for Rows {
    type Break = ();

    fn pre_visit_select(&mut self, select: &mut Select) -> ControlFlow<()> {
        let whole = Whole::new(select);
        if !whole.tables.is_empty() {
            let mut whole = whole;
            let _ = select.projection.visit(&mut whole);
        }
        select
            .projection
            .iter_mut()
            .for_each(|item: &mut SelectItem| {
                if let Some(expr) = item_expr_mut(item)
                    && let Expr::Tuple(fields) = expr
                {
                    *expr = call("row", std::mem::take(fields));
                }
            });
        ControlFlow::Continue(())
    }

    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        if let Some(plain) = rewritten(expr) {
            *expr = plain;
        }
        ControlFlow::Continue(())
    }
}

/// References to whole rows of subqueries: `row_to_json(t)`.
struct Whole {
    /// The names of tables and their columns.
    tables: Vec<(String, Vec<Ident>)>,
}

impl Whole {
    fn new(select: &Select) -> Self {
        let joined = select.from.iter().flat_map(|from| {
            std::iter::once(&from.relation).chain(from.joins.iter().map(|join| &join.relation))
        });
        let factors: Vec<&TableFactor> = joined.collect();
        let found: Vec<_> = factors
            .iter()
            .filter_map(|factor| columns(factor))
            .collect();
        // A column of the same name is meant instead; those of other tables are not known.
        let known = found.len() == factors.len();
        let is_column = |name: &String| {
            found
                .iter()
                .any(|(_, columns)| columns.iter().any(|column| column.value == *name))
        };
        let tables = found.iter().filter(|(name, _)| known && !is_column(name));
        Self {
            tables: tables.cloned().collect(),
        }
    }
}

/// The name and the columns of a subquery, if they are written out.
fn columns(factor: &TableFactor) -> Option<(String, Vec<Ident>)> {
    let TableFactor::Derived {
        subquery,
        alias: Some(alias),
        ..
    } = factor
    else {
        return None;
    };
    let name = alias.name.value.clone();
    if !alias.columns.is_empty() {
        return Some((
            name,
            alias
                .columns
                .iter()
                .map(|column| column.name.clone())
                .collect(),
        ));
    }
    let mut body = subquery.body.as_ref();
    while let SetExpr::SetOperation { left, .. } = body {
        body = left;
    }
    let SetExpr::Select(select) = body else {
        return None;
    };
    let columns = select.projection.iter().map(|item| match item {
        SelectItem::ExprWithAlias { alias, .. } => Some(alias.clone()),
        SelectItem::UnnamedExpr(Expr::Identifier(column)) => Some(column.clone()),
        SelectItem::UnnamedExpr(Expr::CompoundIdentifier(words)) => words.last().cloned(),
        _ => None,
    });
    Some((name, columns.collect::<Option<Vec<_>>>()?))
}

impl VisitorMut for Whole {
    type Break = ();

    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        let Expr::Identifier(word) = &*expr else {
            return ControlFlow::Continue(());
        };
        let found = self.tables.iter().find(|(name, _)| *name == word.value);
        if let Some((_, columns)) = found {
            let table = word.clone();
            let pairs = columns.iter().flat_map(|column| {
                let value = Expr::CompoundIdentifier(vec![table.clone(), column.clone()]);
                [text(&column.value), value]
            });
            *expr = call(NAMED_ROW, pairs.collect());
        }
        ControlFlow::Continue(())
    }
}

/// The fields of a row.
fn fields(expr: &Expr) -> Option<Vec<Expr>> {
    match expr {
        Expr::Tuple(fields) => Some(fields.clone()),
        Expr::Function(function) if is_row(function) => {
            Some(arguments(function)?.into_iter().cloned().collect())
        }
        Expr::Nested(inner) => fields(inner),
        _ => None,
    }
}

fn is_row(function: &Function) -> bool {
    last_word(&function.name).as_deref() == Some("row")
}

fn rewritten(expr: &Expr) -> Option<Expr> {
    match expr {
        Expr::BinaryOp { left, op, right } => compared(&fields(left)?, op, &fields(right)?),
        Expr::IsDistinctFrom(left, right) => distinct(&fields(left)?, &fields(right)?),
        Expr::IsNotDistinctFrom(left, right) => {
            distinct(&fields(left)?, &fields(right)?).map(negated)
        }
        Expr::IsNull(inner) => {
            let nulls = fields(inner)?
                .into_iter()
                .map(|field| Expr::IsNull(Box::new(field)));
            Some(joined(nulls.collect(), &BinaryOperator::And))
        }
        Expr::IsNotNull(inner) => {
            let given = fields(inner)?
                .into_iter()
                .map(|field| Expr::IsNotNull(Box::new(field)));
            Some(joined(given.collect(), &BinaryOperator::And))
        }
        Expr::InList {
            expr,
            list,
            negated: not,
        } => {
            let left = fields(expr)?;
            let rows = list
                .iter()
                .map(|row| compared(&left, &BinaryOperator::Eq, &fields(row)?));
            let found = joined(rows.collect::<Option<Vec<_>>>()?, &BinaryOperator::Or);
            Some(if *not { negated(found) } else { found })
        }
        _ => None,
    }
}

fn negated(expr: Expr) -> Expr {
    Expr::UnaryOp {
        op: UnaryOperator::Not,
        expr: Box::new(Expr::Nested(Box::new(expr))),
    }
}

fn binary(left: Expr, op: BinaryOperator, right: Expr) -> Expr {
    Expr::BinaryOp {
        left: Box::new(left),
        op,
        right: Box::new(right),
    }
}

fn nested(expr: Expr) -> Expr {
    Expr::Nested(Box::new(expr))
}

fn joined(parts: Vec<Expr>, op: &BinaryOperator) -> Expr {
    let whole = parts
        .into_iter()
        .map(nested)
        .reduce(|all, part| binary(all, op.clone(), part));
    nested(whole.unwrap_or_else(|| boolean(true)))
}

fn compared(left: &[Expr], op: &BinaryOperator, right: &[Expr]) -> Option<Expr> {
    if left.len() != right.len() {
        let message = "unequal number of entries in row expressions";
        return unequal(op)
            .then(|| call(crate::functions::FAIL, vec![text("42601"), text(message)]));
    }
    let pairs = || left.iter().cloned().zip(right.iter().cloned());
    let each = |op: &BinaryOperator| -> Vec<Expr> {
        pairs()
            .map(|(left, right)| binary(nested(left), op.clone(), nested(right)))
            .collect()
    };
    Some(match op {
        BinaryOperator::Eq => joined(each(op), &BinaryOperator::And),
        BinaryOperator::NotEq => joined(each(op), &BinaryOperator::Or),
        BinaryOperator::Lt | BinaryOperator::LtEq => ordered(left, right, &BinaryOperator::Lt, op),
        BinaryOperator::Gt | BinaryOperator::GtEq => ordered(left, right, &BinaryOperator::Gt, op),
        _ => return None,
    })
}

fn unequal(op: &BinaryOperator) -> bool {
    use BinaryOperator::{Eq, Gt, GtEq, Lt, LtEq, NotEq};
    matches!(op, Eq | NotEq | Lt | LtEq | Gt | GtEq)
}

/// The first fields that differ decide; the last ones may be equal if the operator says so.
fn ordered(left: &[Expr], right: &[Expr], strict: &BinaryOperator, last: &BinaryOperator) -> Expr {
    match (left, right) {
        ([left], [right]) => binary(nested(left.clone()), last.clone(), nested(right.clone())),
        ([left, left_rest @ ..], [right, right_rest @ ..]) => {
            let (left, right) = (nested(left.clone()), nested(right.clone()));
            let equal = binary(left.clone(), BinaryOperator::Eq, right.clone());
            let rest = ordered(left_rest, right_rest, strict, last);
            let rest = nested(binary(equal, BinaryOperator::And, nested(rest)));
            nested(binary(
                binary(left, strict.clone(), right),
                BinaryOperator::Or,
                rest,
            ))
        }
        _ => null(),
    }
}

fn distinct(left: &[Expr], right: &[Expr]) -> Option<Expr> {
    if left.len() != right.len() {
        return None;
    }
    let pairs = left.iter().cloned().zip(right.iter().cloned());
    let differ = pairs
        .map(|(left, right)| Expr::IsDistinctFrom(Box::new(nested(left)), Box::new(nested(right))));
    Some(joined(differ.collect(), &BinaryOperator::Or))
}
