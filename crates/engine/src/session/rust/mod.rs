//! How does a program prepare a statement, and run it with values?
//!
//! Statements about settings, the block and prepared statements are carried out when they are run,
//! as those of a server's client are.
//! A server's session plans (`../prepared.rs`) and starts (`../start.rs`) what its clients send by
//! the same functions, on threads of the server.
//!
//! | file | question |
//! |---|---|
//! | `mod.rs` | what is a prepared statement, and what are its columns and its answer? |
//! | `carry_out.rs` | what does a statement do, and in which block? |
//! | `ended.rs` | what does a session do when a query has ended? |
//! | `query.rs` | how does a planned query start? |
//! | `rows.rs` | how do rows become a stream of PostgreSQL's columns? |

mod carry_out;
mod ended;
mod query;
mod rows;

use std::sync::Arc;

use arrow::datatypes::{Schema, SchemaRef};
use coscan_pg::dialect::{Written, written_parameters};
use coscan_pg::{PgError, Type};
use datafusion::error::{DataFusionError, Result as PlanResult};
use datafusion::execution::memory_pool::MemoryReservation;
use datafusion::prelude::SessionContext;
use datafusion::sql::parser::Statement as DfStatement;
use datafusion::sql::sqlparser::ast::{DataType, Expr};
use parking_lot::Mutex;

pub(super) use self::query::Query;
use self::rows::named;
use super::Session;
use super::block::{Block, BlockStatement, BlockStatus};
use super::names::NamesStatement;
use super::prepared::Prepared;
use super::settings::SettingStatement;
use crate::error::Result;
use crate::index::index_statement;
use crate::running::Answer;
use crate::statement::{StatementSize, StatementText, parse_postgresql, reserve_statement};

/// A parsed and planned statement of PostgreSQL's SQL. Clones share it.
#[derive(Clone)]
pub struct Statement {
    session: Session,
    asked: Asked,
    /// The memory of the statement's text, tree and plan.
    held: Arc<MemoryReservation>,
}

/// What a statement's text asks for.
#[derive(Clone)]
enum Asked {
    /// That a plan is run.
    Query(Query),
    /// SET, RESET or SHOW.
    Setting(Arc<SettingStatement>),
    /// BEGIN, COMMIT, ROLLBACK or a savepoint.
    Block(Arc<AboutBlock>),
    /// PREPARE.
    Prepare(Arc<ToPrepare>),
    /// EXECUTE.
    Execute(Arc<Executed>),
    /// DEALLOCATE of the statement of this name; `None` for all of them.
    Deallocate(Option<String>),
}

/// A statement about the session's block.
struct AboutBlock {
    statement: BlockStatement,
    /// Its tag, which depends on the block's state when it is run.
    tag: Mutex<&'static str>,
}

/// What PREPARE prepares.
struct ToPrepare {
    name: String,
    types: Vec<DataType>,
    query: DfStatement,
    size: StatementSize,
    written: Written,
}

/// What EXECUTE executes.
struct Executed {
    name: String,
    arguments: Vec<Expr>,
}

impl Session {
    /// Parses and plans a statement. `parameter_types` are those of `$1`, `$2`, …; PostgreSQL's
    /// rules derive the type of a parameter that is `None` or beyond the last from its use.
    ///
    /// # Errors
    /// The errors of parsing and planning, which fail the block that BEGIN has opened as a
    /// statement; 25P02 if it has failed.
    pub async fn prepare(&self, text: &str, parameter_types: &[Option<Type>]) -> Result<Statement> {
        let prepared = Box::pin(self.prepared(text, parameter_types)).await;
        self.noted(prepared).await
    }

    async fn prepared(&self, text: &str, parameter_types: &[Option<Type>]) -> Result<Statement> {
        let about_index = index_statement(text)?;
        let text = about_index.as_ref().map_or(text, |index| &index.query);
        let state = self.context.state();
        let text = StatementText::whole(text).map_err(DataFusionError::from)?;
        let held = Arc::new(reserve_statement(&state.runtime_env().memory_pool, text)?);
        let mut statements = parse_postgresql(text)?;
        let (Some(statement), true) = (statements.pop(), statements.is_empty()) else {
            return Err(DataFusionError::from(one_statement()).into());
        };
        let asked = if let Some(asked) = Asked::without_plan(&statement, text)? {
            asked
        } else {
            self.check_alive().await?;
            let written = written_parameters(text.text);
            let prepared = Prepared::new(&state, statement, text.size, parameter_types, &written);
            Asked::Query(Query {
                prepared: Arc::new(prepared.await?),
                held: Arc::clone(&held),
                is_large: text.size.plans_long(),
                tag: about_index.and_then(|index| index.tag),
            })
        };
        Ok(Statement {
            session: self.clone(),
            asked,
            held,
        })
    }

    /// The state of the block that BEGIN has opened as a statement.
    pub async fn status(&self) -> BlockStatus {
        let opened = self.opened.lock().await;
        opened.as_ref().map_or(BlockStatus::Idle, Block::status)
    }

    /// Checks that the block has not failed that BEGIN has opened as a statement.
    ///
    /// # Errors
    /// 25P02.
    async fn check_alive(&self) -> PlanResult<()> {
        Ok(self.status().await.check_alive()?)
    }
}

impl Asked {
    /// What a statement asks for that needs no plan; `None` if it needs one.
    ///
    /// # Errors
    /// 42601 for what RESET and PREPARE do not accept.
    fn without_plan(statement: &DfStatement, text: StatementText<'_>) -> PlanResult<Option<Self>> {
        if let Some(setting) = SettingStatement::of(statement)? {
            return Ok(Some(Self::Setting(Arc::new(setting))));
        }
        let DfStatement::Statement(statement) = statement else {
            return Ok(None);
        };
        if let Some(statement) = BlockStatement::of(statement) {
            let tag = Mutex::new(BlockStatus::Open.tag(&statement));
            return Ok(Some(Self::Block(Arc::new(AboutBlock { statement, tag }))));
        }
        Ok(NamesStatement::of(statement)?.map(|names| Self::of_names(names, text)))
    }

    fn of_names(statement: NamesStatement, text: StatementText<'_>) -> Self {
        match statement {
            NamesStatement::Prepare { name, types, query } => Self::Prepare(Arc::new(ToPrepare {
                name,
                types,
                query: *query,
                size: text.size,
                written: written_parameters(text.text),
            })),
            NamesStatement::Execute { name, arguments } => {
                Self::Execute(Arc::new(Executed { name, arguments }))
            }
            NamesStatement::Deallocate(name) => Self::Deallocate(name),
        }
    }
}

impl Statement {
    /// The types of `$1`, `$2`, …
    #[must_use]
    pub fn parameter_types(&self) -> &[Type] {
        match &self.asked {
            Asked::Query(query) => query.prepared.types(),
            _ => &[],
        }
    }

    /// The columns of the result. Those of EXECUTE are those of the statement that has the name
    /// now.
    #[must_use]
    pub fn schema(&self) -> SchemaRef {
        let schema = match &self.asked {
            Asked::Query(query) => Some(named(query.prepared.schema())),
            Asked::Setting(setting) => setting.schema(),
            Asked::Execute(executed) => {
                let query = self.session.query_of(&executed.name).ok();
                query.map(|query| named(query.prepared.schema()))
            }
            Asked::Block(_) | Asked::Prepare(_) | Asked::Deallocate(_) => None,
        };
        schema.unwrap_or_else(|| Arc::new(Schema::empty()))
    }

    /// What its text asks for: rows, or something done of which a tag tells. COMMIT has its tag
    /// when it has run, and EXECUTE has the answer of the statement that has the name now.
    #[must_use]
    pub fn answer(&self) -> Answer {
        match &self.asked {
            Asked::Query(query) => query.answer(),
            Asked::Setting(setting) if setting.changes() => Answer::Done(setting.tag()),
            Asked::Setting(setting) => Answer::Rows(setting.tag()),
            Asked::Block(about) => Answer::Done(*about.tag.lock()),
            Asked::Prepare(_) => Answer::Done("PREPARE"),
            Asked::Execute(executed) => {
                let query = self.session.query_of(&executed.name);
                query.map_or(Answer::Done("EXECUTE"), |query| query.answer())
            }
            Asked::Deallocate(None) => Answer::Done("DEALLOCATE ALL"),
            Asked::Deallocate(Some(_)) => Answer::Done("DEALLOCATE"),
        }
    }

    /// Whether it was prepared in the session of this context.
    fn is_of(&self, context: &SessionContext) -> bool {
        let own = self.session.context.state_ref();
        Arc::ptr_eq(&own, &context.state_ref())
    }
}

fn one_statement() -> PgError {
    PgError::new("42601", "a text of one statement is needed")
}
