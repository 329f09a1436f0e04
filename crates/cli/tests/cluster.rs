//! Promised: the commands of docs/how-to/cluster.md. Workers are processes; a statement runs on
//! them, and names the one that was killed.

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

use common::{coscan, failure, stdout};

/// A worker process, which ends with the test.
struct Worker {
    process: Child,
    address: String,
}

impl Worker {
    fn start() -> Self {
        let mut process = Command::new(env!("CARGO_BIN_EXE_coscan"))
            .args(["worker", "--listen", "127.0.0.1:0", "--memory", "256MB"])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut said = String::new();
        let mut errors = BufReader::new(process.stderr.take().unwrap());
        errors.read_line(&mut said).unwrap();
        let address = said.trim().rsplit(' ').next().unwrap().to_owned();
        assert!(address.starts_with("127.0.0.1:"), "{said}");
        // What it says later must not fill the pipe.
        std::thread::spawn(move || std::io::copy(&mut errors, &mut std::io::sink()));
        Self { process, address }
    }
}

impl Drop for Worker {
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
    let (first, mut second) = (Worker::start(), Worker::start());
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

    second.process.kill().unwrap();
    second.process.wait().unwrap();
    let error = failure(&sql(&on_nodes, QUERY), 1);
    assert!(
        error.contains(&format!("node {}", second.address)),
        "{error}"
    );
}

#[test]
fn what_does_not_run_on_a_cluster_is_said() {
    let here = Path::new(".");
    let error = failure(&coscan(here, &["worker", "--listen", "0.0.0.0:0"]), 1);
    assert!(error.contains("this machine only"), "{error}");
    let error = failure(&coscan(here, &["serve", "--cluster", "nodes.toml"]), 2);
    assert!(
        error.contains("coscan serve does not run on a cluster yet"),
        "{error}"
    );
    let error = failure(
        &coscan(here, &["sql", "--cluster", "/nowhere", "SELECT 1"]),
        1,
    );
    assert!(error.contains("/nowhere"), "{error}");
}
