//! The subcommands of `coscan`, one module each.
//!
//! | module | subcommand |
//! |---|---|
//! | `bench/` | `bench`: measures |
//! | `commands/cluster.rs` | `cluster`: the nodes of a cluster |
//! | `commands/demo.rs` | `demo`: the papers' experiment on a generated table |
//! | `commands/index.rs` | `index`: secondary indexes |
//! | `commands/rewrite.rs` | `rewrite`: files as one file whose pages begin at the same rows |
//! | `commands/serve.rs` | `serve`: the server |
//! | `commands/spread.rs` | `spread`: a table as files in several folders, one on each disk |
//! | `commands/sql.rs` | `sql`: runs statements |
//! | `commands/worker.rs` | `worker`: runs parts of queries of a cluster |

pub(super) mod bench;
pub(super) mod cluster;
pub(super) mod demo;
pub(super) mod index;
pub(super) mod rewrite;
pub(super) mod serve;
pub(super) mod spread;
pub(super) mod sql;
pub(super) mod worker;
