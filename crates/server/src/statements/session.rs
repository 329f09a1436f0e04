//! One connection's DataFusion session: how is a statement planned and started?
//!
//! Not here: when it is interrupted (`../net/cancel.rs`), and how its rows are sent
//! (`../encode/rows.rs`).

use std::collections::VecDeque;
use std::sync::Arc;

use coscan::running::{Answer, Guard, SHOW, StatementThreads};
use coscan::session_settings::SessionSettings;
use coscan::{CommitPoint, Notices, RunOptions, StatementSize, ToRun, TransactionRules};
use coscan_pg::Moments;
use coscan_pg::dialect::Written;
use coscan_pg::output::IntervalStyle;
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::logical_expr::LogicalPlan;
use datafusion::prelude::SessionContext;
use datafusion::scalar::ScalarValue;
use datafusion::sql::parser::Statement as DfStatement;
use pgwire::api::Type;

use super::known::KnownTexts;
use super::parse::{Cost, Parsed, SHORT_BYTES, parse_all};
use super::portal::Prepared;
use crate::encode::{Rows, Source};
use crate::failure::Failure;
use crate::net::{Ledger, Senders, Sending};

/// S1: owned by one connection.
pub(crate) struct Session {
    pub(crate) context: SessionContext,
    pub(crate) settings: SessionSettings,
    pub(crate) threads: Arc<StatementThreads>,
    pub(crate) senders: Senders,
    pub(crate) ledger: Ledger,
    pub(crate) known: Arc<KnownTexts>,
    /// The cost of the statement that is being planned or run.
    pub(crate) current_cost: Option<Arc<Cost>>,
    /// Whether a later ROLLBACK must be able to undo the current statement: it is in a transaction
    /// block, or not the only one of its message.
    pub(crate) undoable: bool,
    /// The snapshot that all statements of the current transaction read, if they share one.
    pub(crate) snapshot: Option<Arc<coscan::Snapshot>>,
    /// When the current statement and transaction began.
    pub(crate) moments: Moments,
    /// What the current statement says beside its answer.
    pub(crate) notices: Arc<Notices>,
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
        self.threads.run_long(work).await
    }

    /// The size of the current statement.
    pub(crate) fn size(&self) -> StatementSize {
        let cost = self.current_cost.as_ref();
        cost.map(|cost| cost.size()).unwrap_or_default()
    }

    /// Plans a statement. Its parameters have the types that the client `declared`, or that casts
    /// in the text give (`written`). Dropping the future stops the planning.
    pub(crate) async fn prepare(
        &self,
        statement: DfStatement,
        declared: Vec<Option<Type>>,
        written: Written,
    ) -> Result<Arc<coscan::Prepared>, Failure> {
        let (state, size) = (self.context.state(), self.size());
        let prepared =
            coscan::Prepared::on(&self.threads, state, statement, size, declared, written);
        Ok(Arc::new(prepared.await?))
    }

    /// The session's time zone.
    pub(crate) fn zone(&self) -> String {
        let state = self.context.state_ref();
        let state = state.read();
        let zone = state.config_options().execution.time_zone.clone();
        zone.unwrap_or_else(|| "UTC".to_owned())
    }

    /// How the session shows intervals.
    pub(crate) fn interval_style(&self) -> IntervalStyle {
        let state = self.context.state_ref();
        let state = state.read();
        IntervalStyle::of(state.config_options())
    }

    /// Fills the values into a prepared statement's plan.
    pub(crate) async fn bind(
        &self,
        prepared: &Prepared,
        values: Vec<ScalarValue>,
    ) -> Result<Option<LogicalPlan>, Failure> {
        let Some(statement) = &prepared.statement else {
            return Ok(None);
        };
        let bound = statement.bind_on(&self.threads, &self.context, values);
        Ok(Some(bound.await?))
    }

    /// Plans a statement and starts its plan. `tag`, if given, replaces the plan's rows as the
    /// answer. The statement can be given up until it reaches its `point`.
    pub(crate) async fn run(
        &self,
        statement: DfStatement,
        tag: Option<&'static str>,
        formats: &[i16],
        point: Arc<CommitPoint>,
    ) -> Result<Outcome, Failure> {
        let statement = ToRun::Statement(Box::new(statement));
        self.begin(statement, tag, None, formats, point).await
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
        let plan = ToRun::Plan(Box::new(plan));
        self.begin(plan, tag, announced, formats, point).await
    }

    async fn begin(
        &self,
        to_run: ToRun,
        tag: Option<&'static str>,
        announced: Option<SchemaRef>,
        formats: &[i16],
        point: Arc<CommitPoint>,
    ) -> Result<Outcome, Failure> {
        let options = RunOptions {
            size: self.size(),
            guard: self.current_cost.clone().map(|cost| cost as Guard),
            tag,
            transaction: TransactionRules {
                read_only: self.is_read_only(),
                undoable: self.undoable,
                snapshot: self.snapshot.clone(),
            },
            commit_point: point,
        };
        let (answer, running) = coscan::run(&self.context, &self.threads, to_run, options).await?;
        let Answer::Rows(word) = answer else {
            return Ok(Outcome::Done(running.finish(answer).await?));
        };
        let rows = Sending::new(running, self.senders.clone());
        let announced = announced.unwrap_or_else(|| Arc::clone(rows.schema()));
        let rows = Rows::new(announced, formats, Source::Query(Box::new(rows)), word)?;
        let rows = rows.in_zone(self.zone()).in_style(self.interval_style());
        Ok(Outcome::Rows(Box::new(rows)))
    }

    /// Whether the current transaction is READ ONLY.
    pub(crate) fn is_read_only(&self) -> bool {
        self.settings.modes(&self.context).read_only
    }

    /// The rows of SHOW.
    pub(crate) fn show(&self, name: &str, formats: &[i16]) -> Result<Rows, Failure> {
        let shown = self.settings.shown(&self.context, name)?;
        let (schema, rows) = (shown.schema(), VecDeque::from([shown]));
        Rows::new(schema, formats, Source::Ready(rows), SHOW)
    }
}
