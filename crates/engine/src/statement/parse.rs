//! How is any statement parsed and planned on a stack that holds its trees?

use std::sync::Arc;

use coscan_pg::dialect::{as_stored, keep_stored_types};
use coscan_pg::output::nested_as_json;
use datafusion::error::Result;
use datafusion::execution::SessionState;
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryPool, MemoryReservation};
use datafusion::logical_expr::LogicalPlan;
use datafusion::sql::parser::{CopyToSource, Statement as DfStatement};
use datafusion::sql::sqlparser::ast::Statement;

use super::bounds::{
    OnStack, STACK_BYTES_MIN, StatementSize, check_plan, shape, shape_part, with_stack,
};
use super::changes;
use super::error::StatementError;
use super::split::StatementText;
use crate::settings::{Nested, Settings};

/// Runs `parse` on a statement's text, on a stack that holds any tree that the text may become.
///
/// Trees that `parse` drops are dropped on that stack. Trees that it returns must have passed
/// [`shape_statement`] or [`shape_datafusion`].
///
/// # Errors
/// [`StatementError`] if no stack is large enough for the text.
pub fn parse_statement<T>(
    statement: StatementText<'_>,
    parse: impl FnOnce(&str) -> T,
) -> Result<T, StatementError> {
    statement.size.check()?;
    let bytes = statement.size.stack_bytes();
    Ok(with_stack(bytes, || parse(statement.text)))
}

/// Balances the long chains of a syntax tree.
///
/// # Errors
/// [`StatementError::TooDeep`] if the tree stays deep.
pub fn shape_statement(statement: &mut Statement) -> Result<(), StatementError> {
    shape(statement)
}

/// Like [`shape_statement`], for a statement of DataFusion's parser.
///
/// # Errors
/// As [`shape_statement`].
pub fn shape_datafusion(statement: &mut DfStatement) -> Result<(), StatementError> {
    let mut statement = statement;
    loop {
        match statement {
            DfStatement::Statement(statement) => return shape(statement),
            DfStatement::Explain(explain) => statement = &mut explain.statement,
            DfStatement::CopyTo(copy) => {
                return match &mut copy.source {
                    CopyToSource::Query(query) => shape_part(query.as_mut()),
                    CopyToSource::Relation(_) => Ok(()),
                };
            }
            DfStatement::CreateExternalTable(create) => {
                shape_part(&mut create.columns)?;
                shape_part(&mut create.constraints)?;
                return shape_part(&mut create.order_exprs);
            }
            DfStatement::Reset(_) => return Ok(()),
        }
    }
}

/// Makes the queries whose rows are stored keep the types of files.
pub(super) fn keep_types(statement: &mut DfStatement) {
    match statement {
        DfStatement::Statement(statement) => keep_stored_types(statement),
        DfStatement::Explain(explain) => keep_types(&mut explain.statement),
        DfStatement::CopyTo(copy) => {
            if let CopyToSource::Query(query) = &mut copy.source {
                as_stored(query);
            }
        }
        DfStatement::CreateExternalTable(_) | DfStatement::Reset(_) => {}
    }
}

/// Plans a statement of this size that has been shaped.
///
/// A shallow tree may become a deep plan: where common table expressions name each other, each
/// lies below the next. The plan is no deeper than the statement has terms.
///
/// # Errors
/// Errors of the planner, and [`StatementError`] if the plan is too deep or too large.
pub async fn plan_statement(
    state: &SessionState,
    statement: DfStatement,
    size: StatementSize,
) -> Result<LogicalPlan> {
    OnStack::new(size.stack_bytes(), async move {
        let plan = changes::plan(state, statement).await?;
        check_plan(&plan)?;
        as_answered(state, plan)
    })
    .await
}

/// The plan of a query, with nested columns in the form that the session wants.
fn as_answered(state: &SessionState, plan: LogicalPlan) -> Result<LogicalPlan> {
    let settings = state.config_options().extensions.get::<Settings>();
    let wants_json = settings.is_some_and(|settings| settings.nested == Nested::Json);
    match state.scalar_functions().get("to_json") {
        Some(to_json) if wants_json => nested_as_json(plan, to_json),
        _ => Ok(plan),
    }
}

/// Polls and drops a future on a stack on which any plan that this module accepts can be
/// optimized.
pub fn on_large_stack<F: Future>(work: F) -> impl Future<Output = F::Output> {
    OnStack::new(STACK_BYTES_MIN, work)
}

/// Takes the memory for a statement's text, tree and plan from the session's memory.
///
/// # Errors
/// `ResourcesExhausted` if that much is not left.
pub fn reserve_statement(
    pool: &Arc<dyn MemoryPool>,
    statement: StatementText<'_>,
) -> Result<MemoryReservation> {
    let reservation = MemoryConsumer::new("SQL").register(pool);
    let bytes = statement.size.memory_bytes();
    if bytes <= ALWAYS_GIVEN {
        // Taken even if operators hold more than a lowered limit, so that queries that spill can
        // still begin.
        reservation.grow(bytes);
    } else {
        reservation.try_grow(bytes)?;
    }
    Ok(reservation)
}

/// Bytes that are counted but never refused: statements written by people take no more.
const ALWAYS_GIVEN: usize = 1 << 20;
