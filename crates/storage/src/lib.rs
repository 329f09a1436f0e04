//! Drives the scheduling core with real devices: reads, frames, memory budget, chunk maps, decode.

mod error;

pub use error::{Result, StorageError};
