//! Who plans the query of all its mentions?
//!
//! The first of them, in its place in the statement. The query is planned by itself, with every
//! physical rule, and each mention becomes the scan of a table whose plan is a leaf
//! ([`OnceExec`]). Queries that a query names come first.
//! Refused: an `ExtensionPlanner`. It cannot be put into a query planner that is there already, and
//! gets the plans of all mentions made.

use std::collections::BTreeSet;
use std::sync::Arc;

use arrow::datatypes::SchemaRef;
use async_trait::async_trait;
use coscan_pg::Once;
use datafusion::catalog::{Session, TableProvider};
use datafusion::common::TableReference;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNodeRecursion};
use datafusion::datasource::provider_as_source;
use datafusion::error::Result;
use datafusion::execution::SessionStateBuilder;
use datafusion::execution::context::QueryPlanner;
use datafusion::logical_expr::{Expr, LogicalPlan, TableScan, TableType};
use datafusion::physical_plan::ExecutionPlan;

use super::exec::{OnceExec, Shared};
use crate::inner_planner::InnerPlanner;

/// Has queries in WITH computed once where their mentions may differ otherwise.
pub(crate) fn plan_once(builder: &mut SessionStateBuilder) {
    coscan_pg::compute_once(builder);
    InnerPlanner::wrap(builder, |inner| Planner { inner });
}

/// See the file's header.
#[derive(Debug)]
struct Planner {
    inner: InnerPlanner,
}

/// A query, by one of its mentions, and its plan.
struct Planned {
    once: Once,
    table: Arc<OnceTable>,
}

#[async_trait]
impl QueryPlanner for Planner {
    async fn create_physical_plan(
        &self,
        plan: &LogicalPlan,
        session: &dyn Session,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let mentions = mentions(plan)?;
        if mentions.is_empty() {
            return self.inner.plan(plan, session).await;
        }
        let mut queries: Vec<Planned> = vec![];
        for once in mentions {
            if queries.iter().any(|known| known.once.is_same(&once)) {
                continue;
            }
            let input = read_from(once.input().as_ref().clone(), &queries)?;
            let input = self.inner.plan(&input, session).await?;
            let table = Arc::new(OnceTable(Shared::new(once.name(), input)));
            queries.push(Planned { once, table });
        }
        let plan = read_from(plan.clone(), &queries)?;
        self.inner.plan(&plan, session).await
    }
}

/// The mentions in a plan, those in the plan of a query before the query's own.
fn mentions(plan: &LogicalPlan) -> Result<Vec<Once>> {
    let mut found = vec![];
    plan.apply_with_subqueries(|node| {
        found.extend(Once::of(node).cloned());
        Ok(TreeNodeRecursion::Continue)
    })?;
    // A node comes before those below it.
    found.reverse();
    Ok(found)
}

/// The plan, whose mentions of these queries are scans.
fn read_from(plan: LogicalPlan, queries: &[Planned]) -> Result<LogicalPlan> {
    let plan = plan.transform_down_with_subqueries(|node| {
        let Some(once) = Once::of(&node) else {
            return Ok(Transformed::no(node));
        };
        let Some(known) = queries.iter().find(|known| known.once.is_same(once)) else {
            return Ok(Transformed::no(node));
        };
        let table: Arc<dyn TableProvider> = Arc::clone(&known.table) as _;
        let scan = LogicalPlan::TableScan(TableScan {
            table_name: TableReference::bare(once.name()),
            source: provider_as_source(table),
            projection: None,
            // The names of the query's own columns, of whatever relations they are.
            projected_schema: Arc::clone(node.schema()),
            filters: vec![],
            fetch: None,
            statistics_requests: BTreeSet::new(),
        });
        Ok(Transformed::new(scan, true, TreeNodeRecursion::Jump))
    });
    plan.data()
}

/// A query that is computed once, as a table.
#[derive(Debug)]
struct OnceTable(Arc<Shared>);

#[async_trait]
impl TableProvider for OnceTable {
    fn schema(&self) -> SchemaRef {
        self.0.input().schema()
    }

    fn table_type(&self) -> TableType {
        TableType::Temporary
    }

    async fn scan(
        &self,
        _: &dyn Session,
        _: Option<&Vec<usize>>,
        _: &[Expr],
        _: Option<usize>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        Ok(Arc::new(OnceExec::new(&self.0)))
    }
}
