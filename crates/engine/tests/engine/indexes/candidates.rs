//! Promised: if several indexes serve a query, the query uses the one with the fewest entries for
//! it, whatever the form of its conjuncts; if these are equal, the one whose conjuncts have the
//! narrowest form. A damaged index is left out. Rows are plain DataFusion's in any case.

use std::fs;
use std::path::Path;
use std::sync::Arc;

use arrow::array::{ArrayRef, Int32Array, RecordBatch};
use arrow::datatypes::{DataType, Field};
use coscan::Session;
use parquet::file::properties::WriterProperties;
use tempfile::TempDir;

use super::index_scans::run;
use crate::common::{self, rows};
use crate::scans::{metric, rows_of_explain};

/// The rows of one file; they take several leaves of an index.
const ROWS: i32 = 20_000;

/// `few` has two values, `many` has one per row, in another order than the rows.
fn write(path: &Path, first: i32) {
    let all = || first..first + ROWS;
    let columns: Vec<ArrayRef> = vec![
        Arc::new(Int32Array::from_iter_values(all().map(|row| row % 2))),
        Arc::new(Int32Array::from_iter_values(
            all().map(|row| row * 7 % 100_003),
        )),
        Arc::new(Int32Array::from_iter_values(all())),
    ];
    let fields = ["few", "many", "id"].map(|name| Field::new(name, DataType::Int32, false));
    let schema = common::schema(fields.to_vec());
    let batch = RecordBatch::try_new(Arc::clone(&schema), columns).unwrap();
    let properties = WriterProperties::builder()
        .set_data_page_row_count_limit(128)
        .set_write_batch_size(128);
    common::write_with(path, schema, &[batch], properties.build());
}

async fn table() -> (TempDir, Session) {
    let folder = tempfile::tempdir().unwrap();
    write(&folder.path().join("0.parquet"), 0);
    let session = common::session(common::config(), &[("t", &folder.path().join(""))]).await;
    for column in ["few", "many"] {
        let create = format!("CREATE INDEX by_{column} ON t ({column})");
        run(&session, &create).await.unwrap();
    }
    (folder, session)
}

/// The index that the query uses; checks that its rows are those of a full scan.
async fn used(session: &Session, sql: &str) -> String {
    session.set("coscan.access_path", "full").unwrap();
    let expected = rows(session, sql).await;
    session.set("coscan.access_path", "smooth").unwrap();
    assert_eq!(rows(session, sql).await, expected, "{sql}");
    let text = rows_of_explain(session, sql).await;
    let (_, name) = text.split_once("index_used=").unwrap();
    name.split([',', ']']).next().unwrap().trim().to_owned()
}

const EQUAL_AND_RANGE: &str = "SELECT id FROM t WHERE few = 1 AND many >= 500 AND many < 520";

#[tokio::test(flavor = "multi_thread")]
async fn the_fewest_entries_decide() {
    let (_folder, session) = table().await;
    // By form, `=` is the narrowest conjunct.
    let text = session.explain(EQUAL_AND_RANGE).await.unwrap();
    assert!(text.contains("SmoothScan: index=by_few,"), "{text}");
    assert!(text.contains("or index=by_many,"), "{text}");
    for path in ["smooth", "index", "sort", "switch"] {
        session.set("coscan.access_path", path).unwrap();
        let entries = metric(&session, EQUAL_AND_RANGE, "index_entries").await;
        assert!((1..=20).contains(&entries), "{path}: {entries}");
    }
    for (condition, index) in [
        ("few = 1 AND many >= 500 AND many < 520", "by_many"),
        ("few = 1 AND many > 90000", "by_many"),
        // Both indexes have as many leaves for this.
        ("few IN (0, 1) AND many > 500", "by_few"),
        ("many = 70 AND few >= 0", "by_many"),
        ("few >= 0 AND many >= 0", "by_few"),
        ("few = 0 AND many >= 0", "by_few"),
    ] {
        let sql = format!("SELECT id FROM t WHERE {condition}");
        assert_eq!(used(&session, &sql).await, index, "{condition}");
    }
}

/// A scan in the order of an index stays with that index.
#[tokio::test(flavor = "multi_thread")]
async fn an_order_that_an_index_gives_is_kept() {
    let (_folder, session) = table().await;
    let sql = "SELECT few, id FROM t WHERE few >= 1 AND many >= 500 AND many < 520 ORDER BY few";
    let text = session.explain(sql).await.unwrap();
    assert!(
        text.contains("index=by_few,") && text.contains("ordered"),
        "{text}"
    );
    assert!(!text.contains("by_many"), "{text}");
    assert_eq!(used(&session, sql).await, "by_few");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_damaged_candidate_is_left_out() {
    let (folder, session) = table().await;
    let files = fs::read_dir(folder.path().join("_coscan")).unwrap();
    let files = files.map(|entry| entry.unwrap().path());
    let is_data = |path: &Path| {
        let name = path.file_stem().unwrap().to_str().unwrap();
        name.starts_with("by_many") && path.extension().is_some_and(|e| e == "index")
    };
    for file in files.filter(|path| is_data(path)) {
        fs::write(file, b"").unwrap();
    }
    assert_eq!(used(&session, EQUAL_AND_RANGE).await, "by_few");
    let states = "SELECT state FROM coscan.indexes ORDER BY \"index\"";
    let states = common::rows_in_order(&session, states).await;
    assert_eq!(states[0], "ready");
    assert!(states[1].starts_with("broken"), "{states:?}");
}

/// An index that covers other files than the index with the narrowest form is not a candidate.
#[tokio::test(flavor = "multi_thread")]
async fn candidates_cover_the_same_files() {
    let (folder, session) = table().await;
    write(&folder.path().join("1.parquet"), ROWS);
    run(&session, "REFRESH INDEX by_few").await.unwrap();
    let text = session.explain(EQUAL_AND_RANGE).await.unwrap();
    assert!(
        text.contains("index=by_few,") && !text.contains("by_many"),
        "{text}"
    );
    assert_eq!(used(&session, EQUAL_AND_RANGE).await, "by_few");
    run(&session, "REFRESH INDEX by_many").await.unwrap();
    assert_eq!(used(&session, EQUAL_AND_RANGE).await, "by_many");
}

/// Row positions are those of the index that is used: two indexes may cover the same files in
/// different orders.
#[tokio::test(flavor = "multi_thread")]
async fn candidates_may_number_rows_otherwise() {
    let folder = tempfile::tempdir().unwrap();
    write(&folder.path().join("1.parquet"), 0);
    let session = common::session(common::config(), &[("t", &folder.path().join(""))]).await;
    run(&session, "CREATE INDEX by_many ON t (many)")
        .await
        .unwrap();
    // The new file comes before the other in the folder, but after it in the refreshed index.
    write(&folder.path().join("0.parquet"), ROWS);
    run(&session, "REFRESH INDEX by_many").await.unwrap();
    run(&session, "CREATE INDEX by_few ON t (few)")
        .await
        .unwrap();
    for low in [500, 30_000, 77_777] {
        let sql = format!(
            "SELECT id FROM t WHERE few = 1 AND many >= {low} AND many < {}",
            low + 100
        );
        assert_eq!(used(&session, &sql).await, "by_many");
    }
}
