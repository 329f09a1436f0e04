//! `pg_fail(code, message)`: PostgreSQL's error in place of an expression that cannot be planned.

use datafusion::arrow::datatypes::{DataType, FieldRef};
use datafusion::common::internal_err;
use datafusion::error::Result;
use datafusion::logical_expr::{
    ColumnarValue, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature,
    Volatility,
};

use crate::PgError;

pub(crate) const FAIL: &str = "pg_fail";

/// The SQLSTATEs with which the dialect refuses a statement.
const CODES: [&str; 10] = [
    "0A000", "2202H", "42601", "42704", "42804", "42809", "42883", "42P10", "42P18", "42P20",
];

pub(super) fn udf() -> ScalarUDF {
    ScalarUDF::new_from_impl(Fail {
        signature: Signature::any(2, Volatility::Immutable),
    })
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Fail {
    signature: Signature,
}

impl ScalarUDFImpl for Fail {
    fn name(&self) -> &str {
        FAIL
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        internal_err!("{FAIL} has no type")
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs) -> Result<FieldRef> {
        let text = |at: usize| {
            let value = args.scalar_arguments.get(at).copied().flatten()?;
            value.try_as_str().flatten().map(str::to_owned)
        };
        let (code, message) = (text(0).unwrap_or_default(), text(1).unwrap_or_default());
        let code = CODES.into_iter().find(|known| *known == code);
        Err(PgError::new(code.unwrap_or("0A000"), message).into())
    }

    fn invoke_with_args(&self, _: ScalarFunctionArgs) -> Result<ColumnarValue> {
        internal_err!("{FAIL} is never planned")
    }
}
