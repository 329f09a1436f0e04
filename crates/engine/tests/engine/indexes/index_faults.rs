//! Promised: a build that fails, is abandoned, or meets another build leaves the old state or the
//! new one. None of its files is taken for an index, few of them remain, and the next build works.
//! If columns change their type or disappear, in a file or in the table's declaration, an index
//! may be unusable, but no rows are lost.

use std::fmt;
use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use arrow::array::{Array, ArrayRef, Int32Array, Int64Array, RecordBatch, StringArray};
use arrow::datatypes::DataType;
use coscan::{EngineConfig, Session};
use futures::TryStreamExt;
use futures::stream::BoxStream;
use object_store::memory::InMemory;
use object_store::path::Path as StorePath;
use object_store::{
    CopyOptions, GetOptions, GetResult, ListResult, MultipartUpload, ObjectMeta, ObjectStore,
    PutMultipartOptions, PutOptions, PutPayload, PutResult, Result as StoreResult,
};
use parking_lot::Mutex;
use parquet::file::properties::WriterProperties;
use rand::SeedableRng;
use rand::rngs::StdRng;
use tempfile::TempDir;
use tokio::sync::Notify;

use super::index_scans::{Layout, batch, run, session, table, write};
use crate::common::{self, memory_comes_back, plain, plain_rows, rows};

/// The effect of a fault on one request.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Fault {
    /// Reports that the request failed.
    Fails,
    /// Carries the request out but reports that it failed.
    Lies,
    /// Never answers.
    Hangs,
}

/// A store with a fault at one later request.
#[derive(Debug)]
struct Faulty {
    inner: InMemory,
    fault: Mutex<Fault>,
    /// The number of requests before that one.
    left: AtomicI64,
    hangs: Notify,
}

impl Faulty {
    fn new() -> Arc<Self> {
        Arc::new(Self {
            inner: InMemory::new(),
            fault: Mutex::new(Fault::Fails),
            left: AtomicI64::new(i64::MAX),
            hangs: Notify::new(),
        })
    }

    fn arm(&self, fault: Fault, after: i64) {
        *self.fault.lock() = fault;
        self.left.store(after, Ordering::SeqCst);
    }

    /// Switches the fault off; returns whether it has happened.
    fn disarm(&self) -> bool {
        self.left.swap(i64::MAX, Ordering::SeqCst) < 0
    }

    async fn answer<T>(&self, work: impl Future<Output = StoreResult<T>>) -> StoreResult<T> {
        if self.left.fetch_sub(1, Ordering::SeqCst) != 0 {
            return work.await;
        }
        let fault = *self.fault.lock();
        match fault {
            Fault::Fails => {}
            Fault::Lies => drop(work.await?),
            Fault::Hangs => {
                self.hangs.notify_one();
                std::future::pending::<()>().await;
            }
        }
        Err(object_store::Error::Generic {
            store: "Faulty",
            source: "the disk is full".into(),
        })
    }

    /// The number of objects whose names end with `end`.
    async fn count(&self, end: &str) -> usize {
        let objects: Vec<ObjectMeta> = self.inner.list(None).try_collect().await.unwrap();
        let names = objects.iter().map(|object| object.location.as_ref());
        names.filter(|name| name.ends_with(end)).count()
    }
}

impl fmt::Display for Faulty {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Faulty")
    }
}

#[async_trait::async_trait]
impl ObjectStore for Faulty {
    async fn put_opts(
        &self,
        location: &StorePath,
        payload: PutPayload,
        options: PutOptions,
    ) -> StoreResult<PutResult> {
        self.answer(self.inner.put_opts(location, payload, options))
            .await
    }

    async fn put_multipart_opts(
        &self,
        location: &StorePath,
        options: PutMultipartOptions,
    ) -> StoreResult<Box<dyn MultipartUpload>> {
        self.answer(self.inner.put_multipart_opts(location, options))
            .await
    }

    async fn get_opts(&self, location: &StorePath, options: GetOptions) -> StoreResult<GetResult> {
        self.answer(self.inner.get_opts(location, options)).await
    }

    fn delete_stream(
        &self,
        locations: BoxStream<'static, StoreResult<StorePath>>,
    ) -> BoxStream<'static, StoreResult<StorePath>> {
        self.inner.delete_stream(locations)
    }

    fn list(&self, prefix: Option<&StorePath>) -> BoxStream<'static, StoreResult<ObjectMeta>> {
        self.inner.list(prefix)
    }

    async fn list_with_delimiter(&self, prefix: Option<&StorePath>) -> StoreResult<ListResult> {
        self.inner.list_with_delimiter(prefix).await
    }

    async fn copy_opts(
        &self,
        from: &StorePath,
        to: &StorePath,
        options: CopyOptions,
    ) -> StoreResult<()> {
        self.inner.copy_opts(from, to, options).await
    }
}

const FOLDER: &str = "faulty://store/indexes";

/// A session whose indexes are in the store.
async fn session_on(store: &Arc<Faulty>, table: &Path) -> Session {
    let session = common::session(common::config(), &[]).await;
    let url = url::Url::parse("faulty://store").unwrap();
    let runtime = session.engine().runtime();
    runtime.register_object_store(&url, Arc::clone(store) as Arc<dyn ObjectStore>);
    session.set("coscan.index_folder", FOLDER).unwrap();
    session
        .register("t", table.to_str().unwrap())
        .await
        .unwrap();
    session
}

const QUERY: &str = "SELECT id, s FROM t WHERE k BETWEEN 10 AND 40";

/// Waits until a condition holds, which it soon does.
async fn soon(what: &str, mut so: impl AsyncFnMut() -> bool) {
    for _ in 0..500 {
        if so().await {
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("not soon: {what}");
}

#[tokio::test(flavor = "multi_thread")]
async fn every_request_of_a_build_may_fail_or_hang() {
    for fault in [Fault::Fails, Fault::Lies, Fault::Hangs] {
        for refresh in [false, true] {
            let mut errors = 0;
            let mut litter = 0;
            for after in 0.. {
                let context = format!("{fault:?} after {after}, refresh: {refresh}");
                let outcome = one_fault(fault, after, refresh, &context).await;
                errors += u32::from(outcome.error);
                litter += outcome.litter;
                if !outcome.met {
                    assert!(after > 4, "{context}: few requests");
                    break;
                }
            }
            assert!(
                (errors > 1) == (fault != Fault::Hangs),
                "{fault:?}: {errors}"
            );
            // A build that is abandoned while its manifest is being written cannot know whether
            // the manifest was stored.
            let most = usize::from(fault == Fault::Hangs);
            assert!(litter <= most, "{fault:?}, refresh: {refresh}: {litter}");
        }
    }
}

struct Outcome {
    met: bool,
    error: bool,
    litter: usize,
}

async fn one_fault(fault: Fault, after: i64, refresh: bool, context: &str) -> Outcome {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("");
    let mut random = StdRng::seed_from_u64(after.unsigned_abs());
    let mut add = |name: &str| {
        let rows = batch(&mut random, 0, 3000, false);
        write(&path.join(name), &[rows], Layout::Aligned);
    };
    add("0.parquet");
    let store = Faulty::new();
    let session = session_on(&store, &path).await;
    assert!(rows(&session, "SHOW INDEXES").await.is_empty());
    let mut sql = "CREATE INDEX i ON t (k)";
    if refresh {
        run(&session, sql).await.unwrap();
        add("1.parquet");
        sql = "REFRESH INDEX i";
    }
    let expected = plain_rows(&plain(&[("t", &path)]).await, QUERY).await;

    store.arm(fault, after);
    let outcome = tokio::select! {
        outcome = run(&session, sql) => Some(outcome),
        () = store.hangs.notified() => None,
    };
    let met = store.disarm();
    let error = match &outcome {
        Some(Err(error)) => Some(error.to_string()),
        _ => None,
    };
    if let Some(error) = &error {
        let names_both = error.contains("index i ") && error.contains(FOLDER);
        assert!(
            names_both && error.contains("disk is full"),
            "{context}: {error}"
        );
    }
    assert!(met || matches!(outcome, Some(Ok(_))), "{context}");

    // The existing session and a later session find the old state or the new one.
    let later = session_on(&store, &path).await;
    let state = "SELECT files || ' ' || state FROM coscan.indexes";
    let found = rows(&later, state).await;
    let (old, new): (&[&str], &[&str]) = if refresh {
        (&["1 ready"], &["2 ready"])
    } else {
        (&[], &["1 ready"])
    };
    assert!(found == old || found == new, "{context}: {found:?}");
    if matches!(outcome, Some(Ok(_))) {
        assert_eq!(found, new, "{context}");
    }
    if fault == Fault::Fails && error.is_some() {
        assert_eq!(found, old, "{context}");
    }
    for session in [&session, &later] {
        assert_eq!(rows(session, QUERY).await, expected, "{context}");
        let broken = rows(session, "SELECT state FROM coscan.indexes").await;
        assert!(!broken.concat().contains("broken"), "{context}: {broken:?}");
    }
    memory_comes_back(&session).await;
    let mut litter = usize::MAX;
    for _ in 0..500 {
        litter = store.count(".index").await - found.len();
        if litter == 0 {
            break;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }

    // The next build succeeds.
    let again = if found.is_empty() {
        "CREATE INDEX i ON t (k)"
    } else {
        "REFRESH INDEX i"
    };
    run(&session, again).await.unwrap();
    assert_eq!(rows(&session, state).await, new, "{context}");
    assert_eq!(rows(&session, QUERY).await, expected, "{context}");
    assert_eq!(store.count(".index.json").await, 1, "{context}");
    Outcome {
        met,
        error: error.is_some(),
        litter,
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_build_can_be_given_up_at_any_time() {
    let table = table(21);
    let config = EngineConfig {
        latency: Duration::from_millis(1),
        chunk_bytes: 16 << 10,
        ..common::config()
    };
    let session = session(&table, config).await;
    let expected = plain_rows(&plain(&[("t", &table.path)]).await, QUERY).await;
    let beside = table.path.join("_coscan");
    let files = || fs::read_dir(&beside).map_or(0, Iterator::count);
    let manifest = || fs::read(beside.join("i.index.json")).ok();
    for sql in ["CREATE INDEX i ON t (k)", "REFRESH INDEX i"] {
        let (known, before) = (manifest(), files());
        let mut given_up = 0;
        loop {
            let build = run(&session, sql);
            let limit = Duration::from_micros(500 * given_up);
            if let Ok(made) = tokio::time::timeout(limit, build).await {
                made.unwrap();
                assert_eq!(files(), 2, "{sql}");
                break;
            }
            given_up += 1;
            soon("it is over", async || {
                session.engine().index_builds().is_empty()
            })
            .await;
            memory_comes_back(&session).await;
            // The manifest may already have been sent.
            soon("nothing is left", async || {
                files() == before || manifest() != known
            })
            .await;
            assert_eq!(rows(&session, QUERY).await, expected);
            if manifest() != known {
                break;
            }
        }
        assert!(given_up > 3, "{sql}: given up {given_up} times");
        // The session that abandoned the build finds the index at its next build; other sessions
        // find it when they next look for indexes.
        let exists = "CREATE INDEX IF NOT EXISTS i ON t (k)";
        assert!(run(&session, exists).await.unwrap().is_empty());
        let later = self::session(&table, common::config()).await;
        for session in [&session, &later] {
            let state = rows(session, "SELECT state FROM coscan.indexes").await;
            assert_eq!(state, ["ready"], "{sql}");
            assert_eq!(rows(session, QUERY).await, expected);
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn of_two_builds_at_once_one_wins() {
    let table = table(22);
    let config = || EngineConfig {
        latency: Duration::from_millis(1),
        chunk_bytes: 16 << 10,
        ..common::config()
    };
    let (a, b) = (
        session(&table, config()).await,
        session(&table, config()).await,
    );
    let expected = plain_rows(&plain(&[("t", &table.path)]).await, QUERY).await;
    let files = || fs::read_dir(table.path.join("_coscan")).unwrap().count();

    let sql = "CREATE INDEX i ON t (k)";
    let both = tokio::join!(run(&a, sql), run(&b, sql));
    let (made, refused) = match both {
        (Ok(made), Err(refused)) | (Err(refused), Ok(made)) => (made, refused.to_string()),
        both => panic!("{both:?}"),
    };
    assert_eq!(made.len(), 1);
    assert!(refused.contains("index i already exists"), "{refused}");
    assert_eq!(files(), 2);
    for session in [&a, &b] {
        assert_eq!(rows(session, "SHOW INDEXES").await.len(), 1);
        let text = session.explain(QUERY).await.unwrap();
        assert!(text.contains("SmoothScan: index=i,"), "{text}");
        assert_eq!(rows(session, QUERY).await, expected);
    }

    run(&a, "DROP INDEX i").await.unwrap();
    run(&b, "DROP INDEX i").await.unwrap();
    let sql = "CREATE INDEX IF NOT EXISTS i ON t (k)";
    let (one, other) = tokio::join!(run(&a, sql), run(&b, sql));
    assert_eq!(one.unwrap().len() + other.unwrap().len(), 1);
    assert_eq!(files(), 2);

    // Both may refresh; the index is then one of the two.
    let sql = "REFRESH INDEX i";
    let (one, other) = tokio::join!(run(&a, sql), run(&b, sql));
    one.unwrap();
    other.unwrap();
    let later = session(&table, config()).await;
    for session in [&a, &b, &later] {
        // A session whose index data was removed scans, and from then on uses the other session's
        // index.
        assert_eq!(rows(session, QUERY).await, expected);
        assert_eq!(
            rows(session, "SELECT state FROM coscan.indexes").await,
            ["ready"]
        );
        let text = session.explain(QUERY).await.unwrap();
        assert!(text.contains("SmoothScan: index=i,"), "{text}");
        assert_eq!(rows(session, QUERY).await, expected);
    }
    run(&later, "REFRESH INDEX i").await.unwrap();
    assert_eq!(rows(&a, QUERY).await, expected);
    assert_eq!(
        rows(&a, "SELECT state FROM coscan.indexes").await,
        ["ready"]
    );
    run(&later, "DROP INDEX i").await.unwrap();
    assert_eq!(rows(&a, QUERY).await, expected);
    assert!(rows(&a, "SHOW INDEXES").await.is_empty());
    run(&a, "CREATE INDEX i ON t (k)").await.unwrap();

    // Within one engine the second build is refused at once.
    let both = tokio::join!(run(&a, sql), run(&a, sql));
    let refused = match both {
        (Ok(_), Err(refused)) | (Err(refused), Ok(_)) => refused.to_string(),
        both => panic!("{both:?}"),
    };
    assert!(
        refused.contains("index i is being built already"),
        "{refused}"
    );
}

/// Writes a file with the column id and, if there are keys, the column k.
fn write_keys(path: &Path, keys: Option<ArrayRef>) {
    let rows = keys.as_ref().map_or(500, Array::len);
    let id: ArrayRef = Arc::new(Int64Array::from_iter_values(0..rows as i64));
    let mut columns = vec![("id", id, false)];
    columns.extend(keys.map(|keys| ("k", keys, true)));
    let batch = RecordBatch::try_from_iter_with_nullable(columns).unwrap();
    let properties = WriterProperties::builder()
        .set_data_page_row_count_limit(64)
        .set_write_batch_size(64)
        .build();
    common::write_with(path, batch.schema(), &[batch], properties);
}

fn numbers() -> impl Iterator<Item = i32> {
    (0..20_000).map(|n| n * 7919 % 2003)
}

/// A folder with one file whose keys are the numbers.
fn folder_of_numbers() -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    let keys = Int32Array::from_iter_values(numbers());
    write_keys(&folder.path().join("0.parquet"), Some(Arc::new(keys)));
    folder
}

/// The statement that declares a table of such a folder, with keys of the type `declared`.
fn declare(name: &str, declared: &str, folder: &Path) -> String {
    let place = folder.display();
    format!(
        "CREATE EXTERNAL TABLE {name} (id BIGINT, k {declared}) STORED AS PARQUET LOCATION '{place}'"
    )
}

#[tokio::test(flavor = "multi_thread")]
async fn a_column_may_change_its_type_or_disappear() {
    let folder = tempfile::tempdir().unwrap();
    let (one, two) = (
        folder.path().join("0.parquet"),
        folder.path().join("1.parquet"),
    );
    let ints = || Arc::new(Int32Array::from_iter_values(numbers())) as ArrayRef;
    write_keys(&one, Some(ints()));
    write_keys(&two, Some(ints()));
    let path = folder.path().join("");
    let old = common::session(common::config(), &[("t", &path)]).await;
    run(&old, "CREATE INDEX i ON t (k)").await.unwrap();
    let text_keys = StringArray::from_iter_values(numbers().map(|n| n.to_string()));
    let changes: [Option<ArrayRef>; 3] = [
        Some(Arc::new(Int64Array::from_iter_values(
            numbers().map(i64::from),
        ))),
        Some(Arc::new(text_keys)),
        None,
    ];
    let queries = [
        "SELECT id, k FROM t WHERE k = '77'",
        "SELECT id, k FROM t WHERE k BETWEEN '5' AND '12'",
        "SELECT count(*) FROM t WHERE k > '500'",
    ];
    // One file changes. A missing column is NULL; one whose type fits no other is an error.
    for change in &changes {
        write_keys(&two, change.clone());
        if change
            .as_ref()
            .is_some_and(|keys| keys.data_type() == &DataType::Utf8)
        {
            let refused = run(&old, queries[0]).await.unwrap_err().to_string();
            assert!(
                refused.contains("1.parquet") && refused.contains("\"k\""),
                "{refused}"
            );
            continue;
        }
        for sql in queries {
            old.set("coscan.access_path", "full").unwrap();
            let expected = rows(&old, sql).await;
            old.set("coscan.access_path", "smooth").unwrap();
            assert_eq!(rows(&old, sql).await, expected, "{change:?}: {sql}");
        }
        run(&old, "REFRESH INDEX i").await.unwrap();
        assert_eq!(rows(&old, "SELECT files FROM coscan.indexes").await, ["2"]);
    }
    // All files change: a later session has another table, which the index serves after a refresh.
    for change in changes {
        write_keys(&one, change.clone());
        write_keys(&two, change.clone());
        let later = common::session(common::config(), &[("t", &path)]).await;
        let plain = plain(&[("t", &path)]).await;
        if change.is_none() {
            let refused = run(&later, "REFRESH INDEX i")
                .await
                .unwrap_err()
                .to_string();
            assert!(refused.contains("table t has no column k"), "{refused}");
            assert_eq!(rows(&later, "SHOW INDEXES").await.len(), 1);
            assert_eq!(
                rows(&later, "SELECT id FROM t WHERE id = 7").await,
                ["7", "7"]
            );
            run(&later, "DROP INDEX i").await.unwrap();
            continue;
        }
        for refresh in [false, true] {
            if refresh {
                run(&later, "REFRESH INDEX i").await.unwrap();
            }
            for sql in queries {
                let expected = plain_rows(&plain, sql).await;
                assert_eq!(rows(&later, sql).await, expected, "{change:?}: {sql}");
            }
        }
        let text = later
            .explain("SELECT id FROM t WHERE k = '77'")
            .await
            .unwrap();
        assert!(text.contains("SmoothScan: index=i,"), "{text}");
    }
}

/// The files stay the same, but their table is declared with another type than that of the index's
/// keys.
#[tokio::test(flavor = "multi_thread")]
async fn a_column_may_be_declared_of_another_type() {
    let folder = folder_of_numbers();
    let path = folder.path().join("");
    let maker = common::session(common::config(), &[("t", &path)]).await;
    run(&maker, "CREATE INDEX i ON t (k)").await.unwrap();
    for (declared, literal) in [
        ("INT", ["77", "5", "12"]),
        ("BIGINT", ["77", "5", "12"]),
        ("SMALLINT", ["77", "5", "12"]),
        ("VARCHAR", ["'77'", "'5'", "'512'"]),
        ("DOUBLE", ["77", "4.5", "12"]),
        ("DECIMAL(12, 2)", ["77", "4.5", "12"]),
    ] {
        let session = common::session(common::config(), &[]).await;
        run(&session, &declare("t", declared, &path)).await.unwrap();
        let [equal, low, high] = literal;
        for condition in [
            format!("k = {equal}"),
            format!("k BETWEEN {low} AND {high}"),
            format!("k > {low} ORDER BY k, id"),
            format!("k >= {low} ORDER BY k"),
        ] {
            let sql = format!("SELECT k, id FROM t WHERE {condition}");
            session.set("coscan.access_path", "full").unwrap();
            let expected = rows(&session, &sql).await;
            session.set("coscan.access_path", "smooth").unwrap();
            let found = common::rows_in_order(&session, &sql).await;
            let keys: Vec<&str> = found
                .iter()
                .filter_map(|row| row.split('|').next())
                .collect();
            let ascends = match declared {
                _ if !sql.contains("ORDER BY") => true,
                "VARCHAR" => keys.is_sorted(),
                _ => keys.is_sorted_by_key(|key| key.parse::<f64>().unwrap() as i64),
            };
            assert!(ascends, "{declared}: {sql}");
            let mut sorted = found;
            sorted.sort_unstable();
            assert_eq!(sorted, expected, "{declared}: {sql}");
        }
    }
}

/// Two tables of one engine have the same files, and only one of them has the index's type.
#[tokio::test(flavor = "multi_thread")]
async fn an_index_is_left_alone_where_its_column_has_another_type() {
    let folder = folder_of_numbers();
    let path = folder.path().join("");
    let by_index = |text: &str| text.contains("SmoothScan: index=i,");
    let session = common::session(common::config(), &[("t", &path)]).await;
    run(&session, "CREATE INDEX i ON t (k)").await.unwrap();
    run(&session, &declare("u", "VARCHAR", &path))
        .await
        .unwrap();
    let count = |table: &str, key: &str| format!("SELECT count(*) FROM {table} WHERE k = {key}");
    let expected = [numbers().filter(|key| *key == 77).count().to_string()];
    let (own, other) = (count("t", "77"), count("u", "'77'"));
    for _ in 0..2 {
        assert_eq!(rows(&session, &other).await, expected);
        assert!(!by_index(&session.explain(&other).await.unwrap()));
        assert_eq!(rows(&session, &own).await, expected);
        assert!(by_index(&session.explain(&own).await.unwrap()));
        let states = rows(&session, "SELECT state FROM coscan.indexes").await;
        assert_eq!(states, ["ready"]);
    }
    // REFRESH gives the index the type that its table has at that time.
    run(&session, "DROP TABLE t").await.unwrap();
    run(&session, &declare("t", "VARCHAR", &path))
        .await
        .unwrap();
    let text = count("t", "'77'");
    assert!(!by_index(&session.explain(&text).await.unwrap()));
    run(&session, "REFRESH INDEX i").await.unwrap();
    for sql in [&text, &other] {
        assert_eq!(rows(&session, sql).await, expected);
        assert!(by_index(&session.explain(sql).await.unwrap()), "{sql}");
    }
    run(&session, &declare("v", "INT", &path)).await.unwrap();
    let third = count("v", "77");
    assert_eq!(rows(&session, &third).await, expected);
    assert!(!by_index(&session.explain(&third).await.unwrap()));
    let states = rows(&session, "SELECT state FROM coscan.indexes").await;
    assert_eq!(states, ["ready"]);
}

/// Changes a folder's manifest to the form of versions that do not record the keys' type.
fn forget_the_type(folder: &Path, index: &str) {
    let path = folder.join(format!("_coscan/{index}.index.json"));
    let text = fs::read_to_string(&path).unwrap();
    let (head, rest) = text.split_once("\"manifest\": ").unwrap();
    let (manifest, crc32) = rest.rsplit_once(",\n  \"crc32\": ").unwrap();
    let lines: Vec<&str> = manifest.lines().collect();
    let kept = lines
        .iter()
        .filter(|line| !line.trim().starts_with("\"key\":"));
    let kept: Vec<&str> = kept.copied().collect();
    assert_eq!(kept.len() + 1, lines.len(), "{text}");
    // The checksum covers the compact text.
    let compact: String = kept
        .iter()
        .map(|line| line.trim().replace("\": ", "\":"))
        .collect();
    let (_, end) = crc32.split_once('\n').unwrap();
    let crc32 = crc32fast::hash(compact.as_bytes());
    let older = format!(
        "{head}\"manifest\": {},\n  \"crc32\": {crc32}\n{end}",
        kept.join("\n")
    );
    fs::write(&path, older).unwrap();
}

/// A table of another type uses the index first, while the keys' type of an index is unknown
/// because its manifest lacks it.
#[tokio::test(flavor = "multi_thread")]
async fn an_old_index_is_whole_for_the_tables_of_its_type() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("0.parquet");
    write_keys(
        &file,
        Some(Arc::new(Int32Array::from_iter_values(numbers()))),
    );
    let path = folder.path().join("");
    let maker = common::session(common::config(), &[("t", &path)]).await;
    run(&maker, "CREATE INDEX i ON t (k)").await.unwrap();
    forget_the_type(folder.path(), "i");
    let session = common::session(common::config(), &[("t", &path)]).await;
    let declare = format!(
        "CREATE EXTERNAL TABLE u (id BIGINT, k VARCHAR) STORED AS PARQUET LOCATION '{}'",
        path.display()
    );
    run(&session, &declare).await.unwrap();
    let by_index = |text: &str| text.contains("SmoothScan: index=i,");
    let count = |table: &str, key: &str| format!("SELECT count(*) FROM {table} WHERE k = {key}");
    let expected = [numbers().filter(|key| *key == 77).count().to_string()];
    let (own, other) = (count("t", "77"), count("u", "'77'"));
    // No query has used the index yet.
    assert!(by_index(&session.explain(&other).await.unwrap()));
    for _ in 0..2 {
        assert_eq!(rows(&session, &other).await, expected);
        assert!(!by_index(&session.explain(&other).await.unwrap()));
        assert_eq!(rows(&session, &own).await, expected);
        assert!(by_index(&session.explain(&own).await.unwrap()));
        assert!(crate::scans::predicates::metric(&session, &own, "index_entries").await > 0);
        let states = rows(&session, "SELECT state FROM coscan.indexes").await;
        assert_eq!(states, ["ready"]);
    }
    // Damage is still recognised as damage.
    let data = fs::read_dir(folder.path().join("_coscan")).unwrap();
    let data = data.map(|entry| entry.unwrap().path());
    for file in data.filter(|path| path.extension().is_some_and(|e| e == "index")) {
        fs::write(file, b"").unwrap();
    }
    assert_eq!(rows(&session, &own).await, expected);
    let states = rows(&session, "SELECT state FROM coscan.indexes").await;
    assert!(states[0].starts_with("broken"), "{states:?}");
}
