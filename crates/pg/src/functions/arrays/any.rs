//! `x operator ANY (array)` and `ALL`: `pg_any('operator', x, array)`.

use std::cmp::Ordering;
use std::sync::Arc;

use datafusion::arrow::array::Array as _;
use datafusion::arrow::compute::cast;
use datafusion::arrow::compute::kernels::cmp::not_distinct;
use datafusion::arrow::datatypes::{DataType, Field, FieldRef, TimeUnit};
use datafusion::error::Result;
use datafusion::logical_expr::Expr;
use datafusion::logical_expr::expr::InList;
use datafusion::logical_expr::simplify::SimplifyContext;
use datafusion::scalar::ScalarValue;

use super::compare::element_order;
use super::elements::{common, elements, flat, leaf, value};
use super::row_types::{EQUALITY, check_rows};
use crate::PgError;
use crate::casts::Target;
use crate::functions::regex::{Regex, like};
use crate::functions::scalar::Take::{Any, Text};
use crate::functions::scalar::{Form, Function, Give, Row, Value, is_bytes, is_text, type_name};
use crate::operators::{Meeting, meeting};

pub(crate) const ANY: &str = "pg_any";
pub(crate) const ALL: &str = "pg_all";

pub(super) fn functions() -> Vec<Function> {
    let field = |given: &[FieldRef]| {
        let (element, levels) = leaf(&given[2]);
        if levels == 0 && !given[2].data_type().is_null() {
            let message = "op ANY/ALL (array) requires array on right side";
            return Err(PgError::new("42809", message).into());
        }
        met(&type_name(&given[1]), &element, &given[1])?;
        Ok(Arc::new(Field::new("", DataType::Boolean, true)))
    };
    vec![
        Function::new(
            ANY,
            vec![Form::new(&[Text, Any, Any], Give::Of(field), |row| folded(row, true)).called()],
        )
        .simplified(|args, info| in_list(args, info, "=", false)),
        Function::new(
            ALL,
            vec![Form::new(&[Text, Any, Any], Give::Of(field), |row| folded(row, false)).called()],
        )
        .simplified(|args, info| in_list(args, info, "<>", true)),
    ]
}

/// The type in which the operator compares a value with elements.
fn met(function: &str, element: &Field, value: &Field) -> Result<FieldRef> {
    let types = [element.data_type().clone(), value.data_type().clone()];
    if let Meeting::In(held) = meeting(&types) {
        return Ok(Arc::new(Field::new("", held, true)));
    }
    let found = common(function, element, value)?;
    let targets = [element, value].map(Target::of_field);
    let is_zoned = |target: &Option<Target>| matches!(target, Some(Target::Timestamptz(_)));
    if targets.iter().any(is_zoned) && !targets.iter().all(is_zoned) && !is_text_beside(&types) {
        let message = "ANY and ALL of times with a time zone beside others are not supported";
        return Err(PgError::unsupported(message).into());
    }
    Ok(nanoseconds([element, value]).unwrap_or(found))
}

/// Nanoseconds, if only one of two timestamps has them: a conversion to microseconds would cut it.
fn nanoseconds(sides: [&Field; 2]) -> Option<FieldRef> {
    let is_fine = |held: &DataType| matches!(held, DataType::Timestamp(TimeUnit::Nanosecond, _));
    let is_moment = |held: &DataType| matches!(held, DataType::Timestamp(..));
    if !sides.iter().all(|side| is_moment(side.data_type())) {
        return None;
    }
    let fine = sides.into_iter().find(|side| is_fine(side.data_type()))?;
    Some(Arc::new(fine.clone()))
}

fn is_text_beside(types: &[DataType]) -> bool {
    types.iter().any(|held| is_text(held) || held.is_null())
}

/// True if one comparison gives `wanted`, else NULL if one gives NULL.
fn folded(row: &Row<'_>, wanted: bool) -> Result<Value> {
    if row.is_null(2) {
        return Ok(Value::Null);
    }
    let (element, _) = leaf(row.field(2));
    let leaf = met("=", &element, row.field(1))?;
    let elements = flat(elements(row, 2, &leaf)?);
    let left = value(row, 1, &leaf)?;
    if !elements.is_empty() {
        check_rows(row.field(1), &element, EQUALITY)?;
    }
    let mut unknown = false;
    for element in &elements {
        if matches!(element, Value::Null) || matches!(left, Value::Null) {
            unknown = true;
        } else if compared(row.text(0), &left, element)? == wanted {
            return Ok(Value::Bool(wanted));
        }
    }
    Ok(if unknown {
        Value::Null
    } else {
        Value::Bool(!wanted)
    })
}

fn compared(operator: &str, left: &Value, right: &Value) -> Result<bool> {
    let order = || element_order(left, right);
    Ok(match operator {
        "=" => order() == Ordering::Equal,
        "<>" | "!=" => order() != Ordering::Equal,
        "<" => order() == Ordering::Less,
        "<=" => order() != Ordering::Greater,
        ">" => order() == Ordering::Greater,
        ">=" => order() != Ordering::Less,
        "~~" => like(text(left), text(right), false)?,
        "~~*" => like(text(left), text(right), true)?,
        "!~~" => !like(text(left), text(right), false)?,
        "!~~*" => !like(text(left), text(right), true)?,
        "~" => Regex::cached(text(right), "")?.is_match(text(left)),
        "~*" => Regex::cached(text(right), "i")?.is_match(text(left)),
        "!~" => !Regex::cached(text(right), "")?.is_match(text(left)),
        "!~*" => !Regex::cached(text(right), "i")?.is_match(text(left)),
        other => {
            let message = format!("operator {other} with ANY or ALL is not supported");
            return Err(PgError::unsupported(message).into());
        }
    })
}

fn text(value: &Value) -> &str {
    match value {
        Value::Scalar(value) => value.try_as_str().flatten().unwrap_or_default(),
        _ => "",
    }
}

/// Turns `x = ANY (constant)` into an IN list and `x <> ALL (constant)` into a NOT IN list, which
/// can prune chunks.
fn in_list(
    args: &[Expr],
    info: &SimplifyContext,
    wanted: &str,
    negated: bool,
) -> Result<Option<Expr>> {
    let [Expr::Literal(operator, _), left, Expr::Literal(array, _)] = args else {
        return Ok(None);
    };
    let ScalarValue::List(list) = array else {
        return Ok(None);
    };
    if operator.try_as_str().flatten() != Some(wanted) || matches!(left, Expr::Literal(..)) {
        return Ok(None);
    }
    let Ok(left_type) = info.get_data_type(left) else {
        return Ok(None);
    };
    let values = list.value(0);
    // A list compares bits, in which equal floats and equal intervals differ.
    let plain = !left_type.is_floating()
        && !left_type.is_nested()
        && !matches!(left_type, DataType::Interval(_) | DataType::Duration(_));
    if list.len() != 1 || array.is_null() || values.is_empty() || !plain {
        return Ok(None);
    }
    if !are_alike(values.data_type(), &left_type) {
        return Ok(None);
    }
    // An element that the value's type cannot hold (10.504 beside a `numeric(10,2)`) equals no
    // value.
    let held = cast(&values, &left_type)?;
    let is_kept = not_distinct(&cast(&held, values.data_type())?, &values)?;
    let known = (0..values.len()).filter(|at| is_kept.value(*at));
    let elements = known
        .map(|at| Ok(Expr::Literal(ScalarValue::try_from_array(&held, at)?, None)))
        .collect::<Result<Vec<_>>>()?;
    if elements.is_empty() {
        return Ok(None);
    }
    Ok(Some(Expr::InList(InList::new(
        Box::new(left.clone()),
        elements,
        negated,
    ))))
}

/// Whether elements can be converted to the value's type and back to see which it can hold.
fn are_alike(from: &DataType, to: &DataType) -> bool {
    let is_exact = |held: &DataType| held.is_integer() || held.is_decimal();
    let is_time = |held: &DataType| matches!(held, DataType::Time32(_) | DataType::Time64(_));
    let are_both = |is: &dyn Fn(&DataType) -> bool| is(from) && is(to);
    match (from, to) {
        (DataType::Timestamp(_, from), DataType::Timestamp(_, to)) => {
            from.is_some() == to.is_some()
        }
        (from, to) if from == to => true,
        _ => are_both(&is_text) || are_both(&is_bytes) || are_both(&is_exact) || are_both(&is_time),
    }
}
