//! `coscan sim`: the papers' experiments in the simulator, their claims, and faults by the thousand.
//!
//! Idea: what an experiment is and what it must show stands here, once, as data: figures beside the paper's, claims with their
//! evidence, plots. The machine is `coscan-sim`'s, the decisions are `coscan-core`'s; this crate reads no clock and draws
//! nothing at random either, but it writes files and prints.

pub mod command;
