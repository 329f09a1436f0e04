//! How is a run of the core written down, so that it can be run again?
//!
//! Idea: text, a line per event and a line per action, so that a log can be written while it
//! happens, cut off anywhere, read with `grep` and compared byte for byte. The events are enough to
//! run the core again; the actions are there to be compared with.
//!
//! ```text
//! coscan-log 1 policy=relevance model=dsm budget=1048576 loads=2 stall=5000000000 unit=100000000 turns=-
//! 0 TableRegistered 0 columns=2 chunks=0:4096/8192*3 shared=1:0-2:512
//! 10 ScanRegistered 0 table=0 consumers=1 ordered=0 parts=0-2:0-1
//! > Load 0 0 columns=0-1 extents=0 bytes=12800 scan=0
//! 25 ChunkRequested 0
//! end
//! ```
//!
//! A line that begins with a number is an event at that time, `> ` an action of the event before
//! it, `! ` the reason why the core refused that event. `end` closes a log that was not cut off.
//! Grammar: `docs/design/chaos.md`.
//! Not here: files (coscan-storage writes them, coscan-study reads them), running a log again
//! (coscan-sim).
//! Bounds: a line is as long as its event; a layout of equal chunks is short. `CHUNKS_MAX` per
//! layout when reading.
//! LOG-I1: what is written is read back as the same event.

mod decode;
mod encode;

pub use decode::{LogError, Record, parse};
pub use encode::{write_action, write_config, write_end, write_event, write_refusal};

/// Goes up with every change after which an older reader would misread a log.
pub const VERSION: u32 = 1;

/// First word of a log.
pub(crate) const MAGIC: &str = "coscan-log";

#[cfg(test)]
mod tests;
