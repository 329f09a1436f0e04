//! Which function computes `+ - * /` of dates, times and intervals, and in which type are they
//! compared?
//!
//! Operators are selected as in PostgreSQL: a text literal takes the other side's type, or that of
//! the only possible operator; other types are cast implicitly, to the nearest one. A comparison
//! of a date with a constant timestamp becomes an equivalent one with a constant date, by which
//! files can be pruned.

use datafusion::arrow::datatypes::{DataType, TimeUnit};
use datafusion::common::DFSchema;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::error::Result;
use datafusion::logical_expr::expr::ScalarFunction;
use datafusion::logical_expr::planner::{ExprPlanner, PlannerResult, RawBinaryExpr};
use datafusion::logical_expr::simplify::SimplifyContext;
use datafusion::logical_expr::{BinaryExpr, Expr, ExprSchemable, Operator, lit};
use datafusion::optimizer::simplify_expressions::ExprSimplifier;
use datafusion::scalar::ScalarValue;
use datafusion::sql::sqlparser::ast::BinaryOperator;

use crate::PgError;
use crate::casts::{CAST, Target};
use crate::functions::time::operators::{self, MINUS, PLUS};
use crate::functions::time::{self, Kind, Overload, is_value_function, value_of};
use crate::operators::is_unknown;
use crate::time::calendar::{self, MICROS_PER_DAY};
use crate::trees::Tree;

/// Plans operators of dates and times, and `extract`.
#[derive(Debug)]
pub(crate) struct TimePlanner;

impl ExprPlanner for TimePlanner {
    fn plan_binary_op(
        &self,
        raw: RawBinaryExpr,
        schema: &DFSchema,
    ) -> Result<PlannerResult<RawBinaryExpr>> {
        let (Ok(left), Ok(right)) = (raw.left.get_type(schema), raw.right.get_type(schema)) else {
            return Ok(PlannerResult::Original(raw));
        };
        if Kind::of(&left).is_none() && Kind::of(&right).is_none() {
            return Ok(PlannerResult::Original(raw));
        }
        let sides = Sides {
            left: raw.left.clone(),
            right: raw.right.clone(),
            types: [left, right],
        };
        let planned = match raw.op {
            BinaryOperator::Plus => sides.call(operators::plus(), operators::PLUS_OVERLOADS, "+"),
            BinaryOperator::Minus => {
                sides.call(operators::minus(), operators::MINUS_OVERLOADS, "-")
            }
            BinaryOperator::Multiply => {
                sides.call(operators::times(), operators::TIMES_OVERLOADS, "*")
            }
            BinaryOperator::Divide => sides.call(operators::over(), operators::OVER_OVERLOADS, "/"),
            BinaryOperator::Eq => sides.compare(Operator::Eq),
            BinaryOperator::NotEq => sides.compare(Operator::NotEq),
            BinaryOperator::Lt => sides.compare(Operator::Lt),
            BinaryOperator::LtEq => sides.compare(Operator::LtEq),
            BinaryOperator::Gt => sides.compare(Operator::Gt),
            BinaryOperator::GtEq => sides.compare(Operator::GtEq),
            _ => return Ok(PlannerResult::Original(raw)),
        };
        Ok(match planned? {
            Some(expr) => PlannerResult::Planned(expr),
            None => PlannerResult::Original(raw),
        })
    }

    fn plan_extract(&self, args: Vec<Expr>) -> Result<PlannerResult<Vec<Expr>>> {
        Ok(PlannerResult::Planned(time::extract().call(args)))
    }
}

struct Sides {
    left: Expr,
    right: Expr,
    types: [DataType; 2],
}

impl Sides {
    fn call(
        self,
        function: datafusion::logical_expr::ScalarUDF,
        overloads: &[Overload],
        symbol: &str,
    ) -> Result<Option<Expr>> {
        let is_unknown = [is_unknown(&self.left), is_unknown(&self.right)];
        let [left, right] = match is_unknown {
            [false, false] => {
                if self.types.iter().any(is_text)
                    || !overloads
                        .iter()
                        .any(|overload| overload.distance(&self.types).is_some())
                {
                    return Err(self.undefined(symbol).into());
                }
                let fitting = overloads
                    .iter()
                    .filter_map(|overload| overload.distance(&self.types));
                let best = fitting.clone().min();
                let is_exact = best == Some(0);
                if !is_exact && fitting.filter(|near| Some(*near) == best).count() > 1 {
                    return Err(self.ambiguous(symbol).into());
                }
                [self.left, self.right]
            }
            [true, _] => {
                let Some(kind) = guess(overloads, 1, &self.types[1]) else {
                    return Err(self.ambiguous(symbol).into());
                };
                [value_of(self.left, kind), self.right]
            }
            [false, true] => {
                let Some(kind) = guess(overloads, 0, &self.types[0]) else {
                    return Err(self.ambiguous(symbol).into());
                };
                [self.left, value_of(self.right, kind)]
            }
        };
        Ok(Some(function.call(vec![left, right])))
    }

    fn compare(self, op: Operator) -> Result<Option<Expr>> {
        let [left_type, right_type] = &self.types;
        let (left, right) = (self.left.clone(), self.right.clone());
        let binary = |left: Expr, right: Expr| {
            Ok(Some(Expr::BinaryExpr(BinaryExpr::new(
                Box::new(left),
                op,
                Box::new(right),
            ))))
        };
        if left_type.is_null() || right_type.is_null() {
            return Ok(None);
        }
        let (Some(first), Some(second)) = (Kind::of(left_type), Kind::of(right_type)) else {
            return match (Kind::of(left_type), Kind::of(right_type)) {
                (Some(kind), None) if is_unknown(&right) => binary(left, value_of(right, kind)),
                (None, Some(kind)) if is_unknown(&left) => binary(value_of(left, kind), right),
                // A placeholder's type may be determined later.
                _ if is_text(left_type) && matches!(left, Expr::Placeholder(_)) => Ok(None),
                _ if is_text(right_type) && matches!(right, Expr::Placeholder(_)) => Ok(None),
                _ => Err(self.undefined(&op.to_string()).into()),
            };
        };
        if let Some(expr) = compare_dates(op, &left, &right, [first, second]) {
            return Ok(Some(expr));
        }
        let common = match (first, second) {
            (first, second) if first == second => {
                return Ok(None);
            }
            (Kind::Date, Kind::Timestamp) | (Kind::Timestamp, Kind::Date) => Kind::Timestamp,
            (Kind::Date | Kind::Timestamp, Kind::Timestamptz)
            | (Kind::Timestamptz, Kind::Date | Kind::Timestamp) => Kind::Timestamptz,
            (Kind::Time, Kind::Interval) | (Kind::Interval, Kind::Time) => Kind::Interval,
            _ => return Err(self.undefined(&op.to_string()).into()),
        };
        let typed = |expr: Expr, kind: Kind| {
            if kind == common {
                expr
            } else {
                value_of(expr, common)
            }
        };
        binary(typed(left, first), typed(right, second))
    }

    /// Error 42883.
    fn undefined(&self, symbol: &str) -> PgError {
        let [left, right] = self.names();
        let message = format!("operator does not exist: {left} {symbol} {right}");
        PgError::new("42883", message)
    }

    /// Error 42725.
    fn ambiguous(&self, symbol: &str) -> PgError {
        let [left, right] = self.names();
        let message = format!("operator is not unique: {left} {symbol} {right}");
        PgError::new("42725", message)
    }

    fn names(&self) -> [String; 2] {
        let name = |expr: &Expr, data_type: &DataType| {
            if is_unknown(expr) || data_type.is_null() {
                return "unknown".to_owned();
            }
            Target::of_arrow(data_type)
                .map_or_else(|| data_type.to_string(), |target| target.name())
        };
        [
            name(&self.left, &self.types[0]),
            name(&self.right, &self.types[1]),
        ]
    }
}

/// The type of a text literal, argument `at`, beside a value of type `known`.
///
/// Among several possible types PostgreSQL chooses the one to which the known type is cast
/// implicitly: in `time + '1 hour'`, which could also add a date, the literal is an interval.
fn guess(overloads: &[Overload], at: usize, known: &DataType) -> Option<Kind> {
    let given = known;
    let known = Kind::of(known)?;
    let fitting: Vec<[Kind; 2]> = overloads
        .iter()
        .filter_map(crate::functions::time::rowwise::Overload::pair)
        .filter(|pair| pair[at] == known)
        .collect();
    if fitting.contains(&[known, known]) {
        return Some(known);
    }
    let all = fitting.iter().map(|pair| pair[1 - at]).collect::<Vec<_>>();
    if let [only] = all[..] {
        return Some(only);
    }
    let mut near = all.iter().filter(|kind| kind.distance(given).is_some());
    match (near.next(), near.next()) {
        (Some(only), None) => Some(*only),
        _ => None,
    }
}

fn is_text(data_type: &DataType) -> bool {
    matches!(
        data_type,
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View
    )
}

/// Turns a comparison of a date with a constant timestamp into one with a constant date.
fn compare_dates(op: Operator, left: &Expr, right: &Expr, kinds: [Kind; 2]) -> Option<Expr> {
    let (date, at, op) = match kinds {
        [Kind::Date, Kind::Timestamp] => (left, constant(right)?, op),
        [Kind::Timestamp, Kind::Date] => (right, constant(left)?, op.swap()?),
        _ => return None,
    };
    if constant_kinds(date) {
        return None;
    }
    let is_midnight = at.rem_euclid(MICROS_PER_DAY) == 0;
    let op = match (op, is_midnight) {
        (Operator::Lt, false) => Operator::LtEq,
        (Operator::GtEq, false) => Operator::Gt,
        (Operator::Eq | Operator::NotEq, false) => return None,
        (op, _) => op,
    };
    let day = i32::try_from(at.div_euclid(MICROS_PER_DAY)).ok()?;
    Some(Expr::BinaryExpr(BinaryExpr::new(
        Box::new(date.clone()),
        op,
        Box::new(lit(ScalarValue::Date32(Some(day)))),
    )))
}

/// Whether an expression consists of constants and functions that depend on no setting.
fn constant_kinds(expr: &Expr) -> bool {
    let mut is_constant = true;
    let _ = expr.each(|part| {
        is_constant = match part {
            Expr::Literal(..) => true,
            Expr::ScalarFunction(ScalarFunction { func, args }) => {
                let name = func.name();
                let known = [PLUS, MINUS, CAST].contains(&name) || is_value_function(name);
                let typed = DFSchema::empty();
                let has_zone = args.iter().any(|arg| {
                    matches!(
                        arg.get_type(&typed),
                        Ok(DataType::Timestamp(TimeUnit::Microsecond, Some(_))) | Err(_)
                    )
                });
                known && !has_zone
            }
            _ => false,
        };
        Ok(if is_constant {
            TreeNodeRecursion::Continue
        } else {
            TreeNodeRecursion::Stop
        })
    });
    is_constant
}

/// The value of a constant expression that is a finite timestamp.
fn constant(expr: &Expr) -> Option<i64> {
    if !constant_kinds(expr) {
        return None;
    }
    let simplifier = ExprSimplifier::new(SimplifyContext::builder().build());
    match simplifier.simplify(expr.clone()).ok()? {
        Expr::Literal(ScalarValue::TimestampMicrosecond(Some(at), None), _) => {
            calendar::is_finite(at).then_some(at)
        }
        _ => None,
    }
}
