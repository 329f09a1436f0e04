//! `pg_marked(value, 'T')`: names the type T in the field of a value that already has this type.
//!
//! A field names its type if Arrow has no such type (`casts/target.rs`). DataFusion's CASE,
//! coalesce, unnest, `array_agg`, array literals and scalar subqueries produce fields without
//! metadata, so this function is put around them.
//! Upstream: delete this once DataFusion keeps metadata in `Expr::to_field` and physical
//! expressions.

use std::sync::{Arc, LazyLock};

use datafusion::arrow::array::{Array, ArrayRef, AsArray, ListArray, new_empty_array};
use datafusion::arrow::buffer::OffsetBuffer;
use datafusion::arrow::datatypes::{DataType, Field, FieldRef};
use datafusion::common::internal_err;
use datafusion::error::Result;
use datafusion::logical_expr::{
    Cast, ColumnarValue, Expr, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl,
    Signature, Volatility, lit,
};
use datafusion::scalar::ScalarValue;

use crate::casts::{PG_TYPE, Target};

/// The function's name, which the dialect uses.
pub(crate) const MARKED: &str = "pg_marked";

static UDF: LazyLock<Arc<ScalarUDF>> = LazyLock::new(|| Arc::new(udf()));

pub(super) fn udf() -> ScalarUDF {
    ScalarUDF::new_from_impl(Marked {
        signature: Signature::any(2, Volatility::Immutable),
    })
}

/// The type that a field must name because Arrow lacks it and text does not serve instead.
pub(crate) fn mark_of(field: &Field) -> Option<Target> {
    if let DataType::List(element) = field.data_type() {
        return Some(match mark_of(element)? {
            array @ Target::Array(_) => array,
            element => Target::Array(Box::new(element)),
        });
    }
    let target = field.metadata().get(PG_TYPE)?.parse().ok()?;
    let is_marked = matches!(
        target,
        Target::Json | Target::Jsonb | Target::JsonPath | Target::Uuid | Target::Bpchar(_)
    );
    is_marked.then_some(target)
}

/// Marks `expr` with the type that a field names.
pub(crate) fn marked_like(expr: Expr, field: &Field) -> Expr {
    match mark_of(field) {
        Some(target) => UDF.call(vec![expr, lit(target.to_string())]),
        None => expr,
    }
}

/// Whether the elements of an array have a type that Arrow lacks.
pub(crate) fn is_marked_array(field: &Field) -> bool {
    matches!(field.data_type(), DataType::List(_)) && mark_of(field).is_some()
}

/// An array without the name of its elements' type, for where DataFusion holds single values: an
/// array of this type is the same after it. Other values stay.
pub(crate) fn unmarked(value: Expr, field: &Field) -> Expr {
    match is_marked_array(field) {
        true => Expr::Cast(Cast::new(Box::new(value), plain(field.data_type()))),
        false => value,
    }
}

/// The type of an array whose elements name no type.
pub(crate) fn plain(held: &DataType) -> DataType {
    match held {
        DataType::List(element) => DataType::new_list(plain(element.data_type()), true),
        other => other.clone(),
    }
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Marked {
    signature: Signature,
}

fn with_mark(field: &Field, target: &Target) -> Field {
    match (field.data_type(), target) {
        (DataType::List(inner), Target::Array(element)) => {
            let inner = match inner.data_type() {
                DataType::List(_) => with_mark(inner, target),
                _ => with_mark(inner, element),
            };
            Field::new(field.name(), DataType::List(Arc::new(inner)), true)
        }
        (held, target) => target.field(field.name(), held.clone(), field.is_nullable()),
    }
}

/// The same values with another list type.
fn retyped(array: &ArrayRef, to: &DataType) -> Result<ArrayRef> {
    let (DataType::List(_), DataType::List(element)) = (array.data_type(), to) else {
        return Ok(Arc::clone(array));
    };
    let list = array.as_list::<i32>();
    Ok(Arc::new(ListArray::try_new(
        Arc::clone(element),
        list.offsets().clone(),
        retyped(list.values(), element.data_type())?,
        list.nulls().cloned(),
    )?))
}

/// The first value of an array.
///
/// (`ScalarValue::try_from_array` gives the elements of a list a field without metadata.)
pub(crate) fn first_value(array: &ArrayRef) -> Result<ScalarValue> {
    match array.data_type() {
        DataType::List(_) if !array.is_empty() => {
            let first = array.slice(0, 1).as_list::<i32>().clone();
            Ok(ScalarValue::List(Arc::new(first)))
        }
        _ => ScalarValue::try_from_array(array, 0),
    }
}

/// A value of exactly this type that is not NULL: zero, an empty text, an empty array.
///
/// (`ScalarValue::new_default` gives the elements of a list a field without metadata. Arrow would
/// not select between such a list and one of the type.)
///
/// # Errors
/// There is no such value, or DataFusion's is of another type.
pub(crate) fn some_value(held: &DataType) -> Result<ScalarValue> {
    let value = match held {
        DataType::List(element) => {
            let (element, values) = (Arc::clone(element), new_empty_array(element.data_type()));
            let one = OffsetBuffer::new_zeroed(1);
            ScalarValue::List(Arc::new(ListArray::try_new(element, one, values, None)?))
        }
        held => ScalarValue::new_default(held)?,
    };
    match value.data_type() == *held {
        true => Ok(value),
        false => internal_err!("a value of type {} instead of {held}", value.data_type()),
    }
}

impl ScalarUDFImpl for Marked {
    fn name(&self) -> &'static str {
        MARKED
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        internal_err!("{MARKED} needs its arguments' fields")
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs) -> Result<FieldRef> {
        let target = args.scalar_arguments.get(1).copied().flatten();
        let target = target.and_then(|target| target.try_as_str().flatten()?.parse().ok());
        let (Some(target), Some(field)) = (target, args.arg_fields.first()) else {
            return internal_err!("{MARKED} takes a value and a type");
        };
        Ok(Arc::new(with_mark(field, &target).with_name(MARKED)))
    }

    fn invoke_with_args(&self, mut args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let held = args.return_field.data_type();
        Ok(match args.args.swap_remove(0) {
            ColumnarValue::Array(array) => ColumnarValue::Array(retyped(&array, held)?),
            ColumnarValue::Scalar(value) if matches!(held, DataType::List(_)) => {
                let array = retyped(&value.to_array()?, held)?;
                ColumnarValue::Scalar(first_value(&array)?)
            }
            scalar @ ColumnarValue::Scalar(_) => scalar,
        })
    }
}
