//! How do the streams of an index scan find their rows and return them?
//!
//! | file | question |
//! |---|---|
//! | `reader.rs` | how does one stream find its rows? |
//! | `lapsing.rs` | how does a read that is not polled give its memory back? |
//! | `stream.rs` | how does one partition return its rows, in any order? |
//! | `ordered.rs`, `result_cache.rs` | how are rows returned in the order of the key, and where do rows wait for their turn? |
//!
//! Not here: what the streams of one execution share (`../execution.rs`).

mod lapsing;
mod ordered;
mod reader;
mod result_cache;
mod stream;

pub(crate) use stream::open;
