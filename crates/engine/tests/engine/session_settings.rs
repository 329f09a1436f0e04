//! Promised, for a program's SET, RESET and SHOW: they have the names, values and errors that a
//! server's client finds; a setting belongs to its session; the end of a block, and ROLLBACK TO,
//! restore what it set; its modes are settings, and so are those of a statement outside of it.

use std::sync::Arc;

use crate::common::{collect, rows};
use coscan::running::Answer;
use coscan::{
    Block, Confinement, Engine, EngineConfig, Error, Rights, Session, StartOptions,
    TransactionModes, is_denied,
};
use coscan_pg::PgError;
use datafusion::scalar::ScalarValue;

fn session() -> Session {
    Engine::new(EngineConfig::default()).unwrap().session()
}

/// A session with names of its own, of which blocks restore everything.
fn confined() -> Session {
    session().confined(&Confinement::new(Rights::NONE))
}

async fn show(session: &Session, name: &str) -> String {
    rows(session, &format!("SHOW {name}")).await.remove(0)
}

/// The SQLSTATE with which a statement is refused.
fn code(refused: &Error) -> Option<&'static str> {
    match refused {
        Error::Query(error) => PgError::of(error).map(PgError::code),
        _ => None,
    }
}

/// Runs a statement in a block. Returns its tag.
async fn run(block: &mut Block, session: &Session, sql: &str) -> Result<String, Error> {
    let statement = session.prepare(sql, &[]).await.unwrap();
    let options = StartOptions::of_caller().unwrap();
    let running = block.start(&statement, vec![], options).await?;
    Ok(running.finish(statement.answer()).await.unwrap())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn settings_have_postgresqls_names_and_values() {
    let session = session();
    let other = session.engine().session();
    for (sql, name, shown) in [
        (
            "SET TIME ZONE 'Europe/Berlin'",
            "TIME ZONE",
            "Europe/Berlin",
        ),
        ("RESET TIME ZONE", "timezone", "UTC"),
        (
            "SET default_transaction_read_only = true",
            "default_transaction_read_only",
            "on",
        ),
        ("SET work_mem TO '64MB'", "work_mem", "64MB"),
        ("RESET ALL", "work_mem", "4MB"),
        ("SET statement_timeout = '90 s'", "statement_timeout", "90s"),
        ("SET my.own = 'x'", "my.own", "x"),
        (
            "SET coscan.policy = 'elevator'",
            "coscan.policy",
            "elevator",
        ),
        ("SET IntervalStyle = ISO_8601", "IntervalStyle", "iso_8601"),
        // Outside of a block this does nothing.
        ("SET LOCAL work_mem = '1MB'", "work_mem", "4MB"),
        ("SET TRANSACTION READ ONLY", "transaction_read_only", "off"),
    ] {
        assert!(rows(&session, sql).await.is_empty(), "{sql}");
        assert_eq!(show(&session, name).await, shown, "{sql}");
    }
    let interval = rows(&session, "SELECT (interval '1 day')::text").await;
    assert_eq!(interval, ["P1D"]);
    assert_eq!(show(&other, "coscan.policy").await, "relevance");
    assert_eq!(show(&other, "IntervalStyle").await, "postgres");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn refusals_have_postgresqls_sqlstate() {
    let session = session();
    for (sql, expected) in [
        ("SET no_such = 1", "42704"),
        ("RESET no_such", "42704"),
        ("SHOW no_such", "42704"),
        ("SET server_version = '1'", "55P02"),
        ("SET statement_timeout = 'soon'", "22023"),
        ("SET client_encoding = 'LATIN1'", "22023"),
        ("SET TIME ZONE 'no/such'", "22023"),
    ] {
        let refused = session.sql(sql).await.err().unwrap();
        assert_eq!(code(&refused), Some(expected), "{sql}: {refused}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn reset_returns_to_what_the_engine_was_started_with() {
    let mut config = EngineConfig::default();
    config.set("policy", "elevator").unwrap();
    let session = Engine::new(config).unwrap().session();
    for reset in [
        "RESET coscan.policy",
        "RESET ALL",
        "SET coscan.policy TO DEFAULT",
    ] {
        rows(&session, "SET coscan.policy = 'normal'").await;
        assert_eq!(show(&session, "coscan.policy").await, "normal");
        rows(&session, reset).await;
        assert_eq!(show(&session, "coscan.policy").await, "elevator", "{reset}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_confined_session_does_not_set_what_all_share() {
    let session = confined();
    for sql in [
        "SET coscan.memory = '1GB'",
        "RESET coscan.memory",
        "SET datafusion.runtime.memory_limit = '1G'",
        "SET datafusion.execution.target_partitions = 1000000",
    ] {
        let Err(Error::Query(refused)) = session.sql(sql).await else {
            panic!("{sql} is not refused");
        };
        assert!(is_denied(&refused), "{sql}: {refused}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn options_of_the_environment_are_settings_and_reset_returns_to_what_all_share() {
    let session = session();
    let pool = || Arc::clone(&session.context().runtime_env().memory_pool);
    let shared = pool();
    let (limit, fan_in) = (
        "datafusion.runtime.memory_limit",
        "datafusion.runtime.max_spill_merge_fan_in",
    );
    let (first_limit, first_fan_in) = (show(&session, limit).await, show(&session, fan_in).await);
    rows(&session, &format!("SET {limit} = '64M'")).await;
    rows(&session, &format!("SET {fan_in} = '7'")).await;
    assert_eq!(show(&session, limit).await, "64M");
    assert!(!Arc::ptr_eq(&pool(), &shared));
    rows(&session, &format!("RESET {limit}")).await;
    assert_eq!(show(&session, limit).await, first_limit);
    assert!(Arc::ptr_eq(&pool(), &shared));
    assert_eq!(show(&session, fan_in).await, "7", "it stays");

    rows(&session, "BEGIN").await;
    rows(&session, &format!("SET LOCAL {fan_in} = '9'")).await;
    assert_eq!(show(&session, fan_in).await, "9");
    rows(&session, "COMMIT").await;
    assert_eq!(show(&session, fan_in).await, "7");
    rows(&session, "BEGIN").await;
    rows(&session, &format!("SET {fan_in} = '9'")).await;
    rows(&session, "ROLLBACK").await;
    assert_eq!(show(&session, fan_in).await, "7");
    let all = rows(&session, "SHOW ALL").await;
    assert!(
        all.iter()
            .any(|row| row.starts_with(&format!("{fan_in}|7|")))
    );
    rows(&session, "RESET ALL").await;
    assert_eq!(show(&session, fan_in).await, first_fan_in);
    for verb in ["SHOW", "RESET"] {
        let sql = format!("{verb} datafusion.runtime.no_such");
        let refused = session.sql(&sql).await.err().unwrap();
        assert_eq!(code(&refused), Some("42704"), "{sql}: {refused}");
    }
    // It would name a folder of the server.
    let refused = confined()
        .sql("SHOW datafusion.runtime.temp_directory")
        .await;
    assert_eq!(code(&refused.err().unwrap()), Some("42704"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn set_config_sets_when_its_statement_has_run_and_current_setting_reads() {
    let session = confined();
    let other = session.engine().session();
    for (sql, expected) in [
        ("SELECT current_setting('work_mem')", "4MB"),
        ("SELECT set_config('work_mem', '1MB', false)", "1MB"),
        ("SELECT current_setting('Work_Mem')", "1MB"),
        ("SELECT current_setting('no_such', true)", "NULL"),
        // Outside of a block the statement is a transaction.
        ("SELECT set_config('work_mem', '2MB', true)", "2MB"),
        ("SELECT current_setting('work_mem')", "1MB"),
        ("SELECT set_config('my.own', 'x', false)", "x"),
        ("SELECT current_setting('my.own')", "x"),
        (
            "SELECT set_config('coscan.policy', 'elevator', false)",
            "elevator",
        ),
        ("SELECT current_setting('coscan.policy')", "elevator"),
    ] {
        assert_eq!(rows(&session, sql).await, [expected], "{sql}");
    }
    assert_eq!(show(&other, "coscan.policy").await, "relevance");
    for (is_local, end, expected) in [
        ("true", "COMMIT", "1MB"),
        ("false", "ROLLBACK", "1MB"),
        ("false", "COMMIT", "3MB"),
    ] {
        rows(&session, "BEGIN").await;
        let sql = format!("SELECT set_config('work_mem', '3MB', {is_local})");
        rows(&session, &sql).await;
        assert_eq!(show(&session, "work_mem").await, "3MB");
        rows(&session, end).await;
        assert_eq!(show(&session, "work_mem").await, expected, "{sql}; {end}");
    }
    // What SET refuses, and what a failed statement asks for, is not set.
    for (sql, expected) in [
        (
            "SELECT set_config('statement_timeout', 'soon', false), \
             set_config('application_name', 'x', false)",
            "22023",
        ),
        ("SELECT set_config('server_version', '1', false)", "55P02"),
    ] {
        let stream = session.sql(sql).await.unwrap();
        let refused = collect(stream).await.unwrap_err();
        let found = PgError::of(&refused).map(PgError::code);
        assert_eq!(found, Some(expected), "{sql}: {refused}");
    }
    assert_eq!(show(&session, "application_name").await, "");
    let sql = "SELECT set_config('work_mem', '9MB', false), 1 / n FROM generate_series(0, 1) t(n)";
    if let Ok(stream) = session.sql(sql).await {
        assert!(collect(stream).await.is_err());
    }
    rows(&session, "SELECT 1").await;
    assert_eq!(show(&session, "work_mem").await, "3MB");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rows_that_are_read_after_a_rollback_set_nothing() {
    let session = confined();
    let sql = "SELECT set_config('work_mem', '9MB', false)";
    rows(&session, "BEGIN").await;
    let stream = session.sql(sql).await.unwrap();
    rows(&session, "ROLLBACK").await;
    assert_eq!(collect(stream).await.unwrap(), ["9MB"]);
    assert_eq!(show(&session, "work_mem").await, "4MB");
    let block = session.begin(TransactionModes::default()).await.unwrap();
    assert_eq!(rows(&session, sql).await, ["9MB"]);
    drop(block);
    assert_eq!(show(&session, "work_mem").await, "4MB");
}

/// A part of a query that was given up still runs when the next query has begun.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_query_asks_for_that_was_given_up_is_not_set() {
    let session = session();
    let context = session.context();
    let given_up = context.sql("SELECT set_config('work_mem', '9MB', false)");
    let given_up = given_up.await.unwrap().create_physical_plan().await;
    let next = session.sql("SELECT 1").await.unwrap();
    let late = datafusion::physical_plan::collect(given_up.unwrap(), context.task_ctx());
    late.await.unwrap();
    assert_eq!(collect(next).await.unwrap(), ["1"]);
    assert_eq!(show(&session, "work_mem").await, "4MB");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_prepared_show_has_a_column_and_shows_the_value_of_its_time() {
    let session = session();
    let statement = session.prepare("SHOW timezone", &[]).await.unwrap();
    assert_eq!(statement.schema().field(0).name(), "TimeZone");
    assert_eq!(statement.answer(), Answer::Rows("SHOW"));
    assert!(statement.parameter_types().is_empty());
    rows(&session, "SET TIME ZONE 'Europe/Berlin'").await;
    let options = StartOptions::of_caller().unwrap();
    let mut running = statement.start(vec![], options).await.unwrap();
    let batch = running.next().await.unwrap().unwrap();
    assert_eq!(crate::common::texts(&batch), ["Europe/Berlin"]);
    assert!(running.next().await.unwrap().is_none());
    let values = vec![ScalarValue::from(1)];
    let refused = statement.execute(values).await.err().unwrap();
    assert_eq!(code(&refused), Some("08P01"));
    let set = session.prepare("SET work_mem = '1MB'", &[]).await.unwrap();
    assert_eq!(set.answer(), Answer::Done("SET"));
    assert!(set.schema().fields().is_empty());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_end_of_a_block_restores_what_it_set() {
    let session = confined();
    let mut block = session.begin(TransactionModes::default()).await.unwrap();
    let set = run(&mut block, &session, "SET work_mem = '1MB'").await;
    assert_eq!(set.unwrap(), "SET");
    block.savepoint("a").await.unwrap();
    run(&mut block, &session, "SET work_mem = '2MB'")
        .await
        .unwrap();
    block.rollback_to("a").await.unwrap();
    assert_eq!(show(&session, "work_mem").await, "1MB");
    block.rollback().await;
    assert_eq!(show(&session, "work_mem").await, "4MB");

    let mut block = session.begin(TransactionModes::default()).await.unwrap();
    for sql in [
        "SET LOCAL work_mem = '3MB'",
        "SET application_name = 'kept'",
        "SET coscan.policy = 'elevator'",
    ] {
        run(&mut block, &session, sql).await.unwrap();
    }
    assert_eq!(show(&session, "work_mem").await, "3MB");
    assert!(block.commit().await.unwrap());
    assert_eq!(show(&session, "work_mem").await, "4MB");
    assert_eq!(show(&session, "application_name").await, "kept");
    assert_eq!(show(&session, "coscan.policy").await, "elevator");

    let mut block = session.begin(TransactionModes::default()).await.unwrap();
    run(&mut block, &session, "SET coscan.policy = 'normal'")
        .await
        .unwrap();
    drop(block);
    assert_eq!(show(&session, "coscan.policy").await, "elevator");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_modes_of_a_block_are_settings() {
    let session = confined();
    let made = "CREATE TABLE t AS SELECT 1 AS n";
    let mut block = session.begin(session.modes().await).await.unwrap();
    run(&mut block, &session, "SET TRANSACTION READ ONLY")
        .await
        .unwrap();
    assert_eq!(show(&session, "transaction_read_only").await, "on");
    let refused = run(&mut block, &session, made).await.unwrap_err();
    assert_eq!(code(&refused), Some("25006"));
    block.rollback().await;
    assert_eq!(show(&session, "transaction_read_only").await, "off");

    let mut block = session.begin(session.modes().await).await.unwrap();
    run(&mut block, &session, "SELECT 1").await.unwrap();
    let late = "SET TRANSACTION ISOLATION LEVEL SERIALIZABLE";
    let refused = run(&mut block, &session, late).await.unwrap_err();
    assert_eq!(code(&refused), Some("25001"));
    block.rollback().await;

    let mut block = session.begin(session.modes().await).await.unwrap();
    for sql in [
        "SET TRANSACTION READ ONLY",
        "SELECT 1",
        "RESET transaction_read_only",
        made,
    ] {
        run(&mut block, &session, sql).await.unwrap();
    }
    block.rollback().await;

    let modes = TransactionModes {
        isolation: "no level".to_owned(),
        ..TransactionModes::default()
    };
    let mut block = session.begin(modes).await.unwrap();
    for sql in ["SELECT 1", "SET work_mem = '1MB'"] {
        run(&mut block, &session, sql).await.unwrap();
    }
    block.rollback().await;

    let defaults = "SET SESSION CHARACTERISTICS AS TRANSACTION READ ONLY";
    rows(&session, defaults).await;
    let refused = session.sql(made).await.err().unwrap();
    assert_eq!(code(&refused), Some("25006"), "also outside of a block");
    let modes = session.modes().await;
    assert!(modes.read_only);
    let mut block = session.begin(modes).await.unwrap();
    // The block keeps its modes when their defaults change.
    let defaults = "SET default_transaction_read_only = off";
    run(&mut block, &session, defaults).await.unwrap();
    assert!(run(&mut block, &session, made).await.is_err());
    assert!(!block.commit().await.unwrap());
    assert!(session.modes().await.read_only, "the block has failed");
}
