//! A discrete-event simulator that drives the scheduling core of the real engine in virtual time.
//!
//! Devices and CPUs are modelled, the decisions are not: the very [`coscan_core::Abm`] that the
//! engine runs takes them. (commit, seed) fixes every event: nothing here reads a clock, a file or
//! a random source of the host. What the papers' experiments are and what they must show stands in
//! coscan-study. `docs/design/simulator.md` has the model.
#![forbid(unsafe_code)]

mod bounds;
pub mod chaos;
mod cpu;
mod device;
mod fragments;
mod network;
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
