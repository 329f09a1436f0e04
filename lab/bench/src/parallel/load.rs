//! Which clients run for how long, and what do the devices do meanwhile?
//!
//! Clients scan, each one query after the other, until the time is up. Meanwhile point queries
//! arrive whether or not earlier ones are answered. The scans go on until all point queries are
//! answered, so no point query is left out because it took long. A load that changes has phases: a
//! phase ends when its clients have answers to a fixed list of queries. Lists are such a phase by
//! itself, beside clients that repeat their queries.
//! L1: the first [`WARM_UP`], in which clients fill an empty buffer, is not counted, except in a
//! load that changes and in lists: there every phase counts whole, so in every setting the first
//! phase fills the buffer at the phase's cost. L2: the scans of a point have ended before the next
//! point begins.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc::{self, UnboundedSender};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until, timeout_at};

use super::ground::{Ground, Setting};
use super::results::DeviceUse;
use crate::error::{BenchError, Result};
use crate::random::Random;
use crate::running::answer::Answer;
use crate::running::arena::{Arena, DeviceMeter, answer};
use crate::running::cpu;

/// The clients. A query is an index into [`super::queries::Queries::all`].
#[derive(Clone, Debug, Default)]
pub(crate) struct Load {
    /// The queries of each client, which repeats them.
    pub(crate) clients: Vec<Vec<usize>>,
    /// The queries of the arrivals, in turn.
    pub(crate) points: Vec<usize>,
    pub(crate) time: Duration,
    /// The seed of the arrivals.
    pub(crate) seed: u64,
}

/// Phases, one after the other on one engine. Point queries arrive in all of them.
#[derive(Clone, Debug, Default)]
pub(crate) struct Changing {
    /// For each phase the queries of each client, which runs them once.
    pub(crate) phases: Vec<Vec<Vec<usize>>>,
    /// The queries of the arrivals, in turn.
    pub(crate) points: Vec<usize>,
    /// The seed of the arrivals.
    pub(crate) seed: u64,
}

/// Clients that run a list of queries once, beside clients that repeat theirs until the lists have
/// ended.
#[derive(Clone, Debug, Default)]
pub(crate) struct Lists {
    /// The queries of each client that runs them once.
    pub(crate) once: Vec<Vec<usize>>,
    /// The queries of each client beside them.
    pub(crate) beside: Vec<Vec<usize>>,
}

/// The result of a load.
#[derive(Clone, Debug)]
pub(crate) struct Outcome {
    /// Scans that ended in the counted time: the query, and the seconds that it took.
    pub(crate) scans: Vec<(usize, f64)>,
    /// Seconds of each point query.
    pub(crate) points: Vec<f64>,
    pub(crate) usage: Usage,
}

/// What devices and processors did in some time.
#[derive(Clone, Debug)]
pub(crate) struct Usage {
    pub(crate) time: Duration,
    pub(crate) cpu: Duration,
    /// In the order of their limits.
    pub(crate) devices: Vec<DeviceUse>,
}

impl Outcome {
    /// Adds the results of another run of the same load.
    pub(crate) fn add(&mut self, other: Self) {
        self.scans.extend(other.scans);
        self.points.extend(other.points);
        self.usage.add(&other.usage);
    }
}

impl Usage {
    fn add(&mut self, other: &Self) {
        let (time, other_time) = (self.time.as_secs_f64(), other.time.as_secs_f64());
        let whole = (time + other_time).max(f64::MIN_POSITIVE);
        for (device, other) in self.devices.iter_mut().zip(&other.devices) {
            device.bytes += other.bytes;
            device.busy = (device.busy * time + other.busy * other_time) / whole;
        }
        self.time += other.time;
        self.cpu += other.cpu;
    }
}

/// An answered query.
struct Done {
    query: usize,
    ended: Instant,
    latency: Duration,
    answer: Answer,
}

/// The time before anything is counted.
const WARM_UP: Duration = Duration::from_secs(1);

/// Lists are given up after this time. They take seconds, and a minute if each scan waits for a
/// device that is a tenth as fast.
const LISTS_MAX: Duration = Duration::from_secs(300);

/// Queries with their statements.
type Asks = Arc<[(usize, Arc<str>)]>;

impl Ground<'_> {
    /// Runs the load in this setting.
    ///
    /// # Errors
    /// A query fails, or its rows differ (G1).
    pub(crate) async fn bear(&mut self, setting: &Setting, load: &Load) -> Result<Outcome> {
        let arena = Arc::new(self.arena(setting).await?);
        let (tell, mut told) = mpsc::unbounded_channel();
        let mut clients = JoinSet::new();
        for asks in &load.clients {
            clients.spawn(over_and_over(
                Arc::clone(&arena),
                self.asks(asks),
                tell.clone(),
            ));
        }
        let begun = Instant::now() + WARM_UP;
        sleep_until(begun).await;
        let before = Metered::now(&arena);
        let mut points = JoinSet::new();
        for (at, query) in self.arrivals(load) {
            let (arena, sql) = (Arc::clone(&arena), self.sql(query));
            points.spawn(async move {
                sleep_until(begun + at).await;
                once(&arena, query, &sql).await
            });
        }
        sleep_until(begun + load.time).await;
        let usage = self.since(setting, &before, &Metered::now(&arena));
        let points = self.latencies(setting, points).await?;
        // L2.
        clients.abort_all();
        while clients.join_next().await.is_some() {}
        drop(tell);
        let mut scans = Vec::new();
        let counts = begun..begun + load.time;
        while let Some(done) = told.recv().await {
            let done = done?;
            self.compare(done.query, &setting.name, done.answer)?;
            if counts.contains(&done.ended) {
                scans.push((done.query, done.latency.as_secs_f64()));
            }
        }
        Ok(Outcome {
            scans,
            points,
            usage,
        })
    }

    /// Waits for the point queries, and compares their rows. Returns the seconds that each took.
    async fn latencies(
        &mut self,
        setting: &Setting,
        mut points: JoinSet<Result<Done>>,
    ) -> Result<Vec<f64>> {
        let mut latencies = Vec::with_capacity(points.len());
        while let Some(done) = points.join_next().await {
            let done = done.map_err(|error| BenchError::engine("a point query", error))??;
            latencies.push(done.latency.as_secs_f64());
            self.compare(done.query, &setting.name, done.answer)?;
        }
        Ok(latencies)
    }

    /// Runs the phases in this setting; returns also the seconds of each.
    ///
    /// # Errors
    /// As [`Ground::bear`].
    pub(crate) async fn bear_changes(
        &mut self,
        setting: &Setting,
        load: &Changing,
    ) -> Result<(Outcome, Vec<f64>)> {
        let arena = Arc::new(self.arena(setting).await?);
        let mut random = Random::new(load.seed);
        let gap_s = 1.0 / self.options.points_per_second;
        let mut gap = || Duration::from_secs_f64(gap_s * random.exponential());
        let mut arriving = load.points.iter().cycle();
        let (mut points, mut scanned, mut phases) = (JoinSet::new(), Vec::new(), Vec::new());
        let before = Metered::now(&arena);
        let mut next = before.at + gap();
        for phase in &load.phases {
            let begun = Instant::now();
            let mut clients = JoinSet::new();
            for asks in phase {
                clients.spawn(each_once(Arc::clone(&arena), self.asks(asks)));
            }
            loop {
                tokio::select! {
                    done = clients.join_next() => {
                        let Some(done) = done else { break };
                        let done = done.map_err(|error| BenchError::engine("a client", error))??;
                        scanned.extend(done);
                    }
                    () = sleep_until(next) => {
                        next += gap();
                        if let Some(&query) = arriving.next() {
                            let (arena, sql) = (Arc::clone(&arena), self.sql(query));
                            points.spawn(async move { once(&arena, query, &sql).await });
                        }
                    }
                }
            }
            phases.push(begun.elapsed().as_secs_f64());
        }
        let usage = self.since(setting, &before, &Metered::now(&arena));
        let points = self.latencies(setting, points).await?;
        let mut scans = Vec::with_capacity(scanned.len());
        for done in scanned {
            scans.push((done.query, done.latency.as_secs_f64()));
            self.compare(done.query, &setting.name, done.answer)?;
        }
        let outcome = Outcome {
            scans,
            points,
            usage,
        };
        Ok((outcome, phases))
    }

    /// Runs the lists in this setting. The outcome has all scans that ended before the last list
    /// did, and none of a list that was given up.
    ///
    /// # Errors
    /// As [`Ground::bear`].
    pub(crate) async fn bear_lists(&mut self, setting: &Setting, lists: &Lists) -> Result<Outcome> {
        let arena = Arc::new(self.arena(setting).await?);
        let (tell, mut told) = mpsc::unbounded_channel();
        let before = Metered::now(&arena);
        let mut others = JoinSet::new();
        for asks in &lists.beside {
            others.spawn(over_and_over(
                Arc::clone(&arena),
                self.asks(asks),
                tell.clone(),
            ));
        }
        let mut clients = JoinSet::new();
        for asks in &lists.once {
            clients.spawn(each_once(Arc::clone(&arena), self.asks(asks)));
        }
        let deadline = Instant::now() + LISTS_MAX;
        let mut all = Vec::new();
        while let Ok(Some(done)) = timeout_at(deadline, clients.join_next()).await {
            let done = done.map_err(|error| BenchError::engine("a client", error))??;
            all.extend(done);
        }
        let usage = self.since(setting, &before, &Metered::now(&arena));
        // L2.
        clients.shutdown().await;
        others.shutdown().await;
        drop(tell);
        while let Some(done) = told.recv().await {
            all.push(done?);
        }
        let mut scans = Vec::with_capacity(all.len());
        for done in all {
            scans.push((done.query, done.latency.as_secs_f64()));
            self.compare(done.query, &setting.name, done.answer)?;
        }
        Ok(Outcome {
            scans,
            points: Vec::new(),
            usage,
        })
    }

    /// Runs one query alone; returns its time and what it used.
    ///
    /// # Errors
    /// As [`Ground::bear`].
    pub(crate) async fn alone(&mut self, setting: &Setting, query: usize) -> Result<Usage> {
        let arena = self.arena(setting).await?;
        let before = Metered::now(&arena);
        let done = once(&arena, query, &self.sql(query)).await?;
        let usage = self.since(setting, &before, &Metered::now(&arena));
        self.compare(done.query, &setting.name, done.answer)?;
        Ok(Usage {
            time: done.latency,
            ..usage
        })
    }

    /// When each point query arrives: at random, at the mean rate of the options, the same in
    /// every setting.
    fn arrivals(&self, load: &Load) -> Vec<(Duration, usize)> {
        let mut random = Random::new(load.seed);
        let gap_s = 1.0 / self.options.points_per_second;
        let (mut at_s, mut arrivals) = (0.0, Vec::new());
        for &query in load.points.iter().cycle() {
            at_s += gap_s * random.exponential();
            if at_s >= load.time.as_secs_f64() {
                break;
            }
            arrivals.push((Duration::from_secs_f64(at_s), query));
        }
        arrivals
    }

    fn asks(&self, queries: &[usize]) -> Asks {
        queries
            .iter()
            .map(|&query| (query, self.sql(query)))
            .collect()
    }

    fn sql(&self, query: usize) -> Arc<str> {
        self.queries().all[query].sql.as_str().into()
    }

    fn since(&self, setting: &Setting, before: &Metered, after: &Metered) -> Usage {
        let limits = self.limits(setting.disks);
        let devices = limits.iter().enumerate().map(|(at, &limit)| {
            let name = format!("d{}", at + 1);
            let (before, after) = (before.of(&name), after.of(&name));
            let busy = after.busy.saturating_sub(before.busy).as_secs_f64();
            let elapsed = after.at - before.at;
            DeviceUse {
                bytes: after.bytes - before.bytes,
                busy: busy / elapsed.as_secs_f64().max(f64::MIN_POSITIVE),
                name,
                limit,
            }
        });
        Usage {
            time: after.at - before.at,
            cpu: after.cpu.saturating_sub(before.cpu),
            devices: devices.collect(),
        }
    }
}

/// The meters at one moment.
struct Metered {
    at: Instant,
    cpu: Duration,
    devices: Vec<DeviceMeter>,
}

/// One device's meter.
#[derive(Clone, Copy)]
struct Read {
    at: Instant,
    bytes: u64,
    busy: Duration,
}

impl Metered {
    fn now(arena: &Arena) -> Self {
        Self {
            at: Instant::now(),
            cpu: cpu::process_time(),
            devices: arena.devices(),
        }
    }

    /// The meter of a device; zero if nothing was read from it.
    fn of(&self, name: &str) -> Read {
        let device = self.devices.iter().find(|device| device.name == name);
        Read {
            at: self.at,
            bytes: device.map_or(0, |device| device.bytes),
            busy: device.map_or(Duration::ZERO, |device| device.busy),
        }
    }
}

/// Repeats the queries until it is aborted, or a query fails.
async fn over_and_over(arena: Arc<Arena>, asks: Asks, tell: UnboundedSender<Result<Done>>) {
    for (query, sql) in asks.iter().cycle() {
        let done = once(&arena, *query, sql).await;
        let failed = done.is_err();
        // The receiver waits for this task, so it is still there.
        let _ = tell.send(done);
        if failed {
            return;
        }
    }
}

async fn each_once(arena: Arc<Arena>, asks: Asks) -> Result<Vec<Done>> {
    let mut all = Vec::with_capacity(asks.len());
    for (query, sql) in &*asks {
        all.push(once(&arena, *query, sql).await?);
    }
    Ok(all)
}

async fn once(arena: &Arena, query: usize, sql: &str) -> Result<Done> {
    let sent = Instant::now();
    let batches = arena.run(&query.to_string(), sql).await?;
    let ended = Instant::now();
    Ok(Done {
        query,
        ended,
        latency: ended - sent,
        answer: answer(&batches)?,
    })
}
