//! Connections: who gets one, what ends it, and what one client can do to others.
//!
//! | file | what is tested |
//! |---|---|
//! | `admission.rs` | passwords, TLS, addresses |
//! | `crowds.rs` | many clients at once |
//! | `hostile.rs`, `malformed.rs` | clients and messages that mean harm |
//! | `idle.rs`, `interruption.rs` | time-outs, cancel requests, clients that go |
//! | `rerun.rs` | queries that find no memory |
//! | `seen.rs` | what others see of a connection and its queries |
//! | `waiting.rs` | sleeping, and waiting for advisory locks |

mod admission;
mod crowds;
mod hostile;
mod idle;
mod interruption;
mod malformed;
mod rerun;
mod seen;
mod waiting;
