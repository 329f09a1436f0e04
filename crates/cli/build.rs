//! How is the program linked without debug data that users do not need?
//!
//! Of some 900 MB that the linker would write, 700 are line tables, which only debuggers and the
//! lines in backtraces use. Dependencies are compiled without them (`Cargo.toml`); those of our
//! crates and of the standard library are stripped when the program is linked. Names of functions
//! stay: `perf` and backtraces show them. Panics still name file and line, because these are
//! compiled in.
//!
//! `COSCAN_KEEP_LINES=1` keeps the line tables.
//! Not here: test programs, which keep theirs.

use std::env;

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rerun-if-env-changed=COSCAN_KEEP_LINES");
    let keep = env::var_os("COSCAN_KEEP_LINES").is_some_and(|keep| keep != "0" && !keep.is_empty());
    // Every GNU-compatible linker has this option.
    if !keep && env::var("CARGO_CFG_TARGET_ENV").is_ok_and(|env| env == "gnu") {
        println!("cargo:rustc-link-arg-bins=-Wl,--strip-debug");
    }
}
