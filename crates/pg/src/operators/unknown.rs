//! Untyped constants: `'abc'` and NULL.

use std::sync::Arc;

use datafusion::arrow::datatypes::{DataType, Field};
use datafusion::config::ConfigOptions;
use datafusion::logical_expr::{Cast, Expr};
use datafusion::scalar::ScalarValue;

use crate::casts::{Target, cast_expr, cast_number};
use crate::error::PgError;
use crate::functions::arrays;
use crate::functions::time::{Kind, value_of};
use crate::numbers::numeric::Numeric;

/// Whether an expression is a quoted constant without a cast: the dialect turns casts into calls,
/// so a text literal is untyped. The value of a parameter has metadata.
pub(crate) fn is_unknown(expr: &Expr) -> bool {
    match expr {
        Expr::Literal(value, None) => matches!(
            value,
            ScalarValue::Utf8(_) | ScalarValue::Utf8View(_) | ScalarValue::LargeUtf8(_)
        ),
        Expr::Alias(alias) => is_unknown(&alias.expr),
        _ => false,
    }
}

/// Casts an untyped constant to the type of a field.
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
        // The constant does not take the other operand's modifier. But a constant that is not
        // longer than n is padded to it, like the values with which it is compared.
        Target::Bpchar(Some(length)) if fits(&expr, length) => Target::Bpchar(Some(length)),
        other => other.unmodified(),
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
    numeric_of([value.try_as_str()??])
}

/// The numeric that holds all the numbers written in these texts; `None` if one is no number, or if
/// they have too many digits.
pub(crate) fn numeric_of<'a>(texts: impl IntoIterator<Item = &'a str>) -> Option<Target> {
    let (mut whole, mut scale) = (0_usize, 0_usize);
    for text in texts {
        let number = Numeric::parse(text)?;
        let (count, own) = (
            number.digits.magnitude().to_string().len(),
            number.scale as usize,
        );
        whole = whole.max(count.saturating_sub(own));
        scale = scale.max(own);
    }
    let precision = u8::try_from(whole + scale).ok()?.max(1);
    let scale = i8::try_from(scale).ok()?;
    (precision <= 76).then_some(Target::NumericOf(precision, scale))
}

/// The type that `select_common_type` finds for values in one column (CASE, coalesce, UNION,
/// VALUES, arrays): the widest type of the typed values. `None` if no value is typed, or the types
/// cannot be combined.
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
    let found = found?;
    if fields.iter().any(|(_, unknown)| *unknown)
        && let Some(target) = Target::of_field(&found)
        && (target.is_text() || target.has_modifier())
    {
        return Some(Arc::new(unmodified(&target, &found)));
    }
    Some(found)
}

/// A field without the modifier, which applies to one value only.
fn unmodified(target: &Target, like: &Field) -> Field {
    let held = like.data_type().clone();
    target.unmodified().field(like.name(), held, true)
}

/// Error 42804 if values in one column have types that cannot be combined.
pub(crate) fn mismatch(word: &str, fields: &[(Arc<Field>, bool)]) -> Option<PgError> {
    let [left, right] = unlike(fields)?;
    let message = format!("{word} types {left} and {right} cannot be matched");
    Some(PgError::new("42804", message))
}

/// Error 42883 if two values, which `=` would compare, have types that cannot be combined.
pub(crate) fn no_equality(fields: &[(Arc<Field>, bool)]) -> Option<PgError> {
    let [left, right] = unlike(fields)?;
    let message = format!("operator does not exist: {left} = {right}");
    Some(PgError::new("42883", message))
}

/// The names of the first two types that differ.
fn unlike(fields: &[(Arc<Field>, bool)]) -> Option<[String; 2]> {
    let typed = fields
        .iter()
        .filter(|(field, unknown)| !unknown && !field.data_type().is_null());
    let targets: Option<Vec<Target>> = typed.map(|(field, _)| Target::of_field(field)).collect();
    let mut names: Vec<String> = targets?.iter().map(Target::name).collect();
    names.dedup();
    names.truncate(2);
    <[String; 2]>::try_from(names).ok()
}

/// Casts `expr`, which has the field `held`, to the common type.
pub(crate) fn as_common(expr: Expr, held: &Field, to: &Field, config: &ConfigOptions) -> Expr {
    let target = Target::of_field(to).map(|target| target.unmodified());
    let is_named = |target: &Target| !to.metadata().is_empty() && target.is_text();
    let is_declared = || {
        let held = Target::of_field(held);
        held.is_some_and(|held| !held.is_text() && held.has_modifier())
    };
    if let Some(target) = &target
        && held.metadata() != to.metadata()
        && (is_named(target) || is_declared() || held.data_type().is_null())
    {
        return cast_expr(expr, target, config);
    }
    if is_unknown(&expr) {
        return typed(expr, to, config);
    }
    if held.data_type().is_null() {
        return match target {
            // DataFusion 55.2 does not combine NULL and bytes in an array
            // (`type_union_resolution`).
            Some(target @ Target::Bytea) => cast_expr(expr, &target, config),
            _ => expr,
        };
    }
    if held.data_type() == to.data_type() {
        return match target {
            Some(Target::Text) if !held.metadata().is_empty() => {
                cast_expr(expr, &Target::Text, config)
            }
            _ => expr,
        };
    }
    if let Some(deep) = arrays::as_deep(&expr, held, to) {
        return deep;
    }
    match Kind::of(to.data_type()) {
        Some(kind @ (Kind::Timestamp | Kind::Timestamptz)) => value_of(expr, kind),
        _ if to.data_type().is_floating() => {
            let is_single = *to.data_type() == DataType::Float32;
            cast_number(
                expr,
                if is_single {
                    &Target::Float4
                } else {
                    &Target::Float8
                },
            )
        }
        _ => Expr::Cast(Cast::new(Box::new(expr), to.data_type().clone())),
    }
}

fn wider(a: &Arc<Field>, b: &Arc<Field>) -> Option<Arc<Field>> {
    if a.data_type() == b.data_type() && a.metadata() == b.metadata() {
        return Some(Arc::clone(a));
    }
    if let (DataType::List(x), DataType::List(y)) = (a.data_type(), b.data_type()) {
        let element = wider(x, y)?.as_ref().clone();
        let list = DataType::List(Arc::new(element.with_name(x.name()).with_nullable(true)));
        return Some(Arc::new(Field::new(a.name(), list, true)));
    }
    let (x, y) = (Target::of_field(a)?, Target::of_field(b)?);
    let of = |data_type: DataType| Some(Arc::new(Field::new(a.name(), data_type, true)));
    if x.is_number() && y.is_number() {
        return of(super::numbers::wider(a.data_type(), b.data_type())?);
    }
    match (&x, &y) {
        // Texts cast to each other, so the first one's type is used.
        (x, y) if x.is_text() && y.is_text() => {
            let like = Field::new(a.name(), DataType::Utf8, true);
            Some(Arc::new(unmodified(x, &like)))
        }
        (Target::Date, Target::Timestamp(_))
        | (Target::Date | Target::Timestamp(_), Target::Timestamptz(_)) => {
            of(b.data_type().clone())
        }
        (Target::Timestamp(_), Target::Date)
        | (Target::Timestamptz(_), Target::Date | Target::Timestamp(_)) => {
            of(a.data_type().clone())
        }
        (x, y) if x == y => Some(Arc::clone(a)),
        (x, y) if x.unmodified() == y.unmodified() => of(a.data_type().clone()),
        _ => None,
    }
}
