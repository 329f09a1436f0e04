//! What do shared operators cost a query that is alone, and what do they save for equal queries? A
//! measurement without a promise, run by hand. It prints processor time, which other processes
//! disturb less than elapsed time, and elapsed time.
//!
//! `COSCAN_MEASURE_SCALE=1 cargo test --release -p coscan --test engine -- --ignored --nocapture
//! sharing_measured`

use std::fs;
use std::time::Instant;

use coscan::{Engine, EngineConfig, Session};
use futures::StreamExt;
use futures::future::join_all;

use crate::common::{tpch, tpch_tables};

const REPEATS: usize = 7;

/// Joins with more rows than are retained, and the same with an aggregate.
const JOINS: [(&str, &str); 3] = [
    (
        "wide join",
        "SELECT l_orderkey, l_comment, o_comment, o_clerk FROM lineitem \
         JOIN orders ON l_orderkey = o_orderkey",
    ),
    (
        "join and aggregate",
        "SELECT o_orderpriority, count(*), sum(l_extendedprice) FROM lineitem \
         JOIN orders ON l_orderkey = o_orderkey GROUP BY o_orderpriority",
    ),
    (
        "many groups",
        "SELECT l_orderkey, sum(l_quantity) AS q FROM lineitem GROUP BY l_orderkey ORDER BY q DESC LIMIT 5",
    ),
];

/// The processor time of all existing threads; threads of the pools live as long as their engine.
fn processor_seconds() -> f64 {
    let threads = fs::read_dir("/proc/self/task").expect("Linux");
    let spent = threads.filter_map(|thread| {
        let stat = fs::read_to_string(thread.ok()?.path().join("schedstat")).ok()?;
        stat.split_whitespace().next()?.parse::<f64>().ok()
    });
    spent.sum::<f64>() / 1e9
}

/// Seconds that the queries took, of the processor and elapsed; the median counts.
#[derive(Clone, Default)]
struct Took(Vec<(f64, f64)>);

impl Took {
    fn middle(&self) -> (f64, f64) {
        let middle = |pick: fn(&(f64, f64)) -> f64| {
            let mut all: Vec<f64> = self.0.iter().map(pick).collect();
            all.sort_by(f64::total_cmp);
            all[all.len() / 2]
        };
        (middle(|took| took.0), middle(|took| took.1))
    }
}

async fn ask(sessions: &[Session], sql: &str, share: &str) -> (f64, f64) {
    for session in sessions {
        session.set("coscan.share_operators", share).unwrap();
    }
    let (processor, clock) = (processor_seconds(), Instant::now());
    let asked = sessions.iter().map(|session| {
        let (session, sql) = (session.clone(), sql.to_owned());
        tokio::spawn(async move {
            let mut rows = session.sql(&sql).await.unwrap();
            while let Some(batch) = rows.next().await {
                batch.unwrap();
            }
        })
    });
    for asked in join_all(asked).await {
        asked.unwrap();
    }
    (
        processor_seconds() - processor,
        clock.elapsed().as_secs_f64(),
    )
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "a measurement: run by hand"]
async fn the_cost_and_the_gain_of_sharing() {
    let scale = std::env::var("COSCAN_MEASURE_SCALE");
    let scale: f64 = scale.as_deref().unwrap_or("1").parse().unwrap();
    let engine = Engine::new(EngineConfig {
        memory_bytes: Some(4 << 30),
        target_partitions: Some(2),
        small_table_bytes: 1 << 20,
        ..EngineConfig::default()
    });
    let engine = engine.unwrap();
    let first = engine.session();
    for (name, path) in tpch_tables(&tpch(scale)) {
        first.register(name, path.to_str().unwrap()).await.unwrap();
    }
    let sessions: Vec<Session> = (0..8).map(|_| engine.session()).collect();
    for session in &sessions {
        session.set("coscan.state_cache", "0").unwrap();
    }
    let mut queries: Vec<(String, String)> = (1..=22)
        .map(|number| {
            let path = format!("tests/tpch/q{number:02}.sql");
            (format!("Q{number}"), fs::read_to_string(path).unwrap())
        })
        .collect();
    queries.extend(JOINS.map(|(name, sql)| (name.to_owned(), sql.to_owned())));
    if let Ok(only) = std::env::var("COSCAN_MEASURE_ONLY") {
        queries.retain(|(name, _)| only.split(',').any(|wanted| wanted == name));
    }
    println!("scale {scale}; seconds off, on, on/off: processor, clock");
    for (count, repeats) in [(1, REPEATS), (8, 3)] {
        let mut sums = [(0.0, 0.0); 2];
        for (name, sql) in &queries {
            let mut took = [Took::default(), Took::default()];
            ask(&sessions[..count], sql, "off").await;
            for repeat in 0..repeats {
                // The first run may find caches warmer or colder, so the runs alternate.
                for turn in 0..2 {
                    let on = (repeat + turn) % 2;
                    let share = ["off", "on"][on];
                    let seconds = ask(&sessions[..count], sql, share).await;
                    took[on].0.push(seconds);
                }
            }
            let [off, on] = [took[0].middle(), took[1].middle()];
            for (sum, took) in sums.iter_mut().zip([off, on]) {
                *sum = (sum.0 + took.0, sum.1 + took.1);
            }
            println!(
                "{count} x {name:20} {:7.3} {:7.3} {:5.2}   {:7.3} {:7.3} {:5.2}",
                off.0,
                on.0,
                on.0 / off.0,
                off.1,
                on.1,
                on.1 / off.1
            );
        }
        let [off, on] = sums;
        println!(
            "{count} x all {:7.3} {:7.3} {:5.2}   {:7.3} {:7.3} {:5.2}",
            off.0,
            on.0,
            on.0 / off.0,
            off.1,
            on.1,
            on.1 / off.1
        );
    }
    println!("{:?}", engine.metrics());
}
