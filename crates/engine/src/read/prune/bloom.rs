//! Which chunks do bloom filters rule out?
//!
//! If a predicate needs certain values of a column (`=`, `IN`), a row group is excluded if its
//! bloom filter shows that it has none of these values. Filters are read only for such a
//! predicate, and only for row groups that statistics could not exclude. As in DataFusion,
//! `datafusion.execution.parquet.bloom_filter_on_read` switches this off.
//! Not here: reading filters (`coscan-storage`); statistics (`prune/`), which come first because
//! they cost no read.
//! Bounds: filters of `GROUPS_AT_ONCE` row groups are in memory at a time.
//! I1: a chunk is ruled out only if each of its row groups is.
//! I2: filters of floating-point columns are not used: a filter compares bits, and -0 equals 0.

use std::collections::BTreeSet;
use std::sync::Arc;

use arrow::datatypes::SchemaRef;
use coscan_storage::pool::TableFile;
use datafusion::datasource::physical_plan::parquet::BloomFilterStatistics;
use datafusion::physical_expr::conjunction;
use datafusion::physical_optimizer::pruning::{PruningPredicate, PruningPredicateBuilder};
use parquet::arrow::parquet_column;

use super::Verdicts;
use super::floats::is_float;
use crate::read::FilePlan;

/// Enough row groups to make a request worth its latency, few enough that large filters fit.
const GROUPS_AT_ONCE: usize = 16;

/// Removes the chunks that bloom filters rule out from the wanted ones, and returns their number.
pub(crate) async fn prune(
    file: &TableFile,
    plan: &FilePlan,
    in_list_max: usize,
    verdicts: &mut Verdicts,
) -> usize {
    let Some(BloomPredicate { pruning, columns }) = BloomPredicate::new(file, plan, in_list_max)
    else {
        return 0;
    };
    let chunks = &file.chunks().chunks;
    let open = |verdicts: &Verdicts, at: usize| verdicts.wanted[at] && verdicts.residual[at] != 0;
    let groups: BTreeSet<usize> = (0..chunks.len())
        .filter(|at| open(verdicts, *at))
        .flat_map(|at| chunks[at].pieces.iter().map(|piece| piece.row_group))
        .collect();
    let groups: Vec<usize> = groups.into_iter().collect();
    let mut out = vec![false; file.metadata().num_row_groups()];
    for groups in groups.chunks(GROUPS_AT_ONCE) {
        let wanted: Vec<(usize, usize)> = groups
            .iter()
            .flat_map(|group| columns.iter().map(|(_, leaf)| (*group, *leaf)))
            .collect();
        let mut filters = file.bloom_filters(&wanted).await.into_iter();
        for group in groups {
            let mut statistics = BloomFilterStatistics::with_capacity(columns.len());
            for (name, leaf) in &columns {
                let Some(filter) = filters.next().flatten() else {
                    continue;
                };
                let column = file.metadata().file_metadata().schema_descr().column(*leaf);
                statistics.insert(name, filter, column.physical_type(), column.type_length());
            }
            out[*group] = matches!(pruning.prune(&statistics).as_deref(), Ok([false]));
        }
    }
    let mut pruned = 0;
    for (at, chunk) in chunks.iter().enumerate() {
        if open(verdicts, at) && chunk.pieces.iter().all(|piece| out[piece.row_group]) {
            verdicts.wanted[at] = false;
            pruned += 1;
        }
    }
    pruned
}

/// A predicate that a file's bloom filters can answer.
struct BloomPredicate {
    pruning: Arc<PruningPredicate>,
    /// The columns of which the predicate needs certain values, and which have a filter in some
    /// row group: (name, leaf).
    columns: Vec<(String, usize)>,
}

impl BloomPredicate {
    fn new(file: &TableFile, plan: &FilePlan, in_list_max: usize) -> Option<Self> {
        let metadata = file.metadata();
        let filtered = |leaf: usize| {
            let mut groups = metadata.row_groups().iter();
            groups.any(|group| group.column(leaf).bloom_filter_offset().is_some())
        };
        if plan.conjuncts.is_empty() || !(0..leaves(file)).any(filtered) {
            return None;
        }
        let schema: &SchemaRef = &plan.schema;
        let whole = conjunction(plan.conjuncts.iter().map(|c| Arc::clone(&c.expr)));
        let pruning = PruningPredicateBuilder::new()
            .with_file_schema(Arc::clone(schema))
            .with_max_in_list_size(in_list_max)
            .build(whole)?;
        let parquet = metadata.file_metadata().schema_descr();
        let columns: Vec<(String, usize)> = pruning
            .literal_columns()
            .into_iter()
            .filter_map(|name| {
                let (leaf, field) = parquet_column(parquet, schema, &name)?;
                (filtered(leaf) && !is_float(field.data_type())).then_some((name, leaf))
            })
            .collect();
        (!columns.is_empty()).then_some(Self { pruning, columns })
    }
}

fn leaves(file: &TableFile) -> usize {
    file.metadata().file_metadata().schema_descr().num_columns()
}
