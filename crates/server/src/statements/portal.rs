//! Prepared statements and portals: what a connection remembers between messages.
//!
//! A cursor is a portal made by SQL.
//! P1: a portal ends with its transaction, or outside of one with the next Sync or simple query.
//! Only a cursor `WITH HOLD` survives, if its transaction commits; COMMIT computes its remaining
//! rows (`../encode/held.rs`).
//! Not here: how a portal's rows are sent (`../encode/rows.rs`).

use std::collections::HashMap;
use std::sync::Arc;

use coscan::PreparedNames;
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::logical_expr::LogicalPlan;
use pgwire::api::Type;

use super::parse::Cost;
use super::statement::Action;
use crate::encode::{Rows, Scroll};
use crate::failure::Failure;
use crate::net::Held;
use crate::origins::{Origin, Origins};

/// A parsed statement, from a message or from SQL's PREPARE.
#[derive(Default)]
pub(crate) struct Prepared {
    /// `None` for a text without a statement.
    pub(crate) action: Option<Action>,
    /// The statement that the action plans, if it plans one.
    pub(crate) statement: Option<Arc<coscan::Prepared>>,
    /// The columns of its rows, if it returns rows and the columns are known in advance.
    pub(crate) schema: Option<SchemaRef>,
    /// The memory it costs; `None` if that is charged elsewhere.
    pub(crate) cost: Option<Arc<Cost>>,
}

impl Prepared {
    /// The types of its parameters.
    pub(crate) fn types(&self) -> &[Type] {
        let statement = self.statement.as_ref();
        statement.map_or(&[], |statement| statement.types())
    }
}

/// A statement with its parameters: not started, running, or done.
pub(crate) struct Portal {
    pub(crate) prepared: Arc<Prepared>,
    pub(crate) formats: Vec<i16>,
    pub(crate) state: State,
    pub(crate) life: Life,
    /// Whether FETCH by a simple query returns values in binary.
    pub(crate) binary: bool,
    /// How many portals were opened before this one.
    pub(crate) number: u64,
    /// The memory of its plan.
    pub(crate) _held: Option<Held>,
}

/// When a portal ends if it is not closed earlier.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Life {
    /// With its transaction.
    Transaction,
    /// With a rollback of its transaction: a cursor WITH HOLD.
    UnlessCommitted,
    /// With the session: a cursor WITH HOLD whose transaction has committed.
    Session,
}

pub(crate) enum State {
    /// The plan with its parameters filled in, if the statement has a plan.
    Bound(Option<LogicalPlan>),
    Open(Box<Rows>),
    /// A SCROLL cursor.
    Scroll(Scroll),
    /// All rows were sent; holds the word of the command's tag.
    Done(&'static str),
    /// A statement without rows has run.
    Spent,
}

/// A connection's prepared statements and portals, by name. The empty name is the unnamed one.
#[derive(Default)]
pub(crate) struct Portals {
    statements: PreparedNames<Arc<Prepared>>,
    /// The origins of the named statements.
    origins: Arc<Origins>,
    portals: HashMap<String, Portal>,
    /// How many portals have been opened.
    opened: u64,
}

impl Portals {
    pub(crate) fn new(origins: Arc<Origins>) -> Self {
        Self {
            origins,
            ..Self::default()
        }
    }

    pub(crate) fn statement(&self, name: &str) -> Result<Arc<Prepared>, Failure> {
        Ok(Arc::clone(self.statements.statement(name)?))
    }

    /// Checks that a prepared statement may get this name.
    pub(crate) fn check_free(&self, name: &str) -> Result<(), Failure> {
        Ok(self.statements.check_free(name)?)
    }

    /// Adds a prepared statement. A name in use is an error; the unnamed statement is replaced.
    pub(crate) fn prepare(
        &mut self,
        name: &str,
        prepared: Prepared,
        origin: Origin,
    ) -> Result<(), Failure> {
        self.statements
            .insert(name.to_owned(), Arc::new(prepared))?;
        if !name.is_empty() {
            self.origins.insert(name, origin);
        }
        Ok(())
    }

    /// Drops a prepared statement. Returns whether there was one.
    pub(crate) fn forget(&mut self, name: &str) -> bool {
        self.origins.remove(name);
        self.statements.remove(name)
    }

    pub(crate) fn forget_all(&mut self) {
        self.origins.clear();
        self.statements.clear();
    }

    /// The present columns of a cursor's rows.
    pub(crate) fn cursor_schema(&self, name: &str) -> Option<SchemaRef> {
        match &self.portals.get(name)?.state {
            State::Open(rows) => Some(rows.announced()),
            State::Scroll(scroll) => Some(SchemaRef::clone(scroll.schema())),
            State::Bound(_) | State::Done(_) | State::Spent => None,
        }
    }

    pub(crate) fn portal(&self, name: &str) -> Result<&Portal, Failure> {
        self.portals.get(name).ok_or_else(|| no_portal(name))
    }

    pub(crate) fn open(&mut self, name: String, portal: Portal) -> Result<(), Failure> {
        if !name.is_empty() && self.portals.contains_key(&name) {
            return Err(Failure::new(
                "42P03",
                format!("cursor {name:?} already exists"),
            ));
        }
        if self.portals.len() >= PORTALS_MAX {
            return Err(Failure::new(
                "53400",
                format!("at most {PORTALS_MAX} open portals"),
            ));
        }
        self.opened += 1;
        self.portals.insert(name, portal);
        Ok(())
    }

    /// How many portals have been opened so far.
    pub(crate) fn opened(&self) -> u64 {
        self.opened
    }

    /// Closes the portals opened after the first `opened` ones: ROLLBACK TO a savepoint.
    pub(crate) fn close_since(&mut self, opened: u64) {
        self.portals.retain(|_, portal| portal.number < opened);
    }

    /// Takes a portal out to run it. If the run fails, the portal is gone, and its stream with it
    /// (S3).
    pub(crate) fn take(&mut self, name: &str) -> Result<Portal, Failure> {
        self.portals.remove(name).ok_or_else(|| no_portal(name))
    }

    pub(crate) fn put_back(&mut self, name: String, mut portal: Portal) {
        if let State::Open(rows) = &mut portal.state {
            rows.put_aside();
        }
        self.portals.insert(name, portal);
    }

    /// Closes a portal. Returns whether there was one.
    pub(crate) fn close(&mut self, name: &str) -> bool {
        self.portals.remove(name).is_some()
    }

    pub(crate) fn close_all(&mut self) {
        self.portals.clear();
    }

    /// Whether any portal belongs to the current transaction.
    pub(crate) fn in_transaction(&self) -> bool {
        let mut portals = self.portals.values();
        portals.any(|portal| portal.life != Life::Session)
    }

    /// The cursors that survive if the current transaction commits.
    pub(crate) fn held(&mut self) -> impl Iterator<Item = &mut Portal> {
        let portals = self.portals.values_mut();
        portals.filter(|portal| portal.life == Life::UnlessCommitted)
    }

    /// P1: COMMIT.
    pub(crate) fn commit(&mut self) {
        self.held().for_each(|portal| portal.life = Life::Session);
        self.roll_back();
    }

    /// The transaction has failed, and nothing revives it: ends the queries of its portals, whose
    /// rows are not asked for. Their names stay until ROLLBACK.
    pub(crate) fn fail(&mut self) {
        for portal in self.portals.values_mut() {
            if let State::Open(rows) = &mut portal.state
                && portal.life != Life::Session
            {
                rows.end();
            }
        }
    }

    /// P1: ROLLBACK.
    pub(crate) fn roll_back(&mut self) {
        self.portals
            .retain(|_, portal| portal.life == Life::Session);
    }
}

fn no_portal(name: &str) -> Failure {
    Failure::new("34000", format!("portal {name:?} does not exist"))
}

/// Each open portal holds a running query.
const PORTALS_MAX: usize = 256;
