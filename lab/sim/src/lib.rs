//! A discrete-event simulator that drives the scheduling core of the real engine in virtual time.
//!
//! Devices and CPUs are modelled; decisions are made by the same [`coscan_core::Abm`] that the
//! engine runs. (commit, seed) fixes every event: nothing here reads a clock, a file or a random
//! source of the host. The experiments of the papers, and the claims that they must show, are in
//! coscan-study. `docs/design/simulator.md` describes the model.
#![forbid(unsafe_code)]

mod bounds;
pub mod chaos;
mod cpu;
mod device;
mod fragments;
mod network;
pub mod nodes;
mod random;
mod replay;
mod run;
mod scale;
mod scenario;
pub mod shared_disk;

pub use bounds::Bounds;
pub use device::{CacheModel, DeviceModel};
pub use network::NetworkModel;
pub use random::Random;
pub use replay::{Replay, ReplayError, Replayed, replay};
pub use run::Watch;
pub use scale::{Scale, ScaleOptions};
pub use scenario::{
    Access, Fragments, Handed, Jobs, Outcome, Placement, Query, QueryOutcome, Scenario, Stream,
    arrivals, streams,
};
