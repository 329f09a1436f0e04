//! Constants without a type: `'abc'` and NULL.

use std::sync::Arc;

use datafusion::arrow::datatypes::{DataType, Field};
use datafusion::config::ConfigOptions;
use datafusion::logical_expr::Expr;
use datafusion::scalar::ScalarValue;

use crate::casts::{Target, cast_expr};
use crate::numbers::numeric::Numeric;

/// Whether an expression is a quoted constant that no cast has given a type: the dialect's casts
/// are calls, so a literal that is text has none.
pub(crate) fn is_unknown(expr: &Expr) -> bool {
    match expr {
        Expr::Literal(value, _) => matches!(
            value,
            ScalarValue::Utf8(_) | ScalarValue::Utf8View(_) | ScalarValue::LargeUtf8(_)
        ),
        Expr::Alias(alias) => is_unknown(&alias.expr),
        _ => false,
    }
}

/// A constant without a type, as a value of the field's type.
pub(crate) fn typed(expr: Expr, like: &Field, config: &ConfigOptions) -> Expr {
    let Some(target) = Target::of_field(like) else {
        return expr;
    };
    let target = match target {
        text if text.is_text() && !matches!(text, Target::Bpchar(_)) => return expr,
        Target::Numeric(_) | Target::NumericOf(..) => match &expr {
            Expr::Literal(value, _) => digits(value).unwrap_or(Target::Numeric(None)),
            _ => Target::Numeric(None),
        },
        // The modifier of the other operand is not the constant's.
        Target::Varchar(_) => Target::Varchar(None),
        // But one that is no longer is padded to it, as the values are with which it compares.
        Target::Bpchar(Some(length)) if fits(&expr, length) => Target::Bpchar(Some(length)),
        Target::Bpchar(_) => Target::Bpchar(None),
        other => other,
    };
    cast_expr(expr, &target, config)
}

fn fits(expr: &Expr, length: u32) -> bool {
    let Expr::Literal(value, _) = expr else {
        return false;
    };
    let text = value.try_as_str().flatten().unwrap_or_default();
    text.trim_end_matches(' ').chars().count() <= length as usize
}

fn digits(value: &ScalarValue) -> Option<Target> {
    let number = Numeric::parse(value.try_as_str()??)?;
    let count = number.digits.magnitude().to_string().len();
    let precision = u8::try_from(count.max(number.scale as usize)).ok()?;
    let scale = i8::try_from(number.scale).ok()?;
    (precision <= 76).then_some(Target::NumericOf(precision, scale))
}

/// The type that `select_common_type` finds for values that stand in one column (CASE, coalesce,
/// UNION, VALUES, arrays): of those with a type, the widest of their kind. `None` if no value has a
/// type, or the types have nothing in common.
pub(crate) fn common(fields: &[(Arc<Field>, bool)]) -> Option<Arc<Field>> {
    let mut found: Option<Arc<Field>> = None;
    for (field, unknown) in fields {
        if *unknown || field.data_type().is_null() {
            continue;
        }
        found = Some(match found {
            None => Arc::clone(field),
            Some(before) => wider(&before, field)?,
        });
    }
    found
}

fn wider(a: &Arc<Field>, b: &Arc<Field>) -> Option<Arc<Field>> {
    if a.data_type() == b.data_type() && a.metadata() == b.metadata() {
        return Some(Arc::clone(a));
    }
    let (x, y) = (Target::of_field(a)?, Target::of_field(b)?);
    let of = |data_type: DataType| Some(Arc::new(Field::new(a.name(), data_type, true)));
    if x.is_number() && y.is_number() {
        return of(super::numbers::wider(a.data_type(), b.data_type())?);
    }
    match (&x, &y) {
        (x, y) if x.is_text() && y.is_text() => of(DataType::Utf8),
        (Target::Date, Target::Timestamp(_)) => Some(Arc::clone(b)),
        (Target::Timestamp(_), Target::Date) => Some(Arc::clone(a)),
        (Target::Date | Target::Timestamp(_), Target::Timestamptz(_)) => Some(Arc::clone(b)),
        (Target::Timestamptz(_), Target::Date | Target::Timestamp(_)) => Some(Arc::clone(a)),
        (x, y) if x == y => Some(Arc::clone(a)),
        _ => None,
    }
}
