//! Promised: bloom filters prune the chunks of row groups that cannot hold a value, as far as
//! plain DataFusion prunes row groups by them. They are read only for predicates that need certain
//! values, can be switched off, and never change a result, even if damaged.

use std::fs;
use std::path::Path;
use std::sync::Arc;

use arrow::array::{ArrayRef, Decimal128Array, Int64Array, RecordBatch, StringArray};
use arrow::datatypes::{DataType, Field};
use coscan::{EngineConfig, Session};
use parquet::file::properties::WriterProperties;
use parquet::file::reader::{FileReader, SerializedFileReader};

use super::predicates::metric;
use crate::common::{self, config, plain, plain_rows, rows};

const ROWS: i64 = 40_000;
const GROUPS: u64 = 10;

/// Ten row groups, all with the same bounds: k and s are scattered over them. No filter on n.
fn write(path: &Path, filters: bool) {
    let schema = common::schema(vec![
        Field::new("k", DataType::Int64, true),
        Field::new("s", DataType::Utf8, true),
        Field::new("m", DataType::Decimal128(12, 2), false),
        Field::new("n", DataType::Int64, false),
    ]);
    // 7919 and the number of rows have no common factor, so each key occurs once.
    let keys = || (0..ROWS).map(|row| row * 7919 % ROWS);
    let columns: Vec<ArrayRef> = vec![
        Arc::new(Int64Array::from_iter(
            keys().map(|k| (k % 100 != 3).then_some(2 * k)),
        )),
        Arc::new(StringArray::from_iter(
            keys().map(|k| (k % 100 != 4).then(|| format!("name {k:06}"))),
        )),
        Arc::new(
            Decimal128Array::from_iter_values(keys().map(|k| i128::from(2 * k)))
                .with_precision_and_scale(12, 2)
                .expect("a decimal"),
        ),
        Arc::new(Int64Array::from_iter_values(keys())),
    ];
    let batch = RecordBatch::try_new(Arc::clone(&schema), columns).expect("a batch");
    let groups = usize::try_from(ROWS).expect("small") / usize::try_from(GROUPS).expect("small");
    let properties = WriterProperties::builder()
        .set_max_row_group_row_count(Some(groups))
        .set_bloom_filter_enabled(filters)
        .set_column_bloom_filter_enabled("n".into(), false)
        .build();
    common::write_with(path, schema, &[batch], properties);
}

async fn table(filters: bool) -> (tempfile::TempDir, Session) {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("t.parquet");
    write(&path, filters);
    // A row group has about this size and becomes one chunk.
    let config = EngineConfig {
        chunk_bytes: 160 << 10,
        ..config()
    };
    let session = common::session(config, &[("t", &path)]).await;
    (folder, session)
}

/// The row groups from which plain DataFusion reads something, by its own metrics.
async fn groups_of_plain(folder: &Path, sql: &str) -> u64 {
    let plain = plain(&[("t", &folder.join("t.parquet"))]).await;
    let text = plain_rows(&plain, &format!("EXPLAIN ANALYZE {sql}")).await;
    let text = text.join("\n");
    let key = "row_groups_pruned_bloom_filter=";
    let at = text.find(key).unwrap_or_else(|| panic!("no {key}: {text}"));
    let counts = &text[at + key.len()..];
    let matched = counts.split("→ ").nth(1).expect("matched");
    let digits: String = matched.chars().take_while(char::is_ascii_digit).collect();
    digits.parse().expect("a number")
}

const QUERIES: [&str; 6] = [
    "SELECT count(*), min(n) FROM t WHERE k = 41234",
    "SELECT count(*), min(n) FROM t WHERE k = 41235",
    "SELECT count(*), min(n) FROM t WHERE s IN ('name 000017', 'name 000018x', 'name 031111')",
    "SELECT count(*), min(n) FROM t WHERE s = 'name 012345x' AND n > 5",
    "SELECT count(*), min(n) FROM t WHERE k = 41235 OR s = 'name 000017'",
    "SELECT count(*), min(n) FROM t WHERE m = 123.46 AND k <> 7",
];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn row_groups_are_pruned_as_plain_datafusion_does() {
    let (folder, session) = table(true).await;
    let (unfiltered_folder, unfiltered) = table(false).await;
    let plain = plain(&[("t", &unfiltered_folder.path().join("t.parquet"))]).await;
    let all = metric(&session, "SELECT sum(n) FROM t", "chunks_wanted").await;
    assert_eq!(all, GROUPS);
    let mut pruned_somewhere = 0;
    for sql in QUERIES {
        let expected = plain_rows(&plain, sql).await;
        assert_eq!(rows(&session, sql).await, expected, "{sql}");
        assert_eq!(rows(&unfiltered, sql).await, expected, "{sql}");
        let matched = groups_of_plain(folder.path(), sql).await;
        let wanted = metric(&session, sql, "chunks_wanted").await;
        assert_eq!(wanted, matched, "{sql}");
        if matched < GROUPS {
            let pruned = metric(&session, sql, "chunks_pruned_by_bloom_filter").await;
            assert_eq!(pruned, all - wanted, "{sql}");
            pruned_somewhere += 1;
        }
    }
    assert!(pruned_somewhere >= 4, "{pruned_somewhere}");
    // No filter is read for a predicate that it cannot answer, or when filters are switched off.
    let requests = || session.engine().metrics().io_requests;
    rows(&session, "SELECT sum(n), count(k) FROM t").await;
    let before = requests();
    rows(&session, "SELECT sum(n), count(k) FROM t WHERE k > 5").await;
    assert_eq!(requests(), before, "all was in memory");
    session
        .set("datafusion.execution.parquet.bloom_filter_on_read", "false")
        .expect("a setting");
    // As in DataFusion, a table keeps the Parquet options that it was registered with.
    let path = folder.path().join("t.parquet");
    let path = path.to_str().expect("UTF-8");
    session.register("u", path).await.expect("registered");
    rows(&session, &QUERIES[0].replace("FROM t", "FROM u")).await;
    assert_eq!(requests(), before, "switched off");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_damaged_filter_is_no_filter() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("t.parquet");
    write(&path, true);
    let reader =
        SerializedFileReader::new(fs::File::open(&path).expect("opened")).expect("a footer");
    let mut bytes = fs::read(&path).expect("read");
    for group in reader.metadata().row_groups() {
        let start = group.column(0).bloom_filter_offset().expect("a filter");
        let start = usize::try_from(start).expect("small");
        bytes[start..start + 16].fill(0xff);
    }
    fs::write(&path, bytes).expect("written");
    let session = common::session(config(), &[("t", &path)]).await;
    let sql = "SELECT count(*) FROM t WHERE k = 41234";
    assert_eq!(rows(&session, sql).await, ["1"]);
    let sql = "SELECT count(*) FROM t WHERE k = 41235";
    assert_eq!(rows(&session, sql).await, ["0"]);
}
