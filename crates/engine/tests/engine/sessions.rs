//! Promised: limits and orders hold, a dropped query leaves nothing behind, settings belong to a
//! session and refuse invalid values, small tables are planned as DataFusion plans them, system
//! tables show what runs.

use crate::common;
use std::path::Path;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use crate::common::{
    collect, config, memory_comes_back, plain, plain_rows, rows, rows_in_order, session,
};
use arrow::array::{Int64Array, RecordBatch, StringArray};
use arrow::datatypes::{DataType, Field};
use coscan::{Engine, EngineConfig, Session};
use coscan_storage::pool::Reclaim;
use datafusion::physical_plan::ExecutionPlanProperties;
use futures::StreamExt;

const ROWS: i64 = 60_000;

/// Keys ascending over two files, with a few row groups each.
fn write(folder: &Path) {
    let schema = common::schema(vec![
        Field::new("k", DataType::Int64, false),
        Field::new("s", DataType::Utf8, true),
    ]);
    for file in 0..2 {
        let keys = file * ROWS / 2..(file + 1) * ROWS / 2;
        let batch = RecordBatch::try_new(
            Arc::clone(&schema),
            vec![
                Arc::new(Int64Array::from_iter_values(keys.clone())),
                Arc::new(StringArray::from_iter(
                    keys.map(|k| (k % 3 != 0).then(|| format!("value {k}"))),
                )),
            ],
        )
        .expect("a batch");
        common::write(
            &folder.join(format!("{file}.parquet")),
            Arc::clone(&schema),
            &[batch],
            3000,
        );
    }
}

async fn table(config: EngineConfig) -> (tempfile::TempDir, Session) {
    let folder = tempfile::tempdir().expect("a folder");
    write(folder.path());
    let session = session(config, &[("t", &folder.path().join(""))]).await;
    (folder, session)
}

fn running(engine: &Engine) -> usize {
    engine.snapshots().iter().map(|pool| pool.scans.len()).sum()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_limit_gives_that_many_rows_and_reads_no_more_than_it_must() {
    let (_folder, session) = table(config()).await;
    for limit in [0, 1, 10, 2999, 3001, 10_000, 100_000] {
        let expected = limit.min(ROWS);
        for sql in [
            format!("SELECT k FROM t LIMIT {limit}"),
            format!("SELECT k, s FROM t WHERE k >= 0 LIMIT {limit}"),
            format!("SELECT k FROM t WHERE k % 2 >= 0 LIMIT {limit}"),
        ] {
            let rows = rows(&session, &sql).await;
            assert_eq!(i64::try_from(rows.len()), Ok(expected), "{sql}");
            let mut distinct = rows.clone();
            distinct.dedup();
            assert_eq!(distinct.len(), rows.len(), "a row twice: {sql}");
        }
    }
    assert_eq!(
        rows(&session, "SELECT k FROM t LIMIT 5 OFFSET 59998")
            .await
            .len(),
        2
    );
    let plan = rows_in_order(&session, "EXPLAIN ANALYZE SELECT k FROM t LIMIT 10")
        .await
        .join("\n");
    assert!(plan.contains("chunks_wanted=1"), "{plan}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_declared_order_is_delivered() {
    let folder = tempfile::tempdir().expect("a folder");
    write(folder.path());
    let session = session(config(), &[]).await;
    let sql = format!(
        "CREATE EXTERNAL TABLE t (k BIGINT NOT NULL, s VARCHAR) STORED AS PARQUET WITH ORDER (k ASC) LOCATION '{}/'",
        folder.path().display()
    );
    collect(session.sql(&sql).await.expect("planned"))
        .await
        .expect("created");
    let sql = "SELECT k FROM t WHERE k % 7 <> 1 ORDER BY k";
    let plan = session.explain(sql).await.expect("a plan");
    assert!(
        plan.contains("delivery=ordered") && !plan.contains("SortExec"),
        "{plan}"
    );
    let expected: Vec<String> = (0..ROWS)
        .filter(|k| k % 7 != 1)
        .map(|k| k.to_string())
        .collect();
    assert_eq!(rows_in_order(&session, sql).await, expected);
    let top = rows_in_order(&session, "SELECT k FROM t ORDER BY k LIMIT 3").await;
    assert_eq!(top, ["0", "1", "2"]);
    // An order that no operator relies on would keep scans from sharing.
    for sql in [
        "SELECT count(s), max(k) FROM t WHERE k % 7 <> 1",
        "SELECT k, s FROM t WHERE k < 500",
        "SELECT s, count(*) FROM t GROUP BY s ORDER BY s",
    ] {
        let plan = session.explain(sql).await.expect("a plan");
        assert!(!plan.contains("delivery=ordered"), "{sql}: {plan}");
    }
    // The order decides which rows a limit takes, whatever happens to them afterwards.
    for (limit, sum) in [("LIMIT 3", "3"), ("LIMIT 3 OFFSET 2", "9")] {
        let sql = format!("SELECT sum(k) FROM (SELECT k FROM t ORDER BY k {limit})");
        assert_eq!(rows(&session, &sql).await, [sum], "{sql}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn folders_named_key_value_are_columns() {
    let folder = tempfile::tempdir().expect("a folder");
    for year in [2024, 2025] {
        let part = folder.path().join(format!("year={year}"));
        std::fs::create_dir(&part).expect("a folder");
        write(&part);
    }
    let session = session(config(), &[("t", &folder.path().join(""))]).await;
    let sql = "SELECT year, count(*) FROM t WHERE k < 100 GROUP BY year";
    assert_eq!(rows(&session, sql).await, ["2024|100", "2025|100"]);
    let sql = "SELECT year, k FROM t WHERE year = '2025' AND k IN (7, 59999)";
    assert_eq!(rows(&session, sql).await, ["2025|59999", "2025|7"]);
    assert_eq!(
        rows(&session, "SELECT DISTINCT year FROM t").await,
        ["2024", "2025"]
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_dropped_query_ends_its_scan_and_system_tables_show_it_while_it_runs() {
    let slow = EngineConfig {
        bandwidth: Some(200_000),
        chunk_bytes: 8 << 10,
        ..config()
    };
    let (_folder, session) = table(slow).await;
    let engine = session.engine().clone();
    session.label("a 'slow' one").expect("a label");
    let mut stream = session.sql("SELECT s, k FROM t").await.expect("planned");
    stream.next().await.expect("a batch").expect("no error");
    assert_eq!(running(&engine), 1);
    let other = engine.session();
    let seen = rows(
        &other,
        "SELECT label, policy, chunks_wanted > 0 FROM coscan.scans",
    )
    .await;
    assert_eq!(seen, ["a 'slow' one|relevance|true"]);
    assert_ne!(
        rows(&other, "SELECT count(*) FROM coscan.chunks").await,
        ["0"]
    );
    let wanted = "SELECT DISTINCT label, scans_interested FROM coscan.chunks c \
                  JOIN coscan.scans s ON c.scans = CAST(s.scan AS VARCHAR)";
    assert_eq!(rows(&other, wanted).await, ["a 'slow' one|1"]);
    assert_eq!(
        rows(
            &other,
            "SELECT count(*) FROM coscan.devices WHERE bytes > 0"
        )
        .await,
        ["1"]
    );
    drop(stream);
    let begun = Instant::now();
    while running(&engine) > 0 {
        assert!(
            begun.elapsed() < Duration::from_secs(5),
            "the scan outlives its query"
        );
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    // Dropped before the first batch, and in the middle of a join.
    drop(
        session
            .sql("SELECT count(*) FROM t a JOIN t b USING (s)")
            .await
            .expect("planned"),
    );
    let mut join = session
        .sql("SELECT count(*) FROM t a JOIN t b USING (s)")
        .await
        .expect("planned");
    let _ = tokio::time::timeout(Duration::from_millis(50), join.next()).await;
    drop(join);
    while running(&engine) > 0 {
        assert!(
            begun.elapsed() < Duration::from_secs(10),
            "the scan outlives its query"
        );
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn settings_are_the_sessions_own_and_refuse_nonsense() {
    let (_folder, first) = table(config()).await;
    let second = first.engine().session();
    let shown = async |session: &Session, name: &str| {
        rows(
            session,
            &format!(
                "SELECT value FROM information_schema.df_settings WHERE name = 'coscan.{name}'"
            ),
        )
        .await
    };
    let set = async |session: &Session, text: &str| {
        let stream = session
            .sql(&format!("SET coscan.{text}"))
            .await
            .map_err(|e| e.to_string())?;
        collect(stream).await.map(|_| ()).map_err(|e| e.to_string())
    };
    set(&first, "policy = 'elevator'").await.expect("a policy");
    set(&first, "storage_model = nsm").await.expect("a model");
    set(&first, "chunk_bytes = '1MiB'").await.expect("a size");
    assert_eq!(shown(&first, "policy").await, ["elevator"]);
    assert_eq!(shown(&second, "policy").await, ["relevance"]);
    assert_eq!(shown(&first, "chunk_bytes").await, ["1048576"]);
    let plan = first.explain("SELECT s FROM t").await.expect("a plan");
    assert!(plan.contains("policy=elevator, model=nsm"), "{plan}");
    assert_eq!(
        rows(&first, "SELECT count(s) FROM t").await,
        rows(&second, "SELECT count(s) FROM t").await
    );
    for nonsense in [
        "policy = 'greedy'",
        "storage_model = 'pax'",
        "chunk_bytes = 'large'",
        "chunk_bytes = '1B'",
        "small_table_bytes = '5%'",
        "cooperative = 'perhaps'",
        "memory = '200%'",
        "memory = '1KB'",
        "memory = '900TB'",
        "colour = 'red'",
    ] {
        let error = set(&first, nonsense).await.expect_err(nonsense);
        let name = nonsense.split(' ').next().expect("a name");
        assert!(
            error.contains(&format!("coscan.{name}")),
            "{nonsense}: {error}"
        );
    }
    set(&first, "cooperative = off").await.expect("a switch");
    let plan = first
        .explain("SELECT s FROM t WHERE k > 5")
        .await
        .expect("a plan");
    assert!(
        !plan.contains("CScan") && plan.contains("FilterExec"),
        "{plan}"
    );
    set(&second, "small_table_bytes = '1GB'")
        .await
        .expect("a size");
    let plan = second
        .explain("SELECT s FROM t WHERE k > 5")
        .await
        .expect("a plan");
    assert!(
        !plan.contains("CScan") && plan.contains("FilterExec"),
        "{plan}"
    );
    assert_eq!(
        rows(&second, "SELECT count(*) FROM t WHERE k > 5").await,
        ["59994"]
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn dynamic_filters_withdraw_chunks_and_keep_rows_right() {
    let (folder, session) = table(EngineConfig {
        chunk_bytes: 8 << 10,
        ..config()
    })
    .await;
    let path = folder.path().join("");
    let plain = plain(&[("t", &path)]).await;
    for sql in [
        "SELECT k, s FROM t ORDER BY k DESC LIMIT 5",
        "SELECT k FROM t ORDER BY s DESC NULLS LAST, k LIMIT 20",
        "SELECT count(*), min(a.k) FROM t a JOIN (SELECT k FROM t WHERE s = 'value 40001') b ON a.k = b.k",
        "SELECT count(*) FROM t a WHERE EXISTS (SELECT 1 FROM t b WHERE b.k = a.k + 1 AND b.s LIKE '%999')",
        "SELECT a.k FROM t a JOIN t b ON a.k = b.k WHERE b.k BETWEEN 100 AND 110 ORDER BY a.k LIMIT 3",
    ] {
        for _ in 0..3 {
            assert_eq!(
                rows(&session, sql).await,
                plain_rows(&plain, sql).await,
                "{sql}"
            );
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_plan_runs_again_or_fails_with_the_reason() {
    let (_folder, session) = table(config()).await;
    let context = session.context();
    let frame = context
        .sql("SELECT s FROM t WHERE k % 2 = 0")
        .await
        .expect("planned");
    let plan = frame.create_physical_plan().await.expect("a plan");
    assert!(
        plan.output_partitioning().partition_count() > 1,
        "one partition shows little"
    );
    for _ in 0..2 {
        let batches =
            datafusion::physical_plan::collect(Arc::clone(&plan), context.task_ctx()).await;
        let rows: usize = batches
            .expect("rows")
            .iter()
            .map(RecordBatch::num_rows)
            .sum();
        assert_eq!(rows, 30_000);
    }
    assert_eq!(
        running(session.engine()),
        0,
        "the plan lives, its scans do not"
    );
    let first = plan.execute(0, context.task_ctx()).expect("the first");
    let error = plan
        .execute(0, context.task_ctx())
        .err()
        .expect("a second beside it");
    assert!(error.to_string().contains("reset_plan_states"), "{error}");
    drop(first);
    // Partitions are read one after the other: together they give all rows, each once.
    let mut rows = 0;
    for partition in 0..plan.output_partitioning().partition_count() {
        let mut stream = plan.execute(partition, context.task_ctx()).expect("opened");
        while let Some(batch) = stream.next().await {
            rows += batch.expect("a batch").num_rows();
        }
    }
    assert_eq!(rows, 30_000);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn operators_spill_when_the_budget_is_small() {
    let folder = tempfile::tempdir().expect("a folder");
    write(folder.path());
    let small = EngineConfig {
        memory_bytes: Some(12 << 20),
        batch_rows: 1024,
        ..config()
    };
    let session = session(small, &[("t", &folder.path().join(""))]).await;
    // Ten times the rows: about 40 MB to sort.
    let sql = "SELECT s || ' of many' AS s, k, n FROM t, generate_series(1, 10) AS g(n) ORDER BY s DESC NULLS LAST, k, n";
    let rows = rows_in_order(&session, sql).await;
    assert_eq!(i64::try_from(rows.len()), Ok(ROWS * 10));
    assert!(
        rows.first()
            .expect("rows")
            .starts_with("value 9998 of many|"),
        "{:?}",
        rows.first()
    );
    memory_comes_back(&session).await;
    let plan = rows_in_order(&session, &format!("EXPLAIN ANALYZE {sql}"))
        .await
        .join("\n");
    let spills = plan.split("spill_count=").nth(1).expect("a sort");
    assert!(!spills.starts_with("0,"), "{plan}");
}

/// Keeps something for statements to come, and gives nothing back.
struct Keeper;

impl Reclaim for Keeper {
    fn reclaim(&self, _bytes: u64) {}
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_memory_of_statements_and_connections_is_shown() {
    let session = session(config(), &[]).await;
    let memory = session.engine().memory();
    let trees = memory.retains_statements(Weak::<Keeper>::new());
    assert!(memory.try_keep(trees, 700));
    memory.hold_for_connection(300);
    let shown = "SELECT statements, connections >= 300 FROM coscan.memory";
    assert_eq!(rows(&session, shown).await, ["700|true"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_memory_limit_moves_while_queries_run() {
    let (_folder, session) = table(config()).await;
    let other = session.engine().session();
    let set = async |text: &str| {
        let stream = session.sql(&format!("SET coscan.memory = '{text}'")).await;
        collect(stream.expect(text)).await.expect(text);
    };
    let sorted = "SELECT s || ' of many' AS s, k, n FROM t, generate_series(1, 10) AS g(n) ORDER BY s DESC NULLS LAST, k, n";
    let expected = rows_in_order(&session, sorted).await;
    set("12MiB").await;
    for session in [&session, &other] {
        assert_eq!(rows(session, "SHOW coscan.memory").await, ["12582912"]);
    }
    assert_eq!(session.engine().memory().limit(), 12 << 20);
    // Sorts hold memory and scans run while the limit falls and rises. Scans are not affected. A
    // sort may spill, or be refused where it cannot spill (in its last merge), and then says so.
    let sorts = async {
        for _ in 0..3 {
            let stream = other.sql(sorted).await.expect("planned");
            let scanned = rows(&other, "SELECT k FROM t WHERE k % 2 = 0");
            let (sorted, scanned) = tokio::join!(collect(stream), scanned);
            assert_eq!(i64::try_from(scanned.len()), Ok(ROWS / 2));
            match sorted {
                Ok(rows) => assert!(rows == expected, "{} rows", rows.len()),
                Err(error) => assert!(error.to_string().contains("coscan.memory"), "{error}"),
            }
        }
    };
    let moves = async {
        for limit in ["256MiB", "24MiB"].iter().cycle() {
            set(limit).await;
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::select! {
        () = sorts => {}
        () = moves => unreachable!("the loop does not end"),
    }
    set("16MiB").await;
    memory_comes_back(&session).await;
    let metrics = session.engine().metrics();
    assert!(
        metrics.frame_bytes + metrics.decoded_bytes <= 16 << 20,
        "I3: {metrics:?}"
    );
    // The smallest possible limit is enough for small chunks.
    set("1MiB").await;
    let some = rows(&other, "SELECT k FROM t WHERE k % 2 = 0").await;
    assert_eq!(i64::try_from(some.len()), Ok(ROWS / 2));
    set("256MiB").await;
    assert!(rows_in_order(&other, sorted).await == expected);
}
