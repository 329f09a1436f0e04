//! Promised: queries that join different rows with the same build side probe one hash table, which
//! is built once. Each query returns plain DataFusion's rows, whichever of them builds the table,
//! is dropped or fails, and skips what it would skip with its own table. Tables that may differ
//! are not shared.

use std::sync::Arc;
use std::time::Duration;

use arrow::array::{ArrayRef, Int64Array, Int64Builder, MapBuilder, RecordBatch, StringBuilder};
use coscan::Session;
use futures::StreamExt;
use futures::future::join_all;

use super::shared_operators::{
    all_is_over, goes_on_after, held_sessions, held_tpch, metrics, plain_tpch, sessions,
    slow_start, write,
};
use crate::common::{self, config, rows, rows_in_order};

/// Joins some lines with the small parts.
fn lines(condition: &str) -> String {
    format!(
        "SELECT p_brand, count(*), sum(l_quantity) FROM lineitem JOIN part ON l_partkey = p_partkey \
         WHERE p_size < 40 AND {condition} GROUP BY p_brand"
    )
}

/// Queries with the same build side, which they probe with different rows in different ways.
fn alike() -> Vec<String> {
    let small = "(SELECT p_partkey FROM part WHERE p_size < 30)";
    let exists = |not: &str, least: u32| {
        format!(
            "SELECT count(*), min(l_comment) FROM lineitem WHERE l_quantity > {least} AND \
             {not} EXISTS (SELECT 1 FROM {small} WHERE p_partkey = l_partkey)"
        )
    };
    vec![
        exists("", 3),
        exists("", 7),
        exists("NOT", 5),
        format!(
            "SELECT count(l_orderkey), max(l_comment) FROM {small} p RIGHT JOIN lineitem \
             ON l_partkey = p_partkey WHERE l_tax < 0.05"
        ),
        format!(
            "SELECT max(l_comment) FROM lineitem JOIN {small} p ON l_partkey = p_partkey \
             WHERE l_tax < 0.03 AND l_orderkey + p_partkey > 100"
        ),
    ]
}

/// How many hash tables were built, and how often a query joined one.
async fn tables(session: &Session) -> String {
    let sql = "SELECT hosted, joined FROM coscan.operators WHERE operator = 'hash table'";
    rows(session, sql).await.join(" ")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn different_probe_sides_probe_one_table() {
    let queries: Vec<String> = (1..=8)
        .map(|n| lines(&format!("l_quantity > {n}")))
        .collect();
    let texts: Vec<&str> = queries.iter().map(String::as_str).collect();
    let (sessions, device) = held_tpch(queries.len(), config(), &texts).await;
    let asked = sessions.iter().zip(&queries);
    let asked = join_all(asked.map(|(session, sql)| rows(session, sql)));
    let (found, ()) = tokio::join!(asked, goes_on_after(7, &sessions[0], &device));
    for (sql, found) in queries.iter().zip(found) {
        assert_eq!(found, plain_tpch(sql).await, "{sql}");
    }
    assert_eq!(tables(&sessions[0]).await, "1|7");
    all_is_over(&sessions[0]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn joins_of_different_kinds_probe_one_table() {
    let queries = alike();
    let texts: Vec<&str> = queries.iter().map(String::as_str).collect();
    let (sessions, device) = held_tpch(queries.len(), config(), &texts).await;
    let asked = sessions.iter().zip(&queries);
    let asked = join_all(asked.map(|(session, sql)| rows(session, sql)));
    let (found, ()) = tokio::join!(asked, goes_on_after(3, &sessions[0], &device));
    for (sql, found) in queries.iter().zip(found) {
        assert_eq!(found, plain_tpch(sql).await, "{sql}");
    }
    let made = tables(&sessions[0]).await;
    let (hosted, joined) = made.split_once('|').unwrap();
    let (hosted, joined): (u64, u64) = (hosted.parse().unwrap(), joined.parse().unwrap());
    // A table has bounds if a filter is made from it; an anti join makes none.
    assert!(hosted <= 2 && hosted + joined == 5, "{made}");
    all_is_over(&sessions[0]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_table_that_is_in_use_is_there_for_later_queries() {
    let session = &sessions(1, config()).await[0];
    let wide = "SELECT l_comment, p_name FROM lineitem JOIN part ON l_partkey = p_partkey \
         WHERE p_size < 40 AND l_quantity > 0";
    session
        .set("datafusion.execution.batch_size", "64")
        .unwrap();
    let mut first = session.sql(wide).await.unwrap();
    assert!(first.next().await.unwrap().unwrap().num_rows() > 0);
    let second = wide.replace("l_quantity > 0", "l_quantity > 20");
    assert_eq!(rows(session, &second).await, plain_tpch(&second).await);
    assert_eq!(tables(session).await, "1|1");
    drop(first);
    all_is_over(session).await;
    // The table was dropped with the last query that probed it.
    assert_eq!(rows(session, &second).await, plain_tpch(&second).await);
    assert_eq!(tables(session).await, "2|1");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hash_table_is_built_even_if_its_host_is_dropped() {
    let of_host = lines("l_quantity > 1");
    let (sessions, device) = held_tpch(3, config(), &[&of_host]).await;
    let mut host = sessions[0].sql(&of_host).await.unwrap();
    let polled = tokio::time::timeout(Duration::from_millis(50), host.next()).await;
    assert!(polled.is_err(), "the first chunk is held");
    let others = tokio::spawn({
        let sessions = sessions.clone();
        async move {
            let (a, b) = (lines("l_quantity > 2"), lines("l_quantity > 3"));
            tokio::join!(rows(&sessions[1], &a), rows(&sessions[2], &b))
        }
    });
    let joined = async {
        while metrics(&sessions[0]).operators_joined < 2 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    let joined = tokio::time::timeout(Duration::from_secs(20), joined);
    joined.await.unwrap();
    drop(host);
    device.heal();
    let (a, b) = others.await.unwrap();
    assert_eq!(a, plain_tpch(&lines("l_quantity > 2")).await);
    assert_eq!(b, plain_tpch(&lines("l_quantity > 3")).await);
    assert_eq!(tables(&sessions[0]).await, "1|2");
    all_is_over(&sessions[0]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hash_table_that_cannot_be_built_fails_each_query_with_its_cause() {
    let folder = tempfile::tempdir().unwrap();
    let (small, large) = (
        folder.path().join("s.parquet"),
        folder.path().join("l.parquet"),
    );
    write(&small, 5_000, "small");
    write(&large, 60_000, "large");
    let queries = [0, 1, 2, 3].map(|number| {
        format!(
            "SELECT count(*), sum(v) FROM l JOIN (SELECT k, 7 / (k - 4990) AS v FROM s) s \
             ON l.k = s.k WHERE l.s <> 'word {number}'"
        )
    });
    let tables = [("s", small.as_path()), ("l", large.as_path())];
    let texts: Vec<&str> = queries.iter().map(String::as_str).collect();
    let (sessions, device) = held_sessions(4, config(), folder.path(), &tables, &texts).await;
    let session = &sessions[0];
    let asked = sessions.iter().zip(&queries);
    let asked = asked.map(|(session, sql)| async move {
        let mut rows = session.sql(sql).await.unwrap();
        while let Some(batch) = rows.next().await {
            if let Err(error) = batch {
                return error.to_string();
            }
        }
        "no error".to_owned()
    });
    let (errors, ()) = tokio::join!(join_all(asked), goes_on_after(3, session, &device));
    for error in errors {
        assert!(error.contains("division by zero"), "{error}");
    }
    let metrics = metrics(session);
    assert!(metrics.operators_joined >= 3, "{metrics:?}");
    assert!(metrics.operator_reruns >= 3, "{metrics:?}");
    all_is_over(session).await;
    let again = "SELECT count(*) FROM l JOIN (SELECT k, 7 / (k + 1) AS v FROM s) s ON l.k = s.k";
    assert_eq!(rows(session, again).await, ["5000"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tables_that_differ_are_not_shared() {
    let other_key = "SELECT p_brand, count(*), sum(l_quantity) FROM lineitem JOIN part \
         ON l_partkey = p_partkey AND l_linenumber = p_size WHERE p_size < 40 AND l_quantity > 2 \
         GROUP BY p_brand";
    for (a, b) in [
        (
            lines("l_quantity > 1"),
            lines("l_quantity > 2 AND p_retailprice > 0"),
        ),
        (
            lines("l_quantity > 1"),
            lines("l_quantity > 2").replace("p_brand", "p_type"),
        ),
        (lines("l_quantity > 1"), other_key.to_owned()),
    ] {
        let sessions = sessions(2, slow_start()).await;
        let asked = tokio::join!(rows(&sessions[0], &a), rows(&sessions[1], &b));
        assert_eq!(asked.0, plain_tpch(&a).await, "{a}");
        assert_eq!(asked.1, plain_tpch(&b).await, "{b}");
        assert_eq!(tables(&sessions[0]).await, "2|0", "{a}\n{b}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn explain_analyze_shows_which_query_built_the_hash_table() {
    let query = |n: u32| lines(&format!("l_quantity > {n} AND p_partkey < 700"));
    let (sessions, device) = held_tpch(2, config(), &[&query(1)]).await;
    let [first, second] = [1, 2].map(|n| format!("EXPLAIN ANALYZE {}", query(n)));
    let asked = tokio::join!(
        rows_in_order(&sessions[0], &first),
        rows_in_order(&sessions[1], &second),
        goes_on_after(1, &sessions[0], &device),
    );
    let (mut host, mut satellite) = (asked.0.join("\n"), asked.1.join("\n"));
    let line = |plan: &str| {
        let mut lines = plan.lines();
        let join = lines.find(|line| line.contains("SharedHashJoinExec"));
        join.unwrap_or_else(|| panic!("{plan}")).to_owned()
    };
    if !line(&host).contains(", host") {
        std::mem::swap(&mut host, &mut satellite);
    }
    let (join_of_host, join_of_satellite) = (line(&host), line(&satellite));
    assert!(join_of_host.contains(", host"), "{join_of_host}");
    assert!(join_of_host.contains("satellites=1"), "{join_of_host}");
    assert!(join_of_host.contains("build_input_rows="), "{join_of_host}");
    assert!(
        join_of_satellite.contains("satellite of query "),
        "{join_of_satellite}"
    );
    assert!(
        join_of_satellite.contains("scan_bytes_saved="),
        "{join_of_satellite}"
    );
    for plan in [&host, &satellite] {
        // The keys of the table limit what each query reads of its lines.
        assert!(plan.contains("DynamicFilter [ l_partkey"), "{plan}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn maps_may_be_keys() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("t.parquet");
    let mut maps = MapBuilder::new(None, StringBuilder::new(), Int64Builder::new());
    for row in 0..6 {
        maps.keys().append_value("k");
        maps.values().append_value(row % 3);
        maps.append(row != 5).unwrap();
    }
    let maps: ArrayRef = Arc::new(maps.finish());
    let numbers: ArrayRef = Arc::new(Int64Array::from_iter_values(0..6));
    let batch = RecordBatch::try_from_iter([("m", maps), ("n", numbers)]).unwrap();
    common::write(&path, batch.schema(), &[batch], 2);
    let mut answers = Vec::new();
    for share in ["off", "on"] {
        let session = common::session(common::config(), &[("t", &path)]).await;
        session.set("coscan.share_operators", share).unwrap();
        let sql = "SELECT a.n, b.n FROM t AS a JOIN t AS b ON a.m = b.m";
        let found = match session.sql(sql).await {
            Ok(found) => common::collect(found)
                .await
                .map_err(|error| error.to_string()),
            Err(error) => Err(error.to_string()),
        };
        answers.push(found.map(|mut rows| {
            rows.sort_unstable();
            rows
        }));
    }
    assert_eq!(answers[0], answers[1]);
}
