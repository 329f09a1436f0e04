//! `single_row(value, rows)`: the value of a scalar subquery (`subqueries/evaluated/scalar.rs`). A
//! scalar subquery has one column, so value and row count may also be the fields of one struct.

use std::sync::{Arc, LazyLock};

use datafusion::arrow::array::{ArrayRef, AsArray};
use datafusion::arrow::datatypes::{DataType, Field, FieldRef, Int64Type};
use datafusion::error::{DataFusionError, Result};
use datafusion::logical_expr::{
    ColumnarValue, Expr, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature,
    Volatility,
};
use datafusion::scalar::ScalarValue;

use crate::PgError;

static SINGLE_ROW: LazyLock<Arc<ScalarUDF>> = LazyLock::new(|| Arc::new(udf()));

/// The value, or an error if the subquery has more than one row.
pub(crate) fn single_row(arguments: Vec<Expr>) -> Expr {
    SINGLE_ROW.call(arguments)
}

pub(super) fn udf() -> ScalarUDF {
    ScalarUDF::new_from_impl(SingleRow {
        signature: Signature::variadic_any(Volatility::Immutable),
    })
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct SingleRow {
    signature: Signature,
}

fn not_such() -> DataFusionError {
    DataFusionError::Plan("single_row takes a value and a number of rows".to_owned())
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
            [DataType::Struct(fields)] => match fields.iter().as_slice() {
                [value, rows] if *rows.data_type() == DataType::Int64 => {
                    Ok(value.data_type().clone())
                }
                _ => Err(not_such()),
            },
            _ => Err(not_such()),
        }
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs) -> Result<FieldRef> {
        let types: Vec<DataType> = args
            .arg_fields
            .iter()
            .map(|f| f.data_type().clone())
            .collect();
        let field = Field::new(self.name(), self.return_type(&types)?, true);
        let value = match types.as_slice() {
            [DataType::Struct(fields)] => fields.first(),
            _ => args.arg_fields.first(),
        };
        let metadata = value
            .map(|value| value.metadata().clone())
            .unwrap_or_default();
        Ok(Arc::new(field.with_metadata(metadata)))
    }

    fn invoke_with_args(&self, mut args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        if args.args.len() > 1 {
            check(&args.args[1])?;
            return Ok(args.args.swap_remove(0));
        }
        let parts = |both: &ArrayRef| -> Result<(ArrayRef, ArrayRef)> {
            let both = both.as_struct_opt().ok_or_else(not_such)?;
            Ok((Arc::clone(both.column(0)), Arc::clone(both.column(1))))
        };
        match &args.args[0] {
            ColumnarValue::Array(both) => {
                let (value, rows) = parts(both)?;
                check(&ColumnarValue::Array(rows))?;
                Ok(ColumnarValue::Array(value))
            }
            ColumnarValue::Scalar(both) => {
                let (value, rows) = parts(&both.to_array()?)?;
                check(&ColumnarValue::Array(rows))?;
                Ok(ColumnarValue::Scalar(ScalarValue::try_from_array(
                    &value, 0,
                )?))
            }
        }
    }
}

/// Fails if a row count is greater than one.
fn check(rows: &ColumnarValue) -> Result<()> {
    let many = match rows {
        ColumnarValue::Array(rows) => {
            let rows = rows.as_primitive_opt::<Int64Type>().ok_or_else(not_such)?;
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
    Ok(())
}
