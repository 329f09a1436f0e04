//! From a batch of a chunk's columns to rows of the scan.
//!
//! A pipeline is made once per file and set of conjuncts still to be evaluated. Conjuncts run in the query's order, each
//! over the columns it names only; those columns are asked for when their conjunct's turn comes, so a chunk in which no row
//! passes the first conjunct never decodes the others' columns nor the projection's. What passed is filtered once, at the
//! end, unless a conjunct can fail on rows that an earlier one excludes (a division, a cast): then it sees only the rows
//! that are left, as in a row filter of the Parquet reader.
//! Not here: where the columns come from (`stream.rs`, `smooth/`), which conjuncts are left (`prune.rs`).
//! I1: a row leaves the pipeline iff every conjunct is true for it; order is kept.

use std::ops::Range;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, BooleanArray, RecordBatch, RecordBatchOptions};
use arrow::compute::{FilterBuilder, FilterPredicate, and, prep_null_mask_filter};
use arrow::datatypes::{Field, Schema, SchemaRef};
use coscan_storage::pool::ColumnRequest;
use datafusion::common::cast::as_boolean_array;
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::error::Result;
use datafusion::logical_expr::Operator;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::{
    BinaryExpr, Column, InListExpr, IsNotNullExpr, IsNullExpr, Literal, NotExpr,
};
use datafusion::physical_expr::utils::{collect_columns, reassign_expr_columns};
use datafusion::physical_plan::metrics::Time;
use futures::future::BoxFuture;

use super::file_plan::FilePlan;

/// What is done with each batch of a chunk.
pub(crate) struct Pipeline {
    /// The conjuncts to evaluate, in order.
    pub(crate) steps: Vec<Step>,
    /// The output expressions.
    pub(crate) output: Step,
    /// The columns of all of them, each once; none if the chunk's number of rows says it all.
    pub(crate) columns: Vec<ColumnRequest>,
}

/// Expressions and the columns they are over.
pub(crate) struct Step {
    exprs: Vec<Arc<dyn PhysicalExpr>>,
    /// Positions in [`Pipeline::columns`], in the order of `schema`.
    pub(crate) columns: Vec<usize>,
    schema: SchemaRef,
    /// Cannot fail, and costs about what filtering a column does: may be evaluated for rows that are already excluded.
    harmless: bool,
}

/// Which rows of a batch are left.
pub(crate) enum Selection {
    All,
    None,
    Some(BooleanArray),
}

/// Where the columns of a batch come from.
pub(crate) trait Columns: Send + Sync {
    /// The arrays of these columns, all of them with all rows of the batch.
    fn fetch(&self, requests: Vec<ColumnRequest>) -> BoxFuture<'_, Result<Vec<ArrayRef>>>;

    /// The same with these rows of the batch only; `None` where that is no cheaper, because others want all of them.
    fn fetch_rows(
        &self,
        _requests: Vec<ColumnRequest>,
        _wanted: Vec<Range<usize>>,
    ) -> Option<BoxFuture<'_, Result<Vec<ArrayRef>>>> {
        None
    }
}

/// Rows are picked out by the decoder if at most one in so many is wanted: skipping a few costs more than decoding them.
const PICKED_ONE_IN: usize = 16;

impl Pipeline {
    /// The rows of a batch that are selected and that every conjunct is true for, projected to `schema`, and which they are.
    /// Columns are fetched when their step comes, and only while rows are left. `computing` times what is done with them.
    ///
    /// # Errors
    /// What fetching says and what an expression fails with.
    pub(crate) async fn rows(
        &self,
        source: &dyn Columns,
        rows: usize,
        mut selection: Selection,
        schema: &SchemaRef,
        computing: &Time,
    ) -> Result<(RecordBatch, Selection)> {
        let mut columns = vec![None; self.columns.len()];
        for step in &self.steps {
            if matches!(selection, Selection::None) {
                break;
            }
            let arrays = self.fetch(&mut columns, source, step).await?;
            let _timer = computing.timer();
            selection = step.narrow(arrays, rows, selection)?;
        }
        if matches!(selection, Selection::None) {
            return Ok((RecordBatch::new_empty(Arc::clone(schema)), selection));
        }
        if let Selection::Some(mask) = &selection
            && let Some(picked) = self.pick(&columns, source, mask)
        {
            let (arrays, count) = (picked.await?, mask.true_count());
            let _timer = computing.timer();
            let batch = self
                .output
                .project(arrays, count, &Selection::All, schema)?;
            return Ok((batch, selection));
        }
        let arrays = self.fetch(&mut columns, source, &self.output).await?;
        let _timer = computing.timer();
        let batch = self.output.project(arrays, rows, &selection, schema)?;
        Ok((batch, selection))
    }

    /// The output's columns, selected rows only, if few are and the source can pick them; those that an earlier step had are filtered.
    fn pick<'a>(
        &self,
        columns: &[Option<ArrayRef>],
        source: &'a dyn Columns,
        mask: &BooleanArray,
    ) -> Option<BoxFuture<'a, Result<Vec<ArrayRef>>>> {
        if mask.true_count() * PICKED_ONE_IN > mask.len() {
            return None;
        }
        let output = &self.output.columns;
        let missing = output.iter().filter(|column| columns[**column].is_none());
        let requests: Vec<ColumnRequest> = missing.map(|c| self.columns[*c].clone()).collect();
        if requests.is_empty() {
            return None;
        }
        let ranges = mask.values().set_slices().map(|(start, end)| start..end);
        let picking = source.fetch_rows(requests, ranges.collect())?;
        let known: Vec<Option<ArrayRef>> = output.iter().map(|c| columns[*c].clone()).collect();
        let filter = filter_of(mask);
        Some(Box::pin(async move {
            let mut picked = picking.await?.into_iter();
            let mut arrays = Vec::with_capacity(known.len());
            for column in known {
                match column {
                    Some(column) => arrays.push(filter.filter(&column)?),
                    None => arrays.extend(picked.next()),
                }
            }
            Ok(arrays)
        }))
    }

    /// A step's columns; those that an earlier step had are not asked for again.
    async fn fetch(
        &self,
        columns: &mut [Option<ArrayRef>],
        source: &dyn Columns,
        step: &Step,
    ) -> Result<Vec<ArrayRef>> {
        let missing: Vec<usize> = step
            .columns
            .iter()
            .copied()
            .filter(|column| columns[*column].is_none())
            .collect();
        if !missing.is_empty() {
            let requests = missing
                .iter()
                .map(|column| self.columns[*column].clone())
                .collect();
            let arrays = source.fetch(requests).await?;
            for (column, array) in missing.into_iter().zip(arrays) {
                columns[column] = Some(array);
            }
        }
        Ok(step
            .columns
            .iter()
            .filter_map(|column| columns[*column].clone())
            .collect())
    }

    /// The pipeline for chunks of a file in which the conjuncts in the set `residual` must be evaluated.
    ///
    /// # Errors
    /// If an expression names a column that the file's schema does not have: a bug.
    pub(crate) fn new(plan: &FilePlan, residual: u64) -> Result<Self> {
        let mut columns = ColumnList {
            plan,
            requests: Vec::new(),
            fields: Vec::new(),
        };
        let mut steps = Vec::new();
        for (position, conjunct) in plan.conjuncts.iter().enumerate() {
            if residual >> position & 1 == 1 {
                steps.push(columns.step(std::slice::from_ref(&conjunct.expr))?);
            }
        }
        let output = columns.step(&plan.projection)?;
        Ok(Self {
            steps,
            output,
            columns: columns.requests,
        })
    }
}

/// The columns asked for so far.
struct ColumnList<'a> {
    plan: &'a FilePlan,
    requests: Vec<ColumnRequest>,
    /// Positions of `requests` in the file's schema.
    fields: Vec<usize>,
}

impl ColumnList<'_> {
    fn step(&mut self, exprs: &[Arc<dyn PhysicalExpr>]) -> Result<Step> {
        let mut used: Vec<usize> = exprs
            .iter()
            .flat_map(collect_columns)
            .map(|column| column.index())
            .collect();
        used.sort_unstable();
        used.dedup();
        let fields: Vec<Arc<Field>> = used
            .iter()
            .map(|index| Arc::clone(&self.plan.schema.fields()[*index]))
            .collect();
        let columns = used.into_iter().map(|index| self.position(index)).collect();
        let schema = Arc::new(Schema::new(fields));
        let harmless = exprs.iter().all(harmless);
        let exprs = exprs
            .iter()
            .map(|expr| reassign_expr_columns(Arc::clone(expr), &schema))
            .collect::<Result<_>>()?;
        Ok(Step {
            exprs,
            columns,
            schema,
            harmless,
        })
    }

    fn position(&mut self, field: usize) -> usize {
        if let Some(position) = self.fields.iter().position(|f| *f == field) {
            return position;
        }
        let arrow = Arc::clone(&self.plan.schema.fields()[field]);
        self.fields.push(field);
        self.requests.push(ColumnRequest {
            name: arrow.name().clone(),
            field: arrow,
        });
        self.requests.len() - 1
    }
}

impl Step {
    /// Narrows `selection` by this step's one conjunct. `columns` are this step's columns for all `rows` rows.
    ///
    /// # Errors
    /// What the expression fails with.
    pub(crate) fn narrow(
        &self,
        columns: Vec<ArrayRef>,
        rows: usize,
        selection: Selection,
    ) -> Result<Selection> {
        let mask = match selection {
            Selection::None => return Ok(Selection::None),
            Selection::All => self.mask(columns, rows)?,
            Selection::Some(before) if self.harmless => and(&before, &self.mask(columns, rows)?)?,
            Selection::Some(before) => {
                let filter = filter_of(&before);
                let left = filter.count();
                let columns = columns
                    .iter()
                    .map(|c| filter.filter(c))
                    .collect::<Result<Vec<_>, _>>()?;
                scatter(&before, &self.mask(columns, left)?)
            }
        };
        Ok(match mask.true_count() {
            0 => Selection::None,
            all if all == rows => Selection::All,
            _ => Selection::Some(mask),
        })
    }

    /// The expressions' values for the selected rows, as a batch of `schema`. `columns` are this step's columns for all rows.
    ///
    /// # Errors
    /// What an expression fails with.
    pub(crate) fn project(
        &self,
        columns: Vec<ArrayRef>,
        rows: usize,
        selection: &Selection,
        schema: &SchemaRef,
    ) -> Result<RecordBatch> {
        let (columns, rows) = match selection {
            Selection::All => (columns, rows),
            Selection::None => return Ok(RecordBatch::new_empty(Arc::clone(schema))),
            Selection::Some(mask) => {
                let filter = filter_of(mask);
                let columns = columns
                    .iter()
                    .map(|c| filter.filter(c))
                    .collect::<Result<_, _>>()?;
                (columns, filter.count())
            }
        };
        let input = batch(&self.schema, columns, rows)?;
        let values = self
            .exprs
            .iter()
            .map(|expr| expr.evaluate(&input)?.into_array(rows))
            .collect::<Result<Vec<_>>>()?;
        batch(schema, values, rows)
    }

    /// The one conjunct's value for each row, NULL as false.
    fn mask(&self, columns: Vec<ArrayRef>, rows: usize) -> Result<BooleanArray> {
        let input = batch(&self.schema, columns, rows)?;
        let mut mask: Option<BooleanArray> = None;
        for expr in &self.exprs {
            let values = expr.evaluate(&input)?.into_array(rows)?;
            let values = as_boolean_array(&values)?;
            let values = match values.null_count() {
                0 => values.clone(),
                _ => prep_null_mask_filter(values),
            };
            mask = Some(match mask {
                None => values,
                Some(before) => and(&before, &values)?,
            });
        }
        Ok(mask.unwrap_or_else(|| BooleanArray::from(vec![true; rows])))
    }
}

fn batch(schema: &SchemaRef, columns: Vec<ArrayRef>, rows: usize) -> Result<RecordBatch> {
    let options = RecordBatchOptions::new().with_row_count(Some(rows));
    Ok(RecordBatch::try_new_with_options(
        Arc::clone(schema),
        columns,
        &options,
    )?)
}

/// A filter that is used for several columns.
fn filter_of(mask: &BooleanArray) -> FilterPredicate {
    FilterBuilder::new(mask).optimize().build()
}

/// The rows of `before` for which `after`, which has one value per selected row of `before`, is true.
fn scatter(before: &BooleanArray, after: &BooleanArray) -> BooleanArray {
    let mut rank = 0;
    before
        .values()
        .iter()
        .map(|selected| {
            let kept = selected && after.value(rank);
            rank += usize::from(selected);
            Some(kept)
        })
        .collect()
}

/// Comparisons and logic over columns and literals: cheap, and they fail for no row.
fn harmless(expr: &Arc<dyn PhysicalExpr>) -> bool {
    let mut harmless = true;
    let walked = expr.apply(|node| {
        harmless &= if let Some(binary) = node.downcast_ref::<BinaryExpr>() {
            matches!(
                binary.op(),
                Operator::Eq
                    | Operator::NotEq
                    | Operator::Lt
                    | Operator::LtEq
                    | Operator::Gt
                    | Operator::GtEq
                    | Operator::And
                    | Operator::Or
                    | Operator::IsDistinctFrom
                    | Operator::IsNotDistinctFrom
            )
        } else {
            node.is::<Column>()
                || node.is::<Literal>()
                || node.is::<InListExpr>()
                || node.is::<IsNullExpr>()
                || node.is::<IsNotNullExpr>()
                || node.is::<NotExpr>()
        };
        Ok(if harmless {
            TreeNodeRecursion::Continue
        } else {
            TreeNodeRecursion::Stop
        })
    });
    harmless && walked.is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scattering_undoes_filtering() {
        let before = BooleanArray::from(vec![true, false, true, true, false]);
        let after = BooleanArray::from(vec![false, true, true]);
        let expected = BooleanArray::from(vec![false, false, true, true, false]);
        assert_eq!(scatter(&before, &after), expected);
    }
}
