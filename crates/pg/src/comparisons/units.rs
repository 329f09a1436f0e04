//! Comparisons of constants with timestamps of files whose unit is not a microsecond.
//!
//! | column | constant | DataFusion 55.2 | here |
//! |---|---|---|---|
//! | milliseconds | `'… 00:00:00.0005'` | truncates it to the column's unit | compares it exactly |
//! | nanoseconds | `'9999-12-31'`, `'infinity'` | fails, or gives NULL | takes it as beyond every value |
//!
//! A constant that would be truncated is compared with the column's value inside a function that
//! optimizers do not recognize. For pruning, a second condition is added: it compares the
//! truncated constant and holds wherever the first one does.

use datafusion::arrow::datatypes::{DataType, TimeUnit};
use datafusion::common::{DFSchema, ScalarValue};
use datafusion::config::ConfigOptions;
use datafusion::logical_expr::expr::{Between, InList};
use datafusion::logical_expr::{BinaryExpr, Expr, ExprSchemable, Operator, lit};

use crate::constants::value_of;
use crate::functions::as_it_is;

/// A comparison that means `left op right`; `None` if the given one already does.
pub(super) fn compared(
    left: &Expr,
    op: Operator,
    right: &Expr,
    schema: &DFSchema,
    options: &ConfigOptions,
) -> Option<Expr> {
    if let Some(end) = End::of(right, options) {
        return end.compared(left, op);
    }
    if let Some(end) = End::of(left, options) {
        return end.compared(right, op.swap()?);
    }
    let is_cut = |side: &Expr, other: &Expr| {
        widened(side, schema).is_some_and(|unit| may_be_cut(other, unit))
    };
    let binary = |left, op, right| Expr::BinaryExpr(BinaryExpr::new(left, op, right));
    let (left, right) = (Box::new(left.clone()), Box::new(right.clone()));
    let exact = if is_cut(&left, &right) {
        binary(Box::new(hidden(&left)), op, right.clone())
    } else if is_cut(&right, &left) {
        binary(left.clone(), op, Box::new(hidden(&right)))
    } else {
        return None;
    };
    let pruning = match op {
        Operator::Lt => Operator::LtEq,
        Operator::Gt => Operator::GtEq,
        Operator::Eq | Operator::LtEq | Operator::GtEq => op,
        _ => return Some(exact),
    };
    Some(exact.and(binary(left, pruning, right)))
}

/// The same for BETWEEN.
pub(super) fn between(given: &Between, schema: &DFSchema, options: &ConfigOptions) -> Option<Expr> {
    let Between {
        expr,
        negated,
        low,
        high,
    } = given;
    let from = compared(expr, Operator::GtEq, low, schema, options);
    let to = compared(expr, Operator::LtEq, high, schema, options);
    if from.is_none() && to.is_none() {
        return None;
    }
    let from = from.unwrap_or_else(|| expr.as_ref().clone().gt_eq(low.as_ref().clone()));
    let to = to.unwrap_or_else(|| expr.as_ref().clone().lt_eq(high.as_ref().clone()));
    let within = from.and(to);
    Some(if *negated {
        Expr::Not(Box::new(within))
    } else {
        within
    })
}

/// The same for IN.
pub(super) fn within(given: &InList, schema: &DFSchema) -> Option<Expr> {
    let unit = widened(&given.expr, schema)?;
    if !given.list.iter().any(|one| may_be_cut(one, unit)) {
        return None;
    }
    let exact = InList {
        expr: Box::new(hidden(&given.expr)),
        ..given.clone()
    };
    let exact = Expr::InList(exact);
    if given.negated {
        return Some(exact);
    }
    Some(exact.and(Expr::InList(given.clone())))
}

fn hidden(expr: &Expr) -> Expr {
    as_it_is(expr.clone())
}

/// The unit of a timestamp column that is cast to a finer one.
fn widened(side: &Expr, schema: &DFSchema) -> Option<TimeUnit> {
    let Expr::Cast(cast) = side else {
        return None;
    };
    match (cast.expr.get_type(schema).ok()?, cast.field.data_type()) {
        (DataType::Timestamp(from, _), DataType::Timestamp(to, _))
            if per_second(from) < per_second(*to) =>
        {
            Some(from)
        }
        _ => None,
    }
}

/// Whether a constant might not be a whole number of units.
fn may_be_cut(constant: &Expr, unit: TimeUnit) -> bool {
    if constant.any_column_refs() || constant.contains_outer() {
        return false;
    }
    let (count, of) = match constant {
        Expr::Literal(ScalarValue::TimestampNanosecond(Some(count), _), _) => {
            (*count, TimeUnit::Nanosecond)
        }
        Expr::Literal(ScalarValue::TimestampMicrosecond(Some(count), _), _) => {
            (*count, TimeUnit::Microsecond)
        }
        Expr::Literal(value, _) if value.is_null() => return false,
        _ => return true,
    };
    count % (per_second(of) / per_second(unit)).max(1) != 0
}

fn per_second(unit: TimeUnit) -> i64 {
    match unit {
        TimeUnit::Second => 1,
        TimeUnit::Millisecond => 1_000,
        TimeUnit::Microsecond => 1_000_000,
        TimeUnit::Nanosecond => 1_000_000_000,
    }
}

/// A constant before or after every timestamp in nanoseconds.
#[derive(Clone, Copy, PartialEq, Eq)]
enum End {
    First,
    Last,
}

impl End {
    fn of(side: &Expr, options: &ConfigOptions) -> Option<Self> {
        let Expr::Cast(cast) = side else {
            return None;
        };
        let DataType::Timestamp(TimeUnit::Nanosecond, _) = cast.field.data_type() else {
            return None;
        };
        let constant = cast.expr.as_ref();
        if constant.any_column_refs() || constant.contains_outer() {
            return None;
        }
        match value_of(constant, options)? {
            ScalarValue::TimestampMicrosecond(Some(micros), _)
                if micros.checked_mul(1_000).is_none() =>
            {
                Some(if micros < 0 { Self::First } else { Self::Last })
            }
            _ => None,
        }
    }

    /// `side op self`: the same for all values, and NULL for NULL.
    fn compared(self, side: &Expr, op: Operator) -> Option<Expr> {
        let value = match op {
            Operator::Lt | Operator::LtEq => self == Self::Last,
            Operator::Gt | Operator::GtEq => self == Self::First,
            Operator::Eq => false,
            Operator::NotEq => true,
            Operator::IsDistinctFrom => return Some(lit(true)),
            Operator::IsNotDistinctFrom => return Some(lit(false)),
            _ => return None,
        };
        let known = Expr::IsNotNull(Box::new(side.clone()));
        let null = lit(ScalarValue::Boolean(None));
        // A filter drops both NULL and false, and can prune by the first operand.
        Some(if value {
            known.or(null)
        } else {
            known.is_false().and(null)
        })
    }
}
