//! `… UNION ALL … ORDER BY a, b LIMIT 3`, where `a` is a constant in each branch: which rows does a
//! branch's heap of the first ones leave out?
//!
//! DataFusion merges the branches by `a, b`, but sorts each by `b` alone, and the heaps share the
//! least `b` that one of them still takes: rows that come first by their `a` are left out in a
//! branch whose `b` is larger (55.2, `sorts/sort.rs`, `SortExec::filter`). Here a sort below a
//! merge has all of the merge's keys. To be deleted when sorts that leave out a partition's
//! constants share no threshold.

use std::sync::Arc;

use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::config::ConfigOptions;
use datafusion::error::Result;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::execution_plan::replace_children_if_necessary;
use datafusion::physical_plan::sorts::sort::SortExec;
use datafusion::physical_plan::sorts::sort_preserving_merge::SortPreservingMergeExec;

use super::Rule;

/// DataFusion's rule that places sorts and merges.
const ENSURE_REQUIREMENTS: &str = "EnsureRequirements";

/// The rule, behind `rule` if that is the one that it corrects.
pub(super) fn behind(rule: Rule) -> Vec<Rule> {
    if rule.name() == ENSURE_REQUIREMENTS {
        return vec![rule, Arc::new(MergedSorts)];
    }
    vec![rule]
}

/// See the file's header.
#[derive(Debug)]
struct MergedSorts;

impl PhysicalOptimizerRule for MergedSorts {
    fn optimize(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        _: &ConfigOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        plan.transform_up(|node| {
            let Some(merge) = node.downcast_ref::<SortPreservingMergeExec>() else {
                return Ok(Transformed::no(node));
            };
            let sort = merge.input().downcast_ref::<SortExec>();
            let Some(sort) = sort.filter(|sort| sort.expr().len() < merge.expr().len()) else {
                return Ok(Transformed::no(node));
            };
            let whole = SortExec::new(merge.expr().clone(), Arc::clone(sort.input()))
                .with_preserve_partitioning(true)
                .with_fetch(sort.fetch());
            let merge = replace_children_if_necessary(Arc::clone(&node), vec![Arc::new(whole)])?;
            Ok(Transformed::yes(merge))
        })
        .data()
    }

    fn name(&self) -> &'static str {
        "merged_sorts"
    }

    fn schema_check(&self) -> bool {
        true
    }
}
