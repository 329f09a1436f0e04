//! The one way in which a plan starts: a program's, a prepared statement's, a client's.
//!
//! The plan is held to the session's rights and to its transaction, is given memory of its own, and
//! becomes streams, which tasks compute (`running/`). One that reads, or writes all at once, may be
//! run again.
//! Not here: how a statement becomes a plan (`prepared.rs`).

use std::sync::Arc;

use datafusion::error::{DataFusionError, Result};
use datafusion::execution::runtime_env::RuntimeEnv;
use datafusion::execution::{SessionState, TaskContext};
use datafusion::logical_expr::LogicalPlan;
use datafusion::physical_plan::coalesce_partitions::CoalescePartitionsExec;
use datafusion::physical_plan::{ExecutionPlan, execute_stream_partitioned};
use datafusion::prelude::SessionContext;
use datafusion::sql::parser::Statement as DfStatement;
use futures::FutureExt;
use futures::future::BoxFuture;
use tokio::runtime::Handle;

use super::Session;
use super::admission::Admission;
use super::minimum::Minimum;
use super::on_nodes::{self, OnNodes};
use super::open_queries::{OpenQueries, OpenQuery};
use super::prepared::plan_checked;
use super::task_context::task_context;
use crate::commit_point::{CommitPoint, Run};
use crate::effects::Effects;
use crate::error::{Error, engine_error};
use crate::memory::QueryMemory;
use crate::query_width::QueryWidth;
use crate::running::{Again, Answer, Estimate, Guard, Running, Start, StatementThreads, Streams};
use crate::session_names::{Snapshot, changes_memory, check_read_only, check_undoable, execute};
use crate::statement::{StatementSize, on_large_stack};
use crate::tasks::{self, Fingerprint, QueryTasks};

/// How a plan is started.
pub struct StartOptions {
    /// Where its tasks run.
    pub runtime: Handle,
    /// In whose turn they run; `None` if the runtime's order will do.
    pub tasks: Option<Arc<QueryTasks>>,
    /// Held until its streams are dropped.
    pub guard: Option<Guard>,
    /// Whether it takes long to plan. Then it is planned only once.
    pub is_large: bool,
    /// Whether it must not be run again, although it looks as if it only reads.
    pub runs_once: bool,
    /// What the transaction at hand asks of it.
    pub transaction: TransactionRules,
    /// Up to when it can be given up, if somebody may interrupt it.
    pub commit_point: Option<Arc<CommitPoint>>,
}

/// What a transaction asks of its statements.
#[derive(Clone, Default)]
pub struct TransactionRules {
    /// They change nothing.
    pub read_only: bool,
    /// A ROLLBACK is to undo them.
    pub undoable: bool,
    /// They see the files of this time.
    pub snapshot: Option<Arc<Snapshot>>,
}

impl TransactionRules {
    fn check(&self, state: &SessionState, plan: &LogicalPlan) -> Result<()> {
        if self.read_only {
            check_read_only(plan)?;
        }
        if self.undoable {
            check_undoable(state, plan)?;
        }
        Ok(())
    }
}

impl StartOptions {
    /// For a plan that runs on the caller's runtime, for the query that this thread works for, if
    /// there is one.
    ///
    /// # Errors
    /// [`Error::NoRuntime`].
    pub fn of_caller() -> Result<Self> {
        let runtime = Handle::try_current().map_err(|_| engine_error(Error::NoRuntime))?;
        Ok(Self {
            runtime,
            tasks: tasks::current(),
            guard: None,
            is_large: false,
            runs_once: false,
            transaction: TransactionRules::default(),
            commit_point: None,
        })
    }
}

impl Session {
    /// Starts a plan. Dropping what is returned ends it.
    ///
    /// # Errors
    /// Those of the checks, of planning and of starting. Errors of running come with the batches.
    pub async fn start(&self, plan: LogicalPlan, options: StartOptions) -> Result<Running> {
        start(&self.context, self.context.state(), plan, options).await
    }
}

/// What a server's session runs.
pub enum ToRun {
    /// A statement that is yet to be planned.
    Statement(Box<DfStatement>),
    /// A plan that the session may run.
    Plan(Box<LogicalPlan>),
}

/// How a server's session runs a statement.
pub struct RunOptions {
    /// The size of its text.
    pub size: StatementSize,
    /// Held until its streams are dropped.
    pub guard: Option<Guard>,
    /// Answered instead of its rows: then it runs for an effect, and only once.
    pub tag: Option<&'static str>,
    /// What the transaction at hand asks of it.
    pub transaction: TransactionRules,
    /// Up to when it can be given up.
    pub commit_point: Arc<CommitPoint>,
}

/// Plans a statement and starts its plan, for a server's session. Both are one task: on busy cores
/// each switch to another thread takes milliseconds. Dropping the future ends it.
///
/// # Errors
/// As [`Session::start`].
pub async fn run(
    context: &SessionContext,
    threads: &StatementThreads,
    to_run: ToRun,
    options: RunOptions,
) -> Result<(Answer, Running)> {
    let RunOptions { size, tag, .. } = options;
    let (context, tasks) = (context.clone(), threads.begin());
    let state = context.state();
    let options = StartOptions {
        runtime: threads.runtime().clone(),
        tasks: Some(Arc::clone(&tasks)),
        guard: options.guard,
        is_large: size.plans_long(),
        runs_once: tag.is_some(),
        transaction: options.transaction,
        commit_point: Some(options.commit_point),
    };
    let work = async move {
        let plan = match to_run {
            ToRun::Statement(statement) => plan_checked(&state, *statement, size).await?,
            ToRun::Plan(plan) => *plan,
        };
        let answer = tag.map_or_else(|| Answer::of(&plan), Answer::Done);
        let running = start(&context, state, plan, options).await?;
        Ok((answer, running))
    };
    threads.step(&tasks, size, work).await
}

/// Starts a plan in a session, which may be somebody else's, with its `state` at the time when the
/// statement began. Its first batches are computed by the thread that calls this, if that is one of
/// the queries' and has nothing else to do.
///
/// # Errors
/// As [`Session::start`].
pub async fn start(
    context: &SessionContext,
    mut state: SessionState,
    plan: LogicalPlan,
    options: StartOptions,
) -> Result<Running> {
    let StartOptions {
        runtime,
        tasks,
        guard,
        is_large,
        runs_once,
        transaction,
        commit_point,
    } = options;
    transaction.check(&state, &plan)?;
    on_nodes::check(&state, &plan, runs_once)?;
    let point = commit_point.unwrap_or_default();
    let run = Arc::new(point.first_run());
    state.config_mut().set_extension(run);
    let may_run_again = transaction.snapshot.is_none() && !is_large && !runs_once;
    on_nodes::has_width(&mut state, may_run_again);
    let started_by = tasks.clone();
    let (planned, physical, seen) = on_large_stack(async {
        let fingerprint = (!is_large && started_by.is_some()).then(|| Fingerprint::of(&plan));
        let snapshot = transaction.snapshot.clone();
        let seen = snapshot.map(|snapshot| (snapshot, state.clone(), plan.clone()));
        let (state, plan) = execute(context, state, plan).await?.into_parts();
        // EXECUTE has become the statement that it names.
        on_nodes::check(&state, &plan, runs_once)?;
        let planned = Arc::new(Planned {
            state,
            plan,
            fingerprint,
            tasks: started_by,
        });
        let physical = planned.physical().await?;
        Ok::<_, DataFusionError>((planned, physical, seen))
    })
    .await?;
    let only_reads = only_reads(&planned.plan);
    let may_run_again = may_run_again && (only_reads || changes_memory(&planned.plan));
    let (open, is_only) = open_query(&planned.state);
    let session = context.runtime_env();
    let may_wait = may_run_again && is_only && !transaction.undoable;
    let (environment, begun) = admitted(&session, &physical, open.as_ref(), may_wait).await;
    let (memory, promise) = begun.map_or((None, None), |begun| (Some(begun.memory), begun.promise));
    let effects = planned.state.config().get_extension::<Effects>();
    let effects = effects.map(Effects::since_now);
    let streams = on_large_stack(planned.streams_as_seen(&physical, environment, seen)).await?;
    let guard = Arc::new((guard, open));
    let mut running = Running::start(runtime, tasks, streams, guard, promise, only_reads);
    if let Some(memory) = memory
        && may_run_again
    {
        running.may_run_again(planned.again(session, memory, point).unless(effects));
    }
    Ok(running)
}

/// Admits a query: what it runs in, and with which memory, if that is an engine's.
async fn admitted(
    session: &Arc<RuntimeEnv>,
    physical: &Arc<dyn ExecutionPlan>,
    open: Option<&OpenQuery>,
    may_wait: bool,
) -> (Arc<RuntimeEnv>, Option<Admission>) {
    let admission = Admission::of(session, physical.as_ref(), open, may_wait);
    let begun = on_large_stack(admission).await;
    let environment = match &begun {
        Some(begun) => begun.memory.environment(session),
        None => Arc::clone(session),
    };
    (environment, begun)
}

/// Counts a query among those that its session has open; false if it is not the only one, or the
/// session does not count them.
fn open_query(state: &SessionState) -> (Option<OpenQuery>, bool) {
    match state.config().get_extension::<OpenQueries>() {
        Some(all) => {
            let (open, is_only) = all.open();
            (Some(open), is_only)
        }
        None => (None, false),
    }
}

/// Whether a plan changes nothing, whatever functions it calls.
#[must_use]
pub fn only_reads(plan: &LogicalPlan) -> bool {
    use LogicalPlan::{Analyze, Copy, Ddl, Dml, Explain, Statement};
    !matches!(
        plan,
        Explain(_) | Analyze(_) | Copy(_) | Dml(_) | Ddl(_) | Statement(_)
    )
}

/// What a transaction sees, and the statement that is compared with it.
type Seen = (Arc<Snapshot>, SessionState, LogicalPlan);

/// A plan that can be started, again and again if it changes nothing before its commit point.
struct Planned {
    state: SessionState,
    plan: LogicalPlan,
    fingerprint: Option<Fingerprint>,
    tasks: Option<Arc<QueryTasks>>,
}

impl Planned {
    /// The same plan for another run.
    fn of_run(&self, run: Run) -> Self {
        let mut state = self.state.clone();
        state.config_mut().set_extension(Arc::new(run));
        Self {
            state,
            plan: self.plan.clone(),
            fingerprint: self.fingerprint,
            tasks: self.tasks.clone(),
        }
    }

    async fn physical(&self) -> Result<Arc<dyn ExecutionPlan>> {
        self.state.create_physical_plan(&self.plan).await
    }

    fn streams(
        &self,
        plan: &Arc<dyn ExecutionPlan>,
        environment: Arc<RuntimeEnv>,
    ) -> Result<Streams> {
        let context = Arc::new(task_context(&self.state, plan, environment));
        match &self.tasks {
            Some(tasks) => {
                tasks.expect(plan.as_ref(), self.fingerprint);
                tasks.scope(|| partitions(plan, context))
            }
            None => partitions(plan, context),
        }
    }

    /// The streams, if the files are those that the transaction sees.
    async fn streams_as_seen(
        &self,
        plan: &Arc<dyn ExecutionPlan>,
        environment: Arc<RuntimeEnv>,
        seen: Option<Seen>,
    ) -> Result<Streams> {
        let streams = self.streams(plan, environment)?;
        if let Some((snapshot, state, plan)) = seen {
            snapshot.check(&state, &plan).await?;
        }
        Ok(streams)
    }

    /// How the query is run again, with the memory of each run.
    fn again(
        self: Arc<Self>,
        session: Arc<RuntimeEnv>,
        memory: Arc<QueryMemory>,
        point: Arc<CommitPoint>,
    ) -> Again<Streams> {
        let nodes = self.state.config().get_extension::<OnNodes>();
        let turn = nodes.map(|nodes| Arc::clone(&nodes.turn));
        let width = QueryWidth::of(self.state.config());
        let estimate = self.estimate();
        let start = self.start_again(session);
        let again = Again::new(memory, point, start, estimate);
        again.with_turn(turn).with_width(width)
    }

    /// The plan, to be started when it is the query's turn.
    fn start_again(self: Arc<Self>, session: Arc<RuntimeEnv>) -> Start<Streams> {
        Arc::new(move |memory, run| {
            let planned = self.of_run(run);
            let tasks = planned.tasks.clone();
            let environment = memory.environment(&session);
            let started = on_large_stack(async move {
                let plan = planned.physical().await?;
                planned.streams(&plan, environment)
            });
            in_turn(tasks.as_ref(), started.boxed())
        })
    }

    /// What the plan needs at least, estimated when somebody asks. It is planned for that: the
    /// physical plan does not outlive its start, because it would keep the tables of its joins.
    fn estimate(self: &Arc<Self>) -> Estimate {
        let planned = Arc::clone(self);
        Arc::new(move |limit| {
            let own = Arc::clone(&planned);
            let estimated = on_large_stack(async move {
                // If this fails, so does the next run.
                let plan = own.physical().await.ok()?;
                Minimum::of(plan.as_ref(), limit).certain()
            });
            in_turn(planned.tasks.as_ref(), estimated.boxed())
        })
    }
}

/// The work, when it is the query's turn.
fn in_turn<T: Send + 'static>(
    tasks: Option<&Arc<QueryTasks>>,
    work: BoxFuture<'static, T>,
) -> BoxFuture<'static, T> {
    match tasks {
        Some(tasks) => tasks.schedule(work).boxed(),
        None => work,
    }
}

/// Starts a plan. Its partitions are merged as the client asks for rows.
fn partitions(plan: &Arc<dyn ExecutionPlan>, context: Arc<TaskContext>) -> Result<Streams> {
    let merged = plan.downcast_ref::<CoalescePartitionsExec>();
    let below = merged.filter(|merge| merge.fetch().is_none());
    let plan = Arc::clone(below.map_or(plan, |merge| merge.input()));
    Ok(Streams {
        schema: plan.schema(),
        environment: context.runtime_env(),
        partitions: execute_stream_partitioned(plan, context)?,
    })
}
