//! How do clients run queries on the engine, and what does that take?
//!
//! | file | question |
//! |---|---|
//! | `arena.rs` | how is the engine set up and asked? |
//! | `clients.rs` | which client sends which query, and when? |
//! | `answer.rs` | are two results the same rows? |
//! | `cpu.rs` | how much processor time did it take? |
//!
//! Not here: the queries, and what the times mean (the experiments).

pub(crate) mod answer;
pub(crate) mod arena;
pub(crate) mod clients;
pub(crate) mod cpu;
