//! Promised: whatever the access path, policy, trigger, page layout and memory, an index scan
//! returns plain DataFusion's rows, each once, in order if the query needs one. Files that changed
//! or came after the index was built are scanned. A damaged index is noticed and costs time, not
//! rows. Indexes outlive their session, and columns that cannot be indexed are refused by name.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

use arrow::array::{
    ArrayRef, Date32Array, Decimal128Array, Float64Array, Int32Array, Int64Array, RecordBatch,
    StringArray, TimestampMicrosecondArray,
};
use arrow::datatypes::{DataType, Field, SchemaRef, TimeUnit};
use coscan::{Disk, EngineConfig, IndexBuild, LocalStore, Session, SystemDisk};
use parquet::file::properties::WriterProperties;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use tempfile::TempDir;

use crate::common::{self, collect, plain, plain_rows, rows, rows_in_order};
use crate::scans::{metric, rows_of_explain};

pub(crate) const PATHS: [&str; 5] = ["full", "index", "sort", "switch", "smooth"];

pub(crate) fn schema() -> SchemaRef {
    common::schema(vec![
        Field::new("id", DataType::Int64, false),
        Field::new("k", DataType::Int32, true),
        Field::new("d", DataType::Date32, false),
        Field::new("s", DataType::Utf8, true),
        Field::new("p", DataType::Decimal128(15, 2), true),
        Field::new("t", DataType::Timestamp(TimeUnit::Microsecond, None), true),
        Field::new("f", DataType::Float64, false),
    ])
}

/// Random rows; if `clustered`, in the order of k.
pub(crate) fn batch(random: &mut StdRng, first: i64, rows: usize, clustered: bool) -> RecordBatch {
    let mut keys: Vec<i32> = (0..rows).map(|_| random.random_range(0..1000)).collect();
    if clustered {
        keys.sort_unstable();
    }
    let mut some = |one_in: u32| random.random_range(0..one_in) > 0;
    let nulls: Vec<bool> = (0..rows).map(|_| some(20)).collect();
    let if_some = |at: usize, other: usize| nulls[(at + other) % rows];
    let columns: Vec<ArrayRef> = vec![
        Arc::new(Int64Array::from_iter_values(first..first + rows as i64)),
        Arc::new(Int32Array::from_iter(
            (0..rows).map(|r| if_some(r, 0).then_some(keys[r])),
        )),
        Arc::new(Date32Array::from_iter_values(
            keys.iter().map(|k| 10_000 + k / 3),
        )),
        Arc::new(StringArray::from_iter((0..rows).map(|r| {
            if_some(r, 1).then(|| format!("{:c>3}-{}", keys[r] % 97, keys[r]))
        }))),
        Arc::new(
            Decimal128Array::from_iter(
                (0..rows).map(|r| if_some(r, 2).then(|| i128::from(keys[r]) * 25 - 5000)),
            )
            .with_precision_and_scale(15, 2)
            .unwrap(),
        ),
        Arc::new(TimestampMicrosecondArray::from_iter((0..rows).map(|r| {
            if_some(r, 3).then_some(i64::from(keys[r]) * 1_000_003)
        }))),
        Arc::new(Float64Array::from_iter_values(
            keys.iter().map(|k| f64::from(*k) / 7.0),
        )),
    ];
    RecordBatch::try_new(schema(), columns).unwrap()
}

/// The layout of a file's pages.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Layout {
    /// Every column's pages begin at the same rows.
    Aligned,
    /// Pages of a number of bytes, so that each column's pages begin at other rows.
    Ragged,
    /// No page index: the row group is the page.
    NoPageIndex,
}

pub(crate) fn write(path: &Path, batches: &[RecordBatch], layout: Layout) {
    let properties = WriterProperties::builder().set_max_row_group_row_count(Some(4000));
    let properties = match layout {
        Layout::Aligned => properties
            .set_data_page_row_count_limit(128)
            .set_write_batch_size(128)
            .set_data_page_size_limit(usize::MAX),
        Layout::Ragged => properties
            .set_data_page_size_limit(700)
            .set_write_batch_size(50),
        Layout::NoPageIndex => properties.set_offset_index_disabled(true),
    };
    common::write_with(path, schema(), batches, properties.build());
}

pub(crate) struct Table {
    _folder: TempDir,
    pub(crate) path: PathBuf,
}

/// A table of three files, each with another layout and one of them clustered.
pub(crate) fn table(seed: u64) -> Table {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("t");
    fs::create_dir(&path).unwrap();
    let mut random = StdRng::seed_from_u64(seed);
    let layouts = [Layout::Aligned, Layout::Ragged, Layout::NoPageIndex];
    let mut first = 0;
    for (number, layout) in layouts.into_iter().enumerate() {
        let rows = random.random_range(3000..9000);
        let file = path.join(format!("{number}.parquet"));
        write(
            &file,
            &[batch(&mut random, first, rows, number == 1)],
            layout,
        );
        first += rows as i64;
    }
    Table {
        _folder: folder,
        path,
    }
}

pub(crate) async fn session(table: &Table, config: EngineConfig) -> Session {
    common::session(config, &[("t", &table.path.join(""))]).await
}

pub(crate) async fn run(session: &Session, sql: &str) -> datafusion::error::Result<Vec<String>> {
    match session.sql(sql).await {
        Ok(rows) => collect(rows).await,
        Err(coscan::Error::Query(error)) => Err(error),
        Err(error) => panic!("{sql}: {error}"),
    }
}

pub(crate) async fn indexed(table: &Table, config: EngineConfig, columns: &[&str]) -> Session {
    let session = session(table, config).await;
    for column in columns {
        let sql = format!("CREATE INDEX i_{column} ON t ({column})");
        let made = run(&session, &sql).await.unwrap();
        assert_eq!(made.len(), 1, "{sql}: {made:?}");
    }
    session
}

const QUERIES: [&str; 13] = [
    "SELECT * FROM t WHERE k = 17",
    "SELECT id, s FROM t WHERE k IN (3, 999, 500, 501) AND id % 2 = 0",
    "SELECT * FROM t WHERE k BETWEEN 100 AND 130 AND s IS NOT NULL",
    "SELECT count(*), sum(k), min(id) FROM t WHERE k < 5",
    "SELECT count(*), sum(id), max(s) FROM t WHERE k >= 0",
    "SELECT id FROM t WHERE k > 2000",
    "SELECT id, k FROM t WHERE (k = 1 OR k = 900) AND f < 100.0",
    "SELECT id, d FROM t WHERE d >= DATE '1998-01-01' AND d < DATE '1998-01-08'",
    "SELECT id, s FROM t WHERE s LIKE '12c-%' OR s = '5cc-5'",
    "SELECT id, s FROM t WHERE s LIKE '9%' AND k > 700",
    "SELECT id, p FROM t WHERE p = 17.50 OR p > 195.0",
    "SELECT id, t FROM t WHERE t BETWEEN TIMESTAMP '1970-01-01T00:00:10' AND TIMESTAMP '1970-01-01T00:00:20'",
    "SELECT k, count(*) FROM t WHERE k > 990 AND d > DATE '1990-01-01' GROUP BY k",
];

const COLUMNS: [&str; 5] = ["k", "d", "s", "p", "t"];

#[tokio::test(flavor = "multi_thread")]
async fn every_access_path_gives_the_same_rows() {
    let table = table(1);
    let session = indexed(&table, common::config(), &COLUMNS).await;
    let plain = plain(&[("t", &table.path)]).await;
    for sql in QUERIES {
        let expected = plain_rows(&plain, sql).await;
        for path in PATHS {
            session.set("coscan.access_path", path).unwrap();
            assert_eq!(rows(&session, sql).await, expected, "{path}: {sql}");
            let text = session.explain(sql).await.unwrap();
            let by_index = text.contains("SmoothScan:") || text.contains("IndexScan:");
            assert_eq!(by_index, path != "full", "{path}: {sql}\n{text}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn new_and_changed_files_are_scanned_until_the_index_is_refreshed() {
    let table = table(2);
    let session = indexed(&table, common::config(), &["k"]).await;
    let mut random = StdRng::seed_from_u64(7);
    let file = |name: &str| table.path.join(name);
    write(
        &file("3.parquet"),
        &[batch(&mut random, 50_000, 2000, false)],
        Layout::Aligned,
    );
    write(
        &file("1.parquet"),
        &[batch(&mut random, 60_000, 1500, false)],
        Layout::Ragged,
    );
    fs::remove_file(file("2.parquet")).unwrap();
    let plain = plain(&[("t", &table.path)]).await;
    let sql = "SELECT * FROM t WHERE k BETWEEN 40 AND 60";
    let expected = plain_rows(&plain, sql).await;
    assert_eq!(rows(&session, sql).await, expected);
    let text = session.explain(sql).await.unwrap();
    assert!(text.contains("files_not_covered=2"), "{text}");
    let sql_with_limit = format!("{sql} LIMIT 5");
    assert_eq!(rows(&session, &sql_with_limit).await.len(), 5);

    run(&session, "REFRESH INDEX i_k").await.unwrap();
    assert_eq!(rows(&session, sql).await, expected);
    let text = session.explain(sql).await.unwrap();
    assert!(
        text.contains("SmoothScan:") && !text.contains("not_covered"),
        "{text}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn an_index_outlives_its_session() {
    let table = table(3);
    drop(indexed(&table, common::config(), &["k"]).await);
    let session = session(&table, common::config()).await;
    let indexes = rows(&session, "SHOW INDEXES").await;
    assert_eq!(indexes.len(), 1, "{indexes:?}");
    assert!(indexes[0].starts_with("i_k|t|k|3|"), "{indexes:?}");
    assert!(indexes[0].ends_with("|ready"), "{indexes:?}");
    let text = session
        .explain("SELECT * FROM t WHERE k = 1")
        .await
        .unwrap();
    assert!(text.contains("SmoothScan: index=i_k"), "{text}");

    let again = run(&session, "CREATE INDEX i_k ON t (k)")
        .await
        .unwrap_err();
    assert!(
        again.to_string().contains("index i_k already exists"),
        "{again}"
    );
    let nothing = run(&session, "CREATE INDEX IF NOT EXISTS i_k ON t (k)")
        .await
        .unwrap();
    assert!(nothing.is_empty());
    run(&session, "DROP INDEX i_k").await.unwrap();
    assert!(rows(&session, "SHOW INDEXES").await.is_empty());
    let left: Vec<_> = fs::read_dir(table.path.join("_coscan")).unwrap().collect();
    assert!(left.is_empty(), "{left:?}");
    let missing = run(&session, "DROP INDEX i_k").await.unwrap_err();
    assert!(missing.to_string().contains("no index i_k"), "{missing}");
    assert!(
        run(&session, "DROP INDEX IF EXISTS i_k")
            .await
            .unwrap()
            .is_empty()
    );
    let text = session
        .explain("SELECT * FROM t WHERE k = 1")
        .await
        .unwrap();
    assert!(!text.contains("SmoothScan"), "{text}");
}

#[tokio::test(flavor = "multi_thread")]
async fn columns_that_cannot_be_indexed_are_refused_by_name() {
    let table = table(4);
    let session = session(&table, common::config()).await;
    // The view's k is the table's id: an index on it would be one on the table's k.
    run(&session, "CREATE VIEW v AS SELECT id AS k FROM t")
        .await
        .unwrap();
    for (sql, complaint) in [
        (
            "CREATE INDEX i ON t (f)",
            "column f is of type Float64, which cannot be indexed",
        ),
        ("CREATE INDEX i ON t (nope)", "has no column nope"),
        ("CREATE INDEX i ON nope (k)", "nope"),
        ("CREATE INDEX i ON t (k, s)", "several columns"),
        ("REFRESH INDEX nope", "no index nope"),
        ("CREATE INDEX i ON coscan.scans (scan)", "nothing to index"),
        ("CREATE INDEX i ON v (k)", "nothing to index"),
    ] {
        let error = run(&session, sql).await.unwrap_err().to_string();
        assert!(error.contains(complaint), "{sql}: {error}");
    }
}

/// The path of the index's data file.
fn data_file(table: &Table) -> PathBuf {
    let files = fs::read_dir(table.path.join("_coscan")).unwrap();
    let mut files = files.map(|file| file.unwrap().path());
    files
        .find(|path| path.extension().is_some_and(|e| e == "index"))
        .unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_damaged_index_costs_time_and_no_rows() {
    let table = table(5);
    let builder = indexed(&table, common::config(), &["k"]).await;
    let plain = plain(&[("t", &table.path)]).await;
    let sql = "SELECT * FROM t WHERE k BETWEEN 10 AND 600";
    let expected = plain_rows(&plain, sql).await;
    let file = data_file(&table);
    let good = fs::read(&file).unwrap();
    let mut random = StdRng::seed_from_u64(5);
    for round in 0..24 {
        let mut bad = good.clone();
        match round {
            0 => bad.clear(),
            1 => bad.truncate(good.len() / 2),
            2 => bad.truncate(good.len() - 1),
            _ => {
                let at = random.random_range(0..bad.len());
                bad[at] ^= 1 << random.random_range(0..8);
            }
        }
        fs::write(&file, &bad).unwrap();
        let session = session(&table, common::config()).await;
        for path in ["smooth", "sort", "switch", "index"] {
            session.set("coscan.access_path", path).unwrap();
            assert_eq!(rows(&session, sql).await, expected, "round {round}, {path}");
        }
    }
    fs::remove_file(&file).unwrap();
    assert_eq!(rows(&builder, sql).await, expected);
    let state = rows(&builder, "SELECT state FROM coscan.indexes").await;
    assert!(state[0].starts_with("broken: "), "{state:?}");
    run(&builder, "REFRESH INDEX i_k").await.unwrap();
    assert_eq!(
        rows(&builder, "SELECT state FROM coscan.indexes").await,
        ["ready"]
    );
    assert_eq!(rows(&builder, sql).await, expected);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_point_query_reads_a_page_and_not_the_table() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("t.parquet");
    let mut random = StdRng::seed_from_u64(9);
    write(
        &path,
        &[batch(&mut random, 0, 40_000, false)],
        Layout::Aligned,
    );
    let session = common::session(common::config(), &[("t", &path)]).await;
    run(&session, "CREATE INDEX by_id ON t (id)").await.unwrap();
    let sql = "SELECT * FROM t WHERE id = 12345";
    for name in ["pages_read", "pages_with_results", "index_leaves"] {
        assert_eq!(metric(&session, sql, name).await, 1, "{name}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_dense_answer_ends_as_a_cooperative_scan() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("t.parquet");
    let mut random = StdRng::seed_from_u64(10);
    write(
        &path,
        &[batch(&mut random, 0, 80_000, false)],
        Layout::Aligned,
    );
    let config = EngineConfig {
        chunk_bytes: 32 << 10,
        ..common::config()
    };
    let session = common::session(config, &[("t", &path)]).await;
    run(&session, "CREATE INDEX i ON t (k)").await.unwrap();
    // The elastic policy estimates the costs of pages, which are unpredictable on a busy machine.
    session.set("coscan.smooth_policy", "greedy").unwrap();
    let sql = "SELECT * FROM t WHERE k >= 0";
    let left = metric(&session, sql, "pages_left_to_full_scan").await;
    let read = metric(&session, sql, "pages_read").await;
    assert!(left > 400 && read < 200, "{left} left, {read} read");
}

/// As a disjunction, a list of ten thousand keys would overflow the stack.
#[tokio::test(flavor = "multi_thread")]
async fn a_long_list_of_keys_is_answered_by_the_index() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("t.parquet");
    let mut random = StdRng::seed_from_u64(11);
    write(
        &path,
        &[batch(&mut random, 0, 60_000, false)],
        Layout::Aligned,
    );
    let session = common::session(common::config(), &[("t", &path)]).await;
    let plain = plain(&[("t", &path)]).await;
    for column in ["id", "s"] {
        run(
            &session,
            &format!("CREATE INDEX i_{column} ON t ({column})"),
        )
        .await
        .unwrap();
    }
    let ids: Vec<String> = (0..20_000).map(|n| (n * 7).to_string()).collect();
    let texts: Vec<String> = (0..100).map(|n| format!("'c{n}-{}'", n * 10)).collect();
    for (column, keys) in [("id", ids.as_slice()), ("s", &texts)] {
        let sql = format!("SELECT * FROM t WHERE {column} IN ({})", keys.join(","));
        assert_eq!(
            rows(&session, &sql).await,
            plain_rows(&plain, &sql).await,
            "{column}"
        );
    }
    // Keys that are close together are in few of the index's 15 leaves.
    let few: Vec<String> = (0..100).map(|n| (20_000 + n).to_string()).collect();
    let sql = format!("SELECT * FROM t WHERE id IN ({})", few.join(","));
    assert_eq!(metric(&session, &sql, "index_leaves").await, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn indexes_are_kept_in_the_folder_that_a_session_names() {
    let table = table(11);
    let folders = tempfile::tempdir().unwrap();
    let named = folders.path().join("indexes");
    let name = named.to_str().unwrap();
    let query = "SELECT * FROM t WHERE k = 17";
    let expected = plain_rows(&plain(&[("t", &table.path)]).await, query).await;

    let maker = session(&table, common::config()).await;
    maker.set("coscan.index_folder", name).unwrap();
    run(&maker, "CREATE INDEX i ON t (k)").await.unwrap();
    assert!(!table.path.join("_coscan").exists());
    assert!(named.join("i.index.json").exists());

    // Another engine finds the index when the folder is set, even after the table was registered.
    let other = session(&table, common::config()).await;
    assert!(rows(&other, "SHOW INDEXES").await.is_empty());
    let set = format!("SET coscan.index_folder = '{name}'");
    run(&other, &set).await.unwrap();
    assert_eq!(rows(&other, "SHOW coscan.index_folder").await, [name]);
    let text = other.explain(query).await.unwrap();
    assert!(text.contains("SmoothScan: index=i,"), "{text}");
    assert_eq!(rows(&other, query).await, expected);
    let config = EngineConfig {
        index_folder: Some(name.to_owned()),
        ..common::config()
    };
    let configured = session(&table, config).await;
    assert_eq!(rows(&configured, "SHOW INDEXES").await.len(), 1);

    // If two indexes have one name, the one in the set folder is meant. An index is refreshed in
    // its own folder, whichever folder is set.
    run(&other, "SET coscan.index_folder = ''").await.unwrap();
    run(&other, "REFRESH INDEX i").await.unwrap();
    run(&other, "CREATE INDEX i ON t (s)").await.unwrap();
    let folders = rows(&other, "SELECT folder FROM coscan.indexes").await;
    assert_eq!(folders.len(), 2, "{folders:?}");
    for sql in ["DROP INDEX i", "DROP INDEX IF EXISTS i"] {
        let several = run(&other, sql).await.unwrap_err().to_string();
        assert!(several.contains("several indexes i"), "{several}");
    }
    run(&other, &set).await.unwrap();
    run(&other, "DROP INDEX i").await.unwrap();
    assert!(!named.join("i.index.json").exists());
    assert!(table.path.join("_coscan/i.index.json").exists());

    for wrong in ["/dev/null/indexes", "no such://place"] {
        let refused = maker.set("coscan.index_folder", wrong).unwrap_err();
        let refused = refused.to_string();
        assert!(
            refused.contains(&format!("coscan.index_folder: {wrong}: ")),
            "{refused}"
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_index_is_refreshed_on_its_own_table_only() {
    let (first, second) = (table(12), table(13));
    drop(indexed(&first, common::config(), &["k"]).await);
    let session = session(&first, common::config()).await;
    let path = second.path.to_str().unwrap();
    session.register("t", path).await.unwrap();
    let refused = run(&session, "REFRESH INDEX i_k").await.unwrap_err();
    let refused = refused.to_string();
    assert!(
        refused.contains(path) && refused.contains("another table of that name"),
        "{refused}"
    );
    assert!(!second.path.join("_coscan").exists());
}

/// One file, a folder, a pattern, several places, a folder of a partition: every session that
/// names the table in this way finds an index that was built over it.
#[tokio::test(flavor = "multi_thread")]
async fn indexes_of_external_tables_are_found() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().to_str().unwrap();
    let mut random = StdRng::seed_from_u64(14);
    for place in ["file", "folder", "many/a", "many/b", "year=1998"] {
        fs::create_dir_all(folder.path().join(place)).unwrap();
        for name in ["0.parquet", "1.parquet"] {
            let path = folder.path().join(place).join(name);
            write(
                &path,
                &[batch(&mut random, 0, 2000, false)],
                Layout::Aligned,
            );
        }
    }
    for (location, home) in [
        (format!("'{root}/file/0.parquet'"), "file"),
        (format!("'{root}/folder'"), "folder"),
        (format!("'{root}/folder/'"), "folder"),
        (format!("'{root}/folder/[0]*.parquet'"), "folder"),
        (
            format!("('{root}/many/a/', '{root}/many/b/0.parquet')"),
            "many/a",
        ),
        (format!("'{root}/year=1998/'"), "year=1998"),
    ] {
        let create = format!("CREATE EXTERNAL TABLE t STORED AS PARQUET LOCATION {location}");
        let query = "SELECT * FROM t WHERE k = 17";
        let full = async |session: &Session| {
            session.set("coscan.access_path", "full").unwrap();
            let found = rows(session, query).await;
            session.set("coscan.access_path", "smooth").unwrap();
            found
        };
        let maker = common::session(common::config(), &[]).await;
        run(&maker, &create).await.unwrap();
        run(&maker, "CREATE INDEX i ON t (k)").await.unwrap();
        let beside = folder.path().join(home).join("_coscan");
        assert!(beside.join("i.index.json").exists(), "{location}");

        let later = common::session(common::config(), &[]).await;
        assert!(rows(&later, "SHOW INDEXES").await.is_empty());
        run(&later, &create).await.unwrap();
        let indexes = rows(&later, "SHOW INDEXES").await;
        assert_eq!(indexes.len(), 1, "{location}: {indexes:?}");
        let text = later.explain(query).await.unwrap();
        assert!(
            text.contains("SmoothScan: index=i,") && !text.contains("not_covered"),
            "{location}: {text}"
        );
        assert_eq!(rows(&later, query).await, full(&later).await, "{location}");
        run(&later, "REFRESH INDEX i").await.unwrap();
        run(&later, "DROP INDEX i").await.unwrap();
        assert_eq!(fs::read_dir(&beside).unwrap().count(), 0, "{location}");
    }
    // A set folder is searched again for a new table.
    let named = folder.path().join("indexes");
    let config = || EngineConfig {
        index_folder: Some(named.to_str().unwrap().to_owned()),
        ..common::config()
    };
    let create = format!("CREATE EXTERNAL TABLE t STORED AS PARQUET LOCATION '{root}/folder/'");
    let later = common::session(config(), &[]).await;
    assert!(rows(&later, "SHOW INDEXES").await.is_empty());
    let maker = common::session(config(), &[]).await;
    run(&maker, &create).await.unwrap();
    run(&maker, "CREATE INDEX i ON t (k)").await.unwrap();
    run(&later, &create).await.unwrap();
    assert_eq!(rows(&later, "SHOW INDEXES").await.len(), 1);
}

/// A disk on which no file is complete before the test has seen what it waits for.
#[derive(Debug, Default)]
struct Waits {
    seen: Mutex<bool>,
    changed: Condvar,
}

impl Disk for Waits {
    fn create(&self, path: &Path) -> io::Result<File> {
        SystemDisk.create(path)
    }

    fn sync(&self, file: &File, path: &Path) -> io::Result<()> {
        let most = Duration::from_secs(60);
        let seen = self.seen.lock().unwrap();
        let waits = self.changed.wait_timeout_while(seen, most, |seen| !*seen);
        drop(waits.unwrap());
        SystemDisk.sync(file, path)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        SystemDisk.rename(from, to)
    }

    fn link(&self, from: &Path, to: &Path) -> io::Result<()> {
        SystemDisk.link(from, to)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        SystemDisk.remove(path)
    }

    fn create_folder(&self, path: &Path) -> io::Result<()> {
        SystemDisk.create_folder(path)
    }

    fn sync_folder(&self, path: &Path) -> io::Result<()> {
        SystemDisk.sync_folder(path)
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_build_reports_its_progress() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("t.parquet");
    let mut random = StdRng::seed_from_u64(15);
    write(
        &path,
        &[batch(&mut random, 0, 40_000, false)],
        Layout::Aligned,
    );
    // Chunks arrive one after the other, a few milliseconds apart.
    let config = EngineConfig {
        chunk_bytes: 32 << 10,
        latency: Duration::from_millis(5),
        ..common::config()
    };
    let session = common::session(config, &[]).await;
    let disk = Arc::new(Waits::default());
    let url = url::Url::parse("waits://disk").unwrap();
    let runtime = session.engine().runtime();
    runtime.register_object_store(&url, Arc::new(LocalStore::on(Arc::clone(&disk) as _)));
    let indexes = format!("waits://disk{}/indexes", folder.path().display());
    session.set("coscan.index_folder", &indexes).unwrap();
    let file = path.to_str().unwrap();
    session.register("t", file).await.unwrap();
    assert_eq!(session.engine().index_builds(), []);
    let engine = session.engine().clone();
    let build = run(&session, "CREATE INDEX i ON t (k)");
    tokio::pin!(build);
    let mut seen: Vec<IndexBuild> = Vec::new();
    let made = loop {
        tokio::select! {
            made = &mut build => break made.unwrap(),
            () = tokio::time::sleep(Duration::from_millis(2)) => {
                seen.extend(engine.index_builds());
                if seen.last().is_some_and(|build| build.rows_read == 40_000) {
                    *disk.seen.lock().unwrap() = true;
                    disk.changed.notify_all();
                }
            }
        }
    };
    assert_eq!(engine.index_builds(), []);
    let entries: u64 = made[0].split('|').nth(3).unwrap().parse().unwrap();
    assert!(entries < 40_000, "some keys are NULL");
    for two in seen.windows(2) {
        let (before, after) = (&two[0], &two[1]);
        assert!(before.rows_read <= after.rows_read, "{two:?}");
        assert!(before.entries_written <= after.entries_written, "{two:?}");
    }
    let reading = |build: &&IndexBuild| build.rows_read > 0 && build.rows_read < 40_000;
    assert!(seen.iter().filter(reading).count() > 0, "{seen:?}");
    for build in seen.iter().filter(|build| build.rows > 0) {
        assert_eq!((build.name.as_str(), build.rows), ("i", 40_000));
        assert!(build.rows_read == 40_000 || build.entries_written == 0);
    }
    let last = seen.last().unwrap();
    assert_eq!(
        (last.rows_read, last.entries),
        (40_000, entries),
        "{last:?}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_refresh_keeps_the_entries_of_files_that_are_still_there() {
    let table = table(31);
    drop(indexed(&table, common::config(), &COLUMNS).await);
    let mut random = StdRng::seed_from_u64(32);
    let mut add = |name: &str| {
        let rows = random.random_range(1500..5000);
        let batch = batch(&mut random, 70_000, rows, false);
        write(&table.path.join(name), &[batch], Layout::Ragged);
        rows as u64
    };
    let refresh = async |session: &Session| {
        for column in COLUMNS {
            let sql = format!("REFRESH INDEX i_{column}");
            run(session, &sql).await.unwrap();
        }
    };
    let check = async |files: u32| {
        let plain = plain(&[("t", &table.path)]).await;
        for session in [
            session(&table, common::config()).await,
            session(&table, common::config()).await,
        ] {
            for sql in QUERIES {
                let expected = plain_rows(&plain, sql).await;
                assert_eq!(rows(&session, sql).await, expected, "{sql}");
            }
            for column in COLUMNS {
                let sql = format!(
                    "SELECT files, entries, state FROM coscan.indexes WHERE index = 'i_{column}'"
                );
                let sql = sql.replace("WHERE index", "WHERE \"index\"");
                let count = format!("SELECT {files}, count({column}), 'ready' FROM t");
                assert_eq!(rows(&session, &sql).await, plain_rows(&plain, &count).await);
            }
            let sql = "SELECT k FROM t WHERE k > 990 ORDER BY k";
            let found = rows_in_order(&session, sql).await;
            assert!(found.is_sorted_by_key(|k| k.parse::<i32>().unwrap()));
        }
    };
    // One file comes before all others and one after them. The old files' columns are not read.
    let added = add("-1.parquet") + add("9.parquet");
    let config = EngineConfig {
        record_trace: true,
        ..common::config()
    };
    let refresher = session(&table, config).await;
    refresh(&refresher).await;
    let loads = refresher.engine().trace();
    let loaded: u64 = loads
        .iter()
        .map(|load| load.rows.end - load.rows.start)
        .sum();
    let most = added * COLUMNS.len() as u64;
    assert!(
        loaded > 0 && loaded <= most,
        "{loaded} rows of {added} new ones"
    );
    check(5).await;
    // Refresh with a file that comes between the others, then with no new file.
    add("1a.parquet");
    refresh(&refresher).await;
    check(6).await;
    refresh(&refresher).await;
    check(6).await;
    // A file is removed, or changes: no entries of the old index are kept.
    fs::remove_file(table.path.join("9.parquet")).unwrap();
    refresh(&session(&table, common::config()).await).await;
    check(5).await;
    add("0.parquet");
    refresh(&session(&table, common::config()).await).await;
    check(5).await;
    // Damage is noticed, and no entries of the old index are kept.
    add("8.parquet");
    for file in fs::read_dir(table.path.join("_coscan")).unwrap() {
        let path = file.unwrap().path();
        if path.extension().is_some_and(|e| e == "index") {
            let mut bytes = fs::read(&path).unwrap();
            let middle = bytes.len() / 3;
            bytes[middle] ^= 4;
            fs::write(&path, &bytes).unwrap();
        }
    }
    refresh(&session(&table, common::config()).await).await;
    check(6).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_join_that_wants_few_keys_uses_the_index() {
    let table = table(13);
    let folder = tempfile::tempdir().unwrap();
    let small = folder.path().join("small.parquet");
    let mut random = StdRng::seed_from_u64(14);
    write(
        &small,
        &[batch(&mut random, 5000, 400, false)],
        Layout::Aligned,
    );
    let tables = [("t", table.path.as_path()), ("small", small.as_path())];
    let plain = plain(&tables).await;
    let session = common::session(common::config(), &tables).await;
    for column in ["id", "k"] {
        let sql = format!("CREATE INDEX i_{column} ON t ({column})");
        run(&session, &sql).await.unwrap();
    }
    let queries = [
        "SELECT t.id, t.s, small.f FROM small JOIN t ON t.id = small.id WHERE small.k < 50",
        "SELECT t.id, t.f, small.id FROM small JOIN t ON t.k = small.k WHERE small.id % 40 = 1",
        "SELECT t.* FROM t WHERE t.id IN (SELECT id FROM small WHERE k > 900)",
        "SELECT t.id FROM t WHERE t.k NOT IN (SELECT k FROM small WHERE k < 30)",
        "SELECT t.id FROM t WHERE t.k NOT IN (SELECT k FROM small)",
        "SELECT t.id, small.s FROM t LEFT JOIN small ON t.id = small.id",
        "SELECT t.id, small.s FROM small LEFT JOIN t ON t.k = small.k AND small.id % 50 = 0",
        "SELECT t.id, small.s FROM small JOIN t ON t.id = small.id AND t.k = small.k",
        "SELECT t.id FROM small JOIN t ON t.id = small.id WHERE small.k < 0",
        "SELECT t.id, u.s FROM small JOIN t ON t.id = small.id JOIN t AS u ON u.k = t.k WHERE small.k = 17",
    ];
    for threshold in ["0", "1000000"] {
        let name = "datafusion.optimizer.hash_join_single_partition_threshold";
        session.set(name, threshold).unwrap();
        let rows_name = "datafusion.optimizer.hash_join_single_partition_threshold_rows";
        session.set(rows_name, threshold).unwrap();
        for path in PATHS {
            session.set("coscan.access_path", path).unwrap();
            for sql in queries {
                let context = format!("{threshold}, {path}: {sql}");
                let expected = plain_rows(&plain, sql).await;
                assert_eq!(rows(&session, sql).await, expected, "{context}");
            }
        }
        session.set("coscan.access_path", "smooth").unwrap();
        // A few dozen keys, each in one page.
        let entries = metric(&session, queries[0], "index_entries").await;
        assert!((1..60).contains(&entries), "{threshold}: {entries}");
        // The filter is not a list of keys of one column, so the scan stays as it is.
        let shown = rows_of_explain(&session, queries[7]).await;
        assert!(shown.contains("CScan") && !shown.contains("index_entries"));
    }
}
