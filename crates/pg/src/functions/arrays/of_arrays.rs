//! `pg_of_arrays(array)`: an array of arrays, as `ARRAY[a, b]` builds it.
//!
//! PostgreSQL has one type for arrays of any number of dimensions: the elements of an array of
//! arrays have the same dimensions, and NULL is an array without elements (`ExecEvalArrayExpr` in
//! `execExprInterp.c`). DataFusion has lists of lists of any lengths.
//!
//! Not here: arrays of arrays that `array_agg` collects.

use std::sync::{Arc, LazyLock};

use datafusion::arrow::datatypes::{Field, FieldRef};
use datafusion::error::Result;
use datafusion::functions_nested::make_array::make_array_udf;
use datafusion::logical_expr::{Expr, ScalarUDF};

use super::elements::{dimensions, elements, leaf};
use super::shape::empty;
use crate::functions::first_value;
use crate::functions::scalar::Take::List;
use crate::functions::scalar::{Form, Function, Give, Row, Value};

/// See the file's header.
pub(crate) const OF_ARRAYS: &str = "pg_of_arrays";

static UDF: LazyLock<Arc<ScalarUDF>> = LazyLock::new(|| Arc::new(function().udf()));

pub(super) fn functions() -> Vec<Function> {
    vec![function()]
}

fn function() -> Function {
    let itself = Give::Of(|given| Ok(FieldRef::clone(&given[0])));
    Function::new(OF_ARRAYS, vec![Form::new(&[List], itself, checked)])
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
