//! `fields_null(row, wanted)`: `row IS NULL` if `wanted` is true, `row IS NOT NULL` if it is
//! false.
//!
//! IS NULL holds for a row if all fields are NULL, and IS NOT NULL if none is. The dialect may
//! take another value for a row because of its name; such a value is tested itself.

use std::sync::Arc;

use datafusion::arrow::array::{Array, AsArray, BooleanArray};
use datafusion::arrow::compute::{and, is_not_null, is_null};
use datafusion::arrow::datatypes::DataType;
use datafusion::common::plan_err;
use datafusion::error::Result;
use datafusion::logical_expr::{
    ColumnarValue, Expr, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility, lit,
};
use datafusion::scalar::ScalarValue;

/// The function's name, which the dialect uses.
pub(crate) const FIELDS_NULL: &str = "fields_null";

/// `row IS NULL`, or `row IS NOT NULL`.
pub(crate) fn fields_null(row: Expr, wanted: bool) -> Expr {
    udf().call(vec![row, lit(wanted)])
}

pub(super) fn udf() -> ScalarUDF {
    ScalarUDF::new_from_impl(FieldsNull {
        signature: Signature::any(2, Volatility::Immutable),
    })
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct FieldsNull {
    signature: Signature,
}

impl ScalarUDFImpl for FieldsNull {
    fn name(&self) -> &'static str {
        FIELDS_NULL
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(DataType::Boolean)
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let [
            value,
            ColumnarValue::Scalar(ScalarValue::Boolean(Some(wanted))),
        ] = args.args.as_slice()
        else {
            return plan_err!("{FIELDS_NULL} takes a row and a constant");
        };
        let test = if *wanted { is_null } else { is_not_null };
        let array = value.to_array(args.number_rows)?;
        let found = match array.as_struct_opt() {
            Some(rows) => {
                let mut all = BooleanArray::from(vec![true; rows.len()]);
                for field in rows.flatten().1 {
                    all = and(&all, &test(&field)?)?;
                }
                all
            }
            None => test(&array)?,
        };
        Ok(ColumnarValue::Array(Arc::new(found)))
    }
}
