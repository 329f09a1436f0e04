//! The scheduling core of Coscan: pure state machines that decide what is read, what is kept,
//! which scan gets which chunk, and what is evicted.
//!
//! Nothing here reads a clock, starts a thread, touches a file or draws a random number. A driver
//! (the storage crate with real devices, the simulator with modelled ones) tells the core what
//! happened through [`Abm::handle`] and carries out the actions that it takes from
//! [`Abm::poll_action`]. The same events always give the same actions: replay, simulation and the
//! oracle test depend on that.
//!
//! `abm/` is the state machine of the buffer manager, `state.rs` and `table/` hold its state, and
//! `policy/` holds its rules. `smooth/` is the smooth scan, `operators/` shares operators between
//! queries, `parallelism/` chooses how many workers each scan has, `group_borders.rs` finds the
//! complete groups of a sorted table, `tasks/` chooses which query's task runs next, `memory/`
//! decides which query gets memory, and `placement.rs` which node of a cluster reads a chunk.
//!
//! The contract is `docs/design/abm.md`; the papers are named in `docs/BIBLIOGRAPHY.md`.
#![forbid(unsafe_code)]

mod abm;
mod bits;
mod chunk_set;
mod column_set;
pub mod group_borders;
mod ids;
pub mod memory;
mod names;
pub mod operators;
pub mod parallelism;
pub mod placement;
mod policy;
pub mod smooth;
mod state;
mod table;
pub mod tasks;

pub use abm::config::AbmConfig;
pub use abm::error::EventError;
pub use abm::event::{Action, Event, LoadOrigin};
pub use abm::snapshot::{ChunkSnapshot, JobSnapshot, ScanSnapshot};
pub use abm::{Abm, log};
pub use chunk_set::ChunkSet;
pub use column_set::ColumnSet;
pub use ids::{ChunkId, ColumnId, DeviceId, ExtentId, PageRequestId, ScanId, TableId, Time};
pub use names::UnknownName;
pub use policy::Policy;
pub use policy::turns::TurnLimit;
pub use table::layout::{ChunkLayout, SharedExtent, StorageModel, TableLayout};
pub use table::scan::{Part, ScanSpec};
