//! Promised: GROUP BY the columns that a table is sorted by is computed in that order, without a
//! hash table, in whatever order its chunks arrive, and returns plain DataFusion's rows: under
//! every policy, with groups over many chunks and files, with NULL, with chunks that are pruned or
//! left without rows, and where the order turns out to be missing. A false declaration of an order
//! is an error that names the place.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow::array::{
    ArrayRef, BooleanArray, Float64Array, Int32Array, Int64Array, RecordBatch, StringArray,
    UInt64Array,
};
use arrow::compute::take;
use arrow::datatypes::{DataType, Field};
use coscan::{EngineConfig, Policy, Session};
use futures::StreamExt;
use parquet::file::metadata::SortingColumn;
use parquet::file::properties::WriterProperties;
use proptest::prelude::*;
use proptest::test_runner::Config;

use crate::common::{
    self, borrowed, memory_comes_back, plain, plain_rows, rows, rows_in_order, schema, tpch,
    tpch_tables,
};

struct Table {
    folder: tempfile::TempDir,
}

impl Table {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        Self { folder }
    }

    fn path(&self) -> PathBuf {
        self.folder.path().join("")
    }

    fn file(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }
}

/// Rows with these keys, in this order.
fn batch(keys: &[Option<i64>]) -> RecordBatch {
    let mix = |n: usize| (n as i64 * 2_654_435_761).rem_euclid(1_000_003);
    let numbers: Vec<i64> = (0..keys.len()).map(mix).collect();
    let words = keys
        .iter()
        .map(|key| key.map(|key| format!("word {key:012}")));
    let columns: Vec<(Field, ArrayRef)> = vec![
        (
            Field::new("k", DataType::Int64, true),
            Arc::new(keys.iter().copied().collect::<Int64Array>()),
        ),
        (
            Field::new("s", DataType::Utf8, true),
            Arc::new(words.collect::<StringArray>()),
        ),
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
            Field::new("v", DataType::Int64, false),
            Arc::new(Int64Array::from(numbers.clone())),
        ),
        (
            // Sums of quarters are exact in any order.
            Field::new("f", DataType::Float64, true),
            Arc::new(
                numbers
                    .iter()
                    .map(|n| (n % 3 != 0).then_some((n % 1000) as f64 / 4.0))
                    .collect::<Float64Array>(),
            ),
        ),
    ];
    let (fields, columns): (Vec<_>, Vec<_>) = columns.into_iter().unzip();
    RecordBatch::try_new(schema(fields), columns).unwrap()
}

fn write(path: &Path, keys: &[Option<i64>], group_rows: usize) {
    let batch = batch(keys);
    common::write(path, batch.schema(), &[batch], group_rows);
}

/// Groups of 1 to 6 rows, from key `from` on.
fn ascending(from: i64, groups: i64) -> Vec<Option<i64>> {
    let of = |key: i64| std::iter::repeat_n(Some(key), 1 + (key * 7 % 6) as usize);
    (from..from + groups).flat_map(of).collect()
}

fn config() -> EngineConfig {
    EngineConfig {
        chunk_bytes: 16 << 10,
        ordered_aggregates: true,
        ..common::config()
    }
}

/// A session that shares no work with other queries.
async fn alone(path: &Path) -> Session {
    let session = common::session(config(), &[("t", path)]).await;
    set_alone(&session);
    session
}

fn set_alone(session: &Session) {
    for (name, value) in [("share_operators", "off"), ("state_cache", "0")] {
        session.set(&format!("coscan.{name}"), value).unwrap();
    }
}

/// A metric that EXPLAIN ANALYZE shows of the ordered aggregate, summed over partitions.
async fn shown(session: &Session, sql: &str, name: &str) -> u64 {
    let plan = rows_in_order(session, &format!("EXPLAIN ANALYZE {sql}")).await;
    let line = plan.iter().flat_map(|row| row.lines());
    let line = line
        .filter(|line| line.contains("OrderedAggregateExec"))
        .collect::<String>();
    let start = line
        .find(&format!("{name}="))
        .unwrap_or_else(|| panic!("{name}: {plan:?}"));
    let text = &line[start + name.len() + 1..];
    let text = &text[..text.find([',', ']']).unwrap()];
    let (number, unit) = text.split_once(' ').unwrap_or((text, ""));
    let factor = if unit == "K" { 1e3 } else { 1.0 };
    (number.parse::<f64>().unwrap() * factor) as u64
}

async fn is_ordered(session: &Session, sql: &str) -> bool {
    let plan = session.explain(sql).await.unwrap();
    plan.contains("OrderedAggregateExec")
}

/// Queries of `t` that are computed in the order of `k`.
const QUERIES: [&str; 14] = [
    "SELECT k, count(*), sum(v), min(s), max(g), sum(f), avg(v) FROM t GROUP BY k",
    "SELECT k, count(DISTINCT g), sum(DISTINCT v % 3), count(*) FILTER (WHERE v % 2 = 0) FROM t GROUP BY k",
    "SELECT k, g, sum(v), count(f) FROM t GROUP BY k, g",
    "SELECT g, k FROM t GROUP BY g, k",
    "SELECT DISTINCT k FROM t",
    "SELECT k, sum(v) AS total FROM t GROUP BY k HAVING sum(v) > 1500000",
    "SELECT k, sum(v) FROM t WHERE k BETWEEN 700 AND 1400 GROUP BY k",
    "SELECT k, sum(v) FROM t WHERE v % 97 = 3 GROUP BY k",
    "SELECT k, sum(v) FROM t WHERE k % 1000 > 300 AND k < 1900 OR k IS NULL GROUP BY k",
    "SELECT k, sum(v) FROM t WHERE v < 0 GROUP BY k",
    "SELECT k, median(v), string_agg(DISTINCT CAST(v % 2 AS VARCHAR), ',') IS NULL FROM t GROUP BY k",
    "SELECT k + 1, sum(v), k FROM t GROUP BY k, k + 1",
    "SELECT s, k, count(*) FROM t GROUP BY s, k",
    "SELECT a.k, a.n, b.v FROM (SELECT k, count(*) AS n FROM t GROUP BY k) a JOIN t b ON a.k = b.k WHERE b.v % 50 = 1",
];

#[tokio::test(flavor = "multi_thread")]
async fn rows_are_plain_datafusion_s_under_every_policy() {
    let table = Table::new();
    // The files are not in the order of their names; groups that begin in one file end in the
    // next.
    let mut all = ascending(0, 2400);
    let (a, b) = (all.len() / 3 + 1, all.len() * 2 / 3 + 2);
    write(&table.file("2.parquet"), &all[..a], 512);
    write(&table.file("0.parquet"), &all[a..b], 700);
    all.extend([None; 40]);
    write(&table.file("1.parquet"), &all[b..], 300);
    let session = alone(&table.path()).await;
    let plain = plain(&[("t", &table.path())]).await;
    for sql in QUERIES {
        let expected = plain_rows(&plain, sql).await;
        assert!(is_ordered(&session, sql).await, "{sql}");
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
    assert_eq!(shown(&session, sql, "chunks_by_hash").await, 0);
    assert_eq!(shown(&session, sql, "not_in_order").await, 0);
    let chunks = shown(&session, sql, "chunks_in_order").await;
    assert!(chunks > 10, "{chunks}");
    let parts = shown(&session, sql, "border_parts").await;
    assert!(parts <= 2 * chunks, "{parts} of {chunks}");
    let borders = shown(&session, sql, "border_groups").await;
    let at_once = shown(&session, sql, "groups_at_once").await;
    assert!(borders < at_once / 10, "{borders} {at_once}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_ordered_aggregate_is_used_if_the_key_has_many_values_in_sequence() {
    let table = Table::new();
    let keys = ascending(0, 3000);
    write(&table.file("0.parquet"), &keys, 512);
    let session = alone(&table.path()).await;
    for (sql, ordered) in [
        ("SELECT k, sum(v) FROM t GROUP BY k", true),
        ("SELECT s, sum(v) FROM t GROUP BY s", true),
        ("SELECT s, k, g, sum(v) FROM t GROUP BY s, k, g", true),
        ("SELECT k, sum(v) FROM t WHERE k < 50 GROUP BY k", true),
        ("SELECT v, sum(k) FROM t GROUP BY v", false),
        ("SELECT g, sum(k) FROM t GROUP BY g", false),
        ("SELECT f, sum(k) FROM t GROUP BY f", false),
        ("SELECT k / 2, sum(v) FROM t GROUP BY k / 2", false),
        ("SELECT sum(v) FROM t", false),
        // Grouping sets are made of the groups by all keys.
        ("SELECT k, g, sum(v) FROM t GROUP BY ROLLUP (k, g)", true),
        (
            "SELECT k, g, count(DISTINCT v) FROM t GROUP BY ROLLUP (k, g)",
            false,
        ),
        ("SELECT k, array_agg(v ORDER BY v) FROM t GROUP BY k", false),
    ] {
        assert_eq!(is_ordered(&session, sql).await, ordered, "{sql}");
    }
    let sql = "SELECT k, sum(v) FROM t GROUP BY k";
    for name in ["ordered_aggregates", "cooperative"] {
        session.set(&format!("coscan.{name}"), "off").unwrap();
        assert!(!is_ordered(&session, sql).await, "{name}");
        session.set(&format!("coscan.{name}"), "on").unwrap();
    }
    let few = Table::new();
    let keys: Vec<Option<i64>> = (0..20_000).map(|n| Some(n / 100)).collect();
    write(&few.file("0.parquet"), &keys, 512);
    let session = alone(&few.path()).await;
    assert!(!is_ordered(&session, sql).await);

    // A single row group is always in sequence by every column, but its rows are in no order.
    let one = Table::new();
    let keys: Vec<Option<i64>> = (0..20_000).map(|n| Some(n * 7919 % 20_000)).collect();
    write(&one.file("0.parquet"), &keys, 20_000);
    let session = alone(&one.path()).await;
    assert!(!is_ordered(&session, sql).await);

    // Uncompressed, each row takes a bit.
    let yes_or_no = Table::new();
    let keys: BooleanArray = (0..20_000).map(|n| Some(n > 11_000)).collect();
    let values = Int64Array::from_iter_values(0..20_000);
    let of_two = RecordBatch::try_new(
        schema(vec![
            Field::new("k", DataType::Boolean, false),
            Field::new("v", DataType::Int64, false),
        ]),
        vec![Arc::new(keys), Arc::new(values)],
    )
    .unwrap();
    let properties = WriterProperties::builder()
        .set_max_row_group_row_count(Some(512))
        .set_dictionary_enabled(false)
        .build();
    let file = yes_or_no.file("0.parquet");
    common::write_with(&file, of_two.schema(), &[of_two], properties);
    let session = alone(&yes_or_no.path()).await;
    assert!(!is_ordered(&session, sql).await);
}

#[tokio::test(flavor = "multi_thread")]
async fn nodes_above_get_their_rows_partitioned_and_sorted() {
    let root = tpch(0.05);
    let tables = tpch_tables(&root);
    let session = common::session(config(), &borrowed(&tables)).await;
    set_alone(&session);
    let plain = plain(&borrowed(&tables)).await;
    let inner = "SELECT l_orderkey, sum(l_quantity) AS q FROM lineitem GROUP BY l_orderkey";
    let many = "SELECT l_orderkey FROM lineitem GROUP BY l_orderkey HAVING sum(l_quantity) > 250";
    for sql in [
        format!(
            "SELECT c_name, o_orderkey, o_totalprice, sum(l_quantity) FROM customer, orders, lineitem WHERE o_orderkey IN ({many}) AND c_custkey = o_custkey AND o_orderkey = l_orderkey GROUP BY c_name, o_orderkey, o_totalprice"
        ),
        format!(
            "SELECT o_orderkey, q FROM orders JOIN ({inner}) ON o_orderkey = l_orderkey WHERE o_totalprice > 400000"
        ),
        format!(
            "SELECT o_orderkey FROM orders WHERE o_orderkey NOT IN ({many}) AND o_custkey % 100 = 1"
        ),
        format!(
            "SELECT a.l_orderkey, a.q, b.q FROM ({inner}) a FULL JOIN ({inner}) b ON a.l_orderkey = b.l_orderkey + 1"
        ),
        format!("SELECT q, count(*), min(l_orderkey) FROM ({inner}) GROUP BY q"),
        format!("SELECT l_orderkey % 10 AS d, sum(q) FROM ({inner}) GROUP BY d"),
        format!(
            "SELECT l_orderkey, q, rank() OVER (PARTITION BY l_orderkey % 10 ORDER BY q, l_orderkey) AS r FROM ({inner}) WHERE q > 200"
        ),
        format!(
            "{inner} UNION ALL SELECT o_orderkey, o_totalprice FROM orders WHERE o_orderkey % 50 = 1"
        ),
        format!("SELECT count(*), sum(q) FROM ({inner})"),
    ] {
        assert!(is_ordered(&session, &sql).await, "{sql}");
        let expected = plain_rows(&plain, &sql).await;
        assert_eq!(rows(&session, &sql).await, expected, "{sql}");
    }
    for order in [
        "q DESC, l_orderkey LIMIT 20",
        "l_orderkey",
        "l_orderkey DESC LIMIT 7",
    ] {
        let sql = format!("{inner} ORDER BY {order}");
        let expected = common::plain_rows_in_order(&plain, &sql).await;
        assert_eq!(rows_in_order(&session, &sql).await, expected, "{sql}");
    }
    let few = rows(&session, &format!("{inner} LIMIT 10")).await;
    let all = rows(&session, inner).await;
    assert_eq!(few.len(), 10);
    assert!(few.iter().all(|row| all.binary_search(row).is_ok()));
}

#[tokio::test(flavor = "multi_thread")]
async fn groups_may_be_as_long_as_many_chunks() {
    let table = Table::new();
    // Between groups of one or two rows: one group of 9,000 rows, over several files, and one of
    // NULL.
    let mut keys: Vec<Option<i64>> = vec![None; 3000];
    keys.extend((0..4000).map(Some));
    keys.extend(std::iter::repeat_n(Some(4000), 9000));
    keys.extend((4001..12_000).map(Some));
    for (file, keys) in keys.chunks(keys.len().div_ceil(3)).enumerate() {
        write(&table.file(&format!("{file}.parquet")), keys, 400);
    }
    let session = alone(&table.path()).await;
    let plain = plain(&[("t", &table.path())]).await;
    for sql in [
        "SELECT k, sum(v), count(*) FROM t GROUP BY k",
        "SELECT k, g, sum(v), count(*) FROM t GROUP BY k, g",
        "SELECT k, sum(v) FROM t WHERE k IS NULL OR k % 4000 = 0 GROUP BY k",
        "SELECT k, sum(v) FROM t WHERE v % 1000 = 1 GROUP BY k",
    ] {
        assert!(is_ordered(&session, sql).await, "{sql}");
        let expected = plain_rows(&plain, sql).await;
        for policy in ["relevance", "elevator", "attach"] {
            session.set("coscan.policy", policy).unwrap();
            assert_eq!(rows(&session, sql).await, expected, "{policy}: {sql}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn tables_that_descend_are_in_order_too() {
    let table = Table::new();
    let mut keys = ascending(0, 3000);
    keys.reverse();
    keys.extend([None; 30]);
    let half = keys.len() / 2;
    write(&table.file("0.parquet"), &keys[half..], 300);
    write(&table.file("1.parquet"), &keys[..half], 300);
    let session = alone(&table.path()).await;
    let plain = plain(&[("t", &table.path())]).await;
    for sql in &QUERIES[..4] {
        assert!(is_ordered(&session, sql).await, "{sql}");
        assert_eq!(
            rows(&session, sql).await,
            plain_rows(&plain, sql).await,
            "{sql}"
        );
    }
    assert_eq!(shown(&session, QUERIES[0], "chunks_by_hash").await, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn chunks_with_unordered_rows_are_grouped_by_hash() {
    let table = Table::new();
    // Row groups are in sequence, but their rows are not in order: in some from the first row on,
    // in others only later.
    let mut keys = ascending(0, 4000);
    for (at, group) in keys.chunks_mut(500).enumerate() {
        match at % 3 {
            0 => group.reverse(),
            1 => {
                let last = group.len() - 1;
                group.swap(last - 200, last);
            }
            _ => {}
        }
    }
    write(&table.file("0.parquet"), &keys, 500);
    let session = alone(&table.path()).await;
    let plain = plain(&[("t", &table.path())]).await;
    for sql in QUERIES {
        assert!(is_ordered(&session, sql).await, "{sql}");
        assert_eq!(
            rows(&session, sql).await,
            plain_rows(&plain, sql).await,
            "{sql}"
        );
    }
    assert!(shown(&session, QUERIES[0], "chunks_by_hash").await > 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_false_declaration_of_an_order_is_an_error_that_names_the_place() {
    let declare = |table: &Table| {
        format!(
            "CREATE EXTERNAL TABLE t (k BIGINT, s VARCHAR, g INT, v BIGINT NOT NULL, f DOUBLE) STORED AS PARQUET WITH ORDER (k ASC NULLS LAST) LOCATION '{}'",
            table.path().display()
        )
    };
    let sql = "SELECT k, sum(v) FROM t GROUP BY k";
    let failed = async |table: &Table, declaration: Option<String>| -> String {
        let session = common::session(config(), &[]).await;
        set_alone(&session);
        match declaration {
            Some(sql) => drop(rows(&session, &sql).await),
            None => session
                .register("t", table.path().to_str().unwrap())
                .await
                .unwrap(),
        }
        assert!(is_ordered(&session, sql).await);
        let stream = session.sql(sql).await.unwrap();
        common::collect(stream).await.unwrap_err().to_string()
    };
    // The order is false between row groups, as their bounds show.
    let table = Table::new();
    let mut keys = ascending(0, 1000);
    let end = keys.len();
    keys.rotate_left(end / 2);
    write(&table.file("0.parquet"), &keys, 500);
    let error = failed(&table, Some(declare(&table))).await;
    assert!(error.contains("0.parquet: row group"), "{error}");
    assert!(error.contains("order of k that was declared"), "{error}");

    // The order is false within a row group.
    let table = Table::new();
    let mut keys = ascending(0, 1000);
    keys.swap(1200, 1205);
    write(&table.file("0.parquet"), &keys, 500);
    let error = failed(&table, Some(declare(&table))).await;
    assert!(error.contains("0.parquet: row group"), "{error}");
    assert!(error.contains("order of k that was declared"), "{error}");

    // The file itself declares the false order.
    let table = Table::new();
    write_sorted(&table.file("0.parquet"), &batch(&keys), 500);
    let error = failed(&table, None).await;
    assert!(error.contains("order of k that was declared"), "{error}");

    // A true declaration is trusted, and chunks are taken in any order.
    let table = Table::new();
    write(&table.file("0.parquet"), &ascending(0, 3000), 500);
    let session = common::session(config(), &[]).await;
    set_alone(&session);
    rows(&session, &declare(&table)).await;
    let plain = plain(&[("t", &table.path())]).await;
    for sql in &QUERIES[..4] {
        assert!(is_ordered(&session, sql).await, "{sql}");
        assert_eq!(
            rows(&session, sql).await,
            plain_rows(&plain, sql).await,
            "{sql}"
        );
    }
}

/// Writes the rows of `batch` with a writer that declares each row group to be sorted by its first
/// column.
fn write_sorted(path: &Path, batch: &RecordBatch, group_rows: usize) {
    let properties = WriterProperties::builder()
        .set_max_row_group_row_count(Some(group_rows))
        .set_sorting_columns(Some(vec![SortingColumn {
            column_idx: 0,
            descending: false,
            nulls_first: false,
        }]))
        .build();
    common::write_with(
        path,
        batch.schema(),
        std::slice::from_ref(batch),
        properties,
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn row_groups_sorted_only_within_are_no_false_declaration() {
    let table = Table::new();
    let keys: Vec<Option<i64>> = (0..8)
        .flat_map(|group| (0..500).map(move |n| Some(8 * n + group)))
        .collect();
    write_sorted(&table.file("0.parquet"), &batch(&keys), 500);
    let session = alone(&table.path()).await;
    let plain = plain(&[("t", &table.path())]).await;
    for sql in &QUERIES[..4] {
        assert!(!is_ordered(&session, sql).await, "{sql}");
        assert_eq!(
            rows(&session, sql).await,
            plain_rows(&plain, sql).await,
            "{sql}"
        );
    }

    // ORDER BY sorts rows that are only sorted within row groups.
    for small_table_bytes in [0, u64::MAX] {
        let config = EngineConfig {
            small_table_bytes,
            ..config()
        };
        let session = common::session(config, &[("t", &table.path())]).await;
        let sorted = common::rows_in_order(&session, "SELECT k FROM t ORDER BY k").await;
        let expected: Vec<String> = (0..4000).map(|k| k.to_string()).collect();
        assert!(sorted == expected, "{small_table_bytes}");
    }

    // Row groups in sequence are trusted.
    let table = Table::new();
    write_sorted(&table.file("0.parquet"), &batch(&ascending(0, 3000)), 500);
    let session = alone(&table.path()).await;
    let sql = QUERIES[0];
    let explained = session.explain(sql).await.unwrap();
    assert!(explained.contains("order=k (declared)"), "{explained}");
    let plain = common::plain(&[("t", &table.path())]).await;
    assert_eq!(rows(&session, sql).await, plain_rows(&plain, sql).await);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_false_order_is_never_an_answer() {
    let true_order: Vec<Option<i64>> = (0..3000).map(Some).collect();
    let mut two_swapped = true_order.clone();
    two_swapped.swap(1700, 1701);
    let descending: Vec<_> = true_order.iter().rev().copied().collect();
    for (keys, group_rows, is_true) in [
        (&true_order, 500, true),
        (&true_order, 5000, true),
        (&two_swapped, 500, false),
        (&two_swapped, 5000, false),
        (&descending, 5000, false),
    ] {
        let table = Table::new();
        write_sorted(&table.file("0.parquet"), &batch(keys), group_rows);
        for small_table_bytes in [0, u64::MAX] {
            let config = EngineConfig {
                small_table_bytes,
                ..config()
            };
            let session = common::session(config, &[("t", &table.path())]).await;
            for sql in [
                "SELECT k FROM t ORDER BY k",
                "SELECT k FROM t ORDER BY k LIMIT 1702",
            ] {
                let plan = session.explain(sql).await.unwrap();
                assert!(plan.contains("CheckedOrderExec"), "{plan}");
                let found = match session.sql(sql).await {
                    Ok(found) => common::collect(found).await,
                    Err(error) => panic!("{error}"),
                };
                match found {
                    Ok(found) => {
                        let rows = found.len();
                        let expected = (0..rows).map(|k| k.to_string());
                        assert!(is_true && found == expected.collect::<Vec<_>>(), "{sql}");
                        assert!(rows == 3000 || rows == 1702);
                    }
                    Err(error) => {
                        assert!(!is_true, "{error}");
                        assert!(error.to_string().contains("declared order"), "{error}");
                    }
                }
            }
            let count = rows(&session, "SELECT count(*), min(k), max(k) FROM t").await;
            assert_eq!(count, ["3000|0|2999"]);
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn fields_may_have_numbers_in_the_file() {
    let table = Table::new();
    let plain_fields = batch(&ascending(0, 3000));
    let of_field = |(at, field): (usize, &Arc<Field>)| {
        let number = ("PARQUET:field_id".to_owned(), (at + 1).to_string());
        field.as_ref().clone().with_metadata([number].into())
    };
    let fields = plain_fields.schema();
    let fields = fields.fields().iter().enumerate().map(of_field);
    let columns = plain_fields.columns().to_vec();
    let numbered = RecordBatch::try_new(schema(fields.collect()), columns).unwrap();
    common::write(
        &table.file("0.parquet"),
        numbered.schema(),
        &[numbered],
        512,
    );
    let session = alone(&table.path()).await;
    let plain = plain(&[("t", &table.path())]).await;
    for sql in &QUERIES[..4] {
        assert!(is_ordered(&session, sql).await, "{sql}");
        assert_eq!(
            rows(&session, sql).await,
            plain_rows(&plain, sql).await,
            "{sql}"
        );
        assert_eq!(shown(&session, sql, "not_in_order").await, 0, "{sql}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn truncated_bounds_are_no_false_declaration() {
    let table = Table::new();
    let words = (0..6000).map(|n| Some(format!("{:0>90}", n / 2)));
    let words: ArrayRef = Arc::new(words.collect::<StringArray>());
    let values: ArrayRef = Arc::new(Int64Array::from_iter_values(0..6000));
    let fields = vec![
        Field::new("s", DataType::Utf8, true),
        Field::new("v", DataType::Int64, false),
    ];
    let long = RecordBatch::try_new(schema(fields), vec![words, values]).unwrap();
    common::write(&table.file("0.parquet"), long.schema(), &[long], 501);
    let session = common::session(config(), &[]).await;
    set_alone(&session);
    let declare = format!(
        "CREATE EXTERNAL TABLE t (s VARCHAR, v BIGINT NOT NULL) STORED AS PARQUET WITH ORDER (s ASC NULLS LAST) LOCATION '{}'",
        table.path().display()
    );
    rows(&session, &declare).await;
    let plain = plain(&[("t", &table.path())]).await;
    let sql = "SELECT s, sum(v), count(*) FROM t GROUP BY s";
    assert!(is_ordered(&session, sql).await);
    assert_eq!(rows(&session, sql).await, plain_rows(&plain, sql).await);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_query_that_needs_an_order_does_not_share_with_one_that_needs_none() {
    let table = Table::new();
    write(&table.file("0.parquet"), &ascending(0, 6000), 400);
    let config = EngineConfig {
        target_partitions: Some(1),
        ..config()
    };
    let session = common::session(config, &[]).await;
    let declare = format!(
        "CREATE EXTERNAL TABLE t (k BIGINT, s VARCHAR, g INT, v BIGINT NOT NULL, f DOUBLE) STORED AS PARQUET WITH ORDER (k ASC NULLS LAST) LOCATION '{}'",
        table.path().display()
    );
    rows(&session, &declare).await;
    // Chunks that are in memory come first.
    rows(&session, "SELECT max(k), sum(v) FROM t WHERE k > 4000").await;
    let grouped = "SELECT k, sum(v) AS total FROM t GROUP BY k";
    let in_any = format!("SELECT count(*), sum(total) FROM ({grouped})");
    let in_order = format!("SELECT k, total, rank() OVER (ORDER BY k) AS r FROM ({grouped})");
    assert!(is_ordered(&session, &in_any).await);
    assert!(!is_ordered(&session, &in_order).await);
    let plain = plain(&[("t", &table.path())]).await;
    let expected = plain_rows(&plain, &in_order).await;
    for _ in 0..3 {
        let (_, found) = tokio::join!(rows(&session, &in_any), rows(&session, &in_order));
        assert_eq!(found, expected);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_query_that_is_cancelled_leaves_nothing_behind() {
    let table = Table::new();
    write(&table.file("0.parquet"), &ascending(0, 20_000), 500);
    let session = alone(&table.path()).await;
    for take in 0..4 {
        let mut stream = session
            .sql("SELECT k, g, sum(v) FROM t GROUP BY k, g")
            .await
            .unwrap();
        for _ in 0..take {
            stream.next().await.unwrap().unwrap();
        }
        drop(stream);
        memory_comes_back(&session).await;
    }
    let plain = plain(&[("t", &table.path())]).await;
    let sql = QUERIES[0];
    assert_eq!(rows(&session, sql).await, plain_rows(&plain, sql).await);
}

#[tokio::test(flavor = "multi_thread")]
async fn many_groups_need_little_memory() {
    let table = Table::new();
    let keys: Vec<Option<i64>> = (0..1_500_000).map(|n| Some(n / 2)).collect();
    write(&table.file("0.parquet"), &keys, 50_000);
    let small = EngineConfig {
        memory_bytes: Some(64 << 20),
        chunk_bytes: 1 << 20,
        ..config()
    };
    let session = common::session(small, &[("t", &table.path())]).await;
    set_alone(&session);
    let sql = "SELECT k, sum(v), avg(f) FROM t GROUP BY k";
    let mut stream = session.sql(sql).await.unwrap();
    let mut groups = 0;
    while let Some(batch) = stream.next().await {
        groups += batch.unwrap().num_rows();
    }
    assert_eq!(groups, 750_000);
    let plan = rows_in_order(&session, &format!("EXPLAIN ANALYZE {sql}")).await;
    assert!(plan.concat().contains("OrderedAggregateExec"));
    assert!(!plan.concat().contains("spill_count"), "{plan:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn queries_that_run_at_once_share_what_they_can() {
    let table = Table::new();
    write(&table.file("0.parquet"), &ascending(0, 6000), 400);
    let plain = plain(&[("t", &table.path())]).await;
    let config = EngineConfig {
        record_trace: true,
        ..config()
    };
    let session = common::session(config, &[("t", &table.path())]).await;
    let query =
        |n: usize| format!("SELECT k, g, sum(v), count(*) FROM t WHERE v % 7 <> {n} GROUP BY k, g");
    common::equal_queries_run_once(&session, &plain, query).await;
}

/// A sorted table in files and row groups of random sizes; rows within may be unsorted.
#[derive(Clone, Debug)]
struct Random {
    steps: Vec<i64>,
    files: usize,
    group_rows: usize,
    nulls: usize,
    descending: bool,
    swaps: Vec<prop::sample::Index>,
}

fn random() -> impl Strategy<Value = Random> {
    let steps = prop::collection::vec(
        prop_oneof![5 => Just(0), 4 => Just(1), 1 => Just(9)],
        1..3000,
    );
    let swaps = prop_oneof![
        3 => Just(Vec::new()),
        1 => prop::collection::vec(any::<prop::sample::Index>(), 1..4),
    ];
    let nulls = prop_oneof![2 => Just(0), 1 => 1..200usize];
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
    fn rows_of_random_tables_are_plain_datafusion_s(random in random()) {
        let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let mut key = 0;
            let mut keys: Vec<Option<i64>> = random.steps.iter().map(|step| {
                key += step;
                Some(key)
            }).collect();
            if random.descending {
                keys.reverse();
            }
            keys.extend(vec![None; random.nulls]);
            for at in &random.swaps {
                let at = at.index(keys.len());
                keys.swap(at, at.saturating_sub(3));
            }
            let table = Table::new();
            for (file, keys) in keys.chunks(keys.len().div_ceil(random.files)).enumerate() {
                write(&table.file(&format!("{file}.parquet")), keys, random.group_rows);
            }
            let plain = plain(&[("t", &table.path())]).await;
            for chunk_bytes in [4 << 10, 64 << 10] {
                let config = EngineConfig { chunk_bytes, ..config() };
                let session = common::session(config, &[("t", &table.path())]).await;
                set_alone(&session);
                for sql in [
                    "SELECT k, sum(v), count(f), max(s) FROM t GROUP BY k",
                    "SELECT k, g, sum(v), avg(v) FROM t GROUP BY k, g",
                    "SELECT k, sum(v) FROM t WHERE v % 5 = 0 AND k > 20 GROUP BY k",
                ] {
                    let found = rows(&session, sql).await;
                    assert_eq!(found, plain_rows(&plain, sql).await, "{sql}: {random:?}");
                }
            }
        });
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_join_s_filter_may_rule_chunks_out() {
    let table = Table::new();
    write(&table.file("0.parquet"), &ascending(0, 20_000), 400);
    let few = Table::new();
    let keys: Vec<Option<i64>> = (9_000..9_040).map(Some).collect();
    let of_few = batch(&keys);
    let order = UInt64Array::from_iter_values((0..40).rev());
    let columns = of_few.columns().iter();
    let columns = columns
        .map(|column| take(column, &order, None).unwrap())
        .collect();
    let of_few = RecordBatch::try_new(of_few.schema(), columns).unwrap();
    common::write(&few.file("0.parquet"), of_few.schema(), &[of_few], 10);
    let (t, u) = (table.path(), few.path());
    let tables = [("t", t.as_path()), ("u", u.as_path())];
    let session = common::session(config(), &tables).await;
    set_alone(&session);
    let plain = plain(&tables).await;
    let sql = "SELECT u.k, n, total FROM u JOIN (SELECT k, count(*) AS n, sum(v) AS total FROM t GROUP BY k) a ON a.k = u.k";
    assert!(is_ordered(&session, sql).await);
    for policy in ["relevance", "normal"] {
        session.set("coscan.policy", policy).unwrap();
        assert_eq!(
            rows(&session, sql).await,
            plain_rows(&plain, sql).await,
            "{policy}"
        );
    }
}
