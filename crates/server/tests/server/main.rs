//! The server as its clients use it. One binary, because each test binary links all of DataFusion.

#![allow(
    clippy::unwrap_used,
    clippy::cast_possible_truncation,
    clippy::cast_possible_wrap,
    clippy::cast_sign_loss,
    unreachable_pub,
    clippy::match_bool,
    reason = "tests: a failure is a panic, and numbers are small"
)]

mod admission;
mod catalog;
mod clients;
mod common;
mod copy;
mod crowds;
mod cursors;
mod drivers;
mod held_cursors;
mod hostile;
mod idle;
mod indexes;
mod interruption;
mod malformed;
mod moments;
mod own_files;
mod own_tables;
mod parameters;
mod places;
mod protocol;
mod psql;
mod psycopg;
mod replanning;
mod rerun;
mod rights;
mod settings;
mod sharing;
