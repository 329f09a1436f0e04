//! Tests of a cluster whose workers are threads of the test's process, on addresses of this
//! machine, each with a runtime and an engine of its own.

#![allow(
    clippy::unwrap_used,
    reason = "tests: a failure is a panic, and numbers are small"
)]

#[path = "../../../engine/tests/engine/common/mod.rs"]
mod common;
mod failures;
mod memory;
mod names;
mod once;
mod refused;
mod tls;
mod tpch;
mod unread;
mod width;
mod workers;
