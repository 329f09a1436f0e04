//! The scheduling core of Coscan: pure state machines that decide what is read, kept, handed out
//! and evicted.
//!
//! Nothing here reads a clock, starts a thread, touches a file or draws a random number. A driver
//! (the storage crate with real devices, the simulator with modelled ones) tells the core what
//! happened through [`Abm::handle`] and carries out the actions it takes from [`Abm::poll_action`].
//! The same events give the same actions, always: that is what makes replay, simulation and the
//! oracle test possible.
//!
//! The contract is `docs/design/abm.md`; the papers are named in `docs/BIBLIOGRAPHY.md`.
#![forbid(unsafe_code)]

mod abm;
mod bits;
#[cfg(feature = "canary")]
mod canary;
mod check;
mod chunk_set;
mod column_set;
mod elevator;
mod error;
mod event;
mod groups;
mod ids;
mod interest;
mod jobs;
mod layout;
mod loading;
pub mod log;
mod names;
mod needs;
mod pages;
pub mod parallelism;
mod pbm;
mod pruned;
mod relevance;
mod room;
mod scan;
mod segments;
mod sequential;
mod serving;
pub mod smooth;
mod snapshot;
mod starvation;
mod table;
mod turns;
mod validate;

pub use abm::Abm;
pub use chunk_set::ChunkSet;
pub use column_set::ColumnSet;
pub use error::EventError;
pub use event::{
    AbmConfig, Action, Event, LoadOrigin, Part, Policy, ScanSpec, StorageModel, TurnLimit,
};
pub use ids::{ChunkId, ColumnId, DeviceId, ExtentId, PageRequestId, ScanId, TableId, Time};
pub use layout::{ChunkLayout, SharedExtent, TableLayout};
pub use names::UnknownName;
pub use snapshot::{ChunkSnapshot, JobSnapshot, ScanSnapshot};
