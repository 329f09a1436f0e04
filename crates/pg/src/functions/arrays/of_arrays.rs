//! Arrays of arrays: `pg_of_arrays(array)`, as `ARRAY[a, b]` builds it, `pg_collected(array)`, as
//! `array_agg(a)` does, and `pg_as_deep(array, like)`, an array beside one of more dimensions.
//!
//! PostgreSQL has one type for arrays of any number of dimensions: the elements of an array of
//! arrays have the same dimensions. NULL is an array without elements for `ARRAY[a, b]`
//! (`ExecEvalArrayExpr` in `execExprInterp.c`); `array_agg` refuses it (`accumArrayResultArr` in
//! `arrayfuncs.c`). DataFusion has lists of lists of any lengths.

use std::sync::{Arc, LazyLock};

use datafusion::arrow::datatypes::{Field, FieldRef};
use datafusion::error::Result;
use datafusion::functions_nested::make_array::make_array_udf;
use datafusion::logical_expr::{Expr, ScalarUDF};
use datafusion::scalar::ScalarValue;

use super::elements::{depth, dimensions, elements, leaf};
use super::shape::empty;
use crate::PgError;
use crate::dialect::{elements as texts_in, nested};
use crate::functions::first_value;
use crate::functions::scalar::Take::List;
use crate::functions::scalar::{Body, Form, Function, Give, Row, Value};

/// See the file's header.
pub(crate) const OF_ARRAYS: &str = "pg_of_arrays";
/// PostgreSQL's `MAXDIM`.
const DIMENSIONS_MAX: usize = 6;

static UDF: LazyLock<Arc<ScalarUDF>> =
    LazyLock::new(|| Arc::new(function(OF_ARRAYS, checked).udf()));
static COLLECTED: LazyLock<Arc<ScalarUDF>> =
    LazyLock::new(|| Arc::new(function("pg_collected", alike).udf()));
static AS_DEEP: LazyLock<Arc<ScalarUDF>> = LazyLock::new(|| Arc::new(deep().udf()));

pub(super) fn functions() -> Vec<Function> {
    vec![
        function(OF_ARRAYS, checked),
        function("pg_collected", alike),
        deep(),
    ]
}

fn function(name: &str, body: Body) -> Function {
    let itself = Give::Of(|given| Ok(FieldRef::clone(&given[0])));
    Function::new(name, vec![Form::new(&[List], itself, body)])
}

fn deep() -> Function {
    let like = Give::Of(|given| Ok(FieldRef::clone(&given[1])));
    Function::new(
        "pg_as_deep",
        vec![Form::new(&[List, List], like, as_deep_as).called()],
    )
}

/// An array in a column whose type has more dimensions: NULL or empty, because a column of lists
/// of lists holds no other. `None` if the type has as many.
pub(crate) fn as_deep(array: &Expr, held: &Field, like: &Field) -> Option<Expr> {
    if depth(held) == 0 || depth(held) >= depth(like) {
        return None;
    }
    let null = ScalarValue::try_from(like.data_type()).ok()?;
    Some(AS_DEEP.call(vec![array.clone(), Expr::Literal(null, None)]))
}

/// The arrays that `array_agg` collected, or PostgreSQL's error if they make no array.
pub(crate) fn collected(arrays: Expr) -> Expr {
    COLLECTED.call(vec![arrays])
}

/// `ARRAY[…]` with elements of this type.
pub(crate) fn make_array(elements: Vec<Expr>, element: &Field) -> Expr {
    let (_, dimensions) = leaf(element);
    let array = make_array_udf().call(elements);
    if dimensions == 0 || lengths(&array, dimensions + 1).is_some() {
        return array;
    }
    UDF.call(vec![array])
}

/// A text without a type that is written like an array of several dimensions, as an array of texts,
/// and the number of its dimensions. (A cast of the text itself makes an array of one dimension,
/// because PostgreSQL's types of arrays say no more.)
pub(crate) fn written_out(text: &Expr) -> Option<(Expr, usize)> {
    let Expr::Literal(value, _) = text else {
        return None;
    };
    let text = value.try_as_str().flatten()?;
    nested(text)?;
    let (array, lengths) = array_of_texts(text, DIMENSIONS_MAX)?;
    Some((array, lengths.len()))
}

/// The array that a text is written like, and the lengths of its dimensions; `None` if there are
/// more than `most`, or if inner arrays differ in length or have no elements.
fn array_of_texts(text: &str, most: usize) -> Option<(Expr, Vec<usize>)> {
    let deeper = most.checked_sub(1)?;
    let (elements, inner): (Vec<Expr>, Vec<usize>) = if let Some(parts) = nested(text) {
        let parts = parts.into_iter().map(|part| array_of_texts(part, deeper));
        let parts: Vec<(Expr, Vec<usize>)> = parts.collect::<Option<_>>()?;
        let (_, lengths) = parts.first()?.clone();
        if parts.iter().any(|(_, other)| *other != lengths) {
            return None;
        }
        (parts.into_iter().map(|(array, _)| array).collect(), lengths)
    } else {
        let texts = texts_in(text)?.into_iter();
        let texts = texts.map(|text| Expr::Literal(ScalarValue::Utf8(text), None));
        (texts.collect(), vec![])
    };
    let lengths = [vec![elements.len()], inner].concat();
    (!elements.is_empty()).then(|| (make_array_udf().call(elements), lengths))
}

/// The lengths of the dimensions of an array that is written out; `None` if they are not known
/// before the array is built, differ, or are 0.
fn lengths(array: &Expr, dimensions: usize) -> Option<Vec<usize>> {
    let Some(deeper) = dimensions.checked_sub(1) else {
        return Some(vec![]);
    };
    let elements = match array {
        Expr::Cast(cast) => return lengths(&cast.expr, dimensions),
        Expr::ScalarFunction(call) if call.name() == "make_array" => &call.args,
        _ => return None,
    };
    let mut inner = elements.iter().map(|element| lengths(element, deeper));
    let first = inner.next()??;
    let is_same = inner.all(|other| other.as_ref() == Some(&first));
    is_same.then(|| [vec![elements.len()], first].concat())
}

fn checked(row: &Row<'_>) -> Result<Value> {
    let (array, at) = row.array(0);
    let arrays = elements(row, 0, &leaf(row.field(0)).0)?;
    // One dimension: all elements are NULL or empty.
    if dimensions(&arrays)?.len() < 2 {
        return empty(array);
    }
    Ok(Value::Scalar(first_value(&array.slice(at, 1))?))
}

fn as_deep_as(row: &Row<'_>) -> Result<Value> {
    if row.is_null(0) {
        return Ok(Value::Null);
    }
    if elements(row, 0, &leaf(row.field(0)).0)?.is_empty() {
        return empty(row.array(1).0);
    }
    let message = "an array beside arrays of more dimensions is not supported";
    Err(PgError::unsupported(message).into())
}

/// The array itself, if its arrays have the same dimensions.
fn alike(row: &Row<'_>) -> Result<Value> {
    let mut first: Option<Vec<usize>> = None;
    for array in elements(row, 0, &leaf(row.field(0)).0)? {
        let Value::List(inner) = array else {
            return Err(PgError::new("22004", "cannot accumulate null arrays").into());
        };
        let found = dimensions(&inner)?;
        let refused = match &first {
            None if found.is_empty() => "cannot accumulate empty arrays",
            Some(first) if *first != found => {
                "cannot accumulate arrays of different dimensionality"
            }
            _ => {
                first = Some(found);
                continue;
            }
        };
        return Err(PgError::new("2202E", refused).into());
    }
    let (array, at) = row.array(0);
    Ok(Value::Scalar(first_value(&array.slice(at, 1))?))
}
