//! An aggregate over a window that is computed in the window's order and in no other.
//!
//! To save a sort, DataFusion computes `f(x) OVER (ORDER BY a)` in the opposite order with the
//! opposite frame where its input has that order, as beside `OVER (ORDER BY a DESC)`. Then values
//! leave the frame instead of entering it: sums of floats lose digits, and arrays and objects have
//! their elements in the wrong order (DataFusion 55.2, `get_best_fitting_window`).
//! Delete this file once an aggregate can say so itself.

use std::sync::Arc;

use datafusion::arrow::datatypes::{DataType, FieldRef};
use datafusion::error::Result;
use datafusion::logical_expr::function::{AccumulatorArgs, StateFieldsArgs};
use datafusion::logical_expr::{
    Accumulator, AggregateUDF, AggregateUDFImpl, GroupsAccumulator, ReversedUDAF, Signature,
};
use datafusion::scalar::ScalarValue;

/// See the file's header.
#[derive(Debug, PartialEq, Eq, Hash)]
struct InOrder(Arc<AggregateUDF>);

/// The aggregate, computed in the window's order.
pub(crate) fn in_order(aggregate: &Arc<AggregateUDF>) -> Arc<AggregateUDF> {
    if aggregate.inner().is::<InOrder>() {
        return Arc::clone(aggregate);
    }
    Arc::new(AggregateUDF::new_from_impl(InOrder(Arc::clone(aggregate))))
}

impl AggregateUDFImpl for InOrder {
    fn name(&self) -> &str {
        self.0.name()
    }

    fn aliases(&self) -> &[String] {
        self.0.aliases()
    }

    fn signature(&self) -> &Signature {
        self.0.signature()
    }

    fn coerce_types(&self, given: &[DataType]) -> Result<Vec<DataType>> {
        self.0.coerce_types(given)
    }

    fn return_type(&self, given: &[DataType]) -> Result<DataType> {
        self.0.return_type(given)
    }

    fn return_field(&self, given: &[FieldRef]) -> Result<FieldRef> {
        self.0.return_field(given)
    }

    fn is_nullable(&self) -> bool {
        self.0.is_nullable()
    }

    fn accumulator(&self, args: AccumulatorArgs) -> Result<Box<dyn Accumulator>> {
        self.0.accumulator(args)
    }

    fn create_sliding_accumulator(&self, args: AccumulatorArgs) -> Result<Box<dyn Accumulator>> {
        self.0.create_sliding_accumulator(args)
    }

    fn state_fields(&self, args: StateFieldsArgs) -> Result<Vec<FieldRef>> {
        self.0.state_fields(args)
    }

    fn groups_accumulator_supported(&self, args: AccumulatorArgs) -> bool {
        self.0.groups_accumulator_supported(args)
    }

    fn create_groups_accumulator(
        &self,
        args: AccumulatorArgs,
    ) -> Result<Box<dyn GroupsAccumulator>> {
        self.0.create_groups_accumulator(args)
    }

    fn default_value(&self, held: &DataType) -> Result<ScalarValue> {
        self.0.default_value(held)
    }

    fn supports_null_handling_clause(&self) -> bool {
        self.0.supports_null_handling_clause()
    }

    fn reverse_expr(&self) -> ReversedUDAF {
        ReversedUDAF::NotSupported
    }
}
