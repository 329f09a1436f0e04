//! Tables of files wherever they are, and tables that sessions change.
//!
//! | file | what is tested |
//! |---|---|
//! | `folders.rs` | folders, whatever other tools leave there |
//! | `declustered.rs` | files in several places |
//! | `http.rs`, `object_store.rs` | web servers and S3 |
//! | `one_listing.rs` | one state of the files for each statement |
//! | `own_changes.rs` | DELETE and UPDATE |
//! | `foreign.rs` | sessions of DataFusion that the user made |

mod declustered;
mod folders;
mod foreign;
mod http;
mod object_store;
mod one_listing;
mod own_changes;

pub(super) use declustered::{QUERIES, devices, places, three, with_faulty, write};
