//! Work that queries share, and the rows that they get in spite of it.
//!
//! | file | what is tested |
//! |---|---|
//! | `fragments.rs`, `merged_states.rs` | aggregates of a chunk, computed once |
//! | `shared_operators.rs`, `kept_results.rs` | operators, and outputs that are kept |
//! | `shared_hash_tables.rs` | hash tables of joins |
//! | `once.rs` | queries in WITH |
//! | `sharing_measured.rs` | what sharing costs and saves (run by hand) |

mod fragments;
mod kept_results;
mod merged_states;
mod once;
mod shared_hash_tables;
mod shared_operators;
mod sharing_measured;

pub(super) use shared_operators::{all_is_over, metrics};
