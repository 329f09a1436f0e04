//! DataFusion's aggregates with one correction each: `bit_xor(DISTINCT x)` and `regr_count`.
//!
//! | function | DataFusion 55.2 | here |
//! |---|---|---|
//! | `bit_xor(DISTINCT x)` in groups | repeated values count repeatedly | each value counts once |
//! | `regr_count(y, x)` | unsigned, and DISTINCT is ignored | `bigint`; no DISTINCT |
//!
//! Delete this file once DataFusion's `bit_xor` does not use its group accumulator for DISTINCT,
//! and its counts are signed.

use std::sync::Arc;

use datafusion::arrow::array::ArrayRef;
use datafusion::arrow::datatypes::{DataType, FieldRef};
use datafusion::error::Result;
use datafusion::functions_aggregate::{bit_and_or_xor, regr};
use datafusion::logical_expr::function::{AccumulatorArgs, StateFieldsArgs};
use datafusion::logical_expr::{
    Accumulator, AggregateUDF, AggregateUDFImpl, GroupsAccumulator, ReversedUDAF, Signature,
};
use datafusion::scalar::ScalarValue;

use crate::error::PgError;

pub(in crate::numbers) fn functions() -> Vec<AggregateUDF> {
    let wrapped = |inner, signed| AggregateUDF::new_from_impl(Wrapped { inner, signed });
    vec![
        wrapped(bit_and_or_xor::bit_xor_udaf(), false),
        wrapped(regr::regr_count_udaf(), true),
    ]
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Wrapped {
    inner: Arc<AggregateUDF>,
    /// Whether the result becomes a `bigint`.
    signed: bool,
}

impl AggregateUDFImpl for Wrapped {
    fn name(&self) -> &str {
        self.inner.name()
    }

    fn signature(&self) -> &Signature {
        self.inner.signature()
    }

    fn coerce_types(&self, given: &[DataType]) -> Result<Vec<DataType>> {
        self.inner.coerce_types(given)
    }

    fn return_type(&self, given: &[DataType]) -> Result<DataType> {
        if self.signed {
            return Ok(DataType::Int64);
        }
        self.inner.return_type(given)
    }

    fn accumulator(&self, args: AccumulatorArgs) -> Result<Box<dyn Accumulator>> {
        if self.signed && args.is_distinct {
            let message = format!("{}(DISTINCT …) is not supported", self.name());
            return Err(PgError::unsupported(message).into());
        }
        let inner = self.inner.accumulator(args)?;
        if self.signed {
            return Ok(Box::new(Signed(inner)));
        }
        Ok(inner)
    }

    fn state_fields(&self, args: StateFieldsArgs) -> Result<Vec<FieldRef>> {
        self.inner.state_fields(args)
    }

    fn groups_accumulator_supported(&self, args: AccumulatorArgs) -> bool {
        !self.signed && !args.is_distinct && self.inner.groups_accumulator_supported(args)
    }

    fn create_groups_accumulator(
        &self,
        args: AccumulatorArgs,
    ) -> Result<Box<dyn GroupsAccumulator>> {
        self.inner.create_groups_accumulator(args)
    }

    fn default_value(&self, held: &DataType) -> Result<ScalarValue> {
        if self.signed {
            return Ok(ScalarValue::Int64(Some(0)));
        }
        ScalarValue::try_from(held)
    }

    fn reverse_expr(&self) -> ReversedUDAF {
        ReversedUDAF::Identical
    }
}

/// Casts an unsigned count to a signed one.
#[derive(Debug)]
struct Signed(Box<dyn Accumulator>);

impl Accumulator for Signed {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        self.0.update_batch(values)
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        self.0.evaluate()?.cast_to(&DataType::Int64)
    }

    fn size(&self) -> usize {
        self.0.size()
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        self.0.state()
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        self.0.merge_batch(states)
    }

    fn retract_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        self.0.retract_batch(values)
    }

    fn supports_retract_batch(&self) -> bool {
        self.0.supports_retract_batch()
    }
}
