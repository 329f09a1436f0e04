//! `coscan index`: secondary indexes of Parquet tables.
//!
//! Each subcommand runs the SQL statement of the same name on a table given by its path.

use clap::{Args, Subcommand};
use coscan::Session;

use super::sql;
use crate::args;
use crate::failure::Failure;

/// Options of `coscan index`.
#[derive(Args)]
pub(crate) struct Options {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Build an index on a column.
    Create(CreateArgs),
    /// Rebuild an index from the table's present files.
    Refresh(NamedArgs),
    /// Show the indexes of a table.
    List(TableArgs),
    /// Remove an index.
    Drop(NamedArgs),
}

#[derive(Args)]
struct TableArgs {
    /// The table: a Parquet file, a folder, a glob, or a URL (s3://, http://).
    #[arg(value_name = "PATH")]
    table: String,
    #[command(flatten)]
    settings: args::Settings,
}

#[derive(Args)]
struct CreateArgs {
    #[command(flatten)]
    table: TableArgs,
    /// The column.
    #[arg(value_name = "COLUMN")]
    column: String,
    /// The name of the index [default: the column's name with `_index`].
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
    /// Do nothing if an index of this name exists.
    #[arg(long)]
    if_not_exists: bool,
}

#[derive(Args)]
struct NamedArgs {
    #[command(flatten)]
    table: TableArgs,
    /// The index.
    #[arg(value_name = "NAME")]
    name: String,
}

/// The table's name in the statements.
const TABLE: &str = "t";

/// Runs the command.
pub(crate) fn run(options: &Options) -> Result<(), Failure> {
    let (table, statement) = match &options.command {
        Command::Create(create) => {
            let default = format!("{}_index", create.column);
            let name = quoted(create.name.as_ref().unwrap_or(&default));
            let exists = if create.if_not_exists {
                "IF NOT EXISTS "
            } else {
                ""
            };
            let column = quoted(&create.column);
            let statement = format!("CREATE INDEX {exists}{name} ON {TABLE} ({column})");
            (&create.table, statement)
        }
        Command::Refresh(named) => (
            &named.table,
            format!("REFRESH INDEX {}", quoted(&named.name)),
        ),
        Command::List(table) => (table, "SHOW INDEXES".to_owned()),
        Command::Drop(named) => (&named.table, format!("DROP INDEX {}", quoted(&named.name))),
    };
    crate::block_on(async {
        let engine = table.settings.engine()?;
        let session: Session = engine.session();
        session.register(TABLE, &table.table).await?;
        sql::run_one(&session, &statement).await
    })
}

fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}
