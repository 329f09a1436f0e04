//! Promised: all mentions of a query in WITH read the same rows, whatever they read of it; its
//! rows are computed once for each execution of the statement, within the memory and with a few
//! files; EXPLAIN shows it once.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use arrow::array::{ArrayRef, Int64Array, RecordBatch, StringArray};
use arrow::datatypes::{DataType, Field};
use coscan::{EngineConfig, Session};
use futures::{StreamExt, TryStreamExt};

use crate::common::{self, config, memory_comes_back, rows_in_order};

const ROWS: i64 = 40_000;
/// More than any query of these tests takes.
const HANGS: Duration = Duration::from_secs(120);

/// `t(k, g, w)`: distinct numbers, 100 groups, and words of `width` letters.
fn table(folder: &Path, width: usize) -> std::path::PathBuf {
    let path = folder.join("t.parquet");
    let schema = common::schema(vec![
        Field::new("k", DataType::Int64, false),
        Field::new("g", DataType::Int64, false),
        Field::new("w", DataType::Utf8, false),
    ]);
    let numbers: ArrayRef = Arc::new(Int64Array::from_iter_values(0..ROWS));
    let groups: ArrayRef = Arc::new(Int64Array::from_iter_values((0..ROWS).map(|k| k % 100)));
    let words = (0..ROWS).map(|k| format!("{k:0width$}"));
    let words: ArrayRef = Arc::new(StringArray::from_iter_values(words));
    let batch = RecordBatch::try_new(Arc::clone(&schema), vec![numbers, groups, words]);
    common::write(&path, schema, &[batch.expect("a batch")], 4_000);
    path
}

async fn session(folder: &Path, config: EngineConfig, width: usize) -> Session {
    let path = table(folder, width);
    common::session(config, &[("t", &path)]).await
}

/// The only value of a query's result; fails if the query hangs.
async fn value(session: &Session, sql: &str) -> String {
    let run = async {
        let statement = session.prepare(sql, &[]).await?;
        let rows = statement.execute(vec![]).await?;
        Ok::<_, coscan::Error>(common::collect(rows).await?)
    };
    let found = tokio::time::timeout(HANGS, run).await;
    let found = found.unwrap_or_else(|_| panic!("{sql}: it hangs"));
    let found = found.unwrap_or_else(|error| panic!("{sql}: {error}"));
    assert_eq!(found.len(), 1, "{sql}: {found:?}");
    found[0].clone()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_relation_around_a_correlated_subquery_has_the_rows_for_which_it_was_computed() {
    let folder = tempfile::tempdir().expect("a folder");
    let session = session(folder.path(), config(), 8).await;
    for (sql, expected) in [
        (
            "SELECT count(*) FROM (SELECT x, (SELECT count(*) FROM generate_series(1, 100) u(i) WHERE u.i > a.x LIMIT 1) c FROM (SELECT random() * 100 x FROM generate_series(1, 1000)) a) q WHERE c <> 100 - floor(x)",
            "0",
        ),
        (
            "SELECT count(*) FROM (SELECT random() x FROM t WHERE k < 500) a, LATERAL (SELECT a.x + i y FROM generate_series(1, 2) u(i) ORDER BY i LIMIT 1) b WHERE b.y = a.x + 1",
            "500",
        ),
        (
            "SELECT count(*) FROM (SELECT k, row_number() OVER (ORDER BY g) n FROM t) a WHERE (SELECT max(u.k) FROM (SELECT k FROM t ORDER BY k LIMIT 1000) u WHERE u.k < a.n AND u.k >= a.n - 1) = a.n - 1",
            "1000",
        ),
        (
            "SELECT count(*) FROM (SELECT g, avg(k + 0.1::float8) s FROM t GROUP BY g) a WHERE (SELECT count(*) FROM (SELECT * FROM t WHERE k < 200) u WHERE u.g = a.g AND u.k < a.s LIMIT 1) = 2",
            "100",
        ),
        // Each execution has rows of its own.
        (
            "SELECT count(DISTINCT x) FROM (SELECT x FROM (SELECT random() x) a WHERE (SELECT i FROM generate_series(1, 3) u(i) WHERE i > a.x ORDER BY i LIMIT 1) = 1 UNION ALL SELECT x FROM (SELECT random() x) a WHERE (SELECT i FROM generate_series(1, 3) u(i) WHERE i > a.x ORDER BY i LIMIT 1) = 1) q",
            "2",
        ),
    ] {
        assert_eq!(value(&session, sql).await, expected, "{sql}");
    }
    // Each round of a recursive query would have rows of its own.
    let rounds = "WITH RECURSIVE r (n, x) AS (SELECT 0, -1::float8 UNION ALL SELECT n + 1, a.x FROM r, (SELECT s.x FROM (SELECT random() x) s WHERE (SELECT i FROM generate_series(1, 3) u (i) WHERE i > s.x ORDER BY i LIMIT 1) = 1) a WHERE n < 5) SELECT count(DISTINCT x) FROM r";
    let refused = match session.sql(rounds).await {
        Ok(rows) => common::collect(rows)
            .await
            .map_err(|error| error.to_string()),
        Err(error) => Err(error.to_string()),
    };
    let told = refused.unwrap_err();
    assert!(told.contains("correlated subquery"), "{told}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn all_mentions_read_the_same_rows() {
    let folder = tempfile::tempdir().expect("a folder");
    let session = session(folder.path(), config(), 8).await;
    let all = ROWS.to_string();
    for (sql, expected) in [
        (
            "WITH s AS (SELECT random() r) SELECT count(*) FROM s x JOIN s y ON x.r = y.r",
            "1",
        ),
        (
            "WITH s AS (SELECT random() r FROM t) SELECT count(*) FROM s x JOIN s y USING (r)",
            &all,
        ),
        (
            "WITH s AS (SELECT k, random() r FROM t) SELECT count(*) FROM s WHERE r IN (SELECT r FROM s)",
            &all,
        ),
        (
            "WITH s AS (SELECT gen_random_uuid() u FROM t) SELECT count(DISTINCT u) FROM (SELECT u FROM s UNION ALL SELECT u FROM s) q",
            &all,
        ),
        (
            "WITH s AS MATERIALIZED (SELECT clock_timestamp() c) SELECT (SELECT c FROM s) = c FROM s",
            "true",
        ),
        (
            "WITH \"S\" AS (SELECT random() r) SELECT count(DISTINCT r) FROM (SELECT * FROM \"S\" UNION ALL SELECT * FROM \"S\") q",
            "1",
        ),
        (
            "WITH s AS (SELECT k, random() r FROM t), u AS (SELECT r FROM s) SELECT count(*) FROM u x JOIN u y USING (r)",
            &all,
        ),
        (
            "WITH s AS (SELECT random() r FROM t), u AS (SELECT x.r FROM s x JOIN s y USING (r)) SELECT count(*) FROM s JOIN u USING (r) JOIN u v USING (r)",
            &all,
        ),
        (
            "WITH s (a, b) AS (SELECT k, random() FROM t) SELECT count(*) FROM s x (c, d) JOIN s y (e, f) ON c = e AND d = f",
            &all,
        ),
        (
            "WITH s AS (SELECT k, random() r FROM t WHERE k < 500) SELECT count(*) FROM s x WHERE r = (SELECT min(r) FROM s y WHERE y.k = x.k)",
            "500",
        ),
        (
            "WITH s AS (SELECT k, random() r FROM t) SELECT count(*) FROM s x WHERE EXISTS (SELECT 1 FROM s y WHERE y.r = x.r AND y.k = x.k)",
            &all,
        ),
        (
            "SELECT (WITH s AS (SELECT random() r) SELECT count(*) FROM s x JOIN s y USING (r))",
            "1",
        ),
        (
            "WITH RECURSIVE s AS (SELECT random() r), n AS (SELECT 1 n, 0::float8 r UNION ALL SELECT n + 1, s.r FROM n, s WHERE n < 9) SELECT count(DISTINCT r) FROM n WHERE n > 1",
            "1",
        ),
        (
            "WITH s AS (SELECT 1 k WHERE random() < 0.5) SELECT (SELECT count(*) FROM s) = (SELECT count(k) FROM s)",
            "true",
        ),
        (
            "WITH s AS (SELECT k FROM t LIMIT 10) SELECT count(*) FROM s x JOIN s y USING (k)",
            "10",
        ),
        (
            "WITH s AS (SELECT k FROM t ORDER BY g LIMIT 7) SELECT count(*) FROM s x JOIN s y USING (k)",
            "7",
        ),
        (
            "WITH s AS (SELECT DISTINCT ON (g) g, k FROM t) SELECT count(*) FROM s x JOIN s y USING (g, k)",
            "100",
        ),
        (
            "WITH s AS (SELECT g, array_agg(k) a FROM t GROUP BY g) SELECT count(*) FROM s x JOIN s y ON x.g = y.g AND x.a = y.a",
            "100",
        ),
        (
            "WITH s AS (SELECT k, row_number() OVER (ORDER BY g) n FROM t) SELECT count(*) FROM s x JOIN s y USING (k, n)",
            &all,
        ),
        (
            "WITH s AS (SELECT k, random() r FROM t) SELECT count(*) FROM (SELECT * FROM s LIMIT 1) x, s y",
            &all,
        ),
        (
            "WITH s AS (SELECT k, random() r FROM t) SELECT count(*) FROM s x JOIN (SELECT k, r FROM s UNION ALL SELECT k, 2 FROM t) y ON x.k = y.k WHERE x.r = y.r OR y.r = 2",
            "80000",
        ),
        (
            "WITH s AS (SELECT random() r) SELECT count(*) FROM s x, s y",
            "1",
        ),
    ] {
        assert_eq!(value(&session, sql).await, expected, "{sql}");
    }
    memory_comes_back(&session).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn conditions_without_columns_and_float_sums_are_right() {
    let folder = tempfile::tempdir().expect("a folder");
    let session = session(folder.path(), config(), 8).await;
    for (sql, expected) in [
        (
            "WITH s AS (SELECT random() FROM t) SELECT count(*) FROM s x, s y WHERE 0 < (SELECT min(k) FROM t)",
            "0",
        ),
        (
            "WITH s AS (SELECT k, random() r FROM t WHERE k = (SELECT max(k) FROM t)) SELECT count(*) FROM s x JOIN s y USING (r) WHERE true = ANY (SELECT k > 5 FROM t)",
            "1",
        ),
        (
            "WITH s AS (SELECT g, sum(k::float8 / 7) f FROM t GROUP BY g) SELECT count(*) FROM s WHERE f IN (SELECT f FROM s WHERE g < 40)",
            "40",
        ),
    ] {
        assert_eq!(value(&session, sql).await, expected, "{sql}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_execution_computes_its_rows() {
    let folder = tempfile::tempdir().expect("a folder");
    let session = session(folder.path(), config(), 8).await;
    let sql = "WITH s AS (SELECT random() r) SELECT x.r, y.r FROM s x, s y";
    let statement = session.prepare(sql, &[]).await.expect("prepared");
    let mut found = vec![];
    for _ in 0..2 {
        let rows = statement.execute(vec![]).await.expect("begun");
        found.extend(common::collect(rows).await.expect("rows"));
    }
    for row in &found {
        let (left, right) = row.split_once('|').expect("two columns");
        assert_eq!(left, right);
    }
    assert_ne!(found[0], found[1], "two executions");
    let sql = "WITH s AS (SELECT $1::int8 + k a FROM t LIMIT 5) \
               SELECT count(*) FROM s x JOIN s y USING (a) WHERE a >= 1000000";
    let statement = session.prepare(sql, &[]).await.expect("prepared");
    for (given, expected) in [(1_000_000_i64, "5"), (0, "0")] {
        let rows = statement.execute(vec![given.into()]).await.expect("begun");
        let found = common::collect(rows).await.expect("rows");
        assert_eq!(found, [expected]);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_order_is_kept() {
    let folder = tempfile::tempdir().expect("a folder");
    let session = session(folder.path(), config(), 8).await;
    let sql = "WITH s AS (SELECT k FROM t ORDER BY k DESC LIMIT 3) \
               SELECT k FROM s WHERE k IN (SELECT k FROM s)";
    let found = rows_in_order(&session, &format!("{sql} ORDER BY k")).await;
    assert_eq!(found, ["39997", "39998", "39999"]);
    let sql = "WITH s AS (SELECT k, random() r FROM t ORDER BY k DESC LIMIT 3) \
               SELECT array_agg(k)::text FROM s WHERE r < (SELECT max(r) + 1 FROM s)";
    assert_eq!(value(&session, sql).await, "{39999,39998,39997}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_mention_gets_the_error() {
    let folder = tempfile::tempdir().expect("a folder");
    let session = session(folder.path(), config(), 8).await;
    for sql in [
        "WITH s AS (SELECT 1 / (k - 30000) q, random() r FROM t) SELECT count(q) FROM s x JOIN s y USING (r, q)",
        "WITH s AS (SELECT 1 / (k - 30000) q, random() r FROM t) SELECT q FROM s UNION ALL SELECT q FROM s",
    ] {
        let run = async {
            let rows = session.sql(sql).await.expect("begun");
            common::collect(rows).await
        };
        let run = tokio::time::timeout(HANGS, run).await.expect("it hangs");
        let error = run.expect_err(sql).to_string();
        assert!(error.contains("division by zero"), "{error}");
    }
    memory_comes_back(&session).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_query_that_is_dropped_gives_its_memory_back() {
    let folder = tempfile::tempdir().expect("a folder");
    let session = session(folder.path(), config(), 100).await;
    let sql = "WITH s AS (SELECT k, w, random() r FROM t) \
               SELECT x.k, y.w FROM s x JOIN s y USING (r)";
    for taken in [0, 1] {
        let mut stream = session.sql(sql).await.expect("begun");
        for _ in 0..taken {
            stream.next().await.expect("a batch").expect("rows");
        }
        drop(stream);
        memory_comes_back(&session).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rows_beyond_the_memory_are_read_from_few_files() {
    let folder = tempfile::tempdir().expect("a folder");
    let small = EngineConfig {
        memory_bytes: Some(24 << 20),
        ..config()
    };
    // 40 MB of words.
    let session = session(folder.path(), small, 1_000).await;
    let sql = "WITH s AS (SELECT k, w, random() r FROM t) \
               SELECT (SELECT count(DISTINCT k) FROM s), (SELECT sum(length(w)) FROM s), \
                      (SELECT min(r) FROM s) = (SELECT min(r) FROM s)";
    let (expected, open) = (format!("{ROWS}|{}|true", ROWS * 1_000), open_files());
    let stream = session.sql(sql).await.expect("begun");
    let watch = tokio::spawn(async move {
        let mut most = 0;
        loop {
            most = most.max(open_files());
            tokio::time::sleep(Duration::from_millis(2)).await;
            assert!(most <= open + 500, "{most} open files");
        }
    });
    let found = tokio::time::timeout(HANGS, common::collect(stream)).await;
    assert_eq!(found.expect("it hangs").expect("rows"), [expected]);
    watch.abort();
    assert!(
        watch.await.expect_err("ended").is_cancelled(),
        "too many open files"
    );
    let analyzed = analyzed(&session, sql).await;
    let shown = analyzed
        .lines()
        .find(|line| line.contains("OnceExec: s, metrics"));
    let shown = shown.unwrap_or_else(|| panic!("{analyzed}"));
    assert!(
        !shown.contains("spill_count=0"),
        "it was not spilled: {shown}"
    );
    memory_comes_back(&session).await;
}

fn open_files() -> usize {
    std::fs::read_dir("/proc/self/fd").map_or(0, Iterator::count)
}

async fn analyzed(session: &Session, sql: &str) -> String {
    rows_in_order(session, &format!("EXPLAIN ANALYZE {sql}"))
        .await
        .join("\n")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn plans_show_the_query_once() {
    let folder = tempfile::tempdir().expect("a folder");
    let session = session(folder.path(), config(), 8).await;
    let sql = "WITH s AS (SELECT k, random() r FROM t), u AS (SELECT * FROM s WHERE k > 5) \
               SELECT count(*) FROM s x JOIN s y USING (r) JOIN s z USING (r)";
    let explained = session.explain(sql).await.expect("explained");
    let physical = explained
        .split("physical_plan")
        .nth(1)
        .expect("a physical plan");
    let count = |text: &str, what: &str| text.matches(what).count();
    assert_eq!(count(physical, "OnceExec: s"), 3, "{physical}");
    assert_eq!(count(physical, "computed elsewhere"), 2, "{physical}");
    assert_eq!(count(physical, "CScan"), 1, "{physical}");
    let analyzed = analyzed(&session, sql).await;
    assert_eq!(count(&analyzed, "CScan"), 1, "{analyzed}");
    assert_eq!(count(&analyzed, "OnceExec: s"), 3, "{analyzed}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn scans_of_other_queries_go_on_beside_a_filled_list() {
    let folder = tempfile::tempdir().expect("a folder");
    let small = EngineConfig {
        memory_bytes: Some(32 << 20),
        ..config()
    };
    let session = session(folder.path(), small, 400).await;
    let sql = "WITH s AS (SELECT k, w, random() r FROM t) \
               SELECT k, w FROM s UNION ALL SELECT k, w FROM s";
    let mut held = session.sql(sql).await.expect("begun");
    held.next().await.expect("a batch").expect("rows");
    let other = value(&session, "SELECT sum(length(w)) FROM t").await;
    assert_eq!(other, (ROWS * 400).to_string());
    let rest: Vec<RecordBatch> = tokio::time::timeout(HANGS, held.try_collect())
        .await
        .expect("it hangs")
        .expect("rows");
    assert!(!rest.is_empty());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_view_with_volatile_mentions_is_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    let session = session(folder.path(), config(), 8).await;
    let make =
        "CREATE VIEW v AS WITH s AS (SELECT random() r) SELECT x.r FROM s x JOIN s y USING (r)";
    let error = session.sql(make).await.err().expect("refused").to_string();
    assert!(error.contains("volatile"), "{error}");
    let make = "CREATE VIEW v AS WITH s AS (SELECT k FROM t LIMIT 9) \
                SELECT x.k FROM s x JOIN s y USING (k)";
    common::rows(&session, make).await;
    let sql = "SELECT count(*) FROM v, v w";
    assert_eq!(value(&session, sql).await, "81");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn equal_subtrees_run_once() {
    let folder = tempfile::tempdir().expect("a folder");
    let session = session(folder.path(), config(), 8).await;
    let sql = "WITH s AS (SELECT g, k % 7 h, rank() OVER (PARTITION BY k % 7 ORDER BY g) r, \
                          sum(k) n FROM t GROUP BY g, k % 7) \
               SELECT count(*), bool_and(x.n + y.n + z.n > (SELECT min(n) FROM s)) FROM s x \
               JOIN s y ON x.h = y.h AND x.r = y.r + 1 JOIN s z ON x.h = z.h AND x.r = z.r - 1";
    let explained = session.explain(sql).await.expect("explained");
    let physical = explained
        .split("physical_plan")
        .nth(1)
        .expect("a physical plan");
    assert_eq!(
        physical.matches("OnceExec: equal subtrees").count(),
        4,
        "{physical}"
    );
    assert_eq!(physical.matches("CScan").count(), 1, "{physical}");
    assert_eq!(value(&session, sql).await, "686|true");
    // The mentions read different columns and rows.
    let sql = "WITH s AS (SELECT g, sum(k) n FROM t GROUP BY g) \
               SELECT count(*) FROM s x JOIN s y ON y.g = x.g + 1 WHERE x.g < 5 AND y.g > 3";
    let explained = session.explain(sql).await.expect("explained");
    assert!(!explained.contains("OnceExec"), "{explained}");
    assert_eq!(value(&session, sql).await, "2");
    memory_comes_back(&session).await;
}
