//! Ranks of a hypothetical row: `rank(v) WITHIN GROUP (ORDER BY e)`, computed by counting the rows
//! that precede it.
//!
//! | from | to |
//! |---|---|
//! | `rank(v)` | `1 + count(*) FILTER (WHERE e < v)` |
//! | `dense_rank(v)`, of one key | `1 + count(DISTINCT e) FILTER (WHERE e < v)` |
//! | `percent_rank(v)` | `(rank - 1) / count(*)`, 0 of no rows |
//! | `cume_dist(v)` | `(1 + count(*) FILTER (WHERE e <= v)) / (1 + count(*))` |

use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    BinaryOperator, CastKind, DataType, DuplicateTreatment, ExactNumberInfo, Expr, Function,
    FunctionArg, FunctionArgExpr, FunctionArguments, OrderByExpr, VisitorMut,
};

use crate::dialect::ast::{arguments, call, last_word, number};

pub(in crate::dialect) struct Hypothetical;

impl VisitorMut for Hypothetical {
    type Break = ();

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        if let Expr::Function(function) = &*expr
            && !function.within_group.is_empty()
            && let Some(counted) = counted(function)
        {
            *expr = counted;
        }
        ControlFlow::Continue(())
    }
}

fn counted(function: &Function) -> Option<Expr> {
    let name = last_word(&function.name)?;
    let values = arguments(function)?;
    let keys = &function.within_group;
    if values.len() != keys.len() {
        return None;
    }
    let pairs: Vec<(&OrderByExpr, &Expr)> = keys.iter().zip(values).collect();
    let filter = function.filter.as_deref();
    let all = all_rows(pairs.first()?.0, filter);
    let before = || count(None, Some(both(filter, precedes(&pairs))));
    let whole = match name.as_str() {
        "rank" => binary(number(1), BinaryOperator::Plus, before()),
        "dense_rank" => {
            let [(key, value)] = pairs[..] else {
                return None;
            };
            let condition = both(filter, precedes(&pairs));
            let found = count(Some(&key.expr), Some(condition));
            let ranks = binary(number(1), BinaryOperator::Plus, found);
            if nulls_first(key) {
                // NULL counts as a value.
                let null = binary(is_null(&key.expr), BinaryOperator::And, is_given(value));
                let nulls = count(None, Some(both(filter, null)));
                let one = call("least", vec![nulls, number(1)]);
                binary(ranks, BinaryOperator::Plus, one)
            } else {
                ranks
            }
        }
        "percent_rank" => {
            let rows = call("nullif", vec![float(all), number(0)]);
            let part = binary(float(before()), BinaryOperator::Divide, rows);
            call("coalesce", vec![part, float(number(0))])
        }
        "cume_dist" => {
            let peers = pairs.iter().map(|(key, value)| peer(key, value));
            let peers = peers.reduce(|left, right| binary(left, BinaryOperator::And, right))?;
            let within = binary(precedes(&pairs), BinaryOperator::Or, peers);
            let within = count(None, Some(both(filter, within)));
            let one = |count| float(binary(number(1), BinaryOperator::Plus, count));
            binary(one(within), BinaryOperator::Divide, one(all))
        }
        _ => return None,
    };
    Some(whole)
}

/// Whether a row of the aggregate precedes the hypothetical one. This is a condition of FILTER, so
/// NULL counts as false.
fn precedes(pairs: &[(&OrderByExpr, &Expr)]) -> Expr {
    let mut found: Option<Expr> = None;
    for (key, value) in pairs.iter().rev() {
        let op = if key.options.asc == Some(false) {
            BinaryOperator::Gt
        } else {
            BinaryOperator::Lt
        };
        let less = binary(key.expr.clone(), op, (*value).clone());
        let null = if nulls_first(key) {
            binary(is_null(&key.expr), BinaryOperator::And, is_given(value))
        } else {
            binary(is_given(&key.expr), BinaryOperator::And, is_null(value))
        };
        let before = binary(less, BinaryOperator::Or, null);
        found = Some(match found {
            None => before,
            Some(rest) => {
                let rest = binary(peer(key, value), BinaryOperator::And, rest);
                binary(before, BinaryOperator::Or, rest)
            }
        });
    }
    found.unwrap_or_else(|| crate::dialect::ast::boolean(false))
}

fn peer(key: &OrderByExpr, value: &Expr) -> Expr {
    let equal = binary(key.expr.clone(), BinaryOperator::Eq, value.clone());
    let nulls = binary(is_null(&key.expr), BinaryOperator::And, is_null(value));
    binary(equal, BinaryOperator::Or, nulls)
}

fn nulls_first(key: &OrderByExpr) -> bool {
    key.options
        .nulls_first
        .unwrap_or(key.options.asc == Some(false))
}

fn is_null(expr: &Expr) -> Expr {
    Expr::IsNull(Box::new(expr.clone()))
}

fn is_given(expr: &Expr) -> Expr {
    Expr::IsNotNull(Box::new(expr.clone()))
}

fn both(filter: Option<&Expr>, condition: Expr) -> Expr {
    match filter {
        Some(filter) => {
            let filter = Expr::Nested(Box::new(filter.clone()));
            binary(filter, BinaryOperator::And, condition)
        }
        None => condition,
    }
}

/// `(left op right)`.
fn binary(left: Expr, op: BinaryOperator, right: Expr) -> Expr {
    Expr::Nested(Box::new(Expr::BinaryOp {
        left: Box::new(left),
        op,
        right: Box::new(right),
    }))
}

/// The number of rows. The call names a key, because that decides to which query the aggregate
/// belongs (`subqueries/outer_aggregates.rs`).
fn all_rows(key: &OrderByExpr, filter: Option<&Expr>) -> Expr {
    let mut made = call("count", vec![is_null(&key.expr)]);
    if let Expr::Function(function) = &mut made {
        function.filter = filter.cloned().map(Box::new);
    }
    made
}

/// `count(*)`, or the count of distinct values.
fn count(distinct: Option<&Expr>, filter: Option<Expr>) -> Expr {
    let mut made = call("count", distinct.cloned().into_iter().collect());
    if let Expr::Function(function) = &mut made {
        function.filter = filter.map(Box::new);
        if let FunctionArguments::List(list) = &mut function.args {
            if distinct.is_some() {
                list.duplicate_treatment = Some(DuplicateTreatment::Distinct);
            } else {
                list.args = vec![FunctionArg::Unnamed(FunctionArgExpr::Wildcard)];
            }
        }
    }
    made
}

fn float(expr: Expr) -> Expr {
    Expr::Cast {
        kind: CastKind::Cast,
        expr: Box::new(expr),
        data_type: DataType::Double(ExactNumberInfo::None),
        array: false,
        format: None,
    }
}
