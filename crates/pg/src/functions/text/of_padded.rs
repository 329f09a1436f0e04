//! `min` and `max` of `character(n)` with a result of that type.
//!
//! DataFusion's aggregates return a field without the type's name, so trailing blanks would count.

use std::sync::Arc;

use datafusion::arrow::datatypes::{DataType, FieldRef};
use datafusion::error::Result;
use datafusion::logical_expr::function::{AccumulatorArgs, StateFieldsArgs};
use datafusion::logical_expr::{Accumulator, AggregateUDF, AggregateUDFImpl, Signature};

/// See the file's header.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(crate) struct OfPadded {
    plain: Arc<AggregateUDF>,
}

impl OfPadded {
    pub(crate) fn of(plain: &Arc<AggregateUDF>) -> Arc<AggregateUDF> {
        let plain = Arc::clone(plain);
        Arc::new(AggregateUDF::new_from_impl(Self { plain }))
    }
}

impl AggregateUDFImpl for OfPadded {
    fn name(&self) -> &str {
        self.plain.name()
    }

    fn signature(&self) -> &Signature {
        self.plain.signature()
    }

    fn return_type(&self, given: &[DataType]) -> Result<DataType> {
        self.plain.return_type(given)
    }

    fn coerce_types(&self, given: &[DataType]) -> Result<Vec<DataType>> {
        self.plain.coerce_types(given)
    }

    fn return_field(&self, given: &[FieldRef]) -> Result<FieldRef> {
        let field = self.plain.return_field(given)?;
        let metadata = given.first().map(|given| given.metadata().clone());
        let field = field.as_ref().clone();
        Ok(Arc::new(field.with_metadata(metadata.unwrap_or_default())))
    }

    fn accumulator(&self, args: AccumulatorArgs) -> Result<Box<dyn Accumulator>> {
        self.plain.accumulator(args)
    }

    fn create_sliding_accumulator(&self, args: AccumulatorArgs) -> Result<Box<dyn Accumulator>> {
        self.plain.create_sliding_accumulator(args)
    }

    fn state_fields(&self, args: StateFieldsArgs) -> Result<Vec<FieldRef>> {
        self.plain.state_fields(args)
    }
}
