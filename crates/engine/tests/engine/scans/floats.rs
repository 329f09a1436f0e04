//! Promised: rows with NaN of either sign, -0, infinities and NULL in floating-point columns are
//! in the result wherever DataFusion without any pruning and without statistics returns them,
//! whatever reads the files: cooperative scans of every policy and access path, DataFusion's
//! reader for small tables, and plans without cooperative scans.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow::array::{
    ArrayRef, Float16Array, Float32Array, Float64Array, Int32Array, Int64Array, RecordBatch,
};
use arrow::compute::cast;
use arrow::datatypes::DataType;
use coscan::{EngineConfig, Session};
use datafusion::execution::SessionStateBuilder;
use datafusion::prelude::{ParquetReadOptions, SessionConfig, SessionContext};
use parquet::file::properties::{EnabledStatistics, WriterProperties};
use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use rand::{Rng, SeedableRng};
use tempfile::TempDir;

use crate::common::{self, plain_rows_in_order, rows_in_order};
use crate::indexes::run;

/// Draws one of a file's numbers.
fn numbers(random: &mut StdRng, kind: usize, row: usize) -> Option<f64> {
    let awkward = [
        f64::NAN,
        f64::NAN,
        -0.0,
        0.0,
        f64::INFINITY,
        f64::NEG_INFINITY,
    ];
    let odd = awkward.choose(random).copied();
    let sorted = row as f64 / 16.0;
    match kind {
        // Bounds 1 and 2, and sometimes a number beyond them.
        0 if random.random_range(0..40) == 0 => odd,
        0 => Some(1.0 + f64::from(random.random_range(0..5)) / 4.0),
        // One number or NaN, never NULL.
        1 if random.random_range(0..600) == 0 => Some(f64::NAN),
        1 => Some(2.0),
        // Mostly zeros of one sign in a row group.
        2 if random.random_range(0..200) == 0 => None,
        2 => Some(if (row / 300).is_multiple_of(2) {
            -0.0
        } else {
            0.0
        }),
        // In order, with a gap here and there.
        3 if random.random_range(0..100) == 0 => odd.filter(|_| random.random_range(0..2) == 0),
        3 => Some(sorted),
        // Only NaN and NULL in some row groups.
        _ if (row / 200).is_multiple_of(3) => [Some(f64::NAN), None].choose(random).copied()?,
        _ => Some(f64::from(random.random_range(-60..60))),
    }
}

struct Table {
    _folder: TempDir,
    path: PathBuf,
}

fn table(seed: u64) -> Table {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("t");
    std::fs::create_dir(&path).unwrap();
    let path = path.join("");
    let mut random = StdRng::seed_from_u64(seed);
    let mut first = 0;
    for kind in 0..5 {
        let rows: usize = random.random_range(300..1200);
        let mut column = || -> Vec<Option<f64>> {
            let numbers = |row| numbers(&mut random, kind, row);
            (0..rows).map(numbers).collect()
        };
        let (f, g, h) = (column(), column(), column());
        let narrow = |values: Vec<Option<f64>>| {
            let values = values.into_iter();
            Float32Array::from_iter(values.map(|value| value.map(|value| value as f32)))
        };
        let half = cast(&narrow(h), &DataType::Float16).unwrap();
        assert!(half.as_any().is::<Float16Array>());
        let keys =
            (0..rows).map(|_| (random.random_range(0..9) > 0).then(|| random.random_range(0..100)));
        let columns: [(&str, ArrayRef, bool); 5] = [
            (
                "id",
                Arc::new(Int64Array::from_iter_values(first..first + rows as i64)),
                false,
            ),
            ("k", Arc::new(keys.collect::<Int32Array>()), true),
            ("f", Arc::new(Float64Array::from(f)), true),
            ("g", Arc::new(narrow(g)), true),
            ("h", half, true),
        ];
        first += rows as i64;
        let batch = RecordBatch::try_from_iter_with_nullable(columns).unwrap();
        let statistics = [
            EnabledStatistics::Page,
            EnabledStatistics::Chunk,
            EnabledStatistics::Page,
        ];
        let properties = WriterProperties::builder()
            .set_max_row_group_row_count(Some([100, 300, 2000][random.random_range(0..3)]))
            .set_data_page_row_count_limit([32, 64, 1000][random.random_range(0..3)])
            .set_write_batch_size(32)
            .set_bloom_filter_enabled(random.random_range(0..2) == 0)
            .set_statistics_enabled(statistics[random.random_range(0..3)])
            .build();
        let file = path.join(format!("{kind}.parquet"));
        common::write_with(&file, batch.schema(), &[batch], properties);
    }
    Table {
        _folder: folder,
        path,
    }
}

/// DataFusion without statistics, filters or bounds, with PostgreSQL's functions and rules.
async fn oracle(path: &Path) -> SessionContext {
    let mut config = SessionConfig::new()
        .with_target_partitions(2)
        .with_collect_statistics(false);
    let options = config.options_mut();
    let parquet = &mut options.execution.parquet;
    parquet.pruning = false;
    parquet.enable_page_index = false;
    parquet.bloom_filter_on_read = false;
    options.optimizer.enable_dynamic_filter_pushdown = false;
    let state = SessionStateBuilder::new()
        .with_config(config)
        .with_default_features();
    let context = SessionContext::new_with_state(coscan_pg::install(state).build());
    let path = path.to_str().unwrap();
    context
        .register_parquet("t", path, ParquetReadOptions::default())
        .await
        .unwrap();
    context
}

/// One session for each way to read the files.
async fn sessions(path: &Path) -> Vec<(String, Session)> {
    let mut sessions = Vec::new();
    let mut add = async |name: &str, config: EngineConfig, settings: &[(&str, &str)]| {
        let session = common::session(config, &[("t", path)]).await;
        for (name, value) in settings {
            session.set(name, value).unwrap();
        }
        sessions.push((name.to_owned(), session));
    };
    let chunks = |chunk_bytes| EngineConfig {
        chunk_bytes,
        ..common::config()
    };
    let small = || EngineConfig {
        small_table_bytes: u64::MAX,
        ..common::config()
    };
    add("by DataFusion's reader", small(), &[]).await;
    let filters = [("datafusion.execution.parquet.pushdown_filters", "true")];
    add("by DataFusion's reader, which filters", small(), &filters).await;
    add("not cooperative", small(), &[("coscan.cooperative", "off")]).await;
    for policy in ["relevance", "normal", "attach", "elevator"] {
        add(policy, chunks(2 << 10), &[("coscan.policy", policy)]).await;
    }
    let large = [("coscan.storage_model", "nsm")];
    add("large chunks", chunks(1 << 20), &large).await;
    for access_path in ["index", "sort", "switch", "smooth", "full"] {
        let settings = [("coscan.access_path", access_path)];
        add(access_path, chunks(8 << 10), &settings).await;
    }
    sessions
}

fn one<'a>(random: &mut StdRng, of: &[&'a str]) -> &'a str {
    of.choose(random).unwrap()
}

fn constant(random: &mut StdRng) -> String {
    let rare = [
        "CAST('NaN' AS DOUBLE)",
        "-CAST('NaN' AS DOUBLE)",
        "CAST('Infinity' AS DOUBLE)",
        "CAST('-Infinity' AS DOUBLE)",
        "CAST(NULL AS DOUBLE)",
    ];
    match random.random_range(0..8) {
        0 => one(random, &rare).to_owned(),
        1 => "-0.0".to_owned(),
        2 => "0.0".to_owned(),
        3 => "50.0".to_owned(),
        _ => format!("{}", f64::from(random.random_range(-8..30)) / 4.0),
    }
}

fn condition(random: &mut StdRng, depth: u32) -> String {
    let column = one(random, &["f", "f", "g", "h"]);
    let op = one(
        random,
        &["=", "<>", "<", "<=", ">", ">=", "IS DISTINCT FROM"],
    );
    let (a, b, c) = (constant(random), constant(random), constant(random));
    match random.random_range(0..if depth == 0 { 10 } else { 14 }) {
        // In parentheses, because IS DISTINCT FROM takes everything that follows.
        0..=4 => format!("({column} {op} {a})"),
        5 => format!("({a} {op} {column})"),
        6 => format!("{column} BETWEEN {a} AND {b}"),
        7 => format!("{column} IN ({a}, {b}, {c}, 7.25)"),
        8 => format!("{column} IS {}NULL", one(random, &["", "NOT "])),
        9 => format!("k BETWEEN 3 AND {}", random.random_range(0..40)),
        10 => format!("NOT ({})", condition(random, depth - 1)),
        other => {
            let (left, right) = (condition(random, depth - 1), condition(random, depth - 1));
            let op = if other == 11 { "OR" } else { "AND" };
            format!("({left} {op} {right})")
        }
    }
}

/// A query. For a sort also the number of rows to compare, in order; the oracle's query has no
/// LIMIT.
fn query(random: &mut StdRng) -> (String, Option<usize>) {
    let condition = condition(random, 2);
    let column = one(random, &["f", "g", "h"]);
    let direction = one(random, &["", " DESC", " NULLS FIRST", " DESC NULLS LAST"]);
    match random.random_range(0..8) {
        0 => {
            let sql =
                format!("SELECT min({column}), max({column}), count(*) FROM t WHERE {condition}");
            (sql, None)
        }
        1 => (
            format!("SELECT min({column}), max({column}), count({column}) FROM t"),
            None,
        ),
        2 => {
            let sql = format!("SELECT {column} FROM t ORDER BY {column}{direction}");
            (sql, Some(random.random_range(1..20)))
        }
        3 => {
            let sql =
                format!("SELECT {column} FROM t WHERE {condition} ORDER BY {column}{direction}");
            (sql, Some(random.random_range(1..20)))
        }
        4 => {
            let few = random.random_range(0..12);
            let sql = format!(
                "SELECT a.id, b.id FROM t a JOIN t b ON a.{column} = b.{column} AND a.k + 1 = b.k WHERE a.k < {few}"
            );
            (sql, None)
        }
        5 => (
            format!("SELECT id FROM t WHERE {condition} AND k < 12"),
            None,
        ),
        _ => (
            format!("SELECT id, {column} FROM t WHERE {condition}"),
            None,
        ),
    }
}

/// -0 and 0 are one value: their relative order is not promised.
fn unsigned(rows: Vec<String>) -> Vec<String> {
    let rows = rows.into_iter();
    rows.map(|row| row.replace("-0.0", "0.0")).collect()
}

async fn ask(seed: u64, queries: usize) {
    let table = table(seed);
    let oracle = oracle(&table.path).await;
    let maker = common::session(common::config(), &[("t", &table.path)]).await;
    run(&maker, "CREATE INDEX i ON t (k)").await.unwrap();
    let sessions = sessions(&table.path).await;
    let mut random = StdRng::seed_from_u64(seed);
    for number in 0..queries {
        let (sql, limit) = query(&mut random);
        // NaN has no sign in PostgreSQL.
        let plain = sql.replace("-CAST('NaN'", "CAST('NaN'");
        let mut expected = unsigned(plain_rows_in_order(&oracle, &plain).await);
        let asked = match limit {
            Some(limit) => format!("{sql} LIMIT {limit}"),
            None => sql,
        };
        match limit {
            Some(limit) => expected.truncate(limit),
            None => expected.sort_unstable(),
        }
        for (way, session) in &sessions {
            let mut found = unsigned(rows_in_order(session, &asked).await);
            if limit.is_none() {
                found.sort_unstable();
            }
            let context = format!("seed {seed}, query {number}, {way}: {asked}");
            assert_eq!(found.len(), expected.len(), "{context}");
            assert_eq!(found, expected, "{context}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn random_queries_over_floats_give_the_rows_of_datafusion_without_pruning() {
    for seed in 0..4 {
        ask(seed, 25).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "long: run by hand"]
async fn many_random_queries_over_floats() {
    for seed in 100..160 {
        ask(seed, 100).await;
    }
}

/// NaN of either sign is above all other numbers, whichever reader, file or row group it is in.
#[tokio::test(flavor = "multi_thread")]
async fn nan_is_above_all_wherever_it_is() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("");
    for (name, values) in [
        ("0.parquet", vec![1.0, -f64::NAN, 2.0]),
        ("1.parquet", vec![3.0, 4.0]),
        ("2.parquet", vec![2.0, 2.0, f64::NAN]),
    ] {
        let column: ArrayRef = Arc::new(Float64Array::from(values));
        let batch = RecordBatch::try_from_iter([("f", column)]).unwrap();
        common::write(&path.join(name), batch.schema(), &[batch], 100);
    }
    for small_table_bytes in [0, u64::MAX] {
        let config = EngineConfig {
            small_table_bytes,
            ..common::config()
        };
        let session = common::session(config, &[("t", &path)]).await;
        for (sql, expected) in [
            ("SELECT f FROM t WHERE f > 50", &["NaN", "NaN"][..]),
            ("SELECT f FROM t ORDER BY f DESC LIMIT 1", &["NaN"]),
            ("SELECT max(f), min(f) FROM t", &["NaN|1.0"]),
            (
                "SELECT f = 2, max(f), min(f) FROM t GROUP BY 1 ORDER BY 1",
                &["false|NaN|1.0", "true|2.0|2.0"],
            ),
            ("SELECT count(*) FROM t WHERE f >= 2 LIMIT 9", &["7"]),
            ("SELECT count(*) FROM t WHERE f < 2.5", &["4"]),
            (
                "SELECT f FROM t ORDER BY f LIMIT 9",
                &["1.0", "2.0", "2.0", "2.0", "3.0", "4.0", "NaN", "NaN"],
            ),
        ] {
            assert_eq!(rows_in_order(&session, sql).await, expected, "{sql}");
        }
    }
}

/// Bounds prune if the predicate is true for no NaN.
#[tokio::test(flavor = "multi_thread")]
async fn ranges_and_values_still_prune() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("t.parquet");
    let column: ArrayRef = Arc::new(Float64Array::from_iter_values((0..10_000).map(f64::from)));
    let batch = RecordBatch::try_from_iter([("f", column)]).unwrap();
    common::write(&path, batch.schema(), &[batch], 1000);
    let config = EngineConfig {
        chunk_bytes: 1,
        ..common::config()
    };
    let session = common::session(config, &[("t", &path)]).await;
    for (condition, pruned) in [
        ("f = 1500", true),
        ("f IN (1500, 1600)", true),
        ("f BETWEEN 1500 AND 1600", true),
        ("f > 9999", false),
        ("f < 0", false),
    ] {
        let sql = format!("SELECT * FROM t WHERE {condition}");
        let found = super::predicates::metric(&session, &sql, "chunks_pruned").await;
        assert_eq!(found > 0, pruned, "{condition}: {found}");
    }
}
