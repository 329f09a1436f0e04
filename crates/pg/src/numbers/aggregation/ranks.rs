//! `row_number`, `rank`, `dense_rank` and `ntile` with PostgreSQL's signed integers.
//!
//! DataFusion's versions return unsigned integers, which PostgreSQL lacks: half of a rank would be
//! a numeric. Their results are cast. Delete this file once DataFusion's types are signed.

use std::ops::Range;
use std::sync::Arc;

use datafusion::arrow::array::ArrayRef;
use datafusion::arrow::compute::SortOptions;
use datafusion::arrow::datatypes::{DataType, Field, FieldRef};
use datafusion::error::Result;
use datafusion::execution::SessionStateBuilder;
use datafusion::logical_expr::function::{
    ExpressionArgs, PartitionEvaluatorArgs, WindowUDFFieldArgs,
};
use datafusion::logical_expr::window_state::WindowAggState;
use datafusion::logical_expr::{
    LimitEffect, PartitionEvaluator, ReversedUDWF, Signature, WindowUDF, WindowUDFImpl,
};
use datafusion::physical_plan::PhysicalExpr;
use datafusion::scalar::ScalarValue;

use crate::casts::arrow_cast;

/// The functions and their result types.
const SIGNED: [(&str, DataType); 4] = [
    ("row_number", DataType::Int64),
    ("rank", DataType::Int64),
    ("dense_rank", DataType::Int64),
    ("ntile", DataType::Int32),
];

/// Replaces DataFusion's versions.
pub(crate) fn install(builder: &mut SessionStateBuilder) {
    let functions = builder.window_functions().get_or_insert_default();
    for function in functions.iter_mut() {
        let signed = SIGNED.iter().find(|(name, _)| *name == function.name());
        if let Some((_, held)) = signed {
            *function = Arc::new(WindowUDF::new_from_impl(Signed {
                inner: Arc::clone(function),
                held: held.clone(),
            }));
        }
    }
}

/// A window function with a signed result.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Signed {
    inner: Arc<WindowUDF>,
    held: DataType,
}

impl WindowUDFImpl for Signed {
    fn name(&self) -> &str {
        self.inner.name()
    }

    fn aliases(&self) -> &[String] {
        self.inner.aliases()
    }

    fn signature(&self) -> &Signature {
        self.inner.signature()
    }

    fn expressions(&self, args: ExpressionArgs) -> Vec<Arc<dyn PhysicalExpr>> {
        self.inner.expressions(args)
    }

    fn partition_evaluator(
        &self,
        args: PartitionEvaluatorArgs,
    ) -> Result<Box<dyn PartitionEvaluator>> {
        let inner = self.inner.partition_evaluator_factory(args)?;
        let held = self.held.clone();
        Ok(Box::new(SignedEvaluator { inner, held }))
    }

    fn field(&self, args: WindowUDFFieldArgs) -> Result<FieldRef> {
        let field = self.inner.field(args)?;
        let signed = Field::clone(&field).with_data_type(self.held.clone());
        // Of NULL, `ntile` is NULL.
        let nullable = signed.is_nullable() || self.name() == "ntile";
        Ok(Arc::new(signed.with_nullable(nullable)))
    }

    fn sort_options(&self) -> Option<SortOptions> {
        self.inner.sort_options()
    }

    fn coerce_types(&self, given: &[DataType]) -> Result<Vec<DataType>> {
        self.inner.coerce_types(given)
    }

    fn reverse_expr(&self) -> ReversedUDWF {
        match self.inner.reverse_expr() {
            ReversedUDWF::Identical => ReversedUDWF::Identical,
            _ => ReversedUDWF::NotSupported,
        }
    }

    fn limit_effect(&self, args: &[Arc<dyn PhysicalExpr>]) -> LimitEffect {
        self.inner.inner().limit_effect(args)
    }
}

#[derive(Debug)]
struct SignedEvaluator {
    inner: Box<dyn PartitionEvaluator>,
    held: DataType,
}

impl PartitionEvaluator for SignedEvaluator {
    fn memoize(&mut self, state: &mut WindowAggState) -> Result<()> {
        self.inner.memoize(state)
    }

    fn get_range(&self, at: usize, rows: usize) -> Result<Range<usize>> {
        self.inner.get_range(at, rows)
    }

    fn is_causal(&self) -> bool {
        self.inner.is_causal()
    }

    fn evaluate_all(&mut self, values: &[ArrayRef], rows: usize) -> Result<ArrayRef> {
        arrow_cast(&self.inner.evaluate_all(values, rows)?, &self.held)
    }

    fn evaluate(&mut self, values: &[ArrayRef], range: &Range<usize>) -> Result<ScalarValue> {
        self.inner.evaluate(values, range)?.cast_to(&self.held)
    }

    fn evaluate_all_with_rank(&self, rows: usize, ranks: &[Range<usize>]) -> Result<ArrayRef> {
        arrow_cast(&self.inner.evaluate_all_with_rank(rows, ranks)?, &self.held)
    }

    fn supports_bounded_execution(&self) -> bool {
        self.inner.supports_bounded_execution()
    }

    fn uses_window_frame(&self) -> bool {
        self.inner.uses_window_frame()
    }

    fn include_rank(&self) -> bool {
        self.inner.include_rank()
    }
}
