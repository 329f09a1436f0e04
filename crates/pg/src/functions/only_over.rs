//! Functions that PostgreSQL has for windows only. DataFusion has aggregates of their names, which
//! the rules of this crate use; a statement that calls one without OVER is refused.

use datafusion::arrow::datatypes::DataType;
use datafusion::error::Result;
use datafusion::logical_expr::function::AccumulatorArgs;
use datafusion::logical_expr::{
    Accumulator, AggregateUDF, AggregateUDFImpl, Signature, Volatility,
};

use crate::error::PgError;

pub(super) fn functions() -> Vec<AggregateUDF> {
    ["first_value", "last_value", "nth_value"]
        .map(|name| {
            AggregateUDF::new_from_impl(OnlyOver {
                name,
                signature: Signature::variadic_any(Volatility::Immutable),
            })
        })
        .to_vec()
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct OnlyOver {
    name: &'static str,
    signature: Signature,
}

impl OnlyOver {
    fn refused(&self) -> PgError {
        let message = format!("window function {} requires an OVER clause", self.name);
        PgError::new("42809", message)
    }
}

impl AggregateUDFImpl for OnlyOver {
    fn name(&self) -> &str {
        self.name
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Err(self.refused().into())
    }

    fn accumulator(&self, _: AccumulatorArgs) -> Result<Box<dyn Accumulator>> {
        Err(self.refused().into())
    }
}
