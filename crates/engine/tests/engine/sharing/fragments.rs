//! Promised: aggregates of queries that run at once process a chunk once for all of them, and
//! their states are kept. Yet every query returns plain DataFusion's rows, whatever the table, the
//! grouping and the predicates, and whichever other queries run, are cancelled or fail.

use std::fs;
use std::path::PathBuf;
use std::sync::Arc;

use arrow::array::{
    ArrayRef, BooleanArray, Date32Array, Decimal128Array, Float64Array, Int32Array, Int64Array,
    RecordBatch, StringArray,
};
use arrow::datatypes::{DataType, Field};
use coscan::{Engine, EngineConfig, Session};
use futures::StreamExt;
use futures::future::join_all;
use proptest::prelude::*;
use proptest::sample::select;

use crate::common::{self, plain, plain_rows, rows, schema};

struct Table {
    folder: tempfile::TempDir,
}

impl Table {
    fn path(&self) -> PathBuf {
        self.folder.path().join("")
    }

    fn file(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }
}

/// Rows of an awkward table: columns of few values and of many, nulls, decimals at the edge of
/// their type, floats that are not numbers.
fn batch(from: i64, rows: i64, wide: bool) -> RecordBatch {
    let each = |f: &dyn Fn(i64) -> Option<i64>| -> Vec<Option<i64>> {
        (from..from + rows).map(f).collect()
    };
    let mix = |n: i64| (n.wrapping_mul(2_654_435_761)).rem_euclid(1_000_003);
    let edge = 999_999_999_999_999i64;
    let mut columns: Vec<(Field, ArrayRef)> = vec![
        (
            Field::new("id", DataType::Int64, false),
            Arc::new(Int64Array::from_iter(each(&Some))),
        ),
        (
            Field::new("g", DataType::Utf8, true),
            Arc::new(StringArray::from_iter(
                each(&|n| Some(mix(n)))
                    .into_iter()
                    .map(|n| match n.unwrap() % 5 {
                        0 => None,
                        1 => Some("A"),
                        2 => Some("B"),
                        3 => Some("a word of more than twelve bytes"),
                        _ => Some(""),
                    }),
            )),
        ),
        (
            Field::new("h", DataType::Int32, true),
            Arc::new(Int32Array::from_iter(
                each(&|n| (mix(n) % 11 != 0).then_some(mix(n) % 7 - 3))
                    .into_iter()
                    .map(|n| n.map(|n| n as i32)),
            )),
        ),
        (
            Field::new("many", DataType::Int64, true),
            Arc::new(Int64Array::from_iter(each(&|n| Some(mix(n))))),
        ),
        (
            Field::new("d", DataType::Date32, true),
            Arc::new(Date32Array::from_iter(
                each(&|n| (mix(n) % 13 != 0).then_some(9_000 + mix(n) % 2_500))
                    .into_iter()
                    .map(|n| n.map(|n| n as i32)),
            )),
        ),
        (
            Field::new("p", DataType::Decimal128(15, 2), true),
            Arc::new(
                Decimal128Array::from_iter(
                    each(&|n| match mix(n) % 17 {
                        0 => None,
                        1 => Some(edge),
                        2 => Some(-edge),
                        _ => Some(mix(n)),
                    })
                    .into_iter()
                    .map(|n| n.map(i128::from)),
                )
                .with_precision_and_scale(15, 2)
                .unwrap(),
            ),
        ),
        (
            Field::new("q", DataType::Decimal128(4, 2), false),
            Arc::new(
                Decimal128Array::from_iter_values(
                    (from..from + rows).map(|n| i128::from(mix(n) % 11)),
                )
                .with_precision_and_scale(4, 2)
                .unwrap(),
            ),
        ),
        (
            Field::new("b", DataType::Boolean, true),
            Arc::new(BooleanArray::from_iter(
                each(&|n| (mix(n) % 3 != 0).then_some(mix(n) % 2))
                    .into_iter()
                    .map(|n| n.map(|n| n == 1)),
            )),
        ),
    ];
    if wide {
        columns.push((
            Field::new("f", DataType::Float64, true),
            Arc::new(Float64Array::from_iter(
                each(&|n| Some(mix(n)))
                    .into_iter()
                    .map(|n| match n.unwrap() % 9 {
                        0 => None,
                        1 => Some(f64::INFINITY),
                        2 => Some(-0.0),
                        n => Some(n as f64),
                    }),
            )),
        ));
    }
    let (fields, columns): (Vec<_>, Vec<_>) = columns.into_iter().unzip();
    RecordBatch::try_new(schema(fields), columns).unwrap()
}

/// Files with all columns, with fewer columns, and without rows.
fn table() -> Table {
    let table = Table {
        folder: tempfile::tempdir().unwrap(),
    };
    let write = |name: &str, batch: RecordBatch| {
        common::write(&table.file(name), batch.schema(), &[batch], 2_000);
    };
    write("0.parquet", batch(0, 9_000, true));
    write("1.parquet", batch(9_000, 5_000, false));
    write("2.parquet", batch(14_000, 0, true));
    write("3.parquet", batch(14_000, 7_000, true));
    table
}

async fn sessions(count: usize, config: EngineConfig, table: &Table) -> Vec<Session> {
    let engine = Engine::new(config).unwrap();
    let first = engine.session();
    first
        .register("t", table.path().to_str().unwrap())
        .await
        .unwrap();
    (0..count).map(|_| engine.session()).collect()
}

/// The number of chunks of the table that a query without a predicate processes.
async fn chunks(session: &Session) -> u64 {
    let plan = rows(session, "EXPLAIN ANALYZE SELECT count(*), sum(many) FROM t").await;
    let plan = plan.join("\n");
    let at = plan.find("chunks_wanted=").unwrap() + "chunks_wanted=".len();
    let digits: String = plan[at..]
        .chars()
        .take_while(char::is_ascii_digit)
        .collect();
    digits.parse().unwrap()
}

const GROUPED: &str = "SELECT g, h, count(*), sum(p), avg(q), min(d), max(many), sum(p * (1 - q)), \
     sum(p * (1 - q) * (1 + q)) FROM t";

#[tokio::test(flavor = "multi_thread")]
async fn a_chunk_is_processed_once_for_all_queries_that_want_it() {
    let table = table();
    // The first chunk arrives after all queries have begun.
    let config = EngineConfig {
        latency: std::time::Duration::from_millis(100),
        ..common::config()
    };
    let sessions = sessions(8, config, &table).await;
    for session in &sessions {
        session.set("coscan.state_cache", "0").unwrap();
    }
    let plain = plain(&[("t", &table.path())]).await;
    let all = chunks(&sessions[0]).await;
    assert!(all > 4, "{all} chunks");
    let before = sessions[0].engine().metrics();
    let queries: Vec<String> = (0..8)
        .map(|n| {
            let day = 9_300 + 200 * n;
            format!("{GROUPED} WHERE d <= arrow_cast({day}, 'Date32') GROUP BY g, h")
        })
        .collect();
    let asked = sessions.iter().zip(&queries);
    let found = join_all(asked.map(|(session, sql)| rows(session, sql))).await;
    for (found, sql) in found.iter().zip(&queries) {
        assert_eq!(*found, plain_rows(&plain, sql).await, "{sql}");
    }
    let after = sessions[0].engine().metrics();
    let states = after.fragment_states - before.fragment_states;
    let jobs = after.fragment_jobs - before.fragment_jobs;
    assert_eq!(
        after.fragment_chunks_given_back,
        before.fragment_chunks_given_back
    );
    assert!(
        states >= all && jobs >= all,
        "{states} states by {jobs} jobs"
    );
    assert!(
        jobs < states,
        "nothing was shared: {states} states by {jobs} jobs"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn whole_aggregates_over_one_partition_are_shared_too() {
    let table = table();
    let config = EngineConfig {
        target_partitions: Some(1),
        record_trace: true,
        ..common::config()
    };
    let sessions = sessions(4, config, &table).await;
    let plain = plain(&[("t", &table.path())]).await;
    let engine = sessions[0].engine().clone();
    for sql in [
        format!("{GROUPED} WHERE many > 5000 GROUP BY g, h"),
        "SELECT sum(p), count(*) FILTER (WHERE h > 0), min(g), avg(q) FROM t WHERE d IS NOT NULL"
            .into(),
        "SELECT count(*), sum(many) FROM t WHERE many % 2 = 3".into(),
    ] {
        let expected = plain_rows(&plain, &sql).await;
        let before = engine.metrics().fragment_jobs;
        let asked = sessions.iter().map(async |session| {
            session.set("coscan.share_operators", "off").unwrap();
            session.set("coscan.state_cache", "0").unwrap();
            assert_eq!(rows(session, &sql).await, expected, "{sql}");
        });
        join_all(asked).await;
        assert!(engine.metrics().fragment_jobs > before, "{sql}");
    }
    let trace = engine.job_trace();
    assert!(!trace.is_empty());
    assert!(trace.iter().all(|job| job.begun_ns <= job.ended_ns));
}

#[tokio::test(flavor = "multi_thread")]
async fn states_of_a_query_are_kept_until_its_file_changes() {
    let table = table();
    let session = sessions(1, common::config(), &table).await.remove(0);
    // A kept result of the whole query would hide the kept states of chunks.
    session.set("coscan.share_operators", "off").unwrap();
    let sql = format!("{GROUPED} WHERE many > 5000 GROUP BY g, h");
    let ask = async || {
        let plain = plain(&[("t", &table.path())]).await;
        assert_eq!(rows(&session, &sql).await, plain_rows(&plain, &sql).await);
        session.engine().metrics()
    };
    let first = ask().await;
    assert!(first.fragment_jobs > 0 && first.state_cache_bytes > 0);
    let again = ask().await;
    assert_eq!(
        again.fragment_jobs, first.fragment_jobs,
        "no job the second time"
    );
    assert_eq!(again.decode_bytes, first.decode_bytes);
    assert!(again.fragment_states_remembered > first.fragment_states_remembered);
    // An added file costs only its own chunks.
    let added = batch(30_000, 1_000, true);
    common::write(&table.file("4.parquet"), added.schema(), &[added], 2_000);
    let more = ask().await;
    assert_eq!(more.fragment_jobs, again.fragment_jobs + 1);
    // A replaced file counts as another file.
    let changed = batch(40_000, 9_000, true);
    fs::remove_file(table.file("0.parquet")).unwrap();
    common::write(
        &table.file("0.parquet"),
        changed.schema(),
        &[changed],
        2_000,
    );
    let replaced = ask().await;
    assert!(replaced.fragment_jobs > more.fragment_jobs);
    // The state cache is switched off for a session.
    session.set("coscan.state_cache", "0").unwrap();
    let off = ask().await;
    assert!(off.fragment_jobs > replaced.fragment_jobs);
    session.set("coscan.share_fragments", "off").unwrap();
    assert_eq!(ask().await.fragment_jobs, off.fragment_jobs);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_query_fails_only_for_its_own_rows() {
    let table = table();
    let sessions = sessions(6, common::config(), &table).await;
    let plain = plain(&[("t", &table.path())]).await;
    // q is zero in some rows; only the second query excludes them.
    let failing = "SELECT g, sum(many / arrow_cast(q * 100, 'Int64')) FROM t GROUP BY g";
    let fine = failing.replace("GROUP BY", "WHERE q > 0 GROUP BY");
    let expected = plain_rows(&plain, &fine).await;
    for _ in 0..5 {
        let failed = async {
            let stream = sessions[0].sql(failing).await.unwrap();
            common::collect(stream).await
        };
        let others = join_all(sessions[1..].iter().map(|session| rows(session, &fine)));
        let (failed, others) = tokio::join!(failed, others);
        let message = failed.unwrap_err().to_string();
        assert!(
            message.to_lowercase().contains("division by zero"),
            "{message}"
        );
        for found in others {
            assert_eq!(found, expected);
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn cancelled_members_harm_no_other_query() {
    let table = table();
    let sessions = sessions(12, common::config(), &table).await;
    let plain = plain(&[("t", &table.path())]).await;
    let sql = |n: i64| format!("{GROUPED} WHERE many % 7 <> {} GROUP BY g, h", n % 5);
    let mut expected = Vec::new();
    for n in 0..5 {
        expected.push(plain_rows(&plain, &sql(n)).await);
    }
    for round in 0..10i64 {
        let each = sessions.iter().enumerate().map(|(at, session)| {
            let (n, expected) = (at as i64 + round, &expected);
            session
                .set("coscan.state_cache", if at % 2 == 0 { "0" } else { "1MiB" })
                .unwrap();
            async move {
                if at % 3 == 0 {
                    // Dropped at some point of its life: before the first chunk, or while jobs are
                    // running.
                    let mut stream = session.sql(&sql(n)).await.unwrap();
                    let wait = std::time::Duration::from_micros((round * 300) as u64);
                    let _ended = tokio::time::timeout(wait, stream.next()).await;
                } else {
                    assert_eq!(rows(session, &sql(n)).await, expected[(n % 5) as usize]);
                }
            }
        });
        join_all(each).await;
    }
    let engine = sessions[0].engine().clone();
    drop(sessions);
    for _ in 0..500 {
        if engine.snapshots().iter().all(|pool| pool.scans.is_empty()) {
            return;
        }
        tokio::time::sleep(std::time::Duration::from_millis(10)).await;
    }
    panic!("a scan outlived its query: {:?}", engine.snapshots());
}

#[tokio::test(flavor = "multi_thread")]
async fn five_hundred_queries_of_one_class_at_once() {
    let table = table();
    let sessions = sessions(500, common::config(), &table).await;
    let plain = plain(&[("t", &table.path())]).await;
    let sql = |n: usize| format!("{GROUPED} WHERE many % 11 <> {} GROUP BY g, h", n % 10);
    let mut expected = Vec::new();
    for n in 0..10 {
        expected.push(plain_rows(&plain, &sql(n)).await);
    }
    let before = sessions[0].engine().metrics();
    let asked = sessions.iter().enumerate().map(async |(n, session)| {
        session.set("coscan.state_cache", "0").unwrap();
        // Each query processes its chunks; sharing of whole queries is not tested here.
        session.set("coscan.share_operators", "off").unwrap();
        assert_eq!(rows(session, &sql(n)).await, expected[n % 10]);
    });
    join_all(asked).await;
    let after = sessions[0].engine().metrics();
    let states = after.fragment_states - before.fragment_states;
    let jobs = after.fragment_jobs - before.fragment_jobs;
    assert!(jobs < states, "{states} states by {jobs} jobs");
    assert_eq!(
        after.fragment_chunks_given_back,
        before.fragment_chunks_given_back
    );
}

/// Two classes of queries. Each has members that fail and members that are cancelled, one per
/// millisecond. Rows are right, and the core gets events of jobs and refuses none of them.
#[tokio::test(flavor = "multi_thread")]
async fn members_come_and_go_every_millisecond() {
    let table = table();
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("core.log");
    let config = EngineConfig {
        chunk_bytes: 16 << 10,
        record: Some(log.clone()),
        ..common::config()
    };
    let sessions = sessions(150, config, &table).await;
    let plain = plain(&[("t", &table.path())]).await;
    let fails = |n: usize| n % 10 == 7;
    let sql = |n: usize| match n % 10 {
        7 => "SELECT g, h, sum(many / arrow_cast(q * 100, 'Int64')) FROM t GROUP BY g, h".into(),
        0..4 => format!("{GROUPED} WHERE many % 7 <> {} GROUP BY g, h", n % 5),
        _ => format!("SELECT sum(p), count(*) FROM t WHERE many % 5 = {}", n % 5),
    };
    let mut expected = Vec::new();
    for n in (0..10).filter(|n| !fails(*n)) {
        expected.push((n, plain_rows(&plain, &sql(n)).await));
    }
    let each = sessions.iter().enumerate().map(async |(n, session)| {
        session
            .set("coscan.state_cache", ["0", "1MiB"][n / 10 % 2])
            .unwrap();
        session.set("coscan.share_operators", "off").unwrap();
        tokio::time::sleep(std::time::Duration::from_millis(n as u64)).await;
        if n % 4 == 1 {
            let mut stream = session.sql(&sql(n)).await.unwrap();
            let life = std::time::Duration::from_micros((n % 23 * 400) as u64);
            let _ended = tokio::time::timeout(life, stream.next()).await;
        } else if fails(n) {
            let stream = session.sql(&sql(n)).await.unwrap();
            let error = common::collect(stream).await.unwrap_err().to_string();
            assert!(error.to_lowercase().contains("division by zero"), "{error}");
        } else {
            let expected = expected.iter().find(|(of, _)| *of == n % 10);
            assert_eq!(rows(session, &sql(n)).await, expected.unwrap().1, "{n}");
        }
    });
    join_all(each).await;
    let engine = sessions[0].engine().clone();
    drop(sessions);
    let idle = async {
        let quiet = |pool: &coscan::PoolSnapshot| {
            let pinned = pool.chunks.iter().any(|chunk| !chunk.pinned.is_empty());
            pool.scans.is_empty() && !pinned
        };
        while !engine.snapshots().iter().all(quiet) {
            tokio::time::sleep(std::time::Duration::from_millis(5)).await;
        }
    };
    let idle = tokio::time::timeout(std::time::Duration::from_secs(20), idle).await;
    assert!(idle.is_ok(), "{:?}", engine.snapshots());
    engine.finish_recording();
    let log = fs::read_to_string(log).unwrap();
    let begun = log.matches("ChunkJobBegun").count();
    assert!(begun > 20, "{begun} jobs");
    let jobs = log.lines().filter(|line| line.contains("ChunkJobBegun"));
    let joined = jobs.filter(|line| line.ends_with(|last: char| last.is_ascii_digit()));
    assert!(joined.count() > 0, "no query joined the fragment");
    assert_eq!(begun, log.matches("ChunkJobEnded").count());
    assert!(!log.contains("\n! "), "the core refused an event");
}

#[tokio::test(flavor = "multi_thread")]
async fn as_many_groups_as_rows_go_to_the_plain_aggregate() {
    let table = table();
    let session = sessions(1, common::config(), &table).await.remove(0);
    // The table is sorted by `id`: without this setting the aggregate would use that order.
    session.set("coscan.ordered_aggregates", "off").unwrap();
    let plain = plain(&[("t", &table.path())]).await;
    for sql in [
        "SELECT id, count(*), sum(p) FROM t GROUP BY id",
        "SELECT many, g, max(d) FROM t WHERE b GROUP BY many, g",
    ] {
        let before = session.engine().metrics();
        assert_eq!(rows(&session, sql).await, plain_rows(&plain, sql).await);
        let first = session.engine().metrics();
        assert!(first.fragment_chunks_given_back > before.fragment_chunks_given_back);
        // The engine remembers this, so the second run starts no job.
        assert_eq!(rows(&session, sql).await, plain_rows(&plain, sql).await);
        let second = session.engine().metrics();
        assert_eq!(second.fragment_jobs, first.fragment_jobs);
    }
}

#[derive(Clone, Debug)]
struct World {
    memory: u64,
    chunk_bytes: u64,
    partitions: usize,
    cache: &'static str,
    queries: Vec<String>,
}

fn condition() -> impl Strategy<Value = String> {
    let number = -5..1_000_000i64;
    (number, 0..12u8).prop_map(|(n, form)| match form {
        0 => format!("id BETWEEN {} AND {}", n / 50, n / 50 + 4_000),
        1 => format!("many < {n}"),
        2 => format!("d <= arrow_cast({}, 'Date32')", 9_000 + n % 2_500),
        3 => format!("h = {}", n % 4),
        4 => "g IS NULL".to_owned(),
        5 => format!("g IN ('A', 'B') OR h > {}", n % 3),
        6 => "b".to_owned(),
        7 => format!("p > {}.5", n % 5_000),
        8 => format!("f > {} OR f IS NULL", n % 9),
        9 => "g LIKE 'a%'".to_owned(),
        10 => format!("CASE WHEN h > 0 THEN many % 3 = {} ELSE b END", n % 3),
        _ => format!("q >= 0.0{} AND many % 10 <> {}", n.rem_euclid(10), n % 10),
    })
}

fn query() -> impl Strategy<Value = String> {
    let aggregates = select(
        &[
            "count(*)",
            "count(h)",
            "sum(p)",
            "avg(p)",
            "sum(q)",
            "avg(q)",
            "sum(p * (1 - q))",
            "sum(p * (1 - q) * (1 + q))",
            "min(p)",
            "max(f)",
            "min(f)",
            "sum(many)",
            "avg(many)",
            "sum(h)",
            "min(g)",
            "max(d)",
            "count(DISTINCT h)",
            "sum(DISTINCT h)",
            "bool_or(b)",
            "bit_xor(many)",
            "sum(many) FILTER (WHERE b)",
            "count(*) FILTER (WHERE h > 0)",
            "sum(p + q)",
            "sum(-p)",
            "approx_distinct(many)",
            "sum(CASE WHEN g = 'A' THEN p ELSE 0 END)",
        ][..],
    );
    let groups = select(
        &[
            "", "g", "h", "g, h", "b", "h, b, g", "many", "f", "d", "many % 5", "h + 1, g",
        ][..],
    );
    (
        prop::collection::vec(aggregates, 1..6),
        groups,
        prop::collection::vec(condition(), 0..4),
    )
        .prop_map(|(mut aggregates, groups, conditions)| {
            aggregates.sort_unstable();
            aggregates.dedup();
            let conditions: Vec<String> =
                conditions.into_iter().map(|c| format!("({c})")).collect();
            let conditions = if conditions.is_empty() {
                String::new()
            } else {
                format!(" WHERE {}", conditions.join(" AND "))
            };
            let aggregates = aggregates.join(", ");
            match groups {
                "" => format!("SELECT {aggregates} FROM t{conditions}"),
                _ => format!("SELECT {groups}, {aggregates} FROM t{conditions} GROUP BY {groups}"),
            }
        })
}

fn world() -> impl Strategy<Value = World> {
    (
        select(&[512 << 20, 24 << 20][..]),
        select(&[1 << 20, 64 << 10, 16 << 10][..]),
        1..5usize,
        select(&["0", "64KiB", "16MiB"][..]),
        prop::collection::vec(query(), 1..24),
    )
        .prop_map(|(memory, chunk_bytes, partitions, cache, queries)| World {
            memory,
            chunk_bytes,
            partitions,
            cache,
            queries,
        })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, max_shrink_iters: 60, ..ProptestConfig::default() })]

    #[test]
    fn random_queries_at_once_give_the_rows_of_plain_datafusion(world in world()) {
        let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
        runtime.block_on(ask(&world));
    }
}

async fn ask(world: &World) {
    let table = table();
    let config = EngineConfig {
        memory_bytes: Some(world.memory),
        chunk_bytes: world.chunk_bytes,
        target_partitions: Some(world.partitions),
        ..common::config()
    };
    let sessions = sessions(world.queries.len(), config, &table).await;
    let plain = plain(&[("t", &table.path())]).await;
    // In several partitions DataFusion answers `max` from statistics, and returns NULL if one file
    // lacks the column; in one partition it reads the files.
    let partitions = format!(
        "SET datafusion.execution.target_partitions = {}",
        world.partitions
    );
    plain.sql(&partitions).await.unwrap();
    let asked = sessions.iter().zip(&world.queries);
    let found = join_all(asked.map(|(session, sql)| {
        session.set("coscan.state_cache", world.cache).unwrap();
        result(session, sql)
    }))
    .await;
    for (found, sql) in found.iter().zip(&world.queries) {
        let expected = plain
            .sql(sql)
            .await
            .unwrap()
            .execute_stream()
            .await
            .unwrap();
        match (found, common::collect(expected).await) {
            (Ok(found), Ok(mut expected)) => {
                expected.sort_unstable();
                assert_eq!(*found, expected, "{sql}");
            }
            (Err(_), Err(_)) => {}
            (found, expected) => panic!("{sql}: {found:?}, and plain: {expected:?}"),
        }
    }
}

async fn result(session: &Session, sql: &str) -> datafusion::error::Result<Vec<String>> {
    let mut rows = common::collect(session.sql(sql).await.unwrap()).await?;
    rows.sort_unstable();
    Ok(rows)
}
