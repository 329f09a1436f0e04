//! How is the program linked, so that nobody keeps what he does not need?
//!
//! Of some 900 MB that the linker would write, 700 are tables of lines, of no use but to debuggers
//! and to the lines in backtraces. Dependencies are compiled without them (`Cargo.toml`); those of
//! our crates and of the standard library go when the program is linked. Names of functions stay:
//! `perf` and backtraces show them.
//! Panics name file and line as ever, for these are compiled in.
//!
//! `COSCAN_KEEP_LINES=1` keeps the lines.
//! Not here: programs of tests, which keep their lines.

use std::env;

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rerun-if-env-changed=COSCAN_KEEP_LINES");
    let keep = env::var_os("COSCAN_KEEP_LINES").is_some_and(|keep| keep != "0" && !keep.is_empty());
    // Every linker for this target has the option.
    if !keep && env::var("CARGO_CFG_TARGET_ENV").is_ok_and(|env| env == "gnu") {
        println!("cargo:rustc-link-arg-bins=-Wl,--strip-debug");
    }
}
