//! How do clients run side by side without sharing anything?
//!
//! Idea: each client has tables of its own: the same files, by paths and names that no other
//! client uses. The engine takes them for other tables, so whatever it shares between queries on a
//! table (chunks in memory, fragments, operators), two clients share nothing. Policy, settings,
//! device and memory are those of clients that share. The first client has the tables as they are,
//! so that a client alone is measured under the same names, too.
//!
//! The paths lead through symbolic links, so the rows take no room on the disk again.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::arena::TableFile;
use crate::clients::{Ask, Client};
use crate::error::{BenchError, Result};

/// The links to the tables' folders; dropping them removes them.
pub(crate) struct OwnTables {
    folder: PathBuf,
}

impl OwnTables {
    /// The tables of this many clients, and the links.
    ///
    /// # Errors
    /// The disk refuses.
    pub(crate) fn link(tables: &[TableFile], clients: usize) -> Result<(Self, Vec<TableFile>)> {
        // Grounds of one process run side by side in tests.
        static MADE: AtomicUsize = AtomicUsize::new(0);
        let number = MADE.fetch_add(1, Ordering::Relaxed);
        let name = format!("coscan-own-tables-{}-{number}", std::process::id());
        let folder = std::env::temp_dir().join(name);
        std::fs::create_dir(&folder).map_err(|error| BenchError::io(&folder, error))?;
        let links = Self { folder };
        let mut all = tables.to_vec();
        for client in 1..clients {
            for table in tables {
                all.push(links.own(table, client)?);
            }
        }
        Ok((links, all))
    }

    fn own(&self, table: &TableFile, client: usize) -> Result<TableFile> {
        let of_file = |error| BenchError::io(&table.path, error);
        let path = std::path::absolute(&table.path).map_err(of_file)?;
        let name = own_name(&table.name, client);
        let link = self.folder.join(&name);
        let folder = path.parent().unwrap_or(Path::new("/"));
        std::os::unix::fs::symlink(folder, &link).map_err(of_file)?;
        Ok(TableFile {
            name,
            path: link.join(path.file_name().unwrap_or_default()),
            order: table.order,
        })
    }
}

impl Drop for OwnTables {
    fn drop(&mut self) {
        // What is left are links in the system's folder for temporary files.
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

/// The clients with each client's queries over its own tables.
pub(crate) fn on_own_tables(clients: &[Client], tables: &[TableFile]) -> Vec<Client> {
    let own = |(number, client): (usize, &Client)| {
        let ask = |ask: &Ask| Ask {
            sql: renamed(&ask.sql, tables, number).into(),
            ..ask.clone()
        };
        Client {
            start: client.start,
            asks: client.asks.iter().map(ask).collect(),
        }
    };
    clients.iter().enumerate().map(own).collect()
}

/// The statement with a client's own tables. A column that has a table's name is renamed in every
/// place, which no result shows.
fn renamed(sql: &str, tables: &[TableFile], client: usize) -> String {
    let within = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let pieces = sql.split_inclusive(|c: char| !within(c)).map(|piece| {
        let word = piece.trim_end_matches(|c: char| !within(c));
        if tables.iter().any(|table| table.name == word) {
            own_name(word, client) + &piece[word.len()..]
        } else {
            piece.to_owned()
        }
    });
    pieces.collect()
}

fn own_name(table: &str, client: usize) -> String {
    match client {
        0 => table.to_owned(),
        _ => format!("{table}_{client}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_has_names_and_paths_of_its_own() {
        let data = tempfile::tempdir().unwrap();
        let path = data.path().join("orders.parquet");
        std::fs::write(&path, "rows").unwrap();
        let tables = [TableFile::new("orders", &path)];
        let (links, all) = OwnTables::link(&tables, 3).unwrap();
        let names: Vec<&str> = all.iter().map(|table| table.name.as_str()).collect();
        assert_eq!(names, ["orders", "orders_1", "orders_2"]);
        for table in &all {
            assert_eq!(std::fs::read(&table.path).unwrap(), b"rows");
        }
        assert!(all[1].path != path && all[1].path != all[2].path);
        drop(links);
        assert!(path.is_file() && !all[1].path.exists());
    }

    #[test]
    fn words_that_are_tables_are_renamed() {
        let tables = [TableFile::new("orders", Path::new("orders.parquet"))];
        let sql = "select o_orders from orders, c_orders where orders.x='orders'\n";
        let own = "select o_orders from orders_2, c_orders where orders_2.x='orders_2'\n";
        assert_eq!(renamed(sql, &tables, 2), own);
        assert_eq!(renamed(sql, &tables, 0), sql);
    }
}
