//! How does a program prepare a statement, and run it with values?
//!
//! A server's session plans (`prepared.rs`) and starts (`start.rs`) what its clients send by the
//! same functions, on threads of the server.

use std::sync::Arc;

use arrow::array::{RecordBatch, RecordBatchOptions};
use arrow::datatypes::{Schema, SchemaRef};
use coscan_pg::dialect::{on_the_wire, written_parameters};
use coscan_pg::{PgError, Type};
use datafusion::error::{DataFusionError, Result as PlanResult};
use datafusion::execution::memory_pool::MemoryReservation;
use datafusion::execution::{SendableRecordBatchStream, SessionState};
use datafusion::logical_expr::LogicalPlan;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::scalar::ScalarValue;
use futures::{StreamExt, stream};

use super::Session;
use super::prepared::Prepared;
use super::start::{StartOptions, start};
use crate::error::Result;
use crate::index::index_statement;
use crate::running::{Answer, Running};
use crate::session_names::refused_read_only;
use crate::statement::{StatementText, parse_postgresql, reserve_statement};

/// A parsed and planned statement of PostgreSQL's SQL. Clones share it.
#[derive(Clone)]
pub struct Statement {
    session: Session,
    prepared: Arc<Prepared>,
    /// The memory of the statement's text, tree and plan.
    held: Arc<MemoryReservation>,
    /// Whether it takes long to plan.
    is_large: bool,
    /// The tag of a statement that makes or drops an index, by a query. Such a query runs once.
    tag: Option<&'static str>,
}

impl Session {
    /// Parses and plans a statement. `parameter_types` are those of `$1`, `$2`, …; PostgreSQL's
    /// rules derive the type of a parameter that is `None` or beyond the last from its use.
    ///
    /// # Errors
    /// The errors of parsing and planning.
    pub async fn prepare(&self, text: &str, parameter_types: &[Option<Type>]) -> Result<Statement> {
        let about_index = index_statement(text)?;
        let text = about_index.as_ref().map_or(text, |index| &index.query);
        let state = self.context.state();
        let text = StatementText::whole(text).map_err(DataFusionError::from)?;
        let held = reserve_statement(&state.runtime_env().memory_pool, text)?;
        let mut statements = parse_postgresql(text)?;
        let (Some(statement), true) = (statements.pop(), statements.is_empty()) else {
            return Err(DataFusionError::from(one_statement()).into());
        };
        let written = written_parameters(text.text);
        let prepared = Prepared::new(&state, statement, text.size, parameter_types, &written);
        Ok(Statement {
            session: self.clone(),
            prepared: Arc::new(prepared.await?),
            held: Arc::new(held),
            is_large: text.size.plans_long(),
            tag: about_index.and_then(|index| index.tag),
        })
    }
}

impl Statement {
    /// The types of `$1`, `$2`, …
    #[must_use]
    pub fn parameter_types(&self) -> &[Type] {
        self.prepared.types()
    }

    /// The columns of the result.
    #[must_use]
    pub fn schema(&self) -> SchemaRef {
        named(self.prepared.schema())
    }

    /// What its text asks for: rows, or something done of which a tag tells.
    #[must_use]
    pub fn answer(&self) -> Answer {
        let tag = self.tag.map(Answer::Done);
        tag.unwrap_or_else(|| Answer::of(&self.prepared.plan()))
    }

    /// Whether it was prepared in this session.
    pub(super) fn is_of(&self, session: &Session) -> bool {
        let own = self.session.context.state_ref();
        Arc::ptr_eq(&own, &session.context.state_ref())
    }

    /// As [`Statement::execute`], on the threads and in the transaction of `options`. The columns
    /// have the planner's names, which are unique; [`Statement::schema`] has PostgreSQL's.
    ///
    /// # Errors
    /// As [`Statement::execute`].
    pub async fn start(&self, values: Vec<ScalarValue>, options: StartOptions) -> Result<Running> {
        let state = self.session.context().state();
        let plan = self.prepared.bind(&state, values).await?;
        Ok(self.begin(state, plan, options).await?)
    }

    /// Starts the statement with these values. The stream computes rows as the caller polls it;
    /// dropping it cancels the query. A table that the statement creates is there when this
    /// returns. If a table, a view or a setting has changed, the statement is planned again.
    ///
    /// # Errors
    /// The errors of planning; 0A000 if the statement would now return other columns. Errors of
    /// running come through the stream.
    pub async fn execute(&self, values: Vec<ScalarValue>) -> Result<SendableRecordBatchStream> {
        let state = self.session.context().state();
        let plan = self.prepared.bind(&state, values).await?;
        self.run(state, plan).await
    }

    /// Starts a statement without parameters that was prepared just now, by the plan that it has.
    pub(super) async fn run_first(&self) -> Result<SendableRecordBatchStream> {
        if !self.prepared.types().is_empty() {
            return self.execute(vec![]).await;
        }
        let state = self.session.context().state();
        self.run(state, self.prepared.plan()).await
    }

    async fn run(
        &self,
        state: SessionState,
        plan: LogicalPlan,
    ) -> Result<SendableRecordBatchStream> {
        let creates = matches!(plan, LogicalPlan::Ddl(_));
        let options = StartOptions::of_caller()?;
        let mut running = self.begin(state, plan, options).await?;
        let schema = named(running.schema());
        let columns = SchemaRef::clone(&schema);
        if creates {
            let mut counts = vec![];
            while let Some(count) = running.next().await? {
                counts.push(renamed(count, &columns));
            }
            let counts = stream::iter(counts);
            return Ok(Box::pin(RecordBatchStreamAdapter::new(schema, counts)));
        }
        let rows = running.into_stream();
        let rows = rows.map(move |batch| renamed(batch?, &columns));
        Ok(Box::pin(RecordBatchStreamAdapter::new(schema, rows)))
    }

    async fn begin(
        &self,
        state: SessionState,
        plan: LogicalPlan,
        options: StartOptions,
    ) -> PlanResult<Running> {
        if options.transaction.read_only
            && let Some(tag) = self.tag
        {
            return Err(refused_read_only(tag).into());
        }
        let options = StartOptions {
            guard: Some(Arc::new((Arc::clone(&self.held), options.guard)) as _),
            is_large: self.is_large || options.is_large,
            runs_once: self.tag.is_some() || options.runs_once,
            ..options
        };
        start(self.session.context(), state, plan, options).await
    }
}

/// The columns under PostgreSQL's names, without the marks by which the dialect makes them unique.
fn named(schema: &SchemaRef) -> SchemaRef {
    let is_named = |name: &str| on_the_wire(name) == name;
    if schema.fields().iter().all(|field| is_named(field.name())) {
        return SchemaRef::clone(schema);
    }
    let fields = schema.fields().iter().map(|field| {
        let name = on_the_wire(field.name());
        field.as_ref().clone().with_name(name)
    });
    let fields: Vec<_> = fields.collect();
    Arc::new(Schema::new_with_metadata(fields, schema.metadata().clone()))
}

fn renamed(batch: RecordBatch, schema: &SchemaRef) -> PlanResult<RecordBatch> {
    if batch.schema_ref() == schema {
        return Ok(batch);
    }
    let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
    let columns = batch.columns().to_vec();
    let batch = RecordBatch::try_new_with_options(SchemaRef::clone(schema), columns, &options);
    Ok(batch?)
}

fn one_statement() -> PgError {
    PgError::new("42601", "a text of one statement is needed")
}
