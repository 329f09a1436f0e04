//! One connection's DataFusion session: what a statement becomes, and how it is started.
//!
//! Not here: when it is interrupted (`cancel.rs`), and how its rows travel (`rows.rs`).

use std::collections::VecDeque;
use std::sync::Arc;

use datafusion::arrow::array::{AsArray, StringArray};
use datafusion::arrow::compute::sum;
use datafusion::arrow::datatypes::{DataType, Field, Schema, SchemaRef, UInt64Type};
use datafusion::arrow::record_batch::RecordBatch;
use datafusion::logical_expr::{DdlStatement, LogicalPlan, Statement, WriteOp};
use datafusion::prelude::SessionContext;
use datafusion::sql::parser::Statement as DfStatement;
use datafusion_postgres::datafusion_pg_catalog::sql::PostgresCompatibilityParser;
use tokio::runtime::Handle;

use crate::failure::Failure;
use crate::query::{Running, guarded};
use crate::rows::{Rows, Source};
use crate::settings::Settings;
use crate::statement::{Action, parse};

/// S1: owned by one connection.
pub(crate) struct Session {
    pub(crate) context: SessionContext,
    pub(crate) settings: Settings,
    pub(crate) parser: Arc<PostgresCompatibilityParser>,
    pub(crate) runtime: Handle,
}

/// What a statement answers.
pub(crate) enum Outcome {
    Rows(Box<Rows>),
    /// The tag of a statement without rows.
    Done(String),
}

impl Session {
    pub(crate) fn parse(&self, sql: &str) -> Result<Vec<Action>, Failure> {
        parse(&self.parser, sql)
    }

    /// Plans a statement. Dropping the future stops the planning.
    pub(crate) async fn plan(&self, statement: DfStatement) -> Result<LogicalPlan, Failure> {
        let state = self.context.state();
        let plan = async move {
            let plan = state.statement_to_plan(statement).await?;
            // Before anything else walks it.
            coscan::check_rights(&state, &plan)?;
            Ok(plan)
        };
        guarded(&self.runtime, plan).await
    }

    /// Starts a plan. `tag` is answered instead of its rows, if there is one; `announced` is what the client was told about its
    /// columns, if it was.
    pub(crate) async fn start(
        &self,
        plan: LogicalPlan,
        tag: Option<&'static str>,
        announced: Option<SchemaRef>,
        formats: &[i16],
    ) -> Result<Outcome, Failure> {
        let kind = tag.map_or_else(|| kind(&plan), Kind::Done);
        let context = self.context.clone();
        let stream = guarded(&self.runtime, async move {
            coscan::execute(&context, plan)
                .await?
                .execute_stream()
                .await
        });
        let mut running = Running::start(&self.runtime, stream.await?);
        match kind {
            Kind::Rows(tag) => {
                let announced = announced.unwrap_or_else(|| Arc::clone(&running.schema));
                let rows = Rows::new(announced, formats, Source::Query(running), tag)?;
                Ok(Outcome::Rows(Box::new(rows)))
            }
            Kind::Count(tag) => {
                let mut count = 0;
                while let Some(batch) = running.next().await? {
                    count += counted(&batch);
                }
                Ok(Outcome::Done(format!("{tag} {count}")))
            }
            Kind::Done(tag) => {
                while running.next().await?.is_some() {}
                Ok(Outcome::Done(tag.to_owned()))
            }
        }
    }

    /// What SHOW answers.
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
            "SHOW",
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

/// The columns that a plan's client is told about; `None` if it answers no rows.
pub(crate) fn plan_schema(plan: &LogicalPlan) -> Option<SchemaRef> {
    matches!(kind(plan), Kind::Rows(_)).then(|| Arc::new(plan.schema().as_arrow().clone()))
}

/// What a plan answers, with the tag to end it.
enum Kind {
    Rows(&'static str),
    /// One row with a count.
    Count(&'static str),
    Done(&'static str),
}

fn kind(plan: &LogicalPlan) -> Kind {
    match plan {
        LogicalPlan::Explain(_) | LogicalPlan::Analyze(_) => Kind::Rows("EXPLAIN"),
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
            Statement::Execute(_) => Kind::Rows("SELECT"),
            Statement::Prepare(_) => Kind::Done("PREPARE"),
            Statement::Deallocate(_) => Kind::Done("DEALLOCATE"),
            Statement::SetVariable(_) => Kind::Done("SET"),
            Statement::ResetVariable(_) => Kind::Done("RESET"),
            Statement::TransactionStart(_) => Kind::Done("BEGIN"),
            Statement::TransactionEnd(_) => Kind::Done("COMMIT"),
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
