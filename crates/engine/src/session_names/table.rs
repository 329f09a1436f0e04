//! A table in memory, with every byte accounted for.
//!
//! DataFusion's `MemTable` holds the batches and is scanned, but it does not account for memory,
//! and it deletes and updates only by the filters of a statement, which may not be all of its
//! predicate. A batch counts with all buffers that it keeps alive, even shared ones.
//! Not here: which rows a DELETE or UPDATE changes (`change/`), constraints (`unique.rs`), other
//! columns (`columns.rs`).
//! O4: a table's `held` covers the bytes of its batches, and of those that a [`Kept`] may restore.
//! Until they appear, the bytes of a change are its query's.
//! O7: a scan sees all of a change or none of it.
//! O10: nothing is written to a table whose name ALTER TABLE has given to another one.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use arrow::array::{Array, ArrayRef, AsArray, RecordBatch};
use arrow::datatypes::{Schema, SchemaRef};
use async_trait::async_trait;
use coscan_pg::PgError;
use datafusion::catalog::{MemTable, Session, TableProvider};
use datafusion::common::utils::memory::get_record_batch_memory_size;
use datafusion::common::{Constraints, SchemaExt, not_impl_err};
use datafusion::datasource::memory::MemorySourceConfig;
use datafusion::datasource::sink::{DataSink, DataSinkExec};
use datafusion::datasource::source::DataSourceExec;
use datafusion::error::Result;
use datafusion::execution::memory_pool::MemoryPool;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::logical_expr::dml::InsertOp;
use datafusion::logical_expr::{Expr, TableType};
use datafusion::physical_plan::{DisplayAs, DisplayFormatType, ExecutionPlan};
use futures::StreamExt;
use tokio::sync::{Mutex, OwnedMutexGuard};
use tokio::task::coop::consume_budget;

use super::allowance::{Growth, Held};
use super::columns::Columns;
use super::unique::{self, Keys, has_key_of};
use crate::commit_point::Run;
use crate::statement::Check;

/// Makes new batches from those of a partition, given its number; `None` for an unchanged batch.
type NewBatches<'a> = dyn Fn(usize, &[RecordBatch]) -> Result<Vec<Option<RecordBatch>>> + Sync + 'a;

/// The bytes of a batch without its buffers.
const BATCH_BYTES: usize = 512;

/// The bytes that a batch keeps in memory.
pub(super) fn bytes_of(batch: &RecordBatch) -> usize {
    let columns = batch.num_columns() * size_of::<arrow::array::ArrayData>();
    get_record_batch_memory_size(batch) + columns + BATCH_BYTES
}

/// A table of a session or of an engine. Clones share the table.
#[derive(Clone)]
pub(crate) struct MemoryTable {
    inner: Arc<MemTable>,
    /// The name in messages.
    name: Arc<str>,
    /// Whether a READ ONLY transaction may change it.
    is_temporary: bool,
    held: Arc<Held>,
    /// The number of changes and deletions so far. Locked while the table is changed or copied.
    version: Arc<Mutex<u64>>,
    retained: Arc<parking_lot::Mutex<Retained>>,
    /// The primary key and the unique constraints, also those of which DataFusion is not told (U2).
    constraints: Arc<Constraints>,
    /// The CHECK constraints, by name: the order in which PostgreSQL checks them.
    checks: Arc<[Check]>,
    /// The keys of all rows, if they are known.
    keys: Arc<parking_lot::Mutex<Option<Keys>>>,
    /// Whether another table has taken its name (O10). Set under the lock of `version`.
    replaced: Arc<AtomicBool>,
}

/// While it exists, a table is neither changed nor copied.
pub(super) type Unchanged = OwnedMutexGuard<u64>;

/// Batches that no longer belong to the table.
#[derive(Debug, Default)]
struct Retained {
    /// The number of [`Kept`]s.
    keepers: usize,
    /// The bytes of batches that the table lost since the first [`Kept`].
    bytes: usize,
}

/// A statement that changes a table: whose memory it uses, and up to when it can be given up.
pub(super) struct Change {
    pool: Arc<dyn MemoryPool>,
    run: Arc<Run>,
}

impl Change {
    pub(super) fn of(context: &TaskContext) -> Self {
        Self {
            pool: Arc::clone(context.memory_pool()),
            run: Run::of(context.session_config()),
        }
    }

    /// Starts a growth of the table.
    pub(super) fn growth(&self, table: &MemoryTable) -> Growth {
        table.held.growth_in(&self.pool)
    }
}

/// The rows that a table had at some time.
pub(super) struct Kept {
    table: MemoryTable,
    /// `None` once they are restored.
    partitions: Option<Vec<Vec<RecordBatch>>>,
}

impl Kept {
    /// Restores the rows, once. Dropping the future before that changes nothing.
    pub(super) async fn restore(&mut self) {
        let table = &self.table;
        let mut version = table.version.lock().await;
        let mut partitions = Vec::with_capacity(table.inner.batches.len());
        for partition in &table.inner.batches {
            partitions.push(partition.write().await);
        }
        // Nothing waits from here on.
        let Some(saved) = self.partitions.take() else {
            return;
        };
        let (mut before, mut after) = (0, 0);
        for (mut batches, saved) in partitions.into_iter().zip(saved) {
            before += batches.iter().map(bytes_of).sum::<usize>();
            after += saved.iter().map(bytes_of).sum::<usize>();
            *batches = saved;
        }
        *version += 1;
        *table.keys.lock() = None;
        // It has its name again: names are restored before rows.
        table.replaced.store(false, Ordering::Relaxed);
        let mut retained = table.retained.lock();
        retained.bytes = (retained.bytes + before).saturating_sub(after);
    }
}

impl Drop for Kept {
    fn drop(&mut self) {
        let mut retained = self.table.retained.lock();
        retained.keepers -= 1;
        if retained.keepers == 0 {
            self.table.held.shrink(std::mem::take(&mut retained.bytes));
        }
    }
}

impl MemoryTable {
    /// A table of batches whose memory `held` has already taken.
    ///
    /// # Errors
    /// `Plan`, if a batch does not have the schema; the errors of constraints.
    pub(super) fn try_new(
        name: &str,
        schema: SchemaRef,
        mut partitions: Vec<Vec<RecordBatch>>,
        held: Arc<Held>,
        constraints: Constraints,
        defaults: HashMap<String, Expr>,
    ) -> Result<Self> {
        if partitions.is_empty() {
            partitions.push(vec![]);
        }
        unique::check_types(&constraints, &schema)?;
        let mut keys = Keys::new(&constraints, held.growth());
        keys.add(name, &constraints, &schema, &partitions.iter().flatten())?;
        Self::of_kept(name, schema, partitions, held, constraints, defaults)
    }

    /// As [`MemoryTable::try_new`], of one partition or more, whose rows keep the constraints (U1).
    fn of_kept(
        name: &str,
        schema: SchemaRef,
        partitions: Vec<Vec<RecordBatch>>,
        held: Arc<Held>,
        constraints: Constraints,
        defaults: HashMap<String, Expr>,
    ) -> Result<Self> {
        let told = unique::determining(&constraints, &schema);
        let table = MemTable::try_new(schema, partitions)?;
        let table = table.with_constraints(told);
        Ok(Self {
            name: name.into(),
            is_temporary: false,
            inner: Arc::new(table.with_column_defaults(defaults)),
            held,
            version: Arc::default(),
            retained: Arc::default(),
            constraints: Arc::new(constraints),
            checks: Arc::default(),
            keys: Arc::default(),
            replaced: Arc::default(),
        })
    }

    /// A table of these columns with this one's rows, whose memory `held` takes. Both tables share
    /// the columns that stay, and each counts them. Their keys are compared only if there are new
    /// ones. This table stays as it is until it is retired or the returned lock is dropped.
    ///
    /// # Errors
    /// 23502 and 23505 if the rows do not keep new constraints; 40001 if another table has this
    /// one's name; `ResourcesExhausted` without memory for both tables.
    pub(super) async fn with_columns(
        &self,
        columns: &Columns,
        held: Arc<Held>,
    ) -> Result<(Self, Unchanged)> {
        let unchanged = Arc::clone(&self.version).lock_owned().await;
        self.check_current()?;
        let schema = columns.schema();
        let mut growth = held.growth();
        let mut partitions = self.partitions().await;
        for batch in partitions.iter_mut().flatten() {
            columns.check_nulls(&self.name, batch)?;
            *batch = columns.batch(&schema, batch)?;
            growth.add(bytes_of(batch))?;
            // Others have their turn, and the statement can be given up.
            consume_budget().await;
        }
        growth.keep();
        let (constraints, defaults) = (columns.constraints(), columns.defaults());
        if columns.adds_keys() {
            unique::check_new(
                &self.name,
                &constraints,
                &schema,
                &partitions,
                held.growth(),
            )?;
        }
        let table = Self::of_kept(&self.name, schema, partitions, held, constraints, defaults)?;
        let table = table.with_checks(columns.checks().to_vec());
        Ok((table.with_temporary(self.is_temporary), unchanged))
    }

    /// Has all later changes fail, because another table has taken this one's name. `unchanged` is
    /// this table's lock.
    pub(super) fn retire(&self, unchanged: Unchanged) {
        self.replaced.store(true, Ordering::Relaxed);
        drop(unchanged);
    }

    /// Checks that a change would be seen (O10): a portal may be bound before an ALTER TABLE and
    /// executed after it.
    ///
    /// # Errors
    /// 40001.
    pub(super) fn check_current(&self) -> Result<()> {
        if self.replaced.load(Ordering::Relaxed) {
            return Err(concurrent_update().into());
        }
        Ok(())
    }

    /// The table with other CHECK constraints, which its rows keep.
    pub(super) fn with_checks(self, mut checks: Vec<Check>) -> Self {
        checks.sort_by(|one, other| one.name().cmp(other.name()));
        Self {
            checks: checks.into(),
            ..self
        }
    }

    pub(super) fn checks(&self) -> &[Check] {
        &self.checks
    }

    pub(super) fn with_temporary(self, is_temporary: bool) -> Self {
        Self {
            is_temporary,
            ..self
        }
    }

    pub(super) fn is_temporary(&self) -> bool {
        self.is_temporary
    }

    /// Whether two tables are the same one, possibly under two names.
    pub(super) fn are_one(one: &dyn TableProvider, other: &dyn TableProvider) -> bool {
        let inner = |table: &dyn TableProvider| {
            let table = table.downcast_ref::<Self>();
            table.map(|table| Arc::clone(&table.inner))
        };
        match (inner(one), inner(other)) {
            (Some(one), Some(other)) => Arc::ptr_eq(&one, &other),
            _ => false,
        }
    }

    /// The same table under another name, if it is one in memory, which knows its name; any other
    /// table as it is.
    pub(super) fn renamed(table: Arc<dyn TableProvider>, name: &str) -> Arc<dyn TableProvider> {
        match table.downcast_ref::<Self>() {
            Some(rows) => Arc::new(Self {
                name: name.into(),
                ..rows.clone()
            }),
            None => table,
        }
    }

    /// Checks values for a column.
    ///
    /// # Errors
    /// 23502, if there is a NULL among them and the column is NOT NULL.
    pub(super) fn check_not_null(&self, column: usize, values: &dyn Array) -> Result<()> {
        let schema = self.inner.schema();
        let field = schema.field(column);
        if field.is_nullable() || values.logical_null_count() == 0 {
            return Ok(());
        }
        let told = format!(
            "null value in column \"{}\" of relation \"{}\" violates not-null constraint",
            field.name(),
            self.name
        );
        Err(PgError::new("23502", told).into())
    }

    /// Checks rows for the table, given a column for each check that says which rows violate it
    /// (`change/checked.rs`). Rows that do not count are passed over.
    ///
    /// # Errors
    /// 23514, for the first row that violates a check.
    pub(super) fn check_rows(
        &self,
        violations: &[ArrayRef],
        counts: impl Fn(usize) -> bool,
    ) -> Result<()> {
        let first = |violated: &ArrayRef| {
            let violated = violated.as_boolean_opt()?;
            let mut rows = 0..violated.len();
            rows.find(|row| violated.is_valid(*row) && violated.value(*row) && counts(*row))
        };
        let broken = self.checks.iter().zip(violations);
        let broken = broken.filter_map(|(check, violated)| Some((first(violated)?, check)));
        let Some((_, check)) = broken.min_by_key(|(row, _)| *row) else {
            return Ok(());
        };
        let told = format!(
            "new row for relation \"{}\" violates check constraint \"{}\"",
            self.name,
            check.name()
        );
        Err(PgError::new("23514", told).into())
    }

    /// Appends batches, in turn to each partition.
    ///
    /// # Errors
    /// Those of constraints; 40001 if another table has this one's name; 57014 if the statement
    /// was given up.
    async fn append(
        &self,
        batches: Vec<RecordBatch>,
        growth: Growth,
        change: &Change,
    ) -> Result<()> {
        let _alone = self.version.lock().await;
        self.check_current()?;
        let known = self.keys.lock().take();
        let keys = match self.key_constraints() {
            Some(_) if known.is_some() => self.keys_with(known, &batches.iter())?,
            Some(_) => {
                let before = self.partitions().await;
                self.keys_with(None, &before.iter().flatten().chain(&batches))?
            }
            None => None,
        };
        let partitions = self.inner.batches.len();
        let mut parts = vec![vec![]; partitions];
        let mut before = 0;
        for partition in &self.inner.batches {
            before += partition.read().await.len();
        }
        for (n, batch) in batches.into_iter().enumerate() {
            parts[(before + n) % partitions].push(batch);
        }
        change.run.reach()?;
        for (partition, mut batches) in self.inner.batches.iter().zip(parts) {
            partition.write().await.append(&mut batches);
        }
        growth.keep();
        *self.keys.lock() = keys;
        Ok(())
    }

    /// The primary key and the unique constraints.
    pub(super) fn all_keys(&self) -> &Constraints {
        &self.constraints
    }

    fn key_constraints(&self) -> Option<&Constraints> {
        let constraints = self.all_keys();
        (!constraints.is_empty()).then_some(constraints)
    }

    /// The known keys together with those of more rows, if these keep the constraints (U1).
    fn keys_with<'a>(
        &self,
        known: Option<Keys>,
        batches: &(impl Iterator<Item = &'a RecordBatch> + Clone),
    ) -> Result<Option<Keys>> {
        let Some(constraints) = self.key_constraints() else {
            return Ok(None);
        };
        let mut keys = known.unwrap_or_else(|| Keys::new(constraints, self.held.growth()));
        keys.add(&self.name, constraints, &self.schema(), batches)?;
        Ok(Some(keys))
    }

    /// The version, and the batches of each partition in it.
    pub(super) async fn snapshot(&self) -> (u64, Vec<Vec<RecordBatch>>) {
        let version = self.version.lock().await;
        (*version, self.partitions().await)
    }

    /// Keeps the current rows, to restore them later.
    pub(super) async fn keep(&self) -> Kept {
        let _alone = self.version.lock().await;
        let partitions = self.partitions().await;
        self.retained.lock().keepers += 1;
        Kept {
            table: self.clone(),
            partitions: Some(partitions),
        }
    }

    /// Keeps all who change, copy or scan the table waiting.
    #[cfg(test)]
    pub(crate) async fn locked(&self) -> OwnedMutexGuard<u64> {
        Arc::clone(&self.version).lock_owned().await
    }

    async fn partitions(&self) -> Vec<Vec<RecordBatch>> {
        let mut partitions = Vec::with_capacity(self.inner.batches.len());
        for partition in &self.inner.batches {
            partitions.push(partition.read().await.clone());
        }
        partitions
    }

    /// Gives back the bytes of batches that the table lost.
    fn give_back(&self, bytes: usize) {
        let mut retained = self.retained.lock();
        if retained.keepers == 0 {
            self.held.shrink(bytes);
        } else {
            retained.bytes += bytes;
        }
    }

    /// Exchanges the batches of each partition for those that `new` makes, all or none.
    /// `columns` are those that get new values; `None` if rows are deleted.
    ///
    /// # Errors
    /// Those of `new`; 40001 if `version` is not the current one, or another table has this one's
    /// name; `ResourcesExhausted` if there is no memory for the old and the new batches; 57014 if
    /// the statement was given up.
    pub(super) async fn exchange(
        &self,
        version: Option<u64>,
        columns: Option<&[usize]>,
        new: &NewBatches<'_>,
        change: &Change,
    ) -> Result<()> {
        let mut current = self.version.lock().await;
        self.check_current()?;
        if version != Some(*current) {
            return Err(concurrent_update().into());
        }
        let mut growth = change.growth(self);
        let mut changed = Vec::with_capacity(self.inner.batches.len());
        for (number, partition) in self.inner.batches.iter().enumerate() {
            let new = new(number, &partition.read().await)?;
            for batch in new.iter().flatten() {
                growth.add(bytes_of(batch))?;
            }
            changed.push(new);
        }
        let constraints = self.key_constraints();
        match columns {
            None => *self.keys.lock() = None,
            Some(columns) if constraints.is_some_and(|all| has_key_of(all, columns)) => {
                *self.keys.lock() = None;
                let before = self.partitions().await;
                let after = before.iter().flatten().zip(changed.iter().flatten());
                let after = after.map(|(old, new)| new.as_ref().unwrap_or(old));
                self.keys_with(None, &after)?;
            }
            // No key has changed.
            Some(_) => {}
        }
        change.run.reach()?;
        let mut freed = 0;
        for (partition, new) in self.inner.batches.iter().zip(changed) {
            let mut batches = partition.write().await;
            for (batch, new) in batches.iter_mut().zip(new) {
                if let Some(new) = new {
                    freed += bytes_of(batch);
                    *batch = new;
                }
            }
            batches.retain(|batch| {
                let stays = batch.num_rows() > 0;
                freed += if stays { 0 } else { bytes_of(batch) };
                stays
            });
        }
        growth.keep();
        self.give_back(freed);
        *current += 1;
        Ok(())
    }
}

#[async_trait]
impl TableProvider for MemoryTable {
    fn schema(&self) -> SchemaRef {
        self.inner.schema()
    }

    /// Those by which a plan may leave out columns of GROUP BY (U2).
    fn constraints(&self) -> Option<&Constraints> {
        self.inner.constraints()
    }

    fn table_type(&self) -> TableType {
        TableType::Base
    }

    async fn scan(
        &self,
        session: &dyn Session,
        projection: Option<&Vec<usize>>,
        filters: &[Expr],
        limit: Option<usize>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let _alone = self.version.lock().await;
        if let Some(rows) = limit
            && filters.is_empty()
        {
            let first = first_rows(&self.partitions().await, rows);
            let schema = self.schema();
            let scan = MemorySourceConfig::try_new_exec(&[first], schema, projection.cloned())?;
            return Ok(scan);
        }
        let mut partitions = self.partitions().await;
        // A table of few rows has them in one batch. Were its other partitions scanned too, it
        // might be grouped in two steps and sorted in parts that are merged.
        partitions.retain(|batches| batches.iter().any(|batch| batch.num_rows() > 0));
        if partitions.is_empty() {
            partitions.push(vec![]);
        }
        let scan = MemorySourceConfig::try_new(&partitions, self.schema(), projection.cloned())?;
        let shows_sizes = session.config_options().explain.show_sizes;
        let scan = scan.with_show_sizes(shows_sizes);
        Ok(DataSourceExec::from_data_source(scan))
    }

    async fn insert_into(
        &self,
        _: &dyn Session,
        input: Arc<dyn ExecutionPlan>,
        op: InsertOp,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let (schema, given) = (self.schema(), input.schema());
        let width = schema.fields().len();
        let own: Vec<usize> = (0..given.fields().len().min(width)).collect();
        schema.logically_equivalent_names_and_types(&given.project(&own)?)?;
        if op != InsertOp::Append {
            return not_impl_err!("{op} not implemented for tables in memory");
        }
        // The rule that adds the columns of checks is that of Coscan's sessions.
        if given.fields().len() != width + self.checks.len() {
            return not_impl_err!("INSERT into a table with CHECK constraints in this session");
        }
        // The sink accepts NULLs, so that it can refuse them with the column's name.
        let fields = schema.fields().iter().chain(&given.fields()[width..]);
        let fields = fields.map(|field| field.as_ref().clone().with_nullable(true));
        let sink = Arc::new(Sink {
            table: self.clone(),
            schema: Arc::new(Schema::new(fields.collect::<Vec<_>>())),
        });
        Ok(Arc::new(DataSinkExec::new(input, sink, None)))
    }

    fn get_column_default(&self, column: &str) -> Option<&Expr> {
        self.inner.get_column_default(column)
    }
}

fn concurrent_update() -> PgError {
    PgError::new(
        "40001",
        "could not serialize access due to concurrent update",
    )
}

/// The batches of the rows that were inserted first, at least so many. Batches went to each
/// partition in turn, so what is not deleted is found in its order.
fn first_rows(partitions: &[Vec<RecordBatch>], rows: usize) -> Vec<RecordBatch> {
    let longest = partitions.iter().map(Vec::len).max().unwrap_or(0);
    let in_turn = (0..longest).flat_map(|at| partitions.iter().filter_map(move |of| of.get(at)));
    let mut found = 0;
    let first = in_turn.take_while(|batch| {
        let is_needed = found < rows;
        found += batch.num_rows();
        is_needed
    });
    first.cloned().collect()
}

impl fmt::Debug for MemoryTable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MemoryTable")
            .field("schema", &self.inner.schema())
            .field("bytes", &self.held.bytes())
            .finish_non_exhaustive()
    }
}

/// Receives inserted rows.
#[derive(Debug)]
struct Sink {
    table: MemoryTable,
    schema: SchemaRef,
}

impl DisplayAs for Sink {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("MemoryTable")
    }
}

#[async_trait]
impl DataSink for Sink {
    fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    async fn write_all(
        &self,
        mut rows: SendableRecordBatchStream,
        context: &Arc<TaskContext>,
    ) -> Result<u64> {
        let change = Change::of(context);
        let mut growth = change.growth(&self.table);
        let own: Vec<usize> = (0..self.table.schema().fields().len()).collect();
        let (mut batches, mut count) = (Vec::new(), 0);
        while let Some(mut batch) = rows.next().await.transpose()? {
            let (columns, violations) = batch.columns().split_at(own.len());
            for (column, values) in columns.iter().enumerate() {
                self.table.check_not_null(column, values)?;
            }
            if !violations.is_empty() {
                self.table.check_rows(violations, |_| true)?;
                batch = batch.project(&own)?;
            }
            growth.add(bytes_of(&batch))?;
            count += batch.num_rows() as u64;
            batches.push(batch);
        }
        self.table.append(batches, growth, &change).await?;
        Ok(count)
    }
}
