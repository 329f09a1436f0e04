//! Promised, for a program's transaction blocks: ROLLBACK and ROLLBACK TO restore the tables of the
//! session, and so does dropping the block; a session has one block at most, which runs its own
//! statements; a failed block runs nothing until a savepoint revives it, and its COMMIT keeps
//! nothing; READ ONLY refuses changes.

use arrow::array::{AsArray, RecordBatch};
use arrow::datatypes::Int64Type;
use coscan::{
    Block, BlockStatus, Confinement, Engine, EngineConfig, Rights, Session, StartOptions,
    TransactionModes,
};
use futures::TryStreamExt;

const INSERT: &str = "INSERT INTO t SELECT 2::bigint";

/// A session of which the table `t` of one row is its own.
async fn session() -> Session {
    let engine = Engine::new(EngineConfig::default()).unwrap();
    let session = engine.session().confined(&Confinement::new(Rights::NONE));
    let made = "CREATE TABLE t AS SELECT 1::bigint AS n";
    session.sql(made).await.unwrap();
    session
}

async fn count(session: &Session) -> i64 {
    let rows = session.sql("SELECT count(*) FROM t").await.unwrap();
    let rows: Vec<RecordBatch> = rows.try_collect().await.unwrap();
    rows[0].column(0).as_primitive::<Int64Type>().value(0)
}

/// Runs a statement in a block. Returns its tag, or the text of its error.
async fn run(block: &mut Block, session: &Session, sql: &str) -> Result<String, String> {
    let statement = session.prepare(sql, &[]).await.unwrap();
    let options = StartOptions::of_caller().unwrap();
    let started = block.start(&statement, vec![], options).await;
    let running = started.map_err(|error| error.to_string())?;
    let done = running.finish(statement.answer()).await;
    done.map_err(|error| error.to_string())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rollback_restores_and_commit_keeps() {
    let session = session().await;
    let mut block = session.begin(TransactionModes::default()).await.unwrap();
    assert_eq!(
        run(&mut block, &session, INSERT).await.unwrap(),
        "INSERT 0 1"
    );
    assert_eq!(count(&session).await, 2);
    block.rollback().await;
    assert_eq!(count(&session).await, 1);
    let mut block = session.begin(TransactionModes::default()).await.unwrap();
    run(&mut block, &session, INSERT).await.unwrap();
    block.savepoint("a").await.unwrap();
    run(&mut block, &session, INSERT).await.unwrap();
    assert_eq!(count(&session).await, 3);
    block.rollback_to("a").await.unwrap();
    assert!(block.commit().await.unwrap());
    assert_eq!(count(&session).await, 2);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_failed_block_waits_for_its_end_or_a_savepoint() {
    let session = session().await;
    let mut block = session.begin(TransactionModes::default()).await.unwrap();
    block.savepoint("a").await.unwrap();
    run(&mut block, &session, INSERT).await.unwrap();
    block.fail();
    assert_eq!(block.status(), BlockStatus::Failed);
    let refused = run(&mut block, &session, INSERT).await.unwrap_err();
    assert!(
        refused.contains("current transaction is aborted"),
        "{refused}"
    );
    assert!(block.savepoint("b").await.is_err());
    block.rollback_to("a").await.unwrap();
    run(&mut block, &session, INSERT).await.unwrap();
    assert!(block.release("b").is_err());
    assert!(!block.commit().await.unwrap());
    assert_eq!(count(&session).await, 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn read_only_refuses_changes() {
    let session = session().await;
    let modes = TransactionModes {
        read_only: true,
        ..TransactionModes::default()
    };
    let mut block = session.begin(modes).await.unwrap();
    let made = "CREATE TABLE u AS SELECT 1::bigint AS n";
    let refused = run(&mut block, &session, made).await.unwrap_err();
    assert!(refused.contains("read-only transaction"), "{refused}");
    assert_eq!(block.status(), BlockStatus::Failed);
    block.rollback().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_dropped_block_is_rolled_back() {
    let session = session().await;
    let mut block = session.begin(TransactionModes::default()).await.unwrap();
    run(&mut block, &session, INSERT).await.unwrap();
    run(&mut block, &session, "CREATE TABLE u AS SELECT 1 AS n")
        .await
        .unwrap();
    drop(block);
    assert_eq!(count(&session).await, 1);
    assert!(session.sql("SELECT n FROM u").await.is_err());
    let mut block = session.begin(TransactionModes::default()).await.unwrap();
    run(&mut block, &session, INSERT).await.unwrap();
    assert!(block.commit().await.unwrap());
    assert_eq!(count(&session).await, 2);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_session_has_one_block_which_runs_its_own_statements() {
    let (one, other) = (session().await, session().await);
    let mut block = one.begin(TransactionModes::default()).await.unwrap();
    let second = one.begin(TransactionModes::default()).await;
    let refused = second.err().unwrap().to_string();
    assert!(refused.contains("already a transaction"), "{refused}");
    let refused = run(&mut block, &other, INSERT).await.unwrap_err();
    assert!(refused.contains("another session's"), "{refused}");
    assert_eq!(block.status(), BlockStatus::Failed);
    block.rollback().await;
    assert_eq!(count(&other).await, 1);
    let block = one.begin(TransactionModes::default()).await.unwrap();
    block.rollback().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_session_of_shared_names_has_one_block_too() {
    let session = Engine::new(EngineConfig::default()).unwrap().session();
    let modes = TransactionModes {
        read_only: true,
        ..TransactionModes::default()
    };
    let block = session.begin(modes).await.unwrap();
    let second = session.clone().begin(TransactionModes::default()).await;
    let refused = second.err().unwrap().to_string();
    assert!(refused.contains("already a transaction"), "{refused}");
    drop(block);
    assert!(!session.modes().await.read_only);
    let block = session.begin(TransactionModes::default()).await.unwrap();
    assert!(block.commit().await.unwrap());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_session_of_shared_names_only_reads_in_a_block() {
    let session = Engine::new(EngineConfig::default()).unwrap().session();
    let made = "CREATE TABLE t AS SELECT 1::bigint AS n";
    session.sql(made).await.unwrap();
    let mut block = session.begin(TransactionModes::default()).await.unwrap();
    let counted = run(&mut block, &session, "SELECT count(*) FROM t").await;
    assert_eq!(counted.unwrap(), "SELECT 1");
    let refused = run(&mut block, &session, INSERT).await.unwrap_err();
    assert!(refused.contains("ROLLBACK does not undo it"), "{refused}");
    block.rollback().await;
    assert_eq!(count(&session).await, 1);
}
