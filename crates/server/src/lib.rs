//! PostgreSQL's wire protocol in front of DataFusion sessions.
//!
//! A [`Server`] listens, makes one [`SessionContext`](datafusion::prelude::SessionContext) per
//! connection with the caller's [`SessionFactory`], and streams results to any PostgreSQL client.
//! Clients can do whatever the factory's sessions can do; sessions of Coscan's engine also keep
//! clients within their rights and their memory.
//!
//! ```no_run
//! # use std::sync::Arc;
//! # use datafusion::prelude::SessionContext;
//! # async fn serve() -> Result<(), coscan_server::ServerError> {
//! use coscan_server::{Server, ServerConfig, SessionFactory};
//!
//! let factory: SessionFactory = Arc::new(|| Ok(SessionContext::new()));
//! let server = Server::bind(ServerConfig::new(([127, 0, 0, 1], 5432).into()), factory).await?;
//! server.run(coscan_server::stop_signal()).await
//! # }
//! ```
//!
//! pgwire supplies the messages, TLS negotiation, SCRAM and cancel keys; datafusion-postgres
//! supplies PostgreSQL's own rows of `pg_catalog` and decodes most parameters. Their handlers are
//! not used: they collect a portal's rows before they send the first, cancel only while planning,
//! notice a vanished client only when they write, swallow failed `SET`s, and share one session
//! among all connections.
//!
//! S1: a session belongs to one connection; what its client sets has no effect on others.
//! S2: the memory held for a result is bounded by a few record batches, however long the result
//! is.
//! S3: a cancelled, timed-out or abandoned statement drops its stream at once.
//! S4: a panic in a query becomes an error of that query.
//! S5: without a password, the server listens only on loopback unless explicitly allowed.
//! S6: rows that wait for an idle client are on disk.
//! S8: a client that does not read does not keep memory from others.

mod advisory;
mod catalog;
mod config;
mod encode;
mod error;
mod failure;
mod listen;
mod net;
mod origins;
mod protocol;
mod statements;

pub use config::{ServerConfig, SessionFactory, TlsFiles};
pub use error::ServerError;
pub use listen::{Server, stop_signal};
