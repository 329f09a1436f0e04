//! How do the streams of an index scan find their rows and return them?
//!
//! | file | question |
//! |---|---|
//! | `reader.rs` | how does one stream find its rows? |
//! | `kept_pages.rs`, `picked_rows.rs` | which pages are decoded once for rows that are fetched one by one, and how are these picked? |
//! | `lapsing.rs` | how does a read that is not polled give its memory back? |
//! | `stream.rs` | how does one partition return its rows, in any order? |
//! | `ordered.rs`, `result_cache.rs` | how are rows returned in the order of the key, and where do rows wait for their turn? |
//!
//! Not here: what the streams of one execution share (`../execution.rs`).

mod kept_pages;
mod lapsing;
mod ordered;
mod picked_rows;
mod reader;
mod result_cache;
mod stream;

pub(super) use kept_pages::KeptPages;
pub(super) use picked_rows::DecodedPage;
pub(crate) use stream::open;
