//! `stored_as(x)`: casts a value to the Arrow type of the column that stores it.
//!
//! Some types of files hold fewer values than PostgreSQL's: timestamps in milliseconds have no
//! microseconds and no infinity, and floats may have two bytes. Arrow's casts silently truncate
//! values.
//! S1: the column stores the value that was given, or the statement fails.

use datafusion::arrow::array::{Array, ArrayRef, AsArray};
use datafusion::arrow::compute::{CastOptions, cast, cast_with_options};
use datafusion::arrow::datatypes::{DataType, Float16Type};
use datafusion::error::Result;
use datafusion::logical_expr::{
    ColumnarValue, Expr, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};

use crate::PgError;

/// Casts the expression to the type of the column that stores it.
pub(crate) fn stored_as(expr: Expr, data_type: DataType) -> Expr {
    let signature = Signature::any(1, Volatility::Immutable);
    ScalarUDF::from(StoredAs {
        signature,
        data_type,
    })
    .call(vec![expr])
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct StoredAs {
    signature: Signature,
    data_type: DataType,
}

impl ScalarUDFImpl for StoredAs {
    fn name(&self) -> &'static str {
        "stored_as"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(self.data_type.clone())
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        Ok(match &args.args[0] {
            ColumnarValue::Array(array) => ColumnarValue::Array(exact(array, &self.data_type)?),
            ColumnarValue::Scalar(scalar) => {
                let array = exact(&scalar.to_array()?, &self.data_type)?;
                ColumnarValue::Scalar(datafusion::common::ScalarValue::try_from_array(&array, 0)?)
            }
        })
    }
}

fn exact(values: &ArrayRef, to: &DataType) -> Result<ArrayRef> {
    let strict = CastOptions {
        safe: false,
        ..CastOptions::default()
    };
    let stored = cast_with_options(values, to, &strict);
    if is_of_time(to) {
        let stored = stored.ok().filter(|stored| {
            let back = cast(stored, values.data_type());
            back.is_ok_and(|back| back.to_data() == values.to_data())
        });
        return stored.ok_or_else(|| {
            let message = format!("a value does not fit the column's type, {to}");
            PgError::new("22008", message).into()
        });
    }
    let stored = stored?;
    if let Some(halves) = stored.as_primitive_opt::<Float16Type>() {
        let given = cast(values, &DataType::Float64)?;
        let given = given.as_primitive::<datafusion::arrow::datatypes::Float64Type>();
        for (half, given) in halves.iter().zip(given).filter_map(|(a, b)| a.zip(b)) {
            if half.is_infinite() && given.is_finite() || half.to_f64() == 0.0 && given != 0.0 {
                let message = format!("\"{given}\" is out of range for the column's type, {to}");
                return Err(PgError::new("22003", message).into());
            }
        }
    }
    Ok(stored)
}

/// Whether values of this type, or their elements, are times or durations.
fn is_of_time(data_type: &DataType) -> bool {
    match data_type {
        DataType::Timestamp(..)
        | DataType::Time32(_)
        | DataType::Time64(_)
        | DataType::Duration(_) => true,
        DataType::List(of) | DataType::LargeList(of) | DataType::FixedSizeList(of, _) => {
            is_of_time(of.data_type())
        }
        _ => false,
    }
}
