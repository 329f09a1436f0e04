//! Which rows may the filter of a sort with a limit remove?
//!
//! A sort with a limit passes a filter to its input, shared by all partitions, for rows that can
//! still be among the first ones. Rows are lost in two cases:
//! - Keys that are constant within each partition are left out of the sort, even if they differ
//!   between partitions (`SELECT 1, x … UNION ALL SELECT 0, y … ORDER BY 1, 2 LIMIT 9`). Rows of
//!   one partition then remove those of another by the remaining keys (`enforce_sorting`,
//!   `topk/mod.rs`). Such a sort gets all keys of the merge above it.
//! - Arrays and rows that contain NULL are compared in a different order from the one in which
//!   they are sorted. Such a sort sorts all rows, with a limit above it.
//!
//! Delete this file once `SortExec` shares its filter only between partitions that it sorts by all
//! keys of the merge, and makes no filter for nested types.

use std::sync::Arc;

use datafusion::common::tree_node::Transformed;
use datafusion::config::ConfigOptions;
use datafusion::error::Result;
use datafusion::physical_expr::LexOrdering;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::limit::LocalLimitExec;
use datafusion::physical_plan::sorts::sort::SortExec;
use datafusion::physical_plan::sorts::sort_preserving_merge::SortPreservingMergeExec;

use crate::trees::Tree;

/// The sort, extended to all keys of the merge above it.
fn with_all_keys(merge: &SortPreservingMergeExec) -> Option<Arc<dyn ExecutionPlan>> {
    let sort = merge.input().downcast_ref::<SortExec>()?;
    if sort.fetch().is_none() || sort.expr() == merge.expr() {
        return None;
    }
    let sort = rebuilt(sort, merge.expr().clone()).with_fetch(sort.fetch());
    let made = SortPreservingMergeExec::new(merge.expr().clone(), Arc::new(sort));
    Some(Arc::new(made.with_fetch(merge.fetch())))
}

/// A sort of all rows by nested keys, with a limit above it.
fn without_filter(sort: &SortExec) -> Result<Option<Arc<dyn ExecutionPlan>>> {
    let Some(fetch) = sort.fetch() else {
        return Ok(None);
    };
    let schema = sort.input().schema();
    for key in sort.expr() {
        if key.expr.data_type(&schema)?.is_nested() {
            let all = Arc::new(rebuilt(sort, sort.expr().clone()));
            return Ok(Some(Arc::new(LocalLimitExec::new(all, fetch))));
        }
    }
    Ok(None)
}

fn rebuilt(sort: &SortExec, keys: LexOrdering) -> SortExec {
    SortExec::new(keys, Arc::clone(sort.input()))
        .with_preserve_partitioning(sort.preserve_partitioning())
}

/// See the file's header.
#[derive(Debug)]
pub(super) struct TopK;

impl PhysicalOptimizerRule for TopK {
    fn optimize(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        _: &ConfigOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let found = plan.change_down(|node| {
            let merge = node.downcast_ref::<SortPreservingMergeExec>();
            if let Some(mended) = merge.and_then(with_all_keys) {
                return Ok(Transformed::yes(mended));
            }
            let mended = match node.downcast_ref::<SortExec>() {
                Some(sort) => without_filter(sort)?,
                None => None,
            };
            Ok(mended.map_or_else(|| Transformed::no(node), Transformed::yes))
        })?;
        Ok(found.data)
    }

    fn name(&self) -> &'static str {
        "top_k"
    }

    fn schema_check(&self) -> bool {
        true
    }
}
