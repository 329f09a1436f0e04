//! The engine as its users use it. One binary, because every test binary links all of DataFusion.

#![allow(
    clippy::unwrap_used,
    clippy::cast_possible_truncation,
    clippy::cast_possible_wrap,
    clippy::cast_sign_loss,
    clippy::format_collect,
    reason = "tests: a failure is a panic, and numbers are small"
)]

mod blocks;
mod common;
mod failures;
mod files;
mod indexes;
mod mutants;
mod plans;
mod random_mixes;
mod running;
#[path = "../../../storage/tests/s3-server/start.rs"]
mod s3;
mod scans;
mod session_settings;
mod sessions;
mod settings_page;
mod sharing;
mod statements;
mod statements_of_session;
mod tables;
mod thin_path;
