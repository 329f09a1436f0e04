//! What do many clients of TPC-H's queries gain from sharing?
//!
//! Figure 12: the same queries, dealt to more and more clients. Figure 13: ten clients that think
//! before each query. Open arrivals: the same queries arrive at 1.5 times the rate that isolated
//! execution reached with the most clients, whether or not earlier ones are answered. Dealing the
//! same queries keeps throughputs comparable: one client with four queries of its own would have
//! other work than twelve clients. In Figures 12 and 13 `apart` is the baseline that differs in
//! sharing alone; open arrivals are single queries, too many for tables of their own.
//! Source: [QPipe05 §5.3, Figures 12 and 13]; we differ: think times and gaps between arrivals are
//! drawn from an exponential distribution, so that clients do not run in lockstep.

use std::time::Duration;

use super::ground::{Case, Ground, Query};
use super::results::{Point, QpipeResults};
use super::variant::{APART, ISOLATED, SHARED};
use super::{OPEN, QpipeOptions, THINKING, THROUGHPUT};
use crate::error::Result;
use crate::progress::OnProgress;
use crate::random::Random;
use crate::running::clients::{Ask, Client};
use crate::workload::{TABLES, WholeSpec};

/// Clients in Figure 13.
const THINKERS: usize = 10;
/// The rate of arrivals, over the rate that isolated execution reached with the most clients.
const OVERLOAD: f64 = 1.5;

pub(crate) async fn run(
    options: &QpipeOptions,
    on_progress: &OnProgress,
    results: &mut QpipeResults,
) -> Result<()> {
    let most = options.clients.iter().copied().max().unwrap_or(1);
    let drawn = WholeSpec {
        clients: most,
        queries: options.queries,
        sets: options.sets,
        seed: options.seed,
    };
    let drawn = drawn.draw();
    let query = |(name, sql): (&str, &str)| Query {
        name: name.to_owned(),
        sql: sql.to_owned(),
    };
    let queries: Vec<Query> = drawn.in_turn().into_iter().map(query).collect();
    let tables = options.tables(&TABLES)?;
    let mut ground = Ground::new(options, on_progress, "TPC-H mix", tables, &[], queries).await?;
    let cases = throughput(options, &ground, most);
    ground.measure(cases, results).await?;
    if options.wants(THINKING) {
        let cases = thinking(options, &ground);
        ground.measure(cases, results).await?;
    }
    if options.wants(OPEN) {
        let isolated = |point: &&Point| {
            point.figure == THROUGHPUT && point.clients == most && point.variant == ISOLATED.name
        };
        let sustained = results.points.iter().find(isolated).map(|point| point.qph);
        let gap_s = 3600.0 / (OVERLOAD * sustained.unwrap_or(1.0).max(1.0));
        let case = open(options, &ground, gap_s);
        ground.measure(vec![case], results).await?;
    }
    Ok(())
}

/// The cases of Figure 12. If only open arrivals are measured, just the case that determines their
/// rate.
fn throughput(options: &QpipeOptions, ground: &Ground<'_>, most: usize) -> Vec<Case> {
    let (clients, variants) = if options.wants(THROUGHPUT) {
        (options.clients.clone(), vec![ISOLATED, APART, SHARED])
    } else if options.wants(OPEN) {
        (vec![most], vec![ISOLATED])
    } else {
        (vec![], vec![])
    };
    let case = |clients: usize| Case {
        point: point(THROUGHPUT, clients, ground),
        clients: dealt(ground, clients, |ask| ask),
        variants: variants.clone(),
    };
    clients.into_iter().map(case).collect()
}

fn thinking(options: &QpipeOptions, ground: &Ground<'_>) -> Vec<Case> {
    let case = |think: &f64| {
        let think_s = think * ground.alone_s();
        let mut random = Random::new(options.seed);
        let mut thought = |ask: Ask| Ask {
            think: Duration::from_secs_f64(think_s * random.exponential()),
            ..ask
        };
        Case {
            point: Point {
                think_s: Some(think_s),
                ..point(THINKING, THINKERS, ground)
            },
            clients: dealt(ground, THINKERS, &mut thought),
            variants: vec![ISOLATED, APART, SHARED],
        }
    };
    options.thinks.iter().map(case).collect()
}

fn open(options: &QpipeOptions, ground: &Ground<'_>, gap_s: f64) -> Case {
    let mut random = Random::new(options.seed);
    let mut at_s = 0.0;
    let arrival = |number: usize| {
        let start = Duration::from_secs_f64(at_s);
        at_s += gap_s * random.exponential();
        Client {
            start,
            asks: vec![ground.ask(number)],
        }
    };
    let clients: Vec<Client> = (0..ground.queries.len()).map(arrival).collect();
    Case {
        point: Point {
            interarrival_s: Some(gap_s),
            interarrival: Some(gap_s / ground.alone_s()),
            ..point(OPEN, clients.len(), ground)
        },
        clients,
        variants: vec![ISOLATED, SHARED],
    }
}

fn point(figure: &str, clients: usize, ground: &Ground<'_>) -> Point {
    Point {
        figure: figure.to_owned(),
        what: "TPC-H 1, 4, 6, 8, 12, 13, 14, 19".to_owned(),
        clients,
        alone_s: ground.alone_s(),
        ..Point::default()
    }
}

/// The queries, dealt in turn to this many clients.
fn dealt(ground: &Ground<'_>, clients: usize, mut ask: impl FnMut(Ask) -> Ask) -> Vec<Client> {
    let mut dealt = vec![Client::default(); clients];
    for query in 0..ground.queries.len() {
        dealt[query % clients].asks.push(ask(ground.ask(query)));
    }
    dealt
}
