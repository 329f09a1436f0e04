//! Promised: the commands of docs/how-to/cluster.md. Workers are processes; statements and the
//! clients of a server run on them, and a worker that is killed is named, or left out.

#![allow(
    clippy::unwrap_used,
    reason = "tests: a failure is a panic, and numbers are small"
)]

mod common;

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;

use arrow::array::{Int64Array, RecordBatch};
use parquet::arrow::ArrowWriter;
use parquet::file::properties::WriterProperties;

use tokio_postgres::{Client, NoTls, SimpleQueryMessage};

use common::{coscan, failure, stdout};

/// A process that serves at an address, and ends with the test.
struct Serving {
    process: Child,
    address: String,
}

impl Serving {
    fn worker() -> Self {
        let arguments = ["worker", "--listen", "127.0.0.1:0", "--memory", "256MB"];
        Self::start(Path::new("."), &arguments, "worker on")
    }

    /// `coscan serve` on the cluster of `nodes.toml`.
    fn server(folder: &Path, table: &str, options: &[&str]) -> Self {
        let serve = ["serve", "-t", table, "--listen", "127.0.0.1:0"];
        let on_nodes = ["--memory", "256MiB", "--cluster", "nodes.toml"];
        let arguments = [&serve[..], &on_nodes, &SMALL, options].concat();
        Self::start(folder, &arguments, "listening on")
    }

    /// Starts the program, and waits until it says where it serves.
    fn start(folder: &Path, arguments: &[&str], says: &str) -> Self {
        let mut process = Command::new(env!("CARGO_BIN_EXE_coscan"))
            .args(arguments)
            .current_dir(folder)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut errors = BufReader::new(process.stderr.take().unwrap());
        let mut said = String::new();
        while !said.contains(says) {
            said.clear();
            assert!(errors.read_line(&mut said).unwrap() > 0, "it ended");
        }
        let address = said.trim().rsplit(' ').next().unwrap().to_owned();
        assert!(address.starts_with("127.0.0.1:"), "{said}");
        // What it says later must not fill the pipe.
        std::thread::spawn(move || std::io::copy(&mut errors, &mut std::io::sink()));
        Self { process, address }
    }

    fn kill(&mut self) {
        self.process.kill().unwrap();
        self.process.wait().unwrap();
    }

    async fn connect(&self) -> Client {
        let (host, port) = self.address.split_once(':').unwrap();
        let parameters = format!("host={host} port={port} user=tester");
        let connected = tokio_postgres::connect(&parameters, NoTls).await;
        let (client, connection) = connected.unwrap();
        tokio::spawn(connection);
        client
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// 100,000 rows in row groups of 10,000: k = n % 7, v = n.
fn table(folder: &Path) -> PathBuf {
    let k = Int64Array::from_iter_values((0..100_000).map(|n| n % 7));
    let v = Int64Array::from_iter_values(0..100_000);
    let batch = RecordBatch::try_from_iter([
        ("k", Arc::new(k) as Arc<dyn arrow::array::Array>),
        ("v", Arc::new(v) as _),
    ])
    .unwrap();
    let path = folder.join("t.parquet");
    let groups = WriterProperties::builder()
        .set_max_row_group_row_count(Some(10_000))
        .build();
    let file = File::create(&path).unwrap();
    let mut writer = ArrowWriter::try_new(file, batch.schema(), Some(groups)).unwrap();
    writer.write(&batch).unwrap();
    writer.close().unwrap();
    path
}

const QUERY: &str = "SELECT k, count(*) AS n, sum(v) AS s FROM t GROUP BY k ORDER BY k";

/// The options by which the small table is divided.
const SMALL: [&str; 4] = ["--small-table-bytes", "0", "--chunk-bytes", "64KiB"];

#[test]
fn statements_run_on_two_workers() {
    let folder = tempfile::tempdir().unwrap();
    let table = format!("t={}", table(folder.path()).display());
    let (first, mut second) = (Serving::worker(), Serving::worker());
    let list = format!(
        "nodes = [\"{}\", \"{}\"]\nbytes_per_node = \"1KiB\"\nsilence_timeout = \"20s\"\n",
        first.address, second.address
    );
    std::fs::write(folder.path().join("nodes.toml"), list).unwrap();
    let sql = |cluster: &[&str], statement: &str| {
        let arguments = [
            &["sql", "-t", &table, "--format", "csv"][..],
            &SMALL[..],
            cluster,
        ]
        .concat();
        coscan(folder.path(), &[&arguments[..], &[statement][..]].concat())
    };
    let on_nodes = ["--cluster", "nodes.toml"];
    let alone = stdout(&sql(&[], QUERY));
    assert_eq!(stdout(&sql(&on_nodes, QUERY)), alone);
    let plan = stdout(&sql(&on_nodes, &format!("EXPLAIN {QUERY}")));
    for worker in [&first, &second] {
        assert!(
            plan.contains(&format!("node={},", worker.address)),
            "{plan}"
        );
    }

    let error = failure(&sql(&on_nodes, "CREATE INDEX i ON t (v)"), 1);
    assert!(
        error.contains("does not run statements about an index"),
        "{error}"
    );
    let shown = stdout(&sql(&on_nodes, "SHOW INDEXES"));
    assert!(shown.starts_with("index"), "{shown}");

    let status = || coscan(folder.path(), &["cluster", "status", "nodes.toml"]);
    let shown = stdout(&status());
    assert_eq!(shown.matches("  well, ").count(), 2, "{shown}");

    second.kill();
    let status = status();
    assert_eq!(status.status.code(), Some(1));
    let shown = String::from_utf8(status.stdout).unwrap();
    assert_eq!(shown.matches("  well, ").count(), 1, "{shown}");
    let error = failure(&sql(&on_nodes, QUERY), 1);
    assert!(
        error.contains(&format!("node {}", second.address)),
        "{error}"
    );
}

#[test]
fn a_name_is_a_list() {
    let folder = tempfile::tempdir().unwrap();
    let table = format!("t={}", table(folder.path()).display());
    let worker = Serving::worker();
    let port = worker.address.rsplit(':').next().unwrap();
    let name = format!("dns:localhost:{port}");
    let sql = ["sql", "-t", &table, "--format", "csv", QUERY];
    let alone = stdout(&coscan(folder.path(), &sql));
    let on_nodes = [&sql[..], &["--cluster", &name]].concat();
    assert_eq!(stdout(&coscan(folder.path(), &on_nodes)), alone);
    let shown = stdout(&coscan(folder.path(), &["cluster", "status", &name]));
    assert_eq!(shown.matches("  well, ").count(), 1, "{shown}");
    assert!(shown.contains(&worker.address), "{shown}");
}

/// The rows of a statement as texts.
async fn texts(client: &Client, statement: &str) -> Vec<Vec<String>> {
    let messages = client.simple_query(statement).await;
    let messages = messages.unwrap_or_else(|error| panic!("{statement}: {error:?}"));
    let rows = messages.into_iter().filter_map(|message| match message {
        SimpleQueryMessage::Row(row) => {
            let text = |at| row.get(at).unwrap_or("NULL").to_owned();
            Some((0..row.len()).map(text).collect())
        }
        _ => None,
    });
    rows.collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn clients_of_a_server_are_answered_by_workers() {
    let folder = tempfile::tempdir().unwrap();
    let table = format!("t={}", table(folder.path()).display());
    let (first, mut second) = (Serving::worker(), Serving::worker());
    let list = format!(
        "nodes = [\"{}\", \"{}\"]\nbytes_per_node = \"1KiB\"\nsilence_timeout = \"20s\"\n",
        first.address, second.address
    );
    std::fs::write(folder.path().join("nodes.toml"), list).unwrap();
    let served = Serving::server(folder.path(), &table, &[]);
    let client = served.connect().await;
    let plan = texts(&client, &format!("EXPLAIN {QUERY}")).await.concat();
    let plan = plan.join("\n");
    for worker in [&first, &second] {
        let node = format!("node={},", worker.address);
        assert!(plan.contains(&node), "{plan}");
    }
    let expected: Vec<Vec<String>> = (0..7)
        .map(|k| {
            let of_k = || (0..100_000_i64).filter(move |n| n % 7 == k);
            vec![
                k.to_string(),
                of_k().count().to_string(),
                of_k().sum::<i64>().to_string(),
            ]
        })
        .collect();
    assert_eq!(texts(&client, QUERY).await, expected);

    // What a server adds to sessions travels: bounded functions, casts that know their transaction.
    for (sql, answer) in [
        (
            "SELECT count(*) FROM t WHERE repeat(k::text, 2) = '33'",
            "14286",
        ),
        (
            "BEGIN; SELECT count(*) FROM t \
             WHERE 'now'::text::timestamptz + v * interval '0' = now(); COMMIT",
            "100000",
        ),
        (
            "SELECT count(*) FROM t WHERE v::text::numeric / 2 = 7.5",
            "1",
        ),
        ("SELECT count(*) FROM pg_class WHERE relname = 't'", "1"),
    ] {
        assert_eq!(texts(&client, sql).await, [[answer]], "{sql}");
    }
    let prepared = client
        .prepare("SELECT sum(v)::int8 FROM t WHERE k = $1")
        .await
        .unwrap();
    let row = client.query_one(&prepared, &[&3_i64]).await.unwrap();
    assert_eq!(row.get::<_, i64>(0).to_string(), expected[3][2]);

    let analyzed = texts(&client, &format!("EXPLAIN ANALYZE {QUERY}")).await;
    let analyzed = analyzed.concat().join("\n");
    for worker in [&first, &second] {
        assert!(
            analyzed.contains(&format!("on {}:", worker.address)),
            "{analyzed}"
        );
    }

    for (sql, code) in [
        ("SELECT sum(1 / (k - 3)) FROM t", "22012"),
        ("SELECT sum((v || 'x')::int) FROM t", "22P02"),
        ("CREATE TABLE own AS SELECT * FROM t", "0A000"),
    ] {
        let error = client.simple_query(sql).await.unwrap_err();
        let said = error.as_db_error().unwrap();
        assert_eq!(said.code().code(), code, "{sql}: {said}");
    }

    second.kill();
    assert_eq!(
        texts(&client, QUERY).await,
        expected,
        "it runs on the other one"
    );
    let nodes = texts(
        &client,
        "SELECT node FROM coscan.nodes WHERE state = 'lost'",
    )
    .await;
    assert_eq!(nodes, [[second.address.clone()]]);
    let plan = texts(&client, &format!("EXPLAIN {QUERY}")).await.concat();
    assert!(!plan.join("\n").contains(&second.address), "{plan:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_may_be_a_worker() {
    let folder = tempfile::tempdir().unwrap();
    let table = format!("t={}", table(folder.path()).display());
    let other = Serving::worker();
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let own = free.local_addr().unwrap().to_string();
    drop(free);
    let list = format!(
        "nodes = [\"{own}\", \"{}\"]\nbytes_per_node = \"1KiB\"\n",
        other.address
    );
    std::fs::write(folder.path().join("nodes.toml"), list).unwrap();
    let served = Serving::server(folder.path(), &table, &["--worker-listen", &own]);
    let client = served.connect().await;
    let nodes = texts(
        &client,
        "SELECT count(*) FROM coscan.nodes WHERE state = 'present'",
    )
    .await;
    assert_eq!(nodes, [["2"]]);
    let plan = texts(&client, &format!("EXPLAIN {QUERY}")).await.concat();
    let plan = plan.join("\n");
    for node in [&own, &other.address] {
        assert!(plan.contains(&format!("node={node},")), "{plan}");
    }
    let sum = texts(&client, "SELECT sum(v) FROM t").await;
    assert_eq!(sum, [["4999950000"]]);
}

#[test]
fn what_does_not_run_on_a_cluster_is_said() {
    let here = Path::new(".");
    let error = failure(&coscan(here, &["worker", "--listen", "0.0.0.0:0"]), 1);
    assert!(error.contains("this machine only"), "{error}");
    let folder = tempfile::tempdir().unwrap();
    let list = "nodes = [\"127.0.0.1:1\"]\n";
    std::fs::write(folder.path().join("nodes.toml"), list).unwrap();
    let serve = [
        "serve",
        "--listen",
        "127.0.0.1:0",
        "--cluster",
        "nodes.toml",
    ];
    let error = failure(&coscan(folder.path(), &serve), 1);
    assert!(error.contains("node 127.0.0.1:1:"), "{error}");
    let error = failure(
        &coscan(here, &["sql", "--cluster", "/nowhere", "SELECT 1"]),
        1,
    );
    assert!(error.contains("/nowhere"), "{error}");
}
