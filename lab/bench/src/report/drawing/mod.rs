//! What do all pictures have in common?
//!
//! | file | question |
//! |---|---|
//! | `axis.rs` | where does a value lie, and which values get a tick? |
//! | `frame.rs` | what stands around a plot? |
//! | `palette.rs` | which colour means what? |

pub(super) mod axis;
pub(super) mod frame;
pub(super) mod palette;
