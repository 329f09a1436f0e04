//! A shared-disk system: all nodes read all disks, and scans are divided into subqueries.
//!
//! Idea: the paper's simulation model, from its text: queues for processors, controllers and arms,
//! LRU caches of nodes and controllers, messages with their instructions, locks with a primary
//! copy. The model works page by page: a relation scan of 12,500 pages is some 40,000 events.
//! Not here: the settings and claims of the paper's figures (coscan-study); the choice of the
//! degree of parallelism (coscan-core).
//! Source: [RahmStohr94 §3]. `docs/design/shared-disk.md` has definitions and differences.

mod arrival;
mod chosen;
mod coherency;
mod controller;
mod database;
mod ending;
mod events;
mod locks;
mod lru;
mod machine;
mod outcome;
mod page_locks;
mod servers;
mod slots;
mod subquery;
mod workload;
mod world;

pub use database::Relation;
pub use machine::{CacheFill, CacheScope, ControllerScope, Instructions, Machine, Variation};
pub use outcome::{ClassOutcome, Outcome};
pub use workload::{Access, Arrivals, Assignment, Class, Degree, Room, Scan, Transaction, Work};
pub use world::{Extent, System};
