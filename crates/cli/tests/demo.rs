//! Promised: `coscan demo` and `coscan bench coop`, `smooth`, `qpipe` and `parallel` write tables,
//! a report and JSON of the documented form, and a failure leaves no partial file. The scale is
//! too small for meaningful figures: these tests check the path, not the speed.

#![allow(
    clippy::unwrap_used,
    clippy::cast_possible_truncation,
    clippy::cast_possible_wrap,
    clippy::cast_sign_loss,
    clippy::format_collect,
    reason = "tests: a failure is a panic, and numbers are small"
)]

mod common;

use std::path::Path;

use common::{coscan, failure, stdout};

/// A written file, as JSON.
fn read_json(folder: &Path, name: &str) -> serde_json::Value {
    let json = std::fs::read(folder.join(name)).unwrap();
    serde_json::from_slice(&json).unwrap()
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
            "relevance+fragments",
            "average stream time",
            "r.html",
        ] {
            assert!(text.contains(word), "{word}: {text}");
        }
        assert!(output.stderr.is_empty(), "no progress bar in a pipe");
        let report = std::fs::read_to_string(folder.path().join("r.html")).unwrap();
        assert!(report.contains("<svg") && !report.contains("NaN"));
        assert!(report.contains("Who computed what for whom under relevance+fragments"));
        assert!(report.contains("Who shared what with whom"));
        // Scans by an index: two queries by four paths, and the table they ran on.
        assert_eq!(report.matches("Which page was read when").count(), 2);
        for words in [
            "--sort)\">sort",
            "--smooth)\">smooth",
            "a table of their own",
        ] {
            assert!(report.contains(words), "{words}");
        }
        let json = read_json(folder.path(), "r.json");
        assert_eq!(json["model"], model);
        for policy in ["normal", "attach", "elevator", "relevance"] {
            let policy = &json["policies"][policy];
            assert_eq!(policy["queries"].as_array().unwrap().len(), 8);
            assert!(!policy["trace"].as_array().unwrap().is_empty());
            assert!(policy["io_bytes"].as_u64().unwrap() > 0);
            assert!(policy["avg_stream_s"].as_f64().unwrap() > 0.0);
            assert!(
                policy["jobs"].is_null(),
                "the papers' policies share no work"
            );
        }
        let jobs = json["policies"]["relevance+fragments"]["jobs"].as_array();
        assert!(!jobs.unwrap().is_empty());
    }
}

#[test]
fn the_benchmark_writes_the_workload_for_the_peers() {
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
    let json = read_json(folder.path(), "w.json");
    assert_eq!(json["format"], "coscan-workload");
    assert_eq!(json["streams"].as_array().unwrap().len(), 16);
    assert_eq!(json["streams"][2]["start_s"], 6.0);
}

#[test]
fn workloads_are_written_without_a_table() {
    let folder = tempfile::tempdir().unwrap();
    let scale = ["bench", "workload", "--scale", "40", "--out", "w.json"];
    assert!(stdout(&coscan(folder.path(), &scale)).is_empty());
    let json = read_json(folder.path(), "w.json");
    assert_eq!(json["key_max"], 240_000_000);
    assert_eq!(json["streams"][0]["queries"][0]["key_low"], 116_520_332);
    let too_many = [
        "--distinct",
        "--mix",
        "S-S",
        "--streams",
        "1001",
        "--queries",
        "1",
    ];
    let too_many = [&["bench", "workload"], &too_many[..]].concat();
    let message = failure(&coscan(folder.path(), &too_many), 1);
    assert!(message.contains("1000 dates are taken"), "{message}");
    let mix = ["bench", "mix", "--clients", "3", "--sets", "2"];
    let text = stdout(&coscan(folder.path(), &mix));
    let json: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert_eq!(
        (&json["mix"], &json["tables"][1]),
        (&"tpch-2-sets".into(), &"lineitem".into())
    );
}

#[test]
fn the_micro_benchmark_has_a_point_for_every_query_and_path() {
    let folder = tempfile::tempdir().unwrap();
    // Only the full scan, which reads no pages of its own.
    let smooth = [
        "bench",
        "smooth",
        "--rows",
        "30000",
        "--page-rows",
        "500",
        "--paths",
        "full",
        "--data",
        "d",
        "--json",
        "s.json",
        "--repeats",
        "2",
        "--memory",
        "64MiB",
        "--device",
        "disk",
        "--bandwidth",
        "100MB/s",
        "--selectivities",
        "0,2.5,100",
    ];
    let output = coscan(folder.path(), &smooth);
    let text = stdout(&output);
    assert!(output.stderr.is_empty(), "no progress bar in a pipe");
    for words in ["any order", "ORDER BY c2", "2.5 %", "device disk: 100 MB/s"] {
        assert!(text.contains(words), "{words}: {text}");
    }
    let json = read_json(folder.path(), "s.json");
    assert_eq!(
        (&json["rows"], &json["page_rows"], &json["device"]),
        (&30_000.into(), &500.into(), &"disk".into())
    );
    let points = json["points"].as_array().unwrap();
    let named: Vec<_> = points
        .iter()
        .map(|p| {
            (
                p["order_by"].as_bool().unwrap(),
                p["selectivity"].as_f64().unwrap(),
            )
        })
        .collect();
    assert_eq!(
        named,
        [
            (false, 0.0),
            (false, 2.5),
            (false, 100.0),
            (true, 0.0),
            (true, 2.5),
            (true, 100.0)
        ]
    );
    for point in points {
        assert_eq!(
            (&point["path"], &point["pages_read"]),
            (&"full".into(), &0.into())
        );
        assert!(point["time_s"].as_f64().unwrap() > 0.0);
        assert!(point["requests"].is_u64() && point["bytes"].is_u64());
    }
    assert!(points[2]["bytes"].as_u64().unwrap() >= 30_000 * 40);
    // A query that takes too long has no time, but still appears in the file.
    let limited = coscan(folder.path(), &[&smooth[..], &["--limit", "1ms"]].concat());
    assert!(stdout(&limited).contains("> 1.00 ms"));
    let json = read_json(folder.path(), "s.json");
    let last = &json["points"][5];
    assert!(last["time_s"].is_null() && last["limit"] == true, "{last}");
    for (wrong, why) in [
        (["--paths", "fast"], "smooth"),
        (["--selectivities", "101"], "0 to 100"),
        (["--rows", "0"], "1..="),
    ] {
        let refused = coscan(folder.path(), &[&["bench", "smooth"], &wrong[..]].concat());
        let message = failure(&refused, 2);
        assert!(message.contains(why), "{message}");
    }
}

#[test]
fn the_micro_benchmark_makes_a_report_with_a_picture() {
    let folder = tempfile::tempdir().unwrap();
    let smooth = [
        "bench",
        "smooth",
        "--rows",
        "30000",
        "--page-rows",
        "500",
        "--paths",
        "full,smooth",
        "--data",
        "d",
        "--json",
        "s.json",
        "--html",
        "s.html",
        "--repeats",
        "1",
        "--memory",
        "64MiB",
        "--selectivities",
        "1,100",
    ];
    stdout(&coscan(folder.path(), &smooth));
    let report = std::fs::read_to_string(folder.path().join("s.html")).unwrap();
    for words in [
        "Which page was read when",
        "Rows in any order",
        "ORDER BY the indexed column",
        "What was promised",
        "--html s.html",
    ] {
        assert!(report.contains(words), "{words}");
    }
    assert!(!report.contains("NaN"));
    let json = read_json(folder.path(), "s.json");
    let picture = &json["picture"];
    assert_eq!(picture["pages"], 60);
    for query in picture["queries"].as_array().unwrap() {
        let paths = query["paths"].as_array().unwrap();
        let named: Vec<_> = paths
            .iter()
            .map(|path| path["path"].as_str().unwrap())
            .collect();
        assert_eq!(named, ["full", "index", "sort", "smooth"]);
        let full = paths[0]["reads"].as_array().unwrap();
        assert!(!full.is_empty() && full.iter().all(|read| read[3] == true));
        assert!(!paths[3]["reads"].as_array().unwrap().is_empty());
    }
    let refused = coscan(
        folder.path(),
        &[
            "bench",
            "smooth",
            "--experiment",
            "skew",
            "--html",
            "x.html",
        ],
    );
    assert!(failure(&refused, 2).contains("no other experiment"));
}

#[test]
fn concurrent_queries_have_a_point_for_every_variant() {
    let folder = tempfile::tempdir().unwrap();
    let qpipe = [
        "bench",
        "qpipe",
        "--figures",
        "10,open",
        "--scale",
        "0.002",
        "--bandwidth",
        "none",
        "--clients",
        "1,3",
        "--queries",
        "1",
        "--interarrivals",
        "0,1",
        // A quarter of the data would hold no chunk of such small tables.
        "--buffer",
        "50%",
        "--data",
        "d",
        "--json",
        "q.json",
    ];
    let output = coscan(folder.path(), &qpipe);
    let text = stdout(&output);
    assert!(output.stderr.is_empty(), "no progress bar in a pipe");
    assert!(
        text.contains("Figure 10: Wisconsin") && text.contains("P95"),
        "{text}"
    );
    let json = read_json(folder.path(), "q.json");
    assert_eq!(json["experiment"], "qpipe");
    assert_eq!(json["state_cache_bytes"], 0);
    assert!(
        json["command"]
            .as_str()
            .unwrap()
            .starts_with("coscan bench qpipe")
    );
    let points = json["points"].as_array().unwrap();
    let of = |figure: &str| points.iter().filter(|p| p["figure"] == figure).count();
    // Two times by three variants; the rate from which open arrivals follow; and the open ones.
    assert_eq!((of("10"), of("12"), of("open")), (6, 1, 2), "{text}");
    assert!(points.iter().all(|point| point["qph"].as_f64() > Some(0.0)));
    let wrong = ["bench", "qpipe", "--figures", "7"];
    failure(&coscan(folder.path(), &wrong), 2);
}

#[test]
fn a_table_on_several_devices_has_a_point_for_every_setting() {
    let folder = tempfile::tempdir().unwrap();
    let parallel = [
        "bench",
        "parallel",
        "--scale",
        "0.004",
        "--devices",
        "2",
        "--bandwidth",
        "1MB/s",
        "--clients",
        "2",
        "--time",
        "300ms",
        "--fixed",
        "1",
        "--repeats",
        "1",
        "--data",
        "d",
        "--json",
        "p.json",
    ];
    let output = coscan(folder.path(), &parallel);
    let text = stdout(&output);
    assert!(text.contains("2 devices at 1.00 MB/s"), "{text}");
    let json = read_json(folder.path(), "p.json");
    assert_eq!(json["experiment"], "parallel");
    let points = json["points"].as_array().unwrap();
    let of = |name: &str| points.iter().filter(|p| p["experiment"] == name).count();
    let counts = ["scan", "mix", "changing", "slow"].map(of);
    assert_eq!(counts, [2, 4, 2, 3], "{text}");
    assert_eq!(json["claims"].as_array().unwrap().len(), 9, "{text}");
    let wrong = ["bench", "parallel", "--devices", "1"];
    failure(&coscan(folder.path(), &wrong), 2);
}

#[test]
fn a_table_that_is_not_lineitem_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let region = ["bench", "data", "--tables", "region", "--data", "d"];
    let table = stdout(&coscan(folder.path(), &region)).trim().to_owned();
    let output = coscan(folder.path(), &["bench", "coop", "--table", &table]);
    let message = failure(&output, 1);
    assert!(message.contains("l_orderkey"), "{message}");
}
