//! How does a program prepare a statement, and run it with values?
//!
//! SET, RESET and SHOW are carried out when they are run (`settings/`), as those of a server's
//! client are.
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
use super::settings::SettingStatement;
use super::start::{StartOptions, TransactionRules, start};
use crate::error::Result;
use crate::index::index_statement;
use crate::notices::Notices;
use crate::running::{Answer, Guard, Running, Streams};
use crate::session_names::refused_read_only;
use crate::statement::{StatementText, parse_postgresql, reserve_statement};

/// A parsed and planned statement of PostgreSQL's SQL. Clones share it.
#[derive(Clone)]
pub struct Statement {
    session: Session,
    asked: Asked,
    /// The memory of the statement's text, tree and plan.
    held: Arc<MemoryReservation>,
    /// Whether it takes long to plan.
    is_large: bool,
    /// The tag of a statement that makes or drops an index, by a query. Such a query runs once.
    tag: Option<&'static str>,
}

/// What a statement's text asks for.
#[derive(Clone)]
enum Asked {
    /// That a plan is run.
    Plan(Arc<Prepared>),
    /// SET, RESET or SHOW.
    Setting(Arc<SettingStatement>),
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
        let about_settings = SettingStatement::of(&statement).map_err(DataFusionError::from)?;
        let asked = if let Some(setting) = about_settings {
            Asked::Setting(Arc::new(setting))
        } else {
            let written = written_parameters(text.text);
            let prepared = Prepared::new(&state, statement, text.size, parameter_types, &written);
            Asked::Plan(Arc::new(prepared.await?))
        };
        Ok(Statement {
            session: self.clone(),
            asked,
            held: Arc::new(held),
            is_large: text.size.plans_long(),
            tag: about_index.and_then(|index| index.tag),
        })
    }

    /// Carries out a statement about settings, outside of a block. Returns its rows.
    async fn answer(&self, setting: &SettingStatement) -> PlanResult<Vec<RecordBatch>> {
        if let Some(warning) = setting.warning() {
            Notices::say(self.context.state_ref().read().config(), || warning);
        }
        let mut settings = self.settings.lock().await;
        settings.answer(&self.context, setting, false).await
    }
}

impl Statement {
    /// The types of `$1`, `$2`, …
    #[must_use]
    pub fn parameter_types(&self) -> &[Type] {
        match &self.asked {
            Asked::Plan(prepared) => prepared.types(),
            Asked::Setting(_) => &[],
        }
    }

    /// The columns of the result.
    #[must_use]
    pub fn schema(&self) -> SchemaRef {
        match &self.asked {
            Asked::Plan(prepared) => named(prepared.schema()),
            Asked::Setting(setting) => {
                let schema = setting.schema();
                schema.unwrap_or_else(|| Arc::new(Schema::empty()))
            }
        }
    }

    /// What its text asks for: rows, or something done of which a tag tells.
    #[must_use]
    pub fn answer(&self) -> Answer {
        match (&self.asked, self.tag) {
            (_, Some(tag)) => Answer::Done(tag),
            (Asked::Plan(prepared), None) => Answer::of(&prepared.plan()),
            (Asked::Setting(setting), None) if setting.changes() => Answer::Done(setting.tag()),
            (Asked::Setting(setting), None) => Answer::Rows(setting.tag()),
        }
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
        match &self.asked {
            Asked::Plan(prepared) => {
                let state = self.session.context().state();
                let plan = prepared.bind(&state, values).await?;
                Ok(self.begin(state, plan, options).await?)
            }
            Asked::Setting(setting) => {
                check_none(&values)?;
                let rows = self.session.answer(setting).await?;
                Ok(self.answered(rows, options))
            }
        }
    }

    /// The statement about settings that it is, if it is one. It takes no values.
    ///
    /// # Errors
    /// 08P01 if it is one and there are values.
    pub(super) fn setting(&self, values: &[ScalarValue]) -> PlanResult<Option<&SettingStatement>> {
        match &self.asked {
            Asked::Plan(_) => Ok(None),
            Asked::Setting(setting) => {
                check_none(values)?;
                Ok(Some(&**setting))
            }
        }
    }

    /// The rows of a statement about settings, as those of a query that runs.
    pub(super) fn answered(&self, rows: Vec<RecordBatch>, options: StartOptions) -> Running {
        let schema = self.schema();
        let streams = Streams {
            partitions: vec![in_memory(&schema, rows)],
            schema,
            environment: self.session.context().runtime_env(),
        };
        let guard: Guard = Arc::new((Arc::clone(&self.held), options.guard));
        Running::start(options.runtime, None, streams, guard, None, true)
    }

    /// Starts the statement with these values. The stream computes rows as the caller polls it;
    /// dropping it cancels the query. A table that the statement creates is there when this
    /// returns. If a table, a view or a setting has changed, the statement is planned again.
    ///
    /// # Errors
    /// The errors of planning; 0A000 if the statement would now return other columns. Errors of
    /// running come through the stream.
    pub async fn execute(&self, values: Vec<ScalarValue>) -> Result<SendableRecordBatchStream> {
        match &self.asked {
            Asked::Plan(prepared) => {
                let state = self.session.context().state();
                let plan = prepared.bind(&state, values).await?;
                self.run(state, plan).await
            }
            Asked::Setting(setting) => {
                check_none(&values)?;
                let rows = self.session.answer(setting).await?;
                Ok(in_memory(&self.schema(), rows))
            }
        }
    }

    /// Starts a statement without parameters that was prepared just now, by the plan that it has.
    pub(super) async fn run_first(&self) -> Result<SendableRecordBatchStream> {
        match &self.asked {
            Asked::Plan(prepared) if prepared.types().is_empty() => {
                let state = self.session.context().state();
                self.run(state, prepared.plan()).await
            }
            _ => self.execute(vec![]).await,
        }
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
        // Outside of a block a statement is a transaction of the modes that the session's settings
        // have.
        let read_only = options.transaction.read_only || self.session.board.is_read_only();
        if read_only && let Some(tag) = self.tag {
            return Err(refused_read_only(tag).into());
        }
        let options = StartOptions {
            guard: Some(Arc::new((Arc::clone(&self.held), options.guard)) as _),
            is_large: self.is_large || options.is_large,
            runs_once: self.tag.is_some() || options.runs_once,
            transaction: TransactionRules {
                read_only,
                ..options.transaction
            },
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

/// Rows that are there, as a stream.
fn in_memory(schema: &SchemaRef, rows: Vec<RecordBatch>) -> SendableRecordBatchStream {
    let rows: Vec<PlanResult<RecordBatch>> = rows.into_iter().map(Ok).collect();
    let schema = SchemaRef::clone(schema);
    Box::pin(RecordBatchStreamAdapter::new(schema, stream::iter(rows)))
}

/// Checks that a statement without parameters gets no values.
fn check_none(values: &[ScalarValue]) -> PlanResult<()> {
    if values.is_empty() {
        return Ok(());
    }
    let text = format!("{} parameters, but 0 are needed", values.len());
    Err(PgError::new("08P01", text).into())
}

fn one_statement() -> PgError {
    PgError::new("42601", "a text of one statement is needed")
}
