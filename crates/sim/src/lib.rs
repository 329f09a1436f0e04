//! A discrete-event simulator that drives the scheduling core of the real engine in virtual time.
//!
//! Devices and CPUs are modelled, the decisions are not: the very [`coscan_core::Abm`] that the engine runs takes them. (commit,
//! seed) fixes every event. This is the beginning of issue 3: one device, processor sharing, streams of queries; enough to run
//! the papers' workload in seconds and compare policies while they are being built.
#![forbid(unsafe_code)]

mod cpu;
mod device;
mod run;
mod table2;

pub use device::DeviceModel;
pub use run::{Experiment, Outcome, Query, QueryOutcome, Stream};
pub use table2::{Summary, paper_workload, summarise, table2};
