//! The subcommands of `coscan`, one module each.
//!
//! | module | subcommand |
//! |---|---|
//! | `bench/` | `bench`: measures |
//! | `commands/demo.rs` | `demo`: queries that share reads, with a table made for it |
//! | `commands/index.rs` | `index`: builds, lists and drops indexes |
//! | `commands/rewrite.rs` | `rewrite`: writes a table's files in another order |
//! | `commands/serve.rs` | `serve`: the server |
//! | `commands/spread.rs` | `spread`: distributes a table's files over devices |
//! | `commands/sql.rs` | `sql`: runs statements |

pub(super) mod bench;
pub(super) mod demo;
pub(super) mod index;
pub(super) mod rewrite;
pub(super) mod serve;
pub(super) mod spread;
pub(super) mod sql;
