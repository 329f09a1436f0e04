//! Promised, for a program that runs text: BEGIN, COMMIT, ROLLBACK, savepoints, PREPARE, EXECUTE
//! and DEALLOCATE are statements, with the states, tags and errors that a server's client finds. A
//! statement that fails in a block fails it, also when rows were read of it. SET LOCAL lasts as
//! long as the block, whoever has opened it.

use std::sync::Arc;

use coscan::{
    BlockStatus, Confinement, Engine, EngineConfig, Error, Notices, Rights, Session, StartOptions,
    TransactionModes,
};
use datafusion::error::DataFusionError;
use datafusion::scalar::ScalarValue;
use futures::FutureExt;

use crate::common::{collect, rows};

/// A session with names of its own, of which blocks restore everything.
fn confined() -> Session {
    let engine = Engine::new(EngineConfig::default()).unwrap();
    engine.session().confined(&Confinement::new(Rights::NONE))
}

fn sqlstate(error: &DataFusionError) -> &'static str {
    coscan_pg::translate(error, &|_| None).code()
}

/// The SQLSTATE with which a statement is refused.
fn code(refused: &Error) -> &'static str {
    match refused {
        Error::Query(error) => sqlstate(error),
        _ => "?",
    }
}

/// The rows of a statement, or the SQLSTATE of its refusal or failure.
async fn answer(session: &Session, sql: &str) -> String {
    let stream = match session.sql(sql).await {
        Ok(stream) => stream,
        Err(refused) => return format!("error {}", code(&refused)),
    };
    match collect(stream).await {
        Ok(rows) => rows.join("; "),
        Err(failed) => format!("error {}", sqlstate(&failed)),
    }
}

/// Runs each statement, and compares its rows. Where `ok` is expected, what is counted is not
/// compared.
async fn answers(session: &Session, script: &[(&str, &str)]) {
    for (sql, expected) in script {
        let found = answer(session, sql).await;
        if *expected == "ok" {
            assert!(!found.starts_with("error"), "{sql}: {found}");
        } else {
            assert_eq!(found, *expected, "{sql}");
        }
    }
}

/// Runs a statement. Returns its tag.
async fn tag(session: &Session, sql: &str) -> String {
    let statement = session.prepare(sql, &[]).await.unwrap();
    let options = StartOptions::of_caller().unwrap();
    let running = statement.start(vec![], options).await.unwrap();
    let answer = statement.answer();
    running.finish(answer).await.unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rollback_as_a_statement_restores_rows_names_and_settings() {
    let session = confined();
    answers(
        &session,
        &[
            ("CREATE TABLE t AS SELECT 1 AS n", "ok"),
            ("BEGIN", ""),
            ("INSERT INTO t VALUES (2)", "ok"),
            ("CREATE TABLE u AS SELECT 1 AS n", "ok"),
            ("SET work_mem = '1MB'", ""),
            ("SAVEPOINT a", ""),
            ("DELETE FROM t", "ok"),
            ("SET work_mem = '2MB'", ""),
            ("ROLLBACK TO a", ""),
            ("SELECT sum(n) FROM t", "3"),
            ("SHOW work_mem", "1MB"),
            ("RELEASE a", ""),
            ("ROLLBACK", ""),
            ("SELECT sum(n) FROM t", "1"),
            ("SELECT n FROM u", "error 42P01"),
            ("SHOW work_mem", "4MB"),
            ("BEGIN", ""),
            ("INSERT INTO t VALUES (5)", "ok"),
            ("SET work_mem = '3MB'", ""),
            ("SET LOCAL application_name = 'gone'", ""),
            ("SHOW application_name", "gone"),
            ("COMMIT", ""),
            ("SELECT sum(n) FROM t", "6"),
            ("SHOW work_mem", "3MB"),
            ("SHOW application_name", ""),
        ],
    )
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_failed_statement_fails_the_block() {
    let session = confined();
    rows(&session, "CREATE TABLE t AS SELECT 1 AS n").await;
    for failing in [
        "SELECT nothing FROM t",
        "SELEC 1",
        "SELECT 1 / (n - 1) FROM t",
        "SHOW no_such",
        "EXECUTE no_such",
        "ROLLBACK TO no_such",
    ] {
        rows(&session, "BEGIN").await;
        rows(&session, "INSERT INTO t VALUES (2)").await;
        let failed = answer(&session, failing).await;
        assert!(failed.starts_with("error"), "{failing}: {failed}");
        assert_eq!(session.status().await, BlockStatus::Failed, "{failing}");
        for sql in [
            "SELECT 1",
            "SHOW work_mem",
            "BEGIN",
            "PREPARE p AS SELECT 1",
        ] {
            let refused = answer(&session, sql).await;
            assert_eq!(refused, "error 25P02", "{sql} after {failing}");
        }
        assert_eq!(tag(&session, "COMMIT").await, "ROLLBACK");
        assert_eq!(session.status().await, BlockStatus::Idle);
        assert_eq!(answer(&session, "SELECT sum(n) FROM t").await, "1");
    }
    // A savepoint revives the block.
    answers(
        &session,
        &[
            ("BEGIN", ""),
            ("SAVEPOINT a", ""),
            ("SELECT 1 / (n - 1) FROM t", "error 22012"),
            ("ROLLBACK TO a", ""),
            ("SELECT n FROM t", "1"),
            ("ROLLBACK", ""),
        ],
    )
    .await;
}

/// The tasks of a statement run on the one thread, so it waits for them.
#[tokio::test]
async fn a_statement_that_is_given_up_before_its_table_is_there_fails_the_block() {
    let session = confined();
    rows(&session, "BEGIN").await;
    drop(session.sql("SELECT 1").await.unwrap());
    assert_eq!(session.status().await, BlockStatus::Open, "as a cursor");
    let made = "CREATE TABLE u AS SELECT 1 AS n";
    let made = session.prepare(made, &[]).await.unwrap();
    let given_up = made.execute(vec![]).boxed_local().now_or_never();
    assert!(given_up.is_none(), "it was there at once");
    assert_eq!(session.status().await, BlockStatus::Failed);
    assert_eq!(tag(&session, "COMMIT").await, "ROLLBACK");
    assert_eq!(answer(&session, "SELECT n FROM u").await, "error 42P01");
}

/// On one thread the tasks of a statement run when somebody waits.
#[tokio::test]
async fn a_change_that_comes_after_its_block_was_undone_is_given_up() {
    let session = confined();
    rows(&session, "CREATE TABLE t AS SELECT 1 AS n").await;
    for undone in ["ROLLBACK", "ROLLBACK TO a"] {
        rows(&session, "BEGIN").await;
        rows(&session, "SAVEPOINT a").await;
        let late = session.sql("INSERT INTO t VALUES (2)").await.unwrap();
        rows(&session, undone).await;
        drop(collect(late).await);
        let left = answer(&session, "SELECT count(*) FROM t").await;
        assert_eq!(left, "1", "{undone}");
        rows(&session, "ROLLBACK").await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn statements_about_the_block_have_postgresqls_tags_modes_and_errors() {
    let session = confined();
    answers(
        &session,
        &[
            ("SAVEPOINT a", "error 25P01"),
            ("ROLLBACK TO a", "error 25P01"),
            ("COMMIT AND CHAIN", "error 25P01"),
            ("COMMIT", ""),
            ("CREATE TABLE t AS SELECT 1 AS n", "ok"),
            ("BEGIN READ ONLY", ""),
            ("CREATE TABLE u AS SELECT 1 AS n", "error 25006"),
            ("ROLLBACK AND CHAIN", ""),
            ("SHOW transaction_read_only", "on"),
            ("COMMIT", ""),
            ("SHOW transaction_read_only", "off"),
            ("BEGIN", ""),
            ("SELECT 1", "1"),
            (
                "SET TRANSACTION ISOLATION LEVEL SERIALIZABLE",
                "error 25001",
            ),
            ("ROLLBACK", ""),
        ],
    )
    .await;
    for (sql, expected) in [
        ("START TRANSACTION", "START TRANSACTION"),
        ("BEGIN", "BEGIN"),
        ("SAVEPOINT a", "SAVEPOINT"),
        ("ROLLBACK TO SAVEPOINT a", "ROLLBACK"),
        ("RELEASE a", "RELEASE"),
        ("END", "COMMIT"),
        ("ABORT", "ROLLBACK"),
    ] {
        assert_eq!(tag(&session, sql).await, expected, "{sql}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_block_that_is_open_or_not_warns() {
    let engine = Engine::new(EngineConfig::default()).unwrap();
    let session = engine.session();
    let notices = Arc::new(Notices::default());
    let state = session.context().state_ref();
    let told_to = Arc::clone(&notices);
    state.write().config_mut().set_extension(told_to);
    for (sql, warned) in [
        ("COMMIT", Some("25P01")),
        ("SET LOCAL work_mem = '1MB'", Some("25P01")),
        ("BEGIN", None),
        ("SET LOCAL work_mem = '1MB'", None),
        ("BEGIN", Some("25001")),
        ("COMMIT", None),
    ] {
        rows(&session, sql).await;
        let told = notices.take();
        assert_eq!(told.first().map(|told| told.code), warned, "{sql}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn set_local_follows_a_block_that_the_program_has_opened() {
    let session = confined();
    let block = session.begin(TransactionModes::default()).await.unwrap();
    answers(
        &session,
        &[
            ("SET LOCAL work_mem = '1MB'", ""),
            ("SET application_name = 'kept'", ""),
            ("SHOW work_mem", "1MB"),
            // The block is the program's.
            ("BEGIN", "error 55000"),
            ("COMMIT", "error 55000"),
            ("SET TRANSACTION READ ONLY", "error 55000"),
            ("SHOW transaction_read_only", "off"),
        ],
    )
    .await;
    assert!(block.commit().await.unwrap());
    answers(
        &session,
        &[
            ("SHOW work_mem", "4MB"),
            ("SHOW application_name", "kept"),
            ("SET LOCAL work_mem = '1MB'", ""),
            ("SHOW work_mem", "4MB"),
        ],
    )
    .await;
    rows(&session, "BEGIN").await;
    let second = session.begin(TransactionModes::default()).await;
    assert_eq!(code(&second.err().unwrap()), "25001");
    rows(&session, "ROLLBACK").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_blocks_own_statements_are_not_begin_and_commit() {
    let session = confined();
    let mut block = session.begin(TransactionModes::default()).await.unwrap();
    let commit = session.prepare("COMMIT", &[]).await.unwrap();
    let options = StartOptions::of_caller().unwrap();
    let refused = block.start(&commit, vec![], options).await.err().unwrap();
    assert_eq!(code(&refused), "55000");
    assert_eq!(block.status(), BlockStatus::Failed);
    block.rollback().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn prepare_and_execute_are_statements() {
    let session = confined();
    answers(
        &session,
        &[
            ("CREATE TABLE t AS SELECT 1 AS n", "ok"),
            ("PREPARE p AS SELECT n + $1 AS x FROM t", ""),
            ("EXECUTE p (2)", "3"),
            ("EXECUTE p ('5')", "6"),
            ("EXECUTE p (1 + 1)", "3"),
            ("EXECUTE p", "error 42601"),
            ("EXECUTE p (true)", "error 42804"),
            ("PREPARE p AS SELECT 1", "error 42P05"),
            ("PREPARE i (int) AS INSERT INTO t VALUES ($1)", ""),
            ("EXECUTE i (7)", "ok"),
            ("SELECT sum(n) FROM t", "8"),
            ("PREPARE q (nonsense) AS SELECT $1", "error 42704"),
            ("PREPARE q AS SHOW work_mem", "error 42601"),
            ("BEGIN", ""),
            ("EXECUTE i (8)", "ok"),
            ("ROLLBACK", ""),
            ("SELECT count(*) FROM t", "2"),
            ("BEGIN READ ONLY", ""),
            ("EXECUTE i (8)", "error 25006"),
            ("ROLLBACK", ""),
            ("DEALLOCATE p", ""),
            ("EXECUTE p (2)", "error 26000"),
            ("DEALLOCATE p", "error 26000"),
            ("DEALLOCATE ALL", ""),
            ("EXECUTE i (2)", "error 26000"),
        ],
    )
    .await;
    // Other sessions have names of their own.
    rows(&session, "PREPARE p AS SELECT 1").await;
    let other = session.engine().session();
    assert_eq!(answer(&other, "EXECUTE p").await, "error 26000");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn execute_has_the_columns_and_the_answer_of_what_it_runs() {
    let session = confined();
    assert_eq!(tag(&session, "PREPARE p AS SELECT 1 AS x").await, "PREPARE");
    assert_eq!(tag(&session, "EXECUTE p").await, "SELECT 1");
    let execute = session.prepare("EXECUTE p", &[]).await.unwrap();
    assert_eq!(execute.schema().field(0).name(), "x");
    let refused = execute.execute(vec![ScalarValue::from(1)]).await;
    assert_eq!(code(&refused.err().unwrap()), "08P01");
    let rows = execute.execute(vec![]).await.unwrap();
    assert_eq!(collect(rows).await.unwrap(), ["1"]);
    assert_eq!(tag(&session, "DEALLOCATE PREPARE p").await, "DEALLOCATE");
    assert_eq!(tag(&session, "DEALLOCATE ALL").await, "DEALLOCATE ALL");
    assert!(execute.schema().fields().is_empty());
}
