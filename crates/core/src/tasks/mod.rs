//! Which query's task runs next?
//!
//! Idea: a query is executed by tasks, of which each runs for a moment, a batch, whenever it has
//! something to do. As many run at a time as there are workers; the others wait here. Queries are
//! in levels by the processor time that they have used. A level that has something to run gets
//! [`Config::ratio`] times as much as the next one below, however many wait there: a question is
//! answered while a hundred long queries run, and these go on, at a share that is known. In a level
//! the query that came first goes first. Where each client waits for its answer before it asks
//! anew, the mean of all latencies is the number of clients by the throughput whatever the order
//! (Little's law), and those of alike queries differ least if they end in the order in which they
//! came; nor do more of them hold memory at a time than keep the workers busy.
//!
//! ```text
//! begin ─ enter ─ Run ── leave ─ … ─ end
//!               └ Wait ─ (leave of another says: this one) ─ enter ─ Run
//! ```
//! Not here: tasks, wakers, the clock (the engine).
//! Bounds: what waits is one entry a task.
//!
//! TASKS-I1: nobody waits while a worker is free.
//! TASKS-I2: as many run, or are told to, as workers are taken.
//! TASKS-I3: a level that waits is given its share of the time: with weights `w`, after a total of
//! `t` it has had `t · w / Σw`, but for what one task runs at a time.
//! TASKS-I4: in a level no task runs before one that waits of a query that came before.
//! Source: [StrideSched95 §2], [TaskSched21 §3], where priorities decay with the use. We differ:
//! levels have shares, not queries, else many long ones would have as many times a short one's.

use std::collections::BTreeMap;

/// Names a query.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct QueryId(pub u64);

/// Names a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TaskId(pub u64);

/// Bounds.
#[derive(Clone, Debug)]
pub struct Config {
    /// Tasks that run at a time, at least 1.
    pub workers: usize,
    /// Where levels end, ascending: nanoseconds that a query has used.
    pub level_ends: Vec<u64>,
    /// How many times as much a level gets as the next one below.
    pub ratio: u64,
}

/// What a task is to do that has something to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Turn {
    /// It runs, and says [`Tasks::leave`] when it has.
    Run,
    /// It waits until another's `leave` names it.
    Wait,
}

/// All tasks that run or wait.
#[derive(Clone, Debug)]
pub struct Tasks {
    config: Config,
    /// TASKS-I2: workers that are taken.
    taken: usize,
    queries: BTreeMap<QueryId, Query>,
    levels: Vec<Level>,
    /// What the level had had that was picked last.
    clock: u64,
    /// Tasks that wait, and those that are told to run and have not begun.
    tasks: BTreeMap<TaskId, Place>,
    /// Orders those that came at the same time.
    arrivals: u64,
}

#[derive(Clone, Debug)]
struct Query {
    used_ns: u64,
    level: usize,
}

#[derive(Clone, Debug, Default)]
struct Level {
    /// What it has had, divided by its weight.
    had: u64,
    /// By query, in the order in which they came; by arrival.
    waiting: BTreeMap<(QueryId, u64), TaskId>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    Waits { level: usize, key: (QueryId, u64) },
    Called,
}

impl Tasks {
    /// No queries.
    #[must_use]
    pub fn new(config: Config) -> Self {
        let levels = vec![Level::default(); config.level_ends.len() + 1];
        Self {
            config,
            taken: 0,
            queries: BTreeMap::new(),
            levels,
            clock: 0,
            tasks: BTreeMap::new(),
            arrivals: 0,
        }
    }

    /// A query begins; numbers ascend.
    pub fn begin(&mut self, id: QueryId) {
        let query = Query {
            used_ns: 0,
            level: 0,
        };
        self.queries.insert(id, query);
    }

    /// A query has no tasks any more.
    pub fn end(&mut self, id: QueryId) {
        self.queries.remove(&id);
    }

    /// A task has something to do, or was told to run.
    ///
    /// # Panics
    /// There is no such query.
    pub fn enter(&mut self, id: QueryId, task: TaskId) -> Turn {
        match self.tasks.get(&task) {
            Some(Place::Waits { .. }) => return Turn::Wait,
            Some(Place::Called) => {
                self.tasks.remove(&task);
                return Turn::Run;
            }
            None => {}
        }
        if self.taken < self.config.workers.max(1) {
            self.taken += 1;
            return Turn::Run;
        }
        self.wait(id, task);
        Turn::Wait
    }

    fn wait(&mut self, id: QueryId, task: TaskId) {
        self.arrivals += 1;
        let query = self.queries.get(&id).expect("the query has begun");
        let level = &mut self.levels[query.level];
        if level.waiting.is_empty() {
            // What it did not want it is not owed.
            level.had = level.had.max(self.clock);
        }
        let key = (id, self.arrivals);
        level.waiting.insert(key, task);
        let level = query.level;
        self.tasks.insert(task, Place::Waits { level, key });
    }

    /// A task has run for so many nanoseconds; `again`: it has more to do at once. Gives the one
    /// that is to run in its place, which may be the same.
    ///
    /// # Panics
    /// There is no such query.
    #[must_use]
    pub fn leave(&mut self, id: QueryId, ran_ns: u64, again: Option<TaskId>) -> Option<TaskId> {
        let query = self.queries.get_mut(&id).expect("the query has begun");
        query.used_ns += ran_ns;
        // Weights are powers of the ratio, the last one's is 1.
        let below = self.config.level_ends.len() - query.level;
        let weight = (0..below).fold(1_u64, |weight, _| weight * self.config.ratio.max(1));
        self.levels[query.level].had += ran_ns / weight;
        let ends = &self.config.level_ends;
        query.level = ends.iter().filter(|end| **end <= query.used_ns).count();
        if let Some(task) = again {
            self.wait(id, task);
        }
        self.pass_on()
    }

    /// A task will not run, though it waits or was told to. Gives the one that is to run in its
    /// place.
    #[must_use]
    pub fn give_up(&mut self, task: TaskId) -> Option<TaskId> {
        match self.tasks.remove(&task)? {
            Place::Called => self.pass_on(),
            Place::Waits { level, key } => {
                self.levels[level].waiting.remove(&key);
                None
            }
        }
    }

    /// A worker is free.
    fn pass_on(&mut self) -> Option<TaskId> {
        let levels = self.levels.iter_mut();
        let waiting = levels.filter(|level| !level.waiting.is_empty());
        let Some(level) = waiting.min_by_key(|level| level.had) else {
            self.taken -= 1;
            return None;
        };
        self.clock = self.clock.max(level.had);
        let (_, task) = level.waiting.pop_first()?;
        self.tasks.insert(task, Place::Called);
        Some(task)
    }

    /// Every invariant, counted anew. For tests.
    ///
    /// # Panics
    /// An invariant is broken.
    pub fn check(&self) {
        let waiting: usize = self.levels.iter().map(|level| level.waiting.len()).sum();
        let workers = self.config.workers.max(1);
        assert!(waiting == 0 || self.taken == workers, "TASKS-I1");
        let called = self.tasks.values().filter(|place| **place == Place::Called);
        assert!(
            called.count() <= self.taken && self.taken <= workers,
            "TASKS-I2"
        );
        let places = self.tasks.values().filter(|place| **place != Place::Called);
        assert_eq!(places.count(), waiting, "what waits has a place");
    }
}
