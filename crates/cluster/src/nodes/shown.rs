//! What does the table `coscan.nodes` show?
//!
//! | column | meaning |
//! |---|---|
//! | `place` | the node's place in the order, from 1: a query runs on the first that are present |
//! | `node` | its address |
//! | `state` | `present`; `lost`: it gets no part of a query until it answers |
//! | `lost_s` | for how many seconds it has been lost |
//! | `reason` | why |
//! | `tasks` | tasks of queries that run there or wait for their turn; as the next three NULL of a node that does not say it |
//! | `processors` | processors that run them |
//! | `device_busy` | the part of the time, from 0 to 1, in which its busiest device had a request |
//! | `memory_free` | the part of the memory for operators, from 0 to 1, that is free |

use std::fmt;
use std::sync::{Arc, LazyLock};

use arrow::array::{Array, Float64Array, RecordBatch, StringArray, UInt32Array};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use async_trait::async_trait;
use coscan_core::parallelism::nodes::NodeReport;
use coscan_core::placement::NodeOrder;
use datafusion::catalog::{Session, TableProvider};
use datafusion::datasource::memory::MemorySourceConfig;
use datafusion::error::Result;
use datafusion::logical_expr::{Expr, TableType};
use datafusion::physical_plan::ExecutionPlan;

use super::loads::ASKED_AFTER;
use super::{Members, name};

static SCHEMA: LazyLock<SchemaRef> = LazyLock::new(|| {
    Arc::new(Schema::new(vec![
        Field::new("place", DataType::UInt32, false),
        Field::new("node", DataType::Utf8, false),
        Field::new("state", DataType::Utf8, false),
        Field::new("lost_s", DataType::Float64, true),
        Field::new("reason", DataType::Utf8, true),
        Field::new("tasks", DataType::UInt32, true),
        Field::new("processors", DataType::UInt32, true),
        Field::new("device_busy", DataType::Float64, true),
        Field::new("memory_free", DataType::Float64, true),
    ]))
});

/// The table of a cluster's nodes.
pub(crate) struct NodesTable(pub(crate) Arc<Members>);

impl NodesTable {
    fn rows(&self) -> Result<RecordBatch> {
        let urls = self.0.list.urls();
        let names: Vec<&str> = urls.iter().map(name).collect();
        let order = NodeOrder::new(names.iter().copied());
        let ordered = order.first(names.len()).map(|at| names[at]);
        let ordered: Vec<&str> = ordered.collect();
        let known: Vec<_> = ordered.iter().map(|name| self.0.suspect(name)).collect();
        let state = |is_lost| if is_lost { "lost" } else { "present" };
        let lost_s = known.iter().map(|known| {
            let since = known.as_ref().map(|known| known.since);
            since.map(|since| since.elapsed().as_secs_f64())
        });
        let reasons = known.iter().map(|known| {
            let known = known.as_ref();
            known.map(|known| known.reason.as_str())
        });
        let reports: Vec<_> = ordered
            .iter()
            .map(|name| self.0.loads.report(name))
            .collect();
        let numbers = |of: fn(&NodeReport) -> u32| {
            let numbers = reports.iter().map(|report| report.as_ref().map(of));
            Arc::new(UInt32Array::from_iter(numbers))
        };
        let parts = |of: fn(&NodeReport) -> u32| {
            let part = |report: &NodeReport| f64::from(of(report)) / 1000.0;
            let parts = reports.iter().map(|report| report.as_ref().map(part));
            Arc::new(Float64Array::from_iter(parts))
        };
        let columns: [Arc<dyn Array>; 9] = [
            Arc::new(UInt32Array::from_iter_values((1..).take(names.len()))),
            Arc::new(StringArray::from_iter_values(&ordered)),
            Arc::new(StringArray::from_iter_values(
                known.iter().map(|known| state(known.is_some())),
            )),
            Arc::new(Float64Array::from_iter(lost_s)),
            Arc::new(StringArray::from_iter(reasons)),
            numbers(|report| report.tasks),
            numbers(|report| report.processors),
            parts(|report| report.device_permille),
            parts(|report| report.free_permille),
        ];
        Ok(RecordBatch::try_new(Arc::clone(&SCHEMA), columns.to_vec())?)
    }
}

#[async_trait]
impl TableProvider for NodesTable {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&SCHEMA)
    }

    fn table_type(&self) -> TableType {
        TableType::View
    }

    async fn scan(
        &self,
        _: &dyn Session,
        projection: Option<&Vec<usize>>,
        _: &[Expr],
        _: Option<usize>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        self.0.look_up_in_time().await;
        self.0.ask_loads(&self.0.list.urls(), ASKED_AFTER).await;
        let rows = vec![vec![self.rows()?]];
        let projection = projection.cloned();
        let shown = MemorySourceConfig::try_new_exec(&rows, self.schema(), projection)?;
        Ok(shown)
    }
}

impl fmt::Debug for NodesTable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("NodesTable").field(&self.0).finish()
    }
}
