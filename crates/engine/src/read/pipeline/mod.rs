//! How does a batch of a chunk's columns become rows of the scan?
//!
//! There is one pipeline per file plan and set of conjuncts that remain to be evaluated. Conjuncts
//! run in the query's order. Each is evaluated over the columns that it names, which are fetched
//! at its turn: a chunk in which no row passes the first conjunct decodes neither the other
//! conjuncts' columns nor the projection's. The columns are filtered to the selected rows once, at
//! the end, unless a conjunct can fail on rows that an earlier conjunct excludes (a division, a
//! cast): such a conjunct sees only the remaining rows, as in a row filter of the Parquet reader.
//! Columns arrive in the form in which they are kept (`compact.rs`), which may differ from batch
//! to batch. Comparisons use them as they are; for other expressions they are widened.
//! Not here: where the columns come from (`scan/partition/lease_batch.rs`, `probe/rows.rs`),
//! which conjuncts remain (`prune/`).
//! I1: a row leaves the pipeline iff every conjunct of the query is true for it; the order is
//! kept. Dynamic filters are only hints: the operators above that produced them check every row
//! again.

mod bits;
pub(crate) mod routed;

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use arrow::array::{Array, ArrayRef, BooleanArray, RecordBatch, RecordBatchOptions};
use arrow::buffer::BooleanBuffer;
use arrow::compute::{FilterBuilder, FilterPredicate, and, concat, prep_null_mask_filter};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use coscan_storage::pool::ColumnRequest;
use coscan_storage::without_pages;
use datafusion::common::cast::as_boolean_array;
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::error::Result;
use datafusion::logical_expr::Operator;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::{
    BinaryExpr, Column, DynamicFilterPhysicalExpr, InListExpr, IsNotNullExpr, IsNullExpr, Literal,
    NotExpr,
};
use datafusion::physical_expr::utils::{collect_columns, reassign_expr_columns};
use datafusion::physical_plan::metrics::Time;
use futures::future::BoxFuture;

use super::compact::{mask_by_value, widen};
use super::file_plan::FilePlan;
use super::integers::Comparison;
use crate::read::prune::is_float;
use bits::scatter;

/// The steps that turn each batch of a chunk into rows.
pub(crate) struct Pipeline {
    /// The conjuncts to evaluate, in order.
    pub(crate) steps: Vec<Step>,
    /// The output expressions.
    pub(crate) output: Step,
    /// The columns of all steps and the output, without repetition; none if the chunk's number of
    /// rows is enough.
    pub(crate) columns: Vec<ColumnRequest>,
}

/// Expressions, and the columns that they name.
pub(crate) struct Step {
    exprs: Vec<Arc<dyn PhysicalExpr>>,
    /// Positions in [`Pipeline::columns`], in the order of `schema`.
    pub(crate) columns: Vec<usize>,
    schema: SchemaRef,
    /// The conjunct as a comparison, if it can be evaluated in the width of the kept columns.
    comparison: Option<Comparison>,
    /// Whether the expressions cannot fail and cost about as much as filtering a column, so that
    /// they may be evaluated for rows that are already excluded.
    harmless: bool,
    /// Whether the output needs no column beyond those of this step and of earlier steps.
    saves_no_column: bool,
    /// How many rows passed a dynamic filter that is not `harmless`.
    looked_up: Passing,
}

/// How many rows a dynamic filter looked up, and how many of them passed.
#[derive(Default)]
struct Passing {
    rows: AtomicUsize,
    passed: AtomicUsize,
    /// Batches that came while look-ups did not pay: one in `SAMPLED_ONE_IN` is looked up
    /// nevertheless.
    skipped: AtomicUsize,
}

/// The number of rows after which look-ups are judged.
const JUDGED_AFTER: usize = 1 << 16;

/// While look-ups do not pay, one batch in this many is looked up nevertheless.
const SAMPLED_ONE_IN: usize = 32;

impl Passing {
    fn add(&self, rows: usize, passed: usize) {
        self.rows.fetch_add(rows, Ordering::Relaxed);
        self.passed.fetch_add(passed, Ordering::Relaxed);
    }

    /// Whether the next batch passes without look-ups: more than three of four rows pass, and the
    /// join looks the rows up itself.
    fn lets_through(&self) -> bool {
        let rows = self.rows.load(Ordering::Relaxed);
        let passed = self.passed.load(Ordering::Relaxed);
        rows >= JUDGED_AFTER
            && passed / 3 > rows / 4
            && !self
                .skipped
                .fetch_add(1, Ordering::Relaxed)
                .is_multiple_of(SAMPLED_ONE_IN)
    }
}

/// The rows of a batch that are selected.
#[derive(Clone)]
pub(crate) enum Selection {
    All,
    None,
    Some(BooleanArray),
}

/// For each step, whether its conjunct is left to the operator that produced it. This is decided
/// at the step's first turn, so that all batches examined with the same choices fetch the same
/// columns.
#[derive(Default)]
pub(crate) struct Choices(BTreeMap<usize, bool>);

/// A batch whose conjuncts have been evaluated.
pub(crate) struct Examined {
    /// The columns of [`Pipeline::columns`] that were fetched.
    columns: Vec<Option<ArrayRef>>,
    pub(crate) selection: Selection,
}

/// The selected rows of a batch, for which some output columns are still missing.
pub(crate) struct Found {
    mask: BooleanArray,
    /// Per column of the output: its values at the selected rows, if a conjunct fetched the
    /// column.
    known: Vec<Option<ArrayRef>>,
}

impl Selection {
    /// The number of selected rows in a batch.
    pub(crate) fn count(&self, rows: usize) -> usize {
        match self {
            Self::All => rows,
            Self::None => 0,
            Self::Some(mask) => mask.true_count(),
        }
    }
}

impl Found {
    /// Whether both know the same output columns.
    pub(crate) fn knows_as(&self, other: &Self) -> bool {
        let mut both = self.known.iter().zip(&other.known);
        both.all(|(one, other)| one.is_some() == other.is_some())
    }

    /// The selected rows as ranges of the batch, ascending and not touching.
    pub(crate) fn ranges(&self) -> impl Iterator<Item = Range<usize>> + '_ {
        let slices = self.mask.values().set_slices();
        slices.map(|(start, end)| start..end)
    }
}

/// The source of a batch's columns.
pub(crate) trait Columns: Send + Sync {
    /// The arrays of these columns, each with all rows of the batch.
    fn fetch(&self, requests: Vec<ColumnRequest>) -> BoxFuture<'_, Result<Vec<ArrayRef>>>;

    /// The arrays of these columns, with only the wanted rows; `None` if that is no cheaper,
    /// because other consumers want all rows.
    fn fetch_rows(
        &self,
        _requests: Vec<ColumnRequest>,
        _wanted: Vec<Range<usize>>,
    ) -> Option<BoxFuture<'_, Result<Vec<ArrayRef>>>> {
        None
    }
}

/// The decoder picks out the wanted rows if they are at most one in this many; otherwise skipping
/// rows costs more than decoding them.
const PICKED_ONE_IN: usize = 16;

impl Pipeline {
    /// The selected rows of a batch for which every conjunct is true, projected to `schema`, and
    /// the selection of these rows. A step's columns are fetched at its turn, and only while rows
    /// remain. `computing` times the work on the columns.
    ///
    /// # Errors
    /// Errors of `source` and of the expressions.
    pub(crate) async fn rows(
        &self,
        source: &dyn Columns,
        rows: usize,
        selection: Selection,
        schema: &SchemaRef,
        computing: &Time,
    ) -> Result<(RecordBatch, Selection)> {
        let mut choices = Choices::default();
        let examined = self
            .examine(source, rows, selection, &mut choices, computing)
            .await?;
        let few = examined.selection.count(rows) * PICKED_ONE_IN <= rows;
        if !few || !self.lacks_output(&examined) {
            let selection = examined.selection.clone();
            let batch = self
                .finish(source, examined, rows, schema, computing)
                .await?;
            return Ok((batch, selection));
        }
        let found = self.found(&examined, rows)?;
        let picked = source.fetch_rows(self.missing(&found), found.ranges().collect());
        let arrays = match picked {
            Some(picking) => picking.await?,
            None => self.fetch_found(source, &found).await?,
        };
        let _timer = computing.timer();
        Ok((self.gather(&[found], arrays, schema)?, examined.selection))
    }

    /// The selected rows of a batch for which every conjunct is true, and the columns that were
    /// fetched to find them.
    ///
    /// # Errors
    /// As [`Pipeline::rows`].
    pub(crate) async fn examine(
        &self,
        source: &dyn Columns,
        rows: usize,
        mut selection: Selection,
        choices: &mut Choices,
        computing: &Time,
    ) -> Result<Examined> {
        let mut columns = vec![None; self.columns.len()];
        for (at, step) in self.steps.iter().enumerate() {
            if matches!(selection, Selection::None) {
                break;
            }
            let left = step.is_left_to_its_operator(choices.0.get(&at).copied())?;
            choices.0.entry(at).or_insert(left);
            if left {
                continue;
            }
            let arrays = self.fetch(&mut columns, source, step).await?;
            let _timer = computing.timer();
            selection = step.narrow(&arrays, rows, selection)?;
        }
        Ok(Examined { columns, selection })
    }

    /// The rows of an examined batch, from whole columns.
    ///
    /// # Errors
    /// As [`Pipeline::rows`].
    pub(crate) async fn finish(
        &self,
        source: &dyn Columns,
        mut examined: Examined,
        rows: usize,
        schema: &SchemaRef,
        computing: &Time,
    ) -> Result<RecordBatch> {
        if matches!(examined.selection, Selection::None) {
            return Ok(RecordBatch::new_empty(Arc::clone(schema)));
        }
        let arrays = self
            .fetch(&mut examined.columns, source, &self.output)
            .await?;
        let _timer = computing.timer();
        self.output
            .project(arrays, rows, &examined.selection, schema)
    }

    /// Whether rows remain for which the output needs columns that no conjunct fetched.
    pub(crate) fn lacks_output(&self, examined: &Examined) -> bool {
        let mut output = self.output.columns.iter();
        !matches!(examined.selection, Selection::None)
            && output.any(|column| examined.columns[*column].is_none())
    }

    /// The part of a batch to keep until the output's other columns are fetched.
    ///
    /// # Errors
    /// If a column cannot be filtered.
    pub(crate) fn found(&self, examined: &Examined, rows: usize) -> Result<Found> {
        let mask = match &examined.selection {
            Selection::All => BooleanArray::from(BooleanBuffer::new_set(rows)),
            Selection::None => BooleanArray::from(BooleanBuffer::new_unset(rows)),
            Selection::Some(mask) => mask.clone(),
        };
        let filter = filter_of(&mask);
        let known = self.output.columns.iter().map(|column| {
            let known = examined.columns[*column].as_ref();
            let rows = known.map(|column| filter.filter(column)).transpose()?;
            Ok(rows.map(without_pages))
        });
        let known = known.collect::<Result<_>>()?;
        Ok(Found { mask, known })
    }

    /// The output's columns that are still missing.
    pub(crate) fn missing(&self, found: &Found) -> Vec<ColumnRequest> {
        let output = self.output.columns.iter().zip(&found.known);
        let missing = output.filter(|(_, known)| known.is_none());
        missing
            .map(|(column, _)| self.columns[*column].clone())
            .collect()
    }

    /// The missing columns at the selected rows, gathered from whole-column arrays.
    ///
    /// # Errors
    /// Errors of `source` and of filtering.
    pub(crate) async fn fetch_found(
        &self,
        source: &dyn Columns,
        found: &Found,
    ) -> Result<Vec<ArrayRef>> {
        let arrays = source.fetch(self.missing(found)).await?;
        let filter = filter_of(&found.mask);
        let arrays = arrays.iter().map(|array| filter.filter(array));
        Ok(arrays.collect::<Result<_, _>>()?)
    }

    /// The output for the selected rows of several batches. `missing` holds the columns that the
    /// batches lack, at all these rows.
    ///
    /// # Errors
    /// Those of an expression.
    pub(crate) fn gather(
        &self,
        found: &[Found],
        missing: Vec<ArrayRef>,
        schema: &SchemaRef,
    ) -> Result<RecordBatch> {
        let rows = found.iter().map(|found| found.mask.true_count()).sum();
        let mut missing = missing.into_iter();
        let mut arrays = Vec::with_capacity(self.output.columns.len());
        for column in 0..self.output.columns.len() {
            let known = found
                .iter()
                .filter_map(|found| found.known[column].as_ref());
            match known.collect::<Vec<_>>().as_slice() {
                [] => arrays.extend(missing.next()),
                known => {
                    let wanted = self.output.schema.field(column).data_type();
                    arrays.push(joined(known, wanted)?);
                }
            }
        }
        self.output.project(arrays, rows, &Selection::All, schema)
    }

    /// A step's columns; a column that an earlier step fetched is not fetched twice.
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

    /// The pipeline for chunks of a file in which the conjuncts in the set `residual` must be
    /// evaluated.
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
        let mut fetched = BTreeSet::new();
        for step in &mut steps {
            fetched.extend(step.columns.iter().copied());
            step.saves_no_column = output.columns.iter().all(|c| fetched.contains(c));
        }
        Ok(Self {
            steps,
            output,
            columns: columns.requests,
        })
    }
}

/// The columns that the steps so far need.
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
            .collect::<Result<Vec<_>>>()?;
        Ok(Step {
            comparison: comparison_of(&exprs, &schema),
            exprs,
            columns,
            schema,
            harmless,
            saves_no_column: false,
            looked_up: Passing::default(),
        })
    }

    fn position(&mut self, field: usize) -> usize {
        if let Some(position) = self.fields.iter().position(|f| *f == field) {
            return position;
        }
        self.fields.push(field);
        self.requests.push(self.plan.kept[field].clone());
        self.requests.len() - 1
    }
}

impl Step {
    /// Whether this step is a dynamic filter that is better left to its operator. A join's hash
    /// look-ups cost as much here as the join's own probe, so they are made only where they may
    /// save columns and rule out rows. A `harmless` filter is cheap and stays, except for lists of
    /// floating-point keys: a list compares bits, but the join that produced it treats -0 as 0.
    /// `decided` is the first answer for this step, which is kept except for such lists.
    ///
    /// # Errors
    /// If the filter's current expression does not fit the columns: a bug.
    fn is_left_to_its_operator(&self, decided: Option<bool>) -> Result<bool> {
        let [expr] = self.exprs.as_slice() else {
            return Ok(false);
        };
        match expr.downcast_ref::<DynamicFilterPhysicalExpr>() {
            Some(filter) => {
                let filter = filter.current()?;
                let left = decided.unwrap_or_else(|| {
                    let is_dear = !harmless(&filter);
                    let pays = !self.saves_no_column && !self.looked_up.lets_through();
                    is_dear && !pays
                });
                Ok(left || lists_floats(&filter, &self.schema))
            }
            None => Ok(false),
        }
    }

    /// Narrows `selection` by this step's one conjunct. `columns` are this step's columns for all
    /// `rows` rows.
    ///
    /// # Errors
    /// Those of the expression.
    pub(crate) fn narrow(
        &self,
        columns: &[ArrayRef],
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
                scatter(&before, &self.mask(&columns, left)?)
            }
        };
        Ok(match mask.true_count() {
            0 => Selection::None,
            all if all == rows => Selection::All,
            _ => Selection::Some(mask),
        })
    }

    /// The expressions' values for the selected rows, as a batch of `schema`. `columns` are this
    /// step's columns for all rows.
    ///
    /// # Errors
    /// Those of an expression.
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
        let input = self.input(&columns, rows)?;
        let values = self
            .exprs
            .iter()
            .map(|expr| expr.evaluate(&input)?.into_array(rows))
            .collect::<Result<Vec<_>>>()?;
        batch(schema, values, rows)
    }

    /// The one conjunct's value for each row; NULL counts as false.
    fn mask(&self, columns: &[ArrayRef], rows: usize) -> Result<BooleanArray> {
        let compared = self.comparison.as_ref();
        if let Some(mask) = compared.and_then(|comparison| comparison.mask(columns)) {
            return Ok(mask);
        }
        if let [column] = columns
            && self.harmless
        {
            let wanted = self.schema.field(0).data_type();
            let of_values = |values: ArrayRef| {
                let rows = values.len();
                self.mask_of(&batch(&self.schema, vec![values], rows)?)
            };
            if let Some(mask) = mask_by_value(column, wanted, of_values)? {
                return Ok(mask);
            }
        }
        self.mask_of(&self.input(columns, rows)?)
    }

    /// The batch for the expressions: the columns, widened to the plan's types.
    fn input(&self, columns: &[ArrayRef], rows: usize) -> Result<RecordBatch> {
        let wanted = self.schema.fields().iter();
        let columns = columns.iter().zip(wanted);
        let columns = columns.map(|(column, field)| widen(column, field.data_type()));
        batch(&self.schema, columns.collect::<Result<_>>()?, rows)
    }

    fn mask_of(&self, input: &RecordBatch) -> Result<BooleanArray> {
        let rows = input.num_rows();
        let mut mask: Option<BooleanArray> = None;
        for expr in &self.exprs {
            let values = match expr.downcast_ref::<DynamicFilterPhysicalExpr>() {
                Some(filter) => self.looked_up(&filter.current()?, input)?,
                None => value_of(expr, input)?,
            };
            mask = Some(match mask {
                None => values,
                Some(before) => and(&before, &values)?,
            });
        }
        Ok(mask.unwrap_or_else(|| BooleanArray::from(BooleanBuffer::new_set(rows))))
    }

    /// The mask of a dynamic filter's current expression.
    fn looked_up(
        &self,
        filter: &Arc<dyn PhysicalExpr>,
        input: &RecordBatch,
    ) -> Result<BooleanArray> {
        let mask = match routed::mask(filter.as_ref(), input)? {
            Some(mask) => mask,
            None => value_of(filter, input)?,
        };
        if !harmless(filter) {
            self.looked_up.add(input.num_rows(), mask.true_count());
        }
        Ok(mask)
    }
}

/// The comparison in a step, if its expressions are one comparison.
fn comparison_of(exprs: &[Arc<dyn PhysicalExpr>], schema: &Schema) -> Option<Comparison> {
    match exprs {
        [expr] => Comparison::of(expr.as_ref(), schema),
        _ => None,
    }
}

/// One array of a column from several, which may be kept in different forms. Several are widened
/// to the type that the plan expects; a single one stays as it is.
fn joined(arrays: &[&ArrayRef], wanted: &DataType) -> Result<ArrayRef> {
    if let [one] = arrays {
        return Ok(Arc::clone(one));
    }
    // The keys of one dictionary may be too short to number the values of two.
    let wide = arrays.iter().map(|array| widen(array, wanted));
    let wide = wide.collect::<Result<Vec<_>>>()?;
    let wide: Vec<&dyn Array> = wide.iter().map(AsRef::as_ref).collect();
    Ok(concat(&wide)?)
}

/// The expression's value for each row; NULL counts as false.
fn value_of(expr: &Arc<dyn PhysicalExpr>, input: &RecordBatch) -> Result<BooleanArray> {
    let values = expr.evaluate(input)?.into_array(input.num_rows())?;
    let values = as_boolean_array(&values)?;
    Ok(match values.null_count() {
        0 => values.clone(),
        _ => prep_null_mask_filter(values),
    })
}

fn batch(schema: &SchemaRef, columns: Vec<ArrayRef>, rows: usize) -> Result<RecordBatch> {
    let options = RecordBatchOptions::new().with_row_count(Some(rows));
    Ok(RecordBatch::try_new_with_options(
        Arc::clone(schema),
        columns,
        &options,
    )?)
}

/// A filter for use on several columns.
fn filter_of(mask: &BooleanArray) -> FilterPredicate {
    FilterBuilder::new(mask).optimize().build()
}

/// Whether the expression has only comparisons and logic over columns and literals. Such an
/// expression is cheap and cannot fail.
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

/// Whether the expression looks up floating-point values in a list.
fn lists_floats(expr: &Arc<dyn PhysicalExpr>, schema: &Schema) -> bool {
    let may_be_float = |column: &Column| {
        let field = schema.fields().get(column.index());
        field.is_none_or(|field| is_float(field.data_type()) || field.data_type().is_nested())
    };
    let lists = expr.exists(|node| {
        let list = node.downcast_ref::<InListExpr>();
        Ok(list.is_some_and(|list| collect_columns(list.expr()).iter().any(may_be_float)))
    });
    lists.unwrap_or(true)
}
