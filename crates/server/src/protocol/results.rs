//! How do results reach a client: rows, tags, notices, changed settings?
//!
//! Not here: how rows are encoded (`../encode/rows.rs`), how bytes are written (`../net/wire`).

use std::pin::pin;
use std::task::Poll;

use coscan::session_settings::Report;
use pgwire::messages::PgWireBackendMessage;
use pgwire::messages::response::CommandComplete;
use pgwire::messages::startup::ParameterStatus;
use tokio::task::yield_now;
use tokio::time::{sleep, timeout};

use super::connection::{Connection, Halt, supervise};
use crate::encode::Rows;
use crate::failure::noticed;
use crate::net::{FLUSH_BYTES, GOODBYE_TIMEOUT, Interrupt};

/// The progress of [`Connection::send_rows`].
pub(crate) struct Sent {
    pub(crate) rows: usize,
    /// No rows are left.
    pub(crate) complete: bool,
}

impl Connection {
    /// Sends up to `max` rows. Stops at once when interrupted or when the client has gone.
    pub(crate) async fn send_rows(
        &mut self,
        rows: &mut Rows,
        max: usize,
        interrupt: &mut Interrupt,
    ) -> Result<Sent, Halt> {
        let mut sent = 0;
        loop {
            while rows.is_loaded() && sent < max {
                sent += rows.put_rows(self.wire.buffer_for_rows(), max - sent)?;
                if self.wire.buffered() >= FLUSH_BYTES {
                    self.flush_rows(rows, interrupt).await?;
                    // Without this, Tokio would let the task fill a socket's buffer of megabytes
                    // in one go.
                    yield_now().await;
                }
            }
            if sent == max {
                return Ok(Sent {
                    rows: sent,
                    complete: false,
                });
            }
            // Encoded rows go out before a wait, which may be long. Without rows the client would
            // be woken twice, the first time for a description.
            let batch = match futures::FutureExt::now_or_never(rows.next_batch()) {
                Some(batch) => batch?,
                None => {
                    if self.wire.holds_rows() {
                        self.flush(interrupt).await?;
                    }
                    supervise(&mut self.wire, interrupt, rows.next_batch()).await?
                }
            };
            match batch {
                Some(batch) => rows.load(&batch)?,
                None => {
                    return Ok(Sent {
                        rows: sent,
                        complete: true,
                    });
                }
            }
        }
    }

    /// Writes out the encoded rows. If the client does not read, the rest of the batch is put back
    /// in front of the waiting batches (S6).
    async fn flush_rows(&mut self, rows: &mut Rows, interrupt: &mut Interrupt) -> Result<(), Halt> {
        let mut flushed = pin!(self.flush(interrupt));
        if let Poll::Ready(flushed) = futures::poll!(flushed.as_mut()) {
            return flushed;
        }
        rows.give_up_turn();
        let patience = rows.patience();
        tokio::select! {
            biased;
            flushed = &mut flushed => return flushed,
            () = sleep(patience) => rows.put_aside(),
        }
        flushed.await
    }

    /// Sends what is in the buffer, if that is much: results without rows, each of which may have a
    /// description of many columns.
    pub(super) async fn flush_much(&mut self, interrupt: &mut Interrupt) -> Result<(), Halt> {
        if self.wire.buffered() < FLUSH_BYTES {
            return Ok(());
        }
        self.flush(interrupt).await
    }

    /// Sends the encoded rows. If the statement is interrupted after its commit point, a client
    /// that does not read loses its connection instead of being told that nothing was done.
    async fn flush(&mut self, interrupt: &mut Interrupt) -> Result<(), Halt> {
        let failure = tokio::select! {
            biased;
            failure = interrupt.fired() => failure,
            flushed = self.wire.flush() => return Ok(flushed?),
        };
        if interrupt.commit_point.abandon() {
            return Err(failure.into());
        }
        match timeout(GOODBYE_TIMEOUT, self.wire.flush()).await {
            Ok(flushed) => Ok(flushed?),
            Err(_) => Err(Halt::Gone),
        }
    }

    /// Announces COPY data to the client, if the rows are sent as such.
    pub(crate) fn start_copy(&mut self, rows: &Rows) -> Result<(), Halt> {
        if let Some(format) = rows.copy_format() {
            for message in format.start(&rows.columns)? {
                self.wire.put(&message)?;
            }
        }
        Ok(())
    }

    /// Ends the COPY data, if the rows were sent as such.
    pub(crate) fn end_copy(&mut self, rows: &Rows) -> Result<(), Halt> {
        for message in rows.copy_end() {
            self.wire.put(&message)?;
        }
        Ok(())
    }

    /// Sends what the statement has said beside its answer, as far as the client wants it.
    pub(crate) fn send_notices(&mut self) -> Result<(), Halt> {
        let settings = &self.session.settings;
        let mut notices = self.session.notices.take();
        notices.retain(|notice| settings.wants(notice.severity));
        for notice in notices {
            self.wire.put(&noticed(notice))?;
        }
        Ok(())
    }

    /// Ends a statement with its tag.
    pub(crate) fn complete(&mut self, tag: String) -> Result<(), Halt> {
        self.send_notices()?;
        let complete = CommandComplete::new(tag);
        Ok(self
            .wire
            .put(&PgWireBackendMessage::CommandComplete(complete))?)
    }

    pub(crate) fn report(&mut self, reports: impl IntoIterator<Item = Report>) -> Result<(), Halt> {
        for (name, value) in reports {
            let status = ParameterStatus::new(name.to_owned(), value);
            self.wire
                .put(&PgWireBackendMessage::ParameterStatus(status))?;
        }
        Ok(())
    }
}
