//! How do clients run side by side without sharing anything?
//!
//! Idea: each client has tables of its own: the same files, by paths and names that no other
//! client uses. The engine takes them for other tables, so whatever it shares between queries on a
//! table (chunks in memory, fragments, operators), two clients share nothing. Policy, settings,
//! device and memory are those of clients that share. The first client has the tables as they are,
//! so that a client alone is measured under the same names, too.
//!
//! The paths lead through symbolic links, so the rows take no room on the disk again.

use std::path::Path;

use tempfile::TempDir;

use crate::error::{BenchError, Result};
use crate::running::arena::TableFile;
use crate::running::clients::{Ask, Client};

/// The links to the tables' folders; dropping them removes them.
pub(crate) struct OwnTables {
    folder: TempDir,
}

impl OwnTables {
    /// The tables of this many clients, and the links.
    ///
    /// # Errors
    /// The disk refuses.
    pub(crate) fn link(tables: &[TableFile], clients: usize) -> Result<(Self, Vec<TableFile>)> {
        let folder = tempfile::Builder::new()
            .prefix("coscan-own-tables-")
            .tempdir()
            .map_err(|error| BenchError::io(std::env::temp_dir(), error))?;
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
        let link = self.folder.path().join(&name);
        let folder = path.parent().unwrap_or(Path::new("/"));
        std::os::unix::fs::symlink(folder, &link).map_err(of_file)?;
        Ok(TableFile {
            name,
            path: link.join(path.file_name().unwrap_or_default()),
            order: table.order,
        })
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
/// place, which no result shows. Text literals stay as they are.
fn renamed(sql: &str, tables: &[TableFile], client: usize) -> String {
    // A quote within a literal is two quotes, which is one more literal to this rule.
    let parts = sql.split('\'').enumerate().map(|(number, part)| {
        if number % 2 == 0 {
            renamed_words(part, tables, client)
        } else {
            part.to_owned()
        }
    });
    parts.collect::<Vec<String>>().join("'")
}

/// As [`renamed`], without literals.
fn renamed_words(sql: &str, tables: &[TableFile], client: usize) -> String {
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
    use std::time::Duration;

    use super::*;
    use crate::qpipe::variant::APART;
    use crate::qpipe::wisconsin;
    use crate::running::arena::{Arena, ArenaConfig};

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

    /// Everything fits in memory, so a client reads again only what is not shared with it. The
    /// clients ask in turn: what each reads does not depend on time. Fails if the engine takes two
    /// paths of one file for one table.
    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn clients_that_ask_the_same_read_their_tables_once_each() {
        let root = tempfile::tempdir().unwrap();
        let [big1, _, _] = wisconsin::tables(0.01, 1);
        let path = big1.ensure(root.path(), |_| ()).await.unwrap();
        let tables = [TableFile::new(big1.name, &path)];
        let config = ArenaConfig {
            sharing: APART.sharing(),
            model: "dsm".to_owned(),
            buffer_bytes: None,
            bandwidth: None,
            latency: Duration::ZERO,
            devices: Vec::new(),
            parallelism: None,
            page_reserve: true,
            chunk_bytes: 64 << 10,
            target_partitions: Some(2),
            record: None,
            settings: vec![("coscan.state_cache", "0")],
            in_turn: false,
        };
        let ask = Ask::new(
            "0",
            "select sum(unique1) as s, max(stringu1) as t from big1",
        );
        let client = Client {
            asks: vec![ask],
            ..Client::default()
        };
        let read = async |clients: usize, are_apart: bool| {
            let (_links, all) = OwnTables::link(&tables, clients).unwrap();
            let alike = vec![client.clone(); clients];
            let asking = if are_apart {
                on_own_tables(&alike, &tables)
            } else {
                alike
            };
            let arena = Arena::open(&config, &all).await.unwrap();
            let before = arena.counters();
            for ask in asking.iter().flat_map(|client| &client.asks) {
                arena.run(&ask.label, &ask.sql).await.unwrap();
            }
            arena.counters().since(before).io_bytes
        };
        let one = read(1, true).await;
        let (apart, together) = (read(3, true).await, read(3, false).await);
        assert!(one > 50_000, "{one}");
        assert!(apart * 20 >= one * 3 * 19, "{apart} of three, {one} of one");
        assert!(together * 2 < one * 3, "{together} of three, {one} of one");
    }

    #[test]
    fn words_that_are_tables_are_renamed() {
        let tables = [TableFile::new("orders", Path::new("orders.parquet"))];
        let sql = "select o_orders from orders, c_orders where orders.x='orders'\n";
        let own = "select o_orders from orders_2, c_orders where orders_2.x='orders'\n";
        assert_eq!(renamed(sql, &tables, 2), own);
        assert_eq!(renamed(sql, &tables, 0), sql);
        let sql = "orders='an order''s orders' or orders='orders'";
        let own = "orders_1='an order''s orders' or orders_1='orders'";
        assert_eq!(renamed(sql, &tables, 1), own);
    }
}
