//! How is a run of the core recorded so that it can be replayed?
//!
//! Idea: text with one line per event and one per action, so that a log can be written as events
//! happen, be cut off anywhere, be searched with `grep` and be compared byte for byte. The events
//! suffice to replay the core; the actions are there for comparison.
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
//! A line that begins with a number is an event at that time. `> ` begins an action that followed
//! the preceding event, `! ` the reason why the core refused it. `end` closes a complete log.
//! Grammar: `docs/design/chaos.md`.
//! Not here: files (coscan-storage writes them, coscan-study reads them), replay (coscan-sim).
//! Bounds: a line is as long as its event; a layout of equal chunks is short. At most `CHUNKS_MAX`
//! chunks per layout when reading.
//! LOG-I1: a written event is read back as the same event.

mod decode;
mod encode;

pub use decode::{LogError, Record, parse};
pub use encode::{write_action, write_config, write_end, write_event, write_refusal};

/// Increases with every change after which an older reader would misread a log.
pub const VERSION: u32 = 1;

/// First word of a log.
pub(crate) const MAGIC: &str = "coscan-log";

#[cfg(test)]
mod tests;
