//! `gen_random_uuid()`: DataFusion's `uuid()`, with a field marked as uuid.

use datafusion::arrow::datatypes::{DataType, FieldRef};
use datafusion::error::Result;
use datafusion::functions::string::uuid;
use datafusion::logical_expr::{
    ColumnarValue, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature,
    Volatility,
};

use crate::functions::scalar::typed_field;

pub(in crate::functions) fn gen_random_uuid() -> ScalarUDF {
    ScalarUDF::new_from_impl(RandomUuid {
        signature: Signature::nullary(Volatility::Volatile),
    })
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct RandomUuid {
    signature: Signature,
}

impl ScalarUDFImpl for RandomUuid {
    fn name(&self) -> &'static str {
        "gen_random_uuid"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(DataType::Utf8)
    }

    fn return_field_from_args(&self, _: ReturnFieldArgs) -> Result<FieldRef> {
        Ok(typed_field(self.name(), DataType::Utf8, "uuid").into())
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        uuid().invoke_with_args(args)
    }
}
