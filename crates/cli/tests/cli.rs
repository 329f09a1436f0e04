//! Promised: `coscan sql` answers in every format, in order or concurrently; every failure ends
//! with a message on standard error and exit code 1, with nothing on standard output; a pipe never
//! receives a progress bar.

#![allow(
    clippy::unwrap_used,
    clippy::cast_possible_truncation,
    clippy::cast_possible_wrap,
    clippy::cast_sign_loss,
    clippy::format_collect,
    reason = "tests: a failure is a panic, and numbers are small"
)]

mod common;

use std::fs::File;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::sync::Arc;

use arrow::array::{Array, AsArray, Float64Array, Int64Array, RecordBatch, StringArray};
use arrow::datatypes::Int64Type;
use parquet::arrow::ArrowWriter;

use common::{failure, stdout};

/// 10,000 rows: n = 0.., name = "row n", x = n / 2 with a NULL at n = 1.
fn table(folder: &Path) -> String {
    table_of(folder, 10_000)
}

fn table_of(folder: &Path, rows: i64) -> String {
    let names: StringArray = (0..rows).map(|n| Some(format!("row {n}"))).collect();
    let halves: Float64Array = (0..rows)
        .map(|n| (n != 1).then_some(n as f64 / 2.0))
        .collect();
    let batch = RecordBatch::try_from_iter_with_nullable([
        (
            "n",
            Arc::new(Int64Array::from_iter_values(0..rows)) as Arc<dyn Array>,
            false,
        ),
        ("name", Arc::new(names), false),
        ("x", Arc::new(halves), true),
    ])
    .unwrap();
    let path = folder.join("t.parquet");
    let mut writer =
        ArrowWriter::try_new(File::create(&path).unwrap(), batch.schema(), None).unwrap();
    writer.write(&batch).unwrap();
    writer.close().unwrap();
    format!("t={}", path.display())
}

fn coscan(arguments: &[&str]) -> Output {
    common::coscan(Path::new("."), arguments)
}

const QUERY: &str = "SELECT n, name, x FROM t WHERE n < 3 ORDER BY n";

#[test]
fn every_format() {
    let folder = tempfile::tempdir().unwrap();
    let t = table(folder.path());
    let run = |format| coscan(&["sql", "-t", &t, "--format", format, QUERY]);

    let text = stdout(&run("table"));
    assert!(
        text.contains(" 1 │ row 1 │ NULL\n") && text.ends_with("(3 rows)\n"),
        "{text}"
    );
    assert_eq!(
        stdout(&run("csv")),
        "n,name,x\n0,row 0,0.0\n1,row 1,\n2,row 2,1.0\n"
    );
    assert_eq!(
        stdout(&run("json")),
        "{\"n\":0,\"name\":\"row 0\",\"x\":0.0}\n{\"n\":1,\"name\":\"row 1\",\"x\":null}\n{\"n\":2,\"name\":\"row 2\",\"x\":1.0}\n"
    );
    let arrow = run("arrow");
    assert!(arrow.status.success());
    let reader = arrow::ipc::reader::StreamReader::try_new(&arrow.stdout[..], None).unwrap();
    let numbers: Vec<i64> = reader
        .flat_map(|batch| {
            batch
                .unwrap()
                .column(0)
                .as_primitive::<Int64Type>()
                .values()
                .to_vec()
        })
        .collect();
    assert_eq!(numbers, [0, 1, 2]);
    assert!(arrow.stderr.is_empty(), "a pipe receives no progress bar");
}

#[test]
fn values_and_errors_are_postgresqls() {
    let sql = "SELECT ARRAY[1, NULL] AS a, ROW(1, 'x') AS r, 2 AS n";
    assert_eq!(
        stdout(&coscan(&["sql", "--format", "csv", sql])),
        "a,r,n\n\"{1,NULL}\",\"(1,x)\",2\n"
    );
    assert!(stdout(&coscan(&["sql", sql])).contains(" {1,NULL} │ (1,x) │ 2\n"));
    let unread = "WITH c AS (SELECT '{NULL,2.5}'::numeric[] AS x) SELECT 'a' AS a";
    let rows = stdout(&coscan(&["sql", "--format", "csv", unread]));
    assert_eq!(rows, "a\na\n");
    for (sql, message) in [
        ("SELECT 1 / 0", "division by zero"),
        (
            "SELECT n * n FROM generate_series(99999, 100000) t(n)",
            "integer out of range",
        ),
        (
            "SELECT x FROM nowhere",
            "relation \"nowhere\" does not exist",
        ),
        (
            "SET no_such = 1",
            "unrecognized configuration parameter \"no_such\"",
        ),
    ] {
        let said = failure(&coscan(&["sql", sql]), 1);
        assert_eq!(said, format!("coscan: {message}\n"));
    }
}

#[test]
fn settings_are_postgresqls() {
    let sql = "SET TIME ZONE 'Europe/Berlin'; SHOW TIME ZONE; RESET TIME ZONE; SHOW timezone";
    assert_eq!(
        stdout(&coscan(&["sql", "--format", "csv", sql])),
        "TimeZone\nEurope/Berlin\n\nTimeZone\nUTC\n"
    );
}

#[test]
fn blocks_and_prepared_statements_are_postgresqls() {
    let sql = "PREPARE p (int) AS SELECT $1 + 1 AS x; BEGIN; SET LOCAL work_mem = '1MB'; \
               SHOW work_mem; EXECUTE p (2); COMMIT; SHOW work_mem";
    assert_eq!(
        stdout(&coscan(&["sql", "--format", "csv", sql])),
        "work_mem\n1MB\n\nx\n3\n\nwork_mem\n4MB\n"
    );
    let said = failure(&coscan(&["sql", "EXECUTE p"]), 1);
    assert!(
        said.contains("prepared statement \"p\" does not exist"),
        "{said}"
    );
}

/// COMMIT could come before BEGIN.
#[test]
fn concurrent_statements_have_no_order() {
    for sql in [
        "BEGIN; SELECT 1; COMMIT",
        "SELECT 1; PREPARE p AS SELECT 1",
        "SELECT 1; EXECUTE p",
    ] {
        let said = failure(&coscan(&["sql", "--concurrent", sql]), 1);
        assert!(said.contains("no order"), "{sql}: {said}");
    }
}

#[test]
fn options_of_datafusion_are_pairs_of_texts() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("a.csv");
    let copy = format!(
        "COPY (SELECT 1 AS a, 2 AS b) TO '{}' STORED AS CSV OPTIONS ('format.delimiter' ';')",
        file.display()
    );
    stdout(&coscan(&["sql", &copy]));
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "a;b\n1;2\n");
    let said = failure(&coscan(&["sql", "SELECT 'a' 'b'"]), 1);
    assert!(said.contains("syntax error at or near"), "{said}");
}

#[test]
fn statements_from_arguments_a_file_and_a_pipe() {
    let folder = tempfile::tempdir().unwrap();
    let t = table(folder.path());
    let statements =
        "SET coscan.policy = 'elevator'; SHOW coscan.policy;\nSELECT count(*) AS c FROM t -- ;\n;";
    let expected = "coscan.policy\nelevator\n\nc\n10000\n";
    assert_eq!(
        stdout(&coscan(&["sql", "-t", &t, "--format", "csv", statements])),
        expected
    );

    let file = folder.path().join("s.sql");
    std::fs::write(&file, statements).unwrap();
    let file = file.to_str().unwrap();
    assert_eq!(
        stdout(&coscan(&["sql", "-t", &t, "--format", "csv", "-f", file])),
        expected
    );

    let mut child = Command::new(env!("CARGO_BIN_EXE_coscan"))
        .args(["sql", "-t", &t, "--format", "csv"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    child
        .stdin
        .take()
        .unwrap()
        .write_all(statements.as_bytes())
        .unwrap();
    assert_eq!(stdout(&child.wait_with_output().unwrap()), expected);
}

#[test]
fn concurrent_statements_answer_in_their_order() {
    let folder = tempfile::tempdir().unwrap();
    let t = table(folder.path());
    let statements: Vec<String> = (0..16)
        .map(|n| format!("SELECT {n} AS q, sum(n) AS s FROM t WHERE n % 16 = {n}"))
        .collect();
    let mut arguments = vec![
        "sql",
        "-t",
        &t,
        "--format",
        "json",
        "--concurrent",
        "--small-table-bytes",
        "0",
    ];
    arguments.extend(statements.iter().map(String::as_str));
    let text = stdout(&coscan(&arguments));
    let expected: String = (0..16_i64)
        .map(|q| {
            let sum: i64 = (0..10_000).filter(|n| n % 16 == q).sum();
            format!("{{\"q\":{q},\"s\":{sum}}}\n")
        })
        .collect();
    assert_eq!(text, expected);
}

/// Large results of concurrent statements take bounded memory: they wait for their turn in files.
#[cfg(target_os = "linux")]
#[test]
fn concurrent_statements_hold_little_memory() {
    let folder = tempfile::tempdir().unwrap();
    let t = table(folder.path());
    // 240 MB each as arrays.
    let rows = 5_000_000;
    let sql = format!("SELECT a.n, b.n, a.x, b.x, a.n + b.n, a.n - b.n FROM t a, t b LIMIT {rows}");
    let mut child = Command::new(env!("CARGO_BIN_EXE_coscan"))
        .args(["sql", "-t", &t, "--format", "csv", "--concurrent"])
        .args(["--memory", "128MiB", &sql, &sql])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut out = std::io::BufReader::with_capacity(1 << 20, child.stdout.take().unwrap());
    let lines = std::thread::spawn(move || {
        let (mut line, mut lines) = (Vec::new(), 0);
        while std::io::BufRead::read_until(&mut out, b'\n', &mut line).unwrap() > 0 {
            line.clear();
            lines += 1;
        }
        lines
    });
    let mut peak_kib = 0;
    while child.try_wait().unwrap().is_none() {
        let status = std::fs::read_to_string(format!("/proc/{}/status", child.id()));
        let status = status.unwrap_or_default();
        if let Some(peak) = status.lines().find_map(|line| line.strip_prefix("VmHWM:")) {
            peak_kib = peak.trim().trim_end_matches(" kB").parse().unwrap();
        }
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    // Two headers, and an empty line between the results.
    assert_eq!(lines.join().unwrap(), 2 * rows + 3);
    assert!((1..360 << 10).contains(&peak_kib), "{peak_kib} KiB");
}

/// Runs a command line on a terminal; returns what the terminal shows.
#[cfg(unix)]
fn on_a_terminal(line: &str) -> String {
    let shown = Command::new("script")
        .args(["-q", "-e", "-c", line, "/dev/null"])
        .env("TERM", "xterm")
        .stdin(Stdio::null())
        .output()
        .unwrap();
    stdout(&shown)
}

#[cfg(unix)]
#[test]
fn the_progress_bar_stays_if_rows_go_to_a_file() {
    let folder = tempfile::tempdir().unwrap();
    // The first rows come at once, the last after many ticks of the bar, and the scan takes as
    // long.
    let t = table_of(folder.path(), 3_000_000);
    let (program, file) = (env!("CARGO_BIN_EXE_coscan"), folder.path().join("rows.csv"));
    let sql = "SELECT n, name, x FROM t LIMIT 3000000";
    for concurrent in ["", "--concurrent"] {
        let command = format!(
            "'{program}' sql -t '{t}' --small-table-bytes 0 --chunk-bytes 256KiB --format csv {concurrent} '{sql}'"
        );
        let shown = on_a_terminal(&format!("{command} > '{}'", file.display()));
        assert!(shown.contains(" chunks "), "{shown:?}");
        let rows = std::fs::read_to_string(&file).unwrap();
        assert_eq!(rows.lines().count(), 3_000_001);

        // On the screen that shows the bar, rows replace it.
        let shown = on_a_terminal(&command.replace("3000000", "500000"));
        let first = shown.find("row ").unwrap();
        assert!(!shown[first..].contains(" chunks "), "{concurrent}");
    }
}

#[test]
fn settings_are_flags() {
    let folder = tempfile::tempdir().unwrap();
    let t = table(folder.path());
    let indexes = folder.path().join("indexes");
    let indexes = indexes.to_str().unwrap();
    let text = stdout(&coscan(&[
        "sql",
        "-t",
        &t,
        "--format",
        "csv",
        "--index-folder",
        indexes,
        "--policy",
        "attach",
        "--storage-model",
        "nsm",
        "--memory",
        "256MiB",
        "--chunk-bytes",
        "1MiB",
        "--cooperative",
        "off",
        "SELECT value FROM information_schema.df_settings WHERE name IN ('coscan.policy', 'coscan.storage_model', \
         'coscan.memory', 'coscan.chunk_bytes', 'coscan.cooperative', 'coscan.index_folder') ORDER BY name",
    ]));
    let expected = format!("value\n1048576\noff\n{indexes}\n268435456\nattach\nnsm\n");
    assert_eq!(text, expected);
}

#[test]
fn failures_are_reported_on_standard_error() {
    let folder = tempfile::tempdir().unwrap();
    let t = table(folder.path());
    let message = failure(&coscan(&["sql", "-t", &t, "SELECT nothing FROM t"]), 1);
    assert!(
        message.starts_with("coscan: ") && message.contains("nothing"),
        "{message}"
    );
    let message = failure(&coscan(&["sql", "-t", &t, "SELEC 1"]), 1);
    assert!(message.contains("SELEC"), "{message}");
    let message = failure(
        &coscan(&["sql", "-t", "u=/no/such/file.parquet", "SELECT 1"]),
        1,
    );
    assert!(message.contains("/no/such/file.parquet"), "{message}");
    let broken = folder.path().join("broken.parquet");
    std::fs::write(&broken, "not Parquet at all, but long enough").unwrap();
    let broken = format!("b={}", broken.display());
    let message = failure(&coscan(&["sql", "-t", &broken, "SELECT 1 FROM b"]), 1);
    assert!(message.contains("broken.parquet"), "{message}");
    assert!(failure(&coscan(&["sql", "-t", &t, " ; "]), 1).contains("no statement"));
    assert!(failure(&coscan(&["sql", "-f", "/no/such.sql"]), 1).contains("/no/such.sql"));
    assert!(
        failure(
            &coscan(&["sql", "--format", "arrow", "SELECT 1; SELECT 2"]),
            1
        )
        .contains("one statement")
    );
    assert!(failure(&coscan(&["sql", "-t", "t", "SELECT 1"]), 2).contains("NAME=PATH"));
    assert!(failure(&coscan(&["sql", "--policy", "fifo", "SELECT 1"]), 2).contains("relevance"));
}

#[test]
fn a_closed_pipe_is_no_error() {
    let folder = tempfile::tempdir().unwrap();
    let t = table(folder.path());
    let mut child = Command::new(env!("CARGO_BIN_EXE_coscan"))
        .args([
            "sql",
            "-t",
            &t,
            "--format",
            "csv",
            "SELECT a.* FROM t a CROSS JOIN t b",
        ])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut first = [0; 8];
    std::io::Read::read_exact(child.stdout.as_mut().unwrap(), &mut first).unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    assert!(
        output.status.success() && output.stderr.is_empty(),
        "{output:?}"
    );
}

#[cfg(unix)]
#[test]
fn an_interrupt_cancels_the_query() {
    let folder = tempfile::tempdir().unwrap();
    let t = table(folder.path());
    let child = Command::new(env!("CARGO_BIN_EXE_coscan"))
        .args([
            "sql",
            "-t",
            &t,
            "SELECT count(*) FROM t a, t b, t c WHERE a.n + b.n + c.n < 0",
        ])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // Until it handles the signal, which would otherwise kill it.
    let of_child = format!("/proc/{}/status", child.id());
    let begun = std::time::Instant::now();
    while let Ok(status) = std::fs::read_to_string(&of_child) {
        let caught = status.lines().find_map(|line| line.strip_prefix("SigCgt:"));
        let caught = caught.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
        if caught.is_none_or(|mask| mask & 2 != 0) {
            break;
        }
        assert!(begun.elapsed().as_secs() < 60, "it handles no interrupts");
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    // Until the query runs.
    std::thread::sleep(std::time::Duration::from_millis(700));
    let asked = std::time::Instant::now();
    let kill = Command::new("kill")
        .args(["-INT", &child.id().to_string()])
        .status()
        .unwrap();
    assert!(kill.success());
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(130), "{output:?}");
    assert!(
        asked.elapsed().as_secs() < 10,
        "an interrupt takes effect soon"
    );
}

#[test]
fn the_simulator_is_part_of_the_program() {
    let list = stdout(&coscan(&["sim", "list"]));
    assert!(list.contains("coop-table2"), "{list}");
    let unknown = failure(&coscan(&["sim", "run", "coop-table9"]), 2);
    assert!(
        unknown.contains("coop-table9") && unknown.contains("coop-table2"),
        "{unknown}"
    );
}

#[test]
fn a_recorded_log_can_be_replayed() {
    let folder = tempfile::tempdir().unwrap();
    let table = table(folder.path());
    let log = folder.path().join("core.log");
    let log = log.to_str().unwrap();
    let sql = "SELECT sum(n), count(x) FROM t; SELECT max(n) FROM t WHERE x > 10";
    let recorded = ["sql", "-t", &table, "--small-table-bytes", "0", "--record"];
    let rows = stdout(&coscan(&[&recorded[..], &[log, sql]].concat()));
    assert!(rows.contains("49995000"), "{rows}");
    let written = std::fs::read_to_string(log).unwrap();
    assert!(
        written.contains("ChunkJobBegun"),
        "the log contains chunk jobs too"
    );
    let replayed = stdout(&coscan(&["sim", "replay", log]));
    assert!(
        replayed.contains("all the same") && !replayed.contains("cut off"),
        "{replayed}"
    );
    // A log that cannot be written is an error before anything runs, not a mere warning.
    let nowhere = folder.path().join("missing/core.log");
    let nowhere = nowhere.to_str().unwrap();
    let refused = failure(&coscan(&[&recorded[..], &[nowhere, sql]].concat()), 1);
    assert!(refused.contains(nowhere), "{refused}");
}

#[test]
fn an_index_can_be_made_listed_used_and_dropped_from_the_shell() {
    let folder = tempfile::tempdir().unwrap();
    let table = table(folder.path());
    let path = table.strip_prefix("t=").unwrap();
    let created = coscan(&["index", "create", path, "n"]);
    stdout(&created);
    assert!(created.stderr.is_empty(), "a pipe receives no progress bar");
    let list = stdout(&coscan(&["index", "list", path]));
    assert!(list.contains("n_index") && list.contains("10000"), "{list}");
    let sql = "SELECT name FROM t WHERE n = 77";
    let by_index = [
        "sql",
        "-t",
        &table,
        "--small-table-bytes",
        "0",
        "--format",
        "csv",
        sql,
    ];
    assert_eq!(stdout(&coscan(&by_index)), "name\nrow 77\n");
    let explain = format!("EXPLAIN {sql}");
    let plan = ["sql", "-t", &table, "--small-table-bytes", "0", &explain];
    let plan = stdout(&coscan(&plan));
    assert!(plan.contains("SmoothScan: index=n_index"), "{plan}");
    let again = failure(&coscan(&["index", "create", path, "n"]), 1);
    assert!(again.contains("index n_index already exists"), "{again}");
    stdout(&coscan(&["index", "drop", path, "n_index"]));
    let missing = failure(&coscan(&["index", "refresh", path, "n_index"]), 1);
    assert!(missing.contains("there is no index n_index"), "{missing}");
}

#[test]
fn of_two_processes_that_build_an_index_one_wins() {
    let folder = tempfile::tempdir().unwrap();
    let table = table(folder.path());
    let path = table.strip_prefix("t=").unwrap();
    let mut both: Vec<_> = (0..2)
        .map(|_| {
            Command::new(env!("CARGO_BIN_EXE_coscan"))
                .args(["index", "create", path, "n"])
                .stdout(Stdio::piped())
                .stderr(Stdio::piped())
                .spawn()
                .unwrap()
        })
        .collect::<Vec<_>>()
        .into_iter()
        .map(|child| child.wait_with_output().unwrap())
        .collect();
    both.sort_by_key(|output| output.status.code());
    stdout(&both[0]);
    let refused = failure(&both[1], 1);
    assert!(
        refused.contains("index n_index already exists"),
        "{refused}"
    );
    let sql = "SELECT name FROM t WHERE n = 77; SELECT state FROM coscan.indexes";
    let options = ["--small-table-bytes", "0", "--format", "csv"];
    let found = coscan(&[&["sql", "-t", &table][..], &options, &[sql]].concat());
    assert_eq!(stdout(&found), "name\nrow 77\n\nstate\nready\n");
    let files = std::fs::read_dir(folder.path().join("_coscan")).unwrap();
    assert_eq!(files.count(), 2, "the manifest and the data");
}

/// A limit on file size stands in for a full disk: both make a write fail halfway.
#[cfg(unix)]
#[test]
fn a_full_disk_leaves_the_previous_index() {
    let folder = tempfile::tempdir().unwrap();
    let table = table(folder.path());
    let path = table.strip_prefix("t=").unwrap();
    let indexes = folder.path().join("_coscan");
    let limited = |arguments: &[&str]| {
        Command::new("sh")
            .args(["-c", "trap '' XFSZ; ulimit -f 4; exec \"$@\"", "sh"])
            .arg(env!("CARGO_BIN_EXE_coscan"))
            .args(arguments)
            .output()
            .unwrap()
    };
    let check = |output: &Output| {
        let folder = indexes.display();
        let sentence = format!(
            "coscan: index name_index cannot be written in {folder}: File too large (os error 27)\n"
        );
        assert_eq!(failure(output, 1), sentence);
    };
    check(&limited(&["index", "create", path, "name"]));
    assert_eq!(std::fs::read_dir(&indexes).unwrap().count(), 0);
    stdout(&coscan(&["index", "create", path, "name"]));
    check(&limited(&["index", "refresh", path, "name_index"]));
    assert_eq!(std::fs::read_dir(&indexes).unwrap().count(), 2);
    let list = stdout(&coscan(&["index", "list", path]));
    assert!(
        list.contains("name_index") && list.contains("ready"),
        "{list}"
    );
}

#[test]
fn the_next_process_removes_the_spill_folder_of_a_killed_one() {
    let place = tempfile::tempdir().unwrap();
    let folder = place.path().to_str().unwrap();
    let left = || std::fs::read_dir(place.path()).unwrap().count();
    let start = || {
        // As int4 the products would soon be out of range.
        let endless = "SELECT count(*) FROM generate_series(1, 2000000) a(x), \
                       generate_series(1, 2000000) b(y) WHERE x::int8 * y % 7 = 3";
        Command::new(env!("CARGO_BIN_EXE_coscan"))
            .args(["sql", "--spill-folder", folder, endless])
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap()
    };
    let (mut killed, mut running) = (start(), start());
    for _ in 0..600 {
        if left() == 2 {
            break;
        }
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
    killed.kill().unwrap();
    killed.wait().unwrap();
    assert_eq!(left(), 2, "the folder of the killed process stays for now");
    stdout(&coscan(&["sql", "--spill-folder", folder, "SELECT 1"]));
    assert_eq!(left(), 1, "the running process keeps its folder");
    running.kill().unwrap();
    running.wait().unwrap();
    stdout(&coscan(&["sql", "--spill-folder", folder, "SELECT 1"]));
    assert_eq!(left(), 0);
}
