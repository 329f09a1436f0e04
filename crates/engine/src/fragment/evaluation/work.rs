//! What does a fragment compute for one chunk, in terms of the chunk's file?
//!
//! A planned fragment refers to the output of its scan. A [`Work`] is the same fragment over one
//! file's columns, with the conjuncts that statistics did not prove for the chunk. It contains all
//! that a chunk job needs, and all that determines a chunk's state. Two works with equal
//! [`Work::key`]s leave equal states for a chunk.
//! Not here: which plans are fragments (`../recognise.rs`), evaluation (`program.rs`).
//! I9: a work exists only if every expression has a key (`expr_key.rs`).

use std::sync::Arc;

use arrow::datatypes::SchemaRef;
use coscan_storage::pool::ColumnRequest;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode, TreeNodeRecursion};
use datafusion::error::Result;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_expr::utils::collect_columns;
use datafusion::physical_plan::udaf::AggregateFunctionExpr;

use super::expr_key::{Key, KeyWriter};
use super::graph::FileColumns;
use super::merge::Merge;
use crate::read::FilePlan;

/// A fragment as planned, over the output of its scan.
#[derive(Debug)]
pub(crate) struct FragmentPlan {
    /// The expressions by which rows are grouped; empty for one group of all rows.
    pub(crate) group: Vec<Arc<dyn PhysicalExpr>>,
    /// The aggregates for each group.
    pub(crate) aggregates: Vec<PlannedAggregate>,
    /// Group columns, then the states of each aggregate: the schema of DataFusion's partial
    /// aggregate.
    pub(crate) schema: SchemaRef,
    /// The number of states that a batch may have.
    pub(crate) merge: Merge,
    /// The session's time zone and style of intervals, on which expressions may depend in addition
    /// to their inputs.
    pub(crate) shown: String,
}

/// An aggregate as planned.
#[derive(Clone, Debug)]
pub(crate) struct PlannedAggregate {
    pub(crate) function: Arc<AggregateFunctionExpr>,
    pub(crate) args: Vec<Arc<dyn PhysicalExpr>>,
    pub(crate) filter: Option<Arc<dyn PhysicalExpr>>,
}

/// What a fragment computes for a chunk of one file.
#[derive(Debug)]
pub(crate) struct Work {
    /// The file's columns.
    pub(crate) schema: SchemaRef,
    /// The file's columns, as they are decoded and kept.
    pub(crate) reads: Vec<ColumnRequest>,
    /// A row is counted if all of these are true for it.
    pub(crate) conjuncts: Vec<Arc<dyn PhysicalExpr>>,
    pub(crate) group: Vec<Arc<dyn PhysicalExpr>>,
    pub(crate) aggregates: Vec<Aggregate>,
    /// Every column that the work needs, for any purpose.
    pub(crate) columns: Vec<ColumnRequest>,
    /// The schema of the states.
    pub(crate) states: SchemaRef,
    /// Identifies the class: equal for works with the same grouping.
    pub(crate) class: Key,
    /// Identifies the predicate: equal for works that admit the same rows.
    pub(crate) predicate: Key,
    /// Identifies the state that a chunk leaves.
    pub(crate) key: Key,
}

impl Work {
    /// The file's columns.
    pub(crate) fn file(&self) -> FileColumns<'_> {
        FileColumns {
            schema: &self.schema,
            reads: &self.reads,
        }
    }
}

/// An aggregate over one file's columns.
#[derive(Clone, Debug)]
pub(crate) struct Aggregate {
    pub(crate) planned: PlannedAggregate,
    /// Equal for aggregates that compute the same for each group.
    pub(crate) key: Key,
}

impl FragmentPlan {
    /// The fragment's work on chunks of a file whose conjuncts at the positions in the set
    /// `residual` are not proved. `None` if an expression has no key.
    ///
    /// # Errors
    /// If an expression names a column that the scan does not return: a bug.
    pub(crate) fn work(&self, file: &FilePlan, residual: u64) -> Result<Option<Work>> {
        let over_file = |expr: &Arc<dyn PhysicalExpr>| inline(expr, &file.projection);
        let group = self.group.iter().map(over_file).collect::<Result<_>>()?;
        let conjuncts = file.conjuncts.iter().enumerate();
        let conjuncts: Vec<_> = conjuncts
            .filter(|(at, _)| residual >> at & 1 == 1)
            .map(|(_, conjunct)| Arc::clone(&conjunct.expr))
            .collect();
        let mut planned = Vec::with_capacity(self.aggregates.len());
        for aggregate in &self.aggregates {
            planned.push(PlannedAggregate {
                function: Arc::clone(&aggregate.function),
                args: aggregate
                    .args
                    .iter()
                    .map(over_file)
                    .collect::<Result<_>>()?,
                filter: aggregate.filter.as_ref().map(over_file).transpose()?,
            });
        }
        Ok(self.keyed(file, conjuncts, group, planned))
    }

    fn keyed(
        &self,
        file: &FilePlan,
        conjuncts: Vec<Arc<dyn PhysicalExpr>>,
        group: Vec<Arc<dyn PhysicalExpr>>,
        planned: Vec<PlannedAggregate>,
    ) -> Option<Work> {
        let schema = &file.schema;
        let mut class = KeyWriter::default();
        class.word(&self.shown);
        for expr in &group {
            class.expr(expr, schema)?;
        }
        let class = class.finish();
        let mut parts: Vec<Key> = Vec::with_capacity(conjuncts.len());
        for conjunct in &conjuncts {
            parts.push(KeyWriter::key_of(conjunct, schema)?);
        }
        let predicate = Key::of_set(parts);
        let mut aggregates = Vec::with_capacity(planned.len());
        for planned in planned {
            let mut key = KeyWriter::default();
            key.aggregate(
                &planned.function,
                &planned.args,
                planned.filter.as_ref(),
                schema,
            )?;
            aggregates.push(Aggregate {
                planned,
                key: key.finish(),
            });
        }
        let keys = [&class, &predicate];
        let key = Key::of_list(keys.into_iter().chain(aggregates.iter().map(|a| &a.key)));
        let reads = file.kept.clone();
        let columns = columns_of(&reads, &conjuncts, &group, &aggregates);
        Some(Work {
            schema: Arc::clone(schema),
            reads,
            conjuncts,
            group,
            aggregates,
            columns,
            states: Arc::clone(&self.schema),
            class,
            predicate,
            key,
        })
    }
}

/// `expr`, which is over the output of `projection`, rewritten over its input.
pub(crate) fn inline(
    expr: &Arc<dyn PhysicalExpr>,
    projection: &[Arc<dyn PhysicalExpr>],
) -> Result<Arc<dyn PhysicalExpr>> {
    let replaced = Arc::clone(expr).transform_down(|node| {
        let Some(column) = node.downcast_ref::<Column>() else {
            return Ok(Transformed::no(node));
        };
        let input = projection.get(column.index()).ok_or_else(|| {
            datafusion::common::internal_datafusion_err!("{column} is no column of the input")
        })?;
        Ok(Transformed::new(
            Arc::clone(input),
            true,
            TreeNodeRecursion::Jump,
        ))
    });
    replaced.data()
}

fn columns_of(
    reads: &[ColumnRequest],
    conjuncts: &[Arc<dyn PhysicalExpr>],
    group: &[Arc<dyn PhysicalExpr>],
    aggregates: &[Aggregate],
) -> Vec<ColumnRequest> {
    let planned = aggregates.iter().map(|aggregate| &aggregate.planned);
    let args = planned.flat_map(|planned| planned.args.iter().chain(&planned.filter));
    let exprs = conjuncts.iter().chain(group).chain(args);
    let mut used: Vec<usize> = exprs
        .flat_map(collect_columns)
        .map(|column| column.index())
        .collect();
    used.sort_unstable();
    used.dedup();
    let columns = used.into_iter().filter_map(|at| reads.get(at));
    columns.cloned().collect()
}
