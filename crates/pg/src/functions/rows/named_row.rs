//! Rows with field names: `named_row('a', 1, 'b', 'x')`, which the dialect uses for whole rows.
//!
//! DataFusion's `named_struct` drops the metadata that names a field's type (json, uuid).

use std::sync::{Arc, LazyLock};

use datafusion::arrow::array::StructArray;
use datafusion::arrow::datatypes::{DataType, Field, FieldRef, Fields};
use datafusion::common::internal_err;
use datafusion::error::Result;
use datafusion::logical_expr::{
    ColumnarValue, Expr, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature,
    Volatility,
};
use datafusion::scalar::ScalarValue;

/// The function's name; only rewriting uses it.
const NAMED_ROW: &str = "named_row";

static UDF: LazyLock<Arc<ScalarUDF>> = LazyLock::new(|| Arc::new(udf()));

/// A row from alternating names and values.
pub(crate) fn named_row(arguments: Vec<Expr>) -> Expr {
    UDF.call(arguments)
}

pub(super) fn udf() -> ScalarUDF {
    ScalarUDF::new_from_impl(NamedRow {
        signature: Signature::variadic_any(Volatility::Immutable),
    })
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct NamedRow {
    signature: Signature,
}

impl ScalarUDFImpl for NamedRow {
    fn name(&self) -> &'static str {
        NAMED_ROW
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        internal_err!("{NAMED_ROW} needs its arguments' fields")
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs) -> Result<FieldRef> {
        let pairs = args
            .scalar_arguments
            .chunks(2)
            .zip(args.arg_fields.chunks(2));
        let fields = pairs.map(|(values, fields)| match (values, fields) {
            ([Some(name), _], [_, field]) => {
                let name = name.try_as_str().flatten().unwrap_or_default();
                Ok(Field::clone(field).with_name(name).with_nullable(true))
            }
            _ => internal_err!("{NAMED_ROW} takes names and values"),
        });
        let fields: Fields = fields.collect::<Result<Vec<_>>>()?.into();
        Ok(Arc::new(Field::new(
            NAMED_ROW,
            DataType::Struct(fields),
            true,
        )))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let DataType::Struct(fields) = args.return_field.data_type() else {
            return internal_err!("{NAMED_ROW} returns rows");
        };
        let is_scalar = |arg: &ColumnarValue| matches!(arg, ColumnarValue::Scalar(_));
        let is_constant = args.args.iter().all(is_scalar);
        let arrays = ColumnarValue::values_to_arrays(&args.args)?;
        let rows = arrays.first().map_or(1, |array| array.len());
        let values = arrays.into_iter().skip(1).step_by(2).collect();
        let row = StructArray::try_new_with_length(fields.clone(), values, None, rows)?;
        Ok(if is_constant {
            ColumnarValue::Scalar(ScalarValue::Struct(Arc::new(row.slice(0, 1))))
        } else {
            ColumnarValue::Array(Arc::new(row))
        })
    }
}
