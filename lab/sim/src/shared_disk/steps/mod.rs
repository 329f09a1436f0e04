//! What each event brings about in a running system: methods of [`System`](super::world::System).
//!
//! Not here: the system's state, and which step an event calls (`world.rs`).

mod arrival;
mod chosen;
mod ending;
mod page_locks;
mod subquery;
