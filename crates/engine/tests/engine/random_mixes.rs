//! Promised: in mixes of TPC-H's queries and of generated ones that differ little, whose sessions
//! begin at random moments, read slowly or stop early, while some queries fail by themselves and
//! the device fails now and then, every query that ends returns plain DataFusion's rows. A query
//! fails only if plain DataFusion's does, if the device failed it, or if there was no memory.

use std::collections::HashMap;
use std::io::ErrorKind;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use coscan::{Engine, EngineConfig, Session, storage_error};
use coscan_storage::device::{Fault, Faulty, LocalDevice, LocalOptions, Rule, When};
use datafusion::error::DataFusionError;
use datafusion::prelude::SessionContext;
use futures::StreamExt;
use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use rand::{Rng, SeedableRng};
use tokio::sync::{Mutex, OnceCell};
use tokio::task::JoinSet;

use crate::common::{self, borrowed, config, memory_comes_back, plain, rows, tpch, tpch_tables};
use crate::plans::tpch_rows_equal;
use crate::sharing::{all_is_over, metrics};

const SCALE: f64 = 0.01;

/// The outcome of a query in plain DataFusion: its rows, or the cause of its failure.
type Answer = Result<Vec<String>, String>;

/// Plain DataFusion, which answers each query once.
struct Plain {
    context: SessionContext,
    answers: Mutex<HashMap<String, Arc<OnceCell<Answer>>>>,
}

impl Plain {
    async fn new() -> Self {
        let tables = tpch_tables(&tpch(SCALE));
        Self {
            context: plain(&borrowed(&tables)).await,
            answers: Mutex::default(),
        }
    }

    async fn answer(&self, sql: &str) -> Answer {
        let cell = Arc::clone(self.answers.lock().await.entry(sql.to_owned()).or_default());
        let answer = cell.get_or_init(|| async {
            let frame = self.context.sql(sql).await.expect("planned");
            let stream = frame.execute_stream().await.expect("started");
            let rows = common::collect(stream).await;
            rows.map(sorted).map_err(|error| cause(&error))
        });
        answer.await.clone()
    }
}

fn sorted(mut rows: Vec<String>) -> Vec<String> {
    rows.sort_unstable();
    rows
}

fn cause(error: &DataFusionError) -> String {
    error.find_root().to_string()
}

/// A query of a few families. Two of one family often have a common part.
fn generated(draw: &mut StdRng) -> String {
    let of = |draw: &mut StdRng, all: &[&'static str]| *all.choose(draw).expect("some");
    let least = of(draw, &["1", "3", "10", "45"]);
    let join = of(
        draw,
        &[
            "JOIN orders ON l_orderkey = o_orderkey",
            "LEFT JOIN orders ON l_orderkey = o_orderkey AND o_totalprice > 200000",
            "RIGHT JOIN orders ON l_orderkey = o_orderkey AND l_quantity > 20",
            "JOIN (SELECT * FROM orders WHERE o_orderdate < DATE '1995-01-01') o ON l_orderkey = o_orderkey",
        ],
    );
    let by = of(
        draw,
        &[
            "o_orderpriority",
            "l_shipmode",
            "l_returnflag, l_linestatus",
            "o_custkey",
        ],
    );
    let what = of(
        draw,
        &[
            "count(*)",
            "sum(l_quantity), min(l_shipdate)",
            "avg(l_discount), count(DISTINCT l_suppkey)",
            "max(l_comment)",
        ],
    );
    let columns = of(
        draw,
        &[
            "l_comment",
            "o_comment, l_comment",
            "l_quantity + 1, o_clerk",
        ],
    );
    match draw.random_range(0..12) {
        0..4 => format!(
            "SELECT {by}, {what} FROM lineitem {join} WHERE l_quantity > {least} GROUP BY {by}"
        ),
        4 | 5 => format!(
            "SELECT l_orderkey, l_linenumber, {columns} FROM lineitem {join} WHERE l_quantity > {least}"
        ),
        6 | 7 => format!(
            "SELECT l_orderkey, l_linenumber, {columns} FROM lineitem {join} WHERE l_quantity > {least} \
             ORDER BY l_orderkey DESC, l_linenumber, o_orderkey LIMIT {}",
            of(draw, &["1", "50", "4000"])
        ),
        8 => format!(
            "SELECT count(*), min(o_orderdate), max(o_clerk) FROM orders WHERE o_orderkey {} \
             (SELECT l_orderkey FROM lineitem WHERE l_quantity > {least} GROUP BY l_orderkey \
             HAVING sum(l_quantity) > {})",
            of(draw, &["IN", "NOT IN"]),
            of(draw, &["40", "200"]),
        ),
        9 => format!(
            "SELECT l_shipmode, l_suppkey FROM lineitem WHERE l_quantity > {least} GROUP BY l_shipmode, l_suppkey \
             UNION ALL SELECT DISTINCT l_shipmode, l_partkey FROM lineitem WHERE l_quantity > {}",
            of(draw, &["45", "49"]),
        ),
        10 => format!(
            "SELECT c_name, {} OVER (PARTITION BY c_nationkey ORDER BY o_totalprice, o_orderkey) \
             FROM customer JOIN orders ON c_custkey = o_custkey WHERE o_totalprice > {}",
            of(draw, &["row_number()", "sum(c_acctbal)"]),
            of(draw, &["150000", "250000"]),
        ),
        // Fails in the middle.
        _ => format!(
            "SELECT l_shipmode, sum(1 / (l_orderkey - {})) FROM lineitem \
             JOIN orders ON l_orderkey = o_orderkey WHERE l_quantity > 0 GROUP BY l_shipmode",
            of(draw, &["30016", "7"]),
        ),
    }
}

#[derive(Clone, Copy)]
struct Mix {
    sessions: u64,
    asked_each: usize,
    /// The device fails now and then.
    faults: bool,
    /// A query may be refused memory.
    refusals: bool,
    /// Results are kept for later queries.
    keeps: bool,
}

/// The outcomes of the queries.
#[derive(Debug, Default)]
struct Ends {
    answered: AtomicU64,
    gone: AtomicU64,
    failed: AtomicU64,
    failed_by_device: AtomicU64,
    refused: AtomicU64,
    joined: u64,
}

fn count(counter: &AtomicU64) {
    counter.fetch_add(1, Ordering::Relaxed);
}

struct World {
    plain: Plain,
    /// TPC-H's 22 queries, and some that are repeated often.
    texts: Vec<String>,
    device: Arc<Faulty>,
    engine: Engine,
    ends: Ends,
}

impl World {
    async fn new(config: EngineConfig) -> (Self, Session) {
        let root = tpch(SCALE);
        let device = LocalDevice::open(&root, &LocalOptions::default()).expect("a device");
        let device = Arc::new(Faulty::new(Arc::new(device), Vec::new()));
        let engine = Engine::new(config).expect("an engine");
        let url = format!("file://{}", root.display());
        let registered = engine.devices().register(&url, Arc::clone(&device) as _);
        registered.expect("registered");
        let session = engine.session();
        for (name, path) in tpch_tables(&root) {
            let table = session.register(name, path.to_str().expect("UTF-8")).await;
            table.expect("registered");
        }
        let mut draw = StdRng::seed_from_u64(0);
        let generated = (0..10).map(|_| generated(&mut draw));
        let world = Self {
            plain: Plain::new().await,
            texts: (1..=22)
                .map(tpch_rows_equal::text)
                .chain(generated)
                .collect(),
            device,
            engine,
            ends: Ends::default(),
        };
        (world, session)
    }

    fn query(&self, draw: &mut StdRng) -> String {
        if draw.random_bool(0.4) {
            return generated(draw);
        }
        // Some are repeated more often than others.
        let fashion = draw.random_range(1..=self.texts.len());
        let text = self.texts[self.texts.len() - fashion..].choose(draw);
        text.expect("some").clone()
    }

    async fn user(&self, mix: Mix, mut draw: StdRng) {
        let session = self.engine.session();
        if !mix.keeps {
            session.set("coscan.state_cache", "0").expect("set");
        }
        if draw.random_bool(0.2) {
            let sorts = session.set("datafusion.optimizer.prefer_hash_join", "false");
            sorts.expect("set");
        }
        for _ in 0..mix.asked_each {
            let arrives = Duration::from_millis(draw.random_range(0..30));
            tokio::time::sleep(arrives).await;
            let sql = self.query(&mut draw);
            self.ask(mix, &session, &sql, &mut draw).await;
        }
    }

    async fn ask(&self, mix: Mix, session: &Session, sql: &str, draw: &mut StdRng) {
        let goes_after = draw.random_bool(0.2).then(|| draw.random_range(0..6));
        let pause = if draw.random_bool(0.2) { 15 } else { 0 };
        let mut found = Vec::new();
        let mut taken = 0;
        let stream = session.sql(sql).await;
        let mut stream = stream.unwrap_or_else(|error| panic!("{sql}: {error}"));
        let ended = loop {
            if goes_after == Some(taken) {
                let soon = Duration::from_millis(draw.random_range(0..20));
                let _ = tokio::time::timeout(soon, stream.next()).await;
                return count(&self.ends.gone);
            }
            match stream.next().await {
                None => break Ok(sorted(found)),
                Some(Err(error)) => break Err(error),
                Some(Ok(batch)) => found.extend(common::texts(&batch)),
            }
            taken += 1;
            tokio::time::sleep(Duration::from_millis(pause)).await;
        };
        let lacks_memory = |error: &DataFusionError| {
            matches!(error.find_root(), DataFusionError::ResourcesExhausted(_))
        };
        match ended {
            Err(error) if mix.faults && storage_error(&error).is_some() => {
                count(&self.ends.failed_by_device);
            }
            Err(error) if mix.refusals && lacks_memory(&error) => count(&self.ends.refused),
            ended => {
                count(if ended.is_ok() {
                    &self.ends.answered
                } else {
                    &self.ends.failed
                });
                let ended = ended.map_err(|error| cause(&error));
                assert_eq!(ended, self.plain.answer(sql).await, "{sql}");
            }
        }
    }

    /// A device that repeatedly fails a few reads.
    async fn strikes(&self, mut draw: StdRng) {
        loop {
            let calm = Duration::from_millis(draw.random_range(20..200));
            tokio::time::sleep(calm).await;
            let fault = match draw.random_range(0..3) {
                0 => Fault::Error(ErrorKind::Other),
                1 => Fault::ShortRead(draw.random_range(1..100)),
                _ => Fault::Stall(Duration::from_millis(50)),
            };
            self.device.add(Rule {
                when: When::Always,
                fault,
                times: draw.random_range(1..4),
            });
        }
    }
}

async fn run(config: EngineConfig, mix: Mix, seed: u64) -> Ends {
    let (world, session) = World::new(config).await;
    if !mix.keeps {
        session.set("coscan.state_cache", "0").expect("set");
    }
    let world = Arc::new(world);
    let draw = |number| StdRng::seed_from_u64(seed * 1_000 + number);
    let mut users = JoinSet::new();
    for number in 0..mix.sessions {
        let (world, draw) = (Arc::clone(&world), draw(number));
        users.spawn(async move { world.user(mix, draw).await });
    }
    if mix.faults {
        tokio::select! {
            _ = users.join_all() => {}
            () = world.strikes(draw(mix.sessions)) => {}
        }
        world.device.heal();
        // Reads that a query left behind may still fail or stall.
        common::loads_end(session.engine()).await;
        // Failures left no wrong state behind.
        for sql in &world.texts {
            if let Ok(expected) = world.plain.answer(sql).await {
                assert_eq!(rows(&session, sql).await, expected, "{sql}");
            }
        }
    } else {
        users.join_all().await;
    }
    if mix.keeps {
        memory_comes_back(&session).await;
    } else {
        all_is_over(&session).await;
    }
    let joined = metrics(&session).operators_joined;
    let world = Arc::into_inner(world).expect("all users are gone");
    let ends = Ends {
        joined,
        ..world.ends
    };
    println!("seed {seed}: {ends:?}");
    ends
}

/// Makes every query read the device.
fn small_buffer() -> EngineConfig {
    EngineConfig {
        buffer_bytes_max: Some(1 << 20),
        ..config()
    }
}

const MANY: Mix = Mix {
    sessions: 32,
    asked_each: 5,
    faults: false,
    refusals: false,
    keeps: true,
};

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn many_sessions_get_their_rows() {
    let ends = run(config(), MANY, 0).await;
    assert!(ends.joined > 10, "{ends:?}");
    assert!(ends.gone.into_inner() > 0 && ends.failed.into_inner() > 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn many_sessions_get_their_rows_from_a_device_that_fails_now_and_then() {
    let mix = Mix {
        faults: true,
        ..MANY
    };
    let ends = run(small_buffer(), mix, 1).await;
    assert!(ends.joined > 10, "{ends:?}");
    assert!(ends.failed_by_device.into_inner() > 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn sessions_in_little_memory_get_their_rows() {
    let little = EngineConfig {
        memory_bytes: Some(40 << 20),
        ..config()
    };
    let mix = Mix {
        asked_each: 3,
        refusals: true,
        keeps: false,
        ..MANY
    };
    let ends = run(little, mix, 2).await;
    assert!(ends.joined > 5, "{ends:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
#[ignore = "long: run by hand"]
async fn many_sessions_get_their_rows_with_many_seeds() {
    for seed in 100..130 {
        let mix = Mix {
            asked_each: 12,
            keeps: seed % 2 == 0,
            ..MANY
        };
        run(config(), mix, seed).await;
        let mix = Mix {
            faults: true,
            ..mix
        };
        run(small_buffer(), mix, seed).await;
    }
}
