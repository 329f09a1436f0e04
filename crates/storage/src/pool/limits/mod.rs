//! How much runs at a time: reads of devices, chunks in decode, consumers that hold memory.
//!
//! | file | what it answers |
//! |---|---|
//! | `utilisation.rs` | how busy devices and processors are |
//! | `degree.rs` | from how many devices a scan reads at a time |
//! | `balance.rs` | whether memory goes to arrays or to frames |
//! | `gate.rs` | how many chunks are in decode |
//! | `silent.rs` | from which consumers the pool takes memory back |
//!
//! Not here: the budget of the process (`../../memory`).

pub(super) mod balance;
mod degree;
mod gate;
mod silent;
pub(super) mod utilisation;

pub(super) use degree::Degrees;
pub(super) use gate::{COLUMN_BYTES, Gate, PATIENCE, Pass};
pub(super) use silent::{DOUBLINGS_MAX, Watched};
pub use silent::{Lapses, Watch};
pub(super) use utilisation::{Meters, Utilisation};
