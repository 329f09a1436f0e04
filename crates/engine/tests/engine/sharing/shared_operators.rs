//! Promised: a query that arrives while another one does the same work takes that query's output,
//! and the work is done once. Yet every query returns plain DataFusion's rows, whichever other
//! queries run, are cancelled, fail or read slowly, and whatever the memory. Work that is not
//! provably the same is never shared.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use arrow::array::{ArrayRef, Int64Array, RecordBatch, StringArray};
use arrow::datatypes::{DataType, Field};
use coscan::{Engine, EngineConfig, EngineMetrics, Session};
use coscan_storage::device::{Fault, Faulty, LocalDevice, LocalOptions, Rule, When};
use futures::StreamExt;
use futures::future::join_all;

use crate::common::{
    self, borrowed, collect, config, memory_comes_back, plain, plain_rows, rows, rows_in_order,
    tpch, tpch_tables,
};

const SCALE: f64 = 0.01;

/// Two joins, an aggregate and a top.
pub(crate) const REPORT: &str = "SELECT n_name, count(*), sum(l_extendedprice * (1 - l_discount)) AS revenue \
     FROM lineitem JOIN orders ON l_orderkey = o_orderkey JOIN customer ON o_custkey = c_custkey \
     JOIN nation ON c_nationkey = n_nationkey WHERE l_shipdate > DATE '1995-03-15' \
     GROUP BY n_name ORDER BY revenue DESC, n_name LIMIT 10";

/// A join with many rows.
const WIDE: &str = "SELECT l_orderkey, l_linenumber, l_comment, o_comment, o_clerk FROM lineitem \
     JOIN orders ON l_orderkey = o_orderkey WHERE l_quantity > 3";

/// An engine on which the first chunk arrives late. [`held_sessions`] is for tests in which all
/// queries must arrive before it.
pub(crate) fn slow_start() -> EngineConfig {
    EngineConfig {
        latency: Duration::from_millis(300),
        ..config()
    }
}

/// Sessions of one engine with TPC-H's tables.
pub(crate) async fn tpch_sessions(count: usize, config: EngineConfig) -> Vec<Session> {
    let engine = Engine::new(config).unwrap();
    let first = engine.session();
    for (name, path) in tpch_tables(&tpch(SCALE)) {
        first.register(name, path.to_str().unwrap()).await.unwrap();
    }
    (0..count).map(|_| engine.session()).collect()
}

/// Sessions that share running operators and keep no results.
pub(crate) async fn sessions(count: usize, config: EngineConfig) -> Vec<Session> {
    let sessions = tpch_sessions(count, config).await;
    sessions.iter().for_each(share);
    sessions
}

fn share(session: &Session) {
    session.set("coscan.share_operators", "on").unwrap();
    // Kept states of chunks would hide which query did the work.
    session.set("coscan.state_cache", "0").unwrap();
}

/// Sessions like [`sessions`], with these tables, on a device for this folder whose reads wait
/// until it is healed. The files of these queries are open already.
pub(crate) async fn held_sessions(
    count: usize,
    config: EngineConfig,
    folder: &Path,
    tables: &[(&str, &Path)],
    queries: &[&str],
) -> (Vec<Session>, Arc<Faulty>) {
    let device = LocalDevice::open(folder, &LocalOptions::default()).unwrap();
    let device = Arc::new(Faulty::new(Arc::new(device), Vec::new()));
    let engine = Engine::new(config).unwrap();
    let url = format!("file://{}", folder.display());
    let known = engine.devices().register(&url, Arc::clone(&device) as _);
    known.unwrap();
    let first = engine.session();
    for (name, path) in tables {
        first.register(name, path.to_str().unwrap()).await.unwrap();
    }
    let sessions: Vec<Session> = (0..count).map(|_| engine.session()).collect();
    sessions.iter().for_each(share);
    for sql in queries {
        sessions[0].explain(sql).await.unwrap();
    }
    device.add(Rule::new(When::Always, Fault::Held));
    (sessions, device)
}

/// [`held_sessions`] with TPC-H's tables.
pub(crate) async fn held_tpch(
    count: usize,
    config: EngineConfig,
    queries: &[&str],
) -> (Vec<Session>, Arc<Faulty>) {
    let root = tpch(SCALE);
    let tables = tpch_tables(&root);
    held_sessions(count, config, &root, &borrowed(&tables), queries).await
}

/// Lets the reads go on once queries have joined the work of others this often.
pub(crate) async fn goes_on_after(joined: u64, session: &Session, device: &Faulty) {
    let arrive = async {
        while metrics(session).operators_joined < joined {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    let arrive = tokio::time::timeout(Duration::from_secs(20), arrive);
    arrive.await.expect("the queries share");
    device.heal();
}

pub(crate) fn metrics(session: &Session) -> EngineMetrics {
    session.engine().metrics()
}

/// Waits until every run has ended and freed its memory.
pub(crate) async fn all_is_over(session: &Session) {
    memory_comes_back(session).await;
    let left = async {
        loop {
            let now = rows(
                session,
                "SELECT sum(runs), sum(retained_bytes) FROM coscan.operators",
            );
            if now.await == ["0|0"] {
                return;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    let left = tokio::time::timeout(Duration::from_secs(60), left);
    left.await.expect("no run is left");
    assert_eq!(metrics(session).operators_retained_bytes, 0);
}

pub(crate) async fn plain_tpch(sql: &str) -> Vec<String> {
    let tables = tpch_tables(&tpch(SCALE));
    plain_rows(&plain(&borrowed(&tables)).await, sql).await
}

/// The rows of one query, which all sessions run at once.
async fn ask_all(sessions: &[Session], sql: &str) -> Vec<Vec<String>> {
    let asked = sessions.iter().map(|session| {
        let (session, sql) = (session.clone(), sql.to_owned());
        tokio::spawn(async move { rows(&session, &sql).await })
    });
    let asked = join_all(asked).await;
    asked.into_iter().map(|rows| rows.unwrap()).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn eight_identical_queries_do_the_work_of_one() {
    let expected = plain_tpch(REPORT).await;
    let mut done = Vec::new();
    for (count, joined) in [(1, 0), (8, 7)] {
        let (sessions, device) = held_tpch(count, config(), &[REPORT]).await;
        let all_join = goes_on_after(joined, &sessions[0], &device);
        let (all_found, ()) = tokio::join!(ask_all(&sessions, REPORT), all_join);
        for found in all_found {
            assert_eq!(found, expected);
        }
        all_is_over(&sessions[0]).await;
        done.push(metrics(&sessions[0]));
    }
    let (one, eight) = (done[0], done[1]);
    assert!(one.operators_hosted > 1, "{one:?}");
    assert_eq!(one.operators_joined, 0, "{one:?}");
    assert_eq!(eight.operators_joined, 7, "{eight:?}");
    assert_eq!(eight.operators_hosted, one.operators_hosted, "{eight:?}");
    assert_eq!(eight.operator_reruns, 0, "{eight:?}");
    assert_eq!(eight.decode_bytes, one.decode_bytes);
    assert_eq!(eight.fragment_jobs, one.fragment_jobs);
    assert_eq!(eight.io_bytes, one.io_bytes);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_join_is_shared_by_aggregates_that_differ() {
    let over = |what: &str, by: &str| {
        format!(
            "SELECT {by}, {what} FROM (SELECT l_extendedprice, l_quantity, l_returnflag, o_orderpriority \
             FROM lineitem JOIN orders ON l_orderkey = o_orderkey) GROUP BY {by}"
        )
    };
    let queries = [
        over(
            "sum(l_extendedprice), sum(l_quantity)",
            "l_returnflag, o_orderpriority",
        ),
        over(
            "max(l_extendedprice), min(l_quantity)",
            "l_returnflag, o_orderpriority",
        ),
        over(
            "count(l_extendedprice), avg(l_quantity)",
            "o_orderpriority, l_returnflag",
        ),
    ];
    let (sessions, device) = held_tpch(3, config(), &queries.each_ref().map(String::as_str)).await;
    let asked = sessions.iter().zip(&queries);
    let asked = join_all(asked.map(|(session, sql)| rows(session, sql)));
    let (found, ()) = tokio::join!(asked, goes_on_after(2, &sessions[0], &device));
    for (sql, found) in queries.iter().zip(found) {
        assert_eq!(found, plain_tpch(sql).await, "{sql}");
    }
    all_is_over(&sessions[0]).await;
    let kinds = "SELECT operator, hosted, joined FROM coscan.operators WHERE hosted + joined > 0";
    let kinds = rows(&sessions[0], kinds).await;
    assert!(kinds.contains(&"hash join|1|2".to_owned()), "{kinds:?}");
    assert!(kinds.contains(&"aggregate|3|0".to_owned()), "{kinds:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_aggregate_is_shared_by_expressions_over_it() {
    let queries = ["sum(l_tax) AS a", "sum(l_tax) AS b", "sum(l_tax) * 2"].map(|what| {
        format!("SELECT l_returnflag, {what} FROM lineitem GROUP BY l_returnflag, l_linenumber")
    });
    let (sessions, device) = held_tpch(3, config(), &queries.each_ref().map(String::as_str)).await;
    let asked = sessions.iter().zip(&queries);
    let asked = join_all(asked.map(|(session, sql)| rows(session, sql)));
    let (found, ()) = tokio::join!(asked, goes_on_after(2, &sessions[0], &device));
    for (sql, found) in queries.iter().zip(found) {
        assert_eq!(found, plain_tpch(sql).await, "{sql}");
    }
    assert_eq!(metrics(&sessions[0]).operators_joined, 2);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn work_that_may_differ_is_not_shared() {
    let count = |what: &str| {
        format!("SELECT l_returnflag, {what} FROM lineitem GROUP BY l_returnflag, l_linenumber")
    };
    let stamp = "SELECT date_trunc('day', arrow_cast(l_shipdate, 'Timestamp(Second, Some(\"+00:00\"))')), \
         count(*) FROM lineitem GROUP BY 1";
    let top = |n: u32| format!("SELECT l_comment FROM lineitem ORDER BY l_comment LIMIT {n}");
    let pairs = [
        (count("sum(random())"), count("sum(random())")),
        (count("sum(l_tax)"), count("sum(l_discount)")),
        (count("count(l_tax)"), count("count(DISTINCT l_tax)")),
        (
            count("array_agg(l_tax ORDER BY l_comment)"),
            count("array_agg(l_tax ORDER BY l_comment DESC)"),
        ),
        (
            count("count(l_tax) FILTER (WHERE l_tax > 0.01)"),
            count("count(l_tax) FILTER (WHERE l_tax > 0.02)"),
        ),
        (
            count("sum(l_tax + extract(epoch FROM now()))"),
            count("sum(l_tax + extract(epoch FROM now()))"),
        ),
        (top(5), top(6)),
        (top(5), format!("{} OFFSET 1", top(5))),
    ];
    for (a, b) in pairs {
        let sessions = sessions(2, slow_start()).await;
        let asked = tokio::join!(rows(&sessions[0], &a), rows(&sessions[1], &b));
        assert!(!asked.0.is_empty() && !asked.1.is_empty());
        assert_eq!(metrics(&sessions[0]).operators_joined, 0, "{a}\n{b}");
    }
    for (setting, value) in [
        ("datafusion.execution.time_zone", "+05:00"),
        ("datafusion.optimizer.enable_topk_aggregation", "false"),
    ] {
        let (sessions, device) = held_tpch(3, config(), &[stamp]).await;
        sessions[2].set(setting, value).unwrap();
        let asked = join_all(sessions.iter().map(|session| rows(session, stamp)));
        tokio::join!(asked, goes_on_after(1, &sessions[0], &device));
        // The two queries that are equal share.
        assert_eq!(metrics(&sessions[0]).operators_joined, 1, "{setting}");
    }
}

/// Writes a table of two columns: ascending keys, and a word that identifies the file of a row.
pub(crate) fn write(path: &Path, rows: i64, word: &str) {
    let schema = common::schema(vec![
        Field::new("k", DataType::Int64, false),
        Field::new("s", DataType::Utf8, false),
    ]);
    let keys = Int64Array::from_iter_values(0..rows);
    let words = StringArray::from_iter_values((0..rows).map(|_| word));
    let columns: Vec<ArrayRef> = vec![Arc::new(keys), Arc::new(words)];
    let batch = RecordBatch::try_new(Arc::clone(&schema), columns).unwrap();
    common::write(path, schema, &[batch], 2_000);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn another_version_of_a_file_is_another_table() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("t.parquet");
    write(&path, 20_000, "old");
    let session = common::session(slow_start(), &[("t", &path)]).await;
    session.set("coscan.share_operators", "on").unwrap();
    let sql = "SELECT s, count(*) FROM (SELECT * FROM t ORDER BY k % 100, k) GROUP BY s, k % 3";
    let first = session.sql(sql).await.unwrap();
    let next = folder.path().join("next");
    write(&next, 20_000, "new");
    std::fs::rename(&next, &path).unwrap();
    let other = session.engine().session();
    other.set("coscan.share_operators", "on").unwrap();
    let (first, second) = tokio::join!(collect(first), rows(&other, sql));
    // The first query either still reads the files that it was planned on, or reports that they
    // are gone.
    if let Ok(rows) = first {
        assert!(rows.iter().all(|row| row.starts_with("old")), "{rows:?}");
    }
    assert!(
        second.iter().all(|row| row.starts_with("new")),
        "{second:?}"
    );
    assert_eq!(metrics(&session).operators_joined, 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_switch_leaves_plans_as_they_are() {
    let sessions = sessions(2, config()).await;
    sessions[1].set("coscan.share_operators", "off").unwrap();
    for sql in [REPORT, WIDE, "SELECT sum(l_tax) FROM lineitem"] {
        let shared = sessions[0].explain(sql).await.unwrap();
        let without = sessions[1].explain(sql).await.unwrap();
        assert!(shared.contains("SharedExec"), "{shared}");
        let nodes = |plan: &str| -> Vec<String> {
            let lines = plan
                .lines()
                .map(|line| line.trim_matches(['|', ' ']).to_owned());
            let lines = lines.map(|line| line.replace("physical_plan | ", ""));
            let lines = lines.map(|line| line.replace("SharedHashJoinExec: hash table, ", ""));
            let lines = lines.filter(|line| line.contains("Exec") && !line.contains("SharedExec"));
            // Names of dynamic filters contain numbers that the engine counts, which differ.
            lines
                .map(|line| line.split(", ").next().unwrap().to_owned())
                .collect()
        };
        assert_eq!(nodes(&shared), nodes(&without), "{shared}\n{without}");
        assert!(!without.contains("SharedExec"), "{without}");
    }
    // A scan alone has no work above it to share, and cheap plans are left alone.
    for sql in [
        "SELECT * FROM lineitem",
        "SELECT k FROM lineitem WHERE l_tax > 0 LIMIT 3",
    ] {
        let sql = sql.replace("SELECT k", "SELECT l_orderkey");
        let plan = sessions[0].explain(&sql).await.unwrap();
        assert!(!plan.contains("SharedExec"), "{plan}");
    }
    sessions[0].set("coscan.small_table_bytes", "1GiB").unwrap();
    let plan = sessions[0].explain(REPORT).await.unwrap();
    assert!(!plan.contains("SharedExec"), "{plan}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn explain_analyze_shows_which_queries_shared() {
    let (sessions, device) = held_tpch(2, config(), &[REPORT]).await;
    let explain = format!("EXPLAIN ANALYZE {REPORT}");
    let asked = tokio::join!(
        rows_in_order(&sessions[0], &explain),
        rows_in_order(&sessions[1], &explain),
        goes_on_after(1, &sessions[0], &device),
    );
    let (mut host, mut satellite) = (asked.0.join("\n"), asked.1.join("\n"));
    if !host.contains(", host") {
        std::mem::swap(&mut host, &mut satellite);
    }
    let line = |plan: &str| {
        plan.lines()
            .find(|line| line.contains("SharedExec"))
            .unwrap()
            .to_owned()
    };
    let (host, satellite) = (line(&host), line(&satellite));
    let number = |text: &str, before: &str| -> u64 {
        let from = text.find(before).expect(before) + before.len();
        let digits: String = text[from..]
            .chars()
            .take_while(char::is_ascii_digit)
            .collect();
        digits.parse().unwrap()
    };
    assert!(
        host.contains(", host") && host.contains("satellites=1"),
        "{host}"
    );
    let of = number(&satellite, "satellite of query ");
    assert_eq!(of, number(&host, "query="), "{host}\n{satellite}");
    assert_eq!(number(&satellite, "output_rows="), 10, "{satellite}");
    assert!(number(&satellite, "scan_bytes_saved=") > 0, "{satellite}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_trace_shows_which_queries_shared() {
    let config = EngineConfig {
        record_trace: true,
        ..config()
    };
    let (sessions, device) = held_tpch(3, config, &[REPORT]).await;
    let labels = ["one", "two", "three"];
    for (session, label) in sessions.iter().zip(labels) {
        session.label(label).unwrap();
    }
    let all_join = goes_on_after(2, &sessions[0], &device);
    tokio::join!(ask_all(&sessions, REPORT), all_join);
    all_is_over(&sessions[0]).await;
    let trace = sessions[0].engine().operator_trace();
    // At least the whole query: one session's run, which the other two read.
    let whole = trace.iter().find(|run| run.takers.len() == 2);
    let whole = whole.unwrap_or_else(|| panic!("{trace:?}"));
    let mut read: Vec<&str> = whole.takers.iter().map(|taker| &*taker.label).collect();
    read.push(&whole.label);
    read.sort_unstable();
    assert_eq!(read, ["one", "three", "two"]);
    for run in &trace {
        assert!(run.ended.is_some_and(|ended| ended >= run.begun));
        assert!(run.takers.iter().all(|taker| taker.came >= run.begun));
    }
    assert_eq!(
        metrics(&sessions[0]).operators_joined,
        trace.iter().map(|run| run.takers.len() as u64).sum::<u64>()
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn satellites_continue_when_their_host_is_dropped() {
    let expected = plain_tpch(WIDE).await;
    let (sessions, device) = held_tpch(3, config(), &[WIDE]).await;
    let mut host = sessions[0].sql(WIDE).await.unwrap();
    // The query has arrived once it was polled, even if there is no batch yet.
    let polled = tokio::time::timeout(Duration::from_millis(50), host.next()).await;
    assert!(polled.is_err(), "the first chunk is held");
    let others = tokio::spawn({
        let sessions = sessions.clone();
        async move { ask_all(&sessions[1..], WIDE).await }
    });
    let joined = async {
        while metrics(&sessions[0]).operators_joined < 2 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(20), joined)
        .await
        .unwrap();
    drop(host);
    device.heal();
    for found in others.await.unwrap() {
        assert_eq!(found, expected);
    }
    assert_eq!(metrics(&sessions[0]).operators_joined, 2);
    all_is_over(&sessions[0]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_host_that_fails_fails_the_others_with_its_cause() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("t.parquet");
    let rows_all = 60_000;
    write(&path, rows_all, "a word");
    let late = rows_all - 5;
    for sql in [
        // The error comes before any output: satellites run the work themselves.
        format!("SELECT s, sum(7 / (k - {late})) FROM t GROUP BY s"),
        // The error comes after the first batches.
        format!("SELECT a.k, 7 / (b.k - {late}) FROM t a JOIN t b ON a.k = b.k"),
    ] {
        let tables = [("t", path.as_path())];
        let (sessions, device) = held_sessions(6, config(), folder.path(), &tables, &[&sql]).await;
        let session = &sessions[0];
        let asked = sessions.iter().map(|session| async {
            let mut rows = session.sql(&sql).await.unwrap();
            while let Some(batch) = rows.next().await {
                if let Err(error) = batch {
                    return error.to_string();
                }
            }
            "no error".to_owned()
        });
        let (errors, ()) = tokio::join!(join_all(asked), goes_on_after(5, session, &device));
        for error in errors {
            assert!(error.contains("division by zero"), "{sql}: {error}");
        }
        let metrics = metrics(session);
        assert!(metrics.operators_joined >= 5, "{sql}: {metrics:?}");
        assert!(metrics.operators_failed > 0, "{sql}: {metrics:?}");
        all_is_over(session).await;
        // The engine works as before.
        let again = rows(session, "SELECT count(*) FROM t GROUP BY s").await;
        assert_eq!(again, [rows_all.to_string()]);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_slow_reader_holds_up_no_query_for_long_and_misses_no_row() {
    let expected = plain_tpch(WIDE).await;
    let sessions = sessions(
        4,
        EngineConfig {
            // Little output is retained.
            memory_bytes: Some(48 << 20),
            ..slow_start()
        },
    )
    .await;
    for session in &sessions {
        // Many batches: those read ahead of the slow consumer must not be all of them.
        session
            .set("datafusion.execution.batch_size", "256")
            .unwrap();
    }
    let mut slow = sessions[0].sql(WIDE).await.unwrap();
    let (first, quick) = tokio::join!(slow.next(), ask_all(&sessions[1..], WIDE));
    for found in quick {
        assert_eq!(found, expected);
    }
    let mut found = common::texts(&first.unwrap().unwrap());
    found.extend(collect(slow).await.unwrap());
    found.sort_unstable();
    assert_eq!(found, expected);
    let metrics = metrics(&sessions[0]);
    assert!(metrics.operators_joined >= 3, "{metrics:?}");
    let apart = metrics.operator_batches_to_disk + metrics.operator_reruns;
    assert!(apart > 0, "{metrics:?}");
    all_is_over(&sessions[0]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn five_hundred_identical_queries_at_once() {
    let expected = plain_tpch(REPORT).await;
    let sessions = sessions(
        500,
        EngineConfig {
            latency: Duration::from_millis(1_500),
            ..config()
        },
    )
    .await;
    for found in ask_all(&sessions, REPORT).await {
        assert_eq!(found, expected);
    }
    let metrics = metrics(&sessions[0]);
    // Planning all queries may take longer than running one.
    assert!(metrics.operators_joined > 250, "{metrics:?}");
    all_is_over(&sessions[0]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn queries_that_read_each_others_runs_crosswise_end() {
    let side = |least: u32| {
        format!(
            "(SELECT l_orderkey k, max(l_comment) c, min(l_comment) d FROM lineitem \
             WHERE l_quantity > {least} GROUP BY l_orderkey)"
        )
    };
    let (one, other) = (side(1), side(2));
    let join = |a: &str, b: &str| {
        format!("SELECT count(*), max(x.c), min(y.d) FROM {a} x JOIN {b} y ON x.k = y.k")
    };
    let (a, b) = (join(&one, &other), join(&other, &one));
    let (expected_a, expected_b) = (plain_tpch(&a).await, plain_tpch(&b).await);
    for hash in ["true", "false"] {
        // A run retains less than an aggregate outputs.
        let sessions = sessions(
            8,
            EngineConfig {
                memory_bytes: Some(24 << 20),
                latency: Duration::from_millis(50),
                ..config()
            },
        )
        .await;
        for session in &sessions {
            for (option, value) in [
                ("prefer_hash_join", hash),
                ("join_reordering", "false"),
                ("enable_dynamic_filter_pushdown", "false"),
            ] {
                let option = format!("datafusion.optimizer.{option}");
                session.set(&option, value).unwrap();
            }
        }
        let asked = sessions.iter().enumerate().map(|(number, session)| {
            let (sql, expected) = if number % 2 == 0 {
                (&a, &expected_a)
            } else {
                (&b, &expected_b)
            };
            async move { assert_eq!(&rows(session, sql).await, expected, "{number}, hash {hash}") }
        });
        let all = tokio::time::timeout(Duration::from_secs(120), join_all(asked));
        all.await.expect("every query ends in time");
        let metrics = metrics(&sessions[0]);
        assert!(metrics.operators_joined >= 6, "{metrics:?}");
        all_is_over(&sessions[0]).await;
    }
}
