//! Promised: whatever the predicate and the projection, over files with nulls, NaN, missing
//! columns and columns in another order or type, a cooperative scan returns plain DataFusion's
//! rows. Columns that only proven conjuncts need are not even read.

use crate::common;
use std::path::Path;
use std::sync::Arc;

use crate::common::{config, plain_rows, rows};
use arrow::array::{
    ArrayRef, BooleanArray, Date32Array, Decimal128Array, Float64Array, Int32Array, Int64Array,
    RecordBatch, StringArray, TimestampMicrosecondArray,
};
use arrow::datatypes::{DataType, Field, Schema};
use coscan::{Engine, EngineConfig, Policy, Session, StorageModel};
use datafusion::execution::SessionStateBuilder;
use datafusion::prelude::{SessionConfig, SessionContext};
use parquet::file::properties::{EnabledStatistics, WriterProperties};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

const SEEDS: u64 = 12;
const QUERIES_PER_SEED: usize = 40;

/// The declaration of the table that has the files.
const TABLE: &str =
    "(k BIGINT, a INT, b BIGINT, f DOUBLE, s VARCHAR, d DATE, m DECIMAL(12, 2), o BOOLEAN)";

fn nullable<T>(random: &mut StdRng, share: f64, value: T) -> Option<T> {
    (!random.random_bool(share)).then_some(value)
}

/// One file: its columns in random order, sometimes without one of them, sometimes with a narrower
/// type, clustered by k.
fn file(random: &mut StdRng, path: &Path, first_key: i64) -> i64 {
    let rows = random.random_range(1..3000);
    let nulls = *[0.0, 0.0, 0.1, 1.0]
        .get(random.random_range(0..4))
        .expect("one of four");
    let mut key = first_key;
    let keys: Vec<i64> = (0..rows)
        .map(|_| {
            key += random.random_range(0..3);
            key
        })
        .collect();
    let base = random.random_range(-50..50);
    // Values drift and nulls come in runs, so that the pages of a row group differ.
    let drift = random.random_range(0..3) * 30;
    let runs = random.random_range(30..300);
    let is_null = move |row: i32, random: &mut StdRng| match runs % 2 {
        0 => nulls > 0.0 && row / runs % 3 == 0,
        _ => random.random_bool(nulls),
    };
    let mut columns: Vec<(&str, ArrayRef)> = vec![
        ("k", Arc::new(Int64Array::from(keys))),
        (
            "a",
            Arc::new(Int32Array::from_iter((0..rows).map(|row| {
                let value = base + drift * row / rows + random.random_range(0..20);
                (!is_null(row, random)).then_some(value)
            }))),
        ),
        (
            "f",
            Arc::new(Float64Array::from_iter((0..rows).map(|_| {
                let value = match random.random_range(0..40) {
                    0 => f64::NAN,
                    1 => -0.0,
                    _ => f64::from(random.random_range(-5..5)),
                };
                nullable(random, nulls, value)
            }))),
        ),
        (
            "s",
            Arc::new(StringArray::from_iter((0..rows).map(|_| {
                let value = format!(
                    "{}{}",
                    ["Alpine", "Bear", "", "Lynx"][random.random_range(0..4)],
                    random.random_range(0..30)
                );
                nullable(random, nulls, value)
            }))),
        ),
        (
            "d",
            Arc::new(Date32Array::from_iter((0..rows).map(|row| {
                let value = 9000 + base - drift * row / rows + random.random_range(0..50);
                (!is_null(row, random)).then_some(value)
            }))),
        ),
        (
            "m",
            Arc::new(
                Decimal128Array::from_iter((0..rows).map(|_| {
                    let value = i128::from(random.random_range(-500..500));
                    nullable(random, nulls, value)
                }))
                .with_precision_and_scale(12, 2)
                .expect("a decimal"),
            ),
        ),
        (
            "o",
            Arc::new(BooleanArray::from_iter((0..rows).map(|_| {
                let value = random.random_bool(0.9);
                nullable(random, nulls, value)
            }))),
        ),
    ];
    let wide: Vec<i64> = (0..rows).map(|_| random.random_range(-10..10)).collect();
    if random.random_bool(0.5) {
        columns.push(("b", Arc::new(Int64Array::from(wide))));
    } else {
        // The column is narrower in the file than in the table and must be cast.
        let narrow = wide.iter().map(|v| i32::try_from(*v).expect("small"));
        columns.push(("b", Arc::new(Int32Array::from_iter_values(narrow))));
    }
    if random.random_bool(0.3) {
        let gone = random.random_range(1..columns.len());
        columns.remove(gone);
    }
    for at in (1..columns.len()).rev() {
        columns.swap(at, random.random_range(0..=at));
    }
    let fields: Vec<Field> = columns
        .iter()
        .map(|(name, array)| Field::new(*name, array.data_type().clone(), *name != "k"))
        .collect();
    let schema = Arc::new(Schema::new(fields));
    let arrays = columns.into_iter().map(|(_, array)| array).collect();
    let batch = RecordBatch::try_new(Arc::clone(&schema), arrays).expect("a batch");
    let properties = properties(random);
    common::write_with(path, schema, &[batch], properties);
    key
}

/// Writer properties with any row groups, pages and indexes.
fn properties(random: &mut StdRng) -> WriterProperties {
    let statistics = [
        EnabledStatistics::Page,
        EnabledStatistics::Page,
        EnabledStatistics::Page,
        EnabledStatistics::Chunk,
        EnabledStatistics::None,
    ];
    WriterProperties::builder()
        .set_max_row_group_row_count(Some(random.random_range(50..3000)))
        .set_data_page_row_count_limit(random.random_range(10..300))
        .set_write_batch_size(random.random_range(10..100))
        .set_statistics_enabled(statistics[random.random_range(0..statistics.len())])
        .set_column_statistics_enabled(
            "s".into(),
            statistics[random.random_range(0..statistics.len())],
        )
        .build()
}

fn atom(random: &mut StdRng, keys: i64) -> String {
    let op = ["=", "<>", "<", "<=", ">", ">="][random.random_range(0..6)];
    let key = random.random_range(-10..keys + 10);
    let small = random.random_range(-60..75);
    match random.random_range(0..20) {
        0..=3 => format!("k {op} {key}"),
        4 => format!(
            "k BETWEEN {key} AND {}",
            key + random.random_range(0..keys.max(1))
        ),
        5 | 6 => format!("a {op} {small}"),
        7 => format!("b {op} {}", random.random_range(-12..12)),
        8 => format!("f {op} {}", random.random_range(-6..6)),
        9 => format!(
            "s {op} '{}'",
            ["Alpine1", "B", "", "Lynx9", "Z"][random.random_range(0..5)]
        ),
        10 => format!(
            "s {}LIKE '{}'",
            ["", "NOT "][random.random_range(0..2)],
            ["Alp%", "%1", "%ea%", "_ynx%"][random.random_range(0..4)]
        ),
        11 => format!(
            "d {op} DATE '1970-01-01' + INTERVAL '{}' DAY",
            8950 + random.random_range(0..150)
        ),
        12 => format!(
            "m {op} {}.{:02}",
            random.random_range(-6..6),
            random.random_range(0..100)
        ),
        13 => "o".to_owned(),
        14 => "NOT o".to_owned(),
        15 => format!(
            "{} IS NULL",
            ["a", "b", "f", "s", "d", "m", "o", "k"][random.random_range(0..8)]
        ),
        16 => format!(
            "{} IS NOT NULL",
            ["a", "b", "f", "s", "d", "m", "o", "k"][random.random_range(0..8)]
        ),
        17 => format!(
            "a IN ({small}, {}, {})",
            small + 1,
            ["NULL", "3", "-7"][random.random_range(0..3)]
        ),
        18 => format!("a + b {op} {small}"),
        _ => format!("a NOT IN ({small}, {})", small + 2),
    }
}

fn predicate(random: &mut StdRng, keys: i64) -> String {
    let conjuncts: Vec<String> = (0..random.random_range(1..4))
        .map(|_| match random.random_range(0..6) {
            0 => format!("({} OR {})", atom(random, keys), atom(random, keys)),
            1 => format!("NOT ({} AND {})", atom(random, keys), atom(random, keys)),
            _ => atom(random, keys),
        })
        .collect();
    conjuncts.join(" AND ")
}

fn query(random: &mut StdRng, keys: i64) -> String {
    let predicate = predicate(random, keys);
    match random.random_range(0..6) {
        0 => format!("SELECT count(*) FROM t WHERE {predicate}"),
        1 => format!("SELECT * FROM t WHERE {predicate}"),
        2 => format!("SELECT s, a + 1 AS a1, k FROM t WHERE {predicate}"),
        3 => format!("SELECT sum(m), min(s), max(d), count(f) FROM t WHERE {predicate}"),
        4 => format!(
            "SELECT k, a FROM t WHERE {predicate} ORDER BY a DESC NULLS LAST, k, b, f, s, d, m, o LIMIT 7"
        ),
        _ => format!("SELECT 1 AS one FROM t WHERE {predicate}"),
    }
}

async fn external(context: &SessionContext, folder: &Path) {
    let sql = format!(
        "CREATE EXTERNAL TABLE t {TABLE} STORED AS PARQUET LOCATION '{}/'",
        folder.display()
    );
    context
        .sql(&sql)
        .await
        .expect("planned")
        .collect()
        .await
        .expect("created");
}

async fn ours(policy: Policy, model: StorageModel, folder: &Path) -> Session {
    let config = EngineConfig {
        policy,
        model,
        chunk_bytes: 4 << 10,
        ..config()
    };
    let session = Engine::new(config).expect("an engine").session();
    external(session.context(), folder).await;
    session
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn random_queries_give_the_same_rows() {
    for seed in 0..SEEDS {
        let mut random = StdRng::seed_from_u64(seed);
        let folder = tempfile::tempdir().expect("a folder");
        let mut keys = 0;
        for number in 0..random.random_range(1..5) {
            keys = file(
                &mut random,
                &folder.path().join(format!("{number}.parquet")),
                keys,
            );
        }
        let state = SessionStateBuilder::new()
            .with_config(SessionConfig::new().with_target_partitions(3))
            .with_default_features();
        let plain = SessionContext::new_with_state(coscan_pg::install(state).build());
        external(&plain, folder.path()).await;
        let policy = [
            Policy::Normal,
            Policy::Attach,
            Policy::Elevator,
            Policy::Relevance,
        ][seed as usize % 4];
        let model = [StorageModel::Dsm, StorageModel::Nsm][seed as usize / 4 % 2];
        let ours = ours(policy, model, folder.path()).await;
        for _ in 0..QUERIES_PER_SEED {
            let sql = query(&mut random, keys);
            let expected = plain_rows(&plain, &sql).await;
            assert_eq!(
                rows(&ours, &sql).await,
                expected,
                "seed {seed}, {policy:?}, {model:?}: {sql}"
            );
        }
    }
}

/// A table of 10 row groups with k ascending and x random.
fn clustered(path: &Path) {
    let schema = common::schema(vec![
        Field::new("k", DataType::Int64, true),
        Field::new("x", DataType::Int64, false),
    ]);
    let mut random = StdRng::seed_from_u64(1);
    let batch = RecordBatch::try_new(
        Arc::clone(&schema),
        vec![
            Arc::new(Int64Array::from_iter_values(0..100_000)),
            Arc::new(Int64Array::from_iter_values(
                (0..100_000).map(|_| random.random_range(0..1_000_000_000_i64)),
            )),
        ],
    )
    .expect("a batch");
    common::write(path, schema, &[batch], 10_000);
}

/// A metric that EXPLAIN ANALYZE shows of the scan.
pub(crate) async fn metric(session: &Session, sql: &str, name: &str) -> u64 {
    let text = rows_of_explain(session, sql).await;
    let key = format!("{name}=");
    let at = text
        .find(&key)
        .unwrap_or_else(|| panic!("no {name} in {text}"));
    let value = text[at + key.len()..]
        .split([',', ']'])
        .next()
        .expect("a value")
        .trim();
    let (number, unit) = value.split_once(' ').unwrap_or((value, ""));
    let factor = match unit.trim() {
        "K" => 1e3,
        "M" => 1e6,
        _ => 1.0,
    };
    (number
        .parse::<f64>()
        .unwrap_or_else(|_| panic!("{name}={value}"))
        * factor) as u64
}

pub(crate) async fn rows_of_explain(session: &Session, sql: &str) -> String {
    // With a kept result the plan would show no work.
    session.set("coscan.state_cache", "0").expect("a setting");
    common::rows_in_order(session, &format!("EXPLAIN ANALYZE {sql}"))
        .await
        .join("\n")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_range_on_the_clustering_key_costs_at_its_ends_only() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("t.parquet");
    clustered(&path);
    let config = EngineConfig {
        chunk_bytes: 80 << 10,
        ..config()
    };
    let session = common::session(config, &[("t", &path)]).await;
    let all = metric(
        &session,
        "SELECT count(*) FROM t WHERE k >= 0",
        "chunks_wanted",
    )
    .await;
    assert!(all >= 10, "{all} chunks");
    // The predicate is proved for every chunk: nothing is read.
    let sql = "SELECT count(*) FROM t WHERE k >= 0";
    assert_eq!(rows(&session, sql).await, ["100000"]);
    assert_eq!(metric(&session, sql, "bytes_read").await, 0);
    // Half of the table, cut inside a row group: k is read in one row group, x in five and a half.
    let sql = "SELECT count(*), sum(x) FROM t WHERE k >= 45000";
    let pruned = metric(&session, sql, "chunks_pruned").await;
    assert!(pruned > 0, "nothing pruned");
    let resident = common::rows_in_order(
        &session,
        "SELECT count(*) FROM coscan.chunks WHERE resident LIKE '%k%'",
    )
    .await;
    assert!(
        resident[0].parse::<u64>().expect("a number") <= all / 10 + 1,
        "{resident:?} of {all}"
    );
}

/// A cast that does not keep the order of values, or maps several values to one result, proves
/// nothing about chunks, and is not dropped from a comparison.
#[tokio::test(flavor = "multi_thread")]
async fn casts_are_compared_by_their_results() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("t.parquet");
    let prices = Decimal128Array::from(vec![496, 501, 540, 600]);
    let prices = prices.with_precision_and_scale(10, 2).unwrap();
    let hour = 3_600_000_000;
    let day = 24 * hour;
    let times = vec![
        13 * hour,
        day + 9 * hour,
        day + 10 * hour,
        2 * day + 20 * hour,
    ];
    let batch = RecordBatch::try_from_iter([
        ("p", Arc::new(prices) as ArrayRef),
        ("t", Arc::new(TimestampMicrosecondArray::from(times))),
    ])
    .unwrap();
    common::write(&path, batch.schema(), &[batch], 1);
    for small_table_bytes in [0, u64::MAX] {
        let config = EngineConfig {
            chunk_bytes: 1,
            small_table_bytes,
            ..common::config()
        };
        let session = common::session(config, &[("t", &path)]).await;
        for (condition, expected) in [
            ("p::numeric(10,1) = 5.0", "2"),
            ("p::numeric(10,1) IN (5.0, 6.0)", "3"),
            ("p::numeric(10,1) < 5.0", "0"),
            ("arrow_cast(p, 'Decimal128(10, 1)') = 5.0", "2"),
            (
                "arrow_cast(t, 'Time64(Microsecond)') < time '12:00:00'",
                "2",
            ),
            ("t::date = date '1970-01-02'", "2"),
        ] {
            let sql = format!("SELECT count(*) FROM t WHERE {condition}");
            assert_eq!(rows(&session, &sql).await, [expected], "{condition}");
        }
    }
}
