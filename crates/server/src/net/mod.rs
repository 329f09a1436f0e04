//! What lies between a socket and a session: bytes, TLS, passwords, and what a client may hold.
//!
//! | where | question |
//! |---|---|
//! | `wire/` | how are a connection's bytes read and written? |
//! | `net/tls.rs` | how is TLS offered? |
//! | `unauthenticated/` | what may clients hold that have not given a password? |
//! | `net/auth.rs` | who may connect? |
//! | `net/keepalive.rs` | when does the server give up a client that does not answer? |
//! | `net/spare.rs` | how does it refuse clients when no file descriptor is left? |
//! | `net/client_wait.rs` | does a connection wait for its client? |
//! | `net/cancel.rs` | what can end a statement before its last row? |
//! | `net/ledger.rs` | how much memory may a client make its connection hold? |
//! | `net/senders.rs` | how many connections send rows of large batches at a time? |
//!
//! Not here: messages and what they do (`../protocol`).

mod auth;
mod cancel;
mod client_wait;
mod keepalive;
mod ledger;
mod senders;
mod spare;
mod tls;
mod unauthenticated;
mod wire;

pub(super) use auth::{Verifier, authenticate, authentication};
pub(super) use cancel::{GOODBYE_TIMEOUT, Interrupt, Phase, passed, reached};
pub(super) use client_wait::ClientWait;
pub(super) use keepalive::keep_alive;
pub(super) use ledger::{Held, Ledger};
pub(super) use senders::{FLUSH_BYTES, Senders, Sending, bound_unsent};
pub(super) use spare::{Spare, out_of_descriptors, some_are_left};
pub(super) use tls::Tls;
pub(super) use unauthenticated::{Place, Unauthenticated};
pub(super) use wire::{Unread, Wire, last_words};
