//! Promised: `coscan demo` and `coscan bench coop` make a table, a report and the JSON of the issue, and a failure leaves
//! no half file. At a scale at which the figures mean nothing: what is tested is the path, not the speed.

#![allow(
    clippy::unwrap_used,
    clippy::cast_possible_truncation,
    clippy::cast_possible_wrap,
    clippy::cast_sign_loss,
    clippy::format_collect,
    reason = "tests: a failure is a panic, and numbers are small"
)]

use std::path::Path;
use std::process::{Command, Output};

fn coscan(folder: &Path, arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_coscan"))
        .args(arguments)
        .current_dir(folder)
        .output()
        .unwrap()
}

fn stdout(output: &Output) -> String {
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    String::from_utf8(output.stdout.clone()).unwrap()
}

#[test]
fn a_tiny_demo_makes_a_table_and_a_report() {
    let folder = tempfile::tempdir().unwrap();
    for model in ["nsm", "dsm"] {
        let output = coscan(
            folder.path(),
            &[
                "demo",
                "--scale",
                "0.01",
                "--bandwidth",
                "200MB/s",
                "--streams",
                "4",
                "--queries",
                "2",
                "--model",
                model,
                "--data",
                "data",
                "--html",
                "r.html",
                "--json",
                "r.json",
            ],
        );
        let text = stdout(&output);
        for word in [
            "normal",
            "attach",
            "elevator",
            "relevance",
            "average stream time",
            "r.html",
        ] {
            assert!(text.contains(word), "{word}: {text}");
        }
        assert!(output.stderr.is_empty(), "no progress bar in a pipe");
        let report = std::fs::read_to_string(folder.path().join("r.html")).unwrap();
        assert!(report.contains("<svg") && !report.contains("NaN"));
        let json = std::fs::read(folder.path().join("r.json")).unwrap();
        let json: serde_json::Value = serde_json::from_slice(&json).unwrap();
        assert_eq!(json["model"], model);
        for policy in ["normal", "attach", "elevator", "relevance"] {
            let policy = &json["policies"][policy];
            assert_eq!(policy["queries"].as_array().unwrap().len(), 8);
            assert!(!policy["trace"].as_array().unwrap().is_empty());
            assert!(policy["io_bytes"].as_u64().unwrap() > 0);
            assert!(policy["avg_stream_s"].as_f64().unwrap() > 0.0);
        }
    }
}

#[test]
fn the_benchmark_writes_what_the_peers_read() {
    let folder = tempfile::tempdir().unwrap();
    let data = coscan(
        folder.path(),
        &["bench", "data", "--scale", "0.01", "--data", "d"],
    );
    let table = stdout(&data).trim().to_owned();
    let dump = [
        "bench",
        "coop",
        "--table",
        &table,
        "--mix",
        "FFS-M",
        "--seed",
        "7",
        "--dump-workload",
        "w.json",
    ];
    assert!(stdout(&coscan(folder.path(), &dump)).is_empty());
    let json = std::fs::read(folder.path().join("w.json")).unwrap();
    let json: serde_json::Value = serde_json::from_slice(&json).unwrap();
    assert_eq!(json["format"], "coscan-workload");
    assert_eq!(json["streams"].as_array().unwrap().len(), 16);
    assert_eq!(json["streams"][2]["start_s"], 6.0);
}

#[test]
fn a_table_that_is_not_lineitem_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let region = ["bench", "data", "--tables", "region", "--data", "d"];
    let table = stdout(&coscan(folder.path(), &region)).trim().to_owned();
    let output = coscan(folder.path(), &["bench", "coop", "--table", &table]);
    assert_eq!(output.status.code(), Some(1));
    assert!(
        String::from_utf8_lossy(&output.stderr).contains("l_orderkey"),
        "{output:?}"
    );
}
