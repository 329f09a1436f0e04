//! The scheduling core of Coscan: pure state machines that decide what is read, kept, handed out
//! and evicted.
//!
//! Nothing here reads a clock, starts a thread, touches a file or draws a random number. A driver
//! (the storage crate with real devices, the simulator with modelled ones) tells the core what
//! happened through [`Abm::handle`] and carries out the actions it takes from [`Abm::poll_action`].
//! The same events give the same actions, always: that is what makes replay, simulation and the
//! oracle test possible.
//!
//! `abm/` is the state machine, `state.rs` and `table/` what it knows, `policy/` the rules by which
//! it decides, `smooth/` the smooth scan, `operators/` who shares whose work above scans,
//! `borders.rs` which groups of a sorted table are complete, `tasks/` who runs next.
//!
//! The contract is `docs/design/abm.md`; the papers are named in `docs/BIBLIOGRAPHY.md`.
#![forbid(unsafe_code)]

mod abm;
mod bits;
pub mod borders;
mod by_name;
mod chunk_set;
mod column_set;
mod ids;
pub mod operators;
pub mod parallelism;
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
pub use by_name::UnknownName;
pub use chunk_set::ChunkSet;
pub use column_set::ColumnSet;
pub use ids::{ChunkId, ColumnId, DeviceId, ExtentId, PageRequestId, ScanId, TableId, Time};
pub use policy::Policy;
pub use policy::turns::TurnLimit;
pub use table::layout::{ChunkLayout, SharedExtent, StorageModel, TableLayout};
pub use table::scan::{Part, ScanSpec};
