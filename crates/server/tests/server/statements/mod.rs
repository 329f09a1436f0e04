//! Statements and their results, in both protocols.
//!
//! | file | what is tested |
//! |---|---|
//! | `protocol.rs` | types, formats, messages |
//! | `parameters.rs` | types of parameters |
//! | `positions.rs` | where errors point |
//! | `replanning.rs` | prepared statements whose tables change |
//! | `cursors.rs`, `held_cursors.rs` | cursors |
//! | `copy.rs` | COPY |
//! | `settings.rs` | SET, SHOW, RESET |
//! | `moments.rs` | `now()` |
//! | `notices.rs` | what statements say beside their answers |
//! | `indexes.rs` | statements about indexes |

mod copy;
mod cursors;
mod held_cursors;
mod indexes;
mod moments;
mod notices;
mod parameters;
mod positions;
mod protocol;
mod replanning;
mod settings;
