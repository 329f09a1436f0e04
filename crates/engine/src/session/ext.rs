//! Adds Coscan to a DataFusion session that the embedding program made itself.

use std::sync::Arc;

use datafusion::execution::SessionStateBuilder;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_optimizer::optimizer::PhysicalOptimizer;
use datafusion::prelude::SessionConfig;

use super::engine::Engine;
use super::on_nodes::OnNodes;
use crate::fragment::ShareFragments;
use crate::index;
use crate::memory::{SPILL_FILE_BYTES, SPILL_FILE_BYTES_DEFAULT};
use crate::once::{ShowOnce, plan_once};
use crate::ordered::OrderAggregates;
use crate::plan::{
    CheckOrders, FinestGroups, HideFloatBounds, HideNullBounds, MarkScans, NeedlessKeys,
    SHARE_OPERATORS, ShareOperators, SwapScans, YIELDING_JOINS, YieldingJoins,
};
use crate::small_plans::plan_small;
use crate::tables::one_listing::list_once;

/// Adds cooperative scans to a DataFusion session.
///
/// ```no_run
/// use coscan::{CoscanExt, Engine, EngineConfig};
/// use datafusion::execution::SessionStateBuilder;
/// use datafusion::prelude::{ParquetReadOptions, SessionContext};
///
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// let engine = Engine::new(EngineConfig::default())?;
/// let state = SessionStateBuilder::new()
///     .with_default_features()
///     .with_coscan(&engine)
///     .build();
/// let context = SessionContext::new_with_state(state);
/// context.register_parquet("t", "data/t/", ParquetReadOptions::default()).await?;
/// context.sql("SET coscan.policy = 'elevator'").await?;
/// context.sql("SELECT count(*) FROM t WHERE x > 5").await?.show().await?;
/// # Ok(())
/// # }
/// ```
pub trait CoscanExt {
    /// Adds the settings `coscan.*` and the rules that make Parquet scans cooperative.
    ///
    /// It sets `datafusion.execution.max_spill_file_size_bytes` to 1, so that a repartition writes
    /// each batch that it spills to a separate file. With larger files DataFusion 55.2 may hang
    /// when memory is short (apache/datafusion#24883, fixed in later versions): two tasks that
    /// spill at once open two files, the reader waits for the next batch of the older one, and no
    /// task writes to that file until the reader goes on.
    ///
    /// Call it last. Rules that are added after it run after the scans were replaced, and undo the
    /// sharing of operators above the nodes that they change ([`add_physical_rule`] avoids this).
    /// The session keeps its own runtime; give it [`Engine::runtime`] if its operators should draw
    /// on the engine's memory budget. The engine must outlive the session's queries: once the last
    /// [`Engine`] is dropped, DataFusion plans the scans itself.
    #[must_use]
    fn with_coscan(self, engine: &Engine) -> Self;
}

impl CoscanExt for SessionStateBuilder {
    fn with_coscan(mut self, engine: &Engine) -> Self {
        add_settings(self.config().get_or_insert_default(), engine);
        let optimizers = self.optimizer_rules().get_or_insert_default();
        optimizers.push(Arc::new(NeedlessKeys));
        optimizers.push(Arc::new(FinestGroups));
        let optimizers = self.physical_optimizers().get_or_insert_default();
        let resources = Arc::downgrade(engine.resources());
        let mut rules = std::mem::take(optimizers).rules;
        rules.insert(0, Arc::new(HideFloatBounds));
        rules.insert(1, Arc::new(HideNullBounds));
        rules.insert(2, Arc::new(MarkScans));
        rules.extend(of_planned(engine));
        *self.physical_optimizers() = Some(PhysicalOptimizer::with_rules(rules));
        // Innermost: each query in WITH that is computed once has a size of its own, and the
        // planners around it look at the whole statement.
        plan_small(&mut self);
        plan_once(&mut self);
        index::register_functions(&mut self, &resources);
        index::look_for_indexes(&mut self, &resources);
        list_once(&mut self);
        self
    }
}

/// The rules for a planned query whose scans are marked, in their order.
pub(crate) fn of_planned(engine: &Engine) -> [Arc<dyn PhysicalOptimizerRule + Send + Sync>; 7] {
    let (resources, board) = (engine.resources(), engine.board());
    let (resources, board) = (Arc::downgrade(resources), Arc::downgrade(board));
    [
        Arc::new(SwapScans::new(resources.clone())),
        Arc::new(ShareFragments::new(board)),
        Arc::new(OrderAggregates::new(resources.clone())),
        Arc::new(CheckOrders),
        Arc::new(ShowOnce),
        Arc::new(YieldingJoins),
        Arc::new(ShareOperators::new(resources)),
    ]
}

/// Adds the settings `coscan.*`, and the options and caches that scans expect.
pub(crate) fn add_settings(config: &mut SessionConfig, engine: &Engine) {
    let options = config.options_mut();
    options.extensions.insert(engine.resources().settings());
    options
        .set(SPILL_FILE_BYTES, SPILL_FILE_BYTES_DEFAULT)
        .expect("an option of DataFusion's, and a value that it takes");
    config.set_extension(Arc::clone(engine.resources().files()));
}

/// Has joins give way to other queries, in a session that may have Coscan's rules. If other nodes
/// run the session's queries, joins give way there (`parts/worker.rs`).
pub fn give_way_in_joins(builder: &mut SessionStateBuilder) {
    let config = builder.config().get_or_insert_default();
    if config.get_extension::<OnNodes>().is_some() {
        return;
    }
    let optimizers = builder.physical_optimizers().get_or_insert_default();
    let mut rules = optimizers.rules.iter();
    if rules.any(|rule| rule.name() == YIELDING_JOINS) {
        return;
    }
    add_physical_rule(builder, Arc::new(YieldingJoins));
}

/// Adds a physical rule to a session that may have Coscan's rules: last, but before the rules by
/// which joins give way and operators are shared. A rule that runs after those undoes the sharing
/// of the operators above every node that it changes.
pub fn add_physical_rule(
    builder: &mut SessionStateBuilder,
    rule: Arc<dyn PhysicalOptimizerRule + Send + Sync>,
) {
    let optimizers = builder.physical_optimizers().get_or_insert_default();
    let mut rules = std::mem::take(optimizers).rules;
    let last = [YIELDING_JOINS, SHARE_OPERATORS];
    let last = rules.iter().position(|rule| last.contains(&rule.name()));
    rules.insert(last.unwrap_or(rules.len()), rule);
    *builder.physical_optimizers() = Some(PhysicalOptimizer::with_rules(rules));
}
