//! Promised: `coscan serve` answers PostgreSQL clients from cooperative scans. Settings belong to
//! one connection; 64 connections at once get their rows; a cancel request ends a scan; a damaged
//! page is an error that names its place and leaves the connection usable; sockets that take all
//! file descriptors keep no client out; SIGTERM ends the server cleanly.

#![cfg(unix)]
#![allow(
    clippy::unwrap_used,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "tests: a failure is a panic, and numbers are small"
)]

use std::fs::{self, File};
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use arrow::array::{Array, Int64Array, RecordBatch, StringArray};
use parquet::arrow::ArrowWriter;
use parquet::file::properties::WriterProperties;
use parquet::file::reader::{FileReader, SerializedFileReader};
use tokio::io::AsyncReadExt;
use tokio::net::TcpStream;
use tokio_postgres::{Client, NoTls, SimpleQueryMessage};

const ROWS: i64 = 20_000;
const GROUP_ROWS: usize = 2000;

/// A folder with a table of n = 0.. and texts, in row groups of 2,000.
fn table() -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let names = (0..ROWS).map(|n| format!("row {}", n * 7919 % ROWS));
    let batch = RecordBatch::try_from_iter([
        (
            "n",
            Arc::new(Int64Array::from_iter_values(0..ROWS)) as Arc<dyn Array>,
        ),
        ("name", Arc::new(StringArray::from_iter_values(names))),
    ])
    .unwrap();
    let properties = WriterProperties::builder()
        .set_max_row_group_row_count(Some(GROUP_ROWS))
        .set_dictionary_enabled(false)
        .build();
    let path = folder.path().join("t.parquet");
    let file = File::create(&path).unwrap();
    let mut writer = ArrowWriter::try_new(file, batch.schema(), Some(properties)).unwrap();
    writer.write(&batch).unwrap();
    writer.close().unwrap();
    (folder, path)
}

/// The server's process, which is killed when this is dropped.
struct Served {
    child: Child,
    port: u16,
    stderr: BufReader<std::process::ChildStderr>,
}

impl Served {
    fn start(path: &Path) -> Self {
        Self::run(Command::new(env!("CARGO_BIN_EXE_coscan")), path)
    }

    /// A server that may open `files` files.
    fn start_with_files(files: usize, path: &Path) -> Self {
        let mut shell = Command::new("sh");
        shell.args(["-c", &format!("ulimit -n {files}; exec \"$0\" \"$@\"")]);
        shell.arg(env!("CARGO_BIN_EXE_coscan"));
        Self::run(shell, path)
    }

    fn run(mut command: Command, path: &Path) -> Self {
        let mut child = command
            .args(["serve", "-t", &format!("t={}", path.display())])
            .args(["--listen", "127.0.0.1:0", "--memory", "256MiB"])
            .args(["--small-table-bytes", "0", "--chunk-bytes", "16KiB"])
            .stdin(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut stderr = BufReader::new(child.stderr.take().unwrap());
        let mut line = String::new();
        while !line.contains("listening on") {
            line.clear();
            assert!(stderr.read_line(&mut line).unwrap() > 0, "the server ended");
        }
        let port = line.trim().rsplit_once(':').unwrap().1.parse();
        Self {
            child,
            port: port.unwrap_or_else(|_| panic!("{line}")),
            stderr,
        }
    }

    async fn connect(&self) -> Client {
        let parameters = format!("host=127.0.0.1 port={} user=tester", self.port);
        let connected = tokio_postgres::connect(&parameters, NoTls).await;
        let (client, connection) = connected.unwrap();
        tokio::spawn(connection);
        client
    }

    /// Stops the server; returns its exit status and its last output.
    fn stop(mut self) -> (ExitStatus, String) {
        let killed = Command::new("kill")
            .args(["-TERM", &self.child.id().to_string()])
            .status();
        assert!(killed.unwrap().success());
        let asked = Instant::now();
        let status = loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                break status;
            }
            assert!(
                asked.elapsed() < Duration::from_secs(30),
                "the server does not end"
            );
            std::thread::sleep(Duration::from_millis(10));
        };
        let mut output = String::new();
        self.stderr.read_to_string(&mut output).unwrap();
        (status, output)
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The rows of a query, columns joined by `|`.
async fn rows(client: &Client, sql: &str) -> Vec<String> {
    let messages = client.simple_query(sql).await;
    let messages = messages.unwrap_or_else(|error| panic!("{sql}: {error:?}"));
    let rows = messages.iter().filter_map(|message| match message {
        SimpleQueryMessage::Row(row) => {
            let cells = (0..row.len()).map(|cell| row.get(cell).unwrap_or("NULL"));
            Some(cells.collect::<Vec<_>>().join("|"))
        }
        _ => None,
    });
    rows.collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn settings_belong_to_a_connection_and_scans_are_cooperative() {
    let (_folder, path) = table();
    let server = Served::start(&path);
    let (one, other) = (server.connect().await, server.connect().await);
    rows(&one, "SET coscan.policy = 'elevator'").await;
    let sql = "SELECT count(*), sum(n) FROM t WHERE name LIKE '%7'";
    for (client, policy) in [(&one, "elevator"), (&other, "relevance")] {
        let shown = rows(client, "SHOW coscan.policy").await;
        assert!(shown[0].ends_with(policy), "{shown:?}");
        let plan = rows(client, &format!("EXPLAIN {sql}")).await.join("\n");
        assert!(plan.contains(&format!("CScan: policy={policy}")), "{plan}");
    }
    let expected: Vec<i64> = (0..ROWS).filter(|n| n * 7919 % ROWS % 10 == 7).collect();
    let expected = format!("{}|{}", expected.len(), expected.iter().sum::<i64>());
    let (a, b) = tokio::join!(rows(&one, sql), rows(&other, sql));
    assert_eq!((a, b), (vec![expected.clone()], vec![expected]));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sixty_four_connections_at_once_get_their_rows() {
    let (_folder, path) = table();
    let server = Served::start(&path);
    let mut clients = Vec::new();
    for _ in 0..64 {
        clients.push(server.connect().await);
    }
    let queries = clients
        .iter()
        .zip(0_i64..)
        .map(|(client, rest)| async move {
            let sql = format!(
                "SELECT count(name), sum(n), min(n) FROM t WHERE n % 64 = {rest} AND name >= 'row'"
            );
            let mine = (0..ROWS).filter(|n| n % 64 == rest);
            let expected = format!("{}|{}|{rest}", mine.clone().count(), mine.sum::<i64>());
            assert_eq!(rows(client, &sql).await, [expected], "{sql}");
        });
    futures::future::join_all(queries).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cancel_request_ends_a_scan() {
    let (_folder, path) = table();
    let server = Served::start(&path);
    let (client, observer) = (server.connect().await, server.connect().await);
    let token = client.cancel_token();
    let long = tokio::spawn(async move {
        let sql = "SELECT count(*) FROM t a, t b, t c WHERE a.n + b.n + c.n < length(c.name) - 99";
        let outcome = client.simple_query(sql).await.map(drop);
        (client, outcome)
    });
    let scans = "SELECT count(*) FROM coscan.scans";
    while rows(&observer, scans).await == ["0"] {
        assert!(!long.is_finished());
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    token.cancel_query(NoTls).await.unwrap();
    let asked = Instant::now();
    let (client, outcome) = long.await.unwrap();
    assert!(asked.elapsed() < Duration::from_secs(5), "{asked:?}");
    let error = outcome.unwrap_err();
    assert_eq!(error.code().unwrap().code(), "57014", "{error:?}");
    // A join that compares and finds nothing yields rarely, so this may take half a minute.
    while rows(&observer, scans).await != ["0"] {
        assert!(asked.elapsed() < Duration::from_secs(120), "scans go on");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    assert_eq!(
        rows(&client, "SELECT max(n) FROM t WHERE n < 7").await,
        ["6"]
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_damaged_page_is_reported_and_the_connection_survives() {
    let (folder, path) = table();
    let reader = SerializedFileReader::new(File::open(&path).unwrap()).unwrap();
    let (start, length) = reader.metadata().row_group(3).column(1).byte_range();
    let mut bytes = fs::read(&path).unwrap();
    // The header of the column's first page.
    bytes[start as usize..(start + length.min(64)) as usize].fill(0xff);
    fs::write(&path, bytes).unwrap();
    let server = Served::start(&path);
    let (client, other) = (server.connect().await, server.connect().await);
    let (hit, spared) = tokio::join!(
        client.simple_query("SELECT count(DISTINCT name) FROM t"),
        rows(&other, "SELECT count(*), sum(n) FROM t WHERE n % 2 = 0"),
    );
    let error = hit.map(drop).unwrap_err();
    let error = error.as_db_error().unwrap();
    assert!(
        error.message().contains("t.parquet")
            && !error
                .message()
                .contains(&folder.path().display().to_string())
            && error.message().contains("row group 3, column name"),
        "{error:?}"
    );
    assert_eq!(spared, ["10000|99990000"]);
    let sql = "SELECT count(name) FROM t WHERE n < 6000 AND name >= 'row'";
    assert_eq!(rows(&client, sql).await, ["6000"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sockets_that_take_all_descriptors_keep_no_client_out() {
    let (_folder, path) = table();
    let server = Served::start_with_files(100, &path);
    let early = server.connect().await;
    let mut silent = Vec::new();
    for _ in 0..200 {
        let socket = TcpStream::connect(("127.0.0.1", server.port));
        let socket = tokio::time::timeout(Duration::from_secs(20), socket).await;
        silent.push(socket.unwrap().unwrap());
    }
    let begun = Instant::now();
    let sql = "SELECT max(n) FROM t WHERE n < 9";
    assert_eq!(rows(&early, sql).await, ["8"]);
    assert_eq!(rows(&server.connect().await, sql).await, ["8"]);
    assert!(begun.elapsed() < Duration::from_secs(20), "{begun:?}");
    // The server disconnected some of them to make room, with a message or without.
    let mut gone = 0;
    for socket in &mut silent {
        let read = socket.read_u8();
        let read = tokio::time::timeout(Duration::from_millis(5), read).await;
        gone += usize::from(read.is_ok());
    }
    assert!((100..200).contains(&gone), "{gone}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sigterm_ends_it_cleanly() {
    let (_folder, path) = table();
    let server = Served::start(&path);
    let client = server.connect().await;
    assert_eq!(
        rows(&client, "SELECT max(n) FROM t WHERE n < 9").await,
        ["8"]
    );
    let (status, output) = tokio::task::spawn_blocking(|| server.stop()).await.unwrap();
    assert_eq!(status.code(), Some(0), "{status}: {output}");
    assert!(output.contains("coscan: stopped"), "{output}");
    while !client.is_closed() {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}
