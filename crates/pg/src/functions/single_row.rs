//! `single_row(value, rows)`: the value of a scalar subquery (`subqueries/scalar.rs`).

use std::sync::{Arc, LazyLock};

use datafusion::arrow::array::AsArray;
use datafusion::arrow::datatypes::{DataType, FieldRef, Int64Type};
use datafusion::common::exec_err;
use datafusion::error::Result;
use datafusion::logical_expr::{
    ColumnarValue, Expr, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature,
    Volatility,
};
use datafusion::scalar::ScalarValue;

use crate::PgError;

static SINGLE_ROW: LazyLock<Arc<ScalarUDF>> = LazyLock::new(|| Arc::new(udf()));

/// The value, or an error if the subquery has more than one row.
pub(crate) fn single_row(value: Expr, rows: Expr) -> Expr {
    SINGLE_ROW.call(vec![value, rows])
}

pub(super) fn udf() -> ScalarUDF {
    ScalarUDF::new_from_impl(SingleRow {
        signature: Signature::any(2, Volatility::Immutable),
    })
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct SingleRow {
    signature: Signature,
}

impl ScalarUDFImpl for SingleRow {
    fn name(&self) -> &'static str {
        "single_row"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, given: &[DataType]) -> Result<DataType> {
        match given {
            [value, DataType::Int64] => Ok(value.clone()),
            _ => exec_err!("single_row takes a value and a number of rows"),
        }
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs) -> Result<FieldRef> {
        let types: Vec<DataType> = args
            .arg_fields
            .iter()
            .map(|f| f.data_type().clone())
            .collect();
        self.return_type(&types)?;
        let value = args.arg_fields[0].as_ref().clone();
        Ok(Arc::new(value.with_name(self.name()).with_nullable(true)))
    }

    fn invoke_with_args(&self, mut args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let many = match &args.args[1] {
            ColumnarValue::Array(rows) => {
                let rows = rows.as_primitive::<Int64Type>();
                rows.iter().flatten().any(|rows| rows > 1)
            }
            ColumnarValue::Scalar(rows) => {
                matches!(rows, ScalarValue::Int64(Some(rows)) if *rows > 1)
            }
        };
        if many {
            let message = "more than one row returned by a subquery used as an expression";
            return Err(PgError::new("21000", message).into());
        }
        Ok(args.args.swap_remove(0))
    }
}
