//! Promised: small runs of the engine load, read, request and decode exactly as much as
//! `counts.json` says.
//!
//! One client that sends one query after the other, one thread, one load at a time, and a buffer
//! that holds the table: nothing counted here depends on timing. Not counted: events
//! (`lab/study/tests/counts.rs` counts the simulator's), smooth scans, which weigh measured
//! prices, and requests for single pages, which read through gaps as wide as the measured device
//! makes worthwhile.
//! To accept an intended change, run with `COSCAN_WRITE_COUNTS=1`; the commit says why.

#![allow(clippy::unwrap_used, reason = "tests: a failure is a panic")]

use std::ops::ControlFlow;
use std::path::Path;

use coscan::{AccessPath, Engine, EngineConfig, Policy, Session, StorageModel};
use coscan_bench::tpch::{self, Generate, Table};
use coscan_rewrite::{PageLayout, RewriteOptions, rewrite};
use coscan_study::Counts;
use futures::TryStreamExt;

/// TPC-H Q6, a part of Q1 over a range, and a query that stops early.
const QUERIES: [&str; 3] = [
    "select sum(l_extendedprice * l_discount) from lineitem where l_shipdate >= date '1994-01-01' \
     and l_shipdate < date '1995-01-01' and l_quantity < 24",
    "select l_returnflag, sum(l_quantity), avg(l_tax), count(*) from lineitem \
     where l_orderkey between 20000 and 70000 group by l_returnflag order by l_returnflag",
    "select l_orderkey, l_comment from lineitem where l_partkey < 50",
];
/// Rows selected by the indexed key: few, and one row in forty.
const BY_KEY: [&str; 2] = [
    "select count(*), sum(l_quantity) from lineitem where l_partkey = 77",
    "select count(*), sum(l_quantity) from lineitem where l_partkey between 100 and 200",
];

fn config() -> EngineConfig {
    EngineConfig {
        memory_bytes: Some(256 << 20),
        small_table_bytes: 0,
        chunk_bytes: 64 << 10,
        target_partitions: Some(1),
        decode_threads: Some(1),
        loads_max: 1,
        record_trace: true,
        share_fragments: false,
        ..EngineConfig::default()
    }
}

async fn session(config: EngineConfig, table: &Path) -> Session {
    let session = Engine::new(config).unwrap().session();
    let path = table.to_str().unwrap();
    session.register("lineitem", path).await.unwrap();
    session
}

/// Runs a statement and returns its number of rows.
async fn run(session: &Session, sql: &str) -> u64 {
    let rows: Vec<_> = session.sql(sql).await.unwrap().try_collect().await.unwrap();
    rows.iter().map(|batch| batch.num_rows() as u64).sum()
}

fn note(counts: &mut Counts, experiment: &str, engine: &Engine, rows: u64) {
    let metrics = engine.metrics();
    counts.note(experiment, "rows", rows);
    counts.note(experiment, "chunk loads", engine.trace().len() as u64);
    counts.note(experiment, "requests", metrics.io_requests);
    counts.note(experiment, "bytes read", metrics.io_bytes);
    counts.note(experiment, "bytes decoded", metrics.decode_bytes);
}

/// Scans under each policy.
async fn scans(counts: &mut Counts, table: &Path) {
    for policy in Policy::ALL {
        for model in [StorageModel::Nsm, StorageModel::Dsm] {
            let config = EngineConfig {
                policy,
                model,
                ..config()
            };
            let session = session(config, table).await;
            let mut rows = 0;
            for sql in QUERIES {
                rows += run(&session, sql).await;
            }
            let name = format!("scans, {policy}, {}", model.name());
            note(counts, &name, session.engine(), rows);
        }
    }
}

/// Work done once per chunk: a query, the same query a second time, and another query of the same
/// table. Two partitions, because with one DataFusion has no partial aggregates.
async fn fragments(counts: &mut Counts, table: &Path) {
    let config = EngineConfig {
        share_fragments: true,
        // A kept result of the whole query would hide the remembered results of chunks.
        share_operators: false,
        target_partitions: Some(2),
        ..config()
    };
    let session = session(config, table).await;
    let mut rows = 0;
    for sql in [QUERIES[0], QUERIES[0], QUERIES[1]] {
        rows += run(&session, sql).await;
    }
    let engine = session.engine();
    note(counts, "fragments", engine, rows);
    let metrics = engine.metrics();
    for (name, count) in [
        ("jobs", metrics.fragment_jobs),
        ("states", metrics.fragment_states),
        ("states remembered", metrics.fragment_states_remembered),
        ("chunks given back", metrics.fragment_chunks_given_back),
    ] {
        counts.note("fragments", name, count);
    }
}

/// Pages that begin at the same rows in every column, and rows selected by an index on them.
async fn by_index(counts: &mut Counts, table: &Path, folder: &Path) {
    let engine = Engine::new(config()).unwrap();
    let pages = folder.join("pages.parquet");
    let options = RewriteOptions {
        layout: PageLayout {
            page_rows: 256,
            ..PageLayout::default()
        },
        ..RewriteOptions::default()
    };
    let (from, to) = (table.to_str().unwrap(), pages.to_str().unwrap());
    let written = rewrite(&engine, from, to, &options, |_| ()).await.unwrap();
    counts.note("rewrite", "rows", written.rows);
    counts.note("rewrite", "row groups", written.row_groups);
    counts.note("rewrite", "pages", written.pages);
    counts.note("rewrite", "bytes", written.bytes);
    let builder = session(config(), &pages).await;
    run(&builder, "CREATE INDEX part ON lineitem (l_partkey)").await;
    for (access_path, index_cache) in [
        (AccessPath::Index, "64MiB"),
        (AccessPath::Index, "0"),
        (AccessPath::Sort, "64MiB"),
        (AccessPath::Full, "64MiB"),
    ] {
        let config = EngineConfig {
            access_path,
            ..config()
        };
        let session = session(config, &pages).await;
        session.set("coscan.index_cache", index_cache).unwrap();
        let mut rows = 0;
        for sql in BY_KEY {
            rows += run(&session, sql).await;
        }
        let kept = if index_cache == "0" {
            ", no page kept"
        } else {
            ""
        };
        let name = format!("by index, {}{kept}", access_path.name());
        let metrics = session.engine().metrics();
        counts.note(&name, "rows", rows);
        counts.note(&name, "pages read", metrics.pages_read);
        counts.note(&name, "bytes decoded", metrics.decode_bytes);
    }
}

#[tokio::test]
async fn the_engine_does_as_much_as_is_committed() {
    let folder = tempfile::tempdir().unwrap();
    let generate = Generate {
        scale: 0.02,
        row_group_bytes: 64 << 10,
        threads: 1,
    };
    let go_on = |_, _| ControlFlow::Continue(());
    let table = tpch::ensure(folder.path(), Table::Lineitem, &generate, &go_on).unwrap();
    let mut counts = Counts::default();
    scans(&mut counts, &table).await;
    fragments(&mut counts, &table).await;
    by_index(&mut counts, &table, folder.path()).await;
    let file = Path::new("tests/counts.json");
    if let Err(differs) = counts.hold_to(file, &[]) {
        panic!("{differs}");
    }
}
