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

mod catalog;
mod clients;
mod common;
mod connections;
mod drivers;
mod own_files;
mod own_sets;
mod own_tables;
mod places;
mod psql;
mod psycopg;
mod rights;
mod sharing;
mod statements;
