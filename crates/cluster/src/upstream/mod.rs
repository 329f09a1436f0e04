//! How does datafusion-distributed run plans on many nodes for Coscan?
//!
//! | file | question |
//! |---|---|
//! | `divide.rs` | how is a plan divided into stages, and where do their tasks run? |
//! | `analyze.rs` | how does EXPLAIN ANALYZE show what nodes did? |
//! | `channel.rs` | how is a node reached, and how is it found to be lost? |
//! | `network.rs` | which thread do connections have? |
//! | `errors.rs` | how does an error travel, so that it arrives as what it was? |
//! | `codec.rs` | how do plans, scans and functions travel? |
//! | `memory.rs` | with which memory do parts run, and what does a node say where that is short? |
//! | `settings.rs` | which of the session's settings travel with a query? |
//! | `serve.rs` | how does a node run the parts that it gets? |
//! | `status.rs` | how does a node say how busy it is, and how is that heard? |
//! | `unrepeatable.rs` | which inputs can an operator not read again? |
//!
//! Everything that names the library is here.

mod analyze;
mod channel;
mod codec;
mod divide;
mod errors;
mod memory;
mod network;
mod serve;
mod settings;
mod status;
mod unrepeatable;

pub(crate) use divide::Upstream;
pub(crate) use serve::serve;
