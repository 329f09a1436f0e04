//! A prepared statement: what does it return, and when must it be planned again?
//!
//! A plan holds for parameters of certain types and for its *basis*: the tables and settings at
//! the time of planning. If the values have those types and the basis is unchanged, the values are
//! filled into the plan. Otherwise the statement is planned again.
//! Not here: the types of parameters (`coscan_pg::parameters`), how a plan runs.
//! PS1: a plan runs only while its basis is current.
//! PS2: the result has the announced columns, by name and type, or the statement fails.
//! PS3: constants that are moments with a time zone keep the time zone in which they were first
//! read, until a table changes. PostgreSQL reads them when it parses the statement.

use std::collections::BTreeMap;
use std::sync::Arc;

use coscan_pg::dialect::{Written, on_the_wire, unread_queries, with_queries};
use coscan_pg::output::pg_type;
use coscan_pg::parameters::{
    Kind, PlanKinds, Typed, fill, kinds, plan_typed, read_kinds, write_kinds,
};
use coscan_pg::{PgError, Type, check_literals, read_moments};
use datafusion::arrow::datatypes::{Schema, SchemaRef};
use datafusion::catalog::TableProvider;
use datafusion::common::TableReference;
use datafusion::config::ConfigOptions;
use datafusion::error::Result;
use datafusion::execution::SessionState;
use datafusion::logical_expr::LogicalPlan;
use datafusion::prelude::SessionContext;
use datafusion::scalar::ScalarValue;
use datafusion::sql::parser::{CopyToSource, Statement as DfStatement};
use futures::FutureExt;
use parking_lot::Mutex;

use crate::running::StatementThreads;
use crate::session_names::check;
use crate::statement::{StatementSize, on_large_stack, plan_statement};

/// A statement that was parsed and planned, with open parameters.
pub struct Prepared {
    statement: DfStatement,
    size: StatementSize,
    types: Vec<Type>,
    schema: SchemaRef,
    made: Mutex<Arc<Made>>,
}

/// A plan, with the kinds of parameters and the basis for which it was made.
struct Made {
    plan: LogicalPlan,
    kinds: Vec<Kind>,
    plan_kinds: PlanKinds,
    basis: Basis,
    /// The settings with which its constants were read (PS3).
    read_with: Arc<ConfigOptions>,
}

/// The settings and tables that planning a statement reads.
struct Basis {
    /// A change of any setting creates a new object.
    options: Arc<ConfigOptions>,
    /// `None` if the statement names something that is not a table of a catalog, such as a
    /// function that returns rows; such a basis never counts as current.
    tables: Option<Vec<(TableReference, Arc<dyn TableProvider>)>>,
}

impl Prepared {
    /// Plans a statement of this size. `declared` are the parameter types that the client gave,
    /// `written` those that casts in the text give.
    ///
    /// # Errors
    /// Those of planning and of rights, and of parameters whose type cannot be determined.
    pub async fn new(
        state: &SessionState,
        statement: DfStatement,
        size: StatementSize,
        declared: &[Option<Type>],
        written: &Written,
    ) -> Result<Self> {
        let basis = Basis::of(state, &statement).await?;
        let planner = |kinds: BTreeMap<usize, Kind>| planned(state, &statement, size, kinds);
        let aside = |kinds: BTreeMap<usize, Kind>| aside(state, &statement, size, kinds);
        let typed = on_large_stack(plan_typed(declared, written, planner, aside)).await?;
        let Typed {
            plan,
            types,
            kinds,
            plan_kinds,
        } = typed;
        on_large_stack(check_unread(state, &statement, size, numbered(&kinds))).await?;
        let made = Made {
            plan,
            kinds,
            plan_kinds,
            basis,
            read_with: Arc::clone(state.config_options()),
        };
        Ok(Self {
            statement,
            size,
            types,
            schema: on_large_stack(async { schema_of(state, &made.plan) }).await?,
            made: Mutex::new(Arc::new(made)),
        })
    }

    /// As [`Prepared::new`], on a server's threads. Dropping the future stops the planning.
    ///
    /// # Errors
    /// As [`Prepared::new`].
    pub async fn on(
        threads: &StatementThreads,
        state: SessionState,
        statement: DfStatement,
        size: StatementSize,
        declared: Vec<Option<Type>>,
        written: Written,
    ) -> Result<Self> {
        let tasks = threads.begin();
        let work = async move { Self::new(&state, statement, size, &declared, &written).await };
        threads.step(&tasks, size, work).await
    }

    /// The types of `$1`, `$2`, …
    #[must_use]
    pub fn types(&self) -> &[Type] {
        &self.types
    }

    /// The columns of the plan, under DataFusion's names.
    #[must_use]
    pub fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    /// The latest plan, with open parameters.
    #[must_use]
    pub fn plan(&self) -> LogicalPlan {
        self.made.lock().plan.clone()
    }

    /// Whether the plan creates or drops something.
    pub(super) fn defines(&self) -> bool {
        matches!(self.made.lock().plan, LogicalPlan::Ddl(_))
    }

    /// The parsed statement.
    #[must_use]
    pub fn statement(&self) -> &DfStatement {
        &self.statement
    }

    /// The plan with these values filled in; `None` if the statement must be planned again.
    ///
    /// # Errors
    /// Those of looking up tables.
    pub async fn bind_current(
        &self,
        state: &SessionState,
        values: &[ScalarValue],
    ) -> Result<Option<LogicalPlan>> {
        let made = Arc::clone(&self.made.lock());
        let fits = values.len() == self.types.len() && made.kinds == kinds(&self.types, values);
        if fits && made.basis.is_current(state).await? {
            made.filled(values.to_vec()).map(Some)
        } else {
            Ok(None)
        }
    }

    /// The plan with these values, of which there must be as many as types.
    ///
    /// # Errors
    /// Those of planning and of rights; 0A000 if the statement would now return other columns.
    pub async fn bind(
        &self,
        state: &SessionState,
        values: Vec<ScalarValue>,
    ) -> Result<LogicalPlan> {
        if values.len() != self.types.len() {
            let (given, needed) = (values.len(), self.types.len());
            let text = format!("{given} parameters, but {needed} are needed");
            return Err(PgError::new("08P01", text).into());
        }
        if let Some(plan) = self.bind_current(state, &values).await? {
            return Ok(plan);
        }
        let kinds = kinds(&self.types, &values);
        self.remake(state, kinds).await?.filled(values)
    }

    /// As [`Prepared::bind`], for a server's session. What must be planned again is planned on the
    /// server's threads.
    ///
    /// # Errors
    /// As [`Prepared::bind`].
    pub async fn bind_on(
        self: &Arc<Self>,
        threads: &StatementThreads,
        context: &SessionContext,
        values: Vec<ScalarValue>,
    ) -> Result<LogicalPlan> {
        if !self.size.plans_long() {
            // Usually nothing has changed since the plan was made, and it is used as it is.
            let state = context.state_ref();
            let state = state.read();
            let bound = self.bind_current(&state, &values).now_or_never();
            if let Some(Some(plan)) = bound.transpose()? {
                return Ok(plan);
            }
        }
        let (tasks, state) = (threads.begin(), context.state());
        let prepared = Arc::clone(self);
        let work = async move { prepared.bind(&state, values).await };
        threads.step(&tasks, self.size, work).await
    }

    /// Plans the statement again.
    async fn remake(&self, state: &SessionState, kinds: Vec<Kind>) -> Result<Arc<Made>> {
        let before = Arc::clone(&self.made.lock());
        let basis = Basis::of(state, &self.statement).await?;
        let plan = planned(state, &self.statement, self.size, numbered(&kinds)).await?;
        let read_with = if before.basis.has_its_tables(state).await? {
            Arc::clone(&before.read_with)
        } else {
            Arc::clone(state.config_options())
        };
        let plan = on_large_stack(async { read_as(plan, &read_with, state) }).await?;
        let (plan, plan_kinds) = read_kinds(plan)?;
        let schema = on_large_stack(async { schema_of(state, &plan) }).await?;
        if !is_alike(&self.schema, &schema) {
            return Err(PgError::new("0A000", "cached plan must not change result type").into());
        }
        let made = Arc::new(Made {
            plan,
            kinds,
            plan_kinds,
            basis,
            read_with,
        });
        *self.made.lock() = Arc::clone(&made);
        Ok(made)
    }
}

impl Made {
    /// The plan with values filled in, which must be of its kinds.
    fn filled(&self, values: Vec<ScalarValue>) -> Result<LogicalPlan> {
        if values.is_empty() {
            return Ok(self.plan.clone());
        }
        fill(self.plan.clone(), &self.plan_kinds, values)
    }
}

impl Basis {
    /// Taken before the statement is planned, so that a change during planning makes it outdated.
    async fn of(state: &SessionState, statement: &DfStatement) -> Result<Self> {
        let options = Arc::clone(state.config_options());
        let mut tables = Some(vec![]);
        for reference in state.resolve_table_references(statement)? {
            match (table(state, &reference).await?, &mut tables) {
                (Some(table), Some(tables)) => tables.push((reference, table)),
                _ => tables = None,
            }
        }
        Ok(Self { options, tables })
    }

    async fn is_current(&self, state: &SessionState) -> Result<bool> {
        let is_known = self.tables.is_some() && Arc::ptr_eq(&self.options, state.config_options());
        Ok(is_known && self.has_its_tables(state).await?)
    }

    /// Whether no table is known to have changed.
    async fn has_its_tables(&self, state: &SessionState) -> Result<bool> {
        for (reference, known) in self.tables.iter().flatten() {
            match table(state, reference).await? {
                Some(table) if Arc::ptr_eq(&table, known) => {}
                _ => return Ok(false),
            }
        }
        Ok(true)
    }
}

async fn table(
    state: &SessionState,
    reference: &TableReference,
) -> Result<Option<Arc<dyn TableProvider>>> {
    match state.schema_for_ref(reference.clone()) {
        Ok(schema) => schema.table(reference.table()).await,
        Err(_) => Ok(None),
    }
}

/// A statement's plan for parameters of these kinds.
async fn planned(
    state: &SessionState,
    statement: &DfStatement,
    size: StatementSize,
    kinds: BTreeMap<usize, Kind>,
) -> Result<LogicalPlan> {
    let mut statement = statement.clone();
    if !kinds.is_empty() {
        write(&mut statement, &kinds);
    }
    plan_checked(state, statement, size).await
}

/// A plan whose moments with a time zone are those that they are with the settings `read_with`.
fn read_as(
    plan: LogicalPlan,
    read_with: &Arc<ConfigOptions>,
    state: &SessionState,
) -> Result<LogicalPlan> {
    if read_with.execution.time_zone == state.config_options().execution.time_zone {
        return Ok(plan);
    }
    read_moments(plan, read_with)
}

/// The plan of a statement that the session may run.
pub(super) async fn plan_checked(
    state: &SessionState,
    statement: DfStatement,
    size: StatementSize,
) -> Result<LogicalPlan> {
    let plan = plan_statement(state, statement, size).await?;
    // Rights are checked before anything else walks the plan.
    check(state, &plan)?;
    Ok(plan)
}

/// The kinds of parameters by their numbers.
fn numbered(kinds: &[Kind]) -> BTreeMap<usize, Kind> {
    (1..).zip(kinds.iter().cloned()).collect()
}

/// Reports what PostgreSQL refuses in those queries of WITH that the statement does not read.
async fn check_unread(
    state: &SessionState,
    statement: &DfStatement,
    size: StatementSize,
    kinds: BTreeMap<usize, Kind>,
) -> Result<()> {
    let DfStatement::Statement(statement) = statement else {
        return Ok(());
    };
    for query in unread_queries(statement) {
        let query = DfStatement::Statement(Box::new(query));
        // If the query cannot be planned, the plan of the whole statement reports that.
        let Ok(plan) = planned(state, &query, size, kinds.clone()).await else {
            continue;
        };
        let (plan, _) = read_kinds(plan)?;
        schema_of(state, &plan)?;
        check_literals(&plan, state.config_options())?;
    }
    Ok(())
}

/// The plans of the queries in the statement's WITH, from which types of parameters are derived. A
/// query that cannot be planned is left out.
async fn aside(
    state: &SessionState,
    statement: &DfStatement,
    size: StatementSize,
    kinds: BTreeMap<usize, Kind>,
) -> Vec<LogicalPlan> {
    let mut plans = vec![];
    if let DfStatement::Statement(statement) = statement {
        for query in with_queries(statement) {
            let query = DfStatement::Statement(Box::new(query));
            plans.extend(planned(state, &query, size, kinds.clone()).await);
        }
    }
    plans
}

fn write(statement: &mut DfStatement, kinds: &BTreeMap<usize, Kind>) {
    let mut statement = statement;
    loop {
        match statement {
            DfStatement::Statement(inner) => return write_kinds(inner.as_mut(), kinds),
            DfStatement::Explain(explain) => statement = &mut explain.statement,
            DfStatement::CopyTo(copy) => {
                if let CopyToSource::Query(query) = &mut copy.source {
                    write_kinds(query.as_mut(), kinds);
                }
                return;
            }
            DfStatement::CreateExternalTable(_) | DfStatement::Reset(_) => return,
        }
    }
}

/// The columns of the result, with their types after DataFusion has coerced the branches of CASE
/// and UNION.
fn schema_of(state: &SessionState, plan: &LogicalPlan) -> Result<SchemaRef> {
    match plan {
        LogicalPlan::Ddl(_)
        | LogicalPlan::Dml(_)
        | LogicalPlan::Copy(_)
        | LogicalPlan::Statement(_)
        | LogicalPlan::Explain(_)
        | LogicalPlan::Analyze(_) => Ok(Arc::clone(plan.schema().inner())),
        plan => {
            let options = state.config_options();
            let analyzer = state.analyzer();
            let typed = analyzer.execute_and_check(plan.clone(), options, |_, _| {})?;
            Ok(Arc::clone(typed.schema().inner()))
        }
    }
}

/// Whether a client sees the same columns. The digits of numerics may differ with the values.
fn is_alike(a: &Schema, b: &Schema) -> bool {
    a.fields().len() == b.fields().len()
        && a.fields().iter().zip(b.fields()).all(|(a, b)| {
            let (left, right) = (on_the_wire(a.name()), on_the_wire(b.name()));
            without_digits(left).eq(without_digits(right)) && pg_type(a) == pg_type(b)
        })
}

/// The characters of a name. Digits are left out of a name that DataFusion derived from an
/// expression with a numeric parameter (`$1::numeric:3,1`), because they differ from value to
/// value.
fn without_digits(name: &str) -> impl Iterator<Item = char> + '_ {
    let is_generated = name.contains("::numeric:");
    name.chars()
        .filter(move |c| !(is_generated && c.is_ascii_digit()))
}
