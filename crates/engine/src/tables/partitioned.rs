//! Which values do partition columns have, whose folders are named `key=value`?
//!
//! DataFusion treats the names of folders as text, so `p=10` sorts before `p=2`, and Hive's folder
//! `__HIVE_DEFAULT_PARTITION__` is a text, too. Here a partition column has the type that all its
//! values have when the table is created: whole number, date, or else text; and Hive's folder
//! stands for NULL. DataFusion's table, whose partition columns are text, lists the files; this
//! table converts their values and prunes files by them.
//! Not here: which folders a table has (`registration.rs`).
//! P1: a text is a number only in that number's usual form: one with a leading zero or plus sign
//! is text.
//! P2: a file in a folder whose value does not have the column's type is an error that names it.

use std::fmt;
use std::sync::Arc;

use arrow::datatypes::{DataType, Field, FieldRef, Schema, SchemaRef};
use async_trait::async_trait;
use datafusion::catalog::{Session, TableProvider};
use datafusion::common::stats::Precision;
use datafusion::common::{
    ColumnStatistics, DFSchema, ScalarValue, SchemaExt, Statistics, project_schema,
};
use datafusion::datasource::TableType;
use datafusion::datasource::listing::helpers::{
    expr_applicable_for_cols, filter_partitioned_file, parse_partitions_for_path,
};
use datafusion::datasource::listing::{ListingTable, ListingTableConfig, PartitionedFile};
use datafusion::datasource::physical_plan::{FileGroup, FileScanConfigBuilder};
use datafusion::datasource::table_schema::TableSchema;
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::SessionState;
use datafusion::logical_expr::dml::InsertOp;
use datafusion::logical_expr::{Expr, TableProviderFilterPushDown};
use datafusion::physical_expr::expressions::{CastExpr, Column};
use datafusion::physical_expr::{LexOrdering, PhysicalExpr};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::empty::EmptyExec;
use datafusion::physical_plan::projection::ProjectionExec;
use futures::TryStreamExt;

use super::HIVE_NULL;
use crate::object_stores::joint_store::written;

/// A table of files in folders named `key=value`.
pub(crate) struct PartitionedTable {
    /// The same files, with partition columns of type text.
    listing: ListingTable,
    schema: SchemaRef,
    file_schema: SchemaRef,
    /// The partition columns.
    partitions: Vec<FieldRef>,
}

/// DataFusion's table of the files behind an engine's table; `None` for tables without files. Its
/// partition columns may have other types.
#[must_use]
pub fn files_of(table: &dyn TableProvider) -> Option<&ListingTable> {
    table.downcast_ref::<ListingTable>().or_else(|| {
        let table = table.downcast_ref::<PartitionedTable>();
        table.map(|table| &table.listing)
    })
}

impl PartitionedTable {
    /// The table with typed partition columns, if it has some; otherwise the table itself.
    ///
    /// # Errors
    /// The store's.
    pub(super) async fn over(
        state: &SessionState,
        table: ListingTable,
    ) -> Result<Arc<dyn TableProvider>> {
        let declared = &table.options().table_partition_cols;
        if declared.is_empty() {
            return Ok(Arc::new(table));
        }
        let schema = table.schema();
        let files = schema.fields().len() - declared.len();
        let file_schema = Arc::new(Schema::new(schema.fields()[..files].to_vec()));
        let types = types(state, &table).await?;
        let partitions = declared.iter().zip(types).map(|((name, declared), found)| {
            let data_type = if is_text(declared) {
                found
            } else {
                declared.clone()
            };
            Arc::new(Field::new(name, data_type, true))
        });
        let partitions: Vec<FieldRef> = partitions.collect();
        let mut options = table.options().clone();
        for (_, data_type) in &mut options.table_partition_cols {
            *data_type = DataType::Utf8;
        }
        let config = ListingTableConfig::new_with_multi_paths(table.table_paths().clone())
            .with_listing_options(options)
            .with_schema(Arc::clone(&file_schema));
        let cache = state.runtime_env().cache_manager.get_file_statistic_cache();
        let definition = table.get_table_definition().map(ToOwned::to_owned);
        let listing = ListingTable::try_new(config)?
            .with_cache(cache)
            .with_definition(definition);
        let fields = file_schema.fields().iter().chain(&partitions).cloned();
        Ok(Arc::new(Self {
            listing,
            schema: Arc::new(Schema::new(fields.collect::<Vec<_>>())),
            file_schema,
            partitions,
        }))
    }

    /// The table without the text of its declaration.
    pub(crate) fn without_definition(&self) -> Self {
        Self {
            listing: self.listing.clone().with_definition(None),
            schema: Arc::clone(&self.schema),
            file_schema: Arc::clone(&self.file_schema),
            partitions: self.partitions.clone(),
        }
    }

    /// A listed file, with the values of its folders in the columns' types.
    fn typed(&self, mut file: PartitionedFile) -> Result<PartitionedFile> {
        let texts = std::mem::take(&mut file.partition_values);
        for (text, column) in texts.iter().zip(&self.partitions) {
            let value = value_of(text, column.data_type()).ok_or_else(|| {
                let store = self.listing.table_paths().first();
                let store =
                    store.map(datafusion::datasource::listing::ListingTableUrl::object_store);
                let name = store.map(|store| written(&store, &file.object_meta.location));
                DataFusionError::Execution(format!(
                    "{}: the value of column {:?} is no {}",
                    name.unwrap_or_default(),
                    column.name(),
                    column.data_type()
                ))
            })?;
            file.partition_values.push(value);
        }
        if let Some(known) = file.statistics.take() {
            let mut known = Arc::unwrap_or_clone(known);
            known
                .column_statistics
                .truncate(self.file_schema.fields().len());
            let rows = known.num_rows;
            let values = file.partition_values.iter();
            known
                .column_statistics
                .extend(values.map(|value| constant(value, rows)));
            file.statistics = Some(Arc::new(known));
        }
        Ok(file)
    }

    /// The files for which these filters over partition columns may be true.
    async fn files(&self, state: &dyn Session, filters: &[Expr]) -> Result<Vec<PartitionedFile>> {
        let listed = self.listing.list_files_for_scan(state, &[], None).await?;
        let fields = self.partitions.clone();
        let schema = DFSchema::try_from(Schema::new(fields))?;
        let mut files = Vec::new();
        for file in listed
            .file_groups
            .into_iter()
            .flat_map(FileGroup::into_inner)
        {
            let typed = self.typed(file)?;
            files.extend(filter_partitioned_file(typed, filters, &schema)?);
        }
        Ok(files)
    }
}

fn is_text(data_type: &DataType) -> bool {
    match data_type {
        DataType::Dictionary(_, value) => is_text(value),
        other => other.is_string(),
    }
}

/// The type of a partition column of text: each file has one value. The keys are those of other
/// dictionary columns (`read/wide_keys.rs`).
fn text_type() -> DataType {
    DataType::Dictionary(Box::new(DataType::Int32), Box::new(DataType::Utf8))
}

/// The types of the partition columns, from the names of all folders.
async fn types(state: &SessionState, table: &ListingTable) -> Result<Vec<DataType>> {
    let names = table.options().table_partition_cols.iter();
    let names: Vec<&str> = names.map(|(name, _)| name.as_str()).collect();
    // Per column: whether all values are numbers, whether all are dates, whether there is a value.
    let mut seen = vec![(true, true, false); names.len()];
    for url in table.table_paths() {
        let store = state.runtime_env().object_store(url)?;
        let extension = &table.options().file_extension;
        let mut files = url.list_all_files(state, store.as_ref(), extension).await?;
        while let Some(file) = files.try_next().await? {
            let names = names.iter().copied();
            let Some(values) = parse_partitions_for_path(url, &file.location, names) else {
                continue;
            };
            for (text, (number, date, any)) in values.iter().zip(&mut seen) {
                if text.as_ref() == HIVE_NULL {
                    continue;
                }
                *any = true;
                *number &= whole(text).is_some();
                *date &= day(text).is_some();
            }
        }
    }
    let types = seen.into_iter().map(|seen| match seen {
        (true, _, true) => DataType::Int64,
        (_, true, true) => DataType::Date32,
        _ => text_type(),
    });
    Ok(types.collect())
}

fn whole(text: &str) -> Option<i64> {
    let number: i64 = text.parse().ok()?;
    (number.to_string() == text).then_some(number)
}

fn day(text: &str) -> Option<ScalarValue> {
    let digits = |at: std::ops::Range<usize>| {
        text.get(at)
            .is_some_and(|part| part.bytes().all(|byte| byte.is_ascii_digit()))
    };
    let dashes = text.get(4..5) == Some("-") && text.get(7..8) == Some("-");
    if text.len() != 10 || !dashes || !digits(0..4) || !digits(5..7) || !digits(8..10) {
        return None;
    }
    ScalarValue::try_from_string(text.to_owned(), &DataType::Date32).ok()
}

/// A folder's value in the column's type.
fn value_of(text: &ScalarValue, data_type: &DataType) -> Option<ScalarValue> {
    let text = text.try_as_str().flatten()?;
    if text == HIVE_NULL {
        return ScalarValue::try_from(data_type).ok();
    }
    ScalarValue::try_from_string(text.to_owned(), data_type).ok()
}

/// The statistics of a column that has one value.
fn constant(value: &ScalarValue, rows: Precision<usize>) -> ColumnStatistics {
    let mut column = ColumnStatistics::new_unknown();
    if value.is_null() {
        column.null_count = rows;
        return column;
    }
    column.null_count = Precision::Exact(0);
    column.min_value = Precision::Exact(value.clone());
    column.max_value = Precision::Exact(value.clone());
    if let Some(width) = value.data_type().primitive_width() {
        column.byte_size = rows.multiply(&Precision::Exact(width));
    }
    column
}

/// The order that all files share.
fn common_order(files: &[PartitionedFile]) -> Vec<LexOrdering> {
    let (Some(first), rest) = (files.first(), files.get(1..).unwrap_or_default()) else {
        return vec![];
    };
    let same = rest.iter().all(|file| file.ordering == first.ordering);
    first.ordering.iter().filter(|_| same).cloned().collect()
}

#[async_trait]
impl TableProvider for PartitionedTable {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }

    fn table_type(&self) -> TableType {
        TableType::Base
    }

    fn get_table_definition(&self) -> Option<&str> {
        self.listing.get_table_definition()
    }

    fn supports_filters_pushdown(
        &self,
        filters: &[&Expr],
    ) -> Result<Vec<TableProviderFilterPushDown>> {
        Ok(vec![TableProviderFilterPushDown::Inexact; filters.len()])
    }

    async fn scan(
        &self,
        state: &dyn Session,
        projection: Option<&Vec<usize>>,
        filters: &[Expr],
        limit: Option<usize>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let names: Vec<&str> = self.partitions.iter().map(|f| f.name().as_str()).collect();
        let on_partitions = filters.iter();
        let on_partitions = on_partitions.filter(|filter| expr_applicable_for_cols(&names, filter));
        let on_partitions: Vec<Expr> = on_partitions.cloned().collect();
        let files = self.files(state, &on_partitions).await?;
        let Some(store) = self
            .listing
            .table_paths()
            .first()
            .filter(|_| !files.is_empty())
        else {
            let schema = project_schema(&self.schema, projection)?;
            return Ok(Arc::new(EmptyExec::new(schema)));
        };
        let store = store.object_store();
        let order = common_order(&files);
        let known = files.iter().filter_map(|file| file.statistics.clone());
        let known: Vec<Arc<Statistics>> = known.collect();
        let statistics = if known.len() == files.len() {
            Statistics::try_merge_iter(known.iter().map(Arc::as_ref), &self.schema)?
        } else {
            Statistics::new_unknown(&self.schema)
        };
        let partitions = state.config().target_partitions();
        let groups = FileGroup::new(files).split_files(partitions);
        let format = &self.listing.options().format;
        let table = TableSchema::builder(Arc::clone(&self.file_schema))
            .with_table_partition_cols(self.partitions.clone())
            .build();
        let scan = FileScanConfigBuilder::new(store, format.file_source(table))
            .with_file_groups(groups)
            .with_statistics(statistics)
            .with_projection_indices(projection.cloned())?
            .with_limit(limit)
            .with_output_ordering(order)
            .build();
        format.create_physical_plan(state, scan).await
    }

    async fn insert_into(
        &self,
        state: &dyn Session,
        input: Arc<dyn ExecutionPlan>,
        op: InsertOp,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        self.schema
            .logically_equivalent_names_and_types(&input.schema())?;
        let files = self.file_schema.fields().len();
        let named = input.schema();
        let exprs = named.fields().iter().enumerate().map(|(at, field)| {
            let column: Arc<dyn PhysicalExpr> = Arc::new(Column::new(field.name(), at));
            let expr = if at < files {
                column
            } else {
                Arc::new(CastExpr::new(column, DataType::Utf8, None))
            };
            (expr, field.name().clone())
        });
        let exprs: Vec<(Arc<dyn PhysicalExpr>, String)> = exprs.collect();
        let input = Arc::new(ProjectionExec::try_new(exprs, input)?);
        self.listing.insert_into(state, input, op).await
    }
}

impl fmt::Debug for PartitionedTable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PartitionedTable")
            .field("partitions", &self.partitions)
            .finish_non_exhaustive()
    }
}
