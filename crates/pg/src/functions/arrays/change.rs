//! Arrays with elements added, removed or replaced.

use std::cmp::Ordering;
use std::sync::Arc;

use datafusion::arrow::datatypes::{Field, FieldRef};
use datafusion::error::Result;

use super::compare::{as_compared, element_order, searched};
use super::elements::{common, dimensions, elements, leaf, list_of, value};
use super::row_types::{EQUALITY, has_comparison};
use crate::PgError;
use crate::functions::scalar::Take::{Any, Int, List};
use crate::functions::scalar::{Form, Function, Give, Row, Value};
use crate::operators::padded::{is_padded, unpadded};

pub(super) fn functions() -> Vec<Function> {
    vec![
        Function::new(
            "array_append",
            vec![
                Form::new(
                    &[List, Any],
                    Give::Of(|given| one_more(&given[0], &given[1])),
                    |row| {
                        let leaf = row_leaf(row, 0, &[1])?;
                        let mut all = given(row, 0, &leaf)?;
                        one_dimension(&all)?;
                        all.push(value(row, 1, &leaf)?);
                        Ok(Value::List(all))
                    },
                )
                .called(),
            ],
        ),
        Function::new(
            "array_prepend",
            vec![
                Form::new(
                    &[Any, List],
                    Give::Of(|given| one_more(&given[1], &given[0])),
                    |row| {
                        let leaf = row_leaf(row, 1, &[0])?;
                        let mut all = given(row, 1, &leaf)?;
                        one_dimension(&all)?;
                        all.insert(0, value(row, 0, &leaf)?);
                        Ok(Value::List(all))
                    },
                )
                .called(),
            ],
        ),
        Function::new(
            "array_cat",
            vec![Form::new(&[List, List], Give::Of(concatenated_field), concatenated).called()],
        ),
        Function::new(
            "array_remove",
            vec![
                Form::new(
                    &[List, Any],
                    Give::Of(|given| {
                        let (_, dimensions) = leaf(&given[0]);
                        let list = list_of(kept_leaf(&given[0], &given[1])?, dimensions.max(1));
                        Ok(Arc::new(Field::new("", list, true)))
                    }),
                    |row| {
                        if row.is_null(0) {
                            return Ok(Value::Null);
                        }
                        let own = kept_leaf(row.field(0), row.field(1))?;
                        let leaf = row_leaf(row, 0, &[1])?;
                        let all = as_compared(given(row, 0, &leaf)?, &leaf);
                        if matches!(all.first(), Some(Value::List(_))) {
                            let message =
                                "removing elements from multidimensional arrays is not supported";
                            return Err(PgError::unsupported(message).into());
                        }
                        if !all.is_empty() {
                            has_comparison(&leaf, EQUALITY)?;
                        }
                        let gone = searched(row, 1, &leaf)?;
                        let kept = given(row, 0, &own)?.into_iter().zip(&all);
                        let kept = kept.filter_map(|(value, element)| {
                            (element_order(element, &gone) != Ordering::Equal).then_some(value)
                        });
                        Ok(Value::List(kept.collect()))
                    },
                )
                .called(),
            ],
        ),
        Function::new(
            "array_replace",
            vec![
                Form::new(
                    &[List, Any, Any],
                    Give::Of(|given| grown(&given[0], &[&given[1], &given[2]])),
                    |row| {
                        if row.is_null(0) {
                            return Ok(Value::Null);
                        }
                        let leaf = row_leaf(row, 0, &[1, 2])?;
                        let all = given(row, 0, &leaf)?;
                        if !all.is_empty() {
                            has_comparison(&leaf, EQUALITY)?;
                        }
                        let (old, new) = (searched(row, 1, &leaf)?, value(row, 2, &leaf)?);
                        let is_old = |element: &Value| {
                            if !is_padded(&leaf) {
                                return element_order(element, &old) == Ordering::Equal;
                            }
                            let element = as_compared(vec![element.clone()], &leaf);
                            element_order(&element[0], &old) == Ordering::Equal
                        };
                        Ok(Value::List(replaced(all, &is_old, &new)))
                    },
                )
                .called(),
            ],
        ),
        Function::new(
            "trim_array",
            vec![Form::new(&[List, Int], Give::Of(same), |row| {
                let (leaf, _) = leaf(row.field(0));
                let mut all = given(row, 0, &leaf)?;
                let kept = usize::try_from(row.int(1))
                    .ok()
                    .and_then(|cut| all.len().checked_sub(cut));
                let Some(kept) = kept else {
                    let message = format!(
                        "number of elements to trim must be between 0 and {}",
                        all.len()
                    );
                    return Err(PgError::new("2202E", message).into());
                };
                all.truncate(kept);
                Ok(Value::List(all))
            })],
        ),
    ]
}

fn same(given: &[FieldRef]) -> Result<FieldRef> {
    let (leaf, dimensions) = leaf(&given[0]);
    Ok(Arc::new(Field::new("", list_of(leaf, dimensions), true)))
}

/// The field of an array with one more element, which has one dimension: an array of a type of
/// several is empty here, or refused.
fn one_more(array: &Field, added: &Field) -> Result<FieldRef> {
    let list = list_of(grown_leaf(array, &[added])?, 1);
    Ok(Arc::new(Field::new("", list, true)))
}

/// The field of an array after elements were replaced by others.
fn grown(array: &Field, added: &[&Field]) -> Result<FieldRef> {
    let (_, dimensions) = leaf(array);
    let leaf = grown_leaf(array, added)?;
    Ok(Arc::new(Field::new(
        "",
        list_of(leaf, dimensions.max(1)),
        true,
    )))
}

fn row_leaf(row: &Row<'_>, array: usize, added: &[usize]) -> Result<FieldRef> {
    let added: Vec<&Field> = added.iter().map(|argument| row.field(*argument)).collect();
    grown_leaf(row.field(array), &added)
}

/// The type that holds the elements of an array and others. A `character(n)` that is not padded to
/// the array's n leaves elements without a declared length.
fn grown_leaf(array: &Field, added: &[&Field]) -> Result<FieldRef> {
    let (mut found, _) = leaf(array);
    for other in added {
        let held = common("array_append", &found, other)?;
        let are_apart = is_padded(&held) && held.metadata() != other.metadata();
        found = match are_apart && !other.data_type().is_null() {
            true => unpadded(&held),
            false => held,
        };
    }
    Ok(found)
}

/// The type of the elements of an array after some were removed: the array's own, unless its
/// elements have none.
fn kept_leaf(array: &Field, removed: &Field) -> Result<FieldRef> {
    let (own, _) = leaf(array);
    let compared = grown_leaf(array, &[removed])?;
    Ok(match own.data_type().is_null() {
        true => compared,
        false => own,
    })
}

/// The elements of an array; none if it is NULL.
fn given(row: &Row<'_>, argument: usize, leaf: &Field) -> Result<Vec<Value>> {
    if row.is_null(argument) {
        return Ok(vec![]);
    }
    elements(row, argument, leaf)
}

fn one_dimension(elements: &[Value]) -> Result<()> {
    if elements
        .iter()
        .any(|element| matches!(element, Value::List(_)))
    {
        let message = "argument must be empty or one-dimensional array";
        return Err(PgError::new("22000", message).into());
    }
    Ok(())
}

fn replaced(elements: Vec<Value>, is_old: &dyn Fn(&Value) -> bool, new: &Value) -> Vec<Value> {
    let replaced = elements.into_iter().map(|element| match element {
        Value::List(inner) => Value::List(replaced(inner, is_old, new)),
        element if is_old(&element) => new.clone(),
        element => element,
    });
    replaced.collect()
}

fn concatenated_field(given: &[FieldRef]) -> Result<FieldRef> {
    let (left, left_dimensions) = leaf(&given[0]);
    let (right, right_dimensions) = leaf(&given[1]);
    let leaf = common("array_cat", &left, &right)?;
    let dimensions = left_dimensions.max(right_dimensions).max(1);
    Ok(Arc::new(Field::new("", list_of(leaf, dimensions), true)))
}

fn concatenated(row: &Row<'_>) -> Result<Value> {
    let ((left, left_levels), (right, right_levels)) = (leaf(row.field(0)), leaf(row.field(1)));
    let leaf = common("array_cat", &left, &right)?;
    if row.is_null(0) && row.is_null(1) {
        return Ok(Value::Null);
    }
    let (left, right) = (given(row, 0, &leaf)?, given(row, 1, &leaf)?);
    let (shape, other) = (dimensions(&left)?, dimensions(&right)?);
    let wrong = || Err(PgError::new("2202E", "cannot concatenate incompatible arrays").into());
    // PostgreSQL returns the array with elements; its type here has fewer dimensions.
    let flatter = || {
        let message = "concatenating to an empty array of more dimensions is not supported";
        Err(PgError::unsupported(message).into())
    };
    // An array with fewer dimensions becomes an element of the other.
    let mut all = match left_levels.cmp(&right_levels) {
        Ordering::Less if shape.is_empty() => return Ok(Value::List(right)),
        Ordering::Greater if other.is_empty() => return Ok(Value::List(left)),
        Ordering::Less if other.is_empty() => return flatter(),
        Ordering::Greater if shape.is_empty() => return flatter(),
        Ordering::Less if other.get(1..) != Some(&shape) => return wrong(),
        Ordering::Greater if shape.get(1..) != Some(&other) => return wrong(),
        Ordering::Less => vec![Value::List(left)],
        _ => left,
    };
    if left_levels == right_levels
        && !shape.is_empty()
        && !other.is_empty()
        && shape.get(1..) != other.get(1..)
    {
        return wrong();
    }
    if left_levels > right_levels {
        all.push(Value::List(right));
    } else {
        all.extend(right);
    }
    Ok(Value::List(all))
}
