//! How does a segment come into memory, in which form does it stay, and when does it leave?
//!
//! | file | what it answers |
//! |---|---|
//! | `load.rs`, `io_threads.rs` | how a load is read, and on which thread |
//! | `reserve.rs` | how page reads that a query waits for overtake loads |
//! | `segment_form.rs` | whether a segment is kept as pages or as arrays |
//! | `idle_arrays.rs` | which decoded arrays are dropped first |
//! | `lend.rs` | the pool's side of the budget (`../../memory`) |
//!
//! Not here: decoding (`../decode`), which frames are evicted (coscan-core).

mod idle_arrays;
mod io_threads;
mod lend;
mod load;
mod reserve;
mod segment_form;

pub(super) use io_threads::IoThreads;
pub(super) use reserve::Reserve;
