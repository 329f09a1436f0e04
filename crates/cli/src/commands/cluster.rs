//! `coscan cluster`: what is there to know about the nodes of a cluster?

use std::fmt::Write;
use std::path::PathBuf;

use clap::{Args, Subcommand};
use coscan_cluster::{Cluster, NodeHealth, Nodes};

use super::bench;
use crate::failure::Failure;

/// Options of `coscan cluster`.
#[derive(Args)]
pub(crate) struct Options {
    #[command(subcommand)]
    about: About,
}

#[derive(Subcommand)]
enum About {
    /// Ask each node whether it can take part in queries. Fails if one cannot.
    Status {
        /// The list of nodes, or their name (docs/how-to/cluster.md).
        #[arg(value_name = "FILE|dns:NAME:PORT")]
        list: PathBuf,
    },
}

/// Runs the command.
pub(crate) fn run(options: &Options) -> Result<(), Failure> {
    let About::Status { list } = &options.about;
    let health = crate::block_on(async {
        let nodes = Nodes::read(list).map_err(Failure::new)?;
        let cluster = Cluster::new(nodes).map_err(Failure::new)?;
        Ok(cluster.health().await)
    })?;
    bench::print(&table(&health))?;
    let lost = health.iter().filter(|node| node.is_well.is_err()).count();
    if lost == 0 {
        return Ok(());
    }
    let all = health.len();
    Err(Failure::new(format!(
        "{lost} of {all} nodes cannot take part in queries"
    )))
}

fn table(health: &[NodeHealth]) -> String {
    let width = health.iter().map(|node| node.node.len()).max();
    let width = width.unwrap_or_default();
    let mut text = String::new();
    for NodeHealth {
        node,
        took,
        is_well,
    } in health
    {
        // Writing to a String cannot fail.
        let _ = match is_well {
            Ok(()) => writeln!(
                text,
                "{node:width$}  well, {:.1} ms",
                took.as_secs_f64() * 1e3
            ),
            Err(error) => writeln!(text, "{node:width$}  {error}"),
        };
    }
    text
}
