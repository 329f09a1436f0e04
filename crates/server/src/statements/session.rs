//! One connection's DataFusion session: how is a statement planned and started?
//!
//! Not here: when it is interrupted (`../net/cancel.rs`), and how its rows are sent
//! (`../encode/rows.rs`).

use std::collections::VecDeque;
use std::future::ready;
use std::sync::Arc;

use coscan::running::{Guard, guarded};
use coscan::tasks::{QueryTasks, TaskQueue};
use coscan::{CommitPoint, StartOptions, TransactionRules};
use coscan_pg::Moments;
use coscan_pg::dialect::Written;
use datafusion::arrow::array::{AsArray, StringArray};
use datafusion::arrow::compute::sum;
use datafusion::arrow::datatypes::{DataType, Field, Schema, SchemaRef, UInt64Type};
use datafusion::arrow::record_batch::RecordBatch;
use datafusion::execution::SessionState;
use datafusion::logical_expr::{DdlStatement, LogicalPlan, Statement, WriteOp};
use datafusion::prelude::SessionContext;
use datafusion::scalar::ScalarValue;
use datafusion::sql::parser::Statement as DfStatement;
use futures::FutureExt;
use pgwire::api::Type;
use tokio::runtime::Handle;

use super::known::KnownTexts;
use super::parse::{Aside, Cost, Parsed, SHORT_BYTES, parse_all};
use super::portal::Prepared;
use crate::encode::{EXPLAIN, Rows, SHOW, Source};
use crate::failure::Failure;
use crate::net::{Ledger, Senders, Sending};
use crate::settings::Settings;

/// S1: owned by one connection.
pub(crate) struct Session {
    pub(crate) context: SessionContext,
    pub(crate) settings: Settings,
    pub(crate) runtime: Handle,
    pub(crate) tasks: Arc<TaskQueue>,
    pub(crate) senders: Senders,
    pub(crate) ledger: Ledger,
    pub(crate) aside: Arc<Aside>,
    pub(crate) known: Arc<KnownTexts>,
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
            return self.known.parse(&self.ledger, &sql);
        }
        let ledger = self.ledger.clone();
        let work = move || parse_all(&ledger, &sql);
        self.aside.run(work).await
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
        let tasks = self.tasks.begin();
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
        let tasks = self.tasks.begin();
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

    /// Runs a planning or starting step: on the threads for long work if the statement is large,
    /// otherwise among the queries, when it is the turn of `tasks`.
    async fn guarded<T: Send + 'static>(
        &self,
        tasks: &Arc<QueryTasks>,
        work: impl Future<Output = Result<T, Failure>> + Send + 'static,
    ) -> Result<T, Failure> {
        if self.is_large() {
            return self.aside.wait(Some(tasks.as_ref()), work).await;
        }
        if let Some(cost) = &self.current_cost {
            tasks.expect_step(cost.size().planning_time());
        }
        guarded(&self.runtime, tasks.schedule(work.boxed())).await
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
        let (context, tasks) = (self.context.clone(), self.tasks.begin());
        let options = StartOptions {
            commit_point: Some(point),
            ..self.options(&tasks, tag)
        };
        let work = async move {
            let (state, plan) = planned.await?;
            let kind = tag.map_or_else(|| kind(&plan), Kind::Done);
            let running = coscan::start(&context, state, plan, options).await?;
            Ok((kind, running))
        };
        let (kind, running) = self.guarded(&tasks, work).await?;
        let rows = Sending::new(running, self.senders.clone());
        outcome(kind, rows, announced, formats, self.zone()).await
    }

    /// How a plan is started: `tag`, if there is one, is answered instead of its rows.
    fn options(&self, tasks: &Arc<QueryTasks>, tag: Option<&'static str>) -> StartOptions {
        StartOptions {
            runtime: self.runtime.clone(),
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

/// Makes the answer to the client from a started plan.
async fn outcome(
    kind: Kind,
    mut running: Sending,
    announced: Option<SchemaRef>,
    formats: &[i16],
    zone: String,
) -> Result<Outcome, Failure> {
    match kind {
        Kind::Rows(tag) => {
            let announced = announced.unwrap_or_else(|| Arc::clone(running.schema()));
            let rows = Rows::new(announced, formats, Source::Query(running), tag)?;
            Ok(Outcome::Rows(Box::new(rows.in_zone(zone))))
        }
        Kind::Count(tag) => {
            let mut count = 0;
            while let Some(batch) = running.next().await? {
                count += counted(&batch);
            }
            Ok(Outcome::Done(format!("{tag} {count}")))
        }
        Kind::Made => {
            // Without a count IF NOT EXISTS has found the table.
            let batch = running.next().await?;
            let tag = batch.map_or_else(
                || "CREATE TABLE AS".to_owned(),
                |batch| format!("SELECT {}", counted(&batch)),
            );
            while running.next().await?.is_some() {}
            Ok(Outcome::Done(tag))
        }
        Kind::Done(tag) => {
            while running.next().await?.is_some() {}
            Ok(Outcome::Done(tag.to_owned()))
        }
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

/// Whether the client gets a description of the plan's rows.
pub(crate) fn returns_rows(plan: &LogicalPlan) -> bool {
    matches!(kind(plan), Kind::Rows(_))
}

/// What a plan returns, with its tag.
enum Kind {
    Rows(&'static str),
    /// One row with a count.
    Count(&'static str),
    /// Like [`Kind::Count`], for CREATE TABLE AS.
    Made,
    Done(&'static str),
}

fn kind(plan: &LogicalPlan) -> Kind {
    match plan {
        LogicalPlan::Explain(_) | LogicalPlan::Analyze(_) => Kind::Rows(EXPLAIN),
        LogicalPlan::Copy(_) => Kind::Count("COPY"),
        LogicalPlan::Dml(dml) => match &dml.op {
            WriteOp::Insert(_) => Kind::Count("INSERT 0"),
            WriteOp::Delete => Kind::Count("DELETE"),
            WriteOp::Update => Kind::Count("UPDATE"),
            WriteOp::Ctas => Kind::Count("SELECT"),
            WriteOp::Truncate => Kind::Done("TRUNCATE TABLE"),
            WriteOp::MergeInto(_) => Kind::Count("MERGE"),
            _ => Kind::Done("OK"),
        },
        LogicalPlan::Ddl(DdlStatement::CreateMemoryTable(create)) if coscan::makes_rows(create) => {
            Kind::Made
        }
        LogicalPlan::Ddl(ddl) => Kind::Done(match ddl {
            DdlStatement::CreateExternalTable(_) | DdlStatement::CreateMemoryTable(_) => {
                "CREATE TABLE"
            }
            DdlStatement::CreateView(_) => "CREATE VIEW",
            DdlStatement::CreateCatalogSchema(_) => "CREATE SCHEMA",
            DdlStatement::CreateCatalog(_) => "CREATE DATABASE",
            DdlStatement::CreateIndex(_) => "CREATE INDEX",
            DdlStatement::DropTable(_) => "DROP TABLE",
            DdlStatement::DropView(_) => "DROP VIEW",
            DdlStatement::DropCatalogSchema(_) => "DROP SCHEMA",
            DdlStatement::CreateFunction(_) => "CREATE FUNCTION",
            DdlStatement::DropFunction(_) => "DROP FUNCTION",
        }),
        LogicalPlan::Statement(statement) => match statement {
            Statement::SetVariable(_) => Kind::Done("SET"),
            Statement::ResetVariable(_) => Kind::Done("RESET"),
            Statement::TransactionStart(_) => Kind::Done("BEGIN"),
            Statement::TransactionEnd(_) => Kind::Done("COMMIT"),
            // The connection handles these itself (`../protocol/prepared.rs`).
            Statement::Prepare(_) | Statement::Execute(_) | Statement::Deallocate(_) => {
                Kind::Done("OK")
            }
        },
        _ => Kind::Rows("SELECT"),
    }
}

fn counted(batch: &RecordBatch) -> u64 {
    let counts = batch
        .columns()
        .first()
        .and_then(|column| column.as_primitive_opt::<UInt64Type>());
    counts.and_then(sum).unwrap_or(0)
}

const ALL: &str = "all";
