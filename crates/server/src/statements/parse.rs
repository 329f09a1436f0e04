//! What are the statements of a text, and what memory do they take?
//!
//! Bounds: [`STATEMENTS_MAX`]. The memory of statements is charged to the connection's ledger.
//! Not here: the threads on which long texts are parsed (`coscan::running::StatementThreads`).

use std::ops::Range;
use std::sync::Arc;

use coscan::StatementSize;

use super::statement::{Action, parse};
use crate::failure::Failure;
use crate::net::{Held, Ledger};
use coscan_pg::dialect::{Written, written_parameters};

/// A parsed statement.
pub(crate) struct Parsed {
    pub(crate) action: Action,
    pub(crate) cost: Arc<Cost>,
    /// The parameters in its text.
    pub(crate) written: Written,
    /// The bytes of the client's text that it takes.
    pub(crate) place: Range<usize>,
}

/// The memory of a statement, charged while it exists.
pub(crate) struct Cost {
    size: StatementSize,
    /// Frees the memory when dropped.
    _held: Held,
}

impl Cost {
    /// Reserves memory for a statement that is about to be parsed.
    pub(super) fn charged(ledger: &Ledger, size: StatementSize) -> Result<Self, Failure> {
        let held = ledger.hold("a statement", size.memory_bytes())?;
        Ok(Self { size, _held: held })
    }

    pub(crate) fn size(&self) -> StatementSize {
        self.size
    }

    /// Reserves memory for a copy of the plan, with this many bytes of parameters.
    pub(crate) fn copy(&self, ledger: &Ledger, parameters: usize) -> Result<Held, Failure> {
        ledger.hold("a portal", self.size.memory_bytes() + 2 * parameters)
    }
}

/// Parses all statements of a text. Empty for a text of spaces and comments.
pub(crate) fn parse_all(ledger: &Ledger, sql: &str) -> Result<Vec<Parsed>, Failure> {
    let placed = |failure: Failure, place| failure.placed(sql, place);
    let mut all = Vec::new();
    for statement in coscan::statement_texts(sql) {
        let statement = statement.map_err(|error| placed(error.into(), 0..sql.len()))?;
        if all.len() == STATEMENTS_MAX {
            let text = format!("a text has at most {STATEMENTS_MAX} statements");
            return Err(Failure::new("54000", text));
        }
        let cost = Cost::charged(ledger, statement.size)?;
        let text = statement.text;
        let place = statement.start..statement.start + text.len();
        let written = written_parameters(text);
        let parsed = parse(statement).map_err(|failure| placed(failure, place.clone()));
        if let Some(mut action) = parsed? {
            if let Action::Prepare {
                written: in_statement,
                text: of_prepare,
                ..
            } = &mut action
            {
                in_statement.clone_from(&written);
                text.clone_into(of_prepare);
            }
            all.push(Parsed {
                action,
                cost: cost.into(),
                written,
                place,
            });
        }
    }
    Ok(all)
}

/// The most statements in one text. Clients send scripts statement by statement.
const STATEMENTS_MAX: usize = 20_000;
/// A text up to this size parses too fast to delay others.
pub(crate) const SHORT_BYTES: usize = 1 << 10;
