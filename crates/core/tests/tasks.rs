//! Promised: no worker is free while a task waits; a short query beside a hundred long ones takes
//! little longer than alone, even if all arrive together and the long ones are known to be long;
//! similar queries end in the order of arrival; no level starves; and tasks that are dropped at
//! any point occupy no worker.

mod draw;

use std::collections::{BTreeMap, BTreeSet};

use coscan_core::tasks::{Config, QueryId, TaskId, Tasks, Turn};
use draw::Draw;

const MS: u64 = 1_000_000;

fn config(cores: usize, short: usize) -> Config {
    Config {
        cores,
        workers: cores + short,
        short_levels: 1,
        level_ends: vec![50 * MS, 500 * MS],
        ratio: 4,
        expected_max_ns: 500 * MS,
    }
}

/// Queries whose tasks always have something to do, each for a fixed time, on a virtual clock.
struct World {
    core: Tasks,
    now: u64,
    /// Running tasks, by the time at which each leaves.
    running: BTreeSet<(u64, TaskId)>,
    /// By task: its query, and how long it runs each time.
    tasks: BTreeMap<TaskId, (QueryId, u64)>,
    /// By query: the time that it has run.
    had: BTreeMap<QueryId, u64>,
}

impl World {
    fn new(cores: usize, short: usize) -> Self {
        Self {
            core: Tasks::new(config(cores, short)),
            now: 0,
            running: BTreeSet::new(),
            tasks: BTreeMap::new(),
            had: BTreeMap::new(),
        }
    }

    fn begin(&mut self, id: u64, tasks: u64, run_ns: u64) -> QueryId {
        self.core.begin(QueryId(id));
        self.begun(id, tasks, run_ns)
    }

    fn begun(&mut self, id: u64, tasks: u64, run_ns: u64) -> QueryId {
        let query = QueryId(id);
        self.had.insert(query, 0);
        for n in 0..tasks {
            let task = TaskId(id * 1_000 + n);
            self.tasks.insert(task, (query, run_ns));
            self.enter(task);
        }
        query
    }

    fn enter(&mut self, task: TaskId) {
        let (query, run_ns) = self.tasks[&task];
        if self.core.enter(query, task) == Turn::Run {
            self.running.insert((self.now + run_ns, task));
        }
    }

    /// Drops all tasks of a query, whatever their state.
    fn end(&mut self, query: QueryId) {
        let tasks = self.tasks.iter().filter(|(_, of)| of.0 == query);
        let tasks: Vec<TaskId> = tasks.map(|(task, _)| *task).collect();
        for task in &tasks {
            let runs = self.running.iter().find(|(_, running)| running == task);
            let called = match runs.copied() {
                Some(runs) => {
                    self.running.remove(&runs);
                    self.core.leave(query, *task, 0, false)
                }
                None => self.core.give_up(*task),
            };
            if let Some(called) = called {
                self.enter(called);
            }
        }
        self.tasks.retain(|task, _| !tasks.contains(task));
        self.core.end(query);
        self.core.check();
    }

    /// Runs until `until`, or until the query in `of` has run that long.
    fn run(&mut self, until: u64, of: Option<(QueryId, u64)>) {
        while let Some((at, task)) = self.running.pop_first() {
            assert!(at >= self.now);
            self.now = at;
            let (query, run_ns) = self.tasks[&task];
            *self.had.get_mut(&query).expect("begun") += run_ns;
            let called = self.core.leave(query, task, run_ns, true);
            self.core.check();
            if let Some(called) = called {
                self.enter(called);
            }
            if self.now >= until || of.is_some_and(|(query, ns)| self.had[&query] >= ns) {
                return;
            }
        }
    }
}

#[test]
fn a_short_query_is_done_while_a_hundred_long_ones_run() {
    let mut world = World::new(2, 0);
    for long in 0..100 {
        world.begin(long, 6, 7 * MS);
    }
    world.run(100_000 * MS, None);
    let begun = world.now;
    let short = world.begin(1_000, 2, MS);
    world.run(u64::MAX, Some((short, 40 * MS)));
    // Alone on two workers the query takes 20 ms. It waits once for the running tasks, because no
    // task is interrupted, and once in 17 for the long queries.
    let took = world.now - begun;
    assert!(took <= 40 * MS, "{took}");
}

#[test]
fn a_short_query_does_not_wait_for_long_computations() {
    let mut world = World::new(2, 1);
    for long in 0..100 {
        world.begin(long, 6, 400 * MS);
    }
    world.run(100_000 * MS, None);
    let begun = world.now;
    let short = world.begin(1_000, 2, MS);
    world.run(u64::MAX, Some((short, 40 * MS)));
    // The query has a worker of its own; how three workers share two cores is up to the operating
    // system.
    assert!(world.now - begun <= 40 * MS, "{}", world.now - begun);
}

#[test]
fn a_burst_known_to_be_long_is_not_served_first() {
    let took = |is_known: bool| {
        let mut world = World::new(2, 0);
        for long in 0..100 {
            world.core.begin(QueryId(long));
            if is_known {
                world.core.expect(QueryId(long), u64::MAX);
            }
            world.begun(long, 6, 7 * MS);
        }
        let short = world.begin(1_000, 2, MS);
        world.run(u64::MAX, Some((short, 40 * MS)));
        world.now
    };
    // All long queries pass through their first 50 ms, on two workers.
    assert!(took(false) > 100 * 50 / 2 * MS / 2, "{}", took(false));
    assert!(took(true) <= 40 * MS, "{}", took(true));
}

#[test]
fn similar_queries_end_in_the_order_of_arrival() {
    let mut world = World::new(2, 0);
    let queries: Vec<_> = (0..5)
        .map(|n| world.begin(n, 3 + 7 * n, (1 + n) * MS))
        .collect();
    world.run(1_000_000 * MS, Some((queries[0], 5_000 * MS)));
    // The other queries have used the time that it takes to reach the first query's level, and the
    // shares of the levels.
    for query in &queries[1..] {
        assert!(world.had[query] < 1_000 * MS, "{:?}", world.had);
    }
    for (at, query) in queries.iter().enumerate() {
        world.run(u64::MAX, Some((*query, 20_000 * MS)));
        for later in &queries[at + 1..] {
            assert!(world.had[later] < 1_000 * MS, "{:?}", world.had);
        }
        world.end(*query);
    }
}

#[test]
fn a_long_query_progresses_beside_an_endless_stream_of_short_ones() {
    let mut world = World::new(2, 0);
    let long = world.begin(0, 4, 5 * MS);
    world.run(2_000 * MS, None);
    let (begun, before) = (world.now, world.had[&long]);
    // One short query after another, 40 ms each, two tasks at a time.
    let mut short = 0;
    while world.now < begun + 20_000 * MS {
        short += 1;
        let query = world.begin(short, 2, MS);
        world.run(u64::MAX, Some((query, 40 * MS)));
        world.end(query);
    }
    let share = (world.had[&long] - before) as f64 / (2 * (world.now - begun)) as f64;
    // It gets a seventeenth of the time while short queries run, and each time both workers until
    // the running tasks have left.
    assert!((0.05..0.25).contains(&share), "{share}");
}

#[test]
fn short_queries_with_tasks_are_known_whether_these_run_or_wait() {
    let mut core = Tasks::new(config(1, 0));
    for id in 1..=3 {
        core.begin(QueryId(id));
    }
    let short = |core: &Tasks| core.short().map(|QueryId(id)| id).collect::<Vec<_>>();
    assert_eq!(short(&core), [0; 0], "no tasks");
    assert_eq!(core.ready(), 0, "no tasks");
    assert_eq!(core.enter(QueryId(2), TaskId(2)), Turn::Run);
    assert_eq!(core.enter(QueryId(1), TaskId(1)), Turn::Wait);
    core.expect(QueryId(3), 500 * MS);
    assert_eq!(core.enter(QueryId(3), TaskId(3)), Turn::Wait);
    assert_eq!(short(&core), [1, 2]);
    assert_eq!(core.ready(), 3);
    let _ = core.leave(QueryId(2), TaskId(2), 60 * MS, true);
    assert_eq!(short(&core), [1], "2 is long");
    assert_eq!(core.ready(), 3, "it wants another turn");
}

#[test]
fn a_thousand_worlds_of_tasks_that_come_and_go() {
    let mut waits = 0;
    for seed in 0..1_000 {
        let mut draw = Draw(seed);
        let cores = 1 + usize::try_from(draw.below(3)).expect("small");
        let short = usize::try_from(draw.below(3)).expect("small");
        let workers = cores + short;
        let mut core = Tasks::new(config(cores, short));
        let queries = 1 + draw.below(6);
        (0..queries).for_each(|query| core.begin(QueryId(query)));
        let tasks = 1 + draw.below(20);
        let of = |task: u64| QueryId(task % queries);
        let (mut running, mut waiting) = (BTreeSet::new(), BTreeSet::new());
        for _ in 0..400 {
            let task = draw.below(tasks);
            if draw.one_in(10) {
                core.expect(of(task), draw.below(1_000 * MS));
            }
            let called = if running.remove(&task) {
                core.leave(of(task), TaskId(task), draw.below(200 * MS), false)
            } else if waiting.contains(&task) && draw.one_in(3) {
                waiting.remove(&task);
                core.give_up(TaskId(task))
            } else {
                match core.enter(of(task), TaskId(task)) {
                    Turn::Run => {
                        waiting.remove(&task);
                        assert!(running.insert(task), "seed {seed}");
                    }
                    Turn::Wait => {
                        waits += 1;
                        waiting.insert(task);
                    }
                }
                None
            };
            core.check();
            if let Some(TaskId(called)) = called {
                assert!(waiting.contains(&called), "seed {seed}");
                // The task may be dropped before it begins.
                if draw.one_in(4) {
                    continue;
                }
                waiting.remove(&called);
                assert_eq!(core.enter(of(called), TaskId(called)), Turn::Run);
                assert!(running.insert(called), "seed {seed}");
            } else {
                assert!(running.len() <= workers, "seed {seed}");
            }
        }
        // All remaining tasks end.
        while let Some(task) = waiting.pop_first() {
            if let Some(TaskId(called)) = core.give_up(TaskId(task)) {
                waiting.insert(called);
            }
        }
        for task in running {
            waits += u64::from(short > 0);
            assert_eq!(
                core.leave(of(task), TaskId(task), MS, false),
                None,
                "seed {seed}"
            );
        }
        core.check();
        assert_eq!(core.short().next(), None, "seed {seed}");
        assert_eq!(core.enter(QueryId(0), TaskId(99)), Turn::Run, "seed {seed}");
    }
    assert!(waits > 10_000);
}
