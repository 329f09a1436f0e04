//! Elements and slices: `a[1][2]`, `a[2:3]`.

use std::sync::Arc;

use datafusion::arrow::datatypes::{Field, FieldRef};
use datafusion::error::Result;
use datafusion::logical_expr::Expr;

use super::elements::{element, elements, flat_elements, leaf, list_of};
use super::text::split_element;
use crate::functions::scalar::Take::{Int, List};
use crate::functions::scalar::{Form, Function, Give, Row, Value};

/// `pg_subscript(array, i, …)`: the element, or NULL if there is none.
pub(crate) const SUBSCRIPT: &str = "pg_subscript";
/// `pg_slice(array, from, to, …)`.
pub(crate) const SLICE: &str = "pg_slice";

pub(super) fn functions() -> Vec<Function> {
    vec![
        Function::new(
            SUBSCRIPT,
            vec![
                Form::new(
                    &[List, Int],
                    Give::Of(|given| {
                        let (leaf, _) = leaf(&given[0]);
                        Ok(Arc::new(
                            leaf.as_ref().clone().with_name("").with_nullable(true),
                        ))
                    }),
                    subscript,
                )
                .repeated(),
            ],
        )
        .simplified(|args, _| {
            Ok(match args {
                [Expr::ScalarFunction(array), index] => split_element(index.clone(), array),
                _ => None,
            })
        }),
        Function::new(
            SLICE,
            vec![
                Form::new(&[List, Int], Give::Of(sliced), |row| {
                    let (leaf, levels) = leaf(row.field(0));
                    let given = (row.len() - 1) / 2;
                    let all = elements(row, 0, &leaf)?;
                    if given > levels {
                        return Ok(Value::List(vec![]));
                    }
                    Ok(Value::List(slice(all, row, 1)))
                })
                .repeated(),
            ],
        ),
    ]
}

fn subscript(row: &Row<'_>) -> Result<Value> {
    let (leaf, levels) = leaf(row.field(0));
    if row.len() - 1 != levels {
        return Ok(Value::Null);
    }
    if let Some((values, own)) = flat_elements(row, 0) {
        let at = usize::try_from(row.int(1)).ok();
        let at = at.filter(|at| (1..=own.len()).contains(at));
        return at.map_or(Ok(Value::Null), |at| element(values, own.start + at - 1));
    }
    let mut list = elements(row, 0, &leaf)?;
    for argument in 1..row.len() {
        let at = usize::try_from(row.int(argument))
            .ok()
            .and_then(|at| at.checked_sub(1));
        let Some(at) = at.filter(|at| *at < list.len()) else {
            return Ok(Value::Null);
        };
        match list.swap_remove(at) {
            Value::List(inner) => list = inner,
            value => return Ok(value),
        }
    }
    Ok(Value::Null)
}

fn sliced(given: &[FieldRef]) -> Result<FieldRef> {
    let (leaf, dimensions) = leaf(&given[0]);
    Ok(Arc::new(Field::new("", list_of(leaf, dimensions), true)))
}

fn slice(list: Vec<Value>, row: &Row<'_>, argument: usize) -> Vec<Value> {
    if argument >= row.len() {
        return list;
    }
    let from = usize::try_from(row.int(argument).max(1) - 1).unwrap_or(usize::MAX);
    let to = usize::try_from(row.int(argument + 1)).unwrap_or(0);
    let part = list
        .into_iter()
        .take(to)
        .skip(from)
        .map(|value| match value {
            Value::List(inner) => Value::List(slice(inner, row, argument + 2)),
            value => value,
        });
    part.filter(|value| !matches!(value, Value::List(inner) if inner.is_empty()))
        .collect()
}
