//! A shared-disk system: all nodes read all disks, and scans are divided into subqueries.
//!
//! Idea: the paper's simulation model, from its text: queues for processors, controllers and arms,
//! LRU caches of nodes and controllers, messages with their instructions, locks with a primary
//! copy. The model works page by page: a relation scan of 12,500 pages is some 40,000 events.
//! Rooms: `hardware` is what the machine costs, `data` what holds for pages, `steps` what an event
//! brings about; `world.rs` is the running system.
//! Not here: the settings and claims of the paper's figures (coscan-study); the choice of the
//! degree of parallelism (coscan-core).
//! Source: [RahmStohr94 §3]. `docs/design/shared-disk.md` has definitions and differences.

mod controller;
mod data;
mod events;
mod hardware;
mod outcome;
mod slots;
mod steps;
mod workload;
mod world;

pub use data::database::Relation;
pub use hardware::machine::{
    CacheFill, CacheScope, ControllerScope, Instructions, Machine, Variation,
};
pub use outcome::{ClassOutcome, Outcome};
pub use workload::{Access, Arrivals, Assignment, Class, Degree, Room, Scan, Transaction, Work};
pub use world::{Extent, System};
