//! Which chunks hold no row of the result, and which conjuncts hold for all rows of a chunk?
//!
//! Statistics answer both questions: those of the row groups, and for a chunk that is a part of a
//! row group also those of its pages (`chunk_bounds.rs`). *Pruning* is DataFusion's own:
//! `PruningPredicate` proves that a conjunction is true for no row. *Proving* inverts this, as
//! DataFusion does for its "fully matched" row groups, but for each conjunct separately: if `NOT c
//! OR x IS NULL` is true for no row, then c is true for every row. Then c need not be evaluated,
//! and its columns need not be read. So a range on the column by which a table is clustered costs
//! something only at its two ends. A chunk is pruned, or a conjunct is proved for it, if this
//! holds for each of its row groups, or for the part of a row group that the chunk is.
//! Not here: which batches of a chunk can hold a row of the result (`batches.rs`); when dynamic
//! filters are judged again (`scan/dynamic.rs`); which bounds of floating-point columns count
//! (`floats.rs`).
//! I1: a proof holds for every row. Truncated bounds are enough for that. Statistics ignore NaN,
//! so floating-point columns take no part in proofs. Statistics may be missing; a missing null
//! count is unknown. A comparison with NULL takes no part. Which statistics are trusted at all is
//! decided when a footer is read (coscan-storage, `trusted.rs`).

mod batches;
pub(crate) mod bloom;
mod chunk_bounds;
pub(crate) mod column_bounds;
mod float_statistics;
mod floats;

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

use arrow::array::{ArrayRef, BooleanArray, UInt64Array};
use arrow::datatypes::{DataType, Schema, SchemaRef};
use coscan_storage::FileChunk;
use coscan_storage::pool::TableFile;
use datafusion::common::pruning::PruningStatistics;
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::common::{Column, ScalarValue};
use datafusion::error::Result;
use datafusion::logical_expr::Operator;
use datafusion::physical_expr::expressions::{
    BinaryExpr, Column as ColumnExpr, InListExpr, IsNotNullExpr, IsNullExpr, Literal, NotExpr,
};
use datafusion::physical_expr::simplifier::PhysicalExprSimplifier;
use datafusion::physical_expr::utils::collect_columns;
use datafusion::physical_expr::{PhysicalExpr, conjunction};
use datafusion::physical_expr_common::physical_expr::snapshot_physical_expr;
use datafusion::physical_optimizer::pruning::{PruningPredicate, PruningPredicateBuilder};
use parquet::arrow::arrow_reader::statistics::StatisticsConverter;
use parquet::file::metadata::{ParquetMetaData, RowGroupMetaData};
use parquet::schema::types::SchemaDescriptor;

use super::file_plan::FilePlan;
use chunk_bounds::{PartStatistics, part_of};
use floats::{CountingBounds, Ends};

pub(crate) use batches::{BatchPruner, WantedBatches};
pub(crate) use float_statistics::without_float_bounds;
pub(crate) use floats::{bounds_that_count, is_float};

/// What the statistics say about one file's chunks.
pub(crate) struct Verdicts {
    /// Per chunk: whether some row may be in the result.
    pub(crate) wanted: Vec<bool>,
    /// Per chunk: the conjuncts that are not proved, as a set of their positions.
    pub(crate) residual: Vec<u64>,
    /// Judges the batches of a wanted chunk; `None` if statistics are not used.
    pub(crate) batches: Option<Arc<BatchPruner>>,
}

/// The questions to the statistics of all files with one plan.
pub(crate) struct Questions {
    conjuncts: usize,
    empty: bool,
    /// May the predicate be true for a row of a chunk or a batch? `None` if statistics cannot
    /// tell.
    whole: Option<Arc<BatchPruner>>,
    /// The conjuncts that statistics may prove.
    provable: Vec<Provable>,
}

struct Provable {
    /// The conjunct's position.
    at: usize,
    conjunct: Arc<dyn PhysicalExpr>,
    negation: Question,
}

impl Questions {
    /// The questions for files with this plan. Without `prunes` (the user switched statistics off)
    /// there are none, and nothing is pruned or proved.
    pub(crate) fn new(plan: &FilePlan, prunes: bool, in_list_max: usize) -> Self {
        let mut questions = Self {
            conjuncts: plan.conjuncts.len(),
            empty: plan.empty,
            whole: None,
            provable: Vec::new(),
        };
        if plan.conjuncts.is_empty() || plan.empty || !prunes {
            return questions;
        }
        let ask =
            |predicate: &Arc<dyn PhysicalExpr>| Question::new(predicate, &plan.schema, in_list_max);
        let whole = conjunction(plan.conjuncts.iter().map(|c| Arc::clone(&c.expr)));
        questions.whole = ask(&whole).map(|whole| Arc::new(BatchPruner::new(whole)));
        for (at, conjunct) in plan.conjuncts.iter().enumerate() {
            if conjunct.dynamic || !provable(&conjunct.expr, &plan.schema) {
                continue;
            }
            let negation = negation(&conjunct.expr, &plan.schema);
            if let Some(negation) = negation.and_then(|negation| ask(&negation)) {
                let conjunct = Arc::clone(&conjunct.expr);
                questions.provable.push(Provable {
                    at,
                    conjunct,
                    negation,
                });
            }
        }
        questions
    }

    /// Judges every chunk of a file.
    pub(crate) fn judge(&self, file: &TableFile, schema: &SchemaRef) -> Verdicts {
        let chunks = &file.chunks().chunks;
        let mut verdicts = Verdicts {
            wanted: vec![!self.empty; chunks.len()],
            residual: vec![all_of(self.conjuncts); chunks.len()],
            batches: self.whole.clone(),
        };
        let judge = Judge {
            metadata: file.metadata(),
            chunks,
            schema,
        };
        let all: Vec<usize> = (0..chunks.len()).collect();
        if let Some(whole) = &self.whole {
            verdicts.wanted = judge.may_hold(whole.question(), &all);
        }
        let wanted: Vec<usize> = all.into_iter().filter(|at| verdicts.wanted[*at]).collect();
        for provable in &self.provable {
            let may_fail = judge.may_hold(&provable.negation, &wanted);
            for (at, may_fail) in wanted.iter().zip(may_fail) {
                if !may_fail && judge.counts_nulls(&provable.conjunct, &chunks[*at]) {
                    verdicts.residual[*at] &= !(1 << provable.at);
                }
            }
        }
        verdicts
    }
}

/// For each chunk in `which`, whether the predicate may be true for some of its rows. `which`
/// holds positions in `chunks`, the chunks of the file.
pub(crate) fn may_match(
    metadata: &ParquetMetaData,
    chunks: &[FileChunk],
    predicate: &Arc<dyn PhysicalExpr>,
    schema: &SchemaRef,
    in_list_max: usize,
    which: &[usize],
) -> Vec<bool> {
    let judge = Judge {
        metadata,
        chunks,
        schema,
    };
    match Question::new(predicate, schema, in_list_max) {
        Some(question) => judge.may_hold(&question, which),
        None => vec![true; which.len()],
    }
}

/// The set of all of `count` conjuncts.
fn all_of(count: usize) -> u64 {
    if count == 0 {
        0
    } else {
        u64::MAX >> (64 - count)
    }
}

/// A file, with the inputs for judging its chunks by statistics.
struct Judge<'a> {
    metadata: &'a ParquetMetaData,
    chunks: &'a [FileChunk],
    schema: &'a SchemaRef,
}

/// A question to statistics: may the predicate be true?
struct Question {
    pruning: Arc<PruningPredicate>,
    /// The bounds of floating-point columns that count for it.
    counting: BTreeMap<usize, Ends>,
    schema: SchemaRef,
}

impl Question {
    /// The question for the current predicate; `None` if statistics cannot answer it.
    fn new(
        predicate: &Arc<dyn PhysicalExpr>,
        schema: &SchemaRef,
        in_list_max: usize,
    ) -> Option<Self> {
        // One snapshot of the predicate, for all answers.
        let predicate = snapshot_physical_expr(Arc::clone(predicate)).ok()?;
        let counting = bounds_that_count(&predicate, schema);
        let pruning = PruningPredicateBuilder::new()
            .with_file_schema(Arc::clone(schema))
            .with_max_in_list_size(in_list_max)
            .build(predicate)?;
        Some(Self {
            pruning,
            counting,
            schema: Arc::clone(schema),
        })
    }

    /// The verdict on each container, from the bounds that count; `None` if the statistics cannot
    /// be used.
    fn ask<S: PruningStatistics>(&self, statistics: &S) -> Option<Vec<bool>> {
        let counting = CountingBounds {
            inner: statistics,
            schema: &self.schema,
            counting: &self.counting,
        };
        let verdicts = self.pruning.prune(&counting).inspect_err(|error| {
            let predicate = self.pruning.orig_expr();
            log::debug!("statistics could not be used for {predicate}: {error}");
        });
        verdicts.ok()
    }
}

impl Judge<'_> {
    /// For each of these chunks: false if statistics prove that the predicate is true for none of
    /// its rows.
    fn may_hold(&self, question: &Question, chunks: &[usize]) -> Vec<bool> {
        let mut wanted = vec![true; chunks.len()];
        let metadata = self.metadata;
        let of = |at: usize| &self.chunks[chunks[at]];
        let groups = RowGroupStatistics {
            groups: metadata.row_groups(),
            parquet: metadata.file_metadata().schema_descr(),
            schema: self.schema,
        };
        if let Some(groups) = question.ask(&groups) {
            for (at, wanted) in wanted.iter_mut().enumerate() {
                *wanted = of(at).pieces.iter().any(|piece| groups[piece.row_group]);
            }
        }
        let (at, parts): (Vec<usize>, Vec<_>) = (0..chunks.len())
            .filter(|at| wanted[*at])
            .filter_map(|at| Some((at, part_of(metadata, of(at))?)))
            .unzip();
        let parts = PartStatistics::new(metadata, self.schema, parts);
        let verdicts = parts.and_then(|parts| question.ask(&parts));
        if let Some(verdicts) = verdicts {
            for (at, verdict) in at.into_iter().zip(verdicts) {
                wanted[at] = verdict;
            }
        }
        wanted
    }

    /// Whether the columns of `expr` have null counts in this chunk.
    fn counts_nulls(&self, expr: &Arc<dyn PhysicalExpr>, chunk: &FileChunk) -> bool {
        let metadata = self.metadata;
        chunk.pieces.iter().all(|piece| {
            let group = metadata.row_group(piece.row_group);
            counted(expr, group, metadata, self.schema)
        })
    }
}

/// `NOT expr OR x IS NULL`, with every column x of `expr`. It is true for every row for which
/// `expr` is not true.
fn negation(expr: &Arc<dyn PhysicalExpr>, schema: &Schema) -> Option<Arc<dyn PhysicalExpr>> {
    let mut columns: Vec<ColumnExpr> = collect_columns(expr).into_iter().collect();
    columns.sort_by_key(ColumnExpr::index);
    let mut negated: Arc<dyn PhysicalExpr> = Arc::new(NotExpr::new(Arc::clone(expr)));
    for column in columns {
        negated = Arc::new(BinaryExpr::new(
            negated,
            Operator::Or,
            Arc::new(IsNullExpr::new(Arc::new(column))),
        ));
    }
    PhysicalExprSimplifier::new(schema).simplify(negated).ok()
}

/// Whether a proof may be tried: `expr` only compares columns with values that are not NULL, and
/// the columns' types are [`ordered`] (I1).
fn provable(expr: &Arc<dyn PhysicalExpr>, schema: &Schema) -> bool {
    let mut understood = true;
    let walked = expr.apply(|node| {
        understood &= if let Some(column) = node.downcast_ref::<ColumnExpr>() {
            schema
                .fields()
                .get(column.index())
                .is_some_and(|field| ordered(field.data_type()))
        } else if let Some(literal) = node.downcast_ref::<Literal>() {
            !literal.value().is_null()
        } else if let Some(binary) = node.downcast_ref::<BinaryExpr>() {
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
            )
        } else {
            node.is::<InListExpr>() || node.is::<IsNotNullExpr>()
        };
        Ok(if understood {
            TreeNodeRecursion::Continue
        } else {
            TreeNodeRecursion::Stop
        })
    });
    understood && walked.is_ok()
}

/// Types whose values are totally ordered and for which minimum and maximum cover every value.
pub(crate) fn ordered(data_type: &DataType) -> bool {
    data_type.is_integer()
        || matches!(
            data_type,
            DataType::Boolean
                | DataType::Date32
                | DataType::Date64
                | DataType::Time32(_)
                | DataType::Time64(_)
                | DataType::Timestamp(..)
                | DataType::Decimal32(..)
                | DataType::Decimal64(..)
                | DataType::Decimal128(..)
                | DataType::Decimal256(..)
                | DataType::Utf8
                | DataType::LargeUtf8
                | DataType::Utf8View
        )
}

/// Whether the columns of `expr` have null counts in this row group.
fn counted(
    expr: &Arc<dyn PhysicalExpr>,
    group: &RowGroupMetaData,
    metadata: &ParquetMetaData,
    schema: &Schema,
) -> bool {
    let descriptor = metadata.file_metadata().schema_descr();
    collect_columns(expr).iter().all(|column| {
        parquet::arrow::parquet_column(descriptor, schema, column.name()).is_some_and(
            |(leaf, _)| {
                let statistics = group.column(leaf).statistics();
                statistics.is_some_and(|statistics| statistics.null_count_opt().is_some())
            },
        )
    })
}

/// A file's row groups as the containers of a pruning predicate.
struct RowGroupStatistics<'a> {
    groups: &'a [RowGroupMetaData],
    parquet: &'a SchemaDescriptor,
    schema: &'a Schema,
}

impl<'a> RowGroupStatistics<'a> {
    fn converter(&self, column: &Column) -> Result<StatisticsConverter<'a>> {
        Ok(
            StatisticsConverter::try_new(&column.name, self.schema, self.parquet)?
                .with_missing_null_counts_as_zero(false),
        )
    }
}

impl PruningStatistics for RowGroupStatistics<'_> {
    fn min_values(&self, column: &Column) -> Option<ArrayRef> {
        self.converter(column)
            .ok()?
            .row_group_mins(self.groups)
            .ok()
    }

    fn max_values(&self, column: &Column) -> Option<ArrayRef> {
        self.converter(column)
            .ok()?
            .row_group_maxes(self.groups)
            .ok()
    }

    fn num_containers(&self) -> usize {
        self.groups.len()
    }

    fn null_counts(&self, column: &Column) -> Option<ArrayRef> {
        let counts = self
            .converter(column)
            .ok()?
            .row_group_null_counts(self.groups)
            .ok()?;
        Some(Arc::new(counts))
    }

    fn row_counts(&self) -> Option<ArrayRef> {
        let rows = self
            .groups
            .iter()
            .map(|group| u64::try_from(group.num_rows()).ok());
        Some(Arc::new(rows.collect::<UInt64Array>()))
    }

    fn contained(&self, _: &Column, _: &HashSet<ScalarValue>) -> Option<BooleanArray> {
        None
    }
}
