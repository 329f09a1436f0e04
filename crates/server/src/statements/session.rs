//! One connection's DataFusion session: how is a statement planned and started?
//!
//! Not here: when it is interrupted (`../net/cancel.rs`), and how its rows are sent
//! (`../encode/rows.rs`).

use std::collections::VecDeque;
use std::future::ready;
use std::sync::Arc;

use coscan::running::{Answer, Guard, SHOW, StatementThreads};
use coscan::tasks::QueryTasks;
use coscan::{CommitPoint, StartOptions, TransactionRules};
use coscan_pg::Moments;
use coscan_pg::dialect::Written;
use datafusion::arrow::array::StringArray;
use datafusion::arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use datafusion::arrow::record_batch::RecordBatch;
use datafusion::execution::SessionState;
use datafusion::logical_expr::LogicalPlan;
use datafusion::prelude::SessionContext;
use datafusion::scalar::ScalarValue;
use datafusion::sql::parser::Statement as DfStatement;
use futures::FutureExt;
use pgwire::api::Type;

use super::parse::{Cost, Parsed, SHORT_BYTES, parse_all};
use super::portal::Prepared;
use crate::encode::{Rows, Source};
use crate::failure::Failure;
use crate::net::{Ledger, Senders, Sending};
use crate::settings::Settings;

/// S1: owned by one connection.
pub(crate) struct Session {
    pub(crate) context: SessionContext,
    pub(crate) settings: Settings,
    pub(crate) threads: Arc<StatementThreads>,
    pub(crate) senders: Senders,
    pub(crate) ledger: Ledger,
    /// The cost of the statement that is being planned or run.
    pub(crate) current_cost: Option<Arc<Cost>>,
    /// Whether a later ROLLBACK must be able to undo the current statement.
    pub(crate) undoable: bool,
    /// The snapshot that all statements of the current transaction read, if they share one.
    pub(crate) snapshot: Option<Arc<coscan::Snapshot>>,
    /// When the current statement and transaction began.
    pub(crate) moments: Moments,
}

/// The result of a statement.
pub(crate) enum Outcome {
    Rows(Box<Rows>),
    /// The tag of a statement without rows.
    Done(String),
}

impl Session {
    /// Parses a text of statements.
    pub(crate) async fn parse(&self, sql: String) -> Result<Vec<Parsed>, Failure> {
        if sql.len() <= SHORT_BYTES {
            return parse_all(&self.ledger, &sql);
        }
        let ledger = self.ledger.clone();
        let work = move || parse_all(&ledger, &sql);
        self.threads.run_long(work).await
    }

    /// Whether the current statement takes long to plan.
    pub(crate) fn is_large(&self) -> bool {
        self.current_cost
            .as_ref()
            .is_some_and(|cost| cost.is_large())
    }

    /// Plans a statement. Its parameters have the types that the client `declared`, or that casts
    /// in the text give (`written`). Dropping the future stops the planning.
    pub(crate) async fn prepare(
        &self,
        statement: DfStatement,
        declared: Vec<Option<Type>>,
        written: Written,
    ) -> Result<coscan::Prepared, Failure> {
        let tasks = self.threads.begin();
        let state = self.context.state();
        let size = self.current_cost.as_ref().map(|cost| cost.size());
        let size = size.unwrap_or_default();
        let work = async move {
            let prepared =
                coscan::Prepared::new(&state, statement, size, &declared, &written).await?;
            Ok(prepared)
        };
        self.guarded(&tasks, work).await
    }

    /// The session's time zone.
    pub(crate) fn zone(&self) -> String {
        let state = self.context.state_ref();
        let state = state.read();
        let zone = state.config_options().execution.time_zone.clone();
        zone.unwrap_or_else(|| "UTC".to_owned())
    }

    /// Fills the values into a prepared statement's plan.
    pub(crate) async fn bind(
        &self,
        prepared: &Arc<Prepared>,
        values: Vec<ScalarValue>,
    ) -> Result<Option<LogicalPlan>, Failure> {
        let Some(statement) = &prepared.statement else {
            return Ok(None);
        };
        if !self.is_large() {
            // Usually nothing has changed since the plan was made, and it is used as it is.
            let state = self.context.state_ref();
            let state = state.read();
            let bound = statement.bind_current(&state, &values).now_or_never();
            if let Some(Some(plan)) = bound.transpose()? {
                return Ok(Some(plan));
            }
        }
        let tasks = self.threads.begin();
        let state = self.context.state();
        let prepared = Arc::clone(prepared);
        let work = async move {
            match &prepared.statement {
                Some(statement) => Ok(Some(statement.bind(&state, values).await?)),
                None => Ok(None),
            }
        };
        self.guarded(&tasks, work).await
    }

    /// Plans a statement when the future is polled. Returns the plan and the state that it was
    /// made with.
    fn planned(
        &self,
        statement: DfStatement,
    ) -> impl Future<Output = Result<(SessionState, LogicalPlan), Failure>> + Send + 'static {
        let state = self.context.state();
        let size = self.current_cost.as_ref().map(|cost| cost.size());
        let size = size.unwrap_or_default();
        async move {
            let plan = coscan::plan_statement(&state, statement, size).await?;
            // Rights are checked before anything else walks the plan.
            coscan::check_rights(&state, &plan)?;
            Ok((state, plan))
        }
    }

    /// Runs a step of planning or starting the current statement.
    async fn guarded<T: Send + 'static>(
        &self,
        tasks: &Arc<QueryTasks>,
        work: impl Future<Output = Result<T, Failure>> + Send + 'static,
    ) -> Result<T, Failure> {
        let size = self.current_cost.as_ref().map(|cost| cost.size());
        self.threads.step(tasks, size, work).await
    }

    /// Plans a statement and starts its plan, both in one task: on busy cores each switch to
    /// another thread takes milliseconds. `tag`, if given, replaces the plan's rows as the answer.
    /// The statement can be given up until it reaches its `point`.
    pub(crate) async fn run(
        &self,
        statement: DfStatement,
        tag: Option<&'static str>,
        formats: &[i16],
        point: Arc<CommitPoint>,
    ) -> Result<Outcome, Failure> {
        let planned = self.planned(statement);
        self.begin(planned, tag, None, formats, point).await
    }

    /// Starts a plan. `tag`, if given, replaces the plan's rows as the answer. `announced` are the
    /// columns as described to the client, if it has a description.
    pub(crate) async fn start(
        &self,
        plan: LogicalPlan,
        tag: Option<&'static str>,
        announced: Option<SchemaRef>,
        formats: &[i16],
        point: Arc<CommitPoint>,
    ) -> Result<Outcome, Failure> {
        let planned = ready(Ok((self.context.state(), plan)));
        self.begin(planned, tag, announced, formats, point).await
    }

    /// Starts the plan that comes of `planned`.
    async fn begin(
        &self,
        planned: impl Future<Output = Result<(SessionState, LogicalPlan), Failure>> + Send + 'static,
        tag: Option<&'static str>,
        announced: Option<SchemaRef>,
        formats: &[i16],
        point: Arc<CommitPoint>,
    ) -> Result<Outcome, Failure> {
        let (context, tasks) = (self.context.clone(), self.threads.begin());
        let options = StartOptions {
            commit_point: Some(point),
            ..self.options(&tasks, tag)
        };
        let work = async move {
            let (state, plan) = planned.await?;
            let answer = tag.map_or_else(|| Answer::of(&plan), Answer::Done);
            let running = coscan::start(&context, state, plan, options).await?;
            Ok((answer, running))
        };
        let (answer, running) = self.guarded(&tasks, work).await?;
        let Answer::Rows(word) = answer else {
            return Ok(Outcome::Done(running.finish(answer).await?));
        };
        let rows = Sending::new(running, self.senders.clone());
        let announced = announced.unwrap_or_else(|| Arc::clone(rows.schema()));
        let rows = Rows::new(announced, formats, Source::Query(rows), word)?;
        Ok(Outcome::Rows(Box::new(rows.in_zone(self.zone()))))
    }

    /// How a plan is started: `tag`, if there is one, is answered instead of its rows.
    fn options(&self, tasks: &Arc<QueryTasks>, tag: Option<&'static str>) -> StartOptions {
        StartOptions {
            runtime: self.threads.runtime().clone(),
            tasks: Some(Arc::clone(tasks)),
            guard: self.current_cost.clone().map(|cost| cost as Guard),
            is_large: self.is_large(),
            runs_once: tag.is_some(),
            transaction: TransactionRules {
                read_only: self.is_read_only(),
                undoable: self.undoable,
                snapshot: self.snapshot.clone(),
            },
            commit_point: None,
        }
    }

    /// Whether the current transaction is READ ONLY.
    pub(crate) fn is_read_only(&self) -> bool {
        self.settings.modes(&self.context).read_only
    }

    /// The rows of SHOW.
    pub(crate) fn show(&self, name: &str, formats: &[i16]) -> Result<Rows, Failure> {
        let shown = self.settings.show(&self.context, name)?;
        let schema = show_schema(name);
        let values = shown
            .iter()
            .map(|row| row.value.as_deref())
            .collect::<StringArray>();
        let arrays: Vec<Arc<dyn datafusion::arrow::array::Array>> = if name == ALL {
            let names: StringArray = shown.iter().map(|row| Some(row.name.as_str())).collect();
            let notes: StringArray = shown.iter().map(|row| Some(row.description)).collect();
            vec![Arc::new(names), Arc::new(values), Arc::new(notes)]
        } else {
            vec![Arc::new(values)]
        };
        let batch = RecordBatch::try_new(Arc::clone(&schema), arrays)?;
        Rows::new(
            schema,
            formats,
            Source::Ready(VecDeque::from([batch])),
            SHOW,
        )
    }
}

/// The columns of SHOW.
pub(crate) fn show_schema(name: &str) -> SchemaRef {
    let text = |name: &str| Field::new(name, DataType::Utf8, true);
    Arc::new(if name == ALL {
        Schema::new(vec![text("name"), text("setting"), text("description")])
    } else {
        Schema::new(vec![text(&Settings::shown_name(name))])
    })
}

const ALL: &str = "all";
