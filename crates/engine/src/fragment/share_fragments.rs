//! The rule that puts fragments in the place of partial aggregates.
//!
//! Not here: which part of a plan is one (`recognise.rs`).

use std::sync::{Arc, Weak};

use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::error::Result;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::ExecutionPlan;

use super::board::Board;
use super::exec::FragmentExec;
use super::recognise::SharingOptions;
use crate::settings::Settings;

/// Puts fragments in the place of partial aggregates on cooperative scans. Runs after scans were
/// swapped.
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
        let sharing = SharingOptions {
            board,
            cache_bytes: settings.state_cache_bytes(),
            time_zone: config.execution.time_zone.clone().unwrap_or_default(),
        };
        let shared = plan.transform_up(|node| {
            Ok(match FragmentExec::of(&node, &sharing)? {
                Some(fragment) => Transformed::yes(fragment),
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
