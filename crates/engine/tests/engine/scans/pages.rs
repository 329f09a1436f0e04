//! Promised: a row group that is cut into chunks is pruned chunk by chunk, as far as its page
//! index allows, for several ranges at once and also while a dynamic filter narrows. Proofs hold
//! per chunk. Files without a page index, with nulls in runs, and with pages that do not end where
//! the chunks do give plain DataFusion's rows. (Random queries: `predicates.rs`.)

use std::path::Path;
use std::sync::Arc;

use arrow::array::{ArrayRef, Int64Array, RecordBatch, StringArray};
use arrow::datatypes::{DataType, Field};
use coscan::{EngineConfig, Session};
use parquet::file::properties::{EnabledStatistics, WriterProperties};

use super::predicates::metric;
use crate::common::{self, collect, config, plain, plain_rows, rows};

const ROWS: i64 = 100_000;

/// One row group. k ascends; n ascends and is null in runs of 5000; x is random; s is like k, with
/// pages of other sizes.
fn write(path: &Path, statistics: EnabledStatistics, offset_index: bool) {
    let schema = common::schema(vec![
        Field::new("k", DataType::Int64, false),
        Field::new("n", DataType::Int64, true),
        Field::new("x", DataType::Int64, false),
        Field::new("s", DataType::Utf8, false),
    ]);
    let keys = || 0..ROWS;
    let columns: Vec<ArrayRef> = vec![
        Arc::new(Int64Array::from_iter_values(keys())),
        Arc::new(Int64Array::from_iter(
            keys().map(|k| (k / 5000 % 2 == 0).then_some(k / 10)),
        )),
        Arc::new(Int64Array::from_iter_values(
            keys().map(|k| k.wrapping_mul(0x5851_f42d_4c95_7f2d)),
        )),
        Arc::new(StringArray::from_iter_values(
            keys().map(|k| format!("a longer text, so that pages differ {k:08}")),
        )),
    ];
    let batch = RecordBatch::try_new(Arc::clone(&schema), columns).expect("a batch");
    let properties = WriterProperties::builder()
        .set_max_row_group_row_count(None)
        .set_data_page_row_count_limit(1000)
        .set_data_page_size_limit(32 << 10)
        .set_write_batch_size(100)
        .set_dictionary_enabled(false)
        .set_statistics_enabled(statistics)
        .set_offset_index_disabled(!offset_index)
        .build();
    common::write_with(path, schema, &[batch], properties);
}

async fn table(statistics: EnabledStatistics, offset_index: bool) -> (tempfile::TempDir, Session) {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("t.parquet");
    write(&path, statistics, offset_index);
    let config = EngineConfig {
        chunk_bytes: 128 << 10,
        ..config()
    };
    let session = common::session(config, &[("t", &path)]).await;
    (folder, session)
}

/// (chunks wanted, chunks pruned)
async fn chunks(session: &Session, sql: &str) -> (u64, u64) {
    (
        metric(session, sql, "chunks_wanted").await,
        metric(session, sql, "chunks_pruned").await,
    )
}

const QUERIES: [&str; 12] = [
    "SELECT count(*), sum(x) FROM t WHERE k BETWEEN 30000 AND 30999",
    "SELECT count(*), sum(x) FROM t WHERE k < 500 OR k BETWEEN 50000 AND 50100 OR k >= 99000",
    "SELECT count(*), sum(x) FROM t WHERE k IN (17, 40404, 99999)",
    "SELECT count(*), sum(x) FROM t WHERE s = 'a longer text, so that pages differ 00077777'",
    "SELECT count(*), sum(x) FROM t WHERE n IS NULL AND k < 20000",
    "SELECT count(*), sum(x) FROM t WHERE n IS NOT NULL AND k < 20000",
    "SELECT count(*), sum(n) FROM t WHERE n > 9000",
    "SELECT count(*), sum(n) FROM t WHERE n <> 4500 AND k > 45000",
    "SELECT count(*), min(k) FROM t WHERE NOT (n <= 9000)",
    "SELECT count(*), sum(x) FROM t WHERE k + n < 1000",
    "SELECT count(*), sum(x) FROM t WHERE k >= 20000 AND s < 'a longer text, so that pages differ 00025000' AND x > 0",
    "SELECT k, s FROM t WHERE x < 0 ORDER BY k DESC LIMIT 7",
];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rows_are_plain_datafusions_whatever_indexes_there_are() {
    let kinds = [
        (EnabledStatistics::Page, true),
        (EnabledStatistics::Chunk, true),
        (EnabledStatistics::None, true),
        (EnabledStatistics::Chunk, false),
    ];
    for (statistics, offset_index) in kinds {
        let (folder, session) = table(statistics, offset_index).await;
        let plain = plain(&[("t", &folder.path().join("t.parquet"))]).await;
        for sql in QUERIES {
            assert_eq!(
                rows(&session, sql).await,
                plain_rows(&plain, sql).await,
                "{statistics:?}, {offset_index}: {sql}"
            );
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn chunks_of_one_row_group_are_pruned_by_its_page_index() {
    let (_folder, session) = table(EnabledStatistics::Page, true).await;
    let (all, none) = chunks(&session, "SELECT sum(x) FROM t").await;
    assert!(all >= 40 && none == 0, "{all} chunks");
    // The share of the row group that each query wants, in percent, and in how many ranges. A range
    // costs up to two more chunks: neighbours into which the range's pages reach.
    let shares = [
        (1, 1),
        (2, 3),
        (0, 3),
        (0, 1),
        (10, 2),
        (10, 2),
        (5, 1),
        (25, 5),
        (5, 1),
        (100, 1),
        (5, 1),
        (100, 1),
    ];
    for (sql, (share, ranges)) in QUERIES.into_iter().zip(shares) {
        let most = (all * share).div_ceil(100) + 2 * ranges;
        let (wanted, pruned) = chunks(&session, sql).await;
        assert_eq!(wanted + pruned, all, "{sql}");
        assert!((1..=most).contains(&wanted), "{wanted} of {all}: {sql}");
    }
    // n is null in runs: half of the chunks hold only nulls, except those at the ends of the runs.
    let (wanted, _) = chunks(&session, "SELECT sum(x) FROM t WHERE n >= 0").await;
    assert!(
        (all / 2..=all / 2 + 20).contains(&wanted),
        "{wanted} of {all}"
    );
    // Without a page index nothing inside the row group is pruned.
    let (_folder, session) = table(EnabledStatistics::Chunk, true).await;
    let (wanted, pruned) = chunks(&session, QUERIES[0]).await;
    assert!(wanted >= 40 && pruned == 0, "{wanted} of {pruned}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_conjunct_is_proved_for_the_chunks_inside_a_range() {
    let (_folder, session) = table(EnabledStatistics::Page, true).await;
    // Only chunks at the two ends of the range read k: those in which it begins or ends, and those
    // into which a page of these reaches.
    let sql = "SELECT count(*), sum(x) FROM t WHERE k >= 20500 AND k < 70500";
    assert_eq!(
        rows(
            &session,
            "SELECT count(*) FROM t WHERE k >= 20500 AND k < 70500"
        )
        .await,
        ["50000"]
    );
    rows(&session, sql).await;
    let resident = async |column: &str| {
        let sql = format!(
            "SELECT count(*) FROM coscan.chunks WHERE concat(', ', resident, ',') LIKE '%, {column},%'"
        );
        rows(&session, &sql).await[0]
            .parse::<u64>()
            .expect("a number")
    };
    let (x, k) = (resident("x").await, resident("k").await);
    assert!(x >= 20, "{x} chunks with x");
    assert!((1..=4).contains(&k), "{k} chunks with k");
    // A column with nulls proves nothing for chunks with nulls, and for chunks into which pages
    // with nulls reach.
    let sql = "SELECT count(*) FROM t WHERE n >= 0";
    assert_eq!(rows(&session, sql).await, ["50000"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_dynamic_filter_withdraws_chunks_of_a_row_group() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("t.parquet");
    write(&path, EnabledStatistics::Page, true);
    let slow = EngineConfig {
        chunk_bytes: 128 << 10,
        bandwidth: Some(5_000_000),
        target_partitions: Some(1),
        ..config()
    };
    let session = common::session(slow, &[("t", &path)]).await;
    let sql = "SELECT k, x FROM t ORDER BY k LIMIT 5";
    let all = metric(
        &session,
        "SELECT count(k) FROM t WHERE x <> 5",
        "chunks_wanted",
    )
    .await;
    // The first chunks fill the heap with the smallest keys, or with larger ones that still exclude
    // all larger keys.
    let withdrawn = metric(&session, sql, "chunks_withdrawn").await;
    assert!(withdrawn > all / 4, "{withdrawn} of {all}");
    let stream = session.sql(sql).await.expect("planned");
    let keys: Vec<String> = collect(stream).await.expect("rows");
    let keys: Vec<&str> = keys
        .iter()
        .filter_map(|row| row.split('|').next())
        .collect();
    assert_eq!(keys, ["0", "1", "2", "3", "4"]);
}

/// A session with the row group in one chunk, read in batches of 256 rows.
async fn one_chunk(path: &Path, settings: &[&str]) -> Session {
    let config = EngineConfig {
        chunk_bytes: 64 << 20,
        ..config()
    };
    let session = common::session(config, &[("t", path)]).await;
    for setting in settings {
        rows(&session, setting).await;
    }
    rows(&session, "SET datafusion.execution.batch_size = 256").await;
    session
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn batches_of_a_chunk_are_ruled_out_by_its_page_index() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("t.parquet");
    write(&path, EnabledStatistics::Page, true);
    let ruled_out = async |settings: &[&str], sql: &str| {
        let session = one_chunk(&path, settings).await;
        metric(&session, sql, "batches_ruled_out").await
    };
    // Of 391 batches. A page has at most 1000 rows, so its rows are in up to five of them.
    for (sql, wanted) in [
        ("SELECT s FROM t WHERE k BETWEEN 30000 AND 30999", 1..=12),
        (
            "SELECT k FROM t WHERE k < 500 OR k > 99500 AND x <> 0",
            1..=14,
        ),
        ("SELECT s FROM t WHERE k IN (17, 40404, 99999)", 3..=18),
        ("SELECT k FROM t WHERE n > 9000 AND k <> 3", 20..=60),
        // Pages that are not sorted are not examined, and neither are conjuncts that statistics
        // prove.
        ("SELECT k FROM t WHERE x > 0", 391..=391),
        ("SELECT k FROM t WHERE k >= 0", 391..=391),
    ] {
        let left = 391 - ruled_out(&[], sql).await;
        assert!(wanted.contains(&left), "{sql}: {left} batches");
    }
    // A table has these settings from its declaration.
    let path = path.display();
    let declared = format!("CREATE EXTERNAL TABLE u STORED AS PARQUET LOCATION '{path}'");
    let sql = "SELECT s FROM u WHERE k BETWEEN 30000 AND 30999";
    for (setting, some) in [
        (
            "datafusion.execution.parquet.enable_page_index = true",
            true,
        ),
        (
            "datafusion.execution.parquet.enable_page_index = false",
            false,
        ),
        ("datafusion.execution.parquet.pruning = false", false),
    ] {
        let set = format!("SET {setting}");
        let ruled_out = ruled_out(&[&set, &declared], sql).await;
        assert_eq!(ruled_out > 0, some, "{setting}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn few_batches_are_decoded_without_those_before_them() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("t.parquet");
    write(&path, EnabledStatistics::Page, true);
    // With and without jobs.
    for (sql, bytes_max) in [
        ("SELECT s FROM t WHERE k BETWEEN 90000 AND 90040", 200 << 10),
        (
            "SELECT count(*), sum(x) FROM t WHERE k BETWEEN 90000 AND 90040",
            50 << 10,
        ),
    ] {
        let session = one_chunk(&path, &[]).await;
        rows(&session, sql).await;
        let decoded = session.engine().metrics().decode_bytes;
        assert!((1..=bytes_max).contains(&decoded), "{sql}: {decoded} bytes");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rows_are_plain_datafusions_where_batches_are_ruled_out() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("t.parquet");
    write(&path, EnabledStatistics::Page, true);
    let plain = plain(&[("t", &path)]).await;
    let session = one_chunk(&path, &[]).await;
    let more = [
        "SELECT * FROM t WHERE k BETWEEN 30100 AND 30140",
        "SELECT * FROM t WHERE k IN (17, 40404, 99999)",
        "SELECT * FROM t WHERE n > 9990",
        "SELECT s, x FROM t WHERE k BETWEEN 255 AND 257 OR s > 'a longer text, so that pages differ 00099998'",
        "SELECT s FROM t WHERE k = 50000 AND 1 / (k - 50001) < 0",
        "SELECT k FROM t WHERE k > 100 AND k < 120 AND x > 0 LIMIT 100",
        "SELECT a.s FROM t a JOIN t b ON a.k = b.n WHERE b.k BETWEEN 60100 AND 60140",
    ];
    // Repeatedly: at first a few batches are decoded alone, later all of them for all queries.
    for _ in 0..3 {
        for sql in QUERIES.iter().chain(&more) {
            let ours = rows(&session, sql).await;
            assert_eq!(ours, plain_rows(&plain, sql).await, "{sql}");
        }
    }
    for sql in [
        "SELECT k, s FROM t WHERE k > 99900 ORDER BY k LIMIT 5",
        "SELECT s FROM t WHERE k < 9 ORDER BY k",
    ] {
        let ours = common::rows_in_order(&session, sql).await;
        assert_eq!(
            ours,
            common::plain_rows_in_order(&plain, sql).await,
            "{sql}"
        );
    }
}
