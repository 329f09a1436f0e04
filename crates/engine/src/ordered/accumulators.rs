//! Which state has each group so far? DataFusion's accumulators hold it, for many groups at a
//! time.

use std::sync::Arc;

use arrow::array::{ArrayRef, RecordBatch};
use datafusion::common::cast::as_boolean_array;
use datafusion::error::Result;
use datafusion::logical_expr::{EmitTo, GroupsAccumulator};
use datafusion::physical_expr::GroupsAccumulatorAdapter;

use crate::fragment::PlannedAggregate;

/// One accumulator for each aggregate.
pub(super) struct Accumulators {
    planned: Arc<[PlannedAggregate]>,
    of: Vec<Box<dyn GroupsAccumulator>>,
    /// The number of state columns of each accumulator.
    widths: Vec<usize>,
}

impl Accumulators {
    /// Accumulators without rows.
    ///
    /// # Errors
    /// Those of an accumulator.
    pub(super) fn new(planned: &Arc<[PlannedAggregate]>) -> Result<Self> {
        let of = planned.iter().map(|planned| {
            let function = Arc::clone(&planned.function);
            if function.groups_accumulator_supported() {
                return function.create_groups_accumulator();
            }
            let make = move || function.create_accumulator();
            Ok(Box::new(GroupsAccumulatorAdapter::new(make)) as _)
        });
        let widths = planned
            .iter()
            .map(|planned| Ok(planned.function.state_fields()?.len()));
        Ok(Self {
            of: of.collect::<Result<_>>()?,
            widths: widths.collect::<Result<_>>()?,
            planned: Arc::clone(planned),
        })
    }

    /// Adds rows; `groups` is the group of each row, out of `total` groups.
    ///
    /// # Errors
    /// If an argument cannot be evaluated; those of an accumulator.
    pub(super) fn update(
        &mut self,
        rows: &RecordBatch,
        groups: &[usize],
        total: usize,
    ) -> Result<()> {
        for (planned, accumulator) in self.planned.iter().zip(&mut self.of) {
            let evaluated = |expr: &Arc<dyn datafusion::physical_expr::PhysicalExpr>| {
                expr.evaluate(rows)?.into_array(rows.num_rows())
            };
            let args = planned.args.iter().map(evaluated);
            let args: Vec<ArrayRef> = args.collect::<Result<_>>()?;
            let filter = planned.filter.as_ref().map(evaluated).transpose()?;
            let filter = filter.as_ref().map(|filter| as_boolean_array(filter));
            let filter = filter.transpose()?;
            accumulator.update_batch(&args, groups, filter, total)?;
        }
        Ok(())
    }

    /// Adds states, as [`Accumulators::states`] returns them.
    ///
    /// # Errors
    /// Those of an accumulator.
    pub(super) fn merge(
        &mut self,
        states: &[ArrayRef],
        groups: &[usize],
        total: usize,
    ) -> Result<()> {
        let mut rest = states;
        for (accumulator, width) in self.of.iter_mut().zip(&self.widths) {
            let (own, others) = rest.split_at(*width);
            accumulator.merge_batch(own, groups, total)?;
            rest = others;
        }
        Ok(())
    }

    /// Takes out the values of some groups.
    ///
    /// # Errors
    /// Those of an accumulator.
    pub(super) fn values(&mut self, of: EmitTo) -> Result<Vec<ArrayRef>> {
        self.of.iter_mut().map(|one| one.evaluate(of)).collect()
    }

    /// Takes out the states of some groups, for merging with other states of the same groups.
    ///
    /// # Errors
    /// Those of an accumulator.
    pub(super) fn states(&mut self, of: EmitTo) -> Result<Vec<ArrayRef>> {
        let mut states = Vec::new();
        for one in &mut self.of {
            states.extend(one.state(of)?);
        }
        Ok(states)
    }

    /// Bytes that the accumulators hold.
    pub(super) fn bytes(&self) -> usize {
        self.of.iter().map(|one| one.size()).sum()
    }
}
