//! `x operator ANY (array)` and `ALL`: `pg_any('operator', x, array)`.

use std::cmp::Ordering;
use std::sync::Arc;

use datafusion::arrow::array::Array as _;
use datafusion::arrow::compute::cast;
use datafusion::arrow::datatypes::{DataType, Field, FieldRef};
use datafusion::error::Result;
use datafusion::logical_expr::Expr;
use datafusion::logical_expr::expr::InList;
use datafusion::logical_expr::simplify::SimplifyContext;
use datafusion::scalar::ScalarValue;

use super::compare::element_order;
use super::elements::{common, elements, flat, leaf, value};
use crate::PgError;
use crate::casts::Target;
use crate::functions::regex::{Regex, like};
use crate::functions::scalar::Take::{Any, Text};
use crate::functions::scalar::{Form, Function, Give, Row, Value, is_text, type_name};
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
    Ok(found)
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
    let plain = !left_type.is_floating() && !left_type.is_nested();
    if list.len() != 1 || array.is_null() || values.is_empty() || !plain {
        return Ok(None);
    }
    let are_alike = match (values.data_type(), &left_type) {
        (from, to) if from == to => true,
        (from, to) => (is_text(from) && is_text(to)) || (from.is_integer() && to.is_integer()),
    };
    if !are_alike {
        return Ok(None);
    }
    // An integer outside the range of the value's type equals no value.
    let held = cast(&values, &left_type)?;
    let known = (0..values.len()).filter(|at| values.is_null(*at) || held.is_valid(*at));
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
