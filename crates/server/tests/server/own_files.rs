//! Promised: rows that a transaction inserts into a table of files are visible after COMMIT, and
//! never after ROLLBACK or an error. Before COMMIT the transaction's own statements must not read
//! the table. A table has the columns of its present files. A REPEATABLE READ transaction reads
//! the files as its first statement saw them, or fails; a READ ONLY one writes no files. A
//! statement that answers 57014 has changed nothing.

use std::fs::File;
use std::io;
use std::path::Path;
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

use coscan::{Disk, LocalStore, SystemDisk};
use datafusion::arrow::array::{ArrayRef, Int32Array, Int64Array, RecordBatch, StringArray};
use datafusion::execution::object_store::ObjectStoreUrl;
use datafusion::parquet::arrow::ArrowWriter;
use tokio::sync::Notify;
use tokio_postgres::{NoTls, SimpleQueryMessage};

use crate::common::TestServer;
use crate::common::raw::RawClient;

/// Writes a new file and renames it over `path`, as programs do that replace a file in use.
fn write(path: &Path, columns: Vec<(&str, ArrayRef)>) {
    let batch = RecordBatch::try_from_iter(columns).unwrap();
    let beside = path.with_extension("new");
    let file = std::fs::File::create(&beside).unwrap();
    let mut writer = ArrowWriter::try_new(file, batch.schema(), None).unwrap();
    writer.write(&batch).unwrap();
    writer.close().unwrap();
    std::fs::rename(&beside, path).unwrap();
}

fn ints(values: &[i32]) -> ArrayRef {
    Arc::new(Int32Array::from(values.to_vec()))
}

/// A server with the table `t` of the files at `path`.
async fn server(path: &Path) -> TestServer {
    let engine = coscan::Engine::new(coscan::EngineConfig::default()).unwrap();
    let registered = engine.session().register("t", path.to_str().unwrap()).await;
    registered.unwrap();
    TestServer::start_with_rights(&engine, coscan::Rights::ALL).await
}

async fn blocking<const N: usize>(
    server: &TestServer,
    work: impl FnOnce([RawClient; N]) + Send + 'static,
) {
    let addr = server.addr;
    let clients = move || std::array::from_fn(|_| RawClient::connect(addr));
    let done = tokio::task::spawn_blocking(move || work(clients()));
    done.await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn inserts_appear_at_commit() {
    let folder = tempfile::tempdir().unwrap();
    write(&folder.path().join("0.parquet"), vec![("x", ints(&[1]))]);
    let server = server(folder.path()).await;
    let count = move || std::fs::read_dir(folder.path()).unwrap().count();
    blocking(&server, move |[mut one, mut other]| {
        let sum = "SELECT sum(x) FROM t";
        let mut run = |sql: &str, expected: &str| {
            let shown = one.simple(sql).shown();
            assert!(
                shown.starts_with(expected) && shown.is_empty() == expected.is_empty(),
                "{sql}: {shown}"
            );
        };
        run("INSERT INTO t VALUES (2)", "");
        run(sum, "3");
        run("BEGIN", "");
        run("INSERT INTO t VALUES (10)", "");
        run("INSERT INTO t SELECT 20", "");
        assert_eq!(other.simple(sum).shown(), "3");
        run("ROLLBACK", "");
        run(sum, "3");
        assert_eq!(count(), 2);
        run("BEGIN", "");
        run("INSERT INTO t VALUES (10)", "");
        run("SAVEPOINT s", "");
        run("INSERT INTO t VALUES (20)", "");
        run("ROLLBACK TO s", "");
        run("INSERT INTO t VALUES (40)", "");
        run("COMMIT", "");
        run(sum, "53");
        assert_eq!(other.simple(sum).shown(), "53");
        run("BEGIN", "");
        run("INSERT INTO t VALUES (100)", "");
        run(
            "INSERT INTO t SELECT x FROM t",
            "error 0A000 cannot read \"t\"",
        );
        run("ROLLBACK", "");
        run("INSERT INTO t VALUES (100); SELECT 1/0", "error 22012");
        run(sum, "53");
        run("INSERT INTO t VALUES (7); INSERT INTO t VALUES (8)", "");
        run(sum, "68");
        let answer = one.pipeline(&["INSERT INTO t VALUES (100)", "SELECT 1/0"]);
        assert!(answer.shown().contains("22012"), "{answer:?}");
        let answer = one.pipeline(&["INSERT INTO t VALUES (100)"]);
        assert_eq!((answer.error, answer.tag.as_str()), (None, "INSERT 0 1"));
        assert_eq!(one.simple(sum).shown(), "168");
        // A client that disconnects inside a transaction.
        one.simple("BEGIN");
        one.simple("INSERT INTO t VALUES (1000)");
        drop(one);
        assert_eq!(other.simple(sum).shown(), "168");
    })
    .await;
}

/// A disk that gives a file its name when it is told to.
#[derive(Debug, Default)]
struct Slow {
    begun: Notify,
    goes_on: Mutex<bool>,
    changed: Condvar,
}

/// Without being told it goes on after this time, so that a failed test ends.
const RENAME: Duration = Duration::from_secs(60);

impl Disk for Slow {
    fn create(&self, path: &Path) -> io::Result<File> {
        SystemDisk.create(path)
    }

    fn sync(&self, file: &File, path: &Path) -> io::Result<()> {
        SystemDisk.sync(file, path)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.begun.notify_one();
        let goes_on = self.goes_on.lock().unwrap();
        let goes_on = self.changed.wait_timeout_while(goes_on, RENAME, |on| !*on);
        drop(goes_on.unwrap());
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
async fn an_interrupt_comes_too_late_while_files_appear() {
    let folder = tempfile::tempdir().unwrap();
    write(&folder.path().join("0.parquet"), vec![("x", ints(&[1]))]);
    let engine = coscan::Engine::new(coscan::EngineConfig::default()).unwrap();
    let url = ObjectStoreUrl::local_filesystem();
    let disk = Arc::new(Slow::default());
    let store = LocalStore::on(Arc::clone(&disk) as Arc<dyn Disk>);
    let runtime = engine.runtime();
    runtime.register_object_store(url.as_ref(), Arc::new(store));
    let path = folder.path().to_str().unwrap();
    engine.session().register("t", path).await.unwrap();
    let server = TestServer::start_with_rights(&engine, coscan::Rights::ALL).await;
    let client = server.connect().await;
    let token = client.cancel_token();
    let insert = tokio::spawn(async move { client.simple_query("INSERT INTO t VALUES (2)").await });
    let begun = tokio::time::timeout(RENAME, disk.begun.notified()).await;
    begun.expect("the file gets its name");
    token.cancel_query(NoTls).await.unwrap();
    // Time for the request to arrive. If it takes longer, it comes too late, which is allowed.
    tokio::time::sleep(Duration::from_millis(300)).await;
    assert!(!insert.is_finished(), "it waits for the files");
    *disk.goes_on.lock().unwrap() = true;
    disk.changed.notify_all();
    let answer = insert.await.unwrap().unwrap();
    assert!(
        matches!(answer[..], [SimpleQueryMessage::CommandComplete(1)]),
        "{answer:?}"
    );
    blocking(&server, move |[mut client]| {
        assert_eq!(client.simple("SELECT sum(x) FROM t").shown(), "3");
        client.simple("SET statement_timeout = '1s'");
        // Up to then it is given up.
        let endless = "INSERT INTO t SELECT x FROM generate_series(1, 1000000) a (x), \
                       generate_series(1, 1000000) b (y) WHERE x + y < 0";
        let refused = client.simple(endless).shown();
        assert!(refused.starts_with("error 57014"), "{refused}");
        client.simple("SET statement_timeout = 0");
        assert_eq!(client.simple("SELECT sum(x) FROM t").shown(), "3");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_table_exists_if_the_client_is_told_so() {
    let folder = tempfile::tempdir().unwrap();
    write(&folder.path().join("0.parquet"), vec![("x", ints(&[1]))]);
    let server = server(folder.path()).await;
    blocking(&server, move |[mut client]| {
        let mut told = [0, 0];
        let mut attempt = |timeout: u64| {
            client.simple("SET statement_timeout = 0");
            client.simple("DROP TABLE IF EXISTS made");
            client.simple(&format!("SET statement_timeout = {timeout}"));
            let create = "CREATE TABLE made AS SELECT n * 2 AS x \
                          FROM generate_series(1, 100000) s (n) WHERE n % 3 = 1";
            let answer = client.simple(create);
            client.simple("SET statement_timeout = 0");
            let is_there = client.simple("SELECT count(*) FROM made").error.is_none();
            assert_eq!(is_there, answer.error.is_none(), "{timeout} ms: {answer:?}");
            usize::from(is_there)
        };
        for timeout in (2..=60).step_by(2) {
            told[attempt(timeout)] += 1;
        }
        // However slow the machine is.
        for timeout in (7..=16).map(|power| 1_u64 << power) {
            if told[1] > 0 {
                break;
            }
            told[attempt(timeout)] += 1;
        }
        assert!(told.iter().all(|times| *times > 0), "{told:?}");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_repeatable_read_sees_the_files_of_its_first_statement() {
    let folder = tempfile::tempdir().unwrap();
    write(&folder.path().join("0.parquet"), vec![("x", ints(&[1]))]);
    let server = server(folder.path()).await;
    blocking(&server, move |[mut one, mut other]| {
        let sum = "SELECT sum(x) FROM t";
        for level in ["REPEATABLE READ", "SERIALIZABLE"] {
            one.simple(&format!("BEGIN ISOLATION LEVEL {level}"));
            let before = one.simple(sum).shown();
            assert_eq!(one.simple(sum).shown(), before);
            assert_eq!(other.simple("INSERT INTO t VALUES (2)").error, None);
            for query in [
                sum,
                "SELECT (SELECT max(x) FROM t)",
                "CREATE TABLE c AS SELECT * FROM t",
            ] {
                one.simple("SAVEPOINT s");
                let refused = one.simple(query).shown();
                assert!(refused.starts_with("error 40001"), "{query}: {refused}");
                one.simple("ROLLBACK TO s");
            }
            assert_eq!(one.simple("SELECT 1").shown(), "1");
            one.simple("COMMIT");
            assert_ne!(one.simple(sum).shown(), before);
        }
        one.simple("SET default_transaction_isolation TO 'repeatable read'");
        one.simple("BEGIN");
        // The first statement fixes the state, whatever it reads.
        one.simple("SELECT 1");
        write(&folder.path().join("0.parquet"), vec![("x", ints(&[7]))]);
        let refused = one.simple(sum).shown();
        assert!(refused.starts_with("error 40001"), "{refused}");
        one.simple("ROLLBACK");
        one.simple("SET default_transaction_isolation TO 'read committed'");
        one.simple("BEGIN");
        let before = one.simple(sum).shown();
        assert_eq!(other.simple("INSERT INTO t VALUES (2)").error, None);
        assert_ne!(one.simple(sum).shown(), before);
        one.simple("COMMIT");
        one.simple("BEGIN READ ONLY");
        let refused = one.simple("INSERT INTO t VALUES (3)").shown();
        assert!(refused.starts_with("error 25006"), "{refused}");
        one.simple("ROLLBACK");
    })
    .await;
}

/// Its first statement may fail because files cannot be listed, and a savepoint revive it.
#[tokio::test(flavor = "multi_thread")]
async fn a_repeatable_read_that_begins_with_an_error_sees_one_state() {
    let folder = tempfile::tempdir().unwrap();
    write(&folder.path().join("0.parquet"), vec![("x", ints(&[1]))]);
    let server = server(folder.path()).await;
    blocking(&server, move |[mut one, mut other]| {
        let sum = "SELECT sum(x) FROM t";
        let journals = folder.path().join("_coscan");
        std::fs::create_dir_all(&journals).unwrap();
        let unreadable = journals.join("x.names");
        one.simple("BEGIN ISOLATION LEVEL REPEATABLE READ");
        one.simple("SAVEPOINT s");
        std::fs::write(&unreadable, [0xff]).unwrap();
        let failed = one.simple(sum);
        assert!(failed.error.is_some(), "{failed:?}");
        std::fs::remove_file(&unreadable).unwrap();
        one.simple("ROLLBACK TO s");
        assert_eq!(one.simple(sum).shown(), "1");
        assert_eq!(other.simple("INSERT INTO t VALUES (2)").error, None);
        let refused = one.simple(sum).shown();
        assert!(refused.starts_with("error 40001"), "{refused}");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_replaced_file_has_its_own_columns() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("t.parquet");
    write(&path, vec![("x", ints(&[1])), ("y", ints(&[2]))]);
    let server = server(&path).await;
    blocking(&server, move |[mut client]| {
        client.prepare("p", "SELECT x FROM t", &[]);
        assert_eq!(client.run("p", &[], 0).shown(), "1");
        client.simple("CREATE VIEW v AS SELECT x FROM t");
        let text: ArrayRef = Arc::new(StringArray::from(vec!["a"]));
        let wide: ArrayRef = Arc::new(Int64Array::from(vec![1_i64 << 40]));
        let cached = "error 0A000 cached plan must not change result type";
        let missing = "error 42703";
        for (columns, x, y, prepared) in [
            (
                vec![("x", text.clone()), ("y", ints(&[2]))],
                "a",
                "2",
                cached,
            ),
            (
                vec![("x", wide), ("y", ints(&[3]))],
                "1099511627776",
                "3",
                cached,
            ),
            (vec![("x", ints(&[4]))], "4", missing, "4"),
            (vec![("x", ints(&[4])), ("y", text.clone())], "4", "a", "4"),
            (
                vec![("y", ints(&[5])), ("z", ints(&[6]))],
                missing,
                "5",
                missing,
            ),
        ] {
            write(&path, columns);
            for (sql, expected) in [("SELECT x FROM t", x), ("SELECT y FROM t", y)] {
                let shown = client.simple(sql).shown();
                assert!(shown.starts_with(expected), "{sql}: {shown}");
            }
            let shown = client.run("p", &[], 0).shown();
            assert!(shown.starts_with(prepared), "{shown}");
            let view = client.simple("SELECT x FROM v").shown();
            let again = "error 0A000 the view has to be made again: column \"x\"";
            assert!(
                view.starts_with(if prepared == "4" { "4" } else { again }),
                "{view}"
            );
        }
        assert_eq!(client.simple("SELECT z FROM t").shown(), "6");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_that_is_overwritten_in_a_folder_has_its_own_columns() {
    let folder = tempfile::tempdir().unwrap();
    let [one, other] = ["0.parquet", "1.parquet"].map(|name| folder.path().join(name));
    write(&one, vec![("x", ints(&[1]))]);
    write(&other, vec![("x", ints(&[2]))]);
    let aside = tempfile::tempdir().unwrap();
    let new = aside.path().join("new");
    let server = server(folder.path()).await;
    blocking(&server, move |[mut client]| {
        let sum = "SELECT sum(x) FROM t";
        assert_eq!(client.simple(sum).shown(), "3");
        let wide: ArrayRef = Arc::new(Int64Array::from(vec![1_i64 << 40]));
        write(&new, vec![("x", wide)]);
        std::fs::copy(&new, &other).unwrap();
        // The folder's listing is unchanged: the scan finds the change, and the next statement is
        // right.
        let shown = client.simple(sum).shown();
        let outdated = "error 0A000 cached plan must not change result type";
        assert!(
            shown.starts_with(outdated) && shown.contains("1.parquet"),
            "{shown}"
        );
        assert_eq!(client.simple(sum).shown(), "1099511627777");
        let text: ArrayRef = Arc::new(StringArray::from(vec!["a"]));
        write(&new, vec![("x", text)]);
        std::fs::copy(&new, &other).unwrap();
        for _ in 0..2 {
            let shown = client.simple(sum).shown();
            assert!(
                shown.contains("1.parquet") && shown.contains("\"x\""),
                "{shown}"
            );
        }
        std::fs::remove_file(&other).unwrap();
        assert_eq!(client.simple(sum).shown(), "1");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn uuids_from_files_can_be_compared_and_stored() {
    let folder = tempfile::tempdir().unwrap();
    let (path, copied) = (
        folder.path().join("t"),
        folder.path().join("copied.parquet"),
    );
    std::fs::create_dir(&path).unwrap();
    let file = path.join("0.parquet");
    // The table needs a file before the server can write one.
    write(&file, vec![("x", ints(&[1]))]);
    let server = server(&path).await;
    blocking(&server, move |[mut client]| {
        let (file, copy) = (file.to_str().unwrap(), copied.to_str().unwrap());
        let ab = "abababab-abab-abab-abab-abababababab";
        let mut run = |sql: &str, expected: &str| {
            let shown = client.simple(sql).shown();
            assert!(
                shown.starts_with(expected) && shown.is_empty() == expected.is_empty(),
                "{sql}: {shown}"
            );
        };
        let two = format!(
            "SELECT '00000000000000000000000000000000'::uuid AS u UNION ALL SELECT '{ab}'::uuid"
        );
        run(&format!("COPY ({two}) TO '{file}'"), "");
        run(
            "INSERT INTO t VALUES ('11111111-1111-1111-1111-111111111111'), (NULL)",
            "",
        );
        run("INSERT INTO t VALUES ('no')", "error 22P02");
        run(
            &format!("INSERT INTO t SELECT u FROM t WHERE u = '{ab}'"),
            "",
        );
        run(
            "SELECT count(*), count(DISTINCT u), max(u::text) FROM t",
            &format!("5 | 3 | {ab}"),
        );
        run(
            "INSERT INTO t (U) VALUES ('22222222-2222-2222-2222-222222222222')",
            "",
        );
        run("SELECT count(*) FROM t WHERE u::text LIKE '2%'", "1");
        run(
            &format!("CREATE TABLE own AS SELECT u FROM t WHERE u = '{ab}'"),
            "",
        );
        run(
            &format!("SELECT pg_typeof(u), u FROM own WHERE u = '{ab}'"),
            &format!("uuid | {ab}"),
        );
        run(
            &format!("COPY (SELECT u FROM t WHERE u > '{{{ab}}}' OR u = '{ab}') TO '{copy}'"),
            "",
        );
        run(
            &format!("CREATE EXTERNAL TABLE copied STORED AS PARQUET LOCATION '{copy}'"),
            "",
        );
        run(
            "SELECT pg_typeof(u), u FROM copied LIMIT 1",
            &format!("uuid | {ab}"),
        );
        run(
            &format!("SELECT count(*) FROM copied WHERE u = '{ab}'"),
            "2",
        );
    })
    .await;
}
