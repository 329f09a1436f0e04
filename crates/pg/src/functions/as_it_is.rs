//! `as_it_is(x)`: the value of `x`, opaque to the optimizer. `without_key(x)`: the value of a
//! column, which determines no others for the optimizer.

use std::sync::Arc;

use datafusion::arrow::datatypes::{DataType, Field, FieldRef};
use datafusion::common::internal_err;
use datafusion::common::tree_node::Transformed;
use datafusion::error::Result;
use datafusion::logical_expr::{
    ColumnarValue, Expr, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature,
    Volatility,
};

const WITHOUT_KEY: &str = "without_key";

/// Hides the expression from the optimizer.
pub(crate) fn as_it_is(expr: Expr) -> Expr {
    ScalarUDF::from(AsItIs::new("as_it_is")).call(vec![expr])
}

/// Hides that a column determines others. Conditions may be on the column itself ([`with_key`]).
pub(crate) fn without_key(column: Expr) -> Expr {
    ScalarUDF::from(AsItIs::new(WITHOUT_KEY)).call(vec![column])
}

/// The column in place of a call of [`without_key`].
pub(crate) fn with_key(expr: Expr) -> Transformed<Expr> {
    match expr {
        Expr::ScalarFunction(mut call) if call.name() == WITHOUT_KEY && call.args.len() == 1 => {
            Transformed::yes(call.args.swap_remove(0))
        }
        expr => Transformed::no(expr),
    }
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct AsItIs {
    name: &'static str,
    signature: Signature,
}

impl AsItIs {
    fn new(name: &'static str) -> Self {
        Self {
            name,
            signature: Signature::any(1, Volatility::Immutable),
        }
    }
}

impl ScalarUDFImpl for AsItIs {
    fn name(&self) -> &'static str {
        self.name
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        Ok(types.first().cloned().unwrap_or(DataType::Null))
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs) -> Result<FieldRef> {
        match args.arg_fields.first() {
            // The field may name a type that Arrow lacks.
            Some(field) => Ok(Arc::new(Field::clone(field).with_name(self.name()))),
            None => internal_err!("{} takes a value", self.name()),
        }
    }

    fn invoke_with_args(&self, mut args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        Ok(args.args.swap_remove(0))
    }
}
