//! A session that plans with another configuration, and is the given one in everything else.
//!
//! A copy of the session's state would copy its lists of functions, some hundreds of entries. This
//! session refers to them.

use std::any::Any;
use std::collections::HashMap;
use std::sync::Arc;

use async_trait::async_trait;
use datafusion::catalog::{CatalogProviderList, Session};
use datafusion::common::DFSchema;
use datafusion::common::config::TableOptions;
use datafusion::error::Result;
use datafusion::execution::TaskContext;
use datafusion::execution::context::QueryPlanner;
use datafusion::execution::runtime_env::RuntimeEnv;
use datafusion::logical_expr::execution_props::ExecutionProps;
use datafusion::logical_expr::registry::ExtensionTypeRegistryRef;
use datafusion::logical_expr::{
    AggregateUDF, Expr, HigherOrderUDF, LogicalPlan, ScalarUDF, WindowUDF,
};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::operator_statistics::StatisticsRegistry;
use datafusion::prelude::SessionConfig;

/// See the file's header.
pub(super) struct Configured<'a> {
    session: &'a dyn Session,
    config: SessionConfig,
    /// The session's, once somebody has changed them here.
    table_options: Option<Box<TableOptions>>,
}

impl<'a> Configured<'a> {
    /// A session that plans for one partition.
    pub(super) fn for_one_partition(session: &'a dyn Session) -> Self {
        let config = session.config().clone();
        Self::with(session, config.with_target_partitions(1))
    }

    /// A session that leaves rows in the order in which one partition has them.
    pub(super) fn in_order(session: &'a dyn Session) -> Self {
        let config = session.config().clone();
        Self::with(session, config.with_round_robin_repartition(false))
    }

    fn with(session: &'a dyn Session, config: SessionConfig) -> Self {
        Self {
            session,
            config,
            table_options: None,
        }
    }
}

#[async_trait]
impl Session for Configured<'_> {
    fn session_id(&self) -> &str {
        self.session.session_id()
    }

    fn config(&self) -> &SessionConfig {
        &self.config
    }

    fn catalog_list(&self) -> Arc<dyn CatalogProviderList> {
        self.session.catalog_list()
    }

    fn query_planner(&self) -> Arc<dyn QueryPlanner + Send + Sync> {
        self.session.query_planner()
    }

    fn optimize(&self, plan: &LogicalPlan) -> Result<LogicalPlan> {
        self.session.optimize(plan)
    }

    fn physical_optimizers(&self) -> &[Arc<dyn PhysicalOptimizerRule + Send + Sync>] {
        self.session.physical_optimizers()
    }

    fn statistics_registry(&self) -> Option<&StatisticsRegistry> {
        self.session.statistics_registry()
    }

    /// Plans a statement of its own, whose size counts by itself.
    async fn create_physical_plan(&self, plan: &LogicalPlan) -> Result<Arc<dyn ExecutionPlan>> {
        self.session.create_physical_plan(plan).await
    }

    fn create_physical_expr(
        &self,
        expr: Expr,
        df_schema: &DFSchema,
    ) -> Result<Arc<dyn PhysicalExpr>> {
        self.session.create_physical_expr(expr, df_schema)
    }

    fn scalar_functions(&self) -> &HashMap<String, Arc<ScalarUDF>> {
        self.session.scalar_functions()
    }

    fn higher_order_functions(&self) -> &HashMap<String, Arc<HigherOrderUDF>> {
        self.session.higher_order_functions()
    }

    fn aggregate_functions(&self) -> &HashMap<String, Arc<AggregateUDF>> {
        self.session.aggregate_functions()
    }

    fn window_functions(&self) -> &HashMap<String, Arc<WindowUDF>> {
        self.session.window_functions()
    }

    fn extension_type_registry(&self) -> &ExtensionTypeRegistryRef {
        self.session.extension_type_registry()
    }

    fn runtime_env(&self) -> &Arc<RuntimeEnv> {
        self.session.runtime_env()
    }

    fn execution_props(&self) -> &ExecutionProps {
        self.session.execution_props()
    }

    /// The given session: tables look for the state that they know.
    fn as_any(&self) -> &dyn Any {
        self.session.as_any()
    }

    fn table_options(&self) -> &TableOptions {
        let changed = self.table_options.as_deref();
        changed.unwrap_or_else(|| self.session.table_options())
    }

    fn table_options_mut(&mut self) -> &mut TableOptions {
        let session = self.session;
        let own = &mut self.table_options;
        own.get_or_insert_with(|| Box::new(session.table_options().clone()))
    }

    fn task_ctx(&self) -> Arc<TaskContext> {
        self.session.task_ctx()
    }
}
