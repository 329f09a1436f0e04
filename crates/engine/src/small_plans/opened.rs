//! The tables of a plan, opened before it is planned.
//!
//! Which files a scan reads, and how many rows they have, is known only once its table has listed
//! them and read their footers, which DataFusion has it do while it plans. Here each scan is made
//! first. DataFusion then gets the plan with the scans that were made in place of the tables, so
//! that no file is listed twice.
//! Not here: what the sizes decide (`planner.rs`); one listing for several scans of a table
//! (`tables/one_listing.rs`). Their filters may differ, so that no scan stands for another.
//! Bounds: as many tables are opened at a time as DataFusion plans.

use std::sync::{Arc, OnceLock};

use arrow::array::RecordBatch;
use arrow::datatypes::SchemaRef;
use async_trait::async_trait;
use datafusion::catalog::{MemTable, ScanArgs, Session, TableProvider};
use datafusion::common::tree_node::Transformed;
use datafusion::datasource::memory::MemorySourceConfig;
use datafusion::datasource::physical_plan::FileGroup;
use datafusion::datasource::source::DataSourceExec;
use datafusion::datasource::{provider_as_source, source_as_provider};
use datafusion::error::Result;
use datafusion::logical_expr::expr_rewriter::unnormalize_cols;
use datafusion::logical_expr::{
    Expr, LogicalPlan, TableProviderFilterPushDown, TableScan, TableType,
};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::empty::EmptyExec;
use futures::future::try_join_all;

use crate::plan::needed_bytes;
use crate::read::parquet_scan;
use crate::session_names::MemoryTable;
use crate::tables::partitioned::files_of;

/// A scan of a plan, as a table whose scan is made once.
#[derive(Debug)]
pub(super) struct OpenedTable {
    /// What the plan asks of its table.
    asked: TableScan,
    table: Arc<dyn TableProvider>,
    made: OnceLock<Arc<dyn ExecutionPlan>>,
}

/// What a scan reads at most.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Size {
    pub(super) rows: u64,
    /// In its files or as arrays, whichever is more.
    pub(super) bytes: u64,
}

/// The table of a scan, if its size can be known: one of files, or one in memory.
pub(super) fn table_of(scan: &TableScan) -> Option<Arc<dyn TableProvider>> {
    let table = source_as_provider(&scan.source).ok()?;
    let is_known =
        files_of(table.as_ref()).is_some() || table.is::<MemoryTable>() || table.is::<MemTable>();
    is_known.then_some(table)
}

/// The plan with tables that are to be opened, and these.
pub(super) fn with_opened(plan: &LogicalPlan) -> Result<(LogicalPlan, Vec<Arc<OpenedTable>>)> {
    let mut tables = vec![];
    let plan = plan.clone().transform_down_with_subqueries(|node| {
        let scan = match node {
            LogicalPlan::TableScan(scan) => scan,
            node => return Ok(Transformed::no(node)),
        };
        let Some(table) = table_of(&scan) else {
            return Ok(Transformed::no(LogicalPlan::TableScan(scan)));
        };
        let table = Arc::new(OpenedTable {
            asked: scan.clone(),
            table,
            made: OnceLock::new(),
        });
        tables.push(Arc::clone(&table));
        let source = provider_as_source(table);
        Ok(Transformed::yes(LogicalPlan::TableScan(TableScan {
            source,
            ..scan
        })))
    });
    Ok((plan?.data, tables))
}

/// Makes the scans of these tables, for as many partitions as the session has.
///
/// # Errors
/// The first table's that cannot be opened.
pub(super) async fn open(
    tables: &[Arc<OpenedTable>],
    session: &dyn Session,
) -> Result<Vec<Arc<dyn ExecutionPlan>>> {
    let at_once = session.config_options().execution.planning_concurrency;
    let mut scans = Vec::with_capacity(tables.len());
    for some in tables.chunks(at_once.max(1)) {
        scans.extend(try_join_all(some.iter().map(|table| table.open(session))).await?);
    }
    Ok(scans)
}

impl OpenedTable {
    /// The scan as DataFusion would make it.
    async fn open(&self, session: &dyn Session) -> Result<Arc<dyn ExecutionPlan>> {
        let asked = &self.asked;
        let filters = unnormalize_cols(asked.filters.iter().cloned());
        let requests: Vec<_> = asked.statistics_requests.iter().cloned().collect();
        let arguments = ScanArgs::default()
            .with_projection(asked.projection.as_deref())
            .with_filters(Some(&filters))
            .with_limit(asked.fetch)
            .with_statistics_requests(&requests);
        let made = self.table.scan_with_args(session, arguments).await?;
        Ok(made.into_inner())
    }

    /// Has the table answer with this scan.
    pub(super) fn keep(&self, scan: Arc<dyn ExecutionPlan>) {
        let _ = self.made.set(scan);
    }
}

#[async_trait]
impl TableProvider for OpenedTable {
    fn schema(&self) -> SchemaRef {
        self.table.schema()
    }

    fn table_type(&self) -> TableType {
        self.table.table_type()
    }

    /// The table's: EXPLAIN shows by it which filters the scan has.
    fn supports_filters_pushdown(
        &self,
        filters: &[&Expr],
    ) -> Result<Vec<TableProviderFilterPushDown>> {
        self.table.supports_filters_pushdown(filters)
    }

    async fn scan(
        &self,
        session: &dyn Session,
        projection: Option<&Vec<usize>>,
        filters: &[Expr],
        limit: Option<usize>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        match self.made.get() {
            Some(made) => Ok(Arc::clone(made)),
            None => self.table.scan(session, projection, filters, limit).await,
        }
    }
}

/// The size of a scan; `None` if it is not known, if the scan says how its rows are divided, or if
/// it is of a table in memory of more than `rows_max` rows: their arrays are not measured.
pub(super) fn size(scan: &Arc<dyn ExecutionPlan>, rows_max: u64) -> Option<Size> {
    if scan.is::<EmptyExec>() {
        return Some(Size::default());
    }
    if let Some((files, source)) = parquet_scan(scan) {
        let rows = *files.statistics().num_rows.get_value()?;
        return files.output_partitioning.is_none().then(|| Size {
            rows: rows as u64,
            bytes: needed_bytes(files, source),
        });
    }
    let batches = || memory_scan(scan).map(|memory| memory.partitions().iter().flatten());
    let rows = batches()?.map(RecordBatch::num_rows).sum::<usize>() as u64;
    if rows > rows_max {
        return None;
    }
    let bytes: usize = batches()?.map(RecordBatch::get_array_memory_size).sum();
    Some(Size {
        rows,
        bytes: bytes as u64,
    })
}

/// The scan of a table in memory that promises no order.
fn memory_scan(scan: &Arc<dyn ExecutionPlan>) -> Option<&MemorySourceConfig> {
    let source = scan.downcast_ref::<DataSourceExec>()?.data_source();
    let memory = source.downcast_ref::<MemorySourceConfig>()?;
    memory.sort_information().is_empty().then_some(memory)
}

/// The scan, with all its files or batches in one partition. Files stay in their order; batches
/// come in the order in which they were inserted, in turn from each partition.
///
/// # Errors
/// If the projection of a table in memory is not one of its columns: a bug.
pub(super) fn in_one_partition(scan: Arc<dyn ExecutionPlan>) -> Result<Arc<dyn ExecutionPlan>> {
    if let Some((files, _)) = parquet_scan(&scan)
        && files.file_groups.len() > 1
    {
        let mut files = files.clone();
        let statistics = Arc::new(files.statistics());
        let groups = std::mem::take(&mut files.file_groups);
        let all = groups.into_iter().flat_map(FileGroup::into_inner);
        files.file_groups = vec![FileGroup::new(all.collect()).with_statistics(statistics)];
        return Ok(DataSourceExec::from_data_source(files));
    }
    if let Some(memory) = memory_scan(&scan)
        && memory.partitions().len() > 1
    {
        let all = in_turn(memory.partitions());
        let (schema, projection) = (memory.original_schema(), memory.projection().clone());
        let one = MemorySourceConfig::try_new(&[all], schema, projection)?;
        let one = one.with_show_sizes(memory.show_sizes());
        return Ok(DataSourceExec::from_data_source(one));
    }
    Ok(scan)
}

fn in_turn(partitions: &[Vec<RecordBatch>]) -> Vec<RecordBatch> {
    let longest = partitions.iter().map(Vec::len).max().unwrap_or(0);
    let all = (0..longest).flat_map(|at| partitions.iter().filter_map(move |of| of.get(at)));
    all.cloned().collect()
}

#[cfg(test)]
mod tests {
    use arrow::array::{ArrayRef, Int32Array};

    use super::*;

    fn batch(n: i32) -> RecordBatch {
        let column: ArrayRef = Arc::new(Int32Array::from(vec![n]));
        RecordBatch::try_from_iter([("n", column)]).unwrap()
    }

    #[test]
    fn batches_in_memory_become_one_partition_in_the_order_of_their_inserts() {
        let partitions = [vec![batch(1), batch(4)], vec![batch(2)], vec![batch(3)]];
        let schema = batch(1).schema();
        let scan = MemorySourceConfig::try_new_exec(&partitions, schema, None).unwrap();
        let scan: Arc<dyn ExecutionPlan> = scan;
        assert_eq!(size(&scan, 3), None, "more rows than are few");
        let before = size(&scan, 4);
        assert_eq!(before.map(|size| size.rows), Some(4));
        let one = in_one_partition(scan).unwrap();
        assert_eq!(size(&one, 4), before);
        let expected = [1, 2, 3, 4].map(batch);
        assert_eq!(memory_scan(&one).unwrap().partitions(), [expected.to_vec()]);
    }
}
