//! The simple query protocol: a text of statements in, their results out, one after the other.
//!
//! Not here: what each statement does (`perform.rs`).

use coscan::running::rows_tag;
use pgwire::messages::PgWireBackendMessage;
use pgwire::messages::response::EmptyQueryResponse;

use super::connection::{Connection, Halt, supervise, with_places};
use crate::encode::description;
use crate::failure::Failure;
use crate::statements::{Action, Outcome, Parsed};

impl Connection {
    /// Handles a Query message. Statements after a failed one do not run.
    pub(crate) async fn simple_query(&mut self, sql: String) -> Result<(), Halt> {
        self.portals.forget("");
        self.portals.close("");
        let mut interrupt = self.interrupt().await;
        let text = with_places(&sql);
        let statements = self.session.parse(sql);
        let statements = supervise(&mut self.wire, &mut interrupt, statements).await?;
        if statements.is_empty() {
            self.wire.put(&PgWireBackendMessage::EmptyQueryResponse(
                EmptyQueryResponse::new(),
            ))?;
        }
        let are_several = statements.len() > 1;
        for parsed in statements {
            let place = parsed.place.clone();
            let done = self.simple_statement(parsed, are_several).await;
            done.map_err(|halt| halt.placed(text.as_deref(), place))?;
        }
        self.end_implicit_transaction().await
    }

    /// Runs a statement of a Query message, and sends its result.
    async fn simple_statement(&mut self, parsed: Parsed, are_several: bool) -> Result<(), Halt> {
        if are_several {
            self.transaction.begin(&self.session).await?;
        }
        let is_prepare = matches!(parsed.action, Action::Prepare { .. });
        if let (Some(number), false) = (parsed.written.keys().next(), is_prepare) {
            let text = format!("there is no parameter ${number}");
            return Err(Failure::new("42P02", text).into());
        }
        self.session.moments.begin_transaction();
        let mut interrupt = self.interrupt().await;
        self.flush_much(&mut interrupt).await?;
        self.session.current_cost = Some(parsed.cost);
        self.session.undoable = are_several || self.transaction.status().is_block();
        match self.perform(&parsed.action, &[], &mut interrupt).await? {
            Outcome::Done(tag) => {
                self.grant_settings().await?;
                self.complete(tag)
            }
            Outcome::Rows(mut rows) => {
                match rows.copy_format() {
                    Some(_) => self.start_copy(&rows)?,
                    None => self.wire.put(&description(&rows.columns))?,
                }
                let sent = self
                    .send_rows(&mut rows, usize::MAX, &mut interrupt)
                    .await?;
                self.end_copy(&rows)?;
                self.grant_settings().await?;
                self.complete(rows_tag(rows.tag, sent.rows))
            }
        }
    }
}
