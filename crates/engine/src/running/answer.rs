//! What does a client get of a statement: rows, or only a tag that says what was done?
//!
//! Tags are PostgreSQL's (manual, "Message Formats", `CommandComplete`).
//! Not here: how rows are written (the server's `encode/`).

use arrow::array::{AsArray, RecordBatch};
use arrow::compute::sum;
use arrow::datatypes::UInt64Type;
use datafusion::error::Result;
use datafusion::logical_expr::{DdlStatement, LogicalPlan, Statement, WriteOp};

use super::Running;
use crate::session_names::makes_rows;

/// The tag of EXPLAIN.
const EXPLAIN: &str = "EXPLAIN";
/// The tag of SHOW.
pub const SHOW: &str = "SHOW";

/// What a client gets of a statement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// The rows, and a tag that begins with this word ([`rows_tag`]).
    Rows(&'static str),
    /// A tag that begins with this word and ends with the count that the plan returns.
    Count(&'static str),
    /// Like [`Answer::Count`], for CREATE TABLE AS.
    Made,
    /// This tag.
    Done(&'static str),
}

impl Answer {
    /// The answer of a plan.
    #[must_use]
    pub fn of(plan: &LogicalPlan) -> Self {
        match plan {
            LogicalPlan::Explain(_) | LogicalPlan::Analyze(_) => Self::Rows(EXPLAIN),
            LogicalPlan::Copy(_) => Self::Count("COPY"),
            LogicalPlan::Dml(dml) => of_change(&dml.op),
            LogicalPlan::Ddl(ddl) => of_definition(ddl),
            LogicalPlan::Statement(statement) => Self::Done(match statement {
                Statement::SetVariable(_) => "SET",
                Statement::ResetVariable(_) => "RESET",
                Statement::TransactionStart(_) => "BEGIN",
                Statement::TransactionEnd(_) => "COMMIT",
                // Sessions carry these out without a plan.
                Statement::Prepare(_) | Statement::Execute(_) | Statement::Deallocate(_) => "OK",
            }),
            _ => Self::Rows("SELECT"),
        }
    }

    /// Whether the client gets rows.
    #[must_use]
    pub fn has_rows(self) -> bool {
        matches!(self, Self::Rows(_))
    }
}

fn of_change(op: &WriteOp) -> Answer {
    match op {
        WriteOp::Insert(_) => Answer::Count("INSERT 0"),
        WriteOp::Delete => Answer::Count("DELETE"),
        WriteOp::Update => Answer::Count("UPDATE"),
        WriteOp::Ctas => Answer::Count("SELECT"),
        WriteOp::Truncate => Answer::Done("TRUNCATE TABLE"),
        WriteOp::MergeInto(_) => Answer::Count("MERGE"),
        _ => Answer::Done("OK"),
    }
}

fn of_definition(ddl: &DdlStatement) -> Answer {
    Answer::Done(match ddl {
        DdlStatement::CreateMemoryTable(create) if makes_rows(create) => return Answer::Made,
        DdlStatement::CreateExternalTable(_) | DdlStatement::CreateMemoryTable(_) => "CREATE TABLE",
        DdlStatement::CreateView(_) => "CREATE VIEW",
        DdlStatement::CreateCatalogSchema(_) => "CREATE SCHEMA",
        DdlStatement::CreateCatalog(_) => "CREATE DATABASE",
        DdlStatement::CreateIndex(_) => "CREATE INDEX",
        DdlStatement::DropTable(_) => "DROP TABLE",
        DdlStatement::DropView(_) => "DROP VIEW",
        DdlStatement::DropCatalogSchema(_) => "DROP SCHEMA",
        DdlStatement::CreateFunction(_) => "CREATE FUNCTION",
        DdlStatement::DropFunction(_) => "DROP FUNCTION",
    })
}

/// The tag behind rows. EXPLAIN and SHOW do not count them.
#[must_use]
pub fn rows_tag(word: &str, rows: usize) -> String {
    match word {
        EXPLAIN | SHOW => word.to_owned(),
        word => format!("{word} {rows}"),
    }
}

impl Running {
    /// Runs a statement to its end, for its tag. Rows are counted and dropped.
    ///
    /// # Errors
    /// As [`Running::next`].
    pub async fn finish(mut self, answer: Answer) -> Result<String> {
        let mut rows = 0;
        let mut counts: Option<u64> = None;
        while let Some(batch) = self.next().await? {
            rows += batch.num_rows();
            counts = Some(counts.unwrap_or(0) + counted(&batch));
        }
        Ok(match answer {
            Answer::Rows(word) => rows_tag(word, rows),
            Answer::Count(word) => format!("{word} {}", counts.unwrap_or(0)),
            // Without a count IF NOT EXISTS has found the table.
            Answer::Made => counts.map_or_else(
                || "CREATE TABLE AS".to_owned(),
                |count| format!("SELECT {count}"),
            ),
            Answer::Done(tag) => tag.to_owned(),
        })
    }
}

fn counted(batch: &RecordBatch) -> u64 {
    let counts = batch
        .columns()
        .first()
        .and_then(|column| column.as_primitive_opt::<UInt64Type>());
    counts.and_then(sum).unwrap_or(0)
}
