//! Promised: a join's dynamic filter is evaluated in the scan if that saves decoding columns, and
//! left to the join if it saves none. The query's own conjuncts are always evaluated in the scan,
//! however many there are. A filter also narrows small tables, by whose rows joins below it filter
//! large ones. The choice may change in the middle of a chunk in which few rows pass.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use arrow::array::{ArrayRef, Int64Array, RecordBatch};
use arrow::datatypes::{DataType, Field};
use coscan::{EngineConfig, Session};
use futures::future::join_all;

use super::predicates::rows_of_explain;
use crate::common::{self, config, plain, plain_rows, rows};

const ROWS: i64 = 60_000;
/// More distinct keys than DataFusion puts into a list (150), fewer than `ROWS`, from the whole
/// range of keys.
const BUILD_ROWS: i64 = 2_000;

fn write(path: &Path, keys: impl Iterator<Item = i64> + Clone) {
    write_named(path, ["k", "x"], keys);
}

/// A table of keys and their threefold.
fn write_named(path: &Path, names: [&str; 2], keys: impl Iterator<Item = i64> + Clone) {
    let schema = common::schema(
        names
            .map(|name| Field::new(name, DataType::Int64, false))
            .to_vec(),
    );
    let batch = RecordBatch::try_new(
        Arc::clone(&schema),
        vec![
            Arc::new(Int64Array::from_iter_values(keys.clone())),
            Arc::new(Int64Array::from_iter_values(keys.map(|k| k * 3))),
        ],
    )
    .expect("a batch");
    common::write(path, schema, &[batch], 10_000);
}

/// The number of rows that the scan of `probe` returned to its parent.
async fn rows_of_the_scan(session: &Session, sql: &str) -> String {
    let text = rows_of_explain(session, sql).await;
    let mut lines = text.lines();
    let line = lines
        .find(|line| line.contains("CScan") && line.contains("probe.parquet"))
        .unwrap_or_else(|| panic!("no scan of probe in {text}"));
    let (_, rows) = line.split_once("output_rows=").expect("a number of rows");
    let end = rows.find([',', ']']).expect("an end");
    rows[..end].to_owned()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn hash_look_ups_are_made_where_they_save_columns() {
    let folder = tempfile::tempdir().expect("a folder");
    let (probe, build) = (
        folder.path().join("probe.parquet"),
        folder.path().join("build.parquet"),
    );
    // 7919 is a prime: each key occurs once, in no order.
    write(&probe, (0..ROWS).map(|i| i * 7919 % ROWS));
    write(&build, (0..BUILD_ROWS).map(|i| i * (ROWS / BUILD_ROWS)));
    let tables = [("probe", probe.as_path()), ("build", build.as_path())];
    let session = common::session(config(), &tables).await;
    let plain = plain(&tables).await;
    // 70 conjuncts, so that the last of them and the filter are evaluated as one.
    let many: Vec<String> = (0..70)
        .map(|i| format!("probe.k % {} <> 1", 1000 + i))
        .collect();
    let many = format!(
        "SELECT count(*) FROM probe JOIN build ON probe.k = build.k WHERE {}",
        many.join(" AND ")
    );
    for (sql, scanned) in [
        (
            "SELECT count(*) FROM probe JOIN build ON probe.k = build.k",
            Some("60.00 K"),
        ),
        (
            "SELECT sum(probe.x) FROM probe JOIN build ON probe.k = build.k",
            Some("2.00 K"),
        ),
        (
            "SELECT sum(probe.x) FROM probe JOIN build ON probe.k = build.k WHERE probe.x > 30",
            Some("59.99 K"),
        ),
        (many.as_str(), None),
    ] {
        assert_eq!(
            rows(&session, sql).await,
            plain_rows(&plain, sql).await,
            "{sql}"
        );
        if let Some(scanned) = scanned {
            assert_eq!(rows_of_the_scan(&session, sql).await, scanned, "{sql}");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_filter_narrows_the_small_tables_of_joins_below_it() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = |name: &str| folder.path().join(format!("{name}.parquet"));
    write(&path("probe"), 0..ROWS);
    write_named(
        &path("days"),
        ["day", "week"],
        (0..BUILD_ROWS).map(|i| i * 30),
    );
    write_named(
        &path("few"),
        ["wanted", "by"],
        (0..BUILD_ROWS).map(|i| i * 90),
    );
    let paths = ["probe", "days", "few"].map(|name| (name, path(name)));
    let tables: Vec<(&str, &Path)> = paths.iter().map(|(n, p)| (*n, p.as_path())).collect();
    let small = EngineConfig {
        small_table_bytes: 256 << 10,
        ..config()
    };
    let session = common::session(small, &tables).await;
    let plain = plain(&tables).await;
    let sql = "SELECT q.week, q.s FROM (SELECT week, sum(x) AS s FROM probe
               JOIN days ON probe.k = days.day GROUP BY week) q
               JOIN few ON few.wanted = q.week WHERE few.by < 2700";
    assert_eq!(rows(&session, sql).await, plain_rows(&plain, sql).await);
    // Ten of the days are wanted, of which `days` has one row group.
    assert_eq!(rows_of_the_scan(&session, sql).await, "10");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn few_rows_of_a_chunk_may_have_different_columns_decoded() {
    const MANY: i64 = 600_000;
    let folder = tempfile::tempdir().expect("a folder");
    let path = |name: &str| folder.path().join(format!("{name}.parquet"));
    let field = |name| Field::new(name, DataType::Int64, false);
    let names = ["k", "x", "y", "z"];
    let schema = common::schema(names.map(field).to_vec());
    let scattered = |i: i64, by: i64| i.wrapping_mul(by).rem_euclid(1_000_003);
    let column = |by| Int64Array::from_iter_values((0..MANY).map(|i| scattered(i, by)));
    let columns = [7919, 104_729, 1_299_709, 15_485_863].map(|by| Arc::new(column(by)) as ArrayRef);
    let batch = RecordBatch::try_new(Arc::clone(&schema), columns.to_vec()).expect("a batch");
    common::write(&path("probe"), schema, &[batch], 200_000);
    // `few` has one key in a thousand; `most` has nearly all, so that lookups do not pay.
    write(&path("few"), (0..1_000_003).filter(|k| k % 1000 == 3));
    write(&path("most"), (0..1_000_003).filter(|x| x % 100 != 0));
    let (probe, few, most) = (path("probe"), path("few"), path("most"));
    let tables = [
        ("probe", probe.as_path()),
        ("few", few.as_path()),
        ("most", most.as_path()),
    ];
    let config = EngineConfig {
        memory_bytes: Some(96 << 20),
        chunk_bytes: 16 << 20,
        target_partitions: Some(1),
        ..config()
    };
    let first = common::session(config, &tables).await;
    let plain = plain(&tables).await;
    let sql = "SELECT probe.k, probe.x, probe.y, probe.z FROM probe \
               JOIN few ON probe.k = few.k JOIN most ON probe.x = most.k";
    let expected = plain_rows(&plain, sql).await;
    for round in 0..3 {
        let asked = (0..4).map(|_| {
            let session = first.engine().session();
            session.set("coscan.share_operators", "off").expect("set");
            async move { rows(&session, sql).await }
        });
        let asked = tokio::time::timeout(Duration::from_secs(60), join_all(asked));
        for answer in asked.await.expect("every query ends in time") {
            assert!(answer == expected, "{round}");
        }
    }
}
