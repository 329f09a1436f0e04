//! The local file system as a device: `io_uring` and direct I/O, with plain reads as the fallback.
//!
//! | file | question or content |
//! |---|---|
//! | `local_device.rs` | the device |
//! | `positional.rs` | the fallback |
//! | `scatter.rs` | where the bytes of requests go |
//! | `handles.rs`, `open_file.rs` | open files |
//! | `local_path.rs` | the path of a location of the local store |
//! | `local_version.rs` | when two local files are the same version |
//! | `calls.rs` | calls into a file system that may never return |
//! | `from_memory.rs`, `cached.rs` | calls that the kernel answers from its memory |
//! | `mounts.rs` | which mount a path is on |
//! | `sys` | the unsafe code of reads |
//!
//! Not here: which requests to issue (`../merge.rs`).

mod cached;
mod calls;
mod from_memory;
mod handles;
mod local_device;
mod local_path;
pub(super) mod local_version;
mod mounts;
mod open_file;
mod positional;
pub(super) mod scatter;
mod sys;

pub use from_memory::FromMemory;
pub(super) use handles::unreadable;
pub use local_device::{LocalDevice, LocalEngine, LocalOptions};
pub(super) use local_path::path_of;
pub(super) use local_version::device_number;
pub use local_version::{known_in_full, lasting_tag, listed_time, local_version};
pub(super) use mounts::Mounts;
pub(super) use sys::Ring;
