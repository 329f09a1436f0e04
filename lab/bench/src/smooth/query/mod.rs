//! Which queries run, over which table, by which access paths, and how is one measured?
//!
//! | file | question |
//! |---|---|
//! | `data.rs` | what is in the table? |
//! | `checksum.rs` | are these the rows of the query? |
//! | `paths.rs` | which access paths are compared, and what does the index scan owe to its weakness? |
//! | `measure.rs` | how long does one query take, and what does it read? |

pub(super) mod checksum;
pub mod data;
pub(super) mod measure;
pub mod paths;
