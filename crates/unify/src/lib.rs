//! Nothing but dependencies: one set of features for every selection of packages. See `Cargo.toml`.
