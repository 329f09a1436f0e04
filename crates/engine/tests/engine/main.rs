//! The engine as its users use it. One binary, because every test binary links all of DataFusion.

#![allow(
    clippy::unwrap_used,
    clippy::cast_possible_truncation,
    clippy::cast_possible_wrap,
    clippy::cast_sign_loss,
    clippy::format_collect,
    reason = "tests: a failure is a panic, and numbers are small"
)]

mod bad_files;
mod blooms;
mod candidates;
mod clustered_joins;
mod common;
mod declustered;
mod devices_under_load;
mod explain;
mod faults;
mod few_rows;
mod files;
mod floats;
mod folders;
mod foreign;
mod fragments;
mod gives_way;
mod http;
mod idle_streams;
mod index_fails_midway;
mod index_faults;
mod index_order;
mod indexes;
mod join_filters;
mod kept_results;
mod left_behind;
mod merged_states;
mod mutants;
mod narrow_arrays;
mod needless_keys;
mod object_store;
mod once;
mod one_listing;
mod ordered_aggregates;
mod own_changes;
mod pages;
mod power_loss;
mod predicates;
mod random_mixes;
mod random_queries;
mod read_ahead;
mod replaced;
mod running;
#[path = "../../../storage/tests/s3-server/start.rs"]
mod s3;
mod same_names;
mod same_stamp;
mod sessions;
mod settings_page;
mod shared_hash_tables;
mod shared_operators;
mod sharing_measured;
mod spilled_repartitions;
mod statements;
mod thin_path;
mod tpch_rows_equal;
