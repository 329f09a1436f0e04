//! Promised: a join of two tables by the columns that both are sorted by is computed chunk by
//! chunk, without a hash table of either, and returns plain DataFusion's rows: for every kind of
//! join, under every policy, with keys over many chunks and files on both sides, with chunks that
//! are pruned or left without rows, and where the order is missing.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow::array::{ArrayRef, Int32Array, Int64Array, RecordBatch};
use arrow::datatypes::{DataType, Field};
use coscan::{EngineConfig, MergeJoins, Policy, Session};
use futures::StreamExt;
use proptest::prelude::*;
use proptest::test_runner::Config;

use crate::common::{
    self, borrowed, memory_comes_back, plain, plain_rows, rows, rows_in_order, schema, tpch,
    tpch_tables,
};

/// Two tables: `o`, and `l` with more rows.
struct Tables {
    folder: tempfile::TempDir,
}

impl Tables {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        for table in ["o", "l"] {
            std::fs::create_dir(folder.path().join(table)).unwrap();
        }
        Self { folder }
    }

    fn path(&self, table: &str) -> PathBuf {
        self.folder.path().join(table).join("")
    }

    /// Writes rows with these keys, in this order, as `files` files.
    fn write(&self, table: &str, keys: &[Option<i64>], files: usize, group_rows: usize) {
        for (file, keys) in keys.chunks(keys.len().div_ceil(files).max(1)).enumerate() {
            let batch = batch(keys, file as i64);
            let path = self.path(table).join(format!("{file}.parquet"));
            common::write(&path, batch.schema(), &[batch], group_rows);
        }
    }

    async fn session(&self, config: EngineConfig) -> Session {
        let (o, l) = (self.path("o"), self.path("l"));
        let session = common::session(config, &[("o", &o), ("l", &l)]).await;
        set_alone(&session);
        session
    }

    async fn plain(&self) -> datafusion::prelude::SessionContext {
        let (o, l) = (self.path("o"), self.path("l"));
        plain(&[("o", &o), ("l", &l)]).await
    }
}

fn batch(keys: &[Option<i64>], seed: i64) -> RecordBatch {
    let mix = |n: usize| ((n as i64 + seed) * 2_654_435_761).rem_euclid(1_000_003);
    let numbers: Vec<i64> = (0..keys.len()).map(mix).collect();
    let columns: Vec<(Field, ArrayRef)> = vec![
        (
            Field::new("g", DataType::Int32, true),
            Arc::new(
                numbers
                    .iter()
                    .map(|n| (n % 7 != 0).then_some((n % 5) as i32))
                    .collect::<Int32Array>(),
            ),
        ),
        (
            Field::new("k", DataType::Int64, true),
            Arc::new(keys.iter().copied().collect::<Int64Array>()),
        ),
        (
            Field::new("v", DataType::Int64, false),
            Arc::new(Int64Array::from(numbers)),
        ),
    ];
    let (fields, columns): (Vec<_>, Vec<_>) = columns.into_iter().unzip();
    RecordBatch::try_new(schema(fields), columns).unwrap()
}

/// Two rows of every third key, one row of the others, none of every fifth.
fn of_o(keys: i64) -> Vec<Option<i64>> {
    let times = |key: i64| usize::from(key % 5 != 0) * (1 + usize::from(key % 3 == 0));
    let of = |key: i64| std::iter::repeat_n(Some(key), times(key));
    (0..keys).flat_map(of).collect()
}

/// Up to five rows of each key; some keys have none.
fn of_l(keys: i64) -> Vec<Option<i64>> {
    let of = |key: i64| std::iter::repeat_n(Some(key), (key * 7 % 6) as usize);
    (0..keys).flat_map(of).collect()
}

fn config() -> EngineConfig {
    EngineConfig {
        chunk_bytes: 16 << 10,
        merge_joins: MergeJoins::On,
        ..common::config()
    }
}

fn set_alone(session: &Session) {
    for (name, value) in [("share_operators", "off"), ("state_cache", "0")] {
        session.set(&format!("coscan.{name}"), value).unwrap();
    }
}

async fn is_clustered(session: &Session, sql: &str) -> bool {
    let plan = session.explain(sql).await.unwrap();
    plan.contains("ClusteredJoinExec")
}

/// Joins of `o` and `l` by `k`.
const QUERIES: [&str; 19] = [
    "SELECT o.k, o.v, l.g, l.v FROM o JOIN l ON o.k = l.k",
    "SELECT o.k, o.v, l.k, l.v FROM o LEFT JOIN l ON o.k = l.k",
    "SELECT o.k, o.v, l.k, l.v FROM o RIGHT JOIN l ON o.k = l.k",
    "SELECT o.k, o.v, l.k, l.v FROM o FULL JOIN l ON o.k = l.k",
    "SELECT l.k, l.v FROM l LEFT JOIN o ON o.k = l.k AND o.g = l.g WHERE o.k IS NULL",
    "SELECT o.k, o.v FROM o WHERE EXISTS (SELECT 1 FROM l WHERE l.k = o.k)",
    "SELECT o.k, o.v FROM o WHERE NOT EXISTS (SELECT 1 FROM l WHERE l.k = o.k)",
    "SELECT l.k, l.v FROM l WHERE EXISTS (SELECT 1 FROM o WHERE l.k = o.k AND o.v < l.v)",
    "SELECT l.k, l.v FROM l WHERE NOT EXISTS (SELECT 1 FROM o WHERE l.k = o.k AND o.g = 1)",
    "SELECT o.k, o.v, l.v FROM o JOIN l ON o.k = l.k AND o.g = l.g",
    "SELECT o.k, o.v, l.v FROM o LEFT JOIN l ON o.k = l.k AND o.v < l.v",
    "SELECT o.k, o.v, l.v FROM o FULL JOIN l ON o.k = l.k AND o.v < l.v",
    "SELECT o.k, l.v FROM o JOIN l ON o.k = l.k WHERE l.v % 97 = 3",
    "SELECT o.k, l.v FROM o JOIN l ON o.k = l.k WHERE o.k BETWEEN 700 AND 1400 AND l.v % 2 = 0",
    "SELECT o.k, l.v FROM o LEFT JOIN l ON o.k = l.k AND l.k BETWEEN 700 AND 1400",
    "SELECT o.k, l.v FROM o RIGHT JOIN l ON o.k = l.k AND o.k BETWEEN 700 AND 1400 AND o.v > 10",
    "SELECT o.g, count(*), sum(l.v), min(o.k) FROM o JOIN l ON o.k = l.k GROUP BY o.g",
    "SELECT j.k, j.v, b.v FROM (SELECT o.k, l.v FROM o JOIN l ON o.k = l.k) j JOIN o b ON b.v = j.v",
    "SELECT o.k, l.v FROM o JOIN l ON o.k = l.k WHERE l.v < 0",
];

#[tokio::test(flavor = "multi_thread")]
async fn rows_are_plain_datafusion_s_under_every_policy() {
    let tables = Tables::new();
    tables.write("o", &of_o(2600), 2, 300);
    tables.write("l", &of_l(2400), 3, 512);
    let session = tables.session(config()).await;
    let plain = tables.plain().await;
    for sql in QUERIES {
        let expected = plain_rows(&plain, sql).await;
        assert!(is_clustered(&session, sql).await, "{sql}");
        for policy in Policy::ALL {
            session.set("coscan.policy", policy.name()).unwrap();
            assert_eq!(rows(&session, sql).await, expected, "{policy:?}: {sql}");
        }
        session.set("coscan.policy", "relevance").unwrap();
        session.set("coscan.storage_model", "nsm").unwrap();
        assert_eq!(rows(&session, sql).await, expected, "nsm: {sql}");
        session.set("coscan.storage_model", "dsm").unwrap();
    }
    let sql = QUERIES[0];
    let analyzed = rows_in_order(&session, &format!("EXPLAIN ANALYZE {sql}")).await;
    let analyzed = analyzed.concat();
    assert!(analyzed.contains("not_in_order=0"), "{analyzed}");
    assert!(!analyzed.contains("chunks_joined=0"), "{analyzed}");
    let ordered = format!("{sql} ORDER BY l.v, o.v, o.k LIMIT 50");
    assert!(is_clustered(&session, &ordered).await);
    assert_eq!(
        rows_in_order(&session, &ordered).await,
        common::plain_rows_in_order(&plain_of(&tables).await, &ordered).await
    );
}

async fn plain_of(tables: &Tables) -> datafusion::prelude::SessionContext {
    tables.plain().await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_clustered_join_is_used_if_both_tables_are_in_sequence() {
    let tables = Tables::new();
    tables.write("o", &of_o(2600), 1, 300);
    tables.write("l", &of_l(2400), 1, 512);
    let session = tables.session(config()).await;
    for (sql, clustered) in [
        ("SELECT o.v, l.v FROM o JOIN l ON o.k = l.k", true),
        (
            "SELECT o.v, l.v FROM o, l WHERE o.k = l.k AND o.v > l.v",
            true,
        ),
        ("SELECT o.v, l.v FROM o JOIN l ON o.v = l.v", false),
        ("SELECT o.v, l.v FROM o JOIN l ON o.k = l.v", false),
        ("SELECT o.v, l.v FROM o JOIN l ON o.k = l.k + 1", false),
        ("SELECT o.v, l.v FROM o JOIN l ON o.k < l.k", false),
        (
            "SELECT o.v FROM o WHERE o.k NOT IN (SELECT k FROM l)",
            false,
        ),
    ] {
        assert_eq!(is_clustered(&session, sql).await, clustered, "{sql}");
    }
    let sql = "SELECT o.v, l.v FROM o JOIN l ON o.k = l.k";
    session.set("coscan.merge_joins", "auto").unwrap();
    assert!(
        !is_clustered(&session, sql).await,
        "one table of few rows is probed"
    );
    let threshold = "datafusion.optimizer.hash_join_single_partition_threshold";
    for (value, clustered) in [("0", true), ("1000000", false)] {
        for name in [threshold.to_owned(), format!("{threshold}_rows")] {
            session.set(&name, value).unwrap();
        }
        assert_eq!(is_clustered(&session, sql).await, clustered, "{value}");
    }
    session.set("coscan.merge_joins", "on").unwrap();
    for name in ["merge_joins", "cooperative"] {
        session.set(&format!("coscan.{name}"), "off").unwrap();
        assert!(!is_clustered(&session, sql).await, "{name}");
        session.set(&format!("coscan.{name}"), "on").unwrap();
    }

    let mixed = Tables::new();
    let keys: Vec<Option<i64>> = (0..3000).map(|n| Some(n * 7 % 3001)).collect();
    mixed.write("o", &keys, 1, 300);
    mixed.write("l", &of_l(2400), 1, 512);
    let session = mixed.session(config()).await;
    assert!(!is_clustered(&session, sql).await);
}

#[tokio::test(flavor = "multi_thread")]
async fn keys_may_be_as_long_as_many_chunks() {
    let tables = Tables::new();
    let long = |from: i64, to: i64, key: i64, times: usize| {
        let mut keys: Vec<Option<i64>> = (from..key).map(Some).collect();
        keys.extend(std::iter::repeat_n(Some(key), times));
        keys.extend((key + 1..to).map(Some));
        keys
    };
    tables.write("o", &long(0, 3000, 1500, 4), 2, 300);
    tables.write("l", &long(200, 4000, 1500, 3000), 2, 400);
    let plain = tables.plain().await;
    for partitions in [1, 4] {
        let config = EngineConfig {
            target_partitions: Some(partitions),
            ..config()
        };
        let session = tables.session(config).await;
        for sql in &QUERIES[..12] {
            assert!(is_clustered(&session, sql).await, "{sql}");
            let expected = plain_rows(&plain, sql).await;
            assert_eq!(rows(&session, sql).await, expected, "{partitions}: {sql}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn nodes_above_get_their_rows_partitioned_and_sorted() {
    let root = tpch(0.05);
    let tables = tpch_tables(&root);
    let session = common::session(config(), &borrowed(&tables)).await;
    set_alone(&session);
    let plain = plain(&borrowed(&tables)).await;
    for sql in [
        "SELECT o_orderpriority, count(*) FROM orders WHERE EXISTS (SELECT 1 FROM lineitem WHERE l_orderkey = o_orderkey AND l_commitdate < l_receiptdate) GROUP BY o_orderpriority",
        "SELECT l_shipmode, sum(CASE WHEN o_orderpriority = '1-URGENT' THEN 1 ELSE 0 END) FROM orders, lineitem WHERE o_orderkey = l_orderkey AND l_shipmode IN ('MAIL', 'SHIP') GROUP BY l_shipmode",
        "SELECT c_name, o_orderkey, sum(l_quantity) FROM customer, orders, lineitem WHERE c_custkey = o_custkey AND o_orderkey = l_orderkey AND o_totalprice > 400000 GROUP BY c_name, o_orderkey",
        "SELECT o_orderkey, count(*) OVER (PARTITION BY o_orderkey) FROM orders JOIN lineitem ON o_orderkey = l_orderkey WHERE o_custkey % 100 = 1",
        "SELECT o_orderkey, l_linenumber FROM orders JOIN lineitem ON o_orderkey = l_orderkey WHERE o_custkey % 50 = 1 UNION ALL SELECT o_orderkey, 0 FROM orders WHERE o_custkey % 50 = 2",
        "SELECT count(*), sum(l_quantity), max(o_totalprice) FROM orders JOIN lineitem ON o_orderkey = l_orderkey",
    ] {
        let expected = plain_rows(&plain, sql).await;
        // With customer, orders is joined to customer first, and the result is not a scan.
        let clustered = !sql.contains("customer");
        assert_eq!(is_clustered(&session, sql).await, clustered, "{sql}");
        assert_eq!(rows(&session, sql).await, expected, "{sql}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_query_that_is_cancelled_leaves_nothing_behind() {
    let tables = Tables::new();
    tables.write("o", &of_o(12_000), 1, 500);
    tables.write("l", &of_l(12_000), 1, 500);
    let session = tables.session(config()).await;
    for sql in [QUERIES[0], QUERIES[3]] {
        for take in 0..4 {
            let mut stream = session.sql(sql).await.unwrap();
            for _ in 0..take {
                stream.next().await.unwrap().unwrap();
            }
            drop(stream);
            memory_comes_back(&session).await;
        }
    }
    let plain = tables.plain().await;
    let sql = QUERIES[0];
    assert_eq!(rows(&session, sql).await, plain_rows(&plain, sql).await);
}

#[tokio::test(flavor = "multi_thread")]
async fn large_tables_need_little_memory() {
    let tables = Tables::new();
    let o: Vec<Option<i64>> = (0..400_000).map(Some).collect();
    let l: Vec<Option<i64>> = (0..1_600_000).map(|n| Some(n / 4)).collect();
    tables.write("o", &o, 1, 25_000);
    tables.write("l", &l, 1, 50_000);
    let small = EngineConfig {
        memory_bytes: Some(64 << 20),
        chunk_bytes: 512 << 10,
        target_partitions: Some(2),
        ..config()
    };
    let session = tables.session(small).await;
    let sql = "SELECT count(*), sum(o.k), sum(l.k) FROM o JOIN l ON o.k = l.k";
    let sum = 4 * (0..400_000).sum::<i64>();
    assert_eq!(rows(&session, sql).await, [format!("1600000|{sum}|{sum}")]);
    let plan = rows_in_order(&session, &format!("EXPLAIN ANALYZE {sql}")).await;
    assert!(plan.concat().contains("ClusteredJoinExec"));
    assert!(!plan.concat().contains("spill_count"), "{plan:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn queries_that_run_at_once_share_what_they_can() {
    let tables = Tables::new();
    tables.write("o", &of_o(3000), 2, 300);
    tables.write("l", &of_l(3000), 2, 400);
    let plain = tables.plain().await;
    let (o, l) = (tables.path("o"), tables.path("l"));
    let both: [(&str, &Path); 2] = [("o", &o), ("l", &l)];
    let config = EngineConfig {
        record_trace: true,
        ..config()
    };
    let session = common::session(config, &both).await;
    let query =
        |n: usize| format!("SELECT o.k, o.v, l.v FROM o JOIN l ON o.k = l.k WHERE l.v % 7 <> {n}");
    common::equal_queries_run_once(&session, &plain, query).await;
}

/// A sorted table in files and row groups of random sizes.
#[derive(Clone, Debug)]
struct Random {
    steps: Vec<i64>,
    files: usize,
    group_rows: usize,
    nulls: usize,
    descending: bool,
    swaps: Vec<prop::sample::Index>,
}

impl Random {
    fn keys(&self) -> Vec<Option<i64>> {
        let mut key = 0;
        let mut keys: Vec<Option<i64>> = self
            .steps
            .iter()
            .map(|step| {
                key += step;
                Some(key)
            })
            .collect();
        if self.descending {
            keys.reverse();
        }
        keys.extend(vec![None; self.nulls]);
        for at in &self.swaps {
            let at = at.index(keys.len());
            keys.swap(at, at.saturating_sub(3));
        }
        keys
    }
}

fn random(rows: std::ops::Range<usize>) -> impl Strategy<Value = Random> {
    let step = prop_oneof![5 => Just(0), 4 => Just(1), 1 => Just(9)];
    let steps = prop::collection::vec(step, rows);
    let swaps = prop_oneof![
        3 => Just(Vec::new()),
        1 => prop::collection::vec(any::<prop::sample::Index>(), 1..4),
    ];
    let nulls = prop_oneof![6 => Just(0), 1 => 1..50usize];
    (steps, 1..4usize, 20..400usize, nulls, any::<bool>(), swaps).prop_map(
        |(steps, files, group_rows, nulls, descending, swaps)| Random {
            steps,
            files,
            group_rows,
            nulls,
            descending,
            swaps,
        },
    )
}

proptest! {
    #![proptest_config(Config { cases: 24, ..Config::default() })]

    #[test]
    fn rows_of_random_tables_are_plain_datafusion_s(o in random(1..700), l in random(1..1500)) {
        let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let tables = Tables::new();
            tables.write("o", &o.keys(), o.files, o.group_rows);
            tables.write("l", &l.keys(), l.files, l.group_rows);
            let plain = tables.plain().await;
            let config = EngineConfig { chunk_bytes: 4 << 10, ..config() };
            let session = tables.session(config).await;
            for sql in &QUERIES[..12] {
                let sql = format!("SELECT count(*), sum(v), sum(w) FROM ({}) j", summed(sql));
                let found = rows(&session, &sql).await;
                assert_eq!(found, plain_rows(&plain, &sql).await, "{sql}: {o:?} {l:?}");
            }
        });
    }
}

/// A query whose summed columns are named `v` and `w`.
fn summed(sql: &str) -> String {
    let (_, from) = sql.split_once(" FROM ").unwrap();
    let is_join = sql.contains(" JOIN ") && !sql.contains("IS NULL");
    let of = if from.starts_with('o') { "o" } else { "l" };
    if is_join {
        format!("SELECT o.v AS v, l.v + l.k AS w FROM {from}")
    } else {
        format!("SELECT {of}.v AS v, {of}.k AS w FROM {from}")
    }
}
