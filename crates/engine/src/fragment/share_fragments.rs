//! Which rule replaces partial aggregates by fragments?
//!
//! It also splits a single-stage aggregate if its partial stage is a fragment.
//!
//! Not here: which part of a plan is a fragment (`recognise.rs`).

use std::sync::{Arc, Weak};

use coscan_pg::output::IntervalStyle;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::error::Result;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::aggregates::{AggregateExec, AggregateMode, PhysicalGroupBy};

use super::board::Board;
use super::exec::FragmentExec;
use super::recognise::SharingOptions;
use crate::settings::Settings;

/// Replaces partial aggregates on cooperative scans by fragments. It runs after the rule that
/// swaps scans.
#[derive(Debug)]
pub(crate) struct ShareFragments {
    board: Weak<Board>,
}

impl ShareFragments {
    pub(crate) fn new(board: Weak<Board>) -> Self {
        Self { board }
    }
}

impl PhysicalOptimizerRule for ShareFragments {
    fn optimize(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        config: &ConfigOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let Some(settings) = config.extensions.get::<Settings>() else {
            return Ok(plan);
        };
        let Some(board) = self.board.upgrade() else {
            return Ok(plan);
        };
        if !settings.cooperative || !settings.share_fragments {
            return Ok(plan);
        }
        let zone = config.execution.time_zone.as_deref().unwrap_or_default();
        let sharing = SharingOptions {
            board,
            cache_bytes: settings.state_cache_bytes(),
            shown: format!("{zone} {}", IntervalStyle::of(config).name()),
        };
        let shared = plan.transform_up(|node| {
            if let Some(fragment) = FragmentExec::of(&node, &sharing)? {
                return Ok(Transformed::yes(fragment));
            }
            Ok(match in_two(&node, &sharing)? {
                Some(both) => Transformed::yes(both),
                None => Transformed::no(node),
            })
        });
        shared.data()
    }

    fn name(&self) -> &'static str {
        "CoscanShareFragments"
    }

    fn schema_check(&self) -> bool {
        true
    }
}

/// A single-stage aggregate as a fragment with a final aggregate on it. DataFusion merges the two
/// stages if both would run on one partition. `None` if the partial stage is not a fragment.
fn in_two(
    node: &Arc<dyn ExecutionPlan>,
    sharing: &SharingOptions,
) -> Result<Option<Arc<dyn ExecutionPlan>>> {
    let Some(whole) = node.downcast_ref::<AggregateExec>() else {
        return Ok(None);
    };
    if *whole.mode() != AggregateMode::Single || whole.limit_options().is_some() {
        return Ok(None);
    }
    let part = |mode, group: PhysicalGroupBy, input| {
        let (functions, filters) = (whole.aggr_expr().to_vec(), whole.filter_expr().to_vec());
        let part =
            AggregateExec::try_new(mode, group, functions, filters, input, whole.input_schema());
        part.map(|part| Arc::new(part) as Arc<dyn ExecutionPlan>)
    };
    let (group, input) = (whole.group_expr().clone(), Arc::clone(whole.input()));
    let last = group.as_final();
    let partial = part(AggregateMode::Partial, group, input)?;
    let Some(fragment) = FragmentExec::of(&partial, sharing)? else {
        return Ok(None);
    };
    let both = part(AggregateMode::Final, last, fragment)?;
    Ok((both.schema() == node.schema()).then_some(both))
}
