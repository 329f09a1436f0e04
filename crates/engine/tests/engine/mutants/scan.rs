//! Mutants of Parquet files, read by the engine, and by plain DataFusion if the engine returned
//! rows.

use std::fs;
use std::io::Write;
use std::ops::Range;
use std::panic::AssertUnwindSafe;
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use coscan::{Engine, EngineConfig, Session};
use datafusion::prelude::{ParquetReadOptions, SessionConfig, SessionContext};
use futures::FutureExt;

use super::files::files;
use super::mutate::{Mutant, mutate};
use super::random::Random;
use crate::common::{collect, config};

/// The queries that run over each mutant.
const QUERIES: [&str; 7] = [
    "SELECT * FROM m",
    "SELECT count(*) FROM m",
    "SELECT id, s1, s2, s3, code FROM m",
    "SELECT i, f, yes, price, at, nothing FROM m WHERE id % 3 = 1",
    "SELECT tags, map, point FROM m WHERE i > 10",
    "SELECT s2, tags FROM m WHERE id BETWEEN 130 AND 140",
    "SELECT count(s1), max(id) FROM m WHERE s3 = 'text 3 17' OR id < 45",
];

/// A query of 240 rows takes milliseconds, even in a debug build on a busy machine.
const HANG: Duration = Duration::from_secs(20);

/// Panics of Coscan's own code, without those that occur while plain DataFusion reads.
static PANICS: Mutex<Vec<String>> = Mutex::new(Vec::new());
static PLAIN: AtomicBool = AtomicBool::new(false);

/// Records panics instead of printing them all.
pub(crate) fn note_panics() {
    std::panic::set_hook(Box::new(|panic| {
        let place = panic
            .location()
            .map_or_else(String::new, ToString::to_string);
        let own = place.contains("crates/") && !place.contains(".cargo");
        if own && !PLAIN.load(Ordering::SeqCst) {
            PANICS.lock().unwrap().push(panic.to_string());
        }
        if std::env::var("RUST_BACKTRACE").is_ok_and(|on| on == "1") {
            eprintln!("{panic}\n{}", std::backtrace::Backtrace::force_capture());
        }
    }));
}

pub(crate) fn say(line: &str) {
    let mut out = std::io::stdout().lock();
    let _ = writeln!(out, "{line}");
    let _ = out.flush();
}

/// Fails the child; the parent reports what is wrong.
pub(crate) fn wrong(what: &str) -> ! {
    say(&format!("WRONG {what}"));
    std::process::exit(3);
}

pub(crate) fn check_panics() {
    let panics = std::mem::take(&mut *PANICS.lock().unwrap());
    if !panics.is_empty() {
        wrong(&format!("our own code panicked: {panics:?}"));
    }
}

/// A small engine: cooperative, or one that leaves tables of this size to DataFusion's reader.
pub(crate) fn engine(plain: bool) -> Session {
    let config = EngineConfig {
        memory_bytes: Some(256 << 20),
        decode_threads: Some(2),
        target_partitions: Some(2),
        small_table_bytes: if plain { 8 << 20 } else { 0 },
        chunk_bytes: 8 << 10,
        ..config()
    };
    Engine::new(config).expect("an engine").session()
}

pub(crate) fn run(seeds: Range<u64>) {
    note_panics();
    let runtime = tokio::runtime::Builder::new_multi_thread();
    let runtime = { runtime }.worker_threads(2).enable_all().build();
    runtime.expect("a runtime").block_on(async {
        let files = files();
        let folder = tempfile::tempdir().expect("a folder");
        let sessions = [engine(false), engine(true)];
        for seed in seeds {
            let mut random = Random(seed);
            let mutant = mutate(&files, &mut random);
            say(&format!("mutant {seed} {}", mutant.what));
            if std::env::var("COSCAN_MUTANTS_KEEP").is_ok() {
                fs::write(format!("/tmp/mutant-{seed}.parquet"), &mutant.bytes).expect("kept");
            }
            let path = folder.path().join(format!("{seed}.parquet"));
            fs::write(&path, &mutant.bytes).expect("written");
            let session = &sessions[usize::from(random.below(3) == 0)];
            // If the metadata contradicts the data, pruning drops rows that it should not, and
            // each reader prunes in its own places.
            for setting in ["pruning", "enable_page_index", "bloom_filter_on_read"] {
                let name = format!("datafusion.execution.parquet.{setting}");
                let value = if mutant.lies { "false" } else { "true" };
                session.set(&name, value).expect("set");
            }
            let outcome = look_at(session, &path, &mutant, &mut random).await;
            check_panics();
            say(&format!("outcome {outcome}"));
            let _ = fs::remove_file(&path);
        }
    });
}

async fn look_at(session: &Session, path: &Path, mutant: &Mutant, random: &mut Random) -> String {
    let lies = mutant.lies;
    let path = path.to_str().expect("UTF-8");
    let registered = caught("registering", session.register("m", path)).await;
    if let Err(error) = registered {
        return refused(&error.to_string());
    }
    let mut outcome = "rows".to_owned();
    let plain = tokio::sync::OnceCell::new();
    for _ in 0..2 {
        let sql = QUERIES[random.at(QUERIES.len())];
        let rows = match caught(sql, rows(session, sql)).await {
            Ok(rows) => rows,
            Err(error) => {
                outcome = refused(&error);
                continue;
            }
        };
        PLAIN.store(true, Ordering::SeqCst);
        let context = plain.get_or_init(|| plain_context(path, lies)).await;
        let expected = match context {
            Some(context) => plain_rows(context, sql).await,
            None => None,
        };
        PLAIN.store(false, Ordering::SeqCst);
        match expected {
            Some(expected) if expected == rows => {}
            // Plain DataFusion finds pages by the page index, even if all are wanted. A wrong
            // index makes it read other bytes; most are not a page, and the rest become rows.
            Some(_)
                if mutant.what.contains(": index ")
                    && rows_without_index(path, sql).await.as_ref() == Some(&rows) =>
            {
                "rows, where plain DataFusion has others by the page index"
                    .clone_into(&mut outcome);
            }
            Some(expected) => wrong(&format!("{sql}: {}", difference(&rows, &expected))),
            None => "rows, where plain DataFusion has an error".clone_into(&mut outcome),
        }
    }
    outcome
}

/// The kind of an error; a panic outside of Parquet's code is wrong.
fn refused(error: &str) -> String {
    let place = error.contains("mutant") || error.contains(".parquet");
    if error.contains("panicked") {
        if !error.contains("the Parquet reader panicked") {
            wrong(&format!("an uncaught panic: {error}"));
        }
        if !place {
            wrong(&format!("no file named: {error}"));
        }
        return "error, a panic of parquet's".to_owned();
    }
    if place {
        "error"
    } else {
        "error without the file"
    }
    .to_owned()
}

/// The future's result; fails if the future panics or takes too long.
pub(crate) async fn caught<T>(what: &str, future: impl Future<Output = T>) -> T {
    let future = tokio::time::timeout(HANG, AssertUnwindSafe(future).catch_unwind());
    match future.await {
        Ok(Ok(done)) => done,
        Ok(Err(panic)) => {
            let text = panic.downcast_ref::<String>().cloned();
            let text = text.or_else(|| panic.downcast_ref::<&str>().map(ToString::to_string));
            wrong(&format!("{what}: an uncaught panic: {text:?}"))
        }
        Err(_) => wrong(&format!("{what}: hangs")),
    }
}

pub(crate) async fn rows(session: &Session, sql: &str) -> Result<Vec<String>, String> {
    let stream = session.sql(sql).await.map_err(|error| error.to_string())?;
    let mut rows = collect(stream).await.map_err(|error| error.to_string())?;
    rows.sort_unstable();
    Ok(rows)
}

/// Plain DataFusion's rows without the page index.
async fn rows_without_index(path: &str, sql: &str) -> Option<Vec<String>> {
    PLAIN.store(true, Ordering::SeqCst);
    let rows = match plain_context(path, true).await {
        Some(context) => plain_rows(&context, sql).await,
        None => None,
    };
    PLAIN.store(false, Ordering::SeqCst);
    rows
}

async fn plain_context(path: &str, lies: bool) -> Option<SessionContext> {
    let mut config = SessionConfig::new().with_target_partitions(2);
    let options = &mut config.options_mut().execution.parquet;
    options.pruning = !lies;
    options.enable_page_index = !lies;
    options.bloom_filter_on_read = !lies;
    let context = SessionContext::new_with_config(config);
    let options = ParquetReadOptions::default();
    let registered = AssertUnwindSafe(context.register_parquet("m", path, options)).catch_unwind();
    registered.await.ok()?.ok()?;
    Some(context)
}

async fn plain_rows(context: &SessionContext, sql: &str) -> Option<Vec<String>> {
    let rows = async {
        let stream = context.sql(sql).await?.execute_stream().await?;
        collect(stream).await
    };
    let mut rows = AssertUnwindSafe(rows).catch_unwind().await.ok()?.ok()?;
    rows.sort_unstable();
    Some(rows)
}

fn difference(rows: &[String], expected: &[String]) -> String {
    let more = rows.iter().find(|row| expected.binary_search(row).is_err());
    let fewer = expected.iter().find(|row| rows.binary_search(row).is_err());
    format!(
        "{} rows, not {}; not there: {more:?}; missing: {fewer:?}",
        rows.len(),
        expected.len()
    )
}
