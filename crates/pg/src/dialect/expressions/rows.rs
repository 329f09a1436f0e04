//! Rows: `(a, b)` and `ROW(a, b)`.
//!
//! | from | to |
//! |---|---|
//! | `(a, b) = (c, d)` | `a = c AND b = d` |
//! | `(a, b) < (c, d)` | `a < c OR (a = c AND b < d)` |
//! | `(a, b) IN ((c, d), …)` | `(a = c AND b = d) OR …` |
//! | `(a, b) BETWEEN (c, d) AND …` | `(a, b) >= (c, d) AND …` |
//! | `((a, b), c) = ((d, e), f)` | `nested_row(a, b) = nested_row(d, e) AND c = f` |
//! | `(a, b) IS NULL` | `a IS NULL AND b IS NULL` |
//! | `((a, b), c) IS NULL` | `fields_null(row(row(a, b), c), true)` |
//! | `SELECT (a, b)`, `(a, b)::text`, `f((a, b))`, `ARRAY[(a, b)]` | `row(a, b)` in its place |
//!
//! Only the outer rows of a comparison are written out: PostgreSQL compares rows within them as
//! values, whose fields must have the same types and whose NULLs are equal.

use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    BinaryOperator, Expr, Function, FunctionArg, FunctionArgExpr, FunctionArguments, Ident,
    ObjectName, Select, UnaryOperator, VisitorMut,
};

use crate::dialect::ast::{arguments, boolean, call, item_expr_mut, last_word, null, text};
use crate::functions::FIELDS_NULL;
use crate::functions::arrays::NESTED_ROW;

pub(in crate::dialect) struct Rows;

impl VisitorMut for Rows {
    type Break = ();

    fn pre_visit_select(&mut self, select: &mut Select) -> ControlFlow<()> {
        let items = select.projection.iter_mut();
        items.filter_map(item_expr_mut).for_each(as_call);
        ControlFlow::Continue(())
    }

    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        if let Some(plain) = rewritten(expr) {
            *expr = plain;
        }
        match expr {
            Expr::Cast { expr: value, .. } => as_call(value),
            Expr::Array(array) => array.elem.iter_mut().for_each(as_call),
            Expr::AnyOp { left, right, .. } | Expr::AllOp { left, right, .. }
                if !matches!(right.as_ref(), Expr::Subquery(_)) =>
            {
                as_call(left);
            }
            Expr::Function(function) => {
                let counts = last_word(&function.name).as_deref() == Some("count");
                if let FunctionArguments::List(list) = &mut function.args {
                    for argument in &mut list.args {
                        if let FunctionArg::Unnamed(FunctionArgExpr::Expr(value)) = argument
                            && !(counts && of_columns(value))
                        {
                            as_call(value);
                        }
                    }
                }
            }
            _ => {}
        }
        ControlFlow::Continue(())
    }
}

/// The fields of a row.
pub(in crate::dialect) fn fields(expr: &Expr) -> Option<Vec<Expr>> {
    match expr {
        Expr::Tuple(fields) => Some(fields.clone()),
        Expr::Function(function) if is_row(function) => {
            Some(arguments(function)?.into_iter().cloned().collect())
        }
        Expr::Nested(inner) => fields(inner),
        _ => None,
    }
}

/// The fields of a row that is compared. The rows among them are values.
fn compared_fields(expr: &Expr) -> Option<Vec<Expr>> {
    let mut fields = fields(expr)?;
    fields.iter_mut().for_each(as_nested);
    Some(fields)
}

fn as_nested(expr: &mut Expr) {
    match expr {
        Expr::Tuple(fields) => *expr = call(NESTED_ROW, std::mem::take(fields)),
        Expr::Function(function) if is_row(function) => {
            function.name = ObjectName::from(vec![Ident::new(NESTED_ROW)]);
        }
        Expr::Nested(inner) => as_nested(inner),
        _ => {}
    }
}

/// Writes a row without the word ROW, which has other field names in DataFusion, as a call.
fn as_call(expr: &mut Expr) {
    match expr {
        Expr::Tuple(fields) => *expr = call("row", std::mem::take(fields)),
        Expr::Nested(inner) => as_call(inner),
        _ => {}
    }
}

/// Whether a row begins with a column. DataFusion makes such rows, faster than the call; a count
/// does not show the names of their fields.
fn of_columns(expr: &Expr) -> bool {
    match expr {
        Expr::Tuple(fields) => matches!(
            fields.first(),
            Some(Expr::Identifier(_) | Expr::CompoundIdentifier(_))
        ),
        Expr::Nested(inner) => of_columns(inner),
        _ => false,
    }
}

fn is_row(function: &Function) -> bool {
    last_word(&function.name).as_deref() == Some("row")
}

fn rewritten(expr: &Expr) -> Option<Expr> {
    match expr {
        Expr::BinaryOp { left, op, right } => {
            compared(&compared_fields(left)?, op, &compared_fields(right)?)
        }
        Expr::IsDistinctFrom(left, right) => {
            distinct(&compared_fields(left)?, &compared_fields(right)?)
        }
        Expr::IsNotDistinctFrom(left, right) => {
            distinct(&compared_fields(left)?, &compared_fields(right)?).map(negated)
        }
        Expr::IsNull(inner) => Some(tested(fields(inner)?, true)),
        Expr::IsNotNull(inner) => Some(tested(fields(inner)?, false)),
        Expr::Between {
            expr,
            negated: not,
            low,
            high,
        } => {
            let value = compared_fields(expr)?;
            let above = compared(&value, &BinaryOperator::GtEq, &compared_fields(low)?)?;
            let below = compared(&value, &BinaryOperator::LtEq, &compared_fields(high)?)?;
            let within = joined(vec![above, below], &BinaryOperator::And);
            Some(if *not { negated(within) } else { within })
        }
        Expr::InList {
            expr,
            list,
            negated: not,
        } => {
            let left = compared_fields(expr)?;
            let rows = list
                .iter()
                .map(|row| compared(&left, &BinaryOperator::Eq, &compared_fields(row)?));
            let found = joined(rows.collect::<Option<Vec<_>>>()?, &BinaryOperator::Or);
            Some(if *not { negated(found) } else { found })
        }
        _ => None,
    }
}

/// Whether all fields of a row are NULL, or none is if `is_null` is false. A row among them is a
/// value that is not NULL, whatever its fields are.
fn tested(given: Vec<Expr>, is_null: bool) -> Expr {
    if given.iter().any(|field| fields(field).is_some()) {
        return call(FIELDS_NULL, vec![call("row", given), boolean(is_null)]);
    }
    let tests = given.into_iter().map(|field| match is_null {
        true => Expr::IsNull(Box::new(field)),
        false => Expr::IsNotNull(Box::new(field)),
    });
    joined(tests.collect(), &BinaryOperator::And)
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

/// The first fields that differ decide. `last` compares the last fields and may accept equality.
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
